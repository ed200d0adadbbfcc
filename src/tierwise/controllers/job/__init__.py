"""The controller of Volcano Jobs: the pod group, the pods of every task, and the phase.

Called by `controllers.run` for each job, in two steps. First `transitions` decides whether the job changes its phase; a
change is only written to the status. If there is none, every other module reconciles its objects with the written
status. docs/controllers/job.md describes it in full.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Object
from tierwise.api.core import ConfigMap, NetworkPolicy, Pod, PriorityClass, Service
from tierwise.api.limits import LIMIT_EXCEEDED, beyond
from tierwise.api.meta import parse_time
from tierwise.api.volcano import Command, Job, PodGroup
from tierwise.controllers.job import commands, owned_objects, pod_group, pods, status, transitions
from tierwise.controllers.job.controlled_resources import restarts_part
from tierwise.controllers.job.events import job_events
from tierwise.controllers.job.job_pods import JobPods
from tierwise.controllers.job.phases import FINISHED
from tierwise.controllers.job.policies import PolicyAction, policy_actions
from tierwise.dialects.volcano.job import defaulted, pod_group_name
from tierwise.port import Delete, Effect, Objects, PatchStatus, RecordEvent, key_of

__all__ = ["READS", "due", "reconcile"]

READS: Final = (Job, PodGroup, Pod, PriorityClass, Command, ConfigMap, Service, NetworkPolicy)


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Let each job take the turn that is due, or bring its objects to where its status says it is."""
    priorities = {name: class_.value for name, class_ in objects.every(PriorityClass).items()}
    effects: list[Effect] = []
    for job in objects.every(Job).values():
        effects += _refused(job)
    for case in _cases(objects):
        expiry = _expiry(case.job)
        if expiry is not None and expiry <= now:
            effects += _remove(case.job, [*case.group_if_any(), *owned_objects.made(objects, case.job), *case.pods])
            continue
        turn = _transition(case, now)
        if turn is not None:
            effects += status.write(case.job, case.raw, case.job_pods, turn, now)
        else:
            effects += _bring(objects, case, priorities, now)
    return effects


def _refused(job: Job) -> list[Effect]:
    """What a job hears that is beyond a limit; nothing is made for it, and what it has is left alone."""
    found = next(beyond(job), None)
    if found is None or job.metadata.deletion_timestamp:
        return []
    state, message = job.status.state, ": ".join(found)
    if (state.reason, state.message) == (LIMIT_EXCEEDED, message):
        return []
    said = {"phase": state.phase or "Pending", "reason": LIMIT_EXCEEDED, "message": message}
    return [
        PatchStatus(key_of(job), {"state": said}),
        RecordEvent(key_of(job), "Warning", LIMIT_EXCEEDED, message),
    ]


def due(objects: Objects) -> float | None:
    """The next moment at which time alone gives this controller something to do; None where it has no timer running."""
    moments = []
    for case in _cases(objects, timed=True):
        expiry = _expiry(case.job)
        moments += [a.due for a in case.policy_actions() if math.isfinite(a.due) and transitions.applies(case.job, a)]
        moments += [expiry] if expiry is not None else []
    return min(moments, default=None)


class _Case(msgspec.Struct, frozen=True):
    """A job with its defaults filled in, and what of the cluster is about it."""

    job: Job
    raw: Mapping[str, object]
    group: PodGroup | None
    pods: Sequence[Pod]
    job_pods: JobPods
    commands: Sequence[Command]

    def group_if_any(self) -> list[PodGroup]:
        return [self.group] if self.group is not None else []

    def policy_actions(self) -> list[PolicyAction]:
        """What the policies say to what has happened; nothing is asked once the job wants no pods any more."""
        if not self.job_pods.wanted or not _has_policies(self.job):
            return []
        return list(policy_actions(self.job, job_events(self.job, self.group, self.job_pods)))


