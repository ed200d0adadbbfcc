"""A reader that follows a cluster tells what reading everything anew tells, whatever happened in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.sight import cycle, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.elastic_quota import CAN_PREEMPT
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.volcano import read_volcano
from tierwise.explain.wire import pending_wire
from tierwise.framework.ledger import Ledger
from tierwise.model.job import Phase
from tierwise.model.snapshot import Snapshot
from tierwise.port import Effect, Key, Objects, key_of_raw
from tierwise.scheduler.effects import effects
from tierwise.snapshot import tasks
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences
from tierwise.snapshot.run_history import RUN_HISTORY

EVICTING = read_volcano(
    {
        "actions": "enqueue, allocate, backfill, gangpreempt, jobpreempt, podpreempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {"plugins": [{"name": "predicates"}, {"name": "nodeorder"}, {"name": "elasticquota"}]},
        ],
    }
)

VOLCANO = "scheduling.volcano.sh/v1beta1"
SIGS = "scheduling.sigs.k8s.io/v1alpha1"
GANG = "gang.scheduling.koordinator.sh/"
NAMES = ("one", "two")
"""What pod groups of every language are called, so that one takes the name of another."""


def manifest(version: str, kind: str, name: str, namespace: str = "", **body: Any) -> Raw:
    """An object; `meta` is what its metadata say besides."""
    meta: dict[str, Any] = {"name": name, **body.pop("meta", {})}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": meta, **body}


def some(pick: Random) -> Raw:
    """One object of a small world, drawn anew each time: mostly pods."""
    makers = [_pod] * 12 + [_group] * 3 + [_node] * 2 + [_hyper_node, _gang, _quota, _budget, _class, _queue]
    return pick.choice(makers)(pick)


def _node_rules(pick: Random) -> dict[str, Any]:
    """Which nodes a pod may stand on, as users, device plugins and the DaemonSet controller say it."""
    pin = {"key": "metadata.name", "operator": "In", "values": [f"n{pick.randrange(5)}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [pin]}]}
    rules: list[dict[str, Any]] = [
        {"nodeSelector": {"rack": pick.choice("ab")}},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}},
    ]
    return pick.choice(rules)


def _pod(pick: Random) -> Raw:
    number = pick.randrange(14)
    labels = {"app": pick.choice("ab")} | ({"part": pick.choice("vw")} if pick.random() < 0.5 else {})
    annotations: dict[str, str] = {}
    if pick.random() < 0.5:
        annotations["scheduling.k8s.io/group-name"] = f"g{number % 3}"
        annotations["volcano.sh/task-spec"] = pick.choice(["w", "ps"])
        if number % 4 == 1:
            annotations["tierwise.io/rank"] = str(number)
    elif pick.random() < 0.3:
        labels["pod-group.scheduling.sigs.k8s.io"] = f"k{number % 2}"
    elif pick.random() < 0.3:
        annotations["gang.scheduling.koordinator.sh/name"] = "loose"
        annotations["gang.scheduling.koordinator.sh/min-available"] = "2"
    if pick.random() < 0.1:
        annotations["scheduling.koordinator.sh/network-topology-selector"] = "near"
    if pick.random() < 0.2:
        labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
    if number % 7 == 6:
        labels[CAN_PREEMPT] = "false"
    asks = {"cpu": pick.choice(["1", "2"])} | ({"nvidia.com/gpu": "1"} if pick.random() < 0.3 else {})
    asks |= pick.choice([{"memory": "1Ti"}, {"example.com/fpga": "1"}]) if pick.random() < 0.1 else {}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": asks}}
    if pick.random() < 0.1:
        port = {"hostPort": pick.choice([80, 81, 82]), "containerPort": 80}
        container["ports"] = [port | pick.choice([{}, {}, {"hostIP": "10.0.0.1"}])]
    spec: dict[str, Any] = {"containers": [container], "schedulerName": pick.choice(["volcano", "volcano", "else"])}
    if pick.random() < 0.4:
        spec["nodeName"] = f"n{pick.randrange(5)}"
    elif pick.random() < 0.1:
        spec["schedulingGates"] = [{"name": "x"}]
    if pick.random() < 0.3:
        spec |= _node_rules(pick)
    if pick.random() < 0.3:
        spec["priorityClassName"] = "high"
    if pick.random() < 0.1:
        selector = {"matchLabels": pick.choice([{"app": "a"}, {"part": "v"}])}
        term = {"topologyKey": "rack", "labelSelector": selector}
        other = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec["affinity"] = {**spec.get("affinity", {}), **other}
    meta: dict[str, Any] = {"labels": labels, "annotations": annotations}
    if pick.random() < 0.1:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: dict[str, Any] = {"phase": pick.choice(["Pending", "Running", "Running", "Succeeded"])}
    if pick.random() < 0.1:
        status["nominatedNodeName"] = "n1"
    return manifest("v1", "Pod", f"p{number}", pick.choice(["d", "d", "e"]), meta=meta, spec=spec, status=status)


def _group(pick: Random) -> Raw:
    spec: dict[str, Any] = {"minMember": pick.randrange(1, 4), "queue": pick.choice(["", "q"])}
    if pick.random() < 0.4:
        spec["minTaskMember"] = pick.choice([{"w": 1}, {"w": 1, "ps": 1}])
    if pick.random() < 0.4:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    if pick.random() < 0.3:
        spec["subGroupPolicy"] = [{"name": "s", "subGroupSize": 1, "matchLabelKeys": ["app"]}]
    if pick.random() < 0.3:
        spec["minResources"] = {"cpu": "2"} | pick.choice([{}, {"example.com/fpga": "1"}])
    status = {"phase": pick.choice(["Pending", "Inqueue", "Running"])}
    number, version = pick.randrange(3), "scheduling.volcano.sh/v1beta1"
    meta = {"annotations": {"tierwise.io/pattern": "ring"} if number == 2 else {}}
    return manifest(version, "PodGroup", f"g{number}", "d", meta=meta, spec=spec, status=status)


def _gang(pick: Random) -> Raw:
    spec = {"minMember": pick.randrange(1, 3)}
    return manifest("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", f"k{pick.randrange(2)}", "d", spec=spec)


def _node(pick: Random) -> Raw:
    amounts = {"cpu": pick.choice(["4", "4", "40"]), "pods": "8"} | pick.choice([{}, {"nvidia.com/gpu": "2"}])
    status: dict[str, Any] = {"allocatable": amounts | pick.choice([{}, {}, {"example.com/fpga": "1"}])}
    status["conditions"] = [{"type": "Ready", "status": pick.choice(["True", "True", "False"])}]
    number = pick.randrange(5)
    meta = {"labels": {"rack": "xy"[number % 2] if pick.random() < 0.8 else pick.choice("xy")}}
    if pick.random() < 0.2:
        status["images"] = [{"names": ["trainer"], "sizeBytes": pick.choice([10, 20])}]
    spec: dict[str, Any] = {"unschedulable": pick.random() < 0.2}
    if pick.random() < 0.3:
        spec["taints"] = [{"key": pick.choice(["gpu", "old"]), "effect": "NoSchedule"}]
    return manifest("v1", "Node", f"n{number}", meta=meta, spec=spec, status=status)


def _hyper_node(pick: Random) -> Raw:
    rack = pick.choice("xy")
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": rack}}}}]
    status = {"nodeCount": pick.randrange(3)}
    spec = {"tier": 1, "members": members}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", f"rack-{rack}", spec=spec, status=status)


def _quota(pick: Random) -> Raw:
    spec = {"min": {"cpu": "2"}, "max": {"cpu": pick.choice(["4", "8"])}}
    return manifest("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", pick.choice("de"), "kube-system", spec=spec)


def _budget(pick: Random) -> Raw:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": pick.choice("ab")}}}
    status = {"disruptionsAllowed": pick.randrange(3)}
    return manifest("policy/v1", "PodDisruptionBudget", f"b{pick.randrange(2)}", "d", spec=spec, status=status)


def _class(pick: Random) -> Raw:
    return manifest("scheduling.k8s.io/v1", "PriorityClass", "high", value=pick.choice([10, 20]))


def _queue(pick: Random) -> Raw:
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", "q", spec={"weight": pick.randrange(1, 4)})


def seldom(pick: Random) -> Raw:
    """One object of those by which pods are read and that seldom change, or a pod that one of them concerns."""
    return pick.choice([_tied_pod] * 7 + [_namespace, _app_group, _own_quota, _queue, _class] + _OF_DEVICES)(pick)


def _tied_pod(pick: Random) -> Raw:
    """A pod that is in an application, joins a ComputeDomain or keeps away from pods of other namespaces."""
    raw: dict[str, Any] = dict(_pod(pick))
    labels, spec = dict(raw["metadata"]["labels"]), dict(raw["spec"])
    match pick.randrange(4):
        case 0:
            labels["appgroup.diktyo.x-k8s.io"] = pick.choice(["shop", "bank"])
            labels["appgroup.diktyo.x-k8s.io.workload"] = "p1"
        case 1:
            template, claim = pick.choice(["channel", "other"]), f"c{pick.randrange(3)}"
            named = pick.choice([{"resourceClaimTemplateName": template}, *[{"resourceClaimName": claim}] * 2])
            spec["resourceClaims"] = [{"name": "channel", **named}]
        case 2:
            team = {"matchLabels": {pick.choice(["team", "stage"]): "x"}}
            term = {"topologyKey": "rack", "labelSelector": {}, "namespaceSelector": team}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case _:
            labels["quota.scheduling.koordinator.sh/name"] = pick.choice(["q", "d", "e"])
    return {**raw, "metadata": {**raw["metadata"], "labels": labels}, "spec": spec}


def _namespace(pick: Random) -> Raw:
    labels = {key: pick.choice("xy") for key in ("team", "stage") if pick.random() < 0.5}
    return manifest("v1", "Namespace", pick.choice("de"), meta={"labels": labels})


def _app_group(pick: Random) -> Raw:
    ref = {"kind": "Deployment", "name": "p1", "selector": "p1", "apiVersion": "apps/v1", "namespace": "d"}
    spec = {"numMembers": 1, "topologySortingAlgorithm": "KahnSort", "workloads": [{"workload": ref}]}
    name, namespace = pick.choice(["shop", "bank"]), pick.choice(["d", "e", "default"])
    return manifest("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", name, namespace, spec=spec)


def _own_quota(pick: Random) -> Raw:
    """A quota of a namespace itself, which may be called like a queue."""
    spec = {"min": {"cpu": "2"}, "max": {"cpu": "4"}}
    namespace = pick.choice(["d", "e", "koordinator-system"])
    return manifest("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", pick.choice("deq"), namespace, spec=spec)


def _domain(pick: Random) -> Raw:
    channel = {"resourceClaimTemplate": {"name": pick.choice(["channel", "other"])}}
    spec = {"numNodes": 2, "channel": channel}
    name, namespace = f"c{pick.randrange(2)}", pick.choice("de")
    return manifest("resource.nvidia.com/v1beta1", "ComputeDomain", name, namespace, spec=spec)


def _slice(pick: Random) -> Raw:
    node = f"n{pick.randrange(5)}"
    pool = {"name": node, "generation": 1, "resourceSliceCount": pick.choice([1, 1, 2])}
    devices = [{"name": f"d{i}", "attributes": {"big": {"bool": i > 0}}} for i in range(pick.randrange(1, 4))]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return manifest("resource.k8s.io/v1", "ResourceSlice", node, spec=spec)


def _device_class(pick: Random) -> Raw:
    """All devices of the driver, or the big ones; one of the classes may serve an extended resource as well."""
    name, condition = pick.choice([("any", ""), ("big", ' && device.attributes["gpu.example.com"].big')])
    expression = f'device.driver == "gpu.example.com"{condition}'
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if name == "any" and pick.random() < 0.3:
        spec["extendedResourceName"] = "nvidia.com/gpu"
    return manifest("resource.k8s.io/v1", "DeviceClass", name, spec=spec)


def _claim(pick: Random) -> Raw:
    """A claim of one of a few pods, allocated or not."""
    request = {"name": "r", "exactly": {"deviceClassName": pick.choice(["any", "big"]), "count": pick.choice([1, 2])}}
    body: dict[str, Any] = {"spec": {"devices": {"requests": [request]}}}
    if pick.random() < 0.5:
        result = {"request": "r", "driver": "gpu.example.com", "pool": f"n{pick.randrange(5)}", "device": "d1"}
        users = [{"resource": "pods", "name": f"p{pick.randrange(14)}", "uid": ""}] if pick.random() < 0.7 else []
        body["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    return manifest("resource.k8s.io/v1", "ResourceClaim", f"c{pick.randrange(3)}", pick.choice("de"), **body)


_OF_DEVICES = [_domain, _slice, _slice, _device_class, _claim, _claim]


def with_devices(pick: Random) -> Raw:
    """One object of a cluster in which most pods have a claim of their own, and slices of devices come and change."""
    return pick.choice([_claiming_pod] * 3 + [_own_claim] * 5 + [_slice] * 5 + [_device_class, _node])(pick)


def _claiming_pod(pick: Random) -> Raw:
    number = pick.randrange(6)
    spec: dict[str, Any] = {
        "schedulerName": "tierwise",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"c{number}"}],
    }
    if pick.random() < 0.7:
        spec["nodeName"] = f"n{pick.randrange(5)}"
    phase = "Running" if "nodeName" in spec else "Pending"
    return manifest("v1", "Pod", f"p{number}", "d", spec=spec, status={"phase": phase})


def _own_claim(pick: Random) -> Raw:
    """The claim of one of these pods, mostly allocated: devices of its own, or parts of those that several use."""
    number = pick.randrange(6)
    request = {"name": "r", "exactly": {"deviceClassName": pick.choice(["any", "any", "big"]), "count": 1}}
    body: dict[str, Any] = {"spec": {"devices": {"requests": [request]}}}
    if pick.random() < 0.8:
        results = []
        for _ in range(pick.choice([1, 1, 2])):
            where: dict[str, Any] = {"pool": f"n{pick.randrange(5)}", "device": f"d{pick.randrange(3)}"}
            if pick.random() < 0.2:
                where |= {"shareID": "s", "consumedCapacity": {"memory": "1Gi"}}
            results.append({"request": "r", "driver": "gpu.example.com", **where})
        users = [{"resource": "pods", "name": f"p{number}", "uid": ""}] if pick.random() < 0.9 else []
        body["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return manifest("resource.k8s.io/v1", "ResourceClaim", f"c{number}", "d", **body)


def roomy(pick: Random) -> Raw:
    """One object of a world with room for all, in which few pods are in each language."""
    return pick.choice(
        [_roomy_pod] * 8 + [_roomy_node] * 3 + [_roomy_group] * 3 + [_roomy_gang, _roomy_class, _history]
    )(pick)


def _roomy_node(pick: Random) -> Raw:
    number = pick.randrange(3)
    status = {"allocatable": {"cpu": "40", "pods": "40"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return manifest("v1", "Node", f"n{number}", meta={"labels": {"rack": "xy"[number % 2]}}, status=status)


def _roomy_pod(pick: Random) -> Raw:
    number, name = pick.randrange(8), pick.choice(NAMES)
    labels: dict[str, str] = {"app": pick.choice("ab")}
    annotations: dict[str, str] = {}
    match pick.randrange(5):
        case 0:
            annotations["scheduling.k8s.io/group-name"] = name
        case 1:
            labels["pod-group.scheduling.sigs.k8s.io"] = name
        case 2:
            annotations |= {f"{GANG}name": name, f"{GANG}min-available": pick.choice(["1", "2", "many"])}
        case 3:
            annotations["tierwise.io/rank"] = pick.choice(["1", "first"])
        case _:
            pass  # a plain pod
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": pick.choice(["1", "2"])}}}],
        "schedulerName": "volcano",
    }
    if pick.random() < 0.3:
        term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "a"}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if pick.random() < 0.3:
        spec["nodeName"] = f"n{pick.randrange(3)}"
    status = {"phase": "Running" if "nodeName" in spec else "Pending"}
    meta = {"labels": labels, "annotations": annotations}
    return manifest("v1", "Pod", f"p{number}", "d", meta=meta, spec=spec, status=status)


def _roomy_group(pick: Random) -> Raw:
    spec: dict[str, Any] = {"minMember": pick.randrange(1, 3), "queue": pick.choice(["", "default"])}
    if pick.random() < 0.6:
        spec["priorityClassName"] = pick.choice(["high", "low"])
    meta = {"annotations": {"tierwise.io/pattern": "ring"}} if pick.random() < 0.2 else {}
    status = {"phase": pick.choice(["Pending", "Inqueue", "Running"])}
    return manifest(VOLCANO, "PodGroup", pick.choice(NAMES), "d", meta=meta, spec=spec, status=status)


def _roomy_gang(pick: Random) -> Raw:
    return manifest(SIGS, "PodGroup", pick.choice(NAMES), "d", spec={"minMember": pick.randrange(1, 3)})


def _roomy_class(pick: Random) -> Raw:
    return manifest("scheduling.k8s.io/v1", "PriorityClass", pick.choice(["high", "low"]), value=pick.choice([10, 20]))


def _history(pick: Random) -> Raw:
    """What has run before, as the scheduler has written it, or somebody else."""
    data = {"runs": pick.choice(['["d/one","default",1,60.0,1.0,0.0]\n', "none\n"])}
    return manifest("v1", "ConfigMap", RUN_HISTORY, "d", data=data)


def moved(raw: dict[str, Any], pick: Random) -> Raw:
    """The same pod in another place or state, or with a status that nobody reads."""
    spec, status, meta = dict(raw["spec"]), dict(raw["status"]), dict(raw["metadata"])
    time = f"2026-01-01T00:0{pick.randrange(3)}:00Z"
    match pick.randrange(10):
        case 0:
            spec["nodeName"] = f"n{pick.randrange(6)}"
        case 1:
            status["phase"] = pick.choice(["Pending", "Running", "Succeeded", "Failed"])
        case 2:
            status["nominatedNodeName"] = f"n{pick.randrange(5)}"
        case 3:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        case 4:
            spec["schedulingGates"] = pick.choice([[], [{"name": "x"}]])
        case 5:
            status["startTime"] = time
        case 6:
            told = {"type": pick.choice(["Checkpointed", "Ready"]), "status": "True"}
            status["conditions"] = [{**told, "lastTransitionTime": time}]
        case 7:
            status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"finishedAt": time}}}]
        case 8:
            owner = {"kind": "Job", "name": "j", "uid": "u", "controller": pick.random() < 0.5}
            meta["ownerReferences"] = [owner]
        case _:
            status["message"] = pick.choice("xyz")
    return {**raw, "spec": spec, "status": status, "metadata": meta}


def decided(snapshot: Snapshot, profile: Profile) -> tuple[list[Effect], list[Raw]]:
    """What a cycle asks for, and why pods wait."""
    report = cycle(snapshot, profile)
    return list(effects(snapshot, report)), pending_wire(snapshot, report, {})


@pytest.mark.parametrize("evicting", [False, True])
@sees(refusals=10)
@given(pick=st.randoms(use_true_random=False), steps=st.integers(1, 25))
@examples(30)
def test_following_equals_reading_anew(evicting: bool, pick: Random, steps: int) -> None:
    """Snapshots are the same but for the numbers of shapes, and so is everything that is decided on them."""
    _follow(EVICTING if evicting else DEFAULT, pick, steps, some)


@pytest.mark.parametrize("evicting", [False, True])
@sees(cycles=30)
@given(pick=st.randoms(use_true_random=False), steps=st.integers(1, 25))
@examples(30)
def test_so_it_is_where_that_changes_which_seldom_does(evicting: bool, pick: Random, steps: int) -> None:
    """Namespaces, applications, quotas, domains of devices: only the pods that they concern are read again."""
    _follow(EVICTING if evicting else DEFAULT, pick, steps, lambda pick: pick.choice([some, seldom])(pick))


@sees(decisions=21, refusals=94)
@given(seed=st.integers(0, 1 << 30))
@examples(30)
def test_so_it_is_where_devices_change(seed: int) -> None:
    """Slices that come, go or change while claims hold their devices."""
    _follow(DEFAULT, Random(seed), 25, with_devices)  # a source of its own draws more unlike worlds than Hypothesis'


@pytest.mark.parametrize("evicting", [False, True])
@sees(decisions=30)
@given(seed=st.integers(0, 1 << 30))
@examples(30)
def test_what_is_gone_is_forgotten(evicting: bool, seed: int) -> None:
    """Groups whose pods are gone, the last pod of a language, priority classes, names that another group takes."""
    chosen = EVICTING if evicting else DEFAULT
    profile = replace(chosen, action_arguments={"allocate": {"runHistory": "d"}})
    _follow(profile, Random(seed), 12, roomy, gone_in=0.25)


def _made_at(second: int, raw: Raw) -> Raw:
    """An object that was made then: one of the same name, if there is one, was deleted in the meantime."""
    metadata = raw["metadata"]
    assert isinstance(metadata, dict)
    return {**raw, "metadata": {"creationTimestamp": f"2026-01-01T00:00:{second:02d}Z", **metadata}}


def _follow(profile: Profile, pick: Random, steps: int, draw: Callable[[Random], Raw], gone_in: float = 0.08) -> None:
    reader = Reader(profile)
    objects = Objects()
    present: dict[Key, dict[str, Any]] = {}
    for step in range(steps):
        puts = {key: moved(raw, pick) for key, raw in present.items() if key.kind == "Pod" and pick.random() < 0.2}
        drawn = (_made_at(step // 2, draw(pick)) for _ in range(pick.choice([0, 1, 2, 9])))
        puts |= {key_of_raw(raw): raw for raw in drawn}
        gone = [key for key in present if key not in puts and pick.random() < gone_in]
        objects = objects.changed(puts, gone)
        present = {key: raw for key, raw in {**present, **puts}.items() if key not in gone}

        kept, fresh = reader.read(objects, float(step)), build(objects, float(step), profile)

        assert [] == differences(kept, fresh)
        assert decided(fresh, profile) == decided(kept, profile)
        counted = replace(kept, kept_columns=None)
        assert kept.kept_unsettled == counted.unsettled
        for name in ("row", "shape", "status", "job"):
            assert getattr(counted.columns, name).tolist() == getattr(kept.columns, name).tolist()
        for name in ("idle", "releasing", "domain_idle", "domain_releasing", "any_releasing"):
            assert np.array_equal(getattr(Ledger(counted), name), getattr(Ledger(kept), name))


def test_two_shapes_that_had_one_number_are_counted_apart() -> None:
    """A pod whose node comes in the same moment as its requests change: its first shape's number goes to the second."""
    following = test_following_equals_reading_anew.hypothesis.inner_test
    following(False, Random(1_000_106), 25)


