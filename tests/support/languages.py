"""The same cluster and the same gang in every language that is read, short enough for a test to show them whole.

world = nodes({"s0": {"r0": "n0 n1", "r1": "n2"}}, cpu=2)
bound, why = run(world, plugin_gang("g", 3))
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.koordinator import objects_of, run

from tierwise.api.codec import Raw

__all__ = [
    "RACK",
    "SPINE",
    "composite",
    "grouped_pods",
    "grove_gang",
    "kai_gang",
    "kubernetes_gang",
    "kueue_gang",
    "label_pods",
    "near",
    "nodes",
    "objects_of",
    "packed",
    "plugin_gang",
    "pod",
    "run",
    "topology",
    "volcano_gang",
]

SPINE, RACK = "example.com/spine", "example.com/rack"


def nodes(tree: Mapping[str, Mapping[str, str]], *, cpu: int = 1) -> list[Raw]:
    """Spines of racks of nodes, told by labels alone."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, SPINE: spine, RACK: rack}},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
        }
        for spine, racks in tree.items()
        for rack, names in racks.items()
        for name in names.split()
    ]


def pod(name: str, *, on: str = "", phase: str = "", cpu: int = 1, spec: Raw | None = None, **meta: object) -> Raw:
    """A pod with these marks; `on` is the node where it stands."""
    body: Raw = {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}], **(spec or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {**body, **({"nodeName": on} if on else {})},
        "status": {"phase": phase or "Running"} if on else {},
    }


def volcano_gang(name: str, pods: int, *, least: int | None = None, on: Mapping[int, str] | None = None) -> list[Raw]:
    """A gang in Volcano's words."""
    group: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": pods if least is None else least},
    }
    marks = {"scheduling.k8s.io/group-name": name}
    return [group, *(pod(f"{name}-{i}", on=(on or {}).get(i, ""), annotations=dict(marks)) for i in range(pods))]


def label_pods(name: str, pods: int, label: str, on: Mapping[int, str] | None = None) -> list[Raw]:
    """Pods that name their group by a label."""
    return [pod(f"{name}-{i}", on=(on or {}).get(i, ""), labels={label: name}) for i in range(pods)]


def kubernetes_gang(
    name: str,
    pods: int,
    *,
    least: int | None = None,
    key: str = "",
    on: Mapping[int, str] | None = None,
    version: str = "v1beta1",
    status: Raw | None = None,
    **spec: object,
) -> list[Raw]:
    """A gang of Kubernetes' own: a PodGroup and its pods."""
    body: Raw = {"schedulingPolicy": {"gang": {"minCount": pods if least is None else least}}, **spec}
    if key:
        body["schedulingConstraints"] = {"topology": [{"key": key}]}
    group: Raw = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": body,
        "status": status or {},
    }
    return [group, *grouped_pods(name, pods, on)]


def grouped_pods(name: str, pods: int, on: Mapping[int, str] | None = None, **spec: object) -> list[Raw]:
    """Pods of a PodGroup of Kubernetes' own."""
    named: Raw = {"schedulingGroup": {"podGroupName": name}, **spec}
    return [pod(f"{name}-{i}", on=(on or {}).get(i, ""), spec=named) for i in range(pods)]


def composite(name: str, least: int, *, key: str = "", parent: str = "", **spec: object) -> Raw:
    """A CompositePodGroup that needs so many of its groups."""
    body: Raw = {
        "workloadRef": {"workloadName": "w", "templateName": name},
        "schedulingPolicy": {"gang": {"minGroupCount": least}},
        **spec,
    }
    if key:
        body["schedulingConstraints"] = {"topology": [{"key": key}]}
    if parent:
        body["parentCompositePodGroupName"] = parent
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": body,
    }


def plugin_gang(
    name: str, pods: int, *, least: int | None = None, on: Mapping[int, str] | None = None, phase: str = ""
) -> list[Raw]:
    """A gang of scheduling.x-k8s.io."""
    group: Raw = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": pods if least is None else least},
        "status": {"phase": phase},
    }
    return [group, *label_pods(name, pods, "scheduling.x-k8s.io/pod-group", on)]


def topology(name: str = "net", *, of: str = "kai.scheduler/v1alpha1", levels: tuple[str, ...] = (SPINE, RACK)) -> Raw:
    """A Topology of KAI's or Kueue's with these levels, outermost first."""
    return {
        "apiVersion": of,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in levels]},
    }


def near(required: str = "", preferred: str = "", name: str = "net") -> Raw:
    """KAI's topology constraint."""
    found: Raw = {"topology": name}
    found |= {"requiredTopologyLevel": required} if required else {}
    return found | ({"preferredTopologyLevel": preferred} if preferred else {})


def kai_gang(
    name: str,
    pods: int | Mapping[str, int],
    *,
    least: int | None = None,
    on: Mapping[str, str] | None = None,
    labels: Raw | None = None,
    **spec: object,
) -> list[Raw]:
    """A gang of KAI's; `pods` may say how many pods each sub-group has."""
    sizes = {"": pods} if isinstance(pods, int) else pods
    body: Raw = {"minMember": sum(sizes.values()) if least is None else least, **spec}
    group: Raw = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": body,
    }
    found = [group]
    for sub, number in sizes.items():
        marks = {"kai.scheduler/subgroup-name": sub} if sub else {}
        names = [f"{name}-{sub}-{i}" if sub else f"{name}-{i}" for i in range(number)]
        found += (pod(n, on=(on or {}).get(n, ""), labels=marks, annotations={"pod-group-name": name}) for n in names)
    return found


def kueue_gang(
    name: str,
    pods: int,
    *,
    total: int | None = None,
    on: Mapping[int, str] | None = None,
    spec: Raw | None = None,
    managed: bool = False,
    **asked: object,
) -> list[Raw]:
    """A pod group of Kueue's; `asked` are podset annotations, `required_topology=RACK`."""
    marks = {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": str(value) for key, value in asked.items()}
    marks["kueue.x-k8s.io/pod-group-total-count"] = str(pods if total is None else total)
    labels = {"kueue.x-k8s.io/pod-group-name": name, "kueue.x-k8s.io/queue-name": "team"}
    labels |= {"kueue.x-k8s.io/managed": "true"} if managed else {}
    found = []
    for i in range(pods):
        own = {**labels, "kueue.x-k8s.io/pod-group-pod-index": str(i)}
        found.append(pod(f"{name}-{i}", on=(on or {}).get(i, ""), spec=spec, labels=own, annotations=marks))
    return found


def grove_gang(
    name: str, sizes: Mapping[str, int], *, on: Mapping[str, str] | None = None, **spec: object
) -> list[Raw]:
    """A PodGang of Grove's, with so many pods of each PodClique; `keys` says what each of them requires."""
    keys = spec.pop("keys", {})
    assert isinstance(keys, dict)
    groups: list[Raw] = [
        {
            "name": clique,
            "minReplicas": number,
            **({"topologyConstraint": packed(keys[clique])} if clique in keys else {}),
        }
        for clique, number in sizes.items()
    ]
    gang: Raw = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name},
        "spec": {"podgroups": groups, **spec},
    }
    found = [gang]
    for clique, number in sizes.items():
        labels = {"grove.io/podgang": name, "grove.io/podclique": clique}
        names = [f"{name}-{clique}-{i}" for i in range(number)]
        found += (pod(n, on=(on or {}).get(n, ""), labels=labels) for n in names)
    return found


def packed(required: str = "", preferred: str = "") -> Raw:
    """Grove's topology constraint."""
    found = {"required": required} if required else {}
    return {"packConstraint": {**found, **({"preferred": preferred} if preferred else {})}}
