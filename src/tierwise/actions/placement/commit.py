"""Turn placements into a decision: assign rows to concrete tasks in rank order, and add the decision to the report.

Called by every action that places tasks, once the search has succeeded. It changes the backlog and the report; on the
ledger it notes who will not start in this cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tierwise.actions.placement.problem import Placement
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Proposal
from tierwise.framework.ledger import Pool
from tierwise.framework.report import Decision, PlacedTasks, Term
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Rejection, Task
from tierwise.model.ranks import laid_out, near_homes, rank_homes
from tierwise.model.topology import ROOT

__all__ = ["commit", "commit_each", "commit_surplus"]

_WAITS = Reason("WaitsForGang", "gang", "its gang waits for room that is still being released")


def commit(
    cycle: Cycle,
    job: Job,
    placements: Iterable[Placement],
    *,
    action: str,
    score: float,
    bound: bool,
    proposed: Proposal | Abstained | None = None,
    terms: tuple[Term, ...] = (),
) -> None:
    """Add the decision to the report. If the gang is only nominated, its other tasks wait until it is bound."""
    placed = []
    for placement in placements:
        if not bound and placement.pool is Pool.IDLE:
            cycle.ledger.expect(placement.pod_set.shape, *np.unique(placement.rows, return_counts=True))
        tasks = cycle.backlog.pop(placement.pod_set, len(placement.rows))
        placed.append(PlacedTasks(placement.sub, tasks, _by_rank(cycle, job, placement, tasks), placement.pool))
    around = cycle.current_domain(job)
    where = ROOT if around is None else around
    _decide(cycle, [Decision(job, action, where, tuple(placed), bound, score, proposed, terms)])
    if bound:
        return
    cycle.backlog.nominate(job)
    if cycle.backlog.some_left(job):
        cycle.report.reject(job, Rejection("fit", job.key, _WAITS))


def commit_each(cycle: Cycle, jobs: Sequence[Job], rows: Ints) -> None:
    """Add the decisions of allocate about plain pods, each of which is bound to the row beside it."""
    domains = cycle.topology.leaf[rows].tolist()
    decisions = []
    for i, job in enumerate(jobs):
        sub = job.subs[0]
        placed = PlacedTasks(sub, sub.pod_sets[0].tasks, rows[i : i + 1], Pool.IDLE)
        decisions.append(Decision(job, "allocate", domains[i], (placed,), bound=True))
    cycle.backlog.pop_all([job.subs[0].pod_sets[0] for job in jobs])
    _decide(cycle, decisions)


def commit_surplus(cycle: Cycle, job: Job, placement: Placement, before: tuple[int, int] | None) -> None:
    """Add a decision for each task of a placement, in the order of its rows; the job stood in this span before."""
    low, high = before if before is not None else (int(placement.rows[0]), int(placement.rows[0]))
    decisions = []
    for i, task in enumerate(cycle.backlog.pop(placement.pod_set, len(placement.rows))):
        rows = placement.rows[i : i + 1]
        low = min(low, int(rows[0]))
        high = max(high, int(rows[0]))
        placed = PlacedTasks(placement.sub, (task,), rows, placement.pool)
        decisions.append(Decision(job, "allocate", cycle.topology.meet_span(low, high), (placed,), bound=True))
    _decide(cycle, decisions)


def _decide(cycle: Cycle, decisions: Sequence[Decision]) -> None:
    """Add decisions to the report, and note whose volume is made for another node than its own.

    Such a pod is held against the volume once that is there and may have to go elsewhere; its place counts then.
    """
    cycle.report.decide(decisions)
    names = cycle.nodes.names
    for decision in decisions:
        for placed in decision.placed if decision.bound else ():
            volumes = placed.tasks[0].shape.volumes if placed.tasks else None
            if volumes is None or not volumes.wanted:
                continue  # as most pods
            for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                waited = [claim for claim in task.volume_claims if not claim.volume]
                made_for = [cycle.volumes_for.setdefault(claim.key, claim.chosen or names[row]) for claim in waited]
                if any(node != names[row] for node in made_for):
                    cycle.ledger.expect(task.shape, np.array([row]), np.array([1]))


def _by_rank(cycle: Cycle, job: Job, placement: Placement, tasks: Sequence[Task]) -> Ints:
    """The rows of a placement in rank order; a pod set that is placed in several parts stays in tree order.

    Where others of the gang run, each task comes near its neighbours among them.
    """
    homes = rank_homes(cycle.topology, cycle.nodes, job, [task.key for task in tasks]) if job.ranks else None
    if homes is not None:
        return near_homes(cycle.topology, [homes[task.key] for task in tasks], placement.rows)
    if job.pattern is None or len(placement.rows) < len(placement.pod_set.tasks):
        return placement.rows
    return laid_out(cycle.topology, placement.rows, job.pattern)
