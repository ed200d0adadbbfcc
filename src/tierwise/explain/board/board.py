"""The board as a whole, and the details that are requested one at a time: jobs, one job, nodes, one node, a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Final, cast

import numpy as np
from msgspec import to_builtins

from tierwise.actions.diagnosis.inspection import NodeInspection, PodInspector
from tierwise.api.codec import Raw
from tierwise.api.core import Taint
from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.explain.attention import KINDS, Seen, attention, attention_wire, often_evicted
from tierwise.explain.board.account import Account
from tierwise.explain.board.fits import fits_job, fits_shape, nearly
from tierwise.explain.board.job import job_page
from tierwise.explain.board.jobs import JobQuery, Line, by_job, job_lines, jobs_wire, selected
from tierwise.explain.board.pods import BoardPod, board_pods
from tierwise.explain.board.queues import queues_wire
from tierwise.explain.board.services import services_wire
from tierwise.explain.board.tables import (
    TABLES,
    Row,
    TableQuery,
    csv_text,
    domain_rows,
    job_rows,
    node_rows,
    queue_rows,
    rows_wire,
)
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.free_slots import slots_wire
from tierwise.explain.message import decision_id
from tierwise.explain.naming import belongs_to, tier_label
from tierwise.explain.ranges import compact
from tierwise.explain.rejection_wire import work_wire
from tierwise.explain.text.schedule import Run, headline
from tierwise.explain.wire import faults_wire, problem_wire, reservation_wire, reserved_rows
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.arrays import CPU
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology, Topology
from tierwise.scheduler import open_cycle

__all__ = ["Board", "cycle_entry"]


# One cycle in a few lines: which jobs were placed where, which pods were evicted for them, how many wait, its cost.


_MOST: Final = 200
"""Decisions, and groups of evictions, that are told of; the numbers count all."""


def cycle_entry(snapshot: Snapshot, report: CycleReport, number: int, seconds: Mapping[str, float]) -> Raw:
    """A cycle for the board; `seconds` are those of its stages, where they were measured."""
    names, tiers = snapshot.topology.name, snapshot.topology.tier
    return {
        "number": number,
        "now": snapshot.now,
        "seconds": {stage: round(value, 6) for stage, value in seconds.items()},
        "work": work_wire(report),
        "placed": len(report.decisions),
        "pods": sum(decision.count() for decision in report.decisions if decision.bound),
        "evicted": len(report.evictions),
        "waiting": len(report.rejections),
        "decisions": [
            {
                "id": decision_id(snapshot.now, decision.job.key),
                "job": decision.job.key,
                "action": decision.action,
                "bound": decision.bound,
                "pods": decision.count(),
                "hyperNode": names[decision.domain] if decision.domain != ROOT else "",
                "tier": int(tiers[decision.domain]),
            }
            for decision in report.decisions[:_MOST]
        ],
        "evictions": _evictions(report.evictions)[:_MOST],
    }


def _evictions(evictions: Sequence[Eviction]) -> list[Raw]:
    """The victims of one job, grouped by preemptor and reason."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for e in evictions:
        groups.setdefault((e.job.key, e.by.key if e.by is not None else "", e.action, e.reason), []).append(e.task.key)
    return [
        {"job": job, "by": by, "action": action, "reason": reason, "pods": pods}
        for (job, by, action, reason), pods in groups.items()
    ]


def telling(entry: Raw) -> bool:
    """Whether anything was decided in a cycle."""
    return bool(entry["placed"] or entry["evicted"])


def _texts(wire: Raw, entries: str, *fields: str) -> Iterable[str]:
    """The texts in some fields of a wire's entries."""
    return [str(entry[field]) for entry in cast("list[Raw]", wire[entries]) for field in fields]


_CYCLES: Final = 20

_CONCERNS: Final = 12
"""Things of one kind to look at that are told; their number counts all."""


