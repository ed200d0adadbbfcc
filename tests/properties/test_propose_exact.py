"""The splits of `propose` are the best there are: held against every set of pieces, and against an exact solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from tests.support.depth import examples
from tests.support.split_optimum import (
    asked,
    cheapest_set,
    fewest,
    least_loss,
    touched,
    tree_of,
)

from tierwise.framework.extension import Units
from tierwise.model.topology import Topology
from tierwise.plugins.propose import objectives
from tierwise.plugins.propose.min_cost_cover import CoverCosts, Split, cover, greedy
from tierwise.plugins.propose.objectives import least_damage, loss

Asked = tuple[Topology, Units, int]
SIZES = st.dictionaries(st.integers(1, 6), st.integers(1, 3), min_size=1, max_size=3)


def _sound(units: Units, split: Split) -> None:
    """All units are placed, no piece takes more than it holds or nothing at all, and none comes twice."""
    assert units.count == split.counts.sum()
    assert (split.counts > 0).all()
    assert (split.counts <= units.own[split.pieces]).all()
    assert len(set(split.pieces.tolist())) == len(split.pieces)


@given(asked())
@examples(100)
def test_fewest_domains_equals_brute_force(scene: Asked) -> None:
    """Fewest domains of the outermost tier, then of the next, then pieces, then least left over."""
    topology, units, domain = scene
    table = objectives.fewest_domains(topology, units)
    assert table is not None
    split = cover(topology, units, table, domain)
    left = int(units.own[split.pieces].sum()) - units.count

    _sound(units, split)
    assert fewest(topology, units, domain) == (touched(topology, split.pieces, domain), left)
    starts = [topology.own_span(piece).start for piece in split.pieces.tolist()]
    assert sorted(starts) == starts


@pytest.mark.parametrize(
    ("tree", "rooms", "count", "expected"),
    [
        ("s0[r0[n0] r1[n1] r2[n2] r3[n3]] s1[r4[n4]] s2[r5[n5]]", [1, 1, 1, 1, 2, 2], 4, [1, 4]),
        ("s0[a[r0[n0] r1[n1] r2[n2] r3[n3]] b[r4[n4]] c[r5[n5]]]", [1, 1, 1, 1, 2, 2], 4, [1, 1, 4]),
        ("s0[r0[n0] r1[n1] r2[n2]]", [4, 3, 2], 5, [1, 2]),
    ],
)
def test_outer_tiers_count_before_inner_ones(tree: str, rooms: list[int], count: int, expected: list[int]) -> None:
    """One spine with four racks is better than two spines with two, and one leaf with four better than two with two."""
    topology = tree_of(tree)
    held = topology.totals(np.array(rooms))
    units = Units(None, count, 1, topology.own(held), held)
    table = objectives.fewest_domains(topology, units)
    assert table is not None
    split = cover(topology, units, table, 0)

    assert expected == touched(topology, split.pieces, 0)
    assert (expected, int(units.own[split.pieces].sum()) - count) == fewest(topology, units, 0)


@given(asked())
@examples(70)
def test_pack_equals_brute_force(scene: Asked) -> None:
    """The lowest sum of squares."""
    topology, units, domain = scene
    table = objectives.pack(topology, units)
    split = cover(topology, units, table, domain)

    _sound(units, split)
    assert cheapest_set(topology, units, table, domain) == split.price


@given(asked(most=3), SIZES)
@examples(45)
def test_least_damage_equals_brute_force(scene: Asked, sizes: dict[int, int]) -> None:
    """The fewest slots lost in all domains, by every division of at most six units."""
    topology, whole, domain = scene
    units = Units(None, min(whole.count, 6), 1, whole.own, whole.held)
    split = least_damage(topology, units, sizes, domain)

    _sound(units, split)
    assert least_loss(topology, units, sizes, domain) == split.price


@given(asked())
@examples(70)
def test_bounds_are_below_what_candidates_cost(scene: Asked) -> None:
    """No candidate is left out because of a bound that it could beat, and an innermost one costs its bound."""
    topology, units, domain = scene
    table = objectives.fewest_domains(topology, units)
    assert table is not None
    group = np.flatnonzero((topology.tier == topology.tier[domain]) & (units.held >= units.count))
    bounds = objectives.fewest_bound(topology, units, table, group)

    for candidate, bound in zip(group.tolist(), bounds.tolist(), strict=True):
        cost = cover(topology, units, table, candidate).price
        assert bound <= cost
        assert bound == cost or topology.children[candidate]


@given(asked())
@examples(70)
def test_greedy_is_sound_and_never_better(scene: Asked) -> None:
    """Greedy splits hold all units, cost what they say, and no less than the exact ones."""
    topology, units, domain = scene
    table = objectives.fewest_domains(topology, units)
    assert table is not None
    split = greedy(topology, units, table, domain)

    assert split is not None
    _sound(units, split)
    assert cover(topology, units, table, domain).price <= split.price


@pytest.mark.parametrize("seed", range(6))
def test_fewest_domains_equals_a_solver(seed: int) -> None:
    """On three tiers and 48 racks, beyond brute force: the same price as a constraint solver proves to be the least."""
    rng = np.random.default_rng(seed)
    racks = iter(range(48))
    spines = " ".join(
        f"s{s}["
        + " ".join(
            f"t{s}-{t}[" + " ".join(f"r{r}[n{r}]" for r in (next(racks) for _ in range(4))) + "]" for t in range(4)
        )
        + "]"
        for s in range(3)
    )
    topology = tree_of(spines)
    held = topology.totals(rng.integers(0, 17, size=48))
    units = Units(None, int(rng.integers(20, held[0])), 1, topology.own(held), held)
    table = objectives.fewest_domains(topology, units)
    assert table is not None

    assert _solved(topology, units, table) == cover(topology, units, table, 0).price


def _solved(topology: Topology, units: Units, table: CoverCosts) -> int:
    model = cp_model.CpModel()
    used = [model.new_bool_var(name) for name in topology.name]
    for d in range(1, len(topology)):
        model.add_implication(used[d], used[int(topology.parent[d])])
    model.add(sum(int(units.own[d]) * used[d] for d in range(len(topology))) >= units.count)
    costs = (table.touch + np.where(units.own > 0, table.piece, 0)).tolist()
    model.minimize(sum(costs[d] * used[d] for d in range(1, len(topology))))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return sum(costs[d] for d in range(1, len(topology)) if solver.value(used[d]))


def test_loss_counts_slots() -> None:
    """Taking one of eight from a domain costs one slot of eight, and two of four if gangs of four weigh double."""
    assert 8 == loss(np.array(8), np.array(1), {8: 1})
    assert 8 == loss(np.array(8), np.array(1), {4: 2})
    assert 0 == loss(np.array(9), np.array(1), {4: 1})
