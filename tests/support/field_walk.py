"""Every change that one object can go through, by the type of its record: each field set, changed, removed, restored.

`world` is a small cluster with objects of every kind that a snapshot is read from. `changes` walks the type of a
record, not the fields that an example happens to have: where something is missing it is made up.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace
from tests.support import devices, volumes
from tests.support.koordinator import layers
from tests.support.languages import (
    RACK,
    SPINE,
    composite,
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    near,
    packed,
    plugin_gang,
    pod,
    topology,
    volcano_gang,
)
from tests.support.services import app_group, network

from tierwise.api import codec
from tierwise.api.codec import Object, Raw
from tierwise.api.elastic_quota import CAN_PREEMPT, PREEMPTIBLE, QUOTA_NAME
from tierwise.port import Objects
from tierwise.snapshot.run_history import RUN_HISTORY

__all__ = ["HISTORY_IN", "PARTS", "changes", "world"]

HISTORY_IN: Final = "default"
"""The namespace in which the world has a record of runs."""

_TIMES: Final = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
_AMOUNTS: Final = {"cpu": ("2", "3"), "nvidia.com/gpu": ("1", "2"), "example.com/new": ("1", "0"), "pods": ("9", "7")}
_RULES: Final = ('device.driver == "gpu.example.com"', "true")

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "tierwise.io/fabric": ("ib", "nvlink"),
    CAN_PREEMPT: ("false", "true"),
    "volcano.sh/preemptable": ("false", "true"),
    RACK: ("r0", "r1"),
    SPINE: ("s0", "s1"),
    "app": ("a", "b"),
    "new-key": ("x", "y"),
    "scheduling.x-k8s.io/pod-group": ("plugin", "other"),
    "pod-group.scheduling.sigs.k8s.io": ("koord", "other"),
    "appgroup.diktyo.x-k8s.io": ("shop", "bank"),
    "appgroup.diktyo.x-k8s.io.workload": ("p1", "p2"),
    "grove.io/podgang": ("grove", "other"),
    "grove.io/podclique": ("a", "b"),
    "kai.scheduler/subgroup-name": ("a", "b"),
    "kai.scheduler/queue": ("team", "q"),
    "kueue.x-k8s.io/pod-group-name": ("kueue", "other"),
    "kueue.x-k8s.io/queue-name": ("team", "q"),
    "volcano.sh/queue-name": ("q", "default"),
    "scheduling.koordinator.sh/questioned-object-key": ("default/x", "default/y"),
    "topology.kubernetes.io/zone": ("z0", "z1"),
    "nvidia.com/gpu.clique": ("c0", "c1"),
    "quota.scheduling.koordinator.sh/is-parent": ("true", "false"),
    "quota.scheduling.koordinator.sh/parent": ("default", "q"),
    QUOTA_NAME: ("q", "default"),
    PREEMPTIBLE: ("false", "true"),
}
_GANG: Final = "gang.scheduling.koordinator.sh/"
_NEAR: Final = '{"gatherStrategy":[{"layer":"block","strategy":"MustGather"}]}'
_ANNOTATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "tierwise.io/fabric": ("ib", "nvlink"),
    "tierwise.io/pattern": ("ring", "none-such"),
    "scheduling.k8s.io/group-name": ("volcano", "other"),
    "volcano.sh/task-spec": ("w", "ps"),
    "volcano.sh/task-index": ("1", "2"),
    "volcano.sh/preemptable": ("false", "true"),
    "scheduling.volcano.sh/queue-name": ("q", "default"),
    "pod-group-name": ("kai", "other"),
    f"{_GANG}name": ("koord", "loose"),
    f"{_GANG}min-available": ("2", "1"),
    f"{_GANG}mode": ("NonStrict", "Strict"),
    f"{_GANG}groups": ('["default/koord","default/other"]', "[]"),
    f"{_GANG}network-topology-spec": (_NEAR, "{"),
    "scheduling.koordinator.sh/network-topology-selector": ("near", "far"),
    "tierwise.io/rank": ("1", "first"),
    "tierwise.io/ranks": ("4", "3"),
    "tierwise.io/hypernode": ("r0", "r1"),
    "tierwise.io/sub-groups": ('{"volcano/s":"r0"}', "{}"),
    "tierwise.io/topology-ladder": ("rack for 5m", "x"),
    "tierwise.io/sizes": ("1,2", "x"),
    "tierwise.io/expected-duration": ("5m", "6m"),
    "tierwise.io/expected-start": _TIMES,
    "tierwise.io/checkpointed-at": _TIMES,
    "tierwise.io/restart-cost": ("5m", "x"),
    "tierwise.io/minimum-run-time": ("5m", "x"),
    "tierwise.io/on-node-loss": ("replace", "x"),
    "tierwise.io/spares": ("1", "x"),
    "tierwise.io/reservation": (f"{_TIMES[0]}/1h", "x"),
    "tierwise.io/topology-constraints": ('[{"fabric":"ib","tier":1}]', "["),
    "tierwise.io/observed-revision": ("1", "2"),
    "kueue.x-k8s.io/podset-required-topology": (RACK, SPINE),
    "kueue.x-k8s.io/pod-group-total-count": ("2", "1"),
    "kueue.x-k8s.io/workload": ("kueue", "other"),
    "volume.kubernetes.io/selected-node": ("n0", "n1"),
    "tierwise.io/selected-node": ("n0", "n1"),
    "pv.kubernetes.io/bind-completed": ("yes", "no"),
    "pv.kubernetes.io/bound-by-controller": ("yes", "no"),
    "storage.alpha.kubernetes.io/migrated-plugins": ("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"),
    "resource.kubernetes.io/extended-resource-claim": ("true", "false"),
}

_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "PodSpec.scheduler_name": ("else", "volcano"),
    "PodStatus.phase": ("Succeeded", "Running"),
    "PodGroupStatus.phase": ("Pending", "Inqueue"),
    "PersistentVolumeStatus.phase": ("Available", "Bound"),
    "PersistentVolumeClaimStatus.phase": ("Pending", "Bound"),
    "Condition.type": ("Ready", "EvictionNotice", "Broken"),
    "Condition.status": ("True", "False"),
    "Toleration.operator": ("Exists", "Equal"),
    "Taint.key": ("gpu", "old"),
    "Toleration.key": ("gpu", "old"),
    "NodeSelectorTerm.match_fields.key": ("metadata.name",),
    "DeviceAllocationResult.pool": ("n0", "n1"),
    "ResourcePool.name": ("n0", "n1"),
    "MemberSpec.type": ("Node", "HyperNode"),
    "ExactMatch.name": ("n0", "n1"),
    "RegexMatch.pattern": ("n[01]", "n2"),
    "CsiNodeDriver.name": ("csi.test", "else"),
    "ConsumerReference.name": ("claiming", "claiming-on"),
    "TemplateReference.name": ("channel", "other"),
    "StorageClass.volume_binding_mode": ("Immediate", "WaitForFirstConsumer"),
    "QueueSpec.preempt_min_runtime": ("5m", "1h"),
    "QueueSpec.reclaim_min_runtime": ("5m", "1h"),
    "PodGroupSpec.preemptibility": ("non-preemptible", "preemptible"),
    "GatherRule.strategy": ("MustGather", "PreferGather"),
    "TopologyConstraint.topology": ("net", "other"),
    "PodGroupSpec.disruption_mode": ("PodGroup", "Pod"),
}
"""By type and field, what is tried; then by field alone, then by the kind of value."""

_BY_FIELD: Final[Mapping[str, tuple[Any, ...]]] = {
    "key": (RACK, "app"),
    "operator": ("In", "NotIn"),
    "values": (("r0",), ("r1", "a")),
    "effect": ("NoSchedule", "NoExecute"),
    "node_name": ("n1", "n9"),
    "nominated_node_name": ("n1", "n9"),
    "topology_key": (RACK, SPINE),
    "label_key": (RACK, SPINE),
    "node_label": (RACK, SPINE),
    "required": (RACK, SPINE),
    "preferred": (RACK, SPINE),
    "required_topology_level": (RACK, SPINE),
    "preferred_topology_level": (RACK, SPINE),
    "claim_name": ("data", "other"),
    "volume_name": ("pv", "other"),
    "resource_claim_name": ("gpus", "held"),
    "resource_claim_template_name": ("channel", "other"),
    "device_class_name": ("gpu.example.com", "big"),
    "storage_class_name": ("fast", "slow"),
    "priority_class_name": ("high", "low"),
    "queue": ("q", "team"),
    "queue_name": ("q", "team"),
    "cluster_queue": ("q", "team"),
    "parent_queue": ("q", "other"),
    "pod_group_name": ("kubernetes", "other"),
    "parent_composite_pod_group_name": ("whole", "other"),
    "driver": ("gpu.example.com", "else"),
    "attacher": ("csi.test", "else"),
    "provisioner": ("csi.test", "kubernetes.io/no-provisioner"),
    "persistent_volume_name": ("pv", "other"),
    "device": ("d0", "d1"),
    "expression": _RULES,
    "match_attribute": ("gpu.example.com/big", "gpu.example.com/x"),
    "distinct_attribute": ("gpu.example.com/big", "gpu.example.com/x"),
    "extended_resource_name": ("nvidia.com/gpu", "example.com/other"),
    "preemption_policy": ("Never", "PreemptLowerPriority"),
    "restart_policy": ("Always", "Never"),
    "when_unsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "allocation_mode": ("All", "ExactCount"),
    "access_modes": (("ReadWriteOncePod",), ("ReadWriteOnce", "ReadOnlyMany")),
    "mode": ("soft", "hard"),
    "parent": ("q", "a"),
    "level": (RACK,),
    "selector": ("p1", "p2"),
    "resource": ("pods",),
    "uid": ("u1", "u2"),
    "min_available": (1, "50%"),
    "max_unavailable": (1, "50%"),
}
_SKIPPED: Final = frozenset({"ObjectMeta.name", "ObjectMeta.namespace"})
"""Another name is another object."""


def changes(record: Object) -> Iterator[tuple[str, list[Object]]]:
    """By path of a field, the record with other values there, one after the other, and as it was in the end."""
    for path, values in _others(type(record), record, type(record).__name__):
        different = [value for value in values if value is not record]
        yield path.removeprefix("."), [*different, record]


def _others(kind: Any, value: Any, name: str) -> Iterator[tuple[str, list[Any]]]:
    """Values that are other than this one in one place, by that place."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType) and float in arguments:  # an amount
        yield "", ["1", "2", value]
    elif origin in (Union, types.UnionType):
        given = [one for one in arguments if one is not type(None)]
        chosen = next((one for one in given if _is_struct(one)), given[0])
        if type(None) in arguments and value is not None:
            yield "", [None]
        fitting = (
            value
            if value is not None and (not _is_struct(chosen) or isinstance(value, chosen))
            else _full(chosen, name)
        )
        if value is None:
            yield "", [fitting, None]
        for path, found in _others(chosen, fitting, name):
            yield path, [*found, value]
    elif _is_struct(kind):
        for field in msgspec.structs.fields(kind):
            if f"{kind.__name__}.{field.name}" not in _SKIPPED:
                for path, found in _others(field.type, getattr(value, field.name), f"{kind.__name__}.{field.name}"):
                    yield f".{field.name}{path}", [replace(value, **{field.name: other}) for other in found]
    elif origin is tuple:
        yield from _other_tuples(arguments[0], value if isinstance(value, tuple) else (), name)
    elif origin is dict:
        yield from _other_dicts(arguments[1], value, name)
    elif kind is not object:
        yield "", [*_leaves(kind, value, name), value]


