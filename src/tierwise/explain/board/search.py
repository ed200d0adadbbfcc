"""One search over everything that has a name: jobs, pods, nodes, domains and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.explain.board.jobs import Line
from tierwise.explain.naming import tier_label
from tierwise.model.job import Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology, Topology

__all__ = ["found_wire"]

_MOST: Final = 10
"""Hits of one kind that are told; their number counts all."""


def found_wire(snapshot: Snapshot, trees: Mapping[str, AlternateTopology], lines: Sequence[Line], text: str) -> Raw:
    """Whatever has the text in its name, by kind: names that begin with it first, then in natural order."""
    wanted = text.strip().lower()
    kinds: list[tuple[str, Iterable[str], Callable[[str], Raw]]] = []
    by_name = {line.key: line for line in lines}
    kinds.append(("job", by_name, lambda key: _job(by_name[key])))
    for title, tree in trees.items():
        named = tree.topology.name[ROOT + 1 :]
        kinds.append(("domain", named, partial(_domain, tree.topology, title if len(trees) > 1 else "")))
    row = snapshot.nodes.row
    kinds.append(("node", snapshot.nodes.names, lambda name: {"beside": _home(snapshot, row[name])}))
    kinds.append(("queue", snapshot.queues, lambda _: {}))
    tasks = {task.key: (line, task) for line, task in _tasks(snapshot, by_name)}
    kinds.append(("pod", tasks, lambda key: _pod(snapshot, *tasks[key])))
    return {"text": text, "kinds": [_hits(kind, names, tell, wanted) for kind, names, tell in kinds] if wanted else []}


def _hits(kind: str, names: Iterable[str], tell: Callable[[str], Raw], wanted: str) -> Raw:
    hits = [name for name in names if wanted in name.lower()]

    def rank(name: str) -> tuple[bool, object]:
        bare = name.rpartition("/")[2].lower()
        return not bare.startswith(wanted), natural(name)

    hits.sort(key=rank)
    return {"kind": kind, "count": len(hits), "hits": [{"name": name, **tell(name)} for name in islice(hits, _MOST)]}


def _tasks(snapshot: Snapshot, lines: dict[str, Line]) -> Iterable[tuple[Line, Task]]:
    for job in snapshot.jobs:
        line = lines.get(job.key)
        if line is not None:
            yield from ((line, task) for task in job.tasks)


def _domain(topology: Topology, fabric: str, name: str) -> Raw:
    tier = tier_label(topology, int(topology.tier[topology.index[name]]))
    return {"fabric": fabric, "beside": f"{tier}, of {fabric}" if fabric else tier}


def _job(line: Line) -> Raw:
    state = line.verdict.replace("-", " ") or "waiting" if line.waits else "running"
    return {"path": line.path, "title": line.name, "beside": f"queue {line.queue or 'none'}, {state}"}


def _pod(snapshot: Snapshot, line: Line, task: Task) -> Raw:
    where = f"on {snapshot.nodes.names[snapshot.nodes.rows[task.node]]}" if task.node >= 0 else task.status.name.lower()
    return {"path": line.path, "beside": f"{where}, job {line.name}"}


def _home(snapshot: Snapshot, row: int) -> str:
    home = int(snapshot.topology.leaf[row])
    return f"in {snapshot.topology.name[home]}" if home != ROOT else "in no domain"