class Board:
    """What a page shows of one run.

    `cycles` are told instead of the run's own where they were kept; `carried_out` is False where the run only asks
    what a cycle would decide. `seen` is what the run alone cannot tell of what deserves attention.
    """

    def __init__(
        self, run: Run, cycles: Sequence[Raw] | None = None, *, carried_out: bool = True, seen: Seen | None = None
    ) -> None:
        self._run = run
        self._seen = seen
        self._tables: dict[tuple[str, int, str], Sequence[Row]] = {}
        self._cycles = cycles
        self._standing = board_pods(run, carried_out=carried_out)

    @cached_property
    def _fabric(self) -> BoardTree:
        return BoardTree(self._run.after, self._standing)

    @cached_property
    def _account(self) -> Account:
        return Account(self._run, self._fabric, self._standing)

    @cached_property
    def _by_job(self) -> dict[str, list[BoardPod]]:
        return by_job(self._standing)

    @cached_property
    def lines(self) -> list[Line]:
        """All jobs that wait or hold something."""
        return job_lines(self._run, self._by_job, self._fabric)

    def wire(self) -> Raw:
        """The first data of a page; its jobs are loaded apart."""
        run, fabric, jobs = self._run, self._fabric, self.lines
        cycles = self._told()
        return {
            "now": run.after.now,
            "outcome": headline(run).plain,
            "resources": list(fabric.resources),
            "fabrics": fabric.wire(self._account.fragmented),
            "jobs": jobs_wire(jobs),
            "queues": queues_wire(run, jobs, fabric.resources),
            "services": services_wire(run, self._standing, {line.key: line.path for line in jobs}),
            "slots": [slots_wire(run.after, tree) for tree in fabric.trees.values()],
            "account": self._account.wire(),
            "cycles": cycles,
            "names": self._names(
                key
                for cycle in cycles
                for key in (*_texts(cycle, "decisions", "job"), *_texts(cycle, "evictions", "job", "by"))
            ),
            "problems": self._problems(),
            "attention": self._attention(),
            **self._reservations(),
        }

    def _attention(self) -> Raw:
        """Things to look at first, and the meaning of each kind."""
        run = self._run
        seen = self._seen if self._seen is not None else Seen(often_evicted(report for _, report in run.reports))
        found = attention(run.after, run.last, run.profile, seen, limit=_CONCERNS)
        return {**attention_wire(found), "titles": dict(KINDS)}

    def _reservations(self) -> Raw:
        """Where jobs that wait will fit, with the domain of each tree that is around it; nothing without any."""
        run, trees = self._run, self._fabric.trees.values()
        reservations: list[Raw] = []
        for reservation in run.last.reservations:
            rows = reserved_rows(reservation)[0]
            around = [tree.topology.meet_rows(tree.positions[rows]) for tree in trees]
            reservations.append({**reservation_wire(run.after, reservation), "hyperNodes": around})
        return {"reservations": reservations} if reservations else {}

    def _told(self) -> list[Raw]:
        """The last cycles that decided something, the newest first, and the very last in any case."""
        reports = enumerate(self._run.reports, start=1)
        every = self._cycles
        if every is None:
            every = [cycle_entry(snapshot, report, number, {}) for number, (snapshot, report) in reports]
        shown = [entry for entry in every if telling(entry) or entry is every[-1]]
        return shown[-_CYCLES:][::-1]

    def _problems(self) -> list[Raw]:
        after = self._run.after
        trees = (tree.topology for tree in self._fabric.trees.values())
        problems = [problem_wire(problem) for tree in trees for problem in tree.problems]
        problems += [fault | {"severity": "warning"} for fault in faults_wire((*after.faults, *self._run.complaints))]
        return problems + [
            {
                "object": f"PodGroup {orphan.group}",
                "code": "PodGroupNotFound",
                "message": f"does not exist, and {number} pending pods name it{orphan.why and ': '}{orphan.why}",
                "severity": "error",
            }
            for orphan, number in Counter(after.orphans.values()).items()
        ]

    def _names(self, keys: Iterable[str]) -> Raw:
        """How jobs are called, and how links name them."""
        lines = {line.key: line for line in self.lines}
        return {key: [lines[key].name, lines[key].path] for key in dict.fromkeys(keys) if key in lines}

    def jobs(self, query: JobQuery) -> Raw:
        """Some of the jobs."""
        return selected(self.lines, query)

    def table(self, query: TableQuery) -> Raw:
        """Some rows of a table."""
        return rows_wire(query, self._rows(query))

    def csv(self, query: TableQuery) -> Raw:
        """All rows of a table that match, as CSV."""
        return {"csv": csv_text(query, self._rows(query))}

    def _rows(self, query: TableQuery) -> Sequence[Row]:
        """Every row of a table; InputError where there is no such table."""
        if query.table not in TABLES:
            raise InputError(f"there is no table {query.table}{suggestion(query.table, TABLES)}", field="table")
        resources = self._fabric.resources
        resource = resources.index(query.resource) if query.resource in resources else 0
        known = (query.table, resource, query.tier)
        if known not in self._tables:
            self._tables[known] = self._made_rows(query, resource)
        return self._tables[known]

    def _made_rows(self, query: TableQuery, resource: int) -> Sequence[Row]:
        run, fabric = self._run, self._fabric
        if query.table == "jobs":
            return job_rows(self.lines, fabric, resource, run.after.now)
        if query.table == "nodes":
            return node_rows(run.after, fabric, self._standing, resource)
        if query.table == "queues":
            queues = queues_wire(run, self.lines, fabric.resources)
            return queue_rows(queues, resource, 1000.0 if fabric.resources[resource] == CPU else 1.0)
        return domain_rows(run.after, run.profile, fabric, self._standing, resource, query.tier)

    def search(self, text: str) -> Raw:
        """Everything that has the text in its name."""
        return found_wire(self._run.after, self._fabric.trees, self.lines, text)

    def nodes(self, domain: str, fabric: str = "") -> Raw | None:
        """The nodes below a domain of a tree, "cluster" for all; None where there is none of this name.

        Without the name of a fabric the tree is the one that rows follow.
        """
        trees = self._fabric.trees
        tree = trees.get(fabric or next(iter(trees)))
        if tree is None:
            return None
        number = 0 if domain == "cluster" else tree.topology.index.get(domain)
        if number is None:
            return None
        rows = set(tree.rows[tree.topology.span(number)].tolist())
        jobs_of_pods = (pod.job.key for pod in self._standing if pod.row in rows)
        return {**self._fabric.nodes(tree, number, self._account.fragmented), "names": self._names(jobs_of_pods)}

    def node(self, name: str) -> Raw | None:
        """The facts of one node; None where there is none of this name."""
        row = self._run.after.nodes.row.get(name)
        if row is None:
            return None
        board_pods = [pod for pod in self._standing if pod.row == row]
        wire = node_page(self._run.after, self._fabric, board_pods, row)
        return {**wire, "names": self._names(pod.job.key for pod in board_pods)}

    def node_changes(self, marks: dict[str, bytes]) -> dict[str, Raw | None]:
        """The nodes that are others than `marks` say, which are brought up to date: as lists and pages tell of them.

        Without labels and taints; None for a node that is gone. A mark costs little, and few nodes change at a time.
        """
        after, fabric = self._run.after, self._fabric
        pods_by_row: dict[int, list[BoardPod]] = {}
        for pod in self._standing:
            pods_by_row.setdefault(pod.row, []).append(pod)
        amounts = np.ascontiguousarray(np.concatenate([fabric.used, fabric.total, self._account.fragmented]).T)
        leaves = np.stack([tree.topology.leaf[tree.positions] for tree in fabric.trees.values()], axis=1)
        changed: dict[str, Raw | None] = dict.fromkeys(marks.keys() - set(after.nodes.names))
        for name in changed:
            del marks[name]
        for row, name in enumerate(after.nodes.names):
            pods = pods_by_row.get(row, [])
            whose = "".join(f"{pod.task.key} {pod.how.value} " for pod in pods).encode()
            state = f"{fabric.state(row)} {fabric.marks(row)}".encode()
            mark = amounts[row].tobytes() + leaves[row].tobytes() + state + whose
            if marks.get(name) != mark:
                marks[name] = mark
                changed[name] = {
                    **fabric.node(row, {"fragmented": self._account.fragmented}),
                    "jobs": Counter(pod.job.key for pod in pods),
                    **pods_of_node(pods),
                }
        return changed

    def nodes_for(self, name: str) -> Raw | None:
        """The answer of every node to the pods of a job without a place; None where no such job waits."""
        job = self._job(name)
        return nodes_for_job(self._run, job) if job is not None else None

    def fits(self, shape: str, name: str = "") -> Raw | None:
        """Which domains take a shape as it was typed, or what a job waits for; None where there is no such job."""
        trees = self._fabric.trees.values()
        if not name:
            return fits_shape(self._run, trees, shape)
        job = self._job(name)
        return fits_job(self._run, trees, job) if job is not None else None

    def job(self, name: str) -> Raw | None:
        """The story of the job with this key, or of the one that people call so; None where there is none."""
        job = self._job(name)
        if job is None:
            return None
        page = job_page(self._run, job, self._by_job.get(job.key, []), self._fabric.trees)
        line = next((to_builtins(line) for line in self.lines if line.key == job.key), None)
        waits = line is not None and line["waiting"]
        nearby = nearly(self._run, job) if waits else {}
        return {**page, **nearby, "line": line, "names": self._names(_texts(page, "evictions", "by"))}

    def _job(self, name: str) -> Job | None:
        jobs = self._run.after.jobs
        exact = [job for job in jobs if job.key == name]
        matching = exact or [job for job in jobs if belongs_to(job, name)]
        return matching[0] if matching else None


