"""The status of a job: phase, counts of pods, and the controller's own records.

Called by the job controller; returns a patch only if something differs from the current status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw, part
from tierwise.api.core import parse_time
from tierwise.api.duration import spelled
from tierwise.api.volcano import Job, PodGroup
from tierwise.controllers.job.controlled_resources import losses, lost_key, pods_key, seen_text
from tierwise.controllers.job.job_pods import STANDINGS, JobPods
from tierwise.controllers.job.phases import phase_rule
from tierwise.controllers.job.plugins import KEY_MADE, PLUGINS, lacking_plugins
from tierwise.controllers.job.policies import PolicyAction
from tierwise.controllers.job.transitions import PhaseChange
from tierwise.controllers.stamp import stamp
from tierwise.port import Effect, PatchStatus, RecordEvent, key_of

__all__ = ["NAME_TAKEN", "observed", "write"]

NAME_TAKEN: Final = "PodNameTaken"
"""Why a job has fewer pods than it asks for: others are called so."""

_WAITS: Final = "PodGroupPending"
_TRANSIENT: Final = (_WAITS, NAME_TAKEN)
"""Reasons that hold as long as they are seen, and that people are told of."""

_MOST: Final = 50
"""How many conditions are kept: a job that is scaled and evicted a lot goes through too many phases to read."""

_COUNTED: Final = {state_name.lower(): state_name for state_name in STANDINGS}
"""The fields of a status that count pods, and what is counted there."""


def write(job: Job, raw: Mapping[str, object], job_pods: JobPods, step: PhaseChange, now: float) -> list[Effect]:
    """Bring the status to where a step leads; events tell people of changes of phase, and of why a gang waits."""
    present = part(raw, "status")
    old = job.status.state
    moved_on = step.phase != (job.status.state.phase or "")
    state = {"phase": step.phase, "reason": step.reason, "message": step.message}
    state_fields = {field: text for field, text in state.items() if text}
    changed_at = stamp(now) if moved_on else old.last_transition_time
    status: Raw = {
        "state": state_fields | ({"lastTransitionTime": changed_at} if changed_at else {}),
        "minAvailable": job.spec.min_available or 0,
        "version": step.version,
        "retryCount": step.retry_count,
        "controlledResources": dict(sorted(step.controlled_resources.items())),
        **_counted(job_pods),
    }
    if moved_on:
        reached = {"status": step.phase, "lastTransitionTime": changed_at}
        status["conditions"] = [*_conditions(present), reached][-_MOST:]
    if phase_rule(step.phase).rests and job.metadata.creation_timestamp:
        status["runningDuration"] = _duration(job, changed_at)
    changed: Raw = {}
    for field, value in status.items():
        before = present.get(field)  # what is absent means nothing
        if before != value if before else value:
            changed[field] = value
    if not changed:
        return []
    events = _events(job, step, news=(step.reason, step.message) != (old.reason, old.message))
    return [PatchStatus(key_of(job), status if moved_on else changed), *events]


def _remember_lost(answers: Iterable[PolicyAction], memory: dict[str, str], now: float) -> None:
    """Note in the memory of a job since when it waits for pods that it has lost."""
    for policy_action in answers:
        if policy_action.why.left and policy_action.waits:
            since = now if policy_action.why.since is None else policy_action.why.since
            memory.setdefault(lost_key(policy_action.why.task, policy_action.why.index), stamp(since))


def observed(
    job: Job,
    group: PodGroup | None,
    job_pods: JobPods,
    answers: Iterable[PolicyAction],
    names_taken: Sequence[str],
    now: float,
) -> PhaseChange:
    """No change: the phase that the job is in, with what is remembered brought up to date.

    `taken` are names of its pods that pods of others have.
    """
    status = job.status
    phase = status.state.phase or "Pending"
    reason, message = _why_it_waits(group) if phase == "Pending" else ("", "")
    if names_taken:
        suffix = f" and {len(names_taken) - 1} more" if len(names_taken) > 1 else ""
        reason = NAME_TAKEN
        message = f"pod {names_taken[0]}{suffix} cannot be made: a pod of that name is not the job's"
    if not reason and status.state.reason not in _TRANSIENT:
        reason = status.state.reason
        message = status.state.message
    lacking = lacking_plugins(job)
    plugin_memory = {f"plugin-{name}": name for name in PLUGINS if name in job.spec.plugins and name not in lacking}
    passing = plugin_memory.keys() - KEY_MADE.keys()  # the Secret with the key stays as long as the job
    memory = {key: value for key, value in status.controlled_resources.items() if key not in passing}
    if phase_rule(phase).wants_pods:
        memory |= plugin_memory  # as Volcano lists them
        _look(job, job_pods, memory)
        _remember_lost(answers, memory, now)
    return PhaseChange(phase, reason, message, status.retry_count, status.version, memory)


def _look(job: Job, job_pods: JobPods, memory: dict[str, str]) -> None:
    """Write into memory which pods of each task are there now, leaving out those being deleted.

    Delete from memory each loss whose pod has left Pending, and each whose index the task no longer has. Returns
    nothing.
    """
    phases_by_task: dict[str, dict[int, str]] = {task.name: {} for task in job.spec.tasks}
    for member in job_pods.current():
        if not member.leaving:
            phases_by_task[member.task][member.index] = member.phase
    for task in job.spec.tasks:
        phases = phases_by_task[task.name]
        if phases or pods_key(task.name) in memory:
            memory[pods_key(task.name)] = seen_text(phases, task.replicas)
    sizes = {task.name: task.replicas for task in job.spec.tasks}
    for key, name, index in list(losses(memory)):
        if index >= sizes.get(name, 0) or phases_by_task[name].get(index, "Pending") != "Pending":
            del memory[key]


def _why_it_waits(group: PodGroup | None) -> tuple[str, str]:
    """Reason and message of the scheduler for a gang without a place."""
    condition_now = group.status.conditions[-1:] if group is not None else ()
    for condition in condition_now:
        if condition.type == "Unschedulable" and condition.status == "True":
            return _WAITS, condition.message
    return "", ""


def _counted(job_pods: JobPods) -> Raw:
    counts = job_pods.counts
    by_task = job_pods.by_task()
    fields: Raw = {field: counts[state] for field, state in _COUNTED.items()}
    tasks: Raw = {}
    for task in sorted(by_task):
        if task:
            phases = by_task[task]
            tasks[task] = {"phase": phases if len(phases) == 1 else dict(sorted(phases.items()))}
    fields["taskStatusCount"] = tasks
    return fields


def _conditions(present: Mapping[str, object]) -> list[object]:
    entries = present.get("conditions")
    return list(entries) if isinstance(entries, list) else []


def _duration(job: Job, ended: str) -> str:
    """How long the job was there until it came to rest."""
    try:
        return spelled(max(0.0, parse_time(ended) - parse_time(job.metadata.creation_timestamp)))
    except ValueError:
        return spelled(0.0)


def _events(job: Job, step: PhaseChange, *, news: bool) -> list[Effect]:
    if step.action:
        text = f"Start to execute action {step.action}: {step.message}"
        return [RecordEvent(key_of(job), "Normal", "ExecuteAction", text)]
    if news and step.reason in _TRANSIENT:
        return [RecordEvent(key_of(job), "Warning", step.reason, step.message)]
    return []
