"""The agenda of a virtual cluster: its clock, and what will happen to it, in the order of time.

Every driver has one, of the embedded cluster and on arrays. An event has one time at most: it is put off, brought
forward or called off by its value. Reads no clock; equal agendas give equal runs.

Failures are written on the command line as `POD=EXIT@TIME` and `NODE@TIME`; their times count from the start of a run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from math import inf
from typing import Final

import msgspec

from tierwise.api.core import read_number
from tierwise.api.duration import seconds

__all__ = [
    "Agenda",
    "Arrives",
    "Due",
    "Ends",
    "Event",
    "Incident",
    "LookAgain",
    "NodeBack",
    "NodeLost",
    "PodFails",
    "StartFails",
    "node_back",
    "node_lost",
    "pod_fails",
]


class PodFails(msgspec.Struct, frozen=True):
    """The containers of a pod end with a code."""

    after: float
    pod: str  # namespace/name
    exit_code: int


class NodeLost(msgspec.Struct, frozen=True):
    """A host falls silent."""

    after: float
    node: str


class NodeBack(msgspec.Struct, frozen=True):
    """A host that was lost is there again."""

    after: float
    node: str


class Ends(msgspec.Struct, frozen=True):
    """A job, or a pod of no job, has done its work."""

    subject: str | int


class StartFails(msgspec.Struct, frozen=True):
    """A job is seen not to have come up where it was started."""

    job: int


class Arrives(msgspec.Struct, frozen=True):
    """A job is submitted."""

    job: int


class LookAgain(msgspec.Struct, frozen=True):
    """The scheduler looks though nothing has changed."""


class Due(msgspec.Struct, frozen=True):
    """Something has to be done, by an agent that says what when it is asked."""

    whose: str


Incident = PodFails | NodeLost | NodeBack
Event = Incident | Ends | StartFails | Arrives | LookAgain | Due
_RANKS: Final = {Ends: 0, StartFails: 1, PodFails: 1, NodeLost: 1, NodeBack: 1}
"""What comes first of all that happens at one time: room is free before it is asked for."""
_LAST: Final = 2


class Agenda:
    """Coming events by time; at one time, ends come first in the order of names, then failures, then the rest."""

    def __init__(self, clock: float = 0.0) -> None:
        self.clock = clock
        self._at: dict[Event, float] = {}
        self._heap: list[tuple[float, int, str | int, int, Event]] = []
        self._number = 0

    def put(self, event: Event, at: float) -> None:
        """Let an event happen at a time, and at no other; never where that is infinite."""
        self.cancel(event)
        if at < inf:
            self._number += 1
            subject = event.subject if isinstance(event, Ends) else self._number
            self._at[event] = at
            heapq.heappush(self._heap, (at, _RANKS.get(type(event), _LAST), subject, self._number, event))

    def cancel(self, event: Event) -> None:
        self._at.pop(event, None)

    def at(self, event: Event) -> float:
        """When an event happens; infinite where it does not."""
        return self._at.get(event, inf)

    def next(self) -> float:
        """When the next event is; infinite where none is left."""
        while self._heap and self._at.get(self._heap[0][-1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def until(self, moment: float) -> Iterator[Event]:
        """Events up to a moment, those included that are put there on the way; the clock goes with them."""
        while (at := self.next()) <= moment:
            event = heapq.heappop(self._heap)[-1]
            del self._at[event]
            self.clock = max(self.clock, at)
            yield event
        self.clock = moment


def pod_fails(text: str) -> PodFails:
    """`train-worker-3=137@90s`; ValueError where it reads otherwise."""
    what, after = _timed(text, "POD=EXIT@TIME, as in train-worker-3=137@90s")
    pod, separator, code = what.rpartition("=")
    status = read_number(code)
    if not separator or not pod or status is None or not 0 < status <= 255:
        raise ValueError(f'"{text}" is not POD=EXIT@TIME with an exit code from 1 to 255')
    return PodFails(after, pod if "/" in pod else f"default/{pod}", status)


def node_lost(text: str) -> NodeLost:
    """`node-7@2m`; ValueError where it reads otherwise."""
    node, after = _timed(text, "NODE@TIME, as in node-7@2m")
    return NodeLost(after, node)


def node_back(text: str) -> NodeBack:
    """The return of a host, read from NODE@TIME."""
    node, after = _timed(text, "NODE@TIME, as in node-7@20m")
    return NodeBack(after, node)


def _timed(text: str, form: str) -> tuple[str, int]:
    what, _, time = text.rpartition("@")
    after = seconds(time)
    if not what or after is None or after < 0:
        raise ValueError(f'"{text}" is not {form}')
    return what, math.ceil(after)
