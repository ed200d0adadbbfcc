"""Who uses a simulated cluster from outside while it lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tierwise.port import Effect, Objects

__all__ = ["Nobody", "User"]


class User(Protocol):
    """Somebody outside who does things to the cluster, such as submitting jobs when their time comes."""

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What is done now; asked again at the same moment until it is nothing."""

    def due(self) -> float | None:
        """The next moment at which something is to be done whatever happens until then; None where none is."""


class Nobody:
    """A user who leaves the cluster to itself."""

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        return ()

    def due(self) -> float | None:
        return None
