"""A recording in the page: moments of a run that is over, or that a journal has kept, each read when it is asked for.

The page shows a `Recording` as it shows the past of a live source: the same series, the same scrubber, the same map.
Unlike a ring of boards it has all of each moment, nodes and stories of jobs as well.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import Final, cast

from tierwise.api.codec import Raw
from tierwise.web.event_log import EventLog
from tierwise.web.history import SUMS
from tierwise.web.views import Bounded, RunView

__all__ = ["MOST_MOMENTS", "Recording", "thinned"]

MOST_MOMENTS: Final = 5000
"""Moments of a recording that a page can choose from; of more, every second one is left out as often as it takes."""

_VIEWS: Final = 4
"""Moments that are held whole."""


class Recording(ABC):
    """Moments of something that has happened, as the page asks for them. Asked from several threads."""

    elapsed = False
    """Whether times are seconds since the beginning: a simulation has no dates."""

    def __init__(self) -> None:
        self.log = EventLog(most_seconds=inf)
        self._views: Bounded[int, RunView] = Bounded(_VIEWS)
        self._latest: tuple[int, RunView] | None = None
        self._looking = threading.Lock()

    @abstractmethod
    def moments(self) -> Sequence[Raw]:
        """Figures of every moment, the oldest first, as those of `BoardHistory`."""

    @abstractmethod
    def count(self) -> int:
        """How many moments there were before some were left out."""

    @abstractmethod
    def view(self, number: int) -> RunView | None:
        """Everything about the moment with this id; None where there is none."""

    def show(self) -> RunView | str:
        """The last moment; it changes while the recording is still written."""
        moments = self.moments()
        if not moments:
            return "nothing is recorded yet"
        number = cast("int", moments[-1]["id"])
        latest = self._latest
        if latest is None or latest[0] != number:  # it is asked for all the time, whatever others look at
            view = self.at(number)
            if view is None:
                return "nothing is recorded yet"
            self._latest = latest = number, view
        return latest[1]

    def saw(self, view: RunView) -> None:  # noqa: B027 - meant to do nothing
        """Nothing to keep: everything is recorded already."""

    def at(self, number: int) -> RunView | None:
        with self._looking:
            view = self._views.pop(number, None) or self.view(number)
            if view is not None:
                self._views[number] = view
            return view

    def wire(self, since: int = 0) -> Raw:
        moments = self.moments()
        about: Raw = {"recorded": True, "whole": True, "elapsed": self.elapsed}
        later = [moment for moment in moments if cast("int", moment["id"]) > since]
        about |= {"first": 0, "last": moments[-1]["id"] if moments else 0, "kept": len(moments)}
        return {**about, "moments": later, "count": self.count()}


def thinned(moments: list[Raw], limit: int = MOST_MOMENTS) -> list[Raw]:
    """No more moments than a page can choose from: where two become one, what happened in both is counted."""
    while len(moments) > limit:
        newest = [] if len(moments) % 2 == 0 else moments[-1:]
        pairs = zip(moments[::2], moments[1::2], strict=False)
        moments = [{**new, **{name: _number(old[name]) + _number(new[name]) for name in SUMS}} for old, new in pairs]
        moments += newest
    return moments


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