def test_a_group_that_is_let_in_is_another_job_and_one_that_counts_is_not() -> None:
    """Of the status of a pod group its phase alone is read."""
    reader = Reader(DEFAULT)
    group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "train", "default", spec={"minMember": 1})
    key = key_of_raw(group)
    statuses: list[Raw] = [{"phase": "Pending"}, {"phase": "Inqueue"}, {"phase": "Inqueue", "running": 1}]
    objects, jobs = Objects(), []
    for status in statuses:
        objects = objects.changed({key: {**group, "status": status}})
        jobs.append(reader.read(objects, 0.0).jobs[0])

    assert [Phase.PENDING, Phase.INQUEUE, Phase.INQUEUE] == [job.phase for job in jobs]
    assert jobs[1] is jobs[2]


def test_jobs_keep_their_numbers_when_another_comes() -> None:
    """Whoever comes last is last, whatever it is called; one that is made again comes again."""

    def group(name: str, second: int) -> dict[Key, Raw]:
        meta = {"creationTimestamp": f"2026-01-01T00:00:{second:02d}Z"}
        raw = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", name, "d", meta=meta, spec={"minMember": 1})
        return {key_of_raw(raw): raw}

    reader, objects, read = Reader(DEFAULT), Objects(), []
    for puts in (group("c", 1) | group("d", 1), group("a", 2), group("c", 3)):
        objects = objects.changed(puts)
        read.append(reader.read(objects, 9.0).jobs)

    expected = [["d/c", "d/d"], ["d/c", "d/d", "d/a"], ["d/d", "d/a", "d/c"]]
    assert expected == [[job.key for job in jobs] for jobs in read]
    assert all(last is now for last, now in zip(read[0], read[1], strict=False))


