"""Sources other than labels: what was fetched becomes hyperNodes, and what failed keeps the old ones."""

import json

import pytest
from tests.support.drawn_fabric import fabric
from tests.support.manifests import (
    NOW,
    discovery,
    discovery_source,
    hypernode,
    names,
    node,
    nodes,
    objects,
    settled,
    spec,
    status,
)

from tierwise.api.codec import Raw
from tierwise.api.volcano import HyperNode
from tierwise.discovery import fetch_record
from tierwise.discovery.fetch_record import FetchRecord
from tierwise.discovery.tree import Tree
from tierwise.port import Objects

CONFIG = discovery_source("slurm", path="/etc/slurm/topology.conf")
CLUSTER = [node(f"n{i}") for i in range(4)]
TWO_RACKS = fabric("s0: r0[n0 n1] r1[n2 n3]")


def _record(found: FetchRecord, kind: str = "slurm") -> Raw:
    return fetch_record.manifest(found, kind, "volcano-system")


def _fetched(tree: Tree, kind: str = "slurm") -> Raw:
    return _record(fetch_record.fetched(tree, NOW), kind)


def _changed(world: Objects, raw: Raw) -> Objects:
    key = next(key for key in objects(raw))
    return settled(world.changed({key: raw}), NOW + 60)


def _messages(world: Objects, name: str, type_: str = "Discovered") -> list[object]:
    listed = status(world, "HyperNode", name).get("conditions", [])
    assert isinstance(listed, list)
    return [condition["message"] for condition in listed if condition["type"] == type_]


def test_a_fetched_tree_becomes_hypernodes() -> None:
    """With exact members, counted at every level, and no conditions."""
    world = settled(objects(CONFIG, *CLUSTER, _fetched(TWO_RACKS)))

    assert ["r0", "r1", "s0"] == names(world, "HyperNode")
    assert [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in ("r0", "r1")] == spec(
        world, "HyperNode", "s0"
    )["members"]
    assert [2, 2, 4] == [status(world, "HyperNode", name)["nodeCount"] for name in ("r0", "r1", "s0")]
    assert {"nodeCount": 4} == status(world, "HyperNode", "s0")


def test_a_newer_tree_takes_the_place_of_the_old_one() -> None:
    """Members change, what is gone is deleted, and other hyperNodes stay."""
    mine = hypernode("mine", 3, nodes("n0"))
    world = settled(objects(CONFIG, *CLUSTER, mine, _fetched(TWO_RACKS)))
    world = _changed(world, _fetched(fabric("s0: r0[n0 n1 n2] r9[n3]")))

    assert ["mine", "r0", "r9", "s0"] == names(world, "HyperNode")
    assert 3 == status(world, "HyperNode", "r0")["nodeCount"]


def test_a_failure_keeps_the_tree_and_says_so_on_every_hypernode_of_the_source() -> None:
    """What went wrong, how often, when it is tried again, and from when the tree is."""
    world = settled(objects(CONFIG, *CLUSTER, hypernode("mine", 3, nodes("n0")), _fetched(TWO_RACKS)))
    lost = fetch_record.failed(
        fetch_record.fetched(TWO_RACKS, NOW), "topology.conf: cannot be read:\n No such file", NOW + 60
    )
    failing = _changed(world, _record(lost))
    text = (
        "topology.conf: cannot be read: No such file; 1 failure, next try at 2025-10-09T08:54:50Z; "
        "the tree of 2025-10-09T08:53:20Z is kept"
    )

    assert names(world, "HyperNode") == names(failing, "HyperNode")
    assert [[text]] * 3 == [_messages(failing, name) for name in ("r0", "r1", "s0")]
    assert [] == _messages(failing, "mine")

    mended = _changed(failing, _fetched(TWO_RACKS))
    assert [] == _messages(mended, "r0")


def test_tries_back_off_and_never_wait_longer_than_the_interval() -> None:
    """Thirty seconds, doubled with every failure; after a success the interval."""
    found = fetch_record.fetched(TWO_RACKS, 0.0)
    waits = [fetch_record.next_try(found, 600.0)]
    for _ in range(7):
        found = fetch_record.failed(found, "no", 0.0)
        waits.append(fetch_record.next_try(found, 600.0))

    assert [600.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0] == waits
    assert [True, False, True] == [
        fetch_record.due(None, 600.0, 0.0),
        fetch_record.due(found, 600.0, 599.0),
        fetch_record.due(found, 600.0, 600.0),
    ]


def test_a_try_in_the_future_is_none() -> None:
    """A clock that was an hour ahead and has been set does not keep a source waiting for an hour."""
    assert fetch_record.due(fetch_record.fetched(TWO_RACKS, NOW + 3600.0), 600.0, NOW)


def test_a_source_that_never_answered_makes_nothing() -> None:
    """And deletes nothing."""
    world = settled(objects(CONFIG, *CLUSTER, _record(fetch_record.failed(None, "no", NOW))))

    assert [] == names(world, "HyperNode")


