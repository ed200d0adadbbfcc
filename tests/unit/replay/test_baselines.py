"""Simple rules of placing: what each takes, and that none places half a gang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise_lab.replay.engine.baselines import RULES, rows_by
from tierwise_lab.replay.spec import ReplaySpec, replay
from tierwise_lab.replay.traces.synthetic import synthetic_fabric
from tierwise_lab.replay.traces.trace import split

FABRIC = synthetic_fabric("synthetic:spines=2,leaves=3,hosts=4", 8)
LEAF = FABRIC.domains(1)


def idle(**taken: int) -> np.ndarray:
    """Idle GPUs by host, all 8 but for those named as n0_1_2=GPUS."""
    found = np.full(len(FABRIC.nodes), 8, dtype=np.int64)
    for name, gpus in taken.items():
        found[FABRIC.nodes.row[name.replace("_", "-")]] = gpus
    return found


def names(rule: str, gpus: int, left: np.ndarray) -> list[str] | None:
    """The host of every pod."""
    rows = rows_by(RULES[rule], FABRIC.topology, left, split(gpus, 8))
    return None if rows is None else [FABRIC.nodes.names[row] for row in rows]


def leaves(rule: str, gpus: int, left: np.ndarray) -> list[str]:
    """The leaf of every pod, as spine and number."""
    return [name[1:4] for name in names(rule, gpus, left) or ()]


@pytest.mark.parametrize("rule", RULES)
def test_a_gang_goes_to_the_leaf_that_it_leaves_least_free(rule: str) -> None:
    """Of the leaves that hold it, the one with the fewest free hosts."""
    left = idle(n0_1_0=0, n1_0_0=0, n1_0_1=0, n1_0_2=0)

    assert ["0-1"] * 3 == leaves(rule, 24, left)


def test_a_gang_larger_than_a_leaf_takes_the_largest_leaves_and_ends_in_the_tightest() -> None:
    """The last leaf is the smallest that holds what is left."""
    left = idle(n0_0_0=0, n0_1_0=0, n0_1_1=0, n1_0_0=0, n1_0_1=0, n1_1_0=0, n1_1_1=0, n1_2_0=0, n1_2_1=0, n1_2_2=0)

    assert ["0-2"] * 4 + ["0-1"] * 2 == leaves("tree", 48, left)
    assert ["0-2"] * 4 + ["0-1"] * 2 == leaves("slurm", 48, left)
    assert ["0-1"] * 2 + ["0-0"] * 3 + ["0-2"] == leaves("kueue-least-free", 48, left)


def test_a_pod_alone_goes_to_the_fullest_host_and_with_slurm_to_the_fullest_leaf() -> None:
    """Best fit over hosts beside best fit over switches."""
    left = idle(n1_2_3=1, n0_0_0=0, n0_0_1=0)

    assert ["n1-2-3"] == names("tree", 1, left)
    assert ["n1-2-3"] == names("kueue", 1, left)
    assert ["n0-0-2"] == names("slurm", 1, left)


def test_the_pod_for_the_rest_stays_near() -> None:
    """It takes the fullest host that holds it in the tightest domain around the others."""
    left = idle(n0_0_0=5, n0_0_1=4, n1_0_0=4)

    assert ["n0-0-2", "n0-0-3", "n0-0-1"] == names("tree", 20, left)


def test_what_does_not_fit_is_not_placed() -> None:
    """Whole or not at all, the pod for the rest included."""
    assert names("tree", 8, np.full(24, 7)) is None
    assert names("kueue", 24 * 8 + 1, idle()) is None
    assert names("slurm", 8 * 24, idle(n0_0_0=7)) is None


@given(st.lists(st.integers(0, 8), min_size=24, max_size=24), st.integers(1, 120), st.sampled_from(sorted(RULES)))
def test_every_pod_has_a_host_that_holds_it(left: list[int], gpus: int, rule: str) -> None:
    """No host twice; and a gang is refused only where there are too few hosts."""
    sizes = split(gpus, 8)
    rows = rows_by(RULES[rule], FABRIC.topology, np.array(left), sizes)
    whole, rest = (sum(n >= sizes[0] for n in left), sum(n >= sizes[-1] for n in left))

    assert (rows is not None) == (whole >= sizes.count(sizes[0]) and rest >= len(sizes))
    assert len(set(rows or ())) == len(rows or ())
    assert all(left[row] >= size for row, size in zip(rows or (), sizes, strict=False))


def test_rules_decide_in_place_of_the_cycle() -> None:
    """All jobs end under every rule, and the numbers have the same definitions."""
    spec = ReplaySpec(
        topology="synthetic:spines=2,leaves=2,hosts=4", trace="synthetic:jobs=40", profile=tuple(RULES), load=0.9
    )
    found = replay(spec)

    assert list(RULES) == [outcome["profile"] for outcome in found.outcomes]
    assert [40] * len(RULES) == [outcome["jobs"]["finished"] for outcome in found.outcomes]
    assert all(outcome["spread"]["excess"] >= 0 for outcome in found.outcomes)
