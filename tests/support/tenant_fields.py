"""By field or object of a tenant: two small clusters, one without it and one with it, of which something else comes.

A row for each entry of the table in `docs/security-model.md` that is no label or annotation: those are in
`tests/support/field_pairs.py`. `tests/unit/dialects/test_every_field_counts.py` plays them, in every way listed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from tests.support import devices, quotas, services
from tests.support.field_scenes import FULL, MINUTE, Scene, on_job, other, own, tree
from tests.support.languages import RACK, pod
from tests.support.marked_gangs import DECLARES, LANGUAGE_OF, gang_in
from tests.support.queue_worlds import queue
from tests.support.workloads_of_v import PODS, workload

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile

__all__ = ["FIELDS", "Field"]

Both = tuple[Scene, Scene]


class Field(NamedTuple):
    """Two clusters for each way in which the field can be written."""

    pair: Callable[[str], Both]
    ways: Sequence[str]


_JOBS: Final = tuple(LANGUAGE_OF)
_DECLARED: Final = tuple(DECLARES)


def _changed(manifests: Iterable[Raw], kinds: Sequence[str], change: Callable[[Any], None]) -> list[Raw]:
    """The same objects; those of v of these kinds are changed."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        if raw["kind"] in kinds and raw["metadata"]["name"].partition("-")[0] == "v":
            change(raw)
    return found


def _with(scene: Scene, kinds: Sequence[str], **spec: object) -> Both:
    """A scene, and the same where the objects of v of these kinds have more in their spec."""
    return scene, replace(scene, manifests=_changed(scene.manifests, kinds, lambda raw: raw["spec"].update(spec)))


# -- how many start together

_LEAST: Final = {"minMember", "minCount", "minGroupCount", "minReplicas", "count"}


def _lowered(value: Any) -> None:
    """Every minimum in a manifest is one."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            _lowered(inner)
        elif key in _LEAST:
            value[key] = 1


def _minimum(way: str) -> Both:
    """Room for two of three pods, that may start in parts or not."""
    scene = Scene([*tree({"r0": "n0"}), *own(way, pods=3)])
    fewer: list[Any] = _changed(scene.manifests, [DECLARES.get(way, ""), "PodGroup"], _lowered)
    for raw in fewer:
        marks = raw["metadata"].get("annotations", {})
        marks |= dict.fromkeys(marks.keys() & _LEAST_OF_PODS, "1")
    return replace(scene, manifests=fewer), scene


_LEAST_OF_PODS: Final = {"gang.scheduling.koordinator.sh/min-available", "kueue.x-k8s.io/pod-group-total-count"}


# -- what pods say


def _anti_affinity(way: str) -> Both:
    """Room beside somebody from whom v wants to be apart."""
    term = {"labelSelector": {"matchLabels": {"app": "u"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    stranger = pod("u", on="n0", labels={"app": "u"})
    return _with(Scene([*tree({"r0": "n0"}, cpu=4), stranger, *own(way)]), ["Pod"], affinity=affinity)


def _spread(way: str) -> Both:
    """Room in one of two racks."""
    rule = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
    named = on_pods_of_v(own(way))
    full = pod("u", on="n1", cpu=2)
    rules = [{**rule, "labelSelector": {"matchLabels": {"app": "v"}}}]
    return _with(Scene([*tree({"r0": "n0", "r1": "n1"}), full, *named]), ["Pod"], topologySpreadConstraints=rules)


def on_pods_of_v(manifests: Iterable[Raw]) -> list[Raw]:
    """The same objects; the pods of v have a label by which rules and budgets find them."""
    return _changed(manifests, ["Pod"], lambda raw: raw["metadata"].setdefault("labels", {}).update(app="v"))


def _priority(way: str) -> Both:
    """Others run on the only node."""
    busy = other("u", 2, {0: "n0", 1: "n0"}, ago=MINUTE)
    return _with(Scene([*tree({"r0": "n0"}), *busy, *own(way)]), ["Pod"], priority=9)


_HIGH: Final[Raw] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 9,
}


def _class_of_pods(way: str) -> Both:
    """The same by a class, which every pod names."""
    busy = other("u", 2, {0: "n0", 1: "n0"}, ago=MINUTE)
    scene = Scene([*tree({"r0": "n0"}), _HIGH, *busy, *own(way)])
    bare = _changed(scene.manifests, ["Pod"], lambda raw: raw["spec"].pop("priority"))
    return _with(replace(scene, manifests=bare), ["Pod"], priorityClassName="high")


# -- what objects that declare gangs say


def _closed_queue(way: str) -> Both:
    """The queue of v's name takes no jobs, or is held."""
    if way == "kueue":
        local: Raw = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": "v", "annotations": {"tierwise.io/hold": "until Monday"}},
            "spec": {"clusterQueue": "all"},
        }
        plain = _changed(own(way), ["Pod"], lambda raw: raw["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name"))
        return _with(Scene([*tree({"r0": "n0"}), local, *plain]), ["Workload"], queueName="v")
    return _with(Scene([*tree({"r0": "n0"}), queue("v", open=False), *own(way)]), ["PodGroup"], queue="v")