# One search over everything that has a name: jobs, pods, nodes, domains and queues.


_HITS: Final = 10
"""Hits of one kind that are told; their number counts all."""


def found_wire(snapshot: Snapshot, trees: Mapping[str, AlternateTopology], lines: Sequence[Line], text: str) -> Raw:
    """Whatever has the text in its name, by kind: names that begin with it first, then in natural order."""
    needle = text.strip().lower()
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
    return {"text": text, "kinds": [_hits(kind, names, tell, needle) for kind, names, tell in kinds] if needle else []}


def _hits(kind: str, names: Iterable[str], tell: Callable[[str], Raw], needle: str) -> Raw:
    hits = [name for name in names if needle in name.lower()]

    def rank(name: str) -> tuple[bool, object]:
        bare = name.rpartition("/")[2].lower()
        return not bare.startswith(needle), natural(name)

    hits.sort(key=rank)
    return {"kind": kind, "count": len(hits), "hits": [{"name": name, **tell(name)} for name in islice(hits, _HITS)]}


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


# One node: what it has, who runs there; and what all nodes say to the pods of a job that waits.


_PODS: Final = 200
"""Pods of one node that are listed."""

_BEST: Final = 20
_REASONS: Final = 12


def node_page(snapshot: Snapshot, tree: BoardTree, board_pods: Sequence[BoardPod], row: int) -> Raw:
    """Amounts of every shown resource, labels, taints, and the pods of jobs that stand there."""
    nodes = snapshot.nodes
    return {
        **tree.node(row),
        "labels": dict(sorted(nodes.labels.of(row).items())),
        "taints": [_taint(taint) for taint in nodes.taints[nodes.taint_set[row]]],
        **pods_of_node(board_pods),
    }


