"""Free slots: how much of what is idle a gang of a given size could use, tier by tier.

A slot is room for one task of a reference request, by default one unit of the resource that is scarce. Free slots
that no gang of a size can use, because they are scattered over domains that are too small, are fragmented for it.
Used by the metrics and by `top`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tierwise.explain.usage import held, scarce
from tierwise.model.arrays import Ints
from tierwise.model.resources import CPU, POD_SLOTS
from tierwise.model.snapshot import Snapshot

__all__ = ["GANGS", "TierSlots", "free_slots", "one_slot", "slots_by_tier"]

GANGS = (1, 8, 32, 128, 512)
"""Sizes of gangs, in slots, that are looked at where nobody asks for others."""


@dataclass(frozen=True, slots=True)
class TierSlots:
    """The domains of one tier, seen by a gang of so many slots that must fit inside one of them."""

    tier: int
    gang: int
    free: int  # free slots below the domains
    usable: int  # those that gangs of this size can fill

    @property
    def fragmentation(self) -> float:
        """The share of the free slots that gangs of this size cannot use: 0 is best, and also said of a full tier."""
        return 1.0 - self.usable / self.free if self.free else 0.0


def one_slot(snapshot: Snapshot) -> dict[str, int]:
    """The reference request where none is given: one accelerator, or one core where nodes have none."""
    resource = scarce(snapshot)
    return {resource: 1000 if resource == CPU else 1}


def free_slots(snapshot: Snapshot, slot: Mapping[str, int]) -> Ints:
    """How many slots every row has room for; none on nodes that take no pods now."""
    nodes = snapshot.nodes
    room = np.full(len(nodes), np.iinfo(np.int64).max, dtype=np.int64)
    for resource, amount in {POD_SLOTS: 1, **slot}.items():
        index = snapshot.axis.index.get(resource)
        idle = nodes.allocatable[index] - held(snapshot, resource) if index is not None else np.zeros_like(room)
        np.minimum(room, np.maximum(idle, 0) // amount, out=room)
    room[nodes.cordoned | ~nodes.ready] = 0
    return room


def slots_by_tier(
    snapshot: Snapshot, slot: Mapping[str, int] | None = None, gangs: Sequence[int] = GANGS
) -> list[TierSlots]:
    """Free and usable slots of every tier for every size of gang, tiers ascending."""
    topology = snapshot.topology
    rooms = topology.totals(free_slots(snapshot, slot or one_slot(snapshot)))
    found = []
    for tier, domains in topology.at_tier.items():
        room = rooms[domains]
        found += [TierSlots(tier, gang, int(room.sum()), int((room // gang * gang).sum())) for gang in gangs]
    return found
