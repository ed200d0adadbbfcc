"""What cycles decide in a scene, in one line, and what is better or worse about another decision.

A line has the scene's name, a hash, the measures and the decision, parted by tabs. A decision lists `+node=pods` that
were bound, `~node=pods` nominated, `-pod<job:action` evicted, `?group:verdict:reason` refused (`*n` where several pods
are), and `!code` complaints; prose is left out, so that a sentence may change and a decision may not.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from tests.digest.scenes import Case

from tierwise.api.errors import InputError
from tierwise.api.natural import natural
from tierwise.explain.wire import pending_wire
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, InnerGroup, Job, Policy, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology
from tierwise.sim.cluster.rounds import Rounds, schedule

__all__ = ["Change", "Line", "Measure", "Measures", "changes", "decided", "read_lines"]


class Measure(msgspec.Struct, frozen=True, array_like=True):
    """How well a gang stands: what comes first counts first."""

    bound: int
    nominated: int
    tiers: tuple[int, ...]  # of the innermost domain around it, in each tree that it has a limit in
    parts: int  # the same of its groups, summed up
    domains: tuple[int, ...]  # how many it touches, the outermost tier first


class Measures(msgspec.Struct, frozen=True):
    """Of all gangs that got something, and how many pods had to go."""

    gangs: dict[str, Measure] = {}
    victims: int = 0


class Line(msgspec.Struct, frozen=True):
    """A scene's decision."""

    name: str
    hash: str
    measures: Measures
    decision: str

    def __str__(self) -> str:
        told = msgspec.json.encode(self.measures).decode()
        return "\t".join((self.name, self.hash, told, self.decision))

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def placing(self) -> list[str]:
        """The part of the decision that says who stands where, and who goes."""
        return [word for word in self.decision.split() if word[0] in "+~-"]


def decided(name: str, make: Callable[[], Case]) -> Line:
    """What comes of a scene."""
    measures = Measures()
    try:
        case = make()
        history = schedule(case.objects, case.profile, now=case.now, cycles=case.cycles)
        after = history.after(case.now)
        decision = _decision(history, after)
        measures = _measures(history, after)
    except InputError:
        decision = "!InputError"
    except Exception as error:  # noqa: BLE001 - that it is raised is what the scene shows
        decision = f"!raised:{type(error).__name__}"
    return Line(name, hashlib.sha256(decision.encode()).hexdigest()[:12], measures, decision)


def _decision(history: Rounds, after: Snapshot) -> str:
    words = [f"+{node}={pods}" for node, pods in _by_node(history.bindings)]
    words += [f"~{node}={pods}" for node, pods in _by_node(_nominated(history))]
    words += sorted(f"-{e.task.key}<{e.by.key if e.by is not None else ''}:{e.action}" for e in history.evictions)
    waiting = pending_wire(after, history.report, history.nominations) if history.report is not None else []
    refused = Counter(f"?{row['podGroup'] or row['pod']}:{row['verdict']}:{row['reason']}" for row in waiting)
    words += [f"{word}*{number}" for word, number in sorted(refused.items())]
    words += [f"!{code}*{number}" for code, number in sorted(Counter(f.code for f in history.complaints()).items())]
    return " ".join(word.replace(" ", "_") for word in words)


def _nominated(history: Rounds) -> dict[str, str]:
    """The pods that some cycle had wait for a node, whatever became of them."""
    return {
        task.key: before.nodes.names[row]
        for before, report in history.reports
        for decision in report.decisions
        if not decision.bound
        for placed in decision.placed
        for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True)
    }


