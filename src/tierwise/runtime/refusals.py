"""Pods that could not be evicted: spared for a while, so that the next plan is another one.

A disruption budget may refuse what the scheduler has planned, and the same cluster would give the same plan again. The
pod is read as marked not to be evicted until some time has passed; then the answer may be another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from tierwise.api.core import Pod
from tierwise.port import Evict, Key, Objects, Outcome

__all__ = ["Refused"]

_LONG: Final = 60.0
_MARK: Final = "volcano.sh/preemptable"


class Refused:
    """Who is spared until when; times are of a clock that never jumps."""

    def __init__(self) -> None:
        self._until: dict[Key, float] = {}

    def note(self, outcomes: Iterable[Outcome], now: float) -> None:
        """Remember evictions that failed; what was withheld, nobody has refused."""
        for outcome in outcomes:
            if isinstance(outcome.effect, Evict) and not outcome.ok and not outcome.error.startswith("withheld"):
                self._until[outcome.effect.pod] = now + _LONG

    def over(self, objects: Objects, now: float) -> Objects:
        """The objects as the scheduler is to read them."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        spared = {}
        for key in self._until:
            pod = objects.record(key)
            if isinstance(pod, Pod):
                marks = {**pod.metadata.annotations, _MARK: "false"}
                spared[key] = replace(pod, metadata=replace(pod.metadata, annotations=marks)), None
        return objects.updated(spared, (), objects.version) if spared else objects