def _other_tuples(kind: Any, value: tuple[Any, ...], name: str) -> Iterator[tuple[str, list[Any]]]:
    if not _is_struct(kind):
        whole = _BY_FIELD.get(name.rpartition(".")[2])
        tuples = (
            whole
            if whole is not None and isinstance(whole[0], tuple)
            else [(one,) for one in _leaves(kind, None, name)]
        )
        yield "", [*tuples, (), value]
        return
    first = value[0] if value else _full(kind, name)
    yield "", [(), (*value, _full(kind, name)), value[::-1], value]
    for path, found in _others(kind, first, name):
        yield f"[0]{path}", [(one, *value[1:]) for one in found] + [value]


def _other_dicts(kind: Any, value: Mapping[str, Any], name: str) -> Iterator[tuple[str, list[Any]]]:
    if kind is object:
        return
    yield "", [{}, dict(reversed([*value.items()])), value]
    owner, _, field = name.rpartition(".")
    known: Mapping[str, tuple[Any, ...]] = {"x": tuple(_leaves(kind, None, name))} if not _is_struct(kind) else {}
    if field in ("match_labels", "node_labels", "node_selector"):
        known = {key: _LABELS[key] for key in (RACK, "app", "new-key")}
    elif field == "labels":
        known = _LABELS
    elif field == "annotations":
        known = _ANNOTATIONS
    elif (
        "Quantity" in str(kind)
        or kind == int | float | str
        or field in ("requests", "limits", "min", "max", "hard", "used")
    ):
        known = _AMOUNTS
    elif _is_struct(kind):
        known = {"x": (_full(kind, owner),)}
    for key, entries in known.items():
        without = {k: v for k, v in value.items() if k != key}
        yield f"[{key}]", [*({**value, key: one} for one in entries), without, value]
    for key, one in value.items() if _is_struct(kind) else ():
        for path, found in _others(kind, one, name):
            yield f"[{key}]{path}", [{**value, key: other} for other in found] + [value]


