"""Volumes: which nodes a pod's claims allow, which volume a claim gets, and what a gang waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.drawn_gang import manifest
from tests.support.volumes import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    node,
    objects,
    pod,
    storage_class,
    volume,
    within,
)

from tierwise.actions.placement.demand import demand
from tierwise.actions.placement.exact import place_exactly
from tierwise.actions.placement.problem import BOTH, NoPlace, SearchResult
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.merge_patch import merged
from tierwise.api.storage import PersistentVolume, PersistentVolumeClaim
from tierwise.cli.inputs import profile_of
from tierwise.config.profile import DEFAULT
from tierwise.dialects.kubernetes.volumes import CHOSEN_AT, CHOSEN_NODE, FAILED_AT
from tierwise.framework.report import CycleReport
from tierwise.model.topology import ROOT
from tierwise.port import Bind, Effect, Nominate, Objects, Prepare, key_of_raw
from tierwise.scheduler import cycle, open_cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.rounds import schedule
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
NOW = 1_790_000_000.0
TWO_ZONES = (node("n0", "z1"), node("n1", "z2"))


def _bound(*manifests: Raw) -> dict[str, str]:
    """Where pods are once nothing changes any more."""
    return {p.removeprefix("default/"): n for p, n in schedule(objects(*manifests), DEFAULT, now=NOW).bindings.items()}


def _why(*manifests: Raw) -> dict[str, str]:
    """The code that each pod or group waits with."""
    report = schedule(objects(*manifests), DEFAULT, now=NOW).report
    assert report is not None
    names = {key: key.rpartition("/")[2].removeprefix("podgroup-uid-") for key in report.rejections}
    return {names[key]: rejection.reason.code for key, rejection in report.rejections.items()}


def _causes(*manifests: Raw) -> str:
    """What keeps the one pod that waits off nodes."""
    report = schedule(objects(*manifests), DEFAULT, now=NOW).report
    assert report is not None
    (rejection,) = report.rejections.values()
    return "; ".join(f"{count} {reason.text}" for tried in rejection.tried for reason, count in tried.causes)


def _decided(found: Objects, now: float = NOW) -> tuple[CycleReport, list[Effect]]:
    snapshot = build(found, now)
    report = cycle(snapshot, DEFAULT)
    return report, effects(snapshot, report)


def _group(name: str, minimum: int) -> Raw:
    return manifest(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        {"name": name, "namespace": "default"},
        spec={"minMember": minimum},
        status={"phase": "Inqueue"},
    )


# -- claims with a volume


def test_a_pod_goes_where_its_volume_can_be_reached() -> None:
    """By the affinity of the volume, whatever else would speak for another node."""
    found = [volume("pv", "c", affinity=within(ZONE, "z2")), claim("c", "pv"), pod("p", "c")]

    assert {"p": "n1"} == _bound(*TWO_ZONES, *found)


@pytest.mark.parametrize("key", [ZONE, "failure-domain.beta.kubernetes.io/zone"])
@pytest.mark.parametrize(("zones", "expected"), [("z2", {"p": "n1"}), ("z7__z2", {"p": "n1"}), ("z7", {})])
def test_labels_of_zones_count(key: str, zones: str, expected: dict[str, str]) -> None:
    """Of old and of new names, several with two underscores between them."""
    found = [volume("pv", "c", labels={key: zones}), claim("c", "pv"), pod("p", "c")]

    assert expected == _bound(*TWO_ZONES, *found)


def test_a_list_of_zones_with_an_empty_entry_says_nothing() -> None:
    """As Kubernetes reads it."""
    found = [volume("pv", "c", labels={ZONE: "z2__"}), claim("c", "pv"), pod("p", "c", cpu="1")]

    assert {"p"} == set(_bound(*TWO_ZONES, *found))


def test_nodes_without_any_zone_are_in_all_of_them() -> None:
    """A cluster of one zone need not label its nodes."""
    found = [volume("pv", "c", labels={ZONE: "z2"}), claim("c", "pv"), pod("p", "c")]

    assert {"p": "n7"} == _bound(node("n7"), *found)


def test_zones_and_what_is_free_there_are_told_apart() -> None:
    """The message says how many nodes have the zone, and what those lack."""
    nodes = [node(f"n{i}", "z2" if i < 2 else "z1") for i in range(5)]
    found = [volume("pv", "c", affinity=within(ZONE, "z2")), claim("c", "pv"), pod("p", "c", cpu="9")]

    told = _causes(*nodes, *found)
    assert "3 could not reach the volume of claim default/c" in told
    assert "2 short of cpu: 9 asked, at most 8 free" in told


@pytest.mark.parametrize(
    ("served", "expected"),
    [("kubernetes.io/aws-ebs", {"p": "n1"}), ("kubernetes.io/gce-pd,kubernetes.io/aws-ebs", {"p": "n1"}), ("", {})],
)
def test_plugins_of_old_have_the_zones_of_their_drivers(served: str, expected: dict[str, str]) -> None:
    """On nodes where the driver does the work, the zone stands under the driver's label."""
    nodes = [node("n0", "z1"), node("n1", **{"topology.ebs.csi.aws.com/zone": "z2"})]
    ebs = volume("pv", "c", affinity=within(ZONE, "z2"), awsElasticBlockStore={"volumeID": "vol-1"})

    assert expected == _bound(*nodes, csi_node("n1", migrated=served), ebs, claim("c", "pv"), pod("p", "c"))


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ((), "VolumeClaimNotFound"),
        ((claim("c", "pv", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),), "VolumeClaimDeleted"),
        ((claim("c", "pv", phase="Lost"),), "VolumeClaimLost"),
        ((claim("c", "gone"),), "VolumeNotFound"),
        ((claim("c", storageClassName="none"),), "VolumeClaimUnbound"),
        ((claim("c", storageClassName="slow"),), "VolumeClaimUnbound"),
        ((claim("c", volumeName="pv"),), "VolumeClaimUnbound"),
        ((claim("c", storageClassName=None),), "VolumeClaimUnbound"),
    ],
)
def test_a_claim_that_is_not_in_order_keeps_its_pod_waiting(claims: tuple[Raw, ...], code: str) -> None:
    """With the reason, and nothing is bound."""
    slow = storage_class("slow", volumeBindingMode="Immediate")
    world = [*TWO_ZONES, storage_class(), slow, volume("pv", "other"), *claims, pod("p", "c")]

    assert {} == _bound(*world)
    assert {"p": code} == _why(*world)


