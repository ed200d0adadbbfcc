"""What a cycle means for groups of the other languages: each has a status of its own, written as its users know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tierwise.api.codec import Object, Raw, part
from tierwise.api.core import ObjectMeta, Pod
from tierwise.api.grove import PodGang
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.workload import CompositePodGroup, PodGroup, Workload
from tierwise.controllers.stamp import stamp
from tierwise.dialects.grove.pod_gang import SCHEDULED as GANG_SCHEDULED
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.kai.pod_group import STARTED
from tierwise.dialects.koordinator.gangs import gang_object
from tierwise.dialects.kubernetes.pod_groups import COMPOSITE_SCHEDULED, DEEPEST, SCHEDULED
from tierwise.explain.message import message
from tierwise.explain.wire import pod_groups_of
from tierwise.model.job import Job, Phase
from tierwise.port import Effect, Key, Objects, PatchStatus, RecordEvent
from tierwise.status.conditions import READY, GangOutcome, reservation_mark

__all__ = ["of_kai", "of_kubernetes", "of_plugin_group"]

# What a cycle means for Koordinator's pod groups: they have phases of their own, and no conditions.


MESSAGE_ANNOTATION: Final = "tierwise.io/unschedulable"
_PHASES: Final = {
    Phase.PENDING: "Pending",
    Phase.INQUEUE: "Pending",
    Phase.RUNNING: "Running",
    Phase.UNKNOWN: "Unknown",
    Phase.COMPLETED: "Finished",
}


def of_gangs(outcome: GangOutcome) -> Iterator[Effect]:
    """The status of each gang of a job that has an object, and events about it: the phase, the message as a mark."""
    for path in pod_groups_of(outcome.job):
        gang_and_key = gang_object(outcome.objects, path)
        if gang_and_key is None:
            continue
        key, gang = gang_and_key
        phase = _PHASES[outcome.phase]
        events, marks = told(outcome, key, gang.metadata)
        yield from events
        status: Raw = {"phase": phase} if gang.status.phase != phase else {}
        if status or marks:
            yield PatchStatus(key, status, marks)


def told(outcome: GangOutcome, key: Key, meta: ObjectMeta) -> tuple[list[Effect], dict[str, str]]:
    """News about a group whose status has no place for a message: events, and annotations that keep it."""
    rejection = outcome.rejection
    bound = outcome.bound
    decision = outcome.decision
    text = f"{rejection.verdict.words}: {message(rejection, key.namespace)}" if rejection is not None else ""
    known = meta.annotations.get(MESSAGE_ANNOTATION, "")
    events: list[Effect] = []
    if rejection is not None and text != known:
        events.append(RecordEvent(key, "Warning", rejection.reason.code, text, decision))
    elif bound and rejection is None:
        events.append(RecordEvent(key, "Normal", "Scheduled", READY, decision))
    mark = {MESSAGE_ANNOTATION: text} if text != known else {}
    return events, mark | reservation_mark(meta.annotations, outcome.reserved)


# scheduling.x-k8s.io: the phase and the counts that the controller of these groups writes.


def of_plugin_group(outcome: GangOutcome) -> Iterator[Effect]:
    """The status of a PodGroup of scheduling.x-k8s.io, and events about it."""
    key, record = _declared(outcome) or (None, None)
    if key is None or not isinstance(record, PluginGroup):
        return
    events, marks = told(outcome, key, record.metadata)
    yield from events
    status = _counts(outcome.objects, outcome.job, record)
    if status or marks:
        yield PatchStatus(key, status, marks)


def _declared(outcome: GangOutcome) -> tuple[Key, Object] | None:
    """The object that declares a job; None where it is gone."""
    key = outcome.job.declared_by
    record = outcome.objects.record(key) if key is not None else None
    if key is not None and record is not None:
        return (key, record)
    return None


def _counts(objects: Objects, job: Job, record: PluginGroup) -> Raw:
    """The fields that differ; a group that has finished or failed stays so, whatever becomes of its pods."""
    status = record.status
    if status.phase in ("Finished", "Failed"):
        return {}
    pods = objects.every(Pod)
    pods_of_job = [pods[task.key] for task in job.tasks if task.key in pods]
    phases = Counter(pod.status.phase for pod in pods_of_job)
    running = phases["Running"]
    succeeded = phases["Succeeded"]
    failed = phases["Failed"]
    phase = _phase(max(record.spec.min_member, 1), len(pods_of_job), running, succeeded, failed)
    counts: Raw = {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
    if phase != "Pending" and not status.occupied_by and pods_of_job and pods_of_job[0].metadata.owner_references:
        namespace = record.metadata.namespace or "default"
        owners = (f"{namespace}/{owner.name}" for owner in pods_of_job[0].metadata.owner_references)
        counts["occupiedBy"] = ",".join(sorted(owners))
    old_counts = {
        "phase": status.phase,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    return {field: value for field, value in counts.items() if old_counts.get(field, "") != value}


def _phase(minimum: int, pods: int, running: int, succeeded: int, failed: int) -> str:
    """Pending until so many pods exist, then by what became of them."""
    if pods < minimum:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    if succeeded + running >= minimum:
        return "Running"
    return "Scheduling"


# scheduling.run.ai: why a group waits, in the condition that KAI writes.


def of_kai(outcome: GangOutcome) -> Iterator[Effect]:
    """The status of a PodGroup of KAI's, and events about it."""
    declared = _declared(outcome)
    if declared is None:
        return
    key, record = declared
    events, marks = told(outcome, key, record.metadata)
    yield from events
    now = outcome.snapshot.now
    ready = outcome.phase in (Phase.RUNNING, Phase.COMPLETED)
    if ready and outcome.bound:
        marks[STARTED] = stamp(now)
    status = _waiting(outcome.objects, key, now, marks.get(MESSAGE_ANNOTATION), waits=not ready)
    if status or marks:
        yield PatchStatus(key, status, marks)


