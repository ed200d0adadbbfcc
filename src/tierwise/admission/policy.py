"""Checks of the lifecycle policies of jobs and tasks: event or exit code, action, timeout.

Beyond the errors of Volcano's webhook it warns about policies without effect, and about one that does more than it
says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tierwise.admission.findings import Issue, error, one_of, warning
from tierwise.api.repair import OnNodeLoss
from tierwise.api.volcano import LifecyclePolicy

__all__ = ["ACTIONS", "check", "check_node_loss"]

_RESTART_PARTITION: Final = "RestartPartition"
_ANY: Final = "*"
_PENDING: Final = "PodPending"
_EVENTS: Final = frozenset(
    {_ANY, "PodFailed", "PodEvicted", _PENDING, "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
ACTIONS: Final = frozenset(
    {
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        _RESTART_PARTITION,
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    }
)
_OF_JOBS: Final = frozenset({"Unknown", "JobUpdated"})
"""Events that concern no task, so that policies of tasks never hear of them."""

_ON_NODE_LOSS: Final = {
    OnNodeLoss.REPLACE: frozenset({"RestartPod"}),
    OnNodeLoss.RESTART_SUBGROUP: frozenset({"RestartTask", _RESTART_PARTITION}),
    OnNodeLoss.RESTART_ALL: frozenset({"RestartJob"}),
}
"""The actions of policies that say the same as what a job wants when it loses nodes."""

_DURATION: Final = re.compile(r"(?P<sign>[+-]?)(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")


def check(path: str, policies: Sequence[LifecyclePolicy], *, parted: bool, of_task: bool = False) -> Iterator[Issue]:
    """Issues of the policies of one job or one task; `parted`: there are partitions that could be restarted."""
    seen: set[str | int] = set()
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        yield from one_of(f"{where}.action", policy.action, ACTIONS)
        yield from _check_triggers(where, policy)
        yield from _check_timeout(where, policy)
        yield from _check_sense(where, policy, parted=parted, of_task=of_task)
        for trigger in _triggers(policy):
            if trigger in seen:
                yield error(where, f'there are two policies for "{trigger}"')
            seen.add(trigger)
    if _ANY in seen and len(seen) > 1:
        yield error(path, f'event "{_ANY}" matches every event: it cannot be combined with another trigger')


def check_node_loss(path: str, policies: Sequence[LifecyclePolicy], wish: OnNodeLoss) -> Iterator[Issue]:
    """A warning where a policy for evicted pods says something else than the job's annotation: both are carried out."""
    for index, policy in enumerate(policies):
        if {"PodEvicted", _ANY}.isdisjoint({policy.event, *policy.events}) or policy.action in _ON_NODE_LOSS[wish]:
            continue
        text = f'"{wish.value}" is what the job wants when it loses nodes, and this policy then does {policy.action}'
        yield warning(f"{path}[{index}].action", text)


def _triggers(policy: LifecyclePolicy) -> list[str | int]:
    """The events of a policy, each once, or its exit code."""
    events: list[str | int] = list(dict.fromkeys(event for event in (policy.event, *policy.events) if event))
    return events + ([policy.exit_code] if policy.exit_code is not None else [])


def _check_triggers(path: str, policy: LifecyclePolicy) -> Iterator[Issue]:
    events = [event for event in (policy.event, *policy.events) if event]
    for event in dict.fromkeys(events):
        yield from one_of(f"{path}.event", event, _EVENTS)
    if not events and policy.exit_code is None:
        yield error(path, "an event or an exitCode is needed")
    if events and policy.exit_code is not None:
        yield error(path, "event and exitCode exclude each other")
    if policy.exit_code == 0:
        yield error(f"{path}.exitCode", "exitCode 0 means success, no policy can wait for it")


def _check_sense(path: str, policy: LifecyclePolicy, *, parted: bool, of_task: bool) -> Iterator[Issue]:
    """Warnings for policies that are sound and yet hardly what is wanted."""
    if policy.action == _RESTART_PARTITION and not parted:
        why = "the task has no partitionPolicy" if of_task else "no task of the job has a partitionPolicy"
        yield warning(path, f"{_RESTART_PARTITION} does nothing: {why}")
    if policy.action == "ResumeJob":
        yield warning(path, "ResumeJob does nothing: policies are asked while a job is alive; send a Command instead")
    if of_task and set(_triggers(policy)) & _OF_JOBS:
        listed = ", ".join(sorted(str(trigger) for trigger in set(_triggers(policy)) & _OF_JOBS))
        yield warning(path, f"{listed} concerns no task: the policy belongs to the job")
    if _ANY in _triggers(policy) and policy.action.startswith("Restart"):
        yield warning(path, f'"{_ANY}" includes TaskCompleted: a task that is done is restarted, not completed')


def _check_timeout(path: str, policy: LifecyclePolicy) -> Iterator[Issue]:
    if not policy.timeout:
        if _PENDING in _triggers(policy):
            yield error(f"{path}.timeout", f"event {_PENDING} needs a timeout")
        return
    form = _DURATION.fullmatch(policy.timeout)
    if form is None:
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is not a duration such as "90s" or "1h30m"')
    elif form["sign"] == "-":
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is negative')