def pods_of_node(board_pods: Sequence[BoardPod]) -> Raw:
    """How many pods of jobs stand on a node, and the first."""
    pods = [{"pod": pod.task.key, "job": pod.job.key, "how": pod.how.value} for pod in board_pods[:_PODS]]
    return {"count": len(board_pods), "pods": pods}


def _taint(taint: Taint) -> str:
    """As kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def nodes_for_job(run: Run, job: Job) -> Raw | None:
    """Which nodes would take a pod of the job as the cluster is now and how they score, and why the others would not.

    Asked of the first pod without a place, as `explain` asks of the pod that it is told; None where all have one.
    """
    pending = next((task for task in job.tasks if task.status is Status.PENDING), None)
    if pending is None:
        return None
    inspector = PodInspector(pending.key)
    inspector.inspect(open_cycle(run.after, run.profile), job)
    seen = inspector.inspection
    if seen is None:
        return None
    taking = sorted((n for n in seen.nodes if n.takes_it), key=lambda n: (-n.total, natural(n.name)))
    plugins = [name for name in (taking[0].scores if taking else ()) if any(n.scores[name] for n in taking)]
    reasons: dict[str, list[str]] = {}
    for node in seen.nodes:
        if not node.takes_it:
            reasons.setdefault("; ".join(node.reasons) or "no room", []).append(node.name)
    ranked = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "pod": pending.key,
        "count": len(seen.nodes),
        "taking": len(taking),
        "plugins": plugins,
        "best": [_scored(node, plugins) for node in taking[:_BEST]],
        "reasons": [
            {"reason": reason, "count": len(names), "nodes": compact(names, limit=3), "first": names[0]}
            for reason, names in ranked[:_REASONS]
        ],
        "otherReasons": max(0, len(ranked) - _REASONS),
    }


def _scored(node: NodeInspection, plugins: Sequence[str]) -> Raw:
    return {"node": node.name, "total": round(node.total, 4), "scores": [round(node.scores[p], 4) for p in plugins]}