def _topology_affinity(way: str) -> Both:
    """A gang whose group has a label runs in the only rack, and v's group keeps apart from such groups."""
    there: list[Any] = other("u", 2, {0: "n0", 1: "n0"})
    there[0]["metadata"]["labels"] = {"app": "u"}
    profile = replace(DEFAULT, feature_gates={"VolcanoTopologyAffinity": True})
    scene = Scene([*tree({"r0": "n0 n1"}), *there, *own(way)], profile)
    apart = {"podGroupSelector": {"matchLabels": {"app": "u"}}, "topologyTier": 1}
    return _with(scene, ["PodGroup"], topologyAffinity={"podGroupAntiAffinity": {"required": [apart]}})


def _claim(way: str) -> Both:
    """V is let in and has no place: what it claims is not there for the next."""
    plugins = tuple(PluginChoice(name) for name in ("gang", "predicates", "network-topology-aware"))
    profile = Profile(DEFAULT.actions, ((*plugins, PluginChoice("overcommit", {"overcommit-factor": 1})),))
    stuck = on_job(own(way), way, "annotation", "tierwise.io/topology-constraints", '[{"tier": 1}]')
    group, *pods = other("w", 1, ago=MINUTE)
    next_one: Raw = {**group, "spec": {"minMember": 1, "minResources": {"cpu": "1"}}}
    scene = Scene([*tree({"r0": "n0", "r1": "n1"}, cpu=1), *stuck, next_one, *pods], profile, None)
    return _with(scene, ["PodGroup"], minResources={"cpu": "2"})


# -- objects


def _budget(way: str) -> Both:
    """V makes way for a more important gang, or not."""
    running = on_pods_of_v(own(way, {0: "n0", 1: "n0"}, ago=MINUTE))
    scene = Scene([*tree({"r0": "n0"}), *running, *other("w", 2, priority=2)], _HEEDING)
    budget: Raw = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "v"}}},
        "status": {"disruptionsAllowed": 0},
    }
    return scene, replace(scene, manifests=[*scene.manifests, budget])


_HEEDING: Final = replace(FULL, tiers=(*FULL.tiers, (PluginChoice("pdb"),)))


def _quota(_: str) -> Both:
    """Two pods, one of which has room in the quota of their namespace."""
    pods = [quotas.worker(f"v-{i}", gpu=1) for i in range(2)]
    scene = Scene([*quotas.nodes("n0"), *pods], quotas.koordinator())
    return scene, replace(scene, manifests=[*scene.manifests, quotas.quota("default", most=1)])


def _declares(kind: str) -> Callable[[str], Both]:
    def both(way: str) -> Both:
        """Pods of a gang whose object is there, or not; a job by an operator makes pods where it is there."""
        if way not in DECLARES:
            scene = Scene(tree({"r0": "n0"}), cycles=None)
            return scene, replace(scene, manifests=[*scene.manifests, _WORKLOADS[way]()])
        whole = Scene([*tree({"r0": "n0 n1"}), *own(way)])
        return replace(whole, manifests=[raw for raw in whole.manifests if raw["kind"] != kind]), whole

    return both


