"""Dice by feature: what a feature draws does not change when another is switched off.

Every drawn cluster has features (taints, budgets, claims that are named twice, …). Each has dice of its own, made from
the seed and the feature's name, so that a cluster can be drawn again without one of them and stays the same otherwise:
that is how a cause of a difference is taken away.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping


class Dice:
    """Dice of one seed, and the features that are on."""

    def __init__(self, seed: int, chances: Mapping[str, float], without: Iterable[str] = ()) -> None:
        self.seed = seed
        off = set(without)
        unknown = off - set(chances)
        if unknown:
            raise SystemExit(f"no such feature: {', '.join(sorted(unknown))}; there are {', '.join(sorted(chances))}")
        self.on = frozenset(n for n, chance in chances.items() if n not in off and self.of(f"{n}?").random() < chance)

    def of(self, feature: str) -> random.Random:
        """The dice of a feature, from their beginning."""
        return random.Random(f"{feature} {self.seed}")