@pytest.mark.parametrize(
    "data",
    [{}, {"triedAt": "x"}, {"triedAt": "2026-01-01T00:00:00Z", "fetchedAt": "2026-01-01T00:00:00Z", "tree": "[]"}],
)
def test_a_record_that_somebody_else_wrote_changes_nothing(data: dict[str, str]) -> None:
    """It is told on the hyperNodes that are there."""
    world = settled(objects(CONFIG, *CLUSTER, _fetched(TWO_RACKS)))
    world = _changed(world, _fetched(TWO_RACKS) | {"data": data})

    assert ["r0", "r1", "s0"] == names(world, "HyperNode")
    [message] = _messages(world, "r0")
    assert str(message).startswith("ConfigMap tierwise-discovery-slurm is not a record of discovery")


def test_a_name_that_is_taken_is_left_to_its_owner() -> None:
    """Nothing is overwritten that another source or a person made."""
    world = settled(objects(CONFIG, *CLUSTER, hypernode("r0", 9, nodes("n3")), _fetched(TWO_RACKS)))

    assert 9 == spec(world, "HyperNode", "r0")["tier"]
    assert 4 == len(names(world, "HyperNode"))


def test_two_sources_with_one_name_do_not_meet() -> None:
    """Each keeps hyperNodes of its own, made in one go."""
    sources = [json.loads(_conf(discovery_source(kind)))["networkTopologyDiscovery"][0] for kind in ("slurm", "ufm")]
    config = CONFIG | {"data": {"volcano-controller.conf": json.dumps({"networkTopologyDiscovery": sources})}}
    records = [_fetched(fabric("s: r0[n0 n1]")), _fetched(fabric("t: r0[n2]"), "ufm")]
    world = settled(objects(config, *CLUSTER, *records))

    assert ["r0", "s", "t"] == [name for name in names(world, "HyperNode") if not name.startswith("r0-")]
    assert 4 == len(names(world, "HyperNode"))


def _conf(config: Raw) -> str:
    data = config["data"]
    assert isinstance(data, dict)
    return str(data["volcano-controller.conf"])


def test_a_prefix_stands_before_every_name() -> None:
    """As the configuration says."""
    world = settled(objects(discovery_source("slurm", namePrefix="hall1-"), *CLUSTER, _fetched(TWO_RACKS)))

    assert ["hall1-r0", "hall1-r1", "hall1-s0"] == names(world, "HyperNode")


def test_topograph_needs_no_fetching() -> None:
    """Its labels are on the nodes; where all are lost the old tree stays, and that is said."""
    labels = {"network.topology.nvidia.com__leaf": "l0", "network.topology.nvidia.com__spine": "s0"}
    config = discovery_source("topograph")
    world = settled(objects(config, node("n0", **labels), node("n1", **labels)))
    bare = settled(world.changed({key: node(key.name) for key in world if key.kind == "Node"}))

    assert ["s0", "s0-l0"] == names(world, "HyperNode") == names(bare, "HyperNode")
    assert ["no node carries a label of topograph"] == _messages(bare, "s0")


def test_whichever_preset_the_nodes_carry_is_read() -> None:
    """As the command line finds it; where labels of several are there the old tree stays, and that is said."""
    gke, aws = {"cloud.google.com__gce-topology-block": "b0"}, {"topology.k8s.aws__network-node-layer-1": "nn-1"}
    world = settled(objects(discovery_source("preset", fabric="efa"), node("n0", **gke), node("n1", **gke)))
    mixed = settled(world.changed({key: node(key.name, **gke, **aws) for key in world if key.kind == "Node"}))

    assert ["b0"] == names(world, "HyperNode") == names(mixed, "HyperNode")
    assert {"volcano.sh/network-topology-source": "preset", "tierwise.io/fabric": "efa"} == next(
        hypernode.metadata.labels for hypernode in world.every(HyperNode).values()
    )
    assert ["nodes carry the labels of several presets: aws, gke"] == _messages(mixed, "b0")


def test_a_broken_label_configuration_is_told_on_its_hypernodes() -> None:
    """They stay as they are."""
    config = discovery("a3: example.com/rack kubernetes.io/hostname")
    world = settled(objects(config, node("n0", example__com="x", **{"example.com__rack": "r0"})))
    broken = _changed(world, config | {"data": {"volcano-controller.conf": "networkTopologyDiscovery: [}"}})
    [name] = names(world, "HyperNode")

    assert [name] == names(broken, "HyperNode")
    assert str(_messages(broken, name)[0]).startswith("cannot be read")


def test_an_unknown_source_changes_nothing() -> None:
    """Such as roce, which Volcano names and does not have."""
    assert [] == names(settled(objects(discovery_source("roce"), *CLUSTER)), "HyperNode")
