"""A recommendation costs nobody a place: whatever fits without `propose` fits with it, at the same tier."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import Gang, Outcome, allocate, draw
from tests.support.split_optimum import touched
from tests.support.strategies import PROFILES, Scene, proposing, scenes

from tierwise.framework.extension import Proposal
from tierwise.framework.report import Decision

PROPOSING = st.sampled_from([name for name in PROFILES if name.startswith("proposing")])


def _first(outcome: Outcome) -> Decision | None:
    """The decision about the gang's minimum."""
    return next((d for d in outcome.report.decisions if d.action == "allocate"), None)


@given(scenes(gangs=1, leaving=True), PROPOSING)
@examples(70)
def test_what_fits_without_fits_with(scene: Scene, name: str) -> None:
    """One gang, anywhere, of any kind: the same pods are placed, and one that was recommended stands no wider.

    On one node it is as tight as can be, also where that node is in no rack.
    """
    plain = allocate(scene.world, *scene.gangs)
    proposed = allocate(scene.world, *scene.gangs, profile=PROFILES[name])

    before, after = _first(plain), _first(proposed)

    assert (before is None) == (after is None)
    if before is not None and after is not None and after.proposed is not None:
        tier = plain.snapshot.topology.tier
        assert before.count() == after.count()
        assert before.bound <= after.bound
        nodes = {int(row) for placed in after.placed for row in placed.rows}
        assert len(nodes) == 1 or tier[before.domain] >= tier[after.domain]


@given(st.lists(st.integers(0, 4), min_size=12, max_size=12), st.integers(1, 24))
@examples(45)
def test_no_split_of_the_engine_touches_fewer_domains(busy: list[int], tasks: int) -> None:
    """With the objective fewest-domains the pods stand in no more domains than without, counted from the outside."""
    running = " ".join(f"n{i}:cpu={used}" for i, used in enumerate(busy) if used)
    world = draw("s0[r0[n0..1] r1[n2..3] r2[n4..5]] s1[r3[n6..7] r4[n8..9] r5[n10..11]]", node="cpu=4", running=running)
    train = Gang("train", tasks=tasks, each="cpu=1", within=3)
    plain, proposed = (allocate(world, train, profile=p) for p in (PROFILES["default"], proposing()))

    if proposed.report.decisions:
        (before,), (after,) = plain.report.decisions, proposed.report.decisions
        topology = plain.snapshot.topology
        assert isinstance(after.proposed, Proposal)
        leaves = [topology.leaf[d.placed[0].rows] for d in (before, after)]
        assert touched(topology, leaves[1], after.domain) <= touched(topology, leaves[0], before.domain)