def test_one_bad_claim_does_not_stop_a_gang_that_has_its_minimum_without() -> None:
    """The others are bound, and the pod with the claim is told."""
    pods = [pod("a", "good", group="g"), pod("b", "bad", group="g")]
    world = [*TWO_ZONES, volume("pv", "good"), claim("good", "pv"), *pods]

    assert {"a"} == set(_bound(*world, _group("g", 1)))
    assert {} == _bound(*world, _group("g", 2))
    assert {"g": "VolumeClaimNotFound"} == _why(*world, _group("g", 2))


# -- claims that wait for their first consumer


def test_a_volume_is_made_for_the_chosen_node() -> None:
    """The choice is written on the claim and the node is kept; the pod is bound once its claim is."""
    world = objects(*TWO_ZONES, storage_class(), claim("c"), pod("p", "c"))
    report, asked = _decided(world)

    (write,) = [effect for effect in asked if isinstance(effect, Prepare)]
    (kept,) = [effect for effect in asked if isinstance(effect, Nominate)]
    assert not [effect for effect in asked if isinstance(effect, Bind)]
    marks: Any = write.patch["metadata"]
    assert kept.node == marks["annotations"][SELECTED] == marks["annotations"][CHOSEN_NODE]
    assert "WaitsForVolume" == report.rejections["pod default/p"].reason.code
    cluster = EmbeddedCluster(world)
    cluster.apply(asked)
    cluster.apply(provision(cluster.read()).effects)
    _, then = _decided(cluster.read())
    assert [(kept.pod, kept.node)] == [(effect.pod, effect.node) for effect in then if isinstance(effect, Bind)]


def test_nothing_is_written_twice_while_a_gang_waits() -> None:
    """A cycle that sees its own choice asks for nothing."""
    cluster = EmbeddedCluster(objects(*TWO_ZONES, storage_class(), claim("c"), pod("p", "c")))
    cluster.apply(_decided(cluster.read())[1])

    assert [] == _decided(cluster.read(), NOW + 1)[1]


def test_volumes_are_made_only_where_the_class_allows() -> None:
    """By the labels that it names; an empty term allows no node."""
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]

    assert {"p": "n1"} == _bound(*TWO_ZONES, storage_class(allowedTopologies=allowed), claim("c"), pod("p", "c"))
    assert {} == _bound(*TWO_ZONES, storage_class(allowedTopologies=[{}]), claim("c"), pod("p", "c"))


