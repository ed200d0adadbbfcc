"""The controller of Volcano Jobs: the pod group, the pods of every task, and the phase.

Each job that something has happened to is reconciled in two steps. First `transitions` decides whether the job changes
its phase; a change is only written to the status. If there is none, every other module reconciles its objects with the
written status. docs/controllers/job.md describes it in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Object
from tierwise.api.core import ConfigMap, NetworkPolicy, Pod, PriorityClass, Service, parse_time
from tierwise.api.limits import LIMIT_EXCEEDED, TOO_MANY_WAITING, WAITING, beyond
from tierwise.api.volcano import Command, Job, JobSpec, PodGroup
from tierwise.controllers.job import commands, plugins, pod_group, pods, status, transitions
from tierwise.controllers.job.controlled_resources import restarts_part
from tierwise.controllers.job.events import job_events
from tierwise.controllers.job.frameworks import KeyPair
from tierwise.controllers.job.job_pods import JobPods, PodSlot, pod_slots
from tierwise.controllers.job.phases import FINISHED
from tierwise.controllers.job.policies import PolicyAction, answered_events, policy_actions
from tierwise.controllers.workqueue import Changes, Index, Requeue, WorkQueue
from tierwise.dialects.volcano.job import defaulted, pod_group_name
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus, RecordEvent, key_of

__all__ = ["JobController", "KeySource"]

KeySource = Callable[[float], KeyPair | None]
"""A new key at a time; None where there were too many at that time, and the job is to ask again."""
_ASK_AGAIN: Final = 1.0

_NOTHING: Final[Mapping[Key, Object | None]] = {}
_PRODUCTS: Final = (PodGroup, Pod, ConfigMap, Service, NetworkPolicy)
"""What is made for jobs; its names begin with theirs."""


class JobController:
    """Reconciles the jobs to which something has happened, or whose time has come."""

    def __init__(self, keys: KeySource | None = None) -> None:
        """Without `keys` pods of jobs with the plugins ssh and mpi wait."""
        self._keys = keys
        self._pods = Index(Pod, _job_of)
        self._waiting = Index(Pod, _waits_in)
        self._full: set[str] = set()  # jobs that may make no further pods now, as too many of their namespace wait
        self._commands = Index(Command, commands.job_of)
        self._queue = WorkQueue()
        self._jobs: set[str] = set()  # all that there are
        self._priorities: Mapping[str, int] = {}  # of classes; the same object while they stay
        self._facts: dict[str, _JobFacts] = {}
        self._groups = pod_group.PodGroupSpecs()
        self._looked_at: dict[Key, tuple[object, ...]] = {}  # of every pod group, see the function of this name

    def enqueue(self, objects: Objects, changed: Changes) -> None:
        """Take note of what has changed."""
        touched = self._pods.follow(changed)
        freed = self._waiting.follow(changed)
        touched |= {path for path in self._full if path.partition("/")[0] in freed}
        if Command in changed:
            touched |= self._commands.follow(changed)
        for key, job in changed.get(Job, _NOTHING).items():
            path = key.path
            touched.add(path)
            (self._jobs.add if job is not None else self._jobs.discard)(path)
        if PriorityClass in changed:
            self._priorities = {name: class_.value for name, class_ in objects.every(PriorityClass).items()}
            touched.update(self._jobs)
        groups: dict[Key, tuple[object, ...] | None] = {}
        for kind in [kind for kind in _PRODUCTS if kind in changed]:
            for key, record in changed[kind].items():
                if kind is Pod and record is not None:
                    continue  # a job minds pods that are not its own where it waits for their names
                if kind is PodGroup:
                    seen = groups[key] = _looked_at(record)
                    if seen == self._looked_at.get(key):
                        continue
                touched.update(_namesakes(key, self._jobs))
        if touched:
            self._queue.add(touched)
        for key, seen in groups.items():
            if seen is None:
                self._looked_at.pop(key, None)
            else:
                self._looked_at[key] = seen

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        """Change the phase of each of these jobs where that is due, or bring its objects to what its status says."""
        if self._queue.idle(now):
            return []
        jobs = objects.every(Job)
        pods_made: dict[str, int] = {}  # pods, by namespace

        def bring(case: _Case, due: float | None) -> Requeue:
            namespace = case.job.metadata.namespace or "default"
            room = WAITING - len(self._waiting.of(namespace)) - pods_made.get(namespace, 0)
            effects = list(_bring(objects, case, self._groups, self._priorities, now, room))
            new = sum(isinstance(effect, Create) and effect.raw["kind"] == "Pod" for effect in effects)
            pods_made[namespace] = pods_made.get(namespace, 0) + new
            return self._told_once(key_of(case.job).path, effects), due

        def one(path: str) -> Requeue:
            job = jobs.get(path)
            if job is None or job.metadata.deletion_timestamp:
                self._facts.pop(path, None)
                self._groups.forget(path)
                return (), None
            facts = self._facts_of(path, job)
            if facts.refused:
                return _refused(job, facts.refused), None
            case = self._case(objects, path, job, facts)
            due = _due(case) if facts.minds_time else None
            change = _change(objects, case, now)
            if change is None and self._keys is not None and case.job_pods.wanted and plugins.lacks_key(case.job):
                key = plugins.make_key(case.job, partial(self._keys, now))
                return key, due if key else now + _ASK_AGAIN
            return bring(case, due) if change is None else (change, due)

        return self._queue.run(now, one)

    def _told_once(self, path: str, effects: list[Effect]) -> list[Effect]:
        """Effects for a job, without the event about too many waiting pods if it was sent already."""
        warnings = [e for e in effects if isinstance(e, RecordEvent) and e.reason == TOO_MANY_WAITING]
        was_told = path in self._full
        (self._full.add if warnings else self._full.discard)(path)
        if warnings and was_told:
            return [effect for effect in effects if effect not in warnings]
        return effects

    def due(self, objects: Objects) -> float | None:
        """The next moment at which time alone gives a job something to do; None where no timer runs."""
        for path in self._queue.waiting():
            job = objects.every(Job).get(path)
            due = None
            if job is not None and not job.metadata.deletion_timestamp:
                facts = self._facts_of(path, job)
                if facts.minds_time and not facts.refused:
                    due = _due(self._case(objects, path, job, facts))
            self._queue.after(path, due)
        return self._queue.due()

    def _facts_of(self, path: str, job: Job) -> _JobFacts:
        facts = self._facts.get(path)
        if facts is None or facts.declared is not job.spec:
            facts = self._facts[path] = _JobFacts.of(job)
        return facts

    def _case(self, objects: Objects, path: str, declared: Job, facts: _JobFacts) -> _Case:
        job = replace(declared, spec=facts.spec)
        pods_of_job = self._pods[path]
        group = objects.every(PodGroup).get(f"{facts.key.namespace}/{pod_group_name(job)}")
        raw = objects.raw(facts.key) or {}
        job_pods = JobPods.of(job, pods_of_job, facts.slots)
        answers: Sequence[PolicyAction] = ()
        if facts.answered and job_pods.wanted:
            answers = tuple(policy_actions(job, job_events(job, group, job_pods, facts.answered)))
        ordered = commands.in_order(self._commands[path]) if path in self._commands else ()
        return _Case(job, raw, group, pods_of_job, job_pods, ordered, answers)


class _JobFacts(msgspec.Struct, frozen=True):
    """Facts that follow from a job's spec alone; kept while the spec is the same object."""

    key: Key
    declared: JobSpec
    spec: JobSpec  # with its defaults filled in
    slots: Mapping[str, PodSlot]
    refused: str  # what is beyond a limit
    answered: frozenset[str]  # the events that its policies may answer
    minds_time: bool

    @classmethod
    def of(cls, job: Job) -> _JobFacts:
        refused = next(beyond(job), None)
        if refused is not None:
            return cls(key_of(job), job.spec, job.spec, {}, ": ".join(refused), frozenset(), minds_time=False)
        full = defaulted(job)
        policies = (*full.spec.policies, *(policy for task in full.spec.tasks for policy in task.policies))
        timed = full.spec.ttl_seconds_after_finished is not None or any(policy.timeout for policy in policies)
        return cls(key_of(job), job.spec, full.spec, pod_slots(full), "", answered_events(policies), minds_time=timed)