def _by_node(places: Mapping[str, str]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for pod, node in places.items():
        found.setdefault(node, []).append(pod.removeprefix("default/"))
    return [(node, ",".join(sorted(found[node], key=natural))) for node in sorted(found, key=natural)]


def _measures(history: Rounds, after: Snapshot) -> Measures:
    placed = {**history.nominations, **history.bindings}
    gangs = {}
    for job in after.jobs:
        got = [task.key for task in job.tasks if task.key in placed]
        if got:
            gangs[job.key] = _measure(after, job, history.nominations, sum(key in history.bindings for key in got))
    return Measures(gangs, len(history.evictions))


def _measure(after: Snapshot, job: Job, nominated: Mapping[str, str], bound: int) -> Measure:
    def rows(tasks: Iterable[Task]) -> Ints:
        names = after.nodes
        found = [names.row[nominated[task.key]] for task in tasks if task.key in nominated]
        found += [int(names.rows[task.node]) for task in tasks if task.key not in nominated and task.node >= 0]
        return np.array(sorted(row for row in found if row >= 0), dtype=np.int64)

    whole, tiers, parts, domains = rows(job.tasks), [], 0, []
    groups = [rows(sub.tasks) for sub in job.subs if len(job.subs) > 1]
    for topology, order in _trees(after, job):
        tiers.append(_tier(topology, order[whole]))
        parts += sum(_tier(topology, order[inner]) for inner in groups)
        leaves = np.unique(topology.leaf[order[whole]]).tolist()
        around = {int(d) for leaf in leaves for d in topology.chains[leaf]} - {ROOT}
        number = Counter(int(topology.tier[d]) for d in around)
        domains += [number[tier] for tier in sorted(topology.at_tier, reverse=True) if tier != topology.tier[ROOT]]
    waiting = sum(task.key in nominated for task in job.tasks)
    return Measure(bound, waiting, tuple(tiers), parts, tuple(domains))


def _tier(topology: Topology, rows: Ints) -> int:
    """That of the innermost domain around rows; 0 for one node, and for none."""
    return int(topology.tier[topology.meet_rows(rows)]) if len(set(rows.tolist())) > 1 else 0


def _trees(after: Snapshot, job: Job) -> list[tuple[Topology, Ints]]:
    """The trees in which a job has limits, each with the place of every row in its order."""
    asked: list[Constraint | None] = [job.constraint, *job.further]
    parts: tuple[Policy | InnerGroup, ...] = (*job.policies, *job.inner_groups)
    for part in parts:
        asked += [part.constraint, *part.further]
    every = np.arange(len(after.nodes))
    found: dict[int, tuple[Topology, Ints]] = {}
    for constraint in asked:
        alternate = after.alternate_topology(constraint)
        if alternate is None:
            found[-1] = after.topology, every
        else:
            order = np.empty_like(every)
            order[alternate.rows] = every
            found[id(alternate)] = alternate.topology, order
    if job.gather is not None and job.constraint is None:
        for alternate in after.alternate_topologies.values():
            order = np.empty_like(every)
            order[alternate.rows] = every
            found[id(alternate)] = alternate.topology, order
    return list(found.values())


# -- comparing


class Change(msgspec.Struct, frozen=True):
    """A scene that is decided otherwise, and what is to be said of it: `worse`, `mixed`, `better`, `moved` where no
    measure differs, `reasons` where the same pods stand on the same nodes.
    """

    name: str
    kind: str
    verdict: str
    why: str
    before: Line
    after: Line


_NAMES: Final = ("bound", "nominated", "tier", "tiers of groups", "domains")


def changes(before: Sequence[Line], after: Sequence[Line]) -> list[Change]:
    """The scenes of both that are decided otherwise."""
    old = {line.name: line for line in before}
    found = []
    for line in after:
        was = old.get(line.name)
        if was is not None and was.hash != line.hash:
            found.append(Change(line.name, line.kind, *_judged(was, line), was, line))
    return found


def _judged(before: Line, after: Line) -> tuple[str, str]:
    if before.placing == after.placing:
        old, new = before.decision.split(), after.decision.split()
        gone, come = [w for w in old if w not in new], [w for w in new if w not in old]
        return "reasons", f"{' '.join(gone)} -> {' '.join(come)}"
    ours, theirs = after.measures.gangs, before.measures.gangs
    told = [
        (gang, *difference)
        for gang in sorted({*ours, *theirs})
        if (difference := _difference(theirs.get(gang), ours.get(gang))) is not None
    ]
    better, worse = any(sign > 0 for _, sign, _ in told), any(sign < 0 for _, sign, _ in told)
    why = "; ".join(f"{gang}: {text}" for gang, _, text in told)
    victims = before.measures.victims, after.measures.victims
    if not told and victims[0] != victims[1]:
        return ("better" if victims[1] < victims[0] else "worse"), f"victims {victims[0]} -> {victims[1]}"
    return ("mixed" if better and worse else "better" if better else "worse" if worse else "moved"), why


_NOTHING: Final = Measure(0, 0, (), 0, ())


def _difference(before: Measure | None, after: Measure | None) -> tuple[int, str] | None:
    """The first measure that differs: 1 where it is better, -1 where it is worse, and both numbers."""
    for name, was, now in zip(_NAMES, _key(before or _NOTHING), _key(after or _NOTHING), strict=True):
        if was != now:
            more = name in ("bound", "nominated")
            return (1 if (now > was) == more else -1), f"{name} {_told(was)} -> {_told(now)}"
    return None


def _key(measure: Measure) -> list[tuple[int, ...]]:
    return [(measure.bound,), (measure.nominated,), measure.tiers, (measure.parts,), measure.domains]


def _told(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def read_lines(lines: Iterable[str]) -> list[Line]:
    """The lines of a file."""
    found = []
    for line in lines:
        name, own, told, decision = line.rstrip("\n").split("\t")
        found.append(Line(name, own, msgspec.json.decode(told, type=Measures), decision))
    return found
