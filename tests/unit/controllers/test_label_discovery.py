"""HyperNodes from node labels."""

import pytest
from tests.support.manifests import (
    discovery,
    hypernode,
    manifest,
    names,
    node,
    nodes,
    objects,
    settled,
    spec,
)

from tierwise.api.codec import Raw
from tierwise.port import Objects

CONFIG = discovery("a3: example.com/cluster example.com/rack kubernetes.io/hostname")


def _machine(name: str, cluster: str = "", rack: str = "") -> Raw:
    labels = {"kubernetes.io__hostname": name, "example.com__cluster": cluster, "example.com__rack": rack}
    return node(name, "cpu=1", **{key: value for key, value in labels.items() if value})


def _shape(world: Objects) -> dict[str, tuple[object, list[str]]]:
    """Tier and members of each hyperNode."""
    found = {}
    for name in names(world, "HyperNode"):
        members = spec(world, "HyperNode", name)["members"]
        assert isinstance(members, list)
        exact = [member["selector"]["exactMatch"]["name"] for member in members]
        found[name] = spec(world, "HyperNode", name)["tier"], exact
    return found


def _made(name: str, tier: int, key: str, value: str, *members: str) -> Raw:
    """A hyperNode that discovery has made before."""
    raw = hypernode(name, tier, nodes(*members), tier_name=key)
    raw["metadata"] = {"name": name, "labels": {"volcano.sh/network-topology-source": "label", key: value}}
    return raw


def test_the_entry_before_the_host_is_tier_one() -> None:
    """Labels run from the outermost inwards; nodes hang on the innermost, in natural order."""
    world = settled(objects(CONFIG, *(_machine(f"n{i}", "c0", f"r{i // 8}") for i in range(12))))
    found = list(_shape(world).values())

    assert [1, 1, 2] == [tier for tier, _ in found]
    assert ["n8", "n9", "n10", "n11"] in [members for _, members in found]
    assert (2, [name for name in names(world, "HyperNode") if "-tier1-" in name]) == found[2]


def test_a_new_hypernode_says_where_it_comes_from() -> None:
    """Name, labels and tier name tell the source, the network and the label."""
    world = settled(objects(CONFIG, _machine("n0", rack="r0")))
    [name] = names(world, "HyperNode")

    assert name.startswith("hypernode-a3-tier1-")
    assert len("hypernode-a3-tier1-") + 5 == len(name)
    assert {
        "name": name,
        "labels": {"volcano.sh/network-topology-source": "label", "example.com/rack": "r0"},
    } == manifest(world, "HyperNode", name)["metadata"]
    assert "example.com/rack" == spec(world, "HyperNode", name)["tierName"]


def test_a_chain_ends_at_the_first_missing_label() -> None:
    """Without a rack a node belongs nowhere, without a cluster its rack stands alone."""
    world = settled(objects(CONFIG, _machine("n0", rack="r0"), _machine("n1", cluster="c0")))

    assert [(1, ["n0"])] == list(_shape(world).values())


def test_one_value_under_two_parents_makes_two_hypernodes() -> None:
    """Rack r0 of one cluster is not rack r0 of another."""
    world = settled(objects(CONFIG, _machine("n0", "c0", "r0"), _machine("n1", "c1", "r0")))

    assert [(1, ["n0"]), (1, ["n1"])] == sorted(shape for shape in _shape(world).values() if shape[0] == 1)
    assert [1, 1] == [len(members) for tier, members in _shape(world).values() if tier == 2]


def test_names_are_the_same_in_every_run() -> None:
    """A cluster discovered anew gives the names that it gave before."""
    cluster = [CONFIG, *(_machine(f"n{i}", f"c{i % 2}", f"r{i % 4}") for i in range(8))]

    assert _shape(settled(objects(*cluster))) == _shape(settled(objects(*reversed(cluster))))


def test_an_existing_name_is_kept_while_its_members_change() -> None:
    """A hyperNode made before is found by its labels and brought up to date."""
    old = _made("hypernode-a3-tier1-aaaaa", 1, "example.com/rack", "r0", "n0", "gone")
    world = settled(objects(CONFIG, old, _machine("n0", rack="r0"), _machine("n1", rack="r0")))

    assert {"hypernode-a3-tier1-aaaaa": (1, ["n0", "n1"])} == _shape(world)


def test_names_stay_with_their_nodes_where_values_repeat() -> None:
    """Of two hyperNodes for racks of one value, each stays with the rack whose nodes it held."""
    key = "example.com/rack"
    old = [_made("hypernode-a3-tier1-aaaaa", 1, key, "r0", "n1"), _made("hypernode-a3-tier1-bbbbb", 1, key, "r0", "n0")]
    world = settled(objects(CONFIG, *old, _machine("n0", "c0", "r0"), _machine("n1", "c1", "r0")))
    racks = {name: shape for name, shape in _shape(world).items() if shape[0] == 1}

    assert {"hypernode-a3-tier1-aaaaa": (1, ["n1"]), "hypernode-a3-tier1-bbbbb": (1, ["n0"])} == racks


def test_what_is_no_longer_discovered_goes_and_the_rest_stays() -> None:
    """Only hyperNodes of this source are deleted."""
    gone = _made("hypernode-a3-tier1-ccccc", 1, "example.com/rack", "r9", "n9")
    world = settled(objects(CONFIG, gone, hypernode("mine", 1, nodes("n0")), _machine("n0")))

    assert ["mine"] == names(world, "HyperNode")


@pytest.mark.parametrize(
    "config",
    [
        discovery("a3: example.com/rack kubernetes.io/hostname", enabled=False),
        discovery("a-name-of-more-than-20-characters: example.com/rack kubernetes.io/hostname"),
        discovery("a3: kubernetes.io/hostname"),
        CONFIG | {"data": {"volcano-controller.conf": "networkTopologyDiscovery: [}"}},
        CONFIG | {"data": {}},
    ],
)
def test_without_a_sound_and_enabled_source_nothing_is_touched(config: Raw) -> None:
    """A switched-off or unreadable configuration neither makes nor deletes."""
    old = _made("hypernode-a3-tier1-ccccc", 1, "example.com/rack", "r9", "n9")
    world = settled(objects(config, old, _machine("n0", rack="r0")))

    assert ["hypernode-a3-tier1-ccccc"] == names(world, "HyperNode")


def test_odd_letters_of_a_type_become_dashes() -> None:
    """A type may be spelled as people like; a name may not."""
    config = discovery("A3_Pod: example.com/rack kubernetes.io/hostname")
    [name] = names(settled(objects(config, _machine("n0", rack="r0"))), "HyperNode")

    assert name.startswith("hypernode-a3-pod-tier1-")


def test_many_racks_get_as_many_names() -> None:
    """Five hexadecimal digits are few: names that would collide are chosen again, and stay."""
    world = settled(objects(CONFIG, *(_machine(f"n{i}", "c0", f"r{i}") for i in range(3000))))

    assert 3001 == len(names(world, "HyperNode"))
