"""Inspect one pod when its job is served: the data that `explain` shows.

A `PodInspector` is passed to the cycle; normal cycles pass none and have no extra cost.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tierwise.actions.placement.choose import search_group
from tierwise.actions.placement.demand import Demand, TaskGroup, demand, surplus
from tierwise.actions.placement.problem import SearchResult
from tierwise.actions.placement.solve import solve
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Floats
from tierwise.model.job import Job, SubJob, Task, Tried

__all__ = ["NodeInspection", "PodInspection", "PodInspector", "score_domains"]


class NodeInspection(msgspec.Struct, frozen=True):
    """One node as the pod sees it."""

    name: str
    feasible: bool  # now, or once releases are over
    now: bool
    reasons: tuple[str, ...]
    scores: dict[str, float]
    total: float
    figures: dict[str, Mapping[str, object]] = {}  # by plugin: what its answer is made of


class PodInspection(msgspec.Struct, frozen=True):
    """What was seen: before anything of this cycle was placed for the pod's job."""

    job: Job
    sub: SubJob
    task: Task
    gradients: tuple[tuple[str, ...], ...]
    domain_scores: dict[str, float]
    nodes: tuple[NodeInspection, ...]
    fabrics: tuple[Tried, ...] = ()  # of a job on several trees: how far each of its constraints comes by itself


class PodInspector:
    """Waits for the job of one pod, looks once."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.inspection: PodInspection | None = None

    def inspect(self, cycle: Cycle, job: Job) -> None:
        """Called by an action when it serves a job."""
        if self.inspection is not None:
            return
        for sub in job.subs:
            pod_sets = (*sub.pod_sets, *(pod_set for i, pod_set in job.best_effort_pod_sets if job.subs[i] is sub))
            for task in (task for pod_set in pod_sets for task in pod_set.tasks):
                if task.key == self.pod:
                    self.inspection = self._inspect(cycle, job, sub, task)
                    return

    def _inspect(self, cycle: Cycle, job: Job, sub: SubJob, task: Task) -> PodInspection:
        gang: Job | SubJob = sub if job.policies and sub.constraint is not None else job
        names = cycle.topology.name
        groups = cycle.pipeline.gradients(gang)
        return PodInspection(
            job=job,
            sub=sub,
            task=task,
            gradients=tuple(tuple(names[d] for d in group.tolist()) for group in groups),
            domain_scores=score_domains(cycle, job, sub),
            nodes=self._nodes(cycle, Ask(task.shape, sub, job)),
            fabrics=_fabrics(cycle, job),
        )

    def _nodes(self, cycle: Cycle, ask: Ask) -> tuple[NodeInspection, ...]:
        everything = slice(0, len(cycle.nodes))
        fits = cycle.fits(ask, everything, Pool.FUTURE_IDLE)
        now = cycle.fits(ask, everything, Pool.IDLE)
        scores = cycle.pipeline.scores(ask, everything, fits)
        total = cycle.pipeline.score(ask, everything, fits)
        reasons = _reasons(cycle, ask)
        figures = cycle.pipeline.figures(ask)
        return tuple(
            NodeInspection(
                name=name,
                feasible=bool(fits[row]),
                now=bool(now[row]),
                reasons=reasons[row],
                scores=_row(scores, row) if fits[row] else {},
                total=float(total[row]),
                figures={plugin: rows[row] for plugin, rows in figures.items() if rows[row]},
            )
            for row, name in enumerate(cycle.nodes.names)
        )


def _fabrics(cycle: Cycle, job: Job) -> tuple[Tried, ...]:
    asked = demand(cycle, job) if cycle.snapshot.on_several_trees(job) else None
    if asked is None or not asked.task_groups:
        return ()
    from tierwise.actions.diagnosis.fabrics import each_by_itself  # rarely needed

    return each_by_itself(cycle, job, asked)


def _row(scores: dict[str, Floats], row: int) -> dict[str, float]:
    return {name: float(values[row]) for name, values in scores.items()}


def _reasons(cycle: Cycle, ask: Ask) -> list[tuple[str, ...]]:
    """Per node every objection, with numbers where resources are short."""
    everything = slice(0, len(cycle.nodes))
    why = cycle.fit_counts.why(ask.shape)
    moving = cycle.pipeline.why_not_now(ask.shape, everything)
    free = cycle.ledger.free(ask.shape.asked, everything, Pool.FUTURE_IDLE)
    asked = ask.shape.request[ask.shape.asked]
    names = ask.shape.names(cycle.view.axis)
    result = []
    for row in range(len(cycle.nodes)):
        reasons = [cycle.view.reasons[int(n)].text for n in (why[row], moving[row]) if n]
        for i, name in enumerate(names):
            if free[i, row] < asked[i]:
                reasons.append(cycle.shortage(name, int(asked[i]), int(free[i, row])))
        result.append(tuple(reasons))
    return result


# The scores of the domains that could hold a gang, for `explain`: those of the first gradient with a solution.


def score_domains(cycle: Cycle, job: Job, sub: SubJob) -> dict[str, float]:
    """Score by name of every domain that holds the minimum, in the first gradient that has one.

    A job's score for a domain is the sum of its sub-jobs' best scores in it.
    """
    asked = demand(cycle, job)
    whole = job.policies and sub.constraint is None and len(asked.task_groups) > 1
    task_group = None if whole else _task_group_of(cycle, job, sub, asked)
    if not whole and task_group is None:
        return {}
    gang: Job | SubJob = sub if job.policies and sub.constraint is not None else job
    for group in cycle.pipeline.gradients(gang):
        scores = ((domain, _score(cycle, job, asked, task_group, domain)) for domain in group.tolist())
        found = {cycle.topology.name[domain]: score for domain, score in scores if score is not None}
        if found:
            return found
    return {}


def _task_group_of(cycle: Cycle, job: Job, sub: SubJob, asked: Demand) -> TaskGroup | None:
    task_groups = (*asked.task_groups, *asked.substitutes, *surplus(cycle, job))
    return next((task_group for task_group in task_groups if task_group.sub is sub), None)


def _score(cycle: Cycle, job: Job, asked: Demand, task_group: TaskGroup | None, domain: int) -> float | None:
    """What the search makes of one domain, for one task group or all that is asked; nothing stays on the ledger."""
    with cycle.ledger.statement():
        found = (
            solve(cycle, job, asked, within=domain)
            if task_group is None
            else search_group(cycle, job, task_group, within=domain)
        )
    return found.score if isinstance(found, SearchResult) else None
