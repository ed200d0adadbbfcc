"""The same gang in every language gets the same place, and none of them starts by half."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.koordinator import hypernode
from tests.support.languages import (
    RACK,
    SPINE,
    composite,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    near,
    nodes,
    plugin_gang,
    run,
    topology,
    volcano_gang,
)
from tests.support.sight import sees

from tierwise.api.codec import Raw

Tree = dict[str, dict[str, str]]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to three spines of up to three racks of up to three nodes."""
    number = 0
    tree: Tree = {}
    for s in range(draw(st.integers(1, 3))):
        racks: dict[str, str] = {}
        for r in range(draw(st.integers(1, 3))):
            size = draw(st.integers(1, 3))
            racks[f"s{s}r{r}"] = " ".join(f"n{i}" for i in range(number, number + size))
            number += size
        tree[f"s{s}"] = racks
    return tree


def _hypernodes(tree: Tree) -> list[Raw]:
    found = []
    for spine, racks in tree.items():
        found.append(hypernode(spine, 2, [("HyperNode", rack) for rack in racks]))
        found += [hypernode(rack, 1, [("Node", name) for name in names.split()]) for rack, names in racks.items()]
    return found


def _volcano(tree: Tree, pods: int, least: int, key: str) -> list[Raw]:
    group, *rest = volcano_gang("g", pods, least=least)
    limit: Raw = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1 if key == RACK else 2}} if key else {}
    return [*_hypernodes(tree), group | {"spec": {"minMember": least, **limit}}, *rest]


def _kubernetes(tree: Tree, pods: int, least: int, key: str) -> list[Raw]:
    """Both keys are named by somebody, so that both are in the tree."""
    idle = [raw for k in (RACK, SPINE) for raw in kubernetes_gang(f"idle-{k[-4:]}", 0, least=1, key=k)]
    return [*idle, *kubernetes_gang("g", pods, least=least, key=key)]


def _kai(tree: Tree, pods: int, least: int, key: str) -> list[Raw]:
    limit = {"topologyConstraint": near(key)} if key else {}
    return [topology(), *kai_gang("g", pods, least=least, **limit)]  # type: ignore[arg-type]


def _kueue(tree: Tree, pods: int, least: int, key: str) -> list[Raw]:
    """A pod group has no pods beyond its minimum."""
    asked = {"required_topology": key} if key else {}
    return [topology(of="kueue.x-k8s.io/v1beta2"), *kueue_gang("g", pods, total=pods, **asked)]  # type: ignore[arg-type]


LANGUAGES: dict[str, Callable[[Tree, int, int, str], list[Raw]]] = {
    "volcano": _volcano,
    "kubernetes": _kubernetes,
    "kai": _kai,
}


@sees(binds=22)
@examples(16, least=5)
@given(trees(), st.integers(1, 3), st.integers(1, 8), st.integers(1, 8), st.sampled_from(["", RACK, SPINE]))
def test_a_gang_gets_one_place_in_every_language(tree: Tree, cpu: int, pods: int, least: int, key: str) -> None:
    """Whatever tree, size, minimum and limit."""
    least = min(least, pods)
    world = nodes(tree, cpu=cpu)

    placed = {name: run(world, write(tree, pods, least, key))[0] for name, write in LANGUAGES.items()}

    assert all(bound == placed["volcano"] for bound in placed.values()), placed
    assert not placed["volcano"] or len(placed["volcano"]) >= least


@sees(binds=19, refusals=1)
@examples(16, least=5)
@given(trees(), st.integers(1, 3), st.integers(1, 8), st.sampled_from(["", RACK, SPINE]))
def test_a_pod_group_gets_the_place_of_any_gang(tree: Tree, cpu: int, pods: int, key: str) -> None:
    """Kueue's language knows no surplus."""
    world = nodes(tree, cpu=cpu)

    assert run(world, _kueue(tree, pods, pods, key))[0] == run(world, _volcano(tree, pods, pods, key))[0]


@sees(binds=19, refusals=1)
@examples(16, least=5)
@given(trees(), st.integers(1, 3), st.integers(1, 8), st.integers(1, 8))
def test_a_gang_without_a_limit_gets_one_place(tree: Tree, cpu: int, pods: int, least: int) -> None:
    """Also in the language that knows no topology."""
    world = nodes(tree, cpu=cpu)

    assert (
        run(world, volcano_gang("g", pods, least=min(least, pods)))[0]
        == run(world, plugin_gang("g", pods, least=min(least, pods)))[0]
    )


@sees(binds=16)
@given(trees(), st.integers(1, 2), st.integers(1, 6), st.sampled_from([RACK, SPINE]))
def test_a_limit_holds_beside_another_tree(tree: Tree, cpu: int, pods: int, key: str) -> None:
    """With hyperNodes over all nodes a key is a tree of its own: who finds a place without them finds one with them."""
    world = nodes(tree, cpu=cpu)
    gang = kubernetes_gang("g", pods, key=key)
    everything = hypernode("all", 1, [("Node", str(n["metadata"]["name"])) for n in world])  # type: ignore[index]

    beside, alone = run(world, [everything], gang)[0], run(world, gang)[0]

    assert set(beside) == set(alone)
    labels = {n["metadata"]["name"]: n["metadata"]["labels"][key] for n in world}  # type: ignore[index]
    assert len({labels[node] for node in beside.values()}) <= 1


@sees(binds=11, refusals=2)
@given(
    trees(),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from(["", RACK]),
    st.sampled_from(["", SPINE]),
    st.permutations(["b", "c", "a"]),
)
def test_groups_of_groups_get_one_place(tree: Tree, sizes: list[int], inner: str, outer: str, names: list[str]) -> None:
    """Sub-groups of KAI's, and PodGroups below a composite, in whatever order they are listed; all or none start."""
    world = nodes(tree)
    parts = dict(zip(names, sizes, strict=False))
    subs = [{"name": n, "minMember": size, "topologyConstraint": near(inner)} for n, size in parts.items()]
    whole = {"topologyConstraint": near(outer)} if outer else {}
    kai = run(world, [topology(), *kai_gang("g", parts, subGroups=subs, **whole)])[0]  # type: ignore[arg-type]
    groups = [
        raw
        for n, size in parts.items()
        for raw in kubernetes_gang(f"g-{n}", size, key=inner, parentCompositePodGroupName="g")
    ]
    idle = [raw for k in (RACK, SPINE) for raw in kubernetes_gang(f"idle-{k[-4:]}", 0, least=1, key=k)]
    kubernetes = run(world, idle, [composite("g", len(parts), key=outer), *groups])[0]

    assert kai == kubernetes
    assert len(kai) in (0, sum(parts.values()))
