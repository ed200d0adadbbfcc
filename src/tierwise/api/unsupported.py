"""What a pod asks of its placement that this version cannot honour.

A pod that names such a thing waits with the reason `NotSupported`: binding it would ignore a requirement, or start
a part of a gang that is declared in a language which is not read.
`docs/reference/kubernetes-support.md` lists the same fields, and a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.core import ObjectMeta, Pod, PodSpec, PodTemplate, ResourceRequirements
from tierwise.api.limits import HOST_PORTS, too_many_resources
from tierwise.api.quantity import Quantity, ratio, whole

__all__ = [
    "ANNOTATIONS",
    "JOB_PLUGINS",
    "KUEUE_READ",
    "LABELS",
    "NUMA_POLICY",
    "PREFIXES",
    "RESOURCES",
    "SPEC_FIELDS",
    "UNREAD_FIELDS",
    "asks_something",
    "unsupported",
]

JOB_PLUGINS: Final = "tierwise.io/job-plugins"
"""On pods of a Volcano Job, the plugins that it names and that are not provided here."""
UNREAD_FIELDS: Final = "tierwise.io/unread-fields"
"""On pods of a workload, its fields that are not read here and without which they would start as something else."""
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
_QOS: Final = "koordinator.sh/qosClass"
_ASKS_NOTHING: Final = {
    NUMA_POLICY: "none",
    "scheduling.koordinator.sh/numa-topology-spec": "{}",
    "scheduling.koordinator.sh/resource-spec": "{}",
}


def _under(prefix: str, names: str) -> frozenset[str]:
    return frozenset(f"{prefix}{name}" for name in names.split())


_VOLCANO: Final = "scheduling.volcano.sh/group-name"
_READ_INSTEAD: Final = "scheduling.k8s.io/group-name"
_KUEUE: Final = "kueue.x-k8s.io/"
KUEUE_READ: Final = _under(
    _KUEUE,
    "pod-group-name pod-group-total-count pod-group-pod-index pod-group-pod-index-label pod-group-fast-admission "
    "pod-group-serving podset-required-topology podset-preferred-topology podset-unconstrained-topology "
    "podset-slice-required-topology podset-slice-required-topology-constraints podset-slice-size podset-group-name "
    "podset-topology-spreading",
)
_KAI: Final = "kai.scheduler/"
_KAI_GROUP: Final = "pod-group-name"
_KAI_READ: Final = _under(_KAI, "queue subgroup-name top-owner-metadata last-start-timestamp stale-podgroup-timestamp")
_KAI_OF_GROUPS: Final = _under(
    _KAI, "topology topology-required-placement topology-preferred-placement segment-size batch-min-member"
)
"""What KAI's pod grouper has written into the PodGroup that a pod names."""
_BY_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_GROVE: Final = "grove.io/podgang"

_SHARES: Final = "{} would choose the device to share, and tierwise does not"


def _each(reasons: Mapping[str, str]) -> dict[str, str]:
    """The reason for each name, from the names for each reason."""
    return {name: reason for reason, names in reasons.items() for name in names.split()}


SPEC_FIELDS: Final = {
    "hostUsers": "with hostNetwork it needs a feature that nodes declare, and that is not read",
    "restartPolicyRules": "RestartAllContainers needs a feature that nodes declare, and that is not read",
}
"""Fields of a pod's spec that Kubernetes' scheduler looks at, and why a pod with one waits here."""

LABELS: Final = {
    _QOS: "classes LSE and LSR have cpus of their own, and tierwise does not choose them",
    "godel.bytedance.com/pod-group-name": "PodGroups of godel.bytedance.com are not read",
}
"""Labels, and annotations of the same name, that ask for something which is not read."""

