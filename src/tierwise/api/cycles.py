"""Cycles in what names depend on: tasks of a job on tasks, hyperNodes on their members.

Admission and the tree of hyperNodes ask for them. The work is linear in names and dependencies, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["cycle_text", "find_cycles"]

_SHOWN: Final = 8
"""Names of a cycle that a message lists."""


def find_cycles(dependencies: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Cycles that have no name in common, each from its first name in the order of a depth-first walk.

    Empty if and only if the names can be sorted topologically; of names that all depend on each other at least one
    cycle is returned. Dependencies that are no key of the mapping are passed over.
    """
    position: dict[str, int] = {}  # on the path of the walk; -1 once a name has been left
    path: list[str] = []
    in_cycles: list[int] = []  # positions on the path of names that are in a cycle already, in ascending order
    cycles: list[list[str]] = []
    for start in dependencies:
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            name, leaving = pending.pop()
            if leaving:
                position[path.pop()] = -1
                while in_cycles and in_cycles[-1] >= len(path):
                    in_cycles.pop()
            elif name not in position:
                position[name] = len(path)
                path.append(name)
                pending.append((name, True))
                pending += [
                    (dependency, False) for dependency in reversed(dependencies[name]) if dependency in dependencies
                ]
            elif position[name] >= 0 and not (in_cycles and in_cycles[-1] >= position[name]):
                cycles.append(path[position[name] :])
                in_cycles += range(position[name], len(path))
    return cycles


def cycle_text(cycle: Sequence[str], start: int = 0) -> str:
    """A cycle as text, from one of its names back to it; of a long one the beginning, and how many more there are."""
    count = len(cycle)
    names = [cycle[(start + i) % count] for i in range(min(count, _SHOWN))]
    if count > _SHOWN:
        names.append(f"{count - _SHOWN} more")
    return " -> ".join([*names, cycle[start]])
