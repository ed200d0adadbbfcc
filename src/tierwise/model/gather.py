"""How a gang wants to be gathered: tiers by name, as its owner wrote them.

Dialects make a `Gather`; a plugin turns it into `GatherOption`s, which are tried in order.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Ints

__all__ = ["Gather"]


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


class Gather(msgspec.Struct, frozen=True, eq=False):
    """What a gang asks of the network; tiers by name, since the tree may not know them."""

    within: tuple[str, ...] = ()  # tiers in one domain of which the whole gang must be
    prefer: tuple[str, ...] = ()  # tiers in one domain of which it should be, in the order listed
    multiples: tuple[tuple[str, int], ...] = ()  # in each domain of a tier tasks come in multiples of a number
    parallel: bool = False  # its tasks form pipelines: domains are filled by name, pipeline by pipeline
    pipeline: int = 1  # how many tasks, one rank after the other, form a pipeline
    drawn: Ints = msgspec.field(default_factory=_none)  # rows of other tasks that it should be near, one entry each
    fault: str = ""  # why what it asks for cannot be read
