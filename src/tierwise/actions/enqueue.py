"""enqueue: move pending podGroups to phase Inqueue if no plugin objects; their pods are created only then.

A profile without this action admits every job whose queue exists and is open (`promote`), because controllers create
the pods of a job only after its podGroup has left phase Pending.
"""

from __future__ import annotations

from msgspec.structs import replace

from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import stands_in_part
from tierwise.model.job import Constraint, Job, Named, Phase, Queue, Reason, Rejection, namespace_of
from tierwise.model.snapshot import Ground
from tierwise.model.topology import is_fabric

__all__ = ["admission_reason", "enqueue", "incomplete", "promote", "queue_reason"]


# Why a job must not be tried now: its queue, its phase, or a plugin's gate. Asked by every action that places.


def incomplete(job: Job) -> Reason:
    """That what is left of a job are parts with too few pods."""
    text = f"too few pods of its {job.joint_word()} exist to make it whole"
    return Reason("SubGroupIncomplete", "gang", text)


_UNCONFINED = Reason(
    "NotSupported", "profile", "its pods must be near each other, and the profile has no network-topology-aware"
)
_UNPREPARED = Reason("NotSupported", "profile", "its pods claim devices, and the profile has no predicates")
_NOT_ENQUEUED = Reason("NotEnqueued", "enqueue", "it has not left phase Pending")


def admission_reason(cycle: Cycle, job: Job) -> Reason | None:
    """The first thing that keeps a job out."""
    passing = cycle.snapshot.paused.get(job.key) or cycle.crowded.get(job.key)
    if passing is not None:
        return passing
    if job.unsupported:
        return Reason("NotSupported", "pod", job.unsupported)
    if job.unready:
        return Reason("ClaimNotReady", "predicates", job.unready)
    if job.refusal is not None:
        return job.refusal
    if job.missing:
        text = f"its gang group is not whole: gang {', '.join(job.missing)} does not exist"
        missing_gangs = tuple(Named(namespace_of(name), name, "of another namespace") for name in job.missing)
        return Reason("GangGroupIncomplete", "coscheduling", text, missing_gangs)
    of_sets = cycle.sets.refusal(job) if cycle.sets is not None else None
    if of_sets is not None:
        return of_sets
    devices = cycle.snapshot.devices is not None and not cycle.pipeline.before_bind
    if devices and any(task.shape.devices is not None for task in job.tasks):
        return _UNPREPARED
    closed = queue_reason(cycle, job)
    if closed is not None:
        return closed
    if job.phase is Phase.PENDING and job.key not in cycle.report.phases:
        rejection = cycle.report.rejections.get(job.key)
        return rejection.reason if rejection is not None else _NOT_ENQUEUED
    unconfined = not _confined(cycle, job)
    return cycle.pipeline.admit(job) or (_UNCONFINED if unconfined else None)


def _confined(cycle: Cycle, job: Job) -> bool:
    """Whether the hard limits of a gang, if it has any, are minded by a plugin: what no plugin minds must not pass.

    Those of Volcano's podGroups on the tree of their language are an exception: without the plugin there are none.
    """
    if cycle.snapshot.ground(job) is Ground.TREES:
        plain = replace(job, constraint=Constraint(hard=False, kind=cycle.snapshot.kind))
        return cycle.pipeline.limit(plain) is not None  # who minds such a constraint minds all of them
    if job.declared_by is None and (job.constraint is None or not is_fabric(job.constraint.kind)):
        return True
    if job.constraint is None or not job.constraint.hard or cycle.pipeline.limit(job) is not None:
        return True
    return bool(cycle.pipeline.gather_options(job, 1)) or not cycle.snapshot.knows(job.constraint)


def queue_reason(cycle: Cycle, job: Job) -> Reason | None:
    """Whether its queue is there and open."""
    queue = cycle.snapshot.queues.get(job.queue)
    if queue is None:
        return Reason("QueueNotFound", "queue", f"its queue {job.queue} does not exist")
    if not queue.open:
        return Reason("QueueClosed", "queue", f"its queue {job.queue} is not open")
    around: list[str] = []
    above: Queue | None = queue
    while above is not None and above.name not in around:
        if above.held:
            return Reason("Held", "hold", f"its queue {above.name} is held: {above.held}")
        around.append(above.name)
        above = cycle.snapshot.queues.get(above.parent or above.enclosing)
    return None


