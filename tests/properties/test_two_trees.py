"""HyperNodes and a ClusterNetworkTopology in one cluster: each gang is placed as if only its own tree were there."""

from __future__ import annotations

import random

import pytest
from tests.support.drawn_gang import gang as volcano_gang
from tests.support.drawn_gang import groups
from tests.support.koordinator import AWARE, cluster, gang, hypernode, run

from tierwise.api.codec import Raw


def _layers(chance: random.Random) -> tuple[list[Raw], list[str]]:
    """A cluster of labelled nodes, shuffled over blocks and spines, some of which are busy."""
    names = [f"n{i}" for i in range(chance.randint(4, 10))]
    shuffled = chance.sample(names, len(names))
    tree: dict[str, dict[str, str]] = {}
    for name in shuffled:
        block = chance.randint(0, 3)
        blocks = tree.setdefault(f"s{block % 2}", {})
        blocks[f"b{block}"] = f"{blocks.get(f'b{block}', '')} {name}".strip()
    found = cluster(tree, cpu=chance.randint(1, 3))
    busy: list[Raw] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"busy-{name}"},
            "spec": {"nodeName": name, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running"},
        }
        for name in names
        if chance.random() < 0.3
    ]
    return [*found, *busy], names


def _hypernodes(chance: random.Random, names: list[str]) -> list[Raw]:
    """Racks over the same nodes that have nothing to do with the labels, and a zone around some of them."""
    racks: dict[str, list[str]] = {}
    for name in names:
        racks.setdefault(f"r{chance.randint(0, 3)}", []).append(name)
    zone = chance.sample(sorted(racks), chance.randint(1, len(racks)))
    return [
        *(hypernode(rack, 1, [("Node", name) for name in inside]) for rack, inside in racks.items()),
        hypernode("zone", 2, [("HyperNode", rack) for rack in zone]),
    ]


def _koordinator(chance: random.Random) -> list[Raw]:
    pods = chance.randint(1, 6)
    return gang(
        "g",
        pods,
        least=chance.randint(1, pods),
        must=chance.choice(("", "BlockLayer", "SpineLayer", "NodeTopologyLayer")),
        multiples=chance.choice((None, None, {"BlockLayer": 2})),
        pipeline=chance.choice((0, 0, 2)),
    )


def _volcano(chance: random.Random) -> list[Raw]:
    size = chance.randint(1, 3)
    within = chance.choice((1, 2, None))
    if chance.random() < 0.5:
        return volcano_gang("g", tasks=2 * size, within=within, soft=within is None).manifests()
    return volcano_gang("g", within=2, groups=(groups(2, size, within=1),)).manifests()


@pytest.mark.parametrize("seed", range(60))
def test_layers_count_for_koordinator(seed: int) -> None:
    """HyperNodes beside the layers change nothing for a gang that speaks of layers."""
    chance = random.Random(seed)
    world, names = _layers(chance)
    asked = _koordinator(chance)

    expected = run(world, asked, profile=AWARE)

    assert expected == run(world, _hypernodes(chance, names), asked, profile=AWARE)


@pytest.mark.parametrize("seed", range(60))
def test_hypernodes_count_for_volcano(seed: int) -> None:
    """Layers beside the hyperNodes change nothing for a gang that speaks of tiers."""
    chance = random.Random(seed)
    world, names = _layers(chance)
    plain = [raw for raw in world if raw["kind"] != "ClusterNetworkTopology"]
    hypernodes, asked = _hypernodes(chance, names), _volcano(chance)

    expected = run(plain, hypernodes, asked)

    assert expected == run(world, hypernodes, asked)
