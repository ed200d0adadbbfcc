"""The cheapest victims in one domain: bundles in order until the gang fits, then whoever is not needed is spared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierwise.actions.making_room import Fits
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Cause, Purpose
from tierwise.model.arrays import Ints

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Victims in one domain, and what they cost; plans are compared by `price`, the smallest wins."""

    domain: int
    victims: Ints
    bundles: Bundles  # all that could have gone, in order
    taken: tuple[int, ...]  # of these
    price: tuple[float, ...]


def make_plan(cycle: Cycle, cause: Cause, domain: int, bundles: Bundles, fits: Fits) -> Plan | None:
    """The fewest bundles in order that make room, less those that can be spared; None where all are not enough."""
    needed = _shortest(bundles, fits)
    if needed is None:
        return None
    taken = {b: bundles.of(b) for b in range(needed)}
    for b in reversed(range(needed)):  # the dearest first
        rest = _flat([v for other, v in taken.items() if other != b])
        if fits.without(rest):
            del taken[b]
    for b in [b for b in reversed(list(taken)) if bundles.safe[b]]:
        for victim in taken[b][::-1].tolist():
            kept = taken[b][taken[b] != victim]
            if fits.without(_flat([v if other != b else kept for other, v in taken.items()])):
                taken[b] = kept
    chosen = {b: v for b, v in taken.items() if len(v)}
    victims = _flat(list(chosen.values()))
    price = _price(cycle, cause, domain, bundles, list(chosen), victims)
    return Plan(domain, victims, bundles, tuple(chosen), price)


def _shortest(bundles: Bundles, fits: Fits) -> int | None:
    """How many bundles from the front make room: more victims never make less room, so bisection finds it."""
    if fits.without(np.zeros(0, dtype=np.int64)):
        return 0
    if not fits.without(bundles.victims):
        return None
    low, high = 0, len(bundles)  # `low` are too few, `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        if fits.without(bundles.victims[: bundles.start[middle]]):
            high = middle
        else:
            low = middle
    return high


def _flat(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _price(
    cycle: Cycle, cause: Cause, domain: int, bundles: Bundles, taken: list[int], victims: Ints
) -> tuple[float, ...]:
    """Highest priority broken (preempt), what the broken gangs held anywhere, what is evicted, tier, name."""
    broken = [b for b in taken if not bundles.safe[b]]
    highest = max((cycle.snapshot.jobs[int(bundles.job[b])].priority for b in broken), default=-(2**40))
    asked = np.flatnonzero(cause.need)
    evicted = (cause.running.request[np.ix_(asked, victims)].sum(axis=1) / cause.need[asked]).sum()
    return (
        float(highest) if cause.purpose is Purpose.PREEMPT else 0.0,
        round(float(bundles.cost[broken].sum()), 9),
        round(float(evicted), 9),
        float(cycle.topology.tier[domain]),
        float(cycle.topology.rank[domain]),
    )
