"""Replay a cycle's decisions to explain what the search of each job saw: tiers that were too tight, domains and scores.

Normal cycles do not record this. The placements are replayed in order on a fresh ledger, and before each one the
questions of the search are asked again. Equal snapshot, profile and report give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np

from tierwise.actions.diagnosis.diagnose import searched
from tierwise.actions.diagnosis.inspection import Candidates, candidates
from tierwise.actions.placement.bounds import Room, held
from tierwise.actions.placement.demand import Demand, demand
from tierwise.actions.placement.problem import parts_of, place_tasks
from tierwise.config.profile import Profile
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.report import CycleReport, Decision, PlacedTasks
from tierwise.model.job import Job, Reason, Tried
from tierwise.model.running import running_table
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.scheduler import open_cycle

__all__ = ["DecisionBasis", "GroupCounts", "after_decisions", "decision_bases"]


class GroupCounts(msgspec.Struct, frozen=True):
    """The domains of one tier, and how many of a job's sub-groups they hold."""

    tier: int
    domains: int
    best: str
    fits: int
    asked: int
    holding: int  # domains that hold all of them


class DecisionBasis(msgspec.Struct, frozen=True):
    """What a decision was based on: per tier how far the best domain came, and scores of those that hold the gang."""

    job: Job
    decision: Decision
    tried: tuple[Tried, ...] = ()
    groups: tuple[GroupCounts, ...] = ()  # instead of `tried` where a job's sub-groups are all alike
    candidates: Candidates = Candidates()


def decision_bases(
    snapshot: Snapshot, report: CycleReport, profile: Profile, job_keys: Collection[str]
) -> dict[str, DecisionBasis]:
    """The traces of the wanted jobs, by job key; only of their first decision in this cycle."""
    bases: dict[str, DecisionBasis] = {}
    if not any(decision.job.key in job_keys for decision in report.decisions):
        return bases
    current = open_cycle(snapshot, profile)
    victims = _Victims(snapshot, report)
    for decision in report.decisions:
        job = decision.job
        victims.let_go(current, decision)
        if job.key in job_keys and job.key not in bases and decision.action == "allocate":
            basis = current.attempt(job, lambda _, decision=decision: _basis(current, decision))  # type: ignore[misc]
            bases[job.key] = DecisionBasis(job, decision) if isinstance(basis, Reason) else basis
        _replay(current, decision)
    return bases


def after_decisions(
    snapshot: Snapshot,
    report: CycleReport,
    profile: Profile,
    *,
    before: Callable[[Cycle, Decision], None] = lambda _, __: None,
) -> Cycle:
    """A cycle on whose ledger all stands as the decisions of a report have left it.

    `before` is called for each decision, with all that was decided before it, and with its victims still there.
    """
    current = open_cycle(snapshot, profile)
    victims = _Victims(snapshot, report)
    for decision in report.decisions:
        before(current, decision)
        victims.let_go(current, decision)
        _replay(current, decision)
    return current


def _replay(current: Cycle, decision: Decision) -> None:
    """Put a decision on the ledger and into the report, from which rules of sets learn who stands where."""
    for placed in decision.placed:
        _stand(current, placed)
    current.ledger.linger()
    if current.sets is not None:
        current.report.decisions.append(decision)


def _basis(current: Cycle, decision: Decision) -> DecisionBasis:
    job = decision.job
    job_demand = demand(current, job)
    if not job_demand.task_groups:
        return DecisionBasis(job, decision)
    if current.snapshot.ground(job) is Ground.TREES:
        return DecisionBasis(job, decision)
    if current.pipeline.gather_options(job, job_demand.need):
        return DecisionBasis(job, decision, searched(current, job, job_demand))
    if job.shape.parted:
        groups = _groups(current, job, job_demand)
        if groups:
            return DecisionBasis(job, decision, groups=groups)
        return DecisionBasis(job, decision, searched(current, job, job_demand))
    tried = searched(current, job, job_demand)
    compared = candidates(current, job, job.subs[0]).settled(current.topology, decision)
    return DecisionBasis(job, decision, tried, candidates=compared)


def _groups(current: Cycle, job: Job, job_demand: Demand) -> tuple[GroupCounts, ...]:
    """Tier by tier how many sub-groups the best domain holds; nothing where they differ or nothing limits the job."""
    root, limit = parts_of(current, job, job_demand), current.pipeline.limit(job)
    if root is None or root.kind is None or limit is None or job.shape.nested or len(root.parts[0].bundle) > 1:
        return ()
    if any(map(current.pipeline.moving, root.shapes)):
        return ()
    topology = current.topology
    able = np.minimum(held(Room(current, Pool.FUTURE_IDLE), root.parts[0]), len(job_demand.task_groups))
    counts_by_tier = []
    for tier in sorted({int(t) for t in topology.tier.tolist() if t <= limit}):
        domains = np.flatnonzero(topology.tier == tier)
        best = int(domains[np.lexsort((topology.rank[domains], -able[domains]))[0]])
        holding = int((able[domains] >= len(job_demand.task_groups)).sum())
        counts_by_tier.append(
            GroupCounts(tier, len(domains), topology.name[best], int(able[best]), len(job_demand.task_groups), holding)
        )
    return tuple(counts_by_tier)


class _Victims:
    """The victims, by the decision that they were evicted for."""

    def __init__(self, snapshot: Snapshot, report: CycleReport) -> None:
        self._running = running_table(snapshot) if report.evictions else None
        self._left: dict[tuple[str, str], list[str]] = {}
        for eviction in report.evictions:
            if eviction.by is not None:  # what is given back is room for no job yet
                self._left.setdefault((eviction.by.key, eviction.action), []).append(eviction.task.key)

    def let_go(self, current: Cycle, decision: Decision) -> None:
        """Take the victims of a decision off the ledger."""
        keys = self._left.pop((decision.job.key, decision.action), [])
        if keys and self._running is not None:
            victims = np.array([self._running.position[key] for key in keys], dtype=np.int64)
            current.ledger.evict(self._running, victims)


def _stand(current: Cycle, placed: PlacedTasks) -> None:
    """Put placed tasks on the ledger, where those after them find them standing."""
    rows, counts = np.unique(placed.rows, return_counts=True)
    keys = {task.key for task in placed.tasks}
    job = current.snapshot.jobs[placed.sub.job_number]
    best_effort_parts = (pod_set for _, pod_set in job.best_effort_pod_sets)
    for pod_set in (*placed.sub.pod_sets, *best_effort_parts):
        if any(task.key in keys for task in pod_set.tasks):
            place_tasks(current, Ask(pod_set.shape, placed.sub, job), pod_set, (rows, counts), placed.pool)
            return
