"""Services through whole cycles: queue order, links, missing objects, gangs beside them, several profiles."""

from __future__ import annotations

import re

from tests.support.services import (
    GROUP,
    Raw,
    app_group,
    network,
    node,
    objects,
    pod,
    profile,
)

from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.controllers import run
from tierwise.sim.cluster.rounds import Rounds, look, schedule

NODES = [node("n1", "r/z1", cpu=2), node("n2", "r/z2", cpu=2)]
CALLS = [("web", "store", {"maxNetworkCost": 100, "minBandwidth": "10"})]


def _run(*raws: Raw, how: Profile | None = None) -> Rounds:
    return schedule(objects(*raws), how or profile(), now=0.0)


def _first(*raws: Raw, room: int = 1) -> list[str]:
    """Who gets the only room."""
    return sorted(_run(node("n", "r/z", cpu=room), *raws).bindings)


def test_groups_fill_the_places_of_the_ordinary_order_by_index() -> None:
    """A pod outside the group keeps its place between them, whatever their indexes."""
    early, late = ({"creationTimestamp": f"2024-01-01T00:00:0{i}Z"} for i in (1, 3))
    middle = {"creationTimestamp": "2024-01-01T00:00:02Z"}
    pods = [pod("s", "store", **early), pod("x", **middle), pod("w", "web", **late)]

    assert ["default/w"] == _first(app_group(CALLS), *pods)
    assert ["default/w", "default/x"] == _first(app_group(CALLS), *pods, room=2)


def test_equal_indexes_go_by_priority() -> None:
    """Replicas of one workload."""
    low, high = pod("a", "web"), pod("b", "web")
    high["spec"]["priority"] = 5

    assert ["default/b"] == _first(app_group(CALLS), low, high)


def test_missing_objects_do_no_harm_and_are_told() -> None:
    """Pods are placed, and get a warning event that says what is missing."""
    history = _run(*NODES, pod("p", "web", group="nosuch"), pod("q", "web"), app_group(CALLS))
    told = {(event.about.name, event.reason) for event in history.cluster.events}

    assert {"default/p", "default/q"} == set(history.bindings)
    assert {("p", "AppGroupNotFound"), ("q", "NetworkTopologyNotFound")} <= told
    assert {"AppGroupNotFound", "NetworkTopologyNotFound"} == {fault.code for fault in history.complaints()}


def test_a_link_holds_for_whoever_is_placed_second() -> None:
    """The callee may not overload the link of a caller that stands already; the reason names the link."""
    links = network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "9"}})
    held = objects(*NODES, app_group(CALLS), links, pod("w", "web", on="n1"), pod("s", "store"))
    seen, _ = look(held, profile(), "default/s", now=0.0)

    assert seen is not None
    assert {"n1": True, "n2": False} == {n.name: n.feasible for n in seen.nodes}
    assert "z1 -> z2" in seen.nodes[1].reasons[0]


def test_pods_that_a_link_keeps_out_do_not_fit() -> None:
    """The message of a pod that waits counts only nodes that would take it now."""
    links = network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "9"}})
    full = node("n1", "r/z1", cpu=1)
    history = _run(full, NODES[1], app_group(CALLS), links, pod("w", "web", on="n1"), pod("s", "store"))

    assert history.report is not None
    refused = history.report.rejections.values()
    assert [(0, 1)] == [(tried.fits, tried.asked) for no in refused for tried in no.tried]


def test_a_zone_has_no_link_to_itself() -> None:
    """A user who lists one limits nothing."""
    links = network({"z1>z1": {"bandwidthCapacity": "0"}})
    history = _run(
        node("n1", "r/z1"), node("n2", "r/z1"), app_group(CALLS), links, pod("s", "store", on="n2"), pod("w", "web")
    )

    assert {"default/w": "n2"} == history.bindings


