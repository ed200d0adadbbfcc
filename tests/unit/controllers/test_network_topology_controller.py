"""NetworkTopologies: measured weights, reservations, and what is left alone."""

from __future__ import annotations

import pytest
from tests.support.services import (
    Raw,
    app_group,
    network,
    node,
    objects,
    pod,
)

from tierwise.api.core import Node
from tierwise.controllers.network_topology import measured, reconcile
from tierwise.model.services import Link
from tierwise.port import Objects
from tierwise.sim.cluster.store import EmbeddedCluster

NODES = [node("n1", "ra/z1"), node("n2", "ra/z2"), node("n3", "rb/z3"), node("bare")]
MS, US = "netperf.p90.latency.milliseconds", "netperf_p90_latency_microseconds"


def _settled(held: Objects, now: float = 0.0) -> EmbeddedCluster:
    """The cluster once the controller has nothing more to do."""
    cluster = EmbeddedCluster(held)
    for _ in range(5):
        asked = reconcile(cluster.read(), now)
        if not asked:
            return cluster
        cluster.apply(asked)
    raise AssertionError("the controller does not come to rest")


def _one(cluster: EmbeddedCluster) -> Raw:
    (found,) = (raw for raw in cluster.changed() if raw["kind"] == "NetworkTopology")
    return found


def _links(raw: Raw, weight: int, field: str) -> dict[str, object]:
    return {
        f"{origin['origin']}>{cost['destination']}": cost.get(field)
        for key in raw["spec"]["weights"][weight]["topologyList"]
        for origin in key["originList"]
        for cost in origin["costList"]
    }


def _config(**data: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "metrics"}, "data": data}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({f"{MS}.origin.n1.destination.n2": "7"}, {Link(False, "z1", "z2"): 7}),
        ({f"{US}.origin.n1.destination.n2": "7001"}, {Link(False, "z1", "z2"): 8}),
        ({f"{MS}.origin.n1.destination.n3": "20.5"}, {Link(True, "ra", "rb"): 21}),
        ({f"{MS}.origin.n1.destination.n2": "0"}, {Link(False, "z1", "z2"): 0}),
        ({f"{MS}.origin.n1.destination.n2": "n/a"}, {}),
        ({f"{MS}.origin.n1.destination.n2": "-3"}, {}),
        ({f"{MS}.origin.n1.destination.gone": "3"}, {}),
        ({f"{MS}.origin.n1.destination.bare": "3"}, {}),
        ({"netperf.p99.latency.milliseconds.origin.n1.destination.n2": "9"}, {}),
    ],
)
def test_what_a_measurement_says(data: dict[str, str], expected: dict[Link, int]) -> None:
    """Two spellings and units; whatever is no measurement of two known places says nothing."""
    assert expected == measured(data, objects(*NODES).every(Node))


def test_the_median_counts_before_rounding() -> None:
    """Of an even number, the middle between both: 2.6, and neither of them nor what they are when rounded."""
    nodes = [node("a1", "r/x"), node("a2", "r/x"), node("b1", "r/y"), node("b2", "r/y")]
    times = {
        "a1.destination.b1": "1000",
        "a1.destination.b2": "1100",
        "a2.destination.b1": "4100",
        "a2.destination.b2": "9000",
    }
    data = {f"{US}.origin.{pair}": time for pair, time in times.items()}

    assert {Link(False, "x", "y"): 3} == measured(data, objects(*nodes).every(Node))


def test_measured_weights_follow_the_config_map() -> None:
    """The set is made, changed and kept; the user's sets stay; the time moves with the costs alone."""
    topology = network({"z1>z2": {"networkCost": 3, "bandwidthCapacity": "500M"}})
    topology["spec"]["weights"].append({"name": "Mine", "topologyList": []})
    first = _settled(objects(*NODES, topology, _config(**{f"{MS}.origin.n1.destination.n2": "7"})))
    made = _one(first)

    assert ["UserDefined", "Mine", "NetperfCosts"] == [w["name"] for w in made["spec"]["weights"]]
    assert {"z1>z2": 7} == _links(made, 2, "networkCost")
    assert {"z1>z2": "500M"} == _links(made, 2, "bandwidthCapacity")
    assert {"nodeCount": 4, "weightCalculationTime": "1970-01-01T00:00:00Z"} == made["status"]
    assert [] == reconcile(first.read(), 999.0)

    changed = _settled(objects(*NODES, made, _config(**{f"{MS}.origin.n1.destination.n2": "9"})), now=60.0)
    assert {"z1>z2": 9} == _links(_one(changed), 2, "networkCost")
    assert "1970-01-01T00:01:00Z" == _one(changed)["status"]["weightCalculationTime"]


