"""Share one resource by weight: the same level for all, but nobody below its floor or above its cap.

    share = max(floor, min(cap, level * weight))

with the highest level for which the shares add up to no more than there is. Exact: whole units throughout; what
rounding down leaves goes unit by unit to the largest fractions, the first in order first. This is where Volcano's
rounds (remaining x weight / sum of weights, capped, raised, again) end up, without depending on how many are made.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["share_out"]


def share_out(total: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """The share of each; weights are positive. The sum exceeds the total only where the floors alone do.

    Each round tries the level of those not settled yet. Where that puts some below their floor and others above
    their cap, the larger violation in sum settles its side; the other side may yet turn out to be none.
    """
    tops = [max(cap, floor) for cap, floor in zip(caps, floors, strict=True)]
    shares = list(floors)
    rising = [i for i, (top, floor) in enumerate(zip(tops, floors, strict=True)) if top > floor]
    left = total - sum(floors) + sum(floors[i] for i in rising)
    while rising:
        weight = sum(weights[i] for i in rising)
        below = [i for i in rising if floors[i] * weight > left * weights[i]]
        above = [i for i in rising if tops[i] * weight < left * weights[i]]
        if not below and not above:
            break
        lack = sum(floors[i] * weight - left * weights[i] for i in below)
        excess = sum(left * weights[i] - tops[i] * weight for i in above)
        settled = ([(i, floors[i]) for i in below] if lack >= excess else []) + (
            [(i, tops[i]) for i in above] if excess >= lack else []
        )
        for i, share in settled:
            shares[i] = share
            left -= share
        gone = {i for i, _ in settled}
        rising = [i for i in rising if i not in gone]
    if rising:
        weight = sum(weights[i] for i in rising)
        for i in rising:
            shares[i] = left * weights[i] // weight
        units = left - sum(shares[i] for i in rising)
        by_fraction = sorted(rising, key=lambda i: (-(left * weights[i] % weight), i))
        for i in by_fraction[:units]:
            shares[i] += 1
    return shares
