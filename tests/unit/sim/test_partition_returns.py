"""A partition that is restarted returns to where it stood, or near it."""

import json

import pytest
from tests.support.manifests import (
    NOW,
    children,
    hypernode,
    job,
    node,
    nodes,
    objects,
    part,
    partitions,
    task,
    tier,
)

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.port import Key, Objects
from tierwise.sim.cluster import rounds


def _cluster() -> list[Raw]:
    """Two spines of three racks with two nodes each; a pod takes a node."""
    raws: list[Raw] = []
    for spine in (0, 1):
        racks = [f"s{spine}r{rack}" for rack in range(3)]
        raws.append(hypernode(f"s{spine}", 2, children(*racks)))
        for rack in racks:
            names = [f"{rack}n0", f"{rack}n1"]
            raws += [node(name, "cpu=4 pods=10") for name in names]
            raws.append(hypernode(rack, 1, nodes(*names)))
    return raws


def _scheduled(world: Objects) -> Objects:
    return rounds.schedule(world, DEFAULT, now=NOW).cluster.read()


def _racks(world: Objects) -> list[set[str]]:
    """The racks that each partition stands in."""
    found: list[set[str]] = [set(), set()]
    for pod in world.every(Pod).values():
        found[int(pod.metadata.labels["volcano.sh/partition-id"])].add(pod.spec.node_name[:4])
    return found


@pytest.fixture(params=[1, 2])
def placed(request: pytest.FixtureRequest) -> Objects:
    """A job of two partitions, each in one rack, that restarts a partition which fails, needed or surplus."""
    batch = job(
        "train",
        task("w", 4, "cpu=4", partitionPolicy=partitions(2, 2, minPartitions=request.param, networkTopology=tier(1))),
        policies=[{"event": "PodFailed", "action": "RestartPartition"}],
    )
    return _scheduled(objects(*_cluster(), batch))


def _failed(world: Objects, **cordoned: bool) -> Objects:
    """The last pod of partition 1 has failed; and some nodes take no more pods."""
    key = Key("", "Pod", "default", "train-w-3")
    puts = {key: (world.raw(key) or {}) | {"status": {"phase": "Failed"}}}
    for name in cordoned:
        at = Key("", "Node", "", name)
        puts[at] = (world.raw(at) or {}) | {"spec": {"unschedulable": True}}
    return world.changed(puts)


def test_a_restarted_partition_returns_to_its_rack(placed: Objects) -> None:
    """Though another rack comes before it by name and is as good."""
    before = _racks(placed)
    moved = {"tierwise.io/sub-groups": json.dumps({"w-0": {"hyperNode": min(before[0])}, "w-1": {"hyperNode": "s1r2"}})}
    [group] = [key for key in placed if key.kind == "PodGroup"]
    raw = placed.raw(group) or {}
    metadata = part(raw, "metadata") | {"annotations": part(part(raw, "metadata"), "annotations") | moved}
    world = placed.changed({group: raw | {"metadata": metadata}})

    assert [before[0], {"s1r2"}] == _racks(_scheduled(_failed(world)))


def test_where_its_rack_is_full_it_goes_next_door(placed: Objects) -> None:
    """The nearest rack to the old one, which is in the same spine."""
    old = next(iter(_racks(placed)[1]))
    [before, after] = _racks(_scheduled(_failed(placed, **{f"{old}n0": True})))

    assert ({old[:2]}, False) == ({rack[:2] for rack in after}, old in after)
    assert before == _racks(placed)[0]


def test_pods_know_where_they_stand(placed: Objects) -> None:
    """The binding writes it on the pod, for its environment to refer to."""
    pod = placed.every(Pod)["default/train-w-0"]
    rack = pod.spec.node_name[:4]

    assert (rack, f"{rack[:2]}/{rack}") == (
        pod.metadata.annotations["tierwise.io/hypernode"],
        pod.metadata.annotations["tierwise.io/topology"],
    )
