"""Places that are held for jobs whose pods are not there yet, or kept from everybody while room is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tierwise.model.arrays import Ints

if TYPE_CHECKING:
    from tierwise.port import Key

__all__ = ["HeldPlace", "HeldPlaces"]


class HeldPlace(msgspec.Struct, frozen=True, eq=False):
    """Amounts on one row, so many times."""

    jobs: tuple[str, ...]  # the keys of those that it is held for; none: it is kept from everybody
    row: int
    request: Ints
    count: int
    until: float  # seconds since the epoch
    queue: str = ""  # that is charged with it
    after: str = ""  # the pod after which another one is to come there; "" for pods that are moved


class HeldPlaces(msgspec.Struct, frozen=True, eq=False):
    """All that is held in one cycle."""

    places: tuple[HeldPlace, ...] = ()
    unobserved: tuple[tuple[Key, int], ...] = ()  # records and revisions that no cycle was known to respect
    moving: frozenset[str] = frozenset()  # pods that are being moved, by namespace/name

    def __bool__(self) -> bool:
        return bool(self.places or self.unobserved or self.moving)