def test_reservations_are_sums_over_pairs_on_the_link_of_the_caller() -> None:
    """Zones of one region by their zones, other regions by their regions, nothing within a zone or without labels."""
    group = app_group([("web", "store", {"minBandwidth": "100"})])
    links = {name: {"bandwidthCapacity": "950"} for name in ("z1>z2", "z2>z1", "ra>rb")}
    pods = [
        pod("w1", "web", on="n1"),
        pod("w2", "web", on="n1"),
        pod("s1", "store", on="n2"),
        pod("s2", "store", on="n1"),
        pod("s3", "store", on="n3"),
        pod("s4", "store", on="bare"),
        pod("s5", "store"),
    ]
    done = pod("s6", "store", on="n2")
    done["status"] = {"phase": "Succeeded"}
    cluster = _settled(objects(*NODES, group, network(links), *pods, done))

    assert {"z1>z2": "200", "z2>z1": "0", "ra>rb": "200"} == _links(_one(cluster), 0, "bandwidthAllocated")

    twin = {**group, "metadata": {**group["metadata"], "namespace": "zzz"}}  # somebody else's of that name
    both = _settled(objects(*NODES, group, twin, network(links), *pods, done))
    assert {"z1>z2": "200", "z2>z1": "0", "ra>rb": "200"} == _links(_one(both), 0, "bandwidthAllocated")

    fewer = _settled(objects(*NODES, group, _one(cluster), *pods[1:]))
    assert {"z1>z2": "100", "z2>z1": "0", "ra>rb": "100"} == _links(_one(fewer), 0, "bandwidthAllocated")


def test_every_pair_says_what_is_reserved() -> None:
    """With or without a capacity, and where nothing is."""
    cluster = _settled(objects(*NODES, network({"z1>z2": {}, "z2>z1": {"bandwidthCapacity": "1G"}})))

    assert {"z1>z2": "0", "z2>z1": "0"} == _links(_one(cluster), 0, "bandwidthAllocated")


def test_the_proposals_form_also_says_what_is_left() -> None:
    """In its own field names."""
    cost = {"destination": "z2", "networkCost": 5, "bandwidthCapacity": "1k"}
    key = {"topologyKey": "topology.kubernetes.io/zone", "originCosts": [{"origin": "z1", "costs": [cost]}]}
    topology = {
        "apiVersion": "scheduling.sigs.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default"},
        "spec": {"configMapName": "none", "weights": [{"name": "UserDefined", "costList": [key]}]},
    }
    group = app_group([("web", "store", {"minBandwidth": "300"})])
    held = objects(*NODES, topology, group, pod("w", "web", on="n1"), pod("s", "store", on="n2"))
    entry = _one(_settled(held))["spec"]["weights"][0]["costList"][0]["originCosts"][0]["costs"][0]

    assert ("300", "700") == (entry["bandwidthAllocated"], entry["bandwidthAllocatable"])


@pytest.mark.parametrize(
    ("capacity", "bandwidth", "expected"),
    [
        ("10Gi", "100Mi", "100Mi"),
        ("1G", "100M", "100M"),
        ("1G", "1500k", "1500k"),
        ("950", "300", "300"),
        ("1G", "7", "7"),
    ],
)
def test_sums_are_spelled_like_the_capacity_beside_them(capacity: str, bandwidth: str, expected: str) -> None:
    """Binary beside binary, decimal beside decimal, digits beside digits."""
    links = network({"z1>z2": {"bandwidthCapacity": capacity}})
    group = app_group([("web", "store", {"minBandwidth": bandwidth})])
    cluster = _settled(objects(*NODES, links, group, pod("w", "web", on="n1"), pod("s", "store", on="n2")))

    assert {"z1>z2": expected} == _links(_one(cluster), 0, "bandwidthAllocated")