def enqueue(cycle: Cycle, *, heads: bool = False) -> None:
    """Move jobs from Pending to Inqueue, in queue and job order; those without an open queue are refused first.

    With `heads`, the first job of a queue is let in whatever gates say of the room of now: what it needs is reserved
    for it, which is impossible for a job that has no pods.
    """
    waiting = _of_open_queues(cycle)
    first_by_queue = _heads(cycle) if heads and waiting else {}
    if cycle.pipeline.gates_enqueue:
        waiting.sort(key=lambda job: _key(cycle, job))
    for job in waiting:
        reason = cycle.pipeline.may_enqueue(job)
        if reason is not None and stands_in_part(cycle.ledger, job):
            reason = None  # it holds room already, which its rest alone puts to use
        if reason is not None and first_by_queue.get(job.queue) is job:
            reason = None
        if reason is None:
            cycle.report.phases[job.key] = Phase.INQUEUE
        else:
            _refuse(cycle, job, reason)


def _heads(cycle: Cycle) -> dict[str, Job]:
    """By queue, the first of the jobs that wait for their minimum and would fit an empty cluster."""
    first_by_queue: dict[str, Job] = {}
    for job in cycle.snapshot.unsettled:
        waits = job.phase in (Phase.PENDING, Phase.INQUEUE) and not stands_in_part(cycle.ledger, job)
        if not waits or (job.tasks and not cycle.backlog.some_left(job)) or not _may_ever_fit(cycle, job):
            continue
        before = first_by_queue.get(job.queue)
        if before is None or cycle.pipeline.job_key(job) < cycle.pipeline.job_key(before):
            first_by_queue[job.queue] = job
    return first_by_queue


def _may_ever_fit(cycle: Cycle, job: Job) -> bool:
    """Whether a job's minResources are within its queue's capability and the cluster."""
    minimum, queue = job.min_resources, cycle.snapshot.queues.get(job.queue)
    if minimum is None or queue is None:
        return queue is not None
    index = cycle.view.axis.index
    capabilities = ((index[name], amount) for name, amount in queue.capability.items() if name in index)
    return all(minimum[r] <= amount for r, amount in capabilities) and cycle.pipeline.never_fits(job, minimum) is None


def promote(cycle: Cycle) -> None:
    """Let in every job of an open queue, whether or not its pods exist yet; the others hear why not."""
    cycle.report.phases.update((job.key, Phase.INQUEUE) for job in _of_open_queues(cycle))


def _of_open_queues(cycle: Cycle) -> list[Job]:
    """The jobs in phase Pending whose queue is there and open; the others are refused."""
    pending, gates, queues = [], cycle.refusals.gates, cycle.snapshot.queues
    for job in cycle.snapshot.unsettled:
        if job.phase is not Phase.PENDING:
            continue
        queue = queues.get(job.queue)
        if queue is not None and queue.open:
            pending.append(job)
        elif (gate_refusal := gates.get(job.key)) is not None:
            cycle.report.reject(job, gate_refusal)
        elif (closed := queue_reason(cycle, job)) is not None:
            _refuse(cycle, job, closed)
    return pending


def _refuse(cycle: Cycle, job: Job, reason: Reason) -> None:
    """Say why a job stays Pending; one whose pods all have a node already waits for nothing.

    A refusal there would turn its phase to Unknown, and the cycle after it, which refuses no Unknown job, back again.
    """
    if cycle.backlog.some_left(job) or job.best_effort_pod_sets or not job.tasks:
        cycle.report.reject(job, Rejection("enqueue", job.key, reason))


def _key(cycle: Cycle, job: Job) -> tuple[object, ...]:
    return cycle.pipeline.queue_key(cycle.snapshot.queues[job.queue]), cycle.pipeline.job_key(job)
