"""Defragmentation: plans are steps that strand nobody, and on small clusters no plan moves fewer pods."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from tests.support.defrag import RACK, Cluster, clusters

from tierwise.config.profile import DEFAULT
from tierwise.explain.defrag import DefragPlan
from tierwise.sim.defragmentation.plan import defrag
from tierwise.sim.what_if.runs import prepared


def _plan(cluster: Cluster) -> DefragPlan:
    return defrag(prepared(cluster.objects(), DEFAULT, 0.0), cluster.text)


def _optimum(cluster: Cluster) -> int | None:
    """The fewest pods on other nodes in any arrangement that keeps all limits and has the room."""
    before = cluster.where()
    found = (
        sum(before[pod] != node for pod, node in places.items())
        for choice in product(RACK, repeat=len(before))
        if cluster.holds(places := dict(zip(before, choice, strict=True)), room=True)
    )
    return min(found, default=None)


@given(cluster=clusters())
def test_every_step_is_safe(cluster: Cluster) -> None:
    """After each move nodes hold all pods and gangs keep their limits; after the last the room is there."""
    plan = _plan(cluster)
    places = cluster.where()
    for move in plan.moves:
        for pod, (old, new) in move.pods.items():
            assert places[pod] == old != new
            places[pod] = new
        assert cluster.holds(places, room=False)

    assert plan.possible == cluster.holds(places, room=True)
    assert plan.fits == cluster.holds(cluster.where(), room=True)


@given(cluster=clusters())
def test_the_fewest_moves_are_the_fewest(cluster: Cluster) -> None:
    """The number of moved pods is that of the best arrangement there is, found by trying all of them."""
    plan, best = _plan(cluster), _optimum(cluster)

    assert best == (plan.pods if plan.possible else None)
    assert plan.exact


@given(cluster=clusters())
def test_a_plan_leaves_no_trace(cluster: Cluster) -> None:
    """The objects are what they were, and the same question has the same answer."""
    objects = cluster.objects()
    before = [(key, objects.raw(key)) for key in objects]
    first, again = (defrag(prepared(objects, DEFAULT, 0.0), cluster.text) for _ in range(2))

    assert before == [(key, objects.raw(key)) for key in objects]
    assert first == again
