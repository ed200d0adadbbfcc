"""Which action the lifecycle policies of a job give for an event, and when.

A task's policies take precedence over its job's, and on one level a policy for the exit code over one for the event. A
policy with a timeout acts only if the condition still holds after that time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.volcano import Job, LifecyclePolicy
from tierwise.controllers.job.controlled_resources import Target
from tierwise.controllers.job.events import EVENTS, JobEvent
from tierwise.controllers.job.phases import NARROW

__all__ = ["PolicyAction", "answered_events", "policy_actions", "rank"]

_ANY: Final = "*"
_PENDING: Final = "PodPending"
_ORDER: Final = ("TerminateJob", "AbortJob", "CompleteJob", "ResumeJob", "RestartJob", *NARROW)


class PolicyAction(msgspec.Struct, frozen=True):
    """An action that a policy asks for, at some time."""

    action: str
    target: Target | None  # for actions that concern a part of the job
    due: float
    why: JobEvent

    @property
    def waits(self) -> bool:
        """Whether its policy gives the condition time to pass."""
        return self.due > -math.inf


def policy_actions(job: Job, events_seen: Iterable[JobEvent]) -> Iterator[PolicyAction]:
    """Actions of the job's policies for these events, in their order; most events have none."""
    of_task = {task.name: task.policies for task in job.spec.tasks}
    for event in events_seen:
        policy = _policy(of_task.get(event.task, ()), event) or _policy(job.spec.policies, event)
        if policy is None:
            continue
        target = _target(policy.action, event)
        if target is None and policy.action in NARROW:
            continue  # a part that does not exist cannot be restarted
        yield PolicyAction(policy.action, target, _due(policy, event), event)


def answered_events(policies: Iterable[LifecyclePolicy]) -> frozenset[str]:
    """The events that some of these policies may answer; exit codes are those of pods that fail."""
    answered: set[str] = set()
    for policy in policies:
        answered.update((policy.event, *policy.events))
        if policy.exit_code is not None:
            answered.add("PodFailed")
    return EVENTS if _ANY in answered else EVENTS & answered


def rank(policy_action: PolicyAction) -> int:
    """Which of several answers counts: what ends a job before what restarts it, the whole before a part."""
    if policy_action.action in _ORDER:
        return _ORDER.index(policy_action.action)
    return len(_ORDER)


def _policy(policies: Sequence[LifecyclePolicy], event: JobEvent) -> LifecyclePolicy | None:
    for policy in policies:
        if policy.exit_code is not None and policy.exit_code in event.exit_codes:
            return policy
    for policy in policies:
        events = {policy.event, *policy.events}
        # A pod that waits is nothing to act upon, unless a policy says for how long it may.
        if (event.event in events or _ANY in events) and (event.event != _PENDING or policy.timeout):
            return policy
    return None


def _due(policy: LifecyclePolicy, event: JobEvent) -> float:
    """When to act: at once, or so long after it began; not before that time is on record."""
    timeout = seconds(policy.timeout) or 0.0
    if timeout <= 0:
        return -math.inf
    if event.since is None:
        return math.inf
    return event.since + timeout


def _target(action: str, event: JobEvent) -> Target | None:
    if not event.task:
        return None
    if action == "RestartTask":
        return Target(event.task)
    if action == "RestartPartition" and event.partition:
        return Target(event.task, event.partition)
    if action == "RestartPod" and event.index >= 0:
        return Target(event.task, index=event.index)
    return None