def _volcano_job() -> Raw:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "default", "uid": "v"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": PODS}]},
    }


def _of(version: str, spec: Raw) -> Callable[[], Raw]:
    """V as a kind whose operator would make its pods."""
    api_version, _, kind = version.rpartition(" ")
    return lambda: {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "v", "namespace": "default", "uid": "v"},
        "spec": spec,
    }


_WORKLOADS: Final[Mapping[str, Callable[[], Raw]]] = {
    "RoleBasedGroup": _of(
        "workloads.x-k8s.io/v1alpha2 RoleBasedGroup",
        {"roles": [{"name": "w", "replicas": 1, "standalonePattern": {"template": PODS}}]},
    ),
    "ModelServing": _of(
        "workload.serving.volcano.sh/v1alpha1 ModelServing",
        {"template": {"roles": [{"name": "w", "replicas": 1, "entryTemplate": PODS, "workerReplicas": 0}]}},
    ),
    "StormService": _of(
        "orchestration.aibrix.ai/v1alpha1 StormService",
        {"template": {"spec": {"roles": [{"name": "w", "template": PODS}]}}},
    ),
    "RoleSet": _of("orchestration.aibrix.ai/v1alpha1 RoleSet", {"roles": [{"name": "w", "template": PODS}]}),
    "DynamoGraphDeployment": _of(
        "nvidia.com/v1beta1 DynamoGraphDeployment", {"components": [{"name": "w", "podTemplate": PODS}]}
    ),
    "InferenceService": _of("serving.kserve.io/v1beta1 InferenceService", {"predictor": PODS["spec"]}),
    "Job": lambda: workload("Job"),
    "JobSet": lambda: workload("JobSet"),
    "LeaderWorkerSet": lambda: workload("LeaderWorkerSet"),
    "a Job of Volcano": _volcano_job,
}


def _ways(kind: str) -> tuple[str, ...]:
    return tuple(way for way, declared in DECLARES.items() if declared == kind)


# -- services and devices


def _services(bandwidth: str = "") -> Scene:
    """Two services, one of which stands; the node of the other one has room, and a link of nine."""
    links = services.network({"z1>z2": {"networkCost": 1, "bandwidthCapacity": "9"}})
    calls = services.app_group([("web", "store", {"minBandwidth": bandwidth} if bandwidth else {})])
    full, free = services.node("n1", "r/z1", cpu=1), services.node("n2", "r/z2", cpu=2)
    web = services.pod("web", "web", on="n1")
    return Scene([full, free, calls, links, web, services.pod("v-0", "store")], services.profile())


def _bandwidth(_: str) -> Both:
    return _services(), _services("10")


def _app_group(_: str) -> Both:
    whole = _services("10")
    return replace(whole, manifests=[raw for raw in whole.manifests if raw["kind"] != "AppGroup"]), whole


def _selector(_: str) -> Both:
    """The only device is small."""
    world = [devices.node("n0"), devices.resource_slice("n0", [devices.device("d0", size="s")]), devices.device_class()]
    asks = devices.exactly(), devices.exactly(where=f'device.attributes["{devices.DRIVER}"].size == "l"')
    without, such = (Scene([*world, devices.claim("v", ask), devices.pod("v-0", "v")]) for ask in asks)
    return without, such


def _replicas(way: str) -> Both:
    """A workload of one pod, and of two."""
    scene = Scene([*tree({"r0": "n0"}), workload(way)])
    return replace(scene, manifests=_changed(scene.manifests, [way], lambda raw: raw["spec"].pop("replicas"))), scene


# -- whose place a pod or a gang takes


def _owner(way: str) -> Both:
    """The place of a pod of a gang that was made for the same object is kept on the emptier node."""
    line = '["default/u-0","u","default/u","","v",false,"n1","",{"cpu":1000,"pods":1},0]'
    metadata = {"name": "tierwise-kept-places", "namespace": "tierwise"}
    kept: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"places": f"{line}\n"}}
    profile = replace(DEFAULT, action_arguments={"allocate": {"keptPlaces": "tierwise"}})
    scene = Scene([*_fuller_first(), kept, *own(way)], profile)
    owner = {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "v", "uid": "v", "controller": True}
    owned = _changed(scene.manifests, ["PodGroup"], lambda raw: raw["metadata"].update(ownerReferences=[owner]))
    return scene, replace(scene, manifests=owned)


