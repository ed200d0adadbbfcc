"""What the tasks of a cycle took on their nodes, such as volumes and devices, and gave back again."""

from __future__ import annotations

from typing import Generic, TypeVar

from tierwise.framework.ledger import Ledger
from tierwise.model.job import Shape

__all__ = ["TakenLog"]

T = TypeVar("T")


class TakenLog(Generic[T]):
    """By shape and row, in order; a rewind of the ledger takes entries back."""

    def __init__(self) -> None:
        self._log: list[tuple[int, int, bool, T]] = []

    def add(self, ledger: Ledger, shape: Shape, row: int, what: T, *, back: bool = False) -> None:
        """A task of a shape took something on a row, or gives back what the last one there has."""
        ledger.append(self._log, (shape.number, row, back, what))

    def standing(self) -> list[tuple[int, int, T]]:
        """The number of the shape, the row, and what was taken, of all that was not given back."""
        entries: list[tuple[int, int, T]] = []
        for number, row, back, what in self._log:
            if back:
                del entries[max(i for i, (*place, _) in enumerate(entries) if place == [number, row])]
            else:
                entries.append((number, row, what))
        return entries

    def by_place(self) -> dict[tuple[int, int], list[T]]:
        """What is taken, by shape and row."""
        taken_by_place: dict[tuple[int, int], list[T]] = {}
        for number, row, what in self.standing():
            taken_by_place.setdefault((number, row), []).append(what)
        return taken_by_place