ANNOTATIONS: Final = _each(
    {
        "parts of a GPU are not counted": "gpu-fraction gpu-memory",
        "the devices of a node are not chosen here": (
            "nvidia.com/nouse-gputype nvidia.com/nouse-gpuuuid nvidia.com/use-gputype nvidia.com/use-gpuuuid "
            "scheduling.koordinator.sh/device-allocate-hint scheduling.koordinator.sh/device-joint-allocate "
            "scheduling.koordinator.sh/gpu-partition-spec"
        ),
        "cpus and NUMA nodes of a node are not chosen here": (
            f"scheduling.koordinator.sh/numa-topology-spec scheduling.koordinator.sh/resource-spec {NUMA_POLICY}"
        ),
        "Reservations are not read": "scheduling.koordinator.sh/reservation-affinity",
        (
            "its job would start without what these plugins give: Volcano alone provides hcclrank, and ssh and mpi act "
            "where controllers.sshKeys of the chart, or the component job-ssh, lets Secrets be made"
        ): JOB_PLUGINS,
        "these fields of its workload are not read here, and its own controller is needed": UNREAD_FIELDS,
        "task groups of YuniKorn are not read": "yunikorn.apache.org/task-group-name yunikorn.apache.org/task-groups",
        f"a pod names its podGroup by the annotation {_READ_INSTEAD}": _VOLCANO,
        "a pod names its PodGroup by a label of that name": _BY_LABEL,
        "a pod names its PodGang by a label of that name": _GROVE,
    }
)
"""Annotations that ask for something which is not read."""

PREFIXES: Final = {
    "kai.scheduler/": "KAI reads it when it makes the PodGroup of a workload, and there is none",
    "kueue.x-k8s.io/pod-group-": "this mark of Kueue's pod groups is not read",
    "kueue.x-k8s.io/podset-": "this mark of Kueue's pod sets is not read, and Kueue has not chosen a place",
    "volcano.sh/vgpu-": _SHARES.format("Volcano's plugin deviceshare"),
}
"""How labels and annotations begin that ask for something which is not read."""

_BEGINNINGS: Final = tuple(PREFIXES)

RESOURCES: Final = _each(
    {
        _SHARES.format("Volcano's plugin deviceshare"): "volcano.sh/vgpu-* volcano.sh/gpu-* huawei.com/npu-core",
        _SHARES.format("Koordinator's plugin DeviceShare"): "koordinator.sh/*",
        _SHARES.format("HAMi's scheduler"): (
            "nvidia.com/gpumem nvidia.com/gpumem-percentage nvidia.com/gpucores nvidia.com/priority cambricon.com/vmlu "
            "cambricon.com/mlu.smlu.* enflame.com/vgcu* huawei.com/Ascend*-memory hygon.com/dcunum hygon.com/dcumem "
            "hygon.com/dcucores iluvatar.ai/vgpu iluvatar.ai/vcuda-* kunlunxin.com/vxpu* metax-tech.com/sgpu "
            "metax-tech.com/vcore metax-tech.com/vmemory mthreads.com/sgpu-* mthreads.com/vgpu"
        ),
        _SHARES.format("the scheduler extender gpushare"): "aliyun.com/gpu-mem aliyun.com/gpu-core.percentage",
        _SHARES.format("the scheduler extender gpu-admission"): "tencent.com/vcuda-*",
    }
)
"""Resources that are parts of devices, and who would choose the device; `*` means any text.

A kubelet gives out whole devices by itself; of a part, the pod must say which device it is of.
"""


class Unsupported(msgspec.Struct, frozen=True):
    """One thing that a pod names and that cannot be honoured."""

    field: str  # its path: "spec.volumes[0].persistentVolumeClaim"
    why: str

    def __str__(self) -> str:
        return f"{self.field} is not supported: {self.why}"


def unsupported(pod: Pod | PodTemplate) -> Unsupported | None:
    """The first thing that a pod, or a template of pods, names and that cannot be honoured; None where all can."""
    return _in_spec(pod.spec) or _in_marks(pod.metadata)


def _in_spec(spec: PodSpec) -> Unsupported | None:
    if spec.scheduling_group is not None and not spec.scheduling_group.pod_group_name:
        return Unsupported("spec.schedulingGroup", "it names no PodGroup")
    if spec.workload_ref is not None and not (spec.workload_ref.name and spec.workload_ref.pod_group):
        return Unsupported("spec.workloadRef", "it names no group of a Workload")
    if spec.host_network and not spec.host_users:
        return Unsupported("spec.hostUsers", SPEC_FIELDS["hostUsers"])
    unsupported = _in_containers(spec)
    if unsupported is not None:
        return unsupported
    lack = _in_resources(spec.resources) if spec.resources is not None else None
    if lack is not None:
        return Unsupported(f"spec.resources.{lack.field}", lack.why)
    for where, text in too_many_resources(spec):
        return Unsupported(f"spec.{where}", text)
    return _in_ports(spec)


