"""Filter and score of NetworkOverhead by the words of its page: one node and one placed pod after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["Placed", "accumulated", "normalised", "vote"]

Spot = tuple[str, str]


class Placed(msgspec.Struct, frozen=True):
    """A placed pod of a dependency: its node, where that is, and the limit of the dependency."""

    node: str
    spot: Spot
    limit: int


def _cost(one: Spot, other: Spot, costs: Mapping[tuple[str, str], int]) -> int | None:
    regional = one[0] != other[0]
    pair = (one[0], other[0]) if regional else (one[1], other[1])
    return costs.get(pair) if all(pair) else None


def vote(node: str, spot: Spot, placed: Sequence[Placed], costs: Mapping[tuple[str, str], int]) -> tuple[int, int]:
    """How many placed dependencies are satisfied, and how many violated."""
    satisfied = violated = 0
    for other in placed:
        if other.node == node:
            satisfied += 1
        elif other.spot == ("", ""):
            violated += 1
        elif other.spot == spot:
            satisfied += 1
        else:
            cost = _cost(spot, other.spot, costs)
            satisfied += cost is not None and cost <= other.limit
            violated += cost is not None and cost > other.limit
    return satisfied, violated


def _pays(node: str, one: Spot, other: Placed, costs: Mapping[tuple[str, str], int], *, back: bool) -> int:
    if other.node == node:
        return 0
    start, end = (other.spot, one) if back else (one, other.spot)
    if end == ("", ""):
        return 100
    if start == end:
        return 1
    cost = _cost(start, end, costs)
    return 100 if cost is None else cost


def accumulated(
    node: str, spot: Spot, callees: Sequence[Placed], callers: Sequence[Placed], costs: Mapping[tuple[str, str], int]
) -> int:
    """What a node costs with everybody who stands."""
    out = sum(_pays(node, spot, other, costs, back=False) for other in callees)
    return out + sum(_pays(node, spot, other, costs, back=True) for other in callers)


def normalised(costs: Mapping[str, int]) -> dict[str, int]:
    """Scores over the nodes that passed."""
    low, high = min(costs.values(), default=0), max(costs.values(), default=0)
    if low == high:
        return dict.fromkeys(costs, 100 if high else 0)
    return {node: 100 - 100 * (cost - low) // (high - low) for node, cost in costs.items()}