def _transition(case: _Case, now: float) -> transitions.PhaseChange | None:
    """The turn that a job takes now: a command counts before a policy, and a policy before where the pods are."""
    doomed = transitions.by_retries(case.job)
    if doomed is not None:
        return doomed
    for command in case.commands:
        if not commands.is_done(case.job, command):
            return transitions.by_command(case.job, command)
    return transitions.by_policy(case.job, case.policy_actions(), now) or transitions.by_pods(
        case.job, case.group, case.job_pods
    )


def _bring(objects: Objects, case: _Case, priorities: Mapping[str, int], now: float) -> Iterator[Effect]:
    """No turn is due: every module brings its objects to what the status asks for."""
    job, group, job_pods = case.job, case.group, case.job_pods
    # Whatever command is left was carried out.
    yield from (Delete(key_of(command)) for command in case.commands)
    state = job.status
    anew = state.state.phase == "Restarting" and not restarts_part(state.controlled_resources, state.retry_count)
    yield from pod_group.reconcile_pod_group(objects, job, group, priorities, wanted=job_pods.wanted and not anew)
    yield from owned_objects.reconcile_owned_objects(objects, job, wanted=job_pods.wanted)
    yield from pods.reconcile_pods(objects.every(Pod), job, group, job_pods)
    step = status.observed(job, group, job_pods, case.policy_actions(), now)
    memory = commands.remembered(step.controlled_resources, case.commands)
    yield from status.write(job, case.raw, job_pods, step.remembering(memory), now)


def _cases(objects: Objects, *, timed: bool = False) -> Iterator[_Case]:
    """Every job that is not on its way out; of those, perhaps only such as have something to do with time."""
    jobs = {path: job for path, job in objects.every(Job).items() if not timed or _minds_time(job)}
    if not jobs:
        return
    groups, owned = objects.every(PodGroup), _pods_by_job(objects.every(Pod))
    asked = commands.by_job(objects.every(Command))
    for path, declared in jobs.items():
        if declared.metadata.deletion_timestamp or any(beyond(declared)):
            continue
        job = defaulted(declared)
        own = owned.get(path, ())
        group = groups.get(f"{path.partition('/')[0]}/{pod_group_name(job)}")
        raw = objects.raw(key_of(declared)) or {}
        yield _Case(job, raw, group, own, JobPods.of(job, own), asked.get(path, ()))


def _minds_time(job: Job) -> bool:
    policies = (*job.spec.policies, *(policy for task in job.spec.tasks for policy in task.policies))
    return job.spec.ttl_seconds_after_finished is not None or any(policy.timeout for policy in policies)


def _has_policies(job: Job) -> bool:
    return bool(job.spec.policies) or any(task.policies for task in job.spec.tasks)


def _pods_by_job(every: Mapping[str, Pod]) -> dict[str, list[Pod]]:
    """The pods of each job, by the job's key; a pod that something else controls is not the job's, whatever it says."""
    found: dict[str, list[Pod]] = {}
    for path, pod in every.items():
        meta = pod.metadata
        name = meta.labels.get(pods.JOB_NAME) or meta.annotations.get(pods.JOB_NAME)
        controller = next((owner for owner in meta.owner_references if owner.controller), None)
        if name and (controller is None or (controller.kind, controller.name) == ("Job", name)):
            found.setdefault(f"{path.partition('/')[0]}/{name}", []).append(pod)
    return found


# Jobs that are over are deleted after a while, where they ask for it (`ttlSecondsAfterFinished`).


def _expiry(job: Job) -> float | None:
    """When a job is to be deleted; None where it is not over, or does not ask for it."""
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl is None or state.phase not in FINISHED:
        return None
    try:
        return parse_time(state.last_transition_time) + ttl
    except ValueError:
        return None


def _remove(job: Job, made: Iterable[Object]) -> list[Effect]:
    """Delete what a job made and the job itself: where nobody collects what lost its owner, nothing stays behind."""
    return [Delete(key_of(record)) for record in (*made, job) if not record.metadata.deletion_timestamp]