def test_volumes_are_made_only_where_there_is_room() -> None:
    """Where the driver tells how much it has: in one piece, if it says so."""
    here, there = {"matchLabels": {ZONE: "z1"}}, {"matchLabels": {ZONE: "z2"}}
    rooms = [
        capacity("a", nodeTopology=here, capacity="9Gi", maximumVolumeSize="1Gi"),
        capacity("b", nodeTopology=there, capacity="5Gi"),
    ]
    world = [*TWO_ZONES, storage_class(), claim("c", size="5Gi"), pod("p", "c")]

    assert {"p": "n1"} == _bound(*world, *rooms, driver(storageCapacity=True))
    assert {} == _bound(*world, rooms[0], driver(storageCapacity=True))
    assert "had no storage left" in _causes(*world, rooms[0], driver(storageCapacity=True))
    assert {"p"} == set(_bound(*world, rooms[0], driver()))


def test_a_claim_gets_the_smallest_volume_that_fits() -> None:
    """Of its class, with its modes and labels, within reach of the node."""
    fits = [volume("small", size="1Gi"), volume("large", size="9Gi"), volume("middle", size="3Gi")]
    others = [
        volume("other-class", size="2Gi", storageClassName="x"),
        volume("block", size="2Gi", volumeMode="Block"),
        volume("read", size="2Gi", accessModes=["ReadOnlyMany"]),
        volume("taken", "somebody", size="2Gi"),
        volume("released", size="2Gi", phase="Released"),
        volume("going", size="2Gi", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        volume("far", size="2Gi", affinity=within(ZONE, "z9")),
        volume("gold", size="2Gi", volumeAttributesClassName="gold"),
    ]
    history = schedule(
        objects(*TWO_ZONES, storage_class(), *fits, *others, claim("c", size="2Gi"), pod("p", "c")), DEFAULT, now=NOW
    )

    assert {"default/p"} == set(history.bindings)
    settled = history.cluster.read().every(PersistentVolumeClaim)["default/c"]
    assert "middle" == settled.spec.volume_name
    reference = history.cluster.read().every(PersistentVolume)["middle"].spec.claim_ref
    assert reference is not None
    assert "uid-c" == reference.uid


def test_two_claims_of_a_pod_do_not_get_one_volume() -> None:
    """The smaller claim is served first, and what is left must do for the other."""
    volumes = [volume("a", size="1Gi"), volume("b", size="4Gi")]
    world = [node("n0"), storage_class(provisioner="kubernetes.io/no-provisioner"), *volumes]

    assert {"p": "n0"} == _bound(*world, claim("x", size="2Gi"), claim("y", size="1Gi"), pod("p", "x", "y"))
    assert {} == _bound(*world, claim("x", size="2Gi"), claim("y", size="2Gi"), pod("p", "x", "y"))


def test_two_claims_do_not_get_one_volume_though_no_pod_asks() -> None:
    """Claims of a class that does not wait are bound at once: of one size, to one volume each."""
    at_once = storage_class(provisioner="kubernetes.io/no-provisioner", volumeBindingMode="Immediate")
    volumes = [volume("a", size="1Gi"), volume("b", size="4Gi")]
    claims = [claim(name, size="1Gi") for name in ("x", "y", "z")]
    cluster = EmbeddedCluster(objects(node("n0"), at_once, *volumes, *claims))

    cluster.apply(provision(cluster.read(), NOW).effects)

    bound = cluster.read().every(PersistentVolumeClaim).values()
    assert ["a", "b", ""] == [found.spec.volume_name for found in bound]


def test_local_volumes_spread_a_gang_over_their_nodes() -> None:
    """Each node takes as many pods as it has volumes for; the gang stays one shape."""
    nodes = [node(f"n{i}", cpu="64") for i in range(3)]
    disks = [volume(f"n{i}-d{j}", affinity=within(HOST, f"n{i}")) for i in range(3) for j in range(2)]
    gang = [pod(f"p{i}", f"c{i}", group="g") for i in range(6)]
    claims = [claim(f"c{i}") for i in range(6)]
    local = storage_class(provisioner="kubernetes.io/no-provisioner")
    world = [*nodes, local, *disks, *claims, *gang]

    assert 1 == len({t.shape.number for job in build(objects(*world, _group("g", 6)), NOW).jobs for t in job.tasks})
    found = _bound(*world, _group("g", 6))
    assert [2, 2, 2] == sorted(list(found.values()).count(f"n{i}") for i in range(3))
    assert {} == _bound(*world[:-1], claim("c6"), pod("p6", "c6", group="g"), gang[-1], _group("g", 7))


def test_a_volume_that_is_meant_for_a_claim_is_kept_for_it() -> None:
    """However small another one is."""
    meant = volume("meant", "c", size="9Gi", phase="Available", affinity=within(ZONE, "z2"))
    local = storage_class(provisioner="kubernetes.io/no-provisioner")

    assert {"p": "n1"} == _bound(*TWO_ZONES, local, meant, volume("small"), claim("c"), pod("p", "c"))


def test_a_choice_of_another_scheduler_stands() -> None:
    """A claim for which a volume is being made ties its pod to that node."""
    chosen = claim("c", annotations={SELECTED: "n1"})

    assert {"p": "n1"} == _bound(*TWO_ZONES, storage_class(), chosen, pod("p", "c"))


# -- gangs that wait, and what is taken back


def _waiting(*, at: float = NOW, since: float = NOW, selected: bool = True) -> tuple[CycleReport, list[Effect]]:
    """A gang of two whose first pod has its volume, while the second waits for its own."""
    marks = {CHOSEN_NODE: "n1", CHOSEN_AT: _stamp(since)} | ({SELECTED: "n1"} if selected else {})
    world = objects(
        *TWO_ZONES,
        storage_class(),
        volume("pv", "a", affinity=within(ZONE, "z1")),
        claim("a", "pv"),
        claim("b", annotations=marks),
        _group("g", 2),
        *(
            {**pod(name, name, group="g"), "status": {"nominatedNodeName": on}}
            for name, on in (("a", "n0"), ("b", "n1"))
        ),
    )
    return _decided(world, at)


@pytest.mark.parametrize("cpu", ["1", "0"])
def test_a_pod_beyond_the_minimum_pauses_alone(cpu: str) -> None:
    """After a choice that came to nothing it is nominated without another one, and the rest of its job is bound."""
    failed = claim("c", annotations={FAILED_AT: _stamp(NOW)})
    group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", {"name": "g"}, spec={"minMember": 1})
    pods = [
        pod("a", on="n0", cpu=cpu, group="g"),
        *(pod(n, *c, cpu=cpu, group="g") for n, c in {"b": "c", "z": ""}.items()),
    ]
    world = objects(*TWO_ZONES, storage_class(), failed, group, *pods)

    report, asked = _decided(world, NOW + 5)
    binds = [effect.pod.name for effect in asked if isinstance(effect, Bind)]
    assert (["z"], []) == (binds, [effect for effect in asked if isinstance(effect, Prepare)])
    assert "VolumeBindingFailed" == report.rejections["default/g"].reason.code
    assert [effect for effect in _decided(world, NOW + 60)[1] if isinstance(effect, Prepare)]


def _stamp(seconds: float) -> str:
    from tierwise.api.core import format_time

    return format_time(seconds)


def test_a_gang_waits_for_the_last_of_its_volumes() -> None:
    """The pod whose volume is there is not bound either, and its node stays its own."""
    report, asked = _waiting(at=NOW + 5)

    assert [] == asked
    assert "WaitsForVolume" == report.rejections["default/g"].reason.code
    assert NOW + 600 == report.retry_after(NOW)


def test_a_gang_is_looked_at_when_the_first_of_its_choices_ends() -> None:
    """Two volumes that are being made were chosen at two times: the older choice is over first."""
    waiting = [
        claim(name, annotations={CHOSEN_NODE: on, CHOSEN_AT: _stamp(NOW + since), SELECTED: on})
        for name, on, since in (("a", "n0", 100), ("b", "n1", 0), ("c", "n1", 50))
    ]
    pods = [
        {**pod(name, name, group="g"), "status": {"nominatedNodeName": on}}
        for name, on in (("a", "n0"), ("b", "n1"), ("c", "n1"))
    ]
    report, _ = _decided(objects(*TWO_ZONES, storage_class(), *waiting, _group("g", 3), *pods), NOW + 200)

    assert "WaitsForVolume" == report.rejections["default/g"].reason.code
    assert NOW + 600 == report.retry_after(NOW)


def test_a_choice_is_taken_back_when_its_time_is_over() -> None:
    """Whole: the marks on the claim, and the nodes that were kept for the gang."""
    report, asked = _waiting(at=NOW + 601)

    assert "VolumeBindingTimedOut" == report.rejections["default/g"].reason.code
    assert ["", ""] == [effect.node for effect in asked if isinstance(effect, Nominate)]
    (undo,) = [effect for effect in asked if isinstance(effect, Prepare)]
    marks: Any = undo.patch["metadata"]
    assert {SELECTED: None, CHOSEN_NODE: None, CHOSEN_AT: None, FAILED_AT: _stamp(NOW + 601)} == marks["annotations"]


@pytest.mark.parametrize(
    "config",
    [
        {"tiers": [{"plugins": [{"name": "volumes", "arguments": {"bindTimeoutSeconds": 5}}]}]},
        {"tiers": [{"plugins": [{"name": "predicates", "arguments": {"volumebinding.bindTimeoutSeconds": 5}}]}]},
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}]}],
        },
    ],
)
def test_the_time_to_wait_is_what_a_configuration_says(config: Raw, tmp_path: Path) -> None:
    """In the words of either scheduler."""
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"actions": "enqueue, allocate"} | config if "kind" not in config else config))
    marks = {CHOSEN_NODE: "n1", CHOSEN_AT: _stamp(NOW), SELECTED: "n1"}
    world = objects(*TWO_ZONES, storage_class(), claim("c", annotations=marks), pod("p", "c"))
    profile = profile_of(str(file))

    reasons = [cycle(build(world, NOW + after, profile), profile).rejections for after in (4, 6)]
    codes = [[rejection.reason.code for rejection in found.values()] for found in reasons]
    assert [["WaitsForVolume"], ["VolumeBindingTimedOut"]] == codes


