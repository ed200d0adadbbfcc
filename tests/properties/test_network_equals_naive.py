"""The arrays of NetworkOverhead say what one look after the other says, in any cluster and for any application."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.naive_network import Placed, Spot, accumulated, normalised, vote
from tests.support.depth import examples
from tests.support.services import (
    Raw,
    app_group,
    network,
    node,
    objects,
    pod,
    profile,
)

from tierwise.sim.cluster.rounds import look

SPOTS = ["ra/z1", "ra/z2", "rb/z3", "rb/z1", "ra/", "/z9", ""]


class Scene(msgspec.Struct, frozen=True):
    """A pod of service a that waits, and who stands where."""

    nodes: dict[str, str]
    calls: tuple[tuple[str, str, int], ...]
    standing: tuple[tuple[str, str], ...]  # service, node
    costs: dict[str, int]
    strict: bool
    both_ways: bool

    def spot(self, name: str) -> Spot:
        region, _, zone = self.nodes[name].partition("/")
        return region, zone

    def placed(self, *, callers: bool) -> list[Placed]:
        pairs = [(b if callers else a, a if callers else b, limit) for a, b, limit in self.calls]
        return [
            Placed(name, self.spot(name), limit)
            for this, other, limit in pairs
            for service, name in self.standing
            if this == "a" and other == service
        ]


@st.composite
def _scenes(draw: st.DrawFn) -> Scene:
    nodes = {f"n{i}": draw(st.sampled_from(SPOTS)) for i in range(draw(st.integers(1, 6)))}
    names = st.sampled_from("abc")
    calls = draw(st.lists(st.tuples(names, names, st.sampled_from((0, 5, 15, 100))), min_size=1, max_size=5))
    standing = draw(st.lists(st.tuples(names, st.sampled_from(sorted(nodes))), max_size=8))
    links = [f"{a}>{b}" for part in (("ra", "rb"), ("z1", "z2", "z3")) for a in part for b in part if a != b]
    costs = draw(st.dictionaries(st.sampled_from(links), st.sampled_from((0, 4, 5, 20, 400))))
    return Scene(nodes, tuple(calls), tuple(standing), costs, draw(st.booleans()), draw(st.booleans()))


def _objects(scene: Scene) -> list[Raw]:
    group = app_group([(a, b, {"maxNetworkCost": limit}) for a, b, limit in scene.calls], also=["a"])
    pods = [pod(f"s{i}", service, on=name) for i, (service, name) in enumerate(scene.standing)]
    links = {link: {"networkCost": cost} for link, cost in scene.costs.items()}
    return [*(node(name, spot, cpu=64) for name, spot in scene.nodes.items()), group, network(links), *pods]


@examples(60)
@given(_scenes())
def test_filter_and_score_equal_the_naive_ones(scene: Scene) -> None:
    """Node by node: who passes, what it costs, how it scores."""
    given_costs = {tuple(link.split(">")): cost for link, cost in scene.costs.items()}
    costs = {(a, b): cost for (a, b), cost in given_costs.items()}
    callees = scene.placed(callers=False)
    callers = scene.placed(callers=True) if scene.both_ways else []
    votes = {name: vote(name, scene.spot(name), callees, costs) for name in scene.nodes}
    passing = {name for name, (kept, bad) in votes.items() if not bad > (0 if scene.strict else kept)}
    paid = {name: accumulated(name, scene.spot(name), callees, callers, costs) for name in scene.nodes}

    how = profile(strict=scene.strict, bothWays=scene.both_ways)
    seen, _ = look(objects(*_objects(scene), pod("new", "a")), how, "default/new", now=0.0)

    assert seen is not None
    assert passing == {n.name for n in seen.nodes if n.feasible}
    expected = normalised({name: paid[name] for name in passing})
    assert expected == {n.name: n.scores["NetworkOverhead"] for n in seen.nodes if n.feasible}
    for found in seen.nodes:
        figures = found.figures.get("NetworkOverhead")
        if figures:
            assert (paid[found.name], *votes[found.name]) == (
                figures["cost"],
                figures["satisfied"],
                figures["violated"],
            )
