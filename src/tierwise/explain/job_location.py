"""The innermost domain of a job and of each of its sub-groups, for JSON, status and live views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tierwise.explain.naming import sub_id
from tierwise.framework.report import Decision
from tierwise.model.job import Job, Status, Task, group_job
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["DomainLocation", "job_location"]


class DomainLocation(msgspec.Struct, frozen=True):
    """A domain with its tier; the virtual root counts as one."""

    domain: int
    name: str
    tier: int

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
    topology = snapshot.topology
    rows: dict[int, list[int]] = {}
    for sub in job.subs:
        nodes = [task.node for task in sub.tasks if task.status is Status.RUNNING and task.node >= 0 and of(task)]
        rows[sub.number] = snapshot.nodes.rows[nodes].tolist() if nodes else []
    for decision in decisions:
        for placed in decision.placed if decision.bound else ():
            rows[placed.sub.number] += placed.rows.tolist()
    subs = {sub_id(sub): _place(topology, rows[sub.number]) for sub in job.subs if sub.policy >= 0}
    for number, group in enumerate(job.inner_groups[1:], start=1):
        inside = [row for sub in group_job(job, number).subs for row in rows[sub.number]]
        subs[group.path] = _place(topology, inside)
    return JobLocation(_place(topology, [row for found in rows.values() for row in found]), subs)


def _place(topology: Topology, rows: list[int]) -> DomainLocation | None:
    if not rows:
        return None
    domain = topology.meet_span(min(rows), max(rows))
    return DomainLocation(domain, topology.name[domain], int(topology.tier[domain]))