def _fuller_first() -> list[Raw]:
    """Two nodes, of which gangs take the first as it is fuller."""
    return [*tree({"r0": "n0", "r1": "n1"}, cpu=8), pod("x", on="n0", cpu=4)]


def _reference(way: str) -> Both:
    """The gang that is named runs on the emptier node."""
    before = gang_in(way, "u", 1, {0: "n1"})
    return _with(Scene([*_fuller_first(), *before, *own(way)]), ["PodGang"], **_TAKES_OVER)


def _failing(field: str, state: Raw) -> Callable[[str], Both]:
    """One more pod of the gang stands on the fuller node, and starts or not."""

    def both(way: str) -> Both:
        gang: list[Any] = own(way)
        more = copy.deepcopy(gang[-1])
        more["metadata"]["name"] = "v-9"
        more["spec"]["nodeName"] = "n0"
        more["status"] = {"phase": "Pending"}
        profile = replace(DEFAULT, action_arguments={"allocate": {"failedStarts": "tierwise"}})
        scene = Scene([*_fuller_first(), *gang, more], profile)
        failing: Any = copy.deepcopy(scene.manifests)
        failing[-1]["status"][field] = [{"name": "c", "state": state}]
        return scene, replace(scene, manifests=failing)

    return both


_NO_IMAGE: Final[Raw] = {"waiting": {"reason": "ErrImagePull"}}
_BAD_CHECK: Final[Raw] = {"terminated": {"exitCode": 1, "reason": "Error"}}
_TAKES_OVER: Final = {"reuseReservationRef": {"name": "u", "namespace": "default"}}


FIELDS: Final[Mapping[str, Field]] = {
    "spec.containers[].image": Field(_failing("containerStatuses", _NO_IMAGE), ("volcano",)),
    "spec.initContainers": Field(_failing("initContainerStatuses", _BAD_CHECK), ("volcano",)),
    "metadata.ownerReferences": Field(_owner, ("volcano",)),
    "spec.reuseReservationRef": Field(_reference, ("grove",)),
    "spec.replicas": Field(_replicas, ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")),
    "spec.minMember": Field(_minimum, _JOBS),
    "PodDisruptionBudget": Field(_budget, _JOBS),
    "spec.affinity": Field(_anti_affinity, _JOBS),
    "spec.topologySpreadConstraints": Field(_spread, _JOBS),
    "spec.priority": Field(_priority, _JOBS),
    "priorityClassName": Field(_class_of_pods, _JOBS),
    "spec.queue": Field(_closed_queue, ("volcano", "kai", "kueue")),
    "spec.topologyAffinity": Field(_topology_affinity, ("volcano",)),
    "spec.minResources": Field(_claim, ("volcano", "koordinator", "scheduler-plugins")),
    "ElasticQuota": Field(_quota, ("",)),
    "PodGroup": Field(_declares("PodGroup"), _ways("PodGroup")),
    "Workload": Field(_declares("Workload"), ("kubernetes, workload",)),
    "PodGang": Field(_declares("PodGang"), _ways("PodGang")),
    "CompositePodGroup": Field(_declares("CompositePodGroup"), _ways("CompositePodGroup")),
    "JobSet": Field(_declares("JobSet"), ("JobSet",)),
    "LeaderWorkerSet": Field(_declares("LeaderWorkerSet"), ("LeaderWorkerSet",)),
    **{
        kind: Field(_declares(kind), (kind,))
        for kind in (
            "RoleBasedGroup",
            "ModelServing",
            "StormService",
            "RoleSet",
            "DynamoGraphDeployment",
            "InferenceService",
        )
    },
    "Job": Field(_declares("Job"), ("Job", "a Job of Volcano")),
    "AppGroup": Field(_app_group, ("",)),
    "spec.minBandwidth": Field(_bandwidth, ("",)),
    "selectors[].cel.expression": Field(_selector, ("",)),
}
