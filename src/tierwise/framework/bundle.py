"""Bundles: groups of victims that are evicted together, as columns.

`actions.eviction.bundles` builds them, and plugins may choose among them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats, Ints, seal

__all__ = ["FREE", "Bundles"]

FREE = 1e9
"""The efficiency of a bundle without cost."""


class Bundles(msgspec.Struct, frozen=True):
    """Bundles as columns; bundle b holds `victims[start[b]:start[b + 1]]`, positions in the running table."""

    victims: Ints
    start: Ints
    job: Ints
    safe: Bools
    gain: Floats  # what it frees here, as shares of the need
    cost: Floats  # what breaking the gang wastes, as shares of the need; 0 if safe
    group: Ints  # bundles of a lower group go before any of a higher one; set when they are sorted

    def __post_init__(self) -> None:
        seal(self.victims, self.start, self.job, self.safe, self.gain, self.cost, self.group)

    def __len__(self) -> int:
        return len(self.job)

    def of(self, b: int) -> Ints:
        return self.victims[self.start[b] : self.start[b + 1]]

    def efficiency(self) -> Floats:
        """Gain per cost; a safe bundle costs nothing, which no gain can match."""
        return np.where(self.safe, FREE, self.gain / np.maximum(self.cost, 1e-12))

    def parts(self, order: Ints) -> tuple[Ints, Ints]:
        """The victims of these bundles, in this order, and where those of each begin."""
        sizes = self.start[order + 1] - self.start[order]
        start = np.zeros(len(order) + 1, dtype=np.int64)
        np.cumsum(sizes, out=start[1:])
        return self.victims[np.repeat(self.start[order] - start[:-1], sizes) + np.arange(int(start[-1]))], start

    def pick(self, order: Ints) -> Bundles:
        """These bundles, in this order."""
        flat, start = self.parts(order)
        columns = (self.job, self.safe, self.gain, self.cost, self.group)
        return Bundles(flat, start, *(column[order] for column in columns))  # type: ignore[arg-type]

    def numbers(self, is_chosen: Bools) -> Ints:
        """Of victims that are chosen, how many belong to each bundle."""
        upto = np.concatenate(([0], np.cumsum(is_chosen)))
        result: Ints = upto[self.start[1:]] - upto[self.start[:-1]]
        return result