def test_a_choice_that_the_provisioner_refuses_is_taken_back() -> None:
    """Provisioners say no by removing the mark."""
    report, asked = _waiting(at=NOW + 5, selected=False)

    assert "VolumeBindingFailed" == report.rejections["default/g"].reason.code
    assert not [effect for effect in asked if isinstance(effect, Bind)]


def test_another_try_is_made_after_a_pause() -> None:
    """So that a provisioner which says no is not asked without end."""
    failed = claim("c", annotations={FAILED_AT: _stamp(NOW)})
    world = objects(*TWO_ZONES, storage_class(), failed, pod("p", "c"))

    report, asked = _decided(world, NOW + 5)
    assert [] == asked
    assert "VolumeBindingFailed" == report.rejections["pod default/p"].reason.code
    assert NOW + 10 == report.retry_after(NOW)
    assert _decided(world, NOW + 10)[1]


def test_a_choice_is_taken_back_when_the_place_is_lost() -> None:
    """Somebody else may have the node by now."""
    marks = {CHOSEN_NODE: "n1", CHOSEN_AT: _stamp(NOW), SELECTED: "n1"}
    world = objects(
        *TWO_ZONES, storage_class(), claim("b", annotations=marks), pod("b", "b"), pod("other", on="n1", cpu="8")
    )

    _, asked = _decided(world, NOW + 5)
    (undo,) = [effect for effect in asked if isinstance(effect, Prepare)]
    said: Any = undo.patch["metadata"]
    assert {SELECTED: None, CHOSEN_NODE: None, CHOSEN_AT: None} == said["annotations"]


