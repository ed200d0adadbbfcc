"""AppGroups and NetworkTopologies: what is refused, what is warned of, in both forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.services import Raw, app_group, network, objects, pod

from tierwise.admission import validate
from tierwise.api.errors import InputError


def _errors(raw: Raw) -> set[str]:
    return {finding.path for finding in validate(objects(raw)).errors}


def _warnings(raw: Raw) -> set[str]:
    return {finding.path for finding in validate(objects(raw)).warnings}


def _kep(raw: Raw) -> Raw:
    return {**raw, "apiVersion": "scheduling.sigs.x-k8s.io/v1alpha1"}


def test_well_formed_ones_are_valid() -> None:
    """Also the proposal's form, where workloads have no selector."""
    plain = app_group([("a", "b")])
    bare = app_group([("a", "b")])
    for entry in bare["spec"]["workloads"]:
        for ref in (entry["workload"], *(d["workload"] for d in entry.get("dependencies", ()))):
            del ref["selector"]

    assert set() == _errors(plain) | _warnings(plain)
    assert set() == _errors(_kep(bare)) | _warnings(_kep(bare))
    assert set() == _errors(network({"z1>z2": {}}))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"numMembers": 0}, "spec.numMembers"),
        ({"numMembers": None}, "spec.numMembers"),
        ({"topologySortingAlgorithm": None}, "spec.topologySortingAlgorithm"),
        ({"workloads": None}, "spec.workloads"),
        ({"workloads": [{"workload": {"kind": "Deployment", "name": "a"}}]}, "spec.workloads[0].workload.selector"),
        ({"workloads": [{"workload": {"name": "a", "selector": "a"}}]}, "spec.workloads[0].workload.kind"),
    ],
)
def test_app_groups_that_are_refused(change: dict[str, Any], path: str) -> None:
    """Fields that the definition asks for, and values out of range."""
    group = app_group([("a", "b")])
    group["spec"] |= change

    assert path in _errors(group)


@pytest.mark.parametrize("cost", [-1, 10_001])
def test_costs_out_of_range_are_refused(cost: int) -> None:
    """0 to 10000."""
    group = app_group([("a", "b", {"maxNetworkCost": cost})])

    assert {"spec.workloads[0].dependencies[0].maxNetworkCost"} == _errors(group)


@pytest.mark.parametrize("field", ["bandwidthCapacity", "bandwidthAllocated"])
def test_bandwidths_below_nought_are_refused(field: str) -> None:
    """They are numbers, so it is not bad input; what is left of a link may be less than nothing."""
    group = app_group([("a", "b", {"minBandwidth": "-5Mi"})])

    assert {"spec.workloads[0].dependencies[0].minBandwidth"} == _errors(group)
    assert {f"spec.weights[0].topologyList[1].originList[0].costList[0].{field}"} == _errors(
        network({"z1>z2": {field: "-1"}})
    )
    assert set() == _errors(network({"z1>z2": {"bandwidthAllocatable": "-1"}}))


def test_counts_below_nought_are_refused() -> None:
    """Also those in a status."""
    group, topology = app_group([("a", "b")]), network({})

    assert {"status.runningWorkloads"} == _errors({**group, "status": {"runningWorkloads": -1}})
    assert {"status.nodeCount"} == _errors({**topology, "status": {"nodeCount": -1}})


def test_bandwidths_that_are_no_quantities_are_bad_input() -> None:
    """Each of them, what is left of a link too."""
    for field in ("bandwidthCapacity", "bandwidthAllocated", "bandwidthAllocatable"):
        with pytest.raises(InputError, match=field):
            objects(network({"z1>z2": {field: "wide"}}))


def test_what_is_only_doubtful_is_warned_of() -> None:
    """An unknown algorithm, a dependency that is not listed, a topology key that nobody reads."""
    group = app_group([("a", "b")], algorithm="BubbleSort")
    group["spec"]["workloads"].pop()
    topology = network({})
    topology["spec"]["weights"][0]["topologyList"].append({"topologyKey": "rack", "originList": []})

    assert {"spec.topologySortingAlgorithm", "spec.workloads[0].dependencies[0].workload"} == _warnings(group)
    assert {"spec.weights[0].topologyList[2].topologyKey"} == _warnings(topology)


def test_network_topologies_speak_the_names_of_their_group() -> None:
    """The shipped names in the proposal's group are missing ones, and the other way round."""
    cost = {"destination": "z2", "networkCost": 5, "bandwidthCapacity": "1G"}
    key = {"topologyKey": "topology.kubernetes.io/zone", "originCosts": [{"origin": "z1", "costs": [cost]}]}
    spec = {"configMapName": "m", "weights": [{"name": "UserDefined", "costList": [key]}]}
    proposed = {**_kep(network({})), "spec": spec}

    assert set() == _errors(proposed)
    assert {"spec.configmapName", "spec.weights[0].topologyList"} == _errors({**network({}), "spec": spec})
    assert "spec.weights[0].costList" in _errors(_kep(network({"z1>z2": {}})))


def test_entries_of_networks_are_complete() -> None:
    """Destination and cost of each entry, and no cost below nought."""
    topology = network({"z1>z2": {"networkCost": -1}, "z1>z3": {}})
    costs = topology["spec"]["weights"][0]["topologyList"][1]["originList"][0]["costList"]
    costs[1] = {}
    where = "spec.weights[0].topologyList[1].originList[0].costList"

    assert {f"{where}[0].networkCost", f"{where}[1].destination", f"{where}[1].networkCost"} == _errors(topology)


@pytest.mark.parametrize(("workload", "word"), [("", "is missing"), ("frontt", 'no workload "frontt" (did you mean')])
@pytest.mark.parametrize("form", [lambda raw: raw, _kep])
def test_a_pod_that_counts_for_no_workload_is_told(workload: str, word: str, form: Callable[[Raw], Raw]) -> None:
    """Of an application that exists; one of no application, or of one that is not here, is none of its business."""
    labels = {"appgroup.diktyo.x-k8s.io": "shop"}
    labels |= {"appgroup.diktyo.x-k8s.io.workload": workload} if workload else {}
    waiting = {**pod("p"), "metadata": {"name": "p", "labels": labels}}
    template = {"metadata": {"labels": labels}, "spec": waiting["spec"]}
    many = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {"template": template}}
    group = form(app_group([("front", "back")]))

    told = [finding for finding in validate(objects(waiting, many, group)).warnings if "workload" in finding.path]

    assert ["metadata.labels", "spec.template.metadata.labels"] == [finding.path.partition("[")[0] for finding in told]
    assert all(word in finding.message for finding in told)
    assert not [finding for finding in validate(objects(waiting)).warnings if "workload" in finding.path]
    assert not [f for f in validate(objects(pod("q", "front"), group)).warnings if "metadata.labels" in f.path]
