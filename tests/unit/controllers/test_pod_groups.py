"""Groups for pods that name none: whose they are, what they ask for, and when they go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.manifests import (
    container,
    manifest,
    names,
    objects,
    part,
    pod_group,
    settled,
    spec,
)

from tierwise.api.codec import Raw
from tierwise.port import Objects

GROUP = "scheduling.k8s.io/group-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def pod(name: str, marks: Mapping[str, str] | None = None, *, of: Raw | None = None, scheduler: str = "volcano") -> Raw:
    """A pod with its name as its uid that asks for a cpu, with these annotations, perhaps of an owner."""
    metadata: Raw = {"name": name, "namespace": "default", "uid": name, "annotations": dict(marks or {})}
    if of is not None:
        metadata["ownerReferences"] = [of]
    containers = {"containers": [container("cpu=1")], "schedulerName": scheduler}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": containers}


def owner(kind: str, name: str, uid: str, api_version: str = "apps/v1") -> Raw:
    """A reference to the object that controls another."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def workload(reference: Raw, marks: Mapping[str, str] | None = None, *, of: Raw | None = None) -> Raw:
    """The object that a reference means, with these annotations, perhaps of an owner."""
    metadata: Raw = {"name": reference["name"], "namespace": "default", "uid": reference["uid"]}
    metadata["annotations"] = dict(marks or {})
    if of is not None:
        metadata["ownerReferences"] = [of]
    return {"apiVersion": reference["apiVersion"], "kind": reference["kind"], "metadata": metadata}


def groups(world: Objects) -> list[str]:
    """The names of all pod groups."""
    return names(world, "PodGroup")


def test_a_plain_pod_gets_a_group_of_its_own() -> None:
    """The group is named after the pod's uid, belongs to the pod, and the pod knows it."""
    world = settled(objects(pod("solo")))

    made = manifest(world, "PodGroup", "default/podgroup-solo")
    assert {"minMember": 1, "queue": "default", "minResources": {"cpu": "1"}} == made["spec"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "solo", "uid": "solo", "controller": True}
    assert [reference | {"blockOwnerDeletion": True}] == part(made, "metadata")["ownerReferences"]
    assert "podgroup-solo" == part(part(manifest(world, "Pod", "default/solo"), "metadata"), "annotations")[GROUP]


def test_pods_of_a_gang_are_left_alone() -> None:
    """A gang of Koordinator's is a group already: another one around its pods would take its place."""
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    world = settled(objects(*(pod(f"p{i}", gang, scheduler="tierwise") for i in range(2))))

    assert [] == groups(world)


def test_pods_of_one_owner_share_a_group() -> None:
    """All pods of a ReplicaSet are in its group, with the minimum that its Deployment asks for."""
    web, replicas = owner("Deployment", "web", "d1"), owner("ReplicaSet", "web-1", "r1")
    above = workload(web, {MIN_MEMBER: "2"}), workload(replicas, of=web)
    world = settled(objects(*above, pod("web-1-a", of=replicas), pod("web-1-b", of=replicas)))

    assert ["default/podgroup-r1"] == groups(world)
    shared = spec(world, "PodGroup", "default/podgroup-r1")
    assert {"minMember": 2, "queue": "default", "minResources": {"cpu": "2"}} == shared


@pytest.mark.parametrize(
    ("kind", "version"),
    [("StatefulSet", "apps/v1"), ("Job", "batch/v1"), ("DaemonSet", "apps/v1"), ("RayCluster", "ray.io/v1")],
)
def test_owners_of_any_kind_are_read(kind: str, version: str) -> None:
    """What an owner says holds for its pods, whatever it is, and is handed on to the group."""
    said = {"scheduling.volcano.sh/queue-name": "research", "volcano.sh/network-topology-mode": "soft", "other": "no"}
    big = owner(kind, "big", "b1", version)
    world = settled(objects(workload(big, said), pod("big-0", of=big)))

    found = manifest(world, "PodGroup", "default/podgroup-b1")
    assert ("research", {"mode": "soft"}) == (part(found, "spec")["queue"], part(found, "spec")["networkTopology"])
    marks = {"volcano.sh/network-topology-mode": "soft", "tierwise.io/made-for": f"{kind} big"}
    assert marks == part(part(found, "metadata"), "annotations")


@pytest.mark.parametrize(
    ("said", "queue"), [(("far", "near", "own"), "own"), (("far", "near", ""), "near"), (("far", "", ""), "far")]
)
def test_the_nearest_speaker_is_heard(said: tuple[str, str, str], queue: str) -> None:
    """A pod before its owner, and that before its own."""
    far, near, own = ({"scheduling.volcano.sh/queue-name": text} if text else {} for text in said)
    deployment = owner("Deployment", "web", "d1")
    replicas = owner("ReplicaSet", "web-1", "r1")
    world = objects(
        workload(deployment, far), workload(replicas, near, of=deployment), pod("web-1-x", own, of=replicas)
    )

    assert [queue] == [spec(settled(world), "PodGroup", name)["queue"] for name in groups(settled(world))]


