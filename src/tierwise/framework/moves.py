"""What filters that move say together of a shape: those whose answer changes as tasks are placed.

Which of them concern a shape is asked once in a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

from tierwise.framework.boundary import Panel
from tierwise.framework.rules import RULES, Answer, AnyRule
from tierwise.model.arrays import Ints, Why
from tierwise.model.shape import Shape

R = TypeVar("R")


class _Mover(msgspec.Struct, frozen=True, eq=False):
    """A filter that moves: what it is asked, None where it has no answer."""

    concerns: Callable[[Shape], bool]
    why_not_now: Callable[[Shape, slice], Why]
    own_row: Callable[[Shape], bool] | None
    order_free: Callable[[Shape], bool] | None
    room: Callable[[Shape], Ints | None] | None

    def keeps_to_its_row(self, shape: Shape) -> bool:
        return self.own_row is not None and self.own_row(shape)


def _once(answer: Callable[[Shape], R]) -> Callable[[Shape], R]:
    """The same answer, asked for once for each shape."""
    known: dict[int, R] = {}

    def ask(shape: Shape) -> R:
        number = shape.number
        if number not in known:  # no exception: a flood has thousands of shapes, each asked about once
            known[number] = answer(shape)
        return known[number]

    return ask


def _movers(panel: Panel) -> Callable[[Shape], tuple[_Mover, ...]]:
    """The filters that move for a shape."""
    found: Callable[[Shape], tuple[_Mover, ...]] | None = panel.memo.get("movers")
    if found is None:
        asks: Any = {name: panel.by_plugin(RULES[name]) for name in _Mover.__struct_fields__}
        movers = [_Mover(*(own.get(plugin) for own in asks.values())) for plugin in asks["concerns"]]
        found = _once(lambda shape: tuple([mover for mover in movers if mover.concerns(shape)]))
        panel.memo["movers"] = found
    return found


def any_concerned(panel: Panel, _: AnyRule) -> Answer:
    """Any."""
    moving = _movers(panel)
    return lambda shape: bool(moving(shape))


def first_that_moves(panel: Panel, _: AnyRule) -> Answer:
    """The first objection for each node, of those that the shape concerns."""
    moving = _movers(panel)

    def ask(shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for mover in moving(shape):
            np.copyto(why, mover.why_not_now(shape, span), where=why == 0)
        return why

    return ask


def all_keep_to_their_row(panel: Panel, _: AnyRule) -> Answer:
    """All that move for the shape must say so."""
    moving = _movers(panel)
    return _once(lambda shape: all(mover.keeps_to_its_row(shape) for mover in moving(shape)))


def free_but_one(panel: Panel, _: AnyRule) -> Answer:
    """Of those that move beyond a task's own node there must be one at most, and it must say so."""
    moving = _movers(panel)

    def ask(shape: Shape) -> bool:
        wide = [mover for mover in moving(shape) if not mover.keeps_to_its_row(shape)]
        return not wide or (len(wide) == 1 and wide[0].order_free is not None and wide[0].order_free(shape))

    return _once(ask)


def least_room(panel: Panel, _: AnyRule) -> Answer:
    """The least of them; all that move for the shape must know it."""
    moving = _movers(panel)

    def known(shape: Shape) -> list[Any]:
        rooms = [mover.room for mover in moving(shape)]
        return rooms if None not in rooms else []

    rooms_of = _once(known)

    def ask(shape: Shape) -> Ints | None:
        least: Ints | None = None
        for room in rooms_of(shape):
            found = room(shape)
            if found is None:
                return None
            least = found if least is None else np.minimum(least, found)
        return least

    return ask
