"""What jobs say of their own eviction: how long they want to run first, what a restart costs them, and what they saved.

Read by the dialects from annotations, and from a condition of pods; the plugin `eviction-cost` weighs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.core import Pod, parse_time
from tierwise.api.duration import seconds

__all__ = [
    "CHECKPOINTED",
    "CHECKPOINTED_AT",
    "EXPECTED_DURATION",
    "MINIMUM_RUN_TIME",
    "NOTICE",
    "EvictionTerms",
    "ended_at",
    "expected_seconds",
    "parse_terms",
    "queue_times",
    "status_time",
    "told_times",
]

MINIMUM_RUN_TIME: Final = "tierwise.io/minimum-run-time"
"""On a job, or on a queue for all its jobs: how long a pod runs before it may be evicted."""
RESTART_COST: Final = "tierwise.io/restart-cost"
"""On a job: how much time a restart costs it besides the work that is lost."""
EVICTION_NOTICE: Final = "tierwise.io/eviction-notice"
"""On a job: how long its pods are told before they are evicted."""
EXPECTED_DURATION: Final = "tierwise.io/expected-duration"
"""On a job, or on a queue for all its jobs that do not say: how long it expects to run."""
CHECKPOINTED_AT: Final = "tierwise.io/checkpointed-at"
"""On a pod, or on its job: when its work was last saved."""
CHECKPOINTED: Final = "Checkpointed"
"""The type of a condition of a pod that says the same, by its last transition."""
NOTICE: Final = "EvictionNotice"
"""The type of the condition that a pod is given with its notice."""


class EvictionTerms(msgspec.Struct, frozen=True):
    """Wishes of one job about evictions; times in seconds, 0 if not stated."""

    minimum_run_time: float = 0.0
    restart_cost: float = 0.0
    notice: float = 0.0
    expected: float = 0.0
    checkpointed: float = 0.0  # since the epoch


_DURATIONS: Final = {
    MINIMUM_RUN_TIME: "minimum_run_time",
    RESTART_COST: "restart_cost",
    EVICTION_NOTICE: "notice",
    EXPECTED_DURATION: "expected",
}


def parse_terms(marks: Mapping[str, str]) -> EvictionTerms | str | None:
    """The terms among annotations; None where there are none, and a sentence where one cannot be read."""
    times: dict[str, float] = {}
    for key, field in _DURATIONS.items():
        if key in marks:
            duration = seconds(marks[key])
            if duration is None or duration < 0:
                return f'annotation {key}: "{marks[key]}" is not a duration such as 30m'
            times[field] = duration
    if CHECKPOINTED_AT in marks:
        try:
            times["checkpointed"] = parse_time(marks[CHECKPOINTED_AT])
        except ValueError:
            prefix = f'annotation {CHECKPOINTED_AT}: "{marks[CHECKPOINTED_AT]}"'
            return f"{prefix} is not a time such as 2026-01-01T00:00:00Z"
    return EvictionTerms(**times) if times else None


def queue_times(marks: Mapping[str, str]) -> tuple[float, float]:
    """Minimum run time and expected duration, in seconds, that a queue sets for all its jobs; 0 if missing or
    unreadable.
    """
    durations = (seconds(marks[key]) if key in marks else None for key in (MINIMUM_RUN_TIME, EXPECTED_DURATION))
    minimum, expected = (max(0.0, time or 0.0) for time in durations)
    return minimum, expected


def told_times(pod: Pod) -> tuple[float, float]:
    """When a pod last saved its work, by annotation or condition, and since when it has notice; 0 for neither."""
    marks = pod.metadata.annotations
    saved = status_time(marks[CHECKPOINTED_AT]) if CHECKPOINTED_AT in marks else 0.0
    noticed = 0.0
    for condition in pod.status.conditions:
        if condition.type in (CHECKPOINTED, NOTICE) and condition.status == "True":
            since = status_time(condition.last_transition_time)
            if condition.type == NOTICE:
                noticed = since
            else:
                saved = max(saved, since)
    return saved, noticed


def ended_at(pod: Pod) -> float:
    """When the last container of a pod that has succeeded or failed ended; 0 where it is not known."""
    status = pod.status
    latest = 0.0
    for container in status.container_statuses if status.ended else ():
        state = container.state.terminated
        if state is not None:
            latest = max(latest, status_time(state.finished_at))
    return latest


def expected_seconds(pod: Pod) -> float:
    """How long a pod says that it runs; 0 where it does not say, or not so that it can be read."""
    return max(0.0, seconds(pod.metadata.annotations.get(EXPECTED_DURATION, "")) or 0.0)


@lru_cache(maxsize=1 << 16)
def status_time(text: str) -> float:
    """A time in the status of a pod, which says nothing where it cannot be read; pods of a gang share most of them."""
    try:
        return parse_time(text) if text else 0.0
    except ValueError:
        return 0.0