def _waiting(objects: Objects, key: Key, now: float, message: str | None, *, waits: bool) -> Raw:
    """The scheduling conditions, where what is told has changed, and none where nothing is to be told any more."""
    present = part(objects.raw(key), "status").get("schedulingConditions")
    if waits and message:
        condition: Raw = {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "status": "True",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": stamp(now),
            "transitionID": made_up_uid("Transition", str(key), f"{stamp(now)} {message}"),
        }
        return {"schedulingConditions": [condition]}
    if present and not waits:
        return {"schedulingConditions": []}
    return {}


# scheduling.k8s.io: one condition that becomes true once and stays so, and one for groups that are to be disrupted.

_DISRUPTION: Final = "DisruptionTarget"
_FAULTS: Final = frozenset(("PluginFailed", "BindFailed"))


def of_kubernetes(outcome: GangOutcome) -> Iterator[Effect]:
    """The conditions of Kubernetes' own groups, and of Grove's, which are made like them; and events about them."""
    declared = _declared(outcome)
    if declared is None:
        return
    yield from _Kubernetes(outcome).effects(*declared)
    reserved = reservation_mark(declared[1].metadata.annotations, outcome.reserved)
    if reserved:
        yield PatchStatus(declared[0], {}, reserved)


class _Kubernetes:
    def __init__(self, outcome: GangOutcome) -> None:
        self._outcome = outcome
        self._objects = outcome.objects
        self._job = outcome.job
        self._decisions = [decision for decision in outcome.decisions if decision.bound]

    def effects(self, key: Key, record: Object) -> Iterator[Effect]:
        """Conditions of the object that declares the job and of its groups, and news about it."""
        bound = self._outcome.bound
        rejection = self._outcome.rejection
        decision = self._outcome.decision
        ready = self._outcome.phase in (Phase.RUNNING, Phase.COMPLETED)
        if rejection is not None and not self._says(key, text := message(rejection, key.namespace)):
            yield RecordEvent(key, "Warning", rejection.reason.code, text, decision)
        elif bound and rejection is None:
            yield RecordEvent(key, "Normal", "Scheduled", READY, decision)
        if isinstance(record, Workload):
            return  # it has no status
        if isinstance(record, PodGang):
            phase = "Starting" if ready else "Pending"
            phase_shown = record.status.phase if ready and record.status.phase == "Running" else phase
            yield from self._patch(key, GANG_SCHEDULED, ready=ready, phase=phase_shown)
            return
        if isinstance(record, PodGroup):
            yield from self._patch(key, self._type(key), ready=ready)
            return
        yield from self._patch(key, COMPOSITE_SCHEDULED, ready=ready)
        satisfied_by_name: dict[str, bool] = {}
        for name, minimum, running in self._parts():
            group_key = Key(key.group, "PodGroup", key.namespace, name)
            satisfied_by_name[name] = running >= minimum
            yield from self._patch(group_key, self._type(group_key), ready=running >= minimum and ready)
        for name, stands_whole in self._composites(key, satisfied_by_name):
            inner = Key(key.group, "CompositePodGroup", key.namespace, name)
            yield from self._patch(inner, COMPOSITE_SCHEDULED, ready=stands_whole and ready)

    def _composites(self, key: Key, satisfied_by_name: Mapping[str, bool]) -> Iterator[tuple[str, bool]]:
        """Yield (name, whether its minimum of groups stands) for each CompositePodGroup between key, which declares the
        job and is left out, and its PodGroups. satisfied_by_name says by name which PodGroups have their minimum. All
        are in the namespace of key.
        """
        inside: dict[str, dict[tuple[str, str], None]] = {}
        for name in satisfied_by_name:
            child = ("PodGroup", name)
            for _ in range(DEEPEST):
                record = self._objects.record(Key(key.group, child[0], key.namespace, child[1]))
                if not isinstance(record, PodGroup | CompositePodGroup) or child == (key.kind, key.name):
                    break
                parent = record.spec.parent_composite_pod_group_name
                inside.setdefault(parent, {})[child] = None
                child = ("CompositePodGroup", parent)

        def stands(name: str) -> bool:
            record = self._objects.record(Key(key.group, "CompositePodGroup", key.namespace, name))
            gang = record.spec.scheduling_policy.gang if isinstance(record, CompositePodGroup) else None
            satisfied = (satisfied_by_name[part] if kind == "PodGroup" else stands(part) for kind, part in inside[name])
            return sum(satisfied) >= (max(gang.min_group_count, 1) if gang is not None else 1)

        yield from ((name, stands(name)) for name in inside if name and name != key.name)

    def _parts(self) -> Iterator[tuple[str, int, int]]:
        """The groups of a composite, sub-groups or roles of its job: name, minimum, and how many pods of it stand."""
        every = (p for decision in self._decisions for p in decision.placed)
        placed = [p for p in every if not self._job.backfills(p.tasks[0].shape)]
        for sub in self._job.subs:
            if sub.policy >= 0:
                new = sum(len(p.tasks) for p in placed if p.sub.key == sub.key)
                yield sub.key.rpartition("/")[2], sub.minimum, sub.ready + new
        for number, name in self._job.role_names.items():
            new = sum(task.role == name for p in placed for task in p.tasks)
            yield name, self._job.roles[number], self._job.role_ready[number] + new

    def _type(self, key: Key) -> str:
        """The condition's name in the version that the object is written in."""
        raw = self._objects.raw(key) or {}
        return SCHEDULED[str(raw.get("apiVersion", "")).endswith("/v1alpha2")]

    def _says(self, key: Key, text: str) -> bool:
        return any(condition.get("message") == text for condition in self._present(key))

    def _present(self, key: Key) -> list[Raw]:
        conditions = part(self._objects.raw(key), "status").get("conditions")
        if isinstance(conditions, list):
            return [c for c in conditions if isinstance(c, dict)]
        return []

    def _patch(self, key: Key, kind: str, *, ready: bool, phase: str = "") -> Iterator[Effect]:
        """The conditions of one object, where they change; what has turned true stays so."""
        present = self._present(key)
        by_type = {str(condition.get("type")): condition for condition in present}
        before = by_type.get(kind, {})
        rejection = self._outcome.rejection
        if before.get("status") != "True":
            if ready:
                by_type[kind] = self._condition(before, kind, "True", "Scheduled", READY)
            elif rejection is not None:
                reason = "SchedulerError" if rejection.reason.code in _FAULTS else "Unschedulable"
                by_type[kind] = self._condition(before, kind, "False", reason, message(rejection, key.namespace))
        victim = next((e for e in self._outcome.report.evictions if e.job.key == self._job.key), None)
        if victim is not None and self._job.together:
            text = "its pods make room for another job" if victim.by is not None else "its pods are evicted"
            disruption = by_type.get(_DISRUPTION, {})
            by_type[_DISRUPTION] = self._condition(disruption, _DISRUPTION, "True", "PreemptionByScheduler", text)
        status: Raw = {"conditions": list(by_type.values())} if list(by_type.values()) != present else {}
        if phase and part(self._objects.raw(key), "status").get("phase") != phase:
            status["phase"] = phase
        if status:
            yield PatchStatus(key, status)

    def _condition(self, before: Raw, kind: str, status: str, reason: str, text: str) -> Raw:
        content = {"type": kind, "status": status, "reason": reason, "message": text}
        if all(before.get(field) == value for field, value in content.items()):
            return before
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        return {**content, "lastTransitionTime": since or stamp(self._outcome.snapshot.now)}
