"""Counting how many groups of several shapes rows take gives what trying every way gives."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.actions.eviction.feasibility import Mixture

Mix = tuple[int, ...]


def ways(free: list[int], requests: list[list[int]], allowed: list[bool], most: list[int]) -> set[Mix]:
    """The mixtures that a row takes."""
    every = product(*(range(number + 1 if may else 1) for number, may in zip(most, allowed, strict=True)))
    return {
        mix
        for mix in every
        if all(sum(n * r[k] for n, r in zip(mix, requests, strict=True)) <= have for k, have in enumerate(free))
    }


def groups_by_trial(rows: list[set[Mix]], sizes: list[int], groups: int) -> int:
    """How many groups rows take that take these mixtures each."""
    reached = {(0,) * len(sizes)}
    for mixes in rows:
        reached = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in reached for y in mixes}
    whole = [
        g for g in range(groups + 1) if any(all(a >= g * s for a, s in zip(m, sizes, strict=True)) for m in reached)
    ]
    return max(whole)


@given(seed=st.integers(0, 1 << 30))
@examples(200)
def test_counts_equal_trying_every_way(seed: int) -> None:
    """One to three shapes, some of which may be kept off some nodes, in one or two domains."""
    pick = Random(seed)
    shapes, resources, groups = pick.choice((1, 2, 2, 3)), pick.choice((1, 2)), pick.randrange(1, 4)
    sizes = [pick.randrange(1, 3) for _ in range(shapes)]
    requests = [[pick.randrange(1, 5)] + [pick.randrange(5) for _ in range(resources - 1)] for _ in range(shapes)]
    blocks = [range(2), range(2, 4)] if pick.random() < 0.5 else [range(3)]
    rows = blocks[-1].stop
    free = [[pick.randrange(12) for _ in range(rows)] for _ in range(resources)]
    allowed = [[pick.random() < 0.8 for _ in range(rows)] for _ in range(shapes)]
    most = [size * groups for size in sizes]

    taken = [ways([f[r] for f in free], requests, [a[r] for a in allowed], most) for r in range(rows)]
    expected = [groups_by_trial([taken[r] for r in block], sizes, groups) for block in blocks]
    mixture = Mixture(np.array(requests), np.array(sizes), groups)
    tables = mixture.tables(np.array(free), np.array(allowed)[mixture.order])
    lines = np.array([[*block, *[-1] * (-len(block) % 2)] for block in blocks])
    assert expected == mixture.whole_groups(mixture.together(tables, lines)).tolist()
