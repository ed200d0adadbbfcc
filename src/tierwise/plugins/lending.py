"""Share one resource among quotas side by side: each its minimum first, and what is idle lent by weight.

    request <= min        runtime is the request, or min where the quota does not lend
    request >  min        runtime is min, and a share of what is left, never more than the request

What is left is shared in rounds among those still short: by weight, in whole units, the largest fractions first and
equal ones by name; whoever gets more than it asks for gives the rest back for the next round. Koordinator's rounds,
step by step, because every round rounds: the closed form (`water`) may differ by a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Claim", "lend_out", "scaled"]


class Claim(msgspec.Struct, frozen=True):
    """What one quota brings to the table, in whole units of one resource."""

    request: int
    minimum: int
    weight: int
    lends: bool

    @property
    def first(self) -> int:
        """What it has before anything is shared."""
        if self.request > self.minimum or not self.lends:
            return self.minimum
        return self.request


def lend_out(total: int, claims: Sequence[Claim]) -> list[int]:
    """The runtime of each claim, which stand in the order of their names. More than the total where the minimums are.

    Exact for any size: products of amounts and weights exceed 64 bits, so these are Python's integers.
    """
    runtimes = [claim.first for claim in claims]
    left = total - sum(runtimes)
    short = [i for i, claim in enumerate(claims) if claim.request > claim.minimum and claim.weight > 0]
    while left > 0 and short:
        for i, part in zip(short, _by_weight(left, [claims[i].weight for i in short]), strict=True):
            runtimes[i] += part
        left = sum(max(0, runtimes[i] - claims[i].request) for i in short)
        for i in short:
            runtimes[i] = min(runtimes[i], claims[i].request)
        short = [i for i in short if runtimes[i] < claims[i].request]
    return runtimes


def _by_weight(total: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of the total in proportion to the weights; what rounding leaves goes to the largest fractions."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_fraction = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in by_fraction[: total - sum(parts)]:
        parts[i] += 1
    return parts


def scaled(total: int, minimums: Sequence[int]) -> list[int]:
    """The minimums, all reduced in one proportion where together they are more than there is; fractions are dropped."""
    asked = sum(minimums)
    if asked <= total:
        return list(minimums)
    return [max(total, 0) * minimum // asked for minimum in minimums]