def test_links_are_shared_by_groups_of_all_namespaces() -> None:
    """Also by those that the plugin's namespaces leave out."""
    other = app_group([("web", "store", {"minBandwidth": "6"})], name="bank")
    other["metadata"]["namespace"] = "elsewhere"
    links = network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "15"}})
    there = {"group": "bank", "namespace": "elsewhere"}
    bank = [pod("bw", "web", on="n1", **there), pod("bs", "store", on="n2", **there)]
    nodes = [node("n1", "r/z1"), node("n2", "r/z2")]
    held = objects(*nodes, app_group(CALLS), other, links, *bank, pod("s", "store", on="n2"), pod("w", "web"))
    seen, _ = look(held, profile(), "default/w", now=0.0)

    assert seen is not None
    assert {"n1": False, "n2": True} == {n.name: n.feasible for n in seen.nodes}


def test_pods_of_another_namespace_are_none_of_the_application() -> None:
    """The labels of somebody else's application on pods far away must not decide where its own pods may run."""
    links = network({"z1>z2": {"networkCost": 100}, "z2>z1": {"networkCost": 100}})
    calls = app_group([("web", "store", {"maxNetworkCost": 1})])
    nodes = [node("n1", "r/z1", cpu=1), node("n2", "r/z2", cpu=9)]
    bait = [pod(f"bait-{i}", "store", on="n2", namespace="evil") for i in range(8)]
    own = pod("s", "store", on="n2", namespace="evil")
    held = objects(*nodes, calls, links, *bait, own, pod("w", "web"))
    seen, _ = look(held, profile(), "default/w", now=0.0)

    assert seen is not None
    assert {"n1": True} == {n.name: n.feasible for n in seen.nodes if n.name == "n1"}


FAR = network({"z1>z2": {"networkCost": 100}, "z2>z1": {"networkCost": 100}})
ZONES = [node("n1", "r/z1"), node("n2", "r/z2")]


def _of(namespace: str, limit: int) -> Raw:
    found = app_group([("web", "store", {"maxNetworkCost": limit})])
    found["metadata"]["namespace"] = namespace
    return found


def _allowed(*raws: Raw, where: str, **arguments: object) -> set[str]:
    """Which zones a caller in a namespace may use; who it calls is in z2, in the same namespace."""
    own = {"namespace": where}
    held = objects(*ZONES, FAR, *raws, pod("s", "store", on="n2", **own), pod("w", "web", **own))
    seen, _ = look(held, profile(**arguments), f"{where}/w", now=0.0)
    assert seen is not None
    return {n.name for n in seen.nodes if n.feasible}


def test_an_appgroup_of_its_own_comes_before_a_listed_one() -> None:
    """A listed namespace cannot take over applications that other namespaces declare themselves."""
    listed = {"namespaces": ["trusted", "default"]}
    strict, lenient = _of("shop", 1), _of("trusted", 100)

    assert {"n2"} == _allowed(strict, lenient, where="shop", **listed)
    assert {"n1", "n2"} == _allowed(_of("shop", 100), _of("trusted", 1), where="shop", **listed)


def test_the_first_listed_namespace_with_an_appgroup_counts_for_all_others() -> None:
    """In the order of the list, whatever the names are; namespaces that are not listed rule nobody else."""
    groups = [_of("a", 100), _of("b", 1), _of("c", 100)]

    assert {"n2"} == _allowed(*groups, where="shop", namespaces=["b", "c", "default"])
    assert {"n1", "n2"} == _allowed(*groups, where="shop", namespaces=["c", "b", "default"])
    assert {"n1", "n2"} == _allowed(_of("a", 1), where="shop", namespaces=["b", "default"])


def test_the_default_list_trusts_no_namespace_for_others() -> None:
    """An AppGroup of default counts for pods of default alone, and every namespace has its own."""
    assert {"n1", "n2"} == _allowed(_of("default", 1), where="shop")
    assert {"n2"} == _allowed(_of("default", 1), where="default")
    assert {"n2"} == _allowed(_of("shop", 1), where="shop")
    assert {"n2"} == _allowed(_of("default", 1), where="shop", namespaces=["default"])