def _leaves(kind: Any, value: Any, name: str) -> tuple[Any, ...]:
    """What a field is tried with."""
    field = name.rpartition(".")[2]
    given = _VALUES.get(name) or _BY_FIELD.get(field)
    if given is not None and not isinstance(given[0], tuple):
        return given
    if field.endswith(("_at", "_time", "timestamp")) or field == "time_added":
        return _TIMES
    if kind is bool:
        return (not value,)
    if kind is int or "Annotated" in str(kind):
        return (1, 2, 0)
    if kind is float:
        return (1.0, 2.0)
    if kind is str:
        return ("x", "y")
    return ("1", "2") if get_args(kind) else ()


def _full(kind: Any, name: str, depth: int = 0) -> Any:
    """A value with all its fields set, as far as they go."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType) and float in arguments:
        return "1"
    if origin in (Union, types.UnionType):
        given = [one for one in arguments if one is not type(None)]
        chosen = next((one for one in given if _is_struct(one)), given[0])
        return _full(chosen, name, depth) if depth < 8 else None
    if _is_struct(kind):
        fields = msgspec.structs.fields(kind)
        made = {f.name: _full(f.type, f"{kind.__name__}.{f.name}", depth + 1) for f in fields if f.type is not object}
        return kind(**{field: one for field, one in made.items() if one is not None})
    if origin is tuple:
        whole = _BY_FIELD.get(name.rpartition(".")[2])
        if whole is not None and isinstance(whole[0], tuple):
            return whole[0]
        one = _full(arguments[0], name, depth)
        return () if one is None else (one,)
    if origin is dict:
        return _some_entries(arguments[1], name)
    leaves = _leaves(kind, False, name) if kind is not object else ()
    return leaves[0] if leaves else None


def _some_entries(kind: Any, name: str) -> dict[str, Any]:
    field = name.rpartition(".")[2]
    if field in ("match_labels", "labels", "node_labels", "node_selector"):
        return {"app": "a"}
    if field == "annotations" or kind is object:
        return {}
    if _is_struct(kind):
        return {"x": _full(kind, name)}
    return {"cpu": "1"} if kind is not int else {"w": 1}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def world(part: str) -> Objects:
    """A small cluster with objects of every kind that a snapshot is read from, as far as they belong to a part."""
    raws = [*_nodes(), *PARTS[part]()]
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def _object(
    version: str, kind: str, name: str, namespace: str = "default", meta: Raw | None = None, **body: Any
) -> Raw:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **(meta or {})},
        **body,
    }


def _nodes() -> list[Raw]:
    found = []
    for i in range(3):
        labels = {SPINE: f"s{i // 2}", RACK: f"r{i // 2}", "topology.kubernetes.io/zone": f"z{i // 2}"}
        status: Raw = {
            "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "capacity": {"cpu": "9", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Broken", "status": "False"}],
            "images": [{"names": ["trainer"], "sizeBytes": 10}],
        }
        spec: Raw = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]} if i == 2 else {}
        found.append(_object("v1", "Node", f"n{i}", "", {"labels": labels}, spec=spec, status=status))
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: "r0"}}}}]
    of_fabric: Raw = {"annotations": {"tierwise.io/fabric": "ib"}}
    exact = [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]
    found += [
        _object("topology.volcano.sh/v1alpha1", "HyperNode", "rack", "", spec={"tier": 1, "members": members}),
        _object("topology.volcano.sh/v1alpha1", "HyperNode", "ib", "", of_fabric, spec={"tier": 1, "members": exact}),
    ]
    return found


def _gangs() -> list[Raw]:
    """A gang in each language."""
    marks = {f"{_GANG}name": "loose", f"{_GANG}min-available": "1"}
    of_spine = {"topologyName": "net", "nodeLabels": {SPINE: "s0"}}
    kueue = "kueue.x-k8s.io/v1beta2"
    counted = [{"name": "w", "policy": {"gang": {"minCount": 1}}}]
    return [
        *volcano_gang("volcano", 2, on={1: "n1"}),
        *plugin_gang("plugin", 2, on={0: "n0"}),
        *kubernetes_gang("kubernetes", 2, key=RACK, parentCompositePodGroupName="whole"),
        composite("whole", 1, key=SPINE),
        *kai_gang("kai", {"a": 1, "b": 1}, subGroups=[{"name": "a", "minMember": 1}], topologyConstraint=near(RACK)),
        *grove_gang("grove", {"a": 1}, topologyConstraint=packed(RACK)),
        *kueue_gang("kueue", 2, required_topology=RACK),
        _object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "koord", spec={"minMember": 1}),
        pod("koord-0", labels={"pod-group.scheduling.sigs.k8s.io": "koord"}),
        pod("loose-0", annotations=marks),
        pod("drawn", annotations={"scheduling.koordinator.sh/network-topology-selector": "near"}),
        layers("block"),
        topology(),
        topology(of=kueue),
        _object(kueue, "ResourceFlavor", "flavor", "", spec=of_spine),
        _object(kueue, "LocalQueue", "team", spec={"clusterQueue": "q"}),
        _object(kueue, "ClusterQueue", "q", ""),
        _object(kueue, "Workload", "kueue", spec={"podSets": [{"name": "main", "count": 2}]}),
        _object("scheduling.k8s.io/v1alpha1", "Workload", "w", spec={"podGroups": counted}),
    ]


def _plain_pods() -> list[Raw]:
    """Pods of no gang: running, leaving, with rules, of another scheduler, of an application."""
    term = {
        "topologyKey": RACK,
        "labelSelector": {"matchLabels": {"app": "a"}},
        "namespaceSelector": {"matchLabels": {"app": "a"}},
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r0"]}]}]}
    ruled: Raw = {
        "affinity": {
            "podAntiAffinity": rule,
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        },
        "nodeSelector": {RACK: "r0"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "high",
    }
    shop = {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": "p1"}
    return [
        pod("runs", on="n0", labels={"app": "a"}),
        pod("leaves", on="n1", labels={"app": "b"}, deletionTimestamp=_TIMES[1]),
        pod("waits", labels={"app": "a", "new-key": "x"}),
        pod("ruled", spec=ruled, labels={"app": "b"}),
        pod("bound", on="n0", spec=ruled, labels={"app": "b"}),
        pod("other", on="n2", spec={"schedulerName": "else"}),
        pod("served", labels=shop),
    ]


def _settings() -> list[Raw]:
    channel = {"resourceClaimTemplate": {"name": "channel"}}
    run = '["default/volcano","default",1,60.0,1.0,0.0]\n'
    selector = {"matchLabels": {"app": "a"}}
    return [
        _object("v1", "Namespace", "default", "", {"labels": {"app": "a"}}),
        _object("scheduling.k8s.io/v1", "PriorityClass", "high", "", value=10),
        _object("scheduling.k8s.io/v1", "PriorityClass", "low", "", value=1),
        _object("scheduling.volcano.sh/v1beta1", "Queue", "q", "", spec={"weight": 1}),
        _object("scheduling.run.ai/v2", "Queue", "team", "", spec={"parentQueue": "q"}),
        _object("policy/v1", "PodDisruptionBudget", "budget", spec={"minAvailable": 1, "selector": selector}),
        _object(
            "v1", "ResourceQuota", "quota", spec={"hard": {"cpu": "20", "pods": "30"}}, status={"used": {"cpu": "2"}}
        ),
        _object("resource.nvidia.com/v1beta1", "ComputeDomain", "domain", spec={"numNodes": 2, "channel": channel}),
        _object("v1", "ConfigMap", RUN_HISTORY, HISTORY_IN, data={"runs": run}),
        app_group([("p1", "p2", {"maxNetworkCost": 10})]),
        network({"z0>z1": {"networkCost": 5}}),
    ]


def _devices() -> list[Raw]:
    held = {"request": "gpu", "driver": devices.DRIVER, "pool": "n0", "device": "d0"}
    users = [{"resource": "pods", "name": "claiming-on", "uid": "uid-claiming-on"}]
    status: Raw = {"allocation": {"devices": {"results": [held]}}, "reservedFor": users}
    return [
        *(
            devices.resource_slice(f"n{i}", [devices.device("d0", big=True), devices.device("d1", big=False)])
            for i in (0, 1)
        ),
        devices.device_class(),
        devices.device_class("big", f'device.attributes["{devices.DRIVER}"].big'),
        devices.claim("gpus", devices.exactly(1)),
        devices.claim("held", devices.exactly(1), status=status),
        devices.pod("claiming", "gpus"),
        devices.pod("claiming-on", "held", on="n0"),
        devices.pod("joining", of="channel"),
    ]


def _volumes() -> list[Raw]:
    return [
        volumes.storage_class(),
        volumes.claim("data", to="pv"),
        volumes.claim("new"),
        volumes.volume(
            "pv", of="data", affinity=volumes.within(RACK, "r0"), csi={"driver": "csi.test", "volumeHandle": "h"}
        ),
        volumes.volume("free"),
        volumes.csi_node("n0", csi_test=2),
        volumes.driver(storageCapacity=True),
        volumes.capacity("room", capacity="10Gi"),
        volumes.attachment("attached", "pv", "n0"),
        volumes.pod("stored", "data", on="n0"),
        volumes.pod("storing", "data", "new"),
    ]


PARTS: Final[Mapping[str, Callable[[], list[Raw]]]] = {
    "pods": lambda: [*_plain_pods(), *_settings()],
    "gangs": _gangs,
    "devices": _devices,
    "volumes": _volumes,
}
