"""Words for the parts of a gang: tasks, PodCliques, pod sets, slices, as their language calls them.

A language says it once (`dialects.groups.Group.part_names`). Reasons, statuses and pages ask the job, so that a gang is
spoken of in the words in which it was written. Nothing is decided by these words.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tierwise.api.plurals import count

__all__ = ["PART_NAMES", "PartNames", "joint_word", "pods_by_part"]


class PartNames(msgspec.Struct, frozen=True):
    """The words for the parts of a gang, in the singular."""

    role: str = "task"  # pods that have a minimum of their own, and no place of their own
    part: str = "sub-group"  # pods that have a place of their own
    group: str = "group"  # parts that have a place, or a minimum, together
    others: tuple[tuple[str, str], ...] = ()  # names of parts, or of policies of parts, and how these are called

    def of(self, name: str, policy: str = "") -> str:
        """The word for a part by its own name and by that of its policy."""
        return next((word for called, word in self.others if called in (name, policy)), self.part)

    def unknown(self, name: str) -> str:
        """That there is no part of this name."""
        return f'there is no {self.of(name)} "{name}"'

    def of_group(self, path: str) -> str:
        """The word for parts together, by their path."""
        name = path.rpartition("/")[2]
        return next((word for called, word in self.others if called == name), self.group)


PART_NAMES = PartNames()
"""Those of gangs whose language says nothing else."""


def joint_word(words: Iterable[str]) -> str:
    """One word for parts that may be called differently."""
    different = set(words)
    return different.pop() if len(different) == 1 else "part"


_SHOWN = 4
"""Parts that a text lists."""


def pods_by_part(parts: Iterable[str]) -> str:
    """Pods counted by the parts that they are of: "role decode: 4, role prefill: 2"; "" where no pod names a part."""
    numbers: dict[str, int] = {}
    for part in parts:
        numbers[part] = numbers.get(part, 0) + 1
    unnamed = numbers.pop("", 0)
    if not numbers:
        return ""
    if len(numbers) == 1 and not unnamed:
        return next(iter(numbers))
    shown = [f"{part}: {number}" for part, number in sorted(numbers.items())]
    more = [f"{count(len(shown) - _SHOWN, 'other part')}"] if len(shown) > _SHOWN else []
    return ", ".join([*shown[:_SHOWN], *more])
