"""How the ranks of a job talk to each other, as its annotation declares: `ring`, `all-to-all` or `dp=4,pp=8,tp=8`.

In the last form the ranks are a grid. The dimension that is named last varies fastest, so consecutive ranks differ in
it, and it is the one that needs the nearest neighbours. Where each dimension has a volume (`dp=4:1,pp=8:6,tp=8:90`),
that says how much a rank exchanges along it, in any unit, and the largest needs the nearest neighbours.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

import msgspec

__all__ = ["COORDINATES", "FORMS", "PATTERN", "RANK", "RANKS", "Pattern", "parse_pattern"]

PATTERN: Final = "tierwise.io/pattern"
"""On a pod group, or the job that it is made for: the pattern."""

RANK: Final = "tierwise.io/rank"
RANKS: Final = "tierwise.io/ranks"
COORDINATES: Final = "tierwise.io/coordinates"
"""On a pod of such a group, written with its node: its rank, how many there are, and its place in the grid."""

FORMS: Final = "ring, all-to-all, or a grid such as dp=4,pp=8,tp=8 or, with volumes, dp=4:1,pp=8:6,tp=8:90"
_DIMENSION: Final = r"\s*([a-z][a-z0-9]*)\s*=\s*([1-9][0-9]{0,5})\s*(?::\s*([0-9]{1,9})\s*)?"


class Pattern(msgspec.Struct, frozen=True):
    """A name, and for a grid its dimensions, outermost first, with the volume of each or none."""

    name: str
    grid: tuple[tuple[str, int], ...] = ()
    volumes: tuple[int, ...] = ()

    @property
    def factors(self) -> tuple[int, ...]:
        """The sizes of the grid's dimensions but the outermost, innermost first."""
        return tuple(size for _, size in reversed(self.grid[1:]))

    def coordinates(self, rank: int, ranks: int) -> str:
        """The place of a rank, as `dp=0,pp=1,tp=3`; nothing where no grid has so many ranks."""
        if not self.grid or prod(size for _, size in self.grid) != ranks:
            return ""
        coordinates_found = []
        for name, size in reversed(self.grid):
            rank, place = divmod(rank, size)
            coordinates_found.append(f"{name}={place}")
        return ",".join(reversed(coordinates_found))


def parse_pattern(text: str) -> Pattern | None:
    """The pattern that a text declares; None where it declares none."""
    if not text:
        return None
    if text in ("ring", "all-to-all"):
        return Pattern(text)
    matches = [re.fullmatch(_DIMENSION, part) for part in text.split(",")]
    grid = tuple((match[1], int(match[2])) for match in matches if match is not None)
    volumes = tuple(int(match[3]) for match in matches if match is not None and match[3] is not None)
    if len(grid) < len(matches) or len(dict(grid)) < len(grid) or len(volumes) not in (0, len(grid)):
        return None
    return Pattern("grid", grid, volumes)
