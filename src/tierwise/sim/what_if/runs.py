"""What would happen if: a cluster scheduled to the end as it is, and with some changes, and what differs.

The one function behind `tierwise what-if` and the pages. Reads no clock and does no I/O; neither the objects that it is
given nor anything outside is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.config.profile import Profile
from tierwise.explain.comparison import Comparison, Outcome, compare, comparison_wire, started
from tierwise.explain.disruption import Loss, Losses, losses_wire
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects, gang_path, lone_gang
from tierwise.scheduler.guard import Guard
from tierwise.sim.cluster import driver, rounds
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.sim.what_if.changes import Change, Scenario
from tierwise.snapshot.builder import Reader

__all__ = ["outcome_of", "prepared", "what_if", "what_if_wire"]


class WhatIf(msgspec.Struct, frozen=True):
    """The changes, the two runs, and what differs between them."""

    changes: tuple[str, ...]
    before: Rounds
    after: Rounds
    comparison: Comparison
    changed: Scenario
    restarts: tuple[Loss, ...] = ()  # jobs whose running pods the changes stop
    unit: str = ""  # of the work that these lose

    @property
    def started(self) -> set[str]:
        """Jobs that have all they need with the changes."""
        snapshot = self.after.after(self.changed.now)
        return {job.key for job in snapshot.jobs if started(snapshot, job)}

    @property
    def guards(self) -> tuple[Guard, Guard]:
        return self.before.guard, self.after.guard


def prepared(objects: Objects, profile: Profile, now: float, schedulers: frozenset[str] | None = None) -> Scenario:
    """The scenario from which changes start: controllers have made the pods of all workloads, nothing is scheduled."""
    cluster = EmbeddedCluster(objects, start=now)
    driver.reconcile(cluster, now, profile)
    return Scenario(cluster.read(), profile, now, schedulers=schedulers)


def outcome_of(
    scenario: Scenario,
    *,
    cycles: int | None = None,
    reader: Reader | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Rounds, Outcome]:
    """A scenario scheduled until nothing changes; a `reader` has read most of its objects before."""
    amend = scenario.amend if scenario.amendments else None
    history = rounds.schedule(
        scenario.objects,
        scenario.profile,
        now=scenario.now,
        cycles=cycles,
        amend=amend,
        reader=reader or scenario.reader(),
        progress=progress,
    )
    snapshot = history.after(scenario.now)
    return history, Outcome(snapshot, history.report, history.evictions, tuple(_lone(history, snapshot)))


def _lone(history: Rounds, final_snapshot: Snapshot) -> Iterator[tuple[Job, str]]:
    """Pods by themselves that some cycle has placed: once they run they only take up room."""
    keys_left = {job.key for job in final_snapshot.jobs}
    seen = {job.key: job for snapshot, _ in history.reports for job in snapshot.jobs if job.key not in keys_left}
    pods = history.cluster.read().every(Pod)
    for key, job in seen.items():
        pod = pods.get(gang_path(key)) if len(job.tasks) == 1 and key == lone_gang(job.tasks[0].key) else None
        if pod is not None and pod.spec.node_name in final_snapshot.nodes.row:
            yield job, pod.spec.node_name


def what_if(
    scenario: Scenario,
    changes: Sequence[Change],
    report_progress: Callable[[str, int], None] = lambda which, cycle: None,
    reader: Reader | None = None,
) -> WhatIf:
    """Schedule a scenario without and with changes, which are made in order; InputError where one cannot be made.

    `told` hears which of the two is at which cycle. A `reader` has read the scenario before.
    """
    changed = scenario
    for change in changes:
        changed = change.apply(changed)
    if changed.objects is not scenario.objects:
        # What controllers make of the changes belongs to them: the pods of a job that is submitted, say.
        prepared_again = prepared(changed.objects, changed.profile, changed.now)
        changed = replace(changed, objects=prepared_again.objects)
    start = scenario.snapshot()
    before, without = outcome_of(scenario, reader=reader, progress=partial(report_progress, "as it is"))
    reader_known = before.reader if changed.profile == scenario.profile else None
    after, with_changes = outcome_of(
        changed, reader=reader_known, progress=partial(report_progress, "with the changes")
    )
    comparison = compare(start, without, with_changes)
    lost = Losses(start)
    restarts = lost.of(_stopped(scenario.objects, changed.objects))
    texts = tuple(change.text for change in changes)
    return WhatIf(texts, before, after, comparison, changed, restarts, lost.unit)


def _stopped(before: Objects, after: Objects) -> list[str]:
    """Pods that run before, and that changes make wait again, or lose: those of a job that is deleted are neither."""
    pods_after = after.every(Pod)
    gone = {path for path, pod in before.every(Pod).items() if pod.spec.node_name and not pod.status.ended}
    nodes = after.every(Node)
    return [
        path
        for path, pod in before.every(Pod).items()
        if path in gone
        and (not pods_after[path].spec.node_name if path in pods_after else _emptied(nodes.get(pod.spec.node_name)))
    ]


def _emptied(node: Node | None) -> bool:
    return node is None or node.spec.unschedulable


def what_if_wire(answer: WhatIf, back: Mapping[str, str] | None = None) -> Raw:
    """The answer for programs."""
    fields = {"changes": list(answer.changes), "notes": list(answer.changed.notes)}
    return {**fields, **comparison_wire(answer.comparison), "restarts": losses_wire(answer.restarts, back)}