def test_jobs_are_not_read_again_because_there_are_more_pods() -> None:
    """What keeps sums of all requests countable is the same for few pods and for thousands."""

    def pod(name: str, group: str) -> dict[Key, Raw]:
        meta = {"annotations": {"scheduling.k8s.io/group-name": group}}
        spec = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
        raw = manifest("v1", "Pod", name, "d", meta=meta, spec=spec, status={"phase": "Pending"})
        return {key_of_raw(raw): raw}

    group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "g", "d", spec={"minMember": 2})
    reader, objects, read = Reader(DEFAULT), Objects().changed({key_of_raw(group): group} | pod("a", "g")), []
    for number in range(17):
        objects = objects.changed(pod(f"b{number}", "nobody"))
        read.append(reader.read(objects, 0.0).jobs[0])

    assert [True] * 17 == [job is read[0] for job in read]


def test_best_effort_roles_are_numbered_anew() -> None:
    """A job that keeps its place while one before it goes has other numbers for its roles, also of best-effort pods."""
    reader = Reader(DEFAULT, schedulers=frozenset({"tierwise"}))

    def pod(name: str, group: str, role: str, cpu: str) -> Raw:
        marks = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": role}
        requests = {"requests": {"cpu": cpu}} if cpu else {}
        spec = {"schedulerName": "tierwise", "containers": [{"name": "c", "image": "i", "resources": requests}]}
        return manifest("v1", "Pod", name, "default", meta={"annotations": marks}, spec=spec)

    def group(name: str) -> Raw:
        spec = {"minMember": 1, "minTaskMember": {"ps": 1, "w": 1}}
        made = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", name, "default", spec=spec)
        return {**made, "status": {"phase": "Inqueue"}}

    amounts = {"cpu": "8", "pods": "9"}
    before = [manifest("v1", "Node", "n0", status={"allocatable": amounts}), group("a"), group("b")]
    before += [pod(f"{g}-{r}", g, r, "" if r == "ps" else "1") for g in "ab" for r in ("ps", "w")]
    objects = Objects.of((codec.decode(raw), raw) for raw in before)
    both = reader.read(objects, 0.0)
    gone = [key_of_raw(raw) for raw in before if raw["metadata"]["name"].startswith("a")]  # type: ignore[index]
    objects = objects.updated({}, gone, objects.version + 1)
    kept, fresh = reader.read(objects, 0.0), build(objects, 0.0, schedulers=frozenset({"tierwise"}))

    def numbers(snapshot: Snapshot) -> list[tuple[int, str]]:
        return [
            (pod_set.role_number, job.role_names[pod_set.role_number])
            for job in snapshot.jobs
            for _, pod_set in job.best_effort_pod_sets
        ]

    assert [(0, "ps"), (2, "ps")] == numbers(both)
    assert [(0, "ps")] == numbers(fresh)
    assert numbers(fresh) == numbers(kept)