def test_pods_that_share_a_claim_agree_on_one_choice() -> None:
    """The volume is made once; the others wait for it, and go where it can be reached."""
    shared = claim("c", modes=("ReadWriteMany",))
    gang = [pod(f"p{i}", "c", group="g", cpu="8") for i in range(2)]
    world = [node("n0", "z1"), node("n1", "z1"), node("n2", "z2"), storage_class(), shared, *gang, _group("g", 2)]

    _, asked = _decided(objects(*world))
    assert 1 == len([effect for effect in asked if isinstance(effect, Prepare)])
    found = _bound(*world)
    assert {"p0", "p1"} == set(found)
    assert {"n0", "n1"} == set(found.values())


def test_a_no_is_no_proof_where_volumes_can_be_reached_from_several_nodes() -> None:
    """The smallest volume that fits may be the only one of another node: which node comes first decides."""
    machines = [node("n0", "z0", cpu="2"), node("n1", "z0", cpu="4")]
    volumes = [
        volume("big", size="2Gi", affinity=within(HOST, "n0")),
        volume("own", affinity=within(HOST, "n1")),
        volume("both", affinity=within(ZONE, "z0")),
    ]
    claims = [claim(f"c{i}") for i in range(3)]
    gang = [pod(f"p{i}", f"c{i}", group="g", cpu="2") for i in range(3)]
    world = objects(
        *machines, storage_class(provisioner="kubernetes.io/no-provisioner"), *volumes, *claims, *gang, _group("g", 3)
    )

    report, _ = _decided(world)

    assert report.decisions or report.rejections["default/g"].bounded


