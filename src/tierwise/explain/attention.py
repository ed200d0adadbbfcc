"""Everything that deserves an operator's attention, each line about one job, queue, domain, namespace or certificate.

The one function behind `tierwise attention`, the first part of the page, and the metric. It looks at what a cycle saw
and decided, and schedules nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.plurals import count, verb
from tierwise.config.profile import Profile
from tierwise.explain.eta import lasting
from tierwise.explain.naming import full_name
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Status, namespace_of
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.scheduler import open_cycle

__all__ = ["KINDS", "Attention", "Concern", "Seen", "attention", "attention_wire", "often_evicted"]

KINDS: Final[Mapping[str, str]] = {
    "Overdue": "waits beyond the start that was expected",
    "EvictedOften": "evicted several times",
    "OverShare": "queue over its share while others wait",
    "BadNodes": "domain with several bad nodes",
    "SlowSearches": "namespace whose jobs are looked at late",
    "SlowWrites": "namespace whose writes have no answer",
    "CertificateEnds": "certificate about to end",
}
"""Every kind of concern in the order in which it is told, with its meaning."""

_MOST: Final = 100
"""Lines of one kind that are told; their number counts all."""

_OFTEN: Final = 3
"""Evictions of one job from which on they are several."""

_BAD: Final = 2
"""Nodes of one innermost domain that are several."""

_NAMED: Final = 4
"""Nodes that a line names."""

_SOON: Final = 14 * 86400.0
"""Seconds before its end from which on a certificate is about to end."""

_ENDLESS: Final = 2**60


class Concern(msgspec.Struct, frozen=True):
    """One thing to look at: of which kind, what it is about, and a sentence."""

    code: str  # of KINDS
    kind: str  # Job, Queue, HyperNode, Namespace or Certificate
    name: str
    text: str
    weight: float  # what is told first among those of one code
    since: float | None = None  # seconds since 1970, where that is known


class Attention(msgspec.Struct, frozen=True):
    """Result: some concerns of each kind, and how many there are of it."""

    concerns: tuple[Concern, ...]
    counts: Mapping[str, int]


class Seen(msgspec.Struct, frozen=True):
    """Facts that no snapshot tells: evictions by key of the job, slow writes by namespace, ends of certificates."""

    evicted: Mapping[str, int] = {}
    writes: Mapping[str, tuple[int, float]] = {}  # how many have no answer, and for how many seconds the oldest
    certificates: Mapping[str, float] = {}  # by name: the time at which it ends


_NOTHING: Final = Seen()


def attention(
    snapshot: Snapshot, report: CycleReport | None, profile: Profile, seen: Seen = _NOTHING, *, limit: int = _MOST
) -> Attention:
    """Things to look at, by kind and then by weight; without a report nothing is said of searches."""
    concerns: list[Concern] = []
    concerns += _overdue(snapshot)
    concerns += _evicted_often(snapshot, seen.evicted)
    concerns += _over_share(snapshot, profile)
    concerns += _bad_nodes(snapshot)
    if report is not None:
        concerns += _slow_searches(report)
    concerns += _slow_writes(seen.writes)
    concerns += _certificates(seen.certificates, snapshot.now)
    counts = Counter(concern.code for concern in concerns)
    order = list(KINDS)
    concerns.sort(key=lambda concern: (order.index(concern.code), -concern.weight, concern.name))
    count_by_code: Counter[str] = Counter()
    shown = []
    for concern in concerns:
        count_by_code[concern.code] += 1
        if count_by_code[concern.code] <= limit:
            shown.append(concern)
    return Attention(tuple(shown), {code: counts[code] for code in KINDS})


def attention_wire(result: Attention) -> Raw:
    """Concerns and counts for programs."""
    entries: list[Raw] = []
    for concern in result.concerns:
        since = {"since": format_time(concern.since)} if concern.since is not None else {}
        entries.append(
            {"code": concern.code, "kind": concern.kind, "name": concern.name, "text": concern.text, **since}
        )
    return {"concerns": entries, "counts": dict(result.counts)}


def often_evicted(reports: Iterable[CycleReport]) -> Counter[str]:
    """In how many of these cycles each job lost pods, by its key."""
    times: Counter[str] = Counter()
    for report in reports:
        times.update({eviction.job.key for eviction in report.evictions})
    return times


def _waits(job: Job) -> bool:
    return any(task.status is Status.PENDING for task in job.tasks)


def _overdue(snapshot: Snapshot) -> Iterable[Concern]:
    """Jobs that wait though the latest likely start has passed, as it was last written to them."""
    for job in snapshot.jobs:
        expected = job.expected_start
        if expected is None or expected.start is None or not _waits(job):
            continue
        latest = expected.start
        if expected.most is not None and expected.most[1] is not None:
            latest = max(latest, expected.most[1])
        late = snapshot.now - latest
        if late > 0:
            text = f"was expected to start by {format_time(latest)}, {lasting(late)} ago, and still waits"
            yield Concern("Overdue", "Job", full_name(job), text, late, latest)


def _evicted_often(snapshot: Snapshot, evicted: Mapping[str, int]) -> Iterable[Concern]:
    for job in snapshot.jobs:
        times = evicted.get(job.key, 0)
        if times >= _OFTEN:
            state = "waits" if _waits(job) else "runs again"
            yield Concern("EvictedOften", "Job", full_name(job), f"was evicted {times} times, and {state}", times)


def _over_share(snapshot: Snapshot, profile: Profile) -> Iterable[Concern]:
    """Queues that use more than they deserve while jobs of queues below their share wait."""
    waiting: Counter[str] = Counter(job.queue for job in snapshot.jobs if _waits(job))
    if len(snapshot.queues) < 2 or not waiting:
        return
    current = open_cycle(snapshot, profile)
    entitled = current.pipeline.entitled()
    if entitled is None:
        return
    shares: dict[str, float] = {}
    for name, column in current.ledger.queue_index.items():
        deserved = entitled[:, column]
        declared = (deserved > 0) & (deserved < _ENDLESS)
        if declared.any():
            shares[name] = float((current.ledger.queue_used[declared, column] / deserved[declared]).max())
    for name, share in shares.items():
        waiting_jobs = sum(
            number for queue, number in waiting.items() if queue != name and shares.get(queue, 0.0) < 1.0
        )
        if share > 1.0 and waiting_jobs:
            wait = f"{count(waiting_jobs, 'job')} of queues below theirs {verb(waiting_jobs, 'waits', 'wait')}"
            text = f"uses {share:.2f} times its share while {wait}"
            yield Concern("OverShare", "Queue", name, text, share)


def _bad_nodes(snapshot: Snapshot) -> Iterable[Concern]:
    """Innermost domains of which several nodes are not ready, unhealthy or suspected."""
    nodes = snapshot.nodes
    lost = LostNodes(nodes)
    bad = lost.down
    memory = snapshot.start_memory
    if memory is not None:
        suspected = memory.at(snapshot.jobs, snapshot.now).suspected
        bad[[nodes.row[name] for name in suspected if name in nodes.row]] = True
    topology = snapshot.topology
    rows = np.flatnonzero(bad)
    leaves, numbers = np.unique(topology.leaf[rows], return_counts=True)
    every = np.bincount(topology.leaf[: len(nodes)], minlength=len(topology.name))
    for leaf, number in zip(leaves.tolist(), numbers.tolist(), strict=True):
        if leaf == ROOT or number < _BAD:
            continue
        names = [nodes.names[row] for row in rows[topology.leaf[rows] == leaf].tolist()]
        node_list = ", ".join(islice(names, _NAMED)) + (" …" if number > _NAMED else "")
        share_of_nodes = f"{number} of its {int(every[leaf])} nodes"
        text = f"{share_of_nodes} are not ready, unhealthy or suspected: {node_list}"
        yield Concern("BadNodes", "HyperNode", topology.name[leaf], text, number)


def _slow_searches(report: CycleReport) -> Iterable[Concern]:
    """Namespaces with jobs that several cycles have not come to, since searches draw on one account."""
    turns = report.turns
    late: dict[str, list[int]] = {}
    for key, first in turns.late.items():
        late.setdefault(namespace_of(key), []).append(turns.cycles - first)
    for namespace, cycles in late.items():
        text = f"{count(len(cycles), 'job')} not looked at for up to {count(max(cycles), 'cycle')}"
        yield Concern("SlowSearches", "Namespace", namespace, text, max(cycles))


def _slow_writes(writes: Mapping[str, tuple[int, float]]) -> Iterable[Concern]:
    for namespace, (number, seconds) in writes.items():
        text = f"{count(number, 'write')} without an answer, the oldest for {lasting(seconds)}"
        yield Concern("SlowWrites", "Namespace", namespace, text, seconds)


def _certificates(ends: Mapping[str, float], now: float) -> Iterable[Concern]:
    for name, end in ends.items():
        left = end - now
        if left < _SOON:
            text = f"ends in {lasting(left)}" if left > 0 else f"ended {lasting(-left)} ago"
            yield Concern("CertificateEnds", "Certificate", name, f"{text}, at {format_time(end)}", -left, end)