def _job_of(pod: Pod) -> str | None:
    """The job of a pod by its key; a pod that something else controls is not the job's, whatever it says."""
    meta = pod.metadata
    name = meta.labels.get(pods.JOB_NAME) or meta.annotations.get(pods.JOB_NAME)
    controller = next((owner for owner in meta.owner_references if owner.controller), None)
    if not name or (controller is not None and (controller.kind, controller.name) != ("Job", name)):
        return None
    return f"{meta.namespace or 'default'}/{name}"


def _waits_in(pod: Pod) -> str | None:
    """The namespace of a pod that waits for a node."""
    if pod.spec.node_name or pod.status.ended or pod.metadata.deletion_timestamp:
        return None
    return pod.metadata.namespace or "default"


def _looked_at(group: Object | None) -> tuple[object, ...] | None:
    """All that is looked at of a pod group: neither marks nor how many of its pods the scheduler has counted."""
    if not isinstance(group, PodGroup):
        return None
    return group.spec, group.metadata.deletion_timestamp, group.status.phase, group.status.conditions


def _namesakes(key: Key, jobs: Container[str]) -> list[str]:
    """Those of the jobs that may have made an object of this name, or that want to make one."""
    names = accumulate(key.name.split("-"), "{}-{}".format)
    return [path for name in names if (path := f"{key.namespace}/{name}") in jobs]