@pytest.mark.parametrize("larger", ["z0", "z1", "z2"])
def test_a_gang_that_shares_a_claim_goes_to_a_zone_that_holds_all_of_it(larger: str) -> None:
    """The volume is made in the zone of the first pod, so that zone must not be too small for the others."""
    machines = [node(f"n{zone}-{i}", zone, cpu="2") for zone in ("z0", "z1", "z2") for i in range(1 + (zone == larger))]
    gang = [pod(f"p{i}", "c", group="g", cpu="2") for i in range(2)]

    found = _bound(*machines, storage_class(), claim("c", modes=("ReadWriteMany",)), *gang, _group("g", 2))

    assert {f"n{larger}-0", f"n{larger}-1"} == set(found.values())


def test_a_gang_that_shares_a_claim_and_fits_no_zone_takes_its_chance() -> None:
    """Some volumes can be reached from everywhere: who makes this one is asked, and the gang is placed as ever."""
    machines = [node("n0", "z0", cpu="2"), node("n1", "z1", cpu="2")]
    gang = [pod(f"p{i}", "c", group="g", cpu="2") for i in range(2)]

    report, asked = _decided(objects(*machines, storage_class(), claim("c"), *gang, _group("g", 2)))

    assert ["default/g"] == [decision.job.key for decision in report.decisions]
    assert 1 == len([effect for effect in asked if isinstance(effect, Prepare)])


def _near(name: str, app: str) -> Raw:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    spec: Raw = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return merged(pod(name), {"spec": spec})


def _at(host: str, raw: Raw) -> Raw:
    return merged(raw, {"spec": {"nodeSelector": {HOST: host}}})


@pytest.mark.parametrize("gangs", ["pods", "two gangs", "one gang"])
@pytest.mark.parametrize(("second", "expected"), [("n0", "n0"), ("n1", None)])
@pytest.mark.parametrize("chosen", [False, True])
def test_nobody_counts_on_a_pod_whose_volume_is_made_for_another_node(
    gangs: str, second: str, expected: str | None, chosen: bool
) -> None:
    """The other user of a claim may not come to its node once the volume is there, so nobody is bound beside it."""
    groups = {"pods": ("", ""), "two gangs": ("g1", "g2"), "one gang": ("g1", "g1")}[gangs]
    users = [
        _at(where, pod(name, "c", group=group, labels={"app": name}))
        for name, group, where in (("first", groups[0], "n0"), ("other", groups[1], second))
    ]
    noted = {SELECTED: "n0", CHOSEN_NODE: "n0", CHOSEN_AT: "2026-09-21T14:13:20Z"} if chosen else {}
    shared = claim("c", modes=("ReadWriteMany",), annotations=noted)
    every = [_group(name, groups.count(name)) for name in dict.fromkeys(groups) if name]
    last = merged(_near("near", "other"), {"metadata": {"creationTimestamp": "2026-09-21T14:00:00Z"}})

    _, asked = _decided(objects(*TWO_ZONES, storage_class(), shared, *every, *users, last))

    bound = {effect.pod.name: effect.node for effect in asked if isinstance(effect, Bind)}
    assert ({"near": expected} if expected else {}) == bound


def test_a_volume_is_made_for_the_pod_that_was_placed_first() -> None:
    """Also where the job of a later one was served before, for the pod that is its minimum."""
    users = [_at("n0", pod("b-0", "c", group="b")), _at("n1", pod("a-1", "c", group="a"))]
    world = [*TWO_ZONES, storage_class(), claim("c", modes=("ReadWriteMany",)), _group("a", 1), _group("b", 1)]

    _, asked = _decided(objects(*world, pod("a-0", group="a"), *users))

    assert ["n0"] == [_selected(effect) for effect in asked if isinstance(effect, Prepare)]


def _selected(effect: Prepare) -> str:
    said: Any = effect.patch["metadata"]
    return str(said["annotations"][SELECTED])


# -- what pods take from each other


def test_a_claim_for_one_pod_at_a_time_is_not_shared() -> None:
    """One of two pods gets it, wherever both might stand."""
    alone = claim("c", "pv", modes=("ReadWriteOncePod",))
    world = [*TWO_ZONES, volume("pv", "c"), alone]

    assert 1 == len(_bound(*world, pod("a", "c"), pod("b", "c")))
    assert {} == _bound(*world, pod("a", "c", on="n0"), pod("b", "c"))
    assert "cannot be used while claim default/c" in _causes(*world, pod("a", "c", on="n0"), pod("b", "c"))