@given(pick=st.randoms(use_true_random=False))
@examples(45)
def test_node_rules_of_bound_pods_are_not_read(pick: Random) -> None:
    """A pod with a node is read as if it had never said which nodes it may stand on; its rules about pods stay.

    What repair asks of it stands beside its shape: its tolerations, and whether there are such rules.
    """
    raws = {key_of_raw(raw): raw for raw in (some(pick) for _ in range(22))}

    def settled(raw: Any, *left_out: str) -> Raw:
        spec = raw.get("spec", {})
        if raw["kind"] != "Pod" or not spec.get("nodeName"):
            return dict(raw)
        kept = {name: value for name, value in spec.items() if name not in ("nodeSelector", "affinity", *left_out)}
        between = {name: rule for name, rule in spec.get("affinity", {}).items() if name != "nodeAffinity"}
        return {**raw, "spec": {**kept, **({"affinity": between} if between else {})}}

    with patch.object(tasks, "has_node_rules", return_value=False):
        given_rules = build(Objects().changed(raws), 0.0)
        without = build(Objects().changed({key: settled(raw) for key, raw in raws.items()}), 0.0)
        intolerant = build(Objects().changed({key: settled(raw, "tolerations") for key, raw in raws.items()}), 0.0)

    assert [] == differences(given_rules, without)
    assert len(intolerant.shapes) == len(without.shapes) == len(given_rules.shapes)
