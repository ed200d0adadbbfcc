"""The rule of limits on several trees, stated plainly: every way to put tasks on rows is written out and looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from tierwise.actions.placement.problem import Limit, Part
from tierwise.model.arrays import Ints

__all__ = ["Group", "Scope", "fits_somehow", "kept", "problem"]


class Scope(NamedTuple):
    """A part of a job: what is around it, its limits, and the rows of its tasks that are placed already."""

    parent: int  # the number of a scope before it; -1 for none
    limits: tuple[Limit, ...]
    held: Ints


class Group(NamedTuple):
    """Groups that are alike: so many, each of so many tasks, each a scope like this one by itself."""

    scope: int
    need: int
    copies: int = 1


def problem(scopes: Sequence[Scope], groups: Sequence[Group]) -> Part:
    """The same as a tree of parts, all of which are to be placed; leaves of one group have one number as their kind."""
    gang = cast(Any, None)
    inside: dict[int, list[Part]] = {number: [] for number in (-1, *range(len(scopes)))}
    for i, group in enumerate(groups):
        _, limits, held = scopes[group.scope]
        for copy in range(group.copies):
            number = len(scopes) + len(scopes) * 10 * i + copy
            unit = Part(number, gang, None, group.need, (1,), kind=("group", i), limits=limits, standing=held)
            inside[scopes[group.scope].parent].append(unit)
    leaves = {group.scope for group in groups}
    for number in reversed([number for number in range(-1, len(scopes)) if number not in leaves]):
        parts = tuple(inside[number])
        if parts and number >= 0:
            parent, limits, held = scopes[number]
            inside[parent].insert(0, _group(number, parts, limits, held))
    return _group(-1, tuple(inside[-1]), (), np.zeros(0, dtype=np.int64))


def _group(number: int, parts: tuple[Part, ...], limits: tuple[Limit, ...], held: Ints) -> Part:
    pods, gang = sum(part.pods for part in parts), cast(Any, None)
    return Part(number, gang, None, pods, (1,), lacks=(len(parts),), parts=parts, limits=limits, standing=held)


def fits_somehow(scopes: Sequence[Scope], parts: Sequence[Group], room: Sequence[int]) -> bool:
    """Whether there is a way at all; for a handful of rows and tasks."""
    groups = [part for part in parts for _ in range(part.copies)]
    return any(kept(scopes, groups, rows) for rows in _ways(groups, list(room)))


def kept(scopes: Sequence[Scope], groups: Sequence[Group], rows: Sequence[Sequence[int]]) -> bool:
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
                domains = {int(limit.domain_of_row[row]) for row in stands}
                if limit.spread and len(domains - {-1}) < limit.spread:
                    return False
                if not limit.spread and stands and (len(domains) > 1 or domains == {-1}):
                    return False
    return True


def _around(scopes: Sequence[Scope], number: int) -> list[int]:
    found = []
    while number >= 0:
        found.append(number)
        number = scopes[number].parent
    return found


def _ways(groups: Sequence[Group], room: list[int]) -> Iterator[list[list[int]]]:
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