@pytest.mark.parametrize("action", ["gangpreempt", "jobpreempt", "podpreempt"])
def test_a_more_important_pod_takes_the_claim_of_a_less_important_one(action: str) -> None:
    """Evicting its user is what makes the claim free."""

    def ranked(name: str, phase: str, on: str = "") -> list[Raw]:
        group, member = _group(name, 1), pod(name, "c", on=on, group=name)
        for one in (group, member):
            spec: Any = one["spec"]
            spec["priorityClassName"] = name
        return [{**group, "status": {"phase": phase}}, member]

    classes = [
        {**manifest("scheduling.k8s.io/v1", "PriorityClass", {"name": name}), "value": value}
        for name, value in (("low", 1), ("high", 9))
    ]
    alone = claim("c", "pv", modes=("ReadWriteOncePod",))
    gangs = [*ranked("low", "Running", on="n0"), *ranked("high", "Inqueue")]
    profile = replace(DEFAULT, actions=("enqueue", "allocate", action))

    history = schedule(objects(*TWO_ZONES, *classes, volume("pv", "c"), alone, *gangs), profile, now=NOW)
    assert ["default/low"] == [eviction.task.key for eviction in history.evictions]
    assert {"default/high"} == set(history.bindings)


def test_drivers_attach_only_so_many_volumes() -> None:
    """Each pod with a volume of its own takes one of the node's places."""
    limits = [csi_node("n0", csi_test=2), csi_node("n1", csi_test=1)]
    claims = [claim(f"c{i}") for i in range(4)]
    found = _bound(*TWO_ZONES, *limits, storage_class(), *claims, *(pod(f"p{i}", f"c{i}") for i in range(4)))

    assert ["n0", "n0", "n1"] == sorted(found.values())


def test_a_volume_that_pods_share_is_attached_once() -> None:
    """However many of them are on the node; another volume finds no place there."""
    csi = {"driver": "csi.test", "volumeHandle": "one"}
    shared = [volume("pv", "c", csi=csi), claim("c", "pv", modes=("ReadWriteMany",))]
    pods = [pod(f"p{i}", "c") for i in range(3)]
    world = [node("n0"), csi_node("n0", csi_test=1), storage_class(), *shared]

    assert 3 == len(_bound(*world, *pods))
    assert {} == _bound(*world, pod("a", "c", on="n0"), claim("d"), pod("b", "d"))
    assert {"p0", "p1", "p2"} == set(_bound(*world, *pods, claim("d"), pod("z", "d")))


def test_a_place_that_is_kept_is_no_volume_that_is_attached() -> None:
    """Pods that share a volume do not let each other onto a node that cannot attach it."""
    csi = {"driver": "csi.test", "volumeHandle": "one"}
    world = [node("n0"), node("n1"), csi_node("n0", csi_test=0), volume("pv", "c", csi=csi), claim("c", "pv")]
    pods = [{**pod(f"p{i}", "c"), "status": {"nominatedNodeName": "n0"}} for i in range(2)]

    assert {"p0": "n1", "p1": "n1"} == _bound(*world, *pods)


def test_volumes_that_no_pod_uses_count_as_long_as_they_are_attached() -> None:
    """By what VolumeAttachments say."""
    old = volume("old", "x", csi={"driver": "csi.test", "volumeHandle": "old"})
    world = [node("n0"), csi_node("n0", csi_test=1), storage_class(), old, claim("c"), pod("p", "c")]

    assert {} == _bound(*world, attachment("a", "old", "n0"))
    assert {"p": "n0"} == _bound(*world, attachment("a", "old", "elsewhere"))


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, False),
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            True,
        ),
        ({"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},) * 2 + (False,),
        ({"iscsi": {"iqn": "i"}}, {"iscsi": {"iqn": "j"}}, True),
        (
            {"rbd": {"monitors": ["a", "b"], "image": "x"}},
            {"rbd": {"monitors": ["b"], "image": "x", "pool": "rbd"}},
            False,
        ),
        ({"rbd": {"monitors": ["a"], "image": "x"}}, {"rbd": {"monitors": ["b"], "image": "x"}}, True),
        ({"cinder": {"volumeID": "d"}}, {"cinder": {"volumeID": "d"}}, True),
    ],
)
def test_disks_that_pods_of_one_node_cannot_share(one: Raw, other: Raw, together: bool) -> None:
    """As Kubernetes tells them apart."""
    pods = [pod("a", volumes=({"name": "d", **one},), on="n0"), pod("b", volumes=({"name": "d", **other},))]

    assert together == ("b" in _bound(node("n0"), *pods))