def _in_ports(spec: PodSpec) -> Unsupported | None:
    """More host ports than are counted; None if there are fewer."""
    ports = [port for container in (*spec.containers, *spec.init_containers) for port in container.ports]
    number = sum(bool(port.host_port or spec.host_network) for port in ports)
    if number <= HOST_PORTS:
        return None
    return Unsupported("spec.containers", f"{number} host ports are more than the {HOST_PORTS} that are counted")


def _in_containers(spec: PodSpec) -> Unsupported | None:
    """The first field of a container that is not supported; None if there is none."""
    for part, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
                return Unsupported(f"spec.{part}[{i}].restartPolicyRules", SPEC_FIELDS["restartPolicyRules"])
            lack = _in_resources(container.resources)
            if lack is not None:
                return Unsupported(f"spec.{part}[{i}].resources.{lack.field}", lack.why)
    return None


def _in_resources(resources: ResourceRequirements) -> Unsupported | None:
    for amounts, kind in ((resources.limits, "limits"), (resources.requests, "requests")):
        for name in amounts:
            why = _why_no_resource(name)
            if why and whole(amounts[name]) > 0:
                return Unsupported(f"{kind}.{name}", why)
            if "/" in name and _is_fraction(amounts[name]):
                return Unsupported(f"{kind}.{name}", f"{amounts[name]} is no whole number, and devices are given whole")
    return None


def _is_fraction(quantity: Quantity) -> bool:
    number, denominator = ratio(quantity)
    return number % denominator != 0


def _in_marks(meta: ObjectMeta) -> Unsupported | None:
    for part, marks in (("labels", meta.labels), ("annotations", meta.annotations)):
        for key, value in marks.items():
            why = _why(key, labels=part == "labels") if asks_something(key, value) else ""
            if why and not _says_it_rightly(key, meta):
                return Unsupported(f"metadata.{part}.{key}", why)
    return None


def asks_something(key: str, value: str) -> bool:
    """Whether the value of a mark asks for anything: empty texts and objects, "none", classes that share do not."""
    if key == _QOS:
        return value in ("LSE", "LSR")
    return bool(value) and value != _ASKS_NOTHING.get(key)


def _says_it_rightly(key: str, meta: ObjectMeta) -> bool:
    """Whether what a mark says is also said where it is read."""
    if key == _VOLCANO:
        return bool(meta.annotations.get(_READ_INSTEAD))
    if key.startswith(_KUEUE):
        placed = meta.labels.get(f"{_KUEUE}managed") == "true" or meta.annotations.get(f"{_KUEUE}workload")
        return key in KUEUE_READ or bool(placed)
    if key.startswith(_KAI):
        return key in _KAI_READ or (key in _KAI_OF_GROUPS and bool(meta.annotations.get(_KAI_GROUP)))
    return key in (_BY_LABEL, _GROVE) and bool(meta.labels.get(key))


@lru_cache(maxsize=1 << 12)
def _why_no_resource(name: str) -> str:
    return next((why for pattern, why in RESOURCES.items() if _matches(name, pattern)), "")


def _matches(name: str, pattern: str) -> bool:
    """As fnmatch does for at most one `*`, without a regular expression for each pattern."""
    head, star, tail = pattern.partition("*")
    if not star:
        return name == head
    return name.startswith(head) and name[len(head) :].endswith(tail)


@lru_cache(maxsize=1 << 12)
def _why(key: str, *, labels: bool) -> str:
    text = LABELS.get(key) or ("" if labels else ANNOTATIONS.get(key, ""))
    if text or not key.startswith(_BEGINNINGS):
        return text
    return next(why for prefix, why in PREFIXES.items() if key.startswith(prefix))