def test_an_owner_may_name_the_group() -> None:
    """An object of an unknown kind that carries the group annotation puts its pods there."""
    llm = owner("Trainer", "llm", "t1", "example.com/v1")
    said = {GROUP: "llm-gang", MIN_MEMBER: "3"}
    world = settled(objects(workload(llm, said), *(pod(f"llm-{i}", of=llm) for i in range(3))))

    assert ["default/llm-gang"] == groups(world)
    assert 3 == spec(world, "PodGroup", "default/llm-gang")["minMember"]


def test_topology_by_annotation() -> None:
    """Mode and tier on a pod become the group's; a mode that nobody knows is hard, a tier that is no number is none."""
    by_tier = pod("a", {"volcano.sh/network-topology-highest-tier": "2"})
    odd = pod("b", {"volcano.sh/network-topology-mode": "x", "volcano.sh/network-topology-highest-tier": "two"})
    world = settled(objects(by_tier, odd))

    assert {"mode": "hard", "highestTierAllowed": 2} == spec(world, "PodGroup", "default/podgroup-a")["networkTopology"]
    assert {"mode": "hard"} == spec(world, "PodGroup", "default/podgroup-b")["networkTopology"]


@pytest.mark.parametrize(("said", "minimum"), [("0", 0), ("4", 4), ("-1", 1), ("many", 1), ("", 1)])
def test_a_minimum_that_is_no_number_is_one(said: str, minimum: int) -> None:
    """As in Volcano."""
    world = settled(objects(pod("a", {MIN_MEMBER: said})))

    assert minimum == spec(world, "PodGroup", "default/podgroup-a")["minMember"]


def test_the_newest_pod_speaks_for_the_group() -> None:
    """A rolling update reaches the group; what others wrote on it stays."""
    reference = owner("StatefulSet", "db", "s1")
    old, new = pod("db-0", of=reference), pod("db-1", of=reference)
    part(old, "metadata")["creationTimestamp"] = "2026-01-01T00:00:00Z"
    part(new, "metadata")["creationTimestamp"] = "2026-01-02T00:00:00Z"
    part(new, "spec")["priorityClassName"] = "high"
    before = settled(objects(old))
    group = manifest(before, "PodGroup", "default/podgroup-s1")
    part(group, "metadata")["annotations"] = {"example.com/mark": "kept", "volcano.sh/gone": "dropped"}
    world = settled(objects(old, new, group))

    assert "high" == spec(world, "PodGroup", "default/podgroup-s1")["priorityClassName"]
    made = part(manifest(world, "PodGroup", "default/podgroup-s1"), "metadata")
    assert {"example.com/mark": "kept", "tierwise.io/made-for": "StatefulSet db"} == made["annotations"]
    assert "2026-01-01T00:00:00Z" == made["creationTimestamp"]


def test_a_group_goes_with_its_last_pod() -> None:
    """A group of this controller to which no pod belongs is deleted; one that people made is not."""
    world = settled(objects(pod("solo"), pod_group("mine", minMember=1)))
    left = world.changed({}, [key for key in world if key.kind == "Pod"])

    assert ["default/mine"] == groups(settled(left))


def test_others_are_left_alone() -> None:
    """Pods of other schedulers, and pods that name a group, get none."""
    world = settled(objects(pod("a", scheduler="default-scheduler"), pod("b", {GROUP: "theirs"})))

    assert [] == groups(world)


def test_a_group_of_somebody_else_with_that_name_is_not_touched() -> None:
    """A hand-made group named like one of ours keeps its spec."""
    world = settled(objects(pod("solo"), pod_group("podgroup-solo", minMember=5)))

    assert 5 == spec(world, "PodGroup", "default/podgroup-solo")["minMember"]


def test_owners_in_a_circle_end() -> None:
    """Two objects that own each other are looked at once each, more or less."""
    one, two = owner("A", "one", "1"), owner("B", "two", "2")
    world = settled(objects(workload(one, of=two), workload(two, of=one), pod("p", of=one)))

    assert ["default/podgroup-1"] == groups(world)


def test_owner_of_the_name_that_is_another_says_nothing() -> None:
    """A deployment that was made anew under the old name does not speak for the pods of the old one."""
    old, new = owner("ReplicaSet", "web", "u1"), owner("ReplicaSet", "web", "u2")
    world = settled(objects(workload(new, {"scheduling.volcano.sh/queue-name": "fast"}), pod("p0", of=old)))

    assert ["default/podgroup-u1"] == groups(world)
    assert "default" == spec(world, "PodGroup", "default/podgroup-u1")["queue"]


def test_amounts_of_a_made_group_saturate() -> None:
    """What pods say of themselves cannot make an amount that no API server stores."""
    asks = pod("p0", {MIN_MEMBER: "100000"})
    asks["spec"]["containers"][0]["resources"]["requests"]["memory"] = "8Ei"  # type: ignore[index]
    world = settled(objects(asks))

    least = spec(world, "PodGroup", "default/podgroup-p0")["minResources"]
    assert isinstance(least, dict)
    assert (str(2**63 - 1), "100k") == (least["memory"], f"{int(str(least['cpu'])) // 1000}k")
