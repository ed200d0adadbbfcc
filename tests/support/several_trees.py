"""The rule of limits on several trees, stated plainly: every way to put tasks on rows is written out and looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tierwise.framework.several_trees import Part, Scope

__all__ = ["fits_somehow", "kept"]


def fits_somehow(scopes: Sequence[Scope], parts: Sequence[Part], room: Sequence[int]) -> bool:
    """Whether there is a way at all; for a handful of rows and tasks."""
    groups = [part for part in parts for _ in range(part.copies)]
    return any(kept(scopes, groups, rows) for rows in _ways(groups, list(room)))


def kept(scopes: Sequence[Scope], groups: Sequence[Part], rows: Sequence[Sequence[int]]) -> bool:
    """Whether every limit holds where each group's tasks stand on these rows."""
    for number, scope in enumerate(scopes):
        own = [i for i, group in enumerate(groups) if number in _around(scopes, group.scope)]
        if not own:
            continue  # nothing of it is placed
        # Groups that are alike share the number of a scope, and each is one by itself.
        alone = [[i] for i in own] if any(groups[i].scope == number for i in own) else [own]
        for members in alone:
            stands = [*scope.held.tolist(), *(row for i in members for row in rows[i])]
            for limit in scope.limits:
                homes = {int(limit.homes[row]) for row in stands}
                if limit.fewest and len(homes - {-1}) < limit.fewest:
                    return False
                if not limit.fewest and stands and (len(homes) > 1 or homes == {-1}):
                    return False
    return True


def _around(scopes: Sequence[Scope], number: int) -> list[int]:
    found = []
    while number >= 0:
        found.append(number)
        number = scopes[number].parent
    return found


def _ways(groups: Sequence[Part], room: list[int]) -> Iterator[list[list[int]]]:
    if not groups:
        yield []
        return
    for rows in _choices(groups[0].need, list(room), 0):
        left = list(np.array(room) - np.bincount(np.array(rows, dtype=np.int64), minlength=len(room)))
        for rest in _ways(groups[1:], left):
            yield [rows, *rest]


def _choices(need: int, room: list[int], start: int) -> Iterator[list[int]]:
    if not need:
        yield []
        return
    for row in range(start, len(room)):
        if room[row] > 0:
            room[row] -= 1
            for rest in _choices(need - 1, room, row):
                yield [row, *rest]
            room[row] += 1
