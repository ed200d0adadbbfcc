"""Life-cycle policies of jobs and tasks: on which event or exit code, which action, after which time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tierwise.admission.verdict import Issue, error, one_of
from tierwise.api.volcano import LifecyclePolicy

__all__ = ["RESTART_PARTITION", "check"]

RESTART_PARTITION: Final = "RestartPartition"
_ANY: Final = "*"
_PENDING: Final = "PodPending"
_EVENTS: Final = frozenset(
    {_ANY, "PodFailed", "PodEvicted", _PENDING, "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
_ACTIONS: Final = frozenset(
    {
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        RESTART_PARTITION,
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    }
)
_DURATION: Final = re.compile(r"(?P<sign>[+-]?)(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")


def check(path: str, policies: Sequence[LifecyclePolicy]) -> Iterator[Issue]:
    """Issues of the policies of one job or one task."""
    seen: set[str | int] = set()
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        yield from one_of(f"{where}.action", policy.action, _ACTIONS)
        yield from _check_triggers(where, policy)
        yield from _check_timeout(where, policy)
        for trigger in _triggers(policy):
            if trigger in seen:
                yield error(where, f'there are two policies for "{trigger}"')
            seen.add(trigger)
    if _ANY in seen and len(seen) > 1:
        yield error(path, f'event "{_ANY}" stands for every event, no other trigger may stand beside it')


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


def _check_timeout(path: str, policy: LifecyclePolicy) -> Iterator[Issue]:
    if not policy.timeout:
        if _PENDING in _triggers(policy):
            yield error(f"{path}.timeout", f"event {_PENDING} needs a timeout")
        return
    form = _DURATION.fullmatch(policy.timeout)
    if form is None:
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is no duration such as "90s" or "1h30m"')
    elif form["sign"] == "-":
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is negative')
