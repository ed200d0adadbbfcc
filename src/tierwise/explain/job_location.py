"""The innermost domain of a job and of each of its sub-groups, on the tree of their constraints: for JSON, status and
live views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tierwise.explain.naming import sub_id
from tierwise.framework.report import Decision
from tierwise.model.job import Constraint, Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["DomainLocation", "job_location"]


class DomainLocation(msgspec.Struct, frozen=True):
    """A domain with its tier; the virtual root counts as one."""

    topology: Topology  # the tree that it is part of
    domain: int

    @property
    def name(self) -> str:
        return self.topology.name[self.domain]

    @property
    def tier(self) -> int:
        return int(self.topology.tier[self.domain])

    @property
    def anywhere(self) -> bool:
        """Whether nothing tighter than the whole cluster holds it."""
        return self.domain == ROOT


class JobLocation(msgspec.Struct, frozen=True):
    """The place of a job, and of each of its sub-groups by id, at every level; None for what has no pod standing."""

    whole: DomainLocation | None
    subs: Mapping[str, DomainLocation | None]


def job_location(
    snapshot: Snapshot,
    job: Job,
    decisions: Iterable[Decision] = (),
    *,
    of: Callable[[Task], bool] = lambda _: True,
) -> JobLocation:
    """Where the job's pods stand, or some `of` them, together with those that these decisions bind."""
    rows: dict[int, list[int]] = {}
    for sub in job.subs:
        nodes = [task.node for task in sub.tasks if task.status is Status.RUNNING and task.node >= 0 and of(task)]
        rows[sub.number] = snapshot.nodes.rows[nodes].tolist() if nodes else []
    for decision in decisions:
        for placed in decision.placed if decision.bound else ():
            rows[placed.sub.number] += placed.rows.tolist()
    job_constraint = job.constraint
    subs = {
        sub_id(sub): _place(snapshot, job.policies[sub.policy].constraint or job_constraint, rows[sub.number])
        for sub in job.subs
        if sub.policy >= 0
    }
    for number, group in enumerate(job.inner_groups[1:], start=1):
        inside = [row for sub in job.group(number).subs for row in rows[sub.number]]
        subs[group.path] = _place(snapshot, group.constraint or job_constraint, inside)
    return JobLocation(_place(snapshot, job_constraint, [row for sub_rows in rows.values() for row in sub_rows]), subs)


def _place(snapshot: Snapshot, constraint: Constraint | None, rows: list[int]) -> DomainLocation | None:
    """The innermost domain around some rows, of the tree that a constraint is about."""
    if not rows:
        return None
    alternate = snapshot.alternate_topology(constraint)
    if alternate is None:
        return DomainLocation(snapshot.topology, snapshot.topology.meet_span(min(rows), max(rows)))
    return DomainLocation(alternate.topology, alternate.topology.meet_rows(alternate.positions[rows]))