def _refused(job: Job, message: str) -> list[Effect]:
    """Effects that tell a job that it is beyond a limit; nothing is made for it, and its pods are left alone."""
    state = job.status.state
    if (state.reason, state.message) == (LIMIT_EXCEEDED, message):
        return []
    state_fields = {"phase": state.phase or "Pending", "reason": LIMIT_EXCEEDED, "message": message}
    return [
        PatchStatus(key_of(job), {"state": state_fields}),
        RecordEvent(key_of(job), "Warning", LIMIT_EXCEEDED, message),
    ]


class _Case(msgspec.Struct, frozen=True):
    """A job with its defaults filled in, and what of the cluster is about it."""

    job: Job
    raw: Mapping[str, object]
    group: PodGroup | None
    pods: Sequence[Pod]
    job_pods: JobPods
    commands: Sequence[Command]
    answers: Sequence[PolicyAction]  # of its policies to what has happened; none once it wants no pods any more

    def group_if_any(self) -> list[PodGroup]:
        return [self.group] if self.group is not None else []


def _change(objects: Objects, case: _Case, now: float) -> list[Effect] | None:
    """The job is over and goes, or changes its phase; None where neither is due."""
    expiry = _expiry(case.job)
    if expiry is not None and expiry <= now:
        return _remove(case.job, [*case.group_if_any(), *plugins.made(objects, case.job), *case.pods])
    change = _transition(case, now)
    if change is not None:
        return status.write(case.job, case.raw, case.job_pods, change, now)
    return None


def _due(case: _Case) -> float | None:
    """When time alone gives a job something to do."""
    expiry = _expiry(case.job)
    moments = [a.due for a in case.answers if math.isfinite(a.due) and transitions.applies(case.job, a)]
    return min([*moments, expiry] if expiry is not None else moments, default=None)


def _transition(case: _Case, now: float) -> transitions.PhaseChange | None:
    """The change of phase that is due now: a command counts before a policy, and a policy before where the pods are."""
    doomed = transitions.by_retries(case.job)
    if doomed is not None:
        return doomed
    for command in case.commands:
        if not commands.is_done(case.job, command):
            return transitions.by_command(case.job, command)
    return transitions.by_policy(case.job, case.answers, now) or transitions.by_pods(
        case.job, case.group, case.job_pods
    )


def _bring(
    objects: Objects, case: _Case, groups: pod_group.PodGroupSpecs, priorities: Mapping[str, int], now: float, room: int
) -> Iterator[Effect]:
    """No change of phase is due: every module brings its objects to what the status asks for."""
    job = case.job
    group = case.group
    job_pods = case.job_pods
    every = objects.every(Pod)
    # Whatever command is left was carried out.
    yield from (Delete(key_of(command)) for command in case.commands)
    state = job.status
    restarts_whole = state.state.phase == "Restarting" and not restarts_part(
        state.controlled_resources, state.retry_count
    )
    yield from groups.reconcile(objects, job, group, priorities, wants_group=job_pods.wanted and not restarts_whole)
    yield from plugins.reconcile_owned_objects(objects, job, wants_objects=job_pods.wanted)
    yield from pods.reconcile_pods(every, job, group, job_pods, room)
    names_taken = pods.taken_names(every, job, job_pods)
    step = status.observed(job, group, job_pods, case.answers, names_taken, now)
    memory = commands.remembered(step.controlled_resources, case.commands)
    yield from status.write(job, case.raw, job_pods, step.remembering(memory), now)


# Jobs that are over are deleted after a while, where they ask for it (`ttlSecondsAfterFinished`).


def _expiry(job: Job) -> float | None:
    """When a job is to be deleted; None where it is not over, or does not ask for it."""
    ttl = job.spec.ttl_seconds_after_finished
    state = job.status.state
    if ttl is None or state.phase not in FINISHED:
        return None
    try:
        return parse_time(state.last_transition_time) + ttl
    except ValueError:
        return None


def _remove(job: Job, owned_objects: Iterable[Object]) -> list[Effect]:
    """Delete what a job made and the job itself: also without a garbage collector nothing stays behind."""
    return [Delete(key_of(record)) for record in (*owned_objects, job) if not record.metadata.deletion_timestamp]