# -- ephemeral volumes

EPHEMERAL: Raw = {
    "name": "scratch",
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
    },
}


def test_ephemeral_volumes_have_claims_of_their_own() -> None:
    """Made for the pod, with its name and the volume's."""
    history = schedule(objects(*TWO_ZONES, storage_class(), pod("p", volumes=(EPHEMERAL,))), DEFAULT, now=NOW)

    assert {"default/p"} == set(history.bindings)
    assert history.cluster.read().every(PersistentVolumeClaim)["default/p-scratch"].bound


def test_a_claim_that_was_made_for_somebody_else_is_not_used() -> None:
    """Though it has the right name."""
    stray = claim("p-scratch")

    assert {"p": "VolumeClaimNotOwned"} == _why(*TWO_ZONES, storage_class(), stray, pod("p", volumes=(EPHEMERAL,)))


def test_claims_that_were_there_before_any_pod_are_known() -> None:
    """A reader that has seen a cluster without pods sees its storage when they come."""
    world, reader = objects(*TWO_ZONES, storage_class(), volume("pv", "c"), claim("c", "pv")), Reader(DEFAULT)
    reader.read(world, NOW)
    came = pod("p", "c")
    snapshot = reader.read(world.changed({key_of_raw(came): came}), NOW)

    assert [None] == [t.shape.volumes.refusal for job in snapshot.jobs for t in job.tasks if t.shape.volumes]


def test_a_pod_that_stands_has_no_claims_to_wait_for() -> None:
    """What is bound is bound: its claims do not tell shapes apart any more."""
    world = objects(*TWO_ZONES, storage_class(), claim("c"), claim("d"), pod("a", "c", on="n0"), pod("b", "d", on="n0"))
    snapshot = build(world, NOW)

    assert 1 == len({task.shape.number for task in snapshot.others})
    assert 2 == len(world.every(Pod))


def test_a_claim_that_a_pod_names_twice_is_followed() -> None:
    """A reader that follows the cluster forgets it once, when the pod has a node or is gone."""
    world = [*TWO_ZONES, storage_class(), volume("pv", "c"), claim("c", "pv")]
    reader = Reader(DEFAULT)
    for twice in ([pod("p", "c", "c")], [pod("p", "c", "c", on="n0")], [], [pod("p", "c", "c")]):
        snapshot = reader.read(objects(*world, *twice), NOW)
        assert [] == differences(snapshot, build(objects(*world, *twice), NOW))


@pytest.mark.parametrize(("islands", "fits"), [(("v0 v1", "v2"), True), (("v0", "v1"), False)])
def test_the_program_keeps_pods_that_share_a_claim_in_one_zone(islands: tuple[str, str], fits: bool) -> None:
    """It takes two islands of one zone; where each zone has one, it proves nothing: some drivers reach all zones."""
    names = [(name, zone) for zone, own in zip(("z1", "z2"), islands, strict=True) for name in own.split()]
    wish = json.dumps([{"fabric": "nvlink", "tier": 1, "mode": "hard", "spread": 2}])
    group = manifest(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        {"name": "g", "namespace": "default", "annotations": {"tierwise.io/topology-constraints": wish}},
        spec={"minMember": 2},
        status={"phase": "Inqueue"},
    )
    world = [*(node(f"n-{name}", zone) for name, zone in names), *(_island(name, f"n-{name}") for name, _ in names)]
    world += [storage_class(), claim("c", modes=("ReadWriteMany",)), *(pod(f"p{i}", "c", group="g") for i in range(2))]
    opened = open_cycle(build(objects(*world, group), NOW), DEFAULT)
    (job,) = opened.snapshot.jobs

    shared = opened.pipeline.shared_places(job)
    found = place_exactly(opened, job, demand(opened, job), ROOT, BOTH, shared)

    assert isinstance(found, SearchResult) if fits else found is NoPlace.BOUNDED
    if isinstance(found, SearchResult):
        assert {0, 1} == {row for placement in found.placements for row in placement.rows.tolist()}


def _island(name: str, of: str) -> Raw:
    members: list[Raw] = [{"type": "Node", "selector": {"exactMatch": {"name": of}}}]
    labels: Raw = {"tierwise.io/fabric": "nvlink"}
    spec: Raw = {"tier": 1, "members": members}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", {"name": name, "labels": labels}, spec=spec)
