"""A demand as a placement problem: the parts that a job, or an inner group of it, lacks.

Called by `solve` and by diagnosis. Reads the ledger, and changes nothing.
"""

from __future__ import annotations

from tierwise.actions.placement.choose import current_domain, previous_domain
from tierwise.actions.placement.demand import Demand, TaskGroup, counts_by_pod_set
from tierwise.actions.placement.problem import Counts, Part
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import ready_tasks, roles_count, sub_ready
from tierwise.model.job import Job, group_jobs, lacking_parts, whole_by_policy
from tierwise.model.shape import Shape

__all__ = ["parts_of", "tightness"]

_FEW = 8
"""Up to this many sub-jobs, each one's previous domain is considered; more are placed without regard to it."""


def parts_of(cycle: Cycle, job: Job, demand: Demand) -> Part | None:
    """What a demand asks for as a tree; None where too few parts of a nested job can be placed, or it is whole."""
    return _nested(cycle, job, demand) if job.inner_groups else _two_levels(cycle, job, demand)


def tightness(cycle: Cycle, task_group: TaskGroup) -> tuple[int, int]:
    """Sort key: tight limits first, then large task groups, because these have the fewest candidates."""
    limit = cycle.pipeline.limit(task_group.sub)
    return (2**62 if limit is None else limit, -task_group.need)


def _two_levels(cycle: Cycle, job: Job, demand: Demand) -> Part:
    """A job with sub-groups: it lacks tasks in all, whole sub-jobs by policy, and tasks by role."""
    ready = {sub.number: ready_tasks(cycle.ledger, sub) for sub in job.subs}
    whole = whole_by_policy(job, (ready[sub.number] >= sub.minimum for sub in job.subs))
    roles = list(job.roles) if roles_count(job) else []

    def adds(task_group: TaskGroup) -> Counts:
        counts = [task_group.need] + [0] * (len(whole) + len(roles))
        sub, before = task_group.sub, ready[task_group.sub.number]
        if sub.policy >= 0 and before < sub.minimum <= before + task_group.need:
            counts[1 + sub.policy] += 1
        for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True):
            if tasks_left.pod_set.role_number in roles:
                counts[1 + len(whole) + roles.index(tasks_left.pod_set.role_number)] += number
        return tuple(counts)

    chosen = sorted(demand.task_groups, key=lambda task_group: tightness(cycle, task_group))
    parts = tuple(_leaf(cycle, i + 1, group, adds(group)) for i, group in enumerate((*chosen, *demand.substitutes)))
    lacks = (
        job.minimum - sum(ready.values()),
        *(policy.minimum - have for policy, have in zip(job.policies, whole, strict=True)),
        *(job.roles[role] - int(cycle.ledger.role_ready[role]) for role in roles),
    )
    return Part(
        0,
        job,
        cycle.pipeline.limit(job),
        demand.tasks,
        (),
        lacks=lacks,
        parts=parts,
        chosen=len(chosen),
        optional=bool(demand.substitutes),
        kind=_kind_of_job(cycle, demand, parts),
    )


def _kind_of_job(cycle: Cycle, demand: Demand, parts: tuple[Part, ...]) -> tuple[object, ...] | None:
    """The kind of a job whose chosen sub-groups are alike; None where they are not, or may go to different places."""
    first, *others = parts[: len(demand.task_groups)]
    if first.kind is None or first.limit is None or demand.open:
        return None
    subs = [task_group.sub for task_group in demand.task_groups]
    if len(subs) <= _FEW and any(previous_domain(cycle, sub) is not None for sub in subs):
        return None
    alike = all(part.kind == first.kind for part in others) and len({(sub.policy, sub.total) for sub in subs}) == 1
    return ("job", first.kind) if alike and len({sub.number for sub in subs}) == len(subs) else None


def _nested(cycle: Cycle, job: Job, demand: Demand) -> Part | None:
    """An inner group of a nested job, the first of which is the job itself: it lacks parts."""
    number, gangs = demand.inner_group, group_jobs(job)
    lacking = lacking_parts(job, (sub_ready(cycle.ledger, sub) for sub in job.subs))
    chosen = {task_group.sub.number for task_group in demand.task_groups}
    found: list[list[tuple[bool, int, Part]]] = [[] for _ in lacking]  # whether it is a spare, its place, and the part
    for i, task_group in enumerate((*demand.task_groups, *demand.substitutes)):
        if task_group.sub.inner_group >= 0:
            spare = task_group.sub.number not in chosen
            found[task_group.sub.inner_group].append((spare, i, _leaf(cycle, i + len(lacking), task_group, (1,))))
    for i in reversed(range(number, len(lacking))):  # parts come after the groups that they are in
        if len(found[i]) >= lacking[i] > 0:
            ordered = sorted(found[i], key=lambda part: part[:2])
            part = _group(cycle, gangs[i], i, lacking[i], tuple(part for _, _, part in ordered))
            if i == number:
                return part
            found[job.inner_groups[i].parent].append((ordered[lacking[i] - 1][0], ordered[0][1], part))
    return None


def _leaf(cycle: Cycle, number: int, task_group: TaskGroup, adds: Counts) -> Part:
    limit, bundle, kind = cycle.pipeline.limit(task_group.sub), _bundle(task_group), None
    if bundle and cycle.ledger.placed_rows(task_group.sub) is None:
        shapes = tuple((shape.number, count) for shape, count in bundle)
        own = task_group.sub.number if task_group.extra else -1  # it goes where the rest of its sub-job is
        kind = ("sub-job", own, limit, adds, shapes)
    return Part(number, task_group.sub, limit, task_group.need, adds, task_group, bundle, kind=kind)


def _bundle(task_group: TaskGroup) -> tuple[tuple[Shape, int], ...]:
    """So many tasks of each pod set, where there is no choice: of one pod set, or all of several."""
    if len(task_group.remaining) == 1:
        return ((task_group.remaining[0].pod_set.shape, task_group.need),)
    bundle = tuple((tasks_left.pod_set.shape, tasks_left.left) for tasks_left in task_group.remaining)
    return bundle if sum(count for _, count in bundle) == task_group.need else ()


def _group(cycle: Cycle, gang: Job, number: int, need: int, parts: tuple[Part, ...]) -> Part:
    limit, first, kind = cycle.pipeline.limit(gang), parts[0], None
    alike = first.kind is not None and len(first.leaves[0].bundle) == 1 and len({part.kind for part in parts}) == 1
    if alike and (number == 0 or current_domain(cycle, gang) is None):
        kind = ("group", limit, need, first.kind)
    pods = sum(sorted(part.pods for part in parts)[:need])
    return Part(
        number,
        gang,
        limit,
        pods,
        (1,),
        lacks=(need,),
        parts=parts,
        chosen=need,
        optional=need < len(parts),
        kind=kind,
    )
