"""Which action the life-cycle policies of a job answer to what has happened, and when.

A task's policies come before its job's, and among those of one level a policy for the exit code before one for the
event. A policy with a timeout acts only if the condition still holds once that time is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tierwise.api.duration import seconds
from tierwise.api.volcano import Job, LifecyclePolicy
from tierwise.controllers.job.events import Happening
from tierwise.controllers.job.memory import Target
from tierwise.controllers.job.phases import NARROW

__all__ = ["Answer", "answers", "rank"]

_ANY: Final = "*"
_PENDING: Final = "PodPending"
_ORDER: Final = ("TerminateJob", "AbortJob", "CompleteJob", "ResumeJob", "RestartJob", *NARROW)


class Answer(NamedTuple):
    """An action that a policy asks for, at some time."""

    action: str
    target: Target | None  # for actions that concern a part of the job
    due: float
    why: Happening

    @property
    def waits(self) -> bool:
        """Whether its policy gives the condition time to pass."""
        return self.due > -math.inf


def answers(job: Job, found: Iterable[Happening]) -> Iterator[Answer]:
    """What the policies of a job say to what has happened, in that order; most happenings have no answer."""
    of_task = {task.name: task.policies for task in job.spec.tasks}
    for happening in found:
        policy = _policy(of_task.get(happening.task, ()), happening) or _policy(job.spec.policies, happening)
        if policy is None:
            continue
        target = _target(policy.action, happening)
        if target is None and policy.action in NARROW:
            continue  # a part that does not exist cannot be restarted
        yield Answer(policy.action, target, _due(policy, happening), happening)


def rank(answer: Answer) -> int:
    """Which of several answers counts: what ends a job before what restarts it, the whole before a part."""
    return _ORDER.index(answer.action) if answer.action in _ORDER else len(_ORDER)


def _policy(policies: Sequence[LifecyclePolicy], happening: Happening) -> LifecyclePolicy | None:
    for policy in policies:
        if policy.exit_code is not None and policy.exit_code in happening.exit_codes:
            return policy
    for policy in policies:
        events = {policy.event, *policy.events}
        # A pod that waits is nothing to act upon, unless a policy says for how long it may.
        if (happening.event in events or _ANY in events) and (happening.event != _PENDING or policy.timeout):
            return policy
    return None


def _due(policy: LifecyclePolicy, happening: Happening) -> float:
    """When to act: at once, or so long after it began; not before somebody has written down when that was."""
    timeout = seconds(policy.timeout) or 0.0
    if timeout <= 0:
        return -math.inf
    return math.inf if happening.since is None else happening.since + timeout


def _target(action: str, happening: Happening) -> Target | None:
    if not happening.task:
        return None
    if action == "RestartTask":
        return Target(happening.task)
    if action == "RestartPartition" and happening.partition:
        return Target(happening.task, happening.partition)
    return Target(happening.task, index=happening.index) if action == "RestartPod" and happening.index >= 0 else None