def test_reservations_are_written_for_those_who_belong_to_the_application() -> None:
    """The controller counts the same pods as the scheduler does, also those of other namespaces."""
    calls = app_group(CALLS)
    calls["metadata"]["namespace"] = "trusted"
    links = network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "50"}})
    pods = [pod("w", "web", on="n1", namespace="shop"), pod("s", "store", on="n2", namespace="other")]
    held = objects(*ZONES, calls, links, *pods)

    def written(how: Profile) -> list[object]:
        effects = [e for e in run(held, 0.0, profile=how) if "bandwidthAllocated" in str(e)]
        return [found for effect in effects for found in re.findall(r"bandwidthAllocated': '?(\d+)", str(effect))]

    assert ["10"] == written(profile(namespaces=["trusted", "default"]))
    assert ["0"] == written(profile())


def test_a_gang_of_services_keeps_both_kinds_of_rules() -> None:
    """All of its pods or none: the second one's link is full, so neither is placed."""
    gang = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    whole = {**gang, "spec": {"minMember": 2}}
    members = [pod(f"w{i}", "web", annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(2)]
    around = [node("n1", "r/z1", cpu=1), node("n2", "r/z2", cpu=2), app_group(CALLS), pod("s", "store", on="n2")]

    wide = _run(*around, network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "10"}}), whole, *members)
    narrow = _run(*around, network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "9"}}), whole, *members)

    assert {"default/w0", "default/w1"} == set(wide.bindings)
    assert {} == narrow.bindings


def test_pods_are_served_by_the_profile_of_their_scheduler() -> None:
    """One profile weighs the network, the other does not; a name that no profile has goes with the first."""
    star = {"disabled": [{"name": "*"}]}
    near = {"score": {**star, "enabled": [{"name": "NetworkOverhead"}]}, "postFilter": star}
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plain = {"schedulerName": "plain", "plugins": {"score": star, "postFilter": star}}
    how = read_kube({**raw, "profiles": [plain, {"schedulerName": "near", "plugins": near}]})
    around = [*NODES, app_group(CALLS), network({"z1>z2": {"networkCost": 9}}), pod("s", "store", on="n2")]
    pods = []
    for name in ("near", "plain", "tierwise"):
        made = pod(name, "web")
        made["spec"]["schedulerName"] = name
        pods.append(made)

    assert {"default/near": "n2"} == _run(*around, pods[0], how=how).bindings
    assert {"default/plain": "n1"} == _run(*around, pods[1], how=how).bindings
    assert {"default/tierwise": "n1"} == _run(*around, pods[2], how=how).bindings


def test_look_ahead_starts_where_all_have_room() -> None:
    """The first pod leaves the node that is first by name for the zone that holds the whole application."""
    nodes = [node("n1", "ra/z1", cpu=1), node("n2", "rb/z2", cpu=1), node("n3", "rb/z2", cpu=1)]
    around = [*nodes, app_group(CALLS), network({"ra>rb": {"networkCost": 50}, "rb>ra": {"networkCost": 50}})]
    pods = [pod("w", "web"), pod("s", "store")]

    assert {"n2", "n3"} == set(_run(*around, *pods, how=profile(lookAhead=True)).bindings.values())
    assert {"n1", "n2"} == set(_run(*around, *pods).bindings.values())


def test_labels_alone_make_a_service() -> None:
    """A pod with an empty group label is an ordinary pod."""
    odd = pod("p", "web")
    odd["metadata"]["labels"][GROUP] = ""

    assert {"default/p": "n1"} == _run(*NODES, odd, app_group(CALLS)).bindings


def test_room_is_made_near_the_services_that_a_pod_calls() -> None:
    """Not by letting those services go, although they are no more important, and that would lift every limit."""
    calls = app_group([("web", "store", {"maxNetworkCost": 10})])
    links = network({"z1>z2": {"networkCost": 50}, "z2>z1": {"networkCost": 50}})
    urgent = pod("web-0", "web")
    urgent["spec"]["priority"] = 5
    history = _run(*NODES, calls, links, pod("store-0", "store", on="n1"), pod("other", on="n1"), urgent)

    assert ["default/other"] == [eviction.task.key for eviction in history.evictions]
    assert {"default/web-0": "n1"} == history.bindings
