"""Write src/tierwise/apiserver/kubernetes_types.txt: the messages of Kubernetes' own kinds, by type and field.

    tools/kubernetes_types.py K8S.IO/API K8S.IO/APIMACHINERY > src/tierwise/apiserver/kubernetes_types.txt

Takes the folders of the two Go modules. A field is `name=number:type`, where a type is a scalar, a message, `[]` of one
or `{}` of one for a map of texts; `~` marks fields that JSON leaves out when they are zero, `^` messages whose fields
JSON shows in place of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_API = ("core/v1", "apps/v1", "batch/v1", "policy/v1", "scheduling/v1", "storage/v1", "resource/v1", "networking/v1")
_API += ("coordination/v1", "events/v1", "autoscaling/v1", "autoscaling/v2", "discovery/v1", "rbac/v1")
_META = "pkg/apis/meta/v1"
_SCALARS = {"string", "bool", "int32", "int64", "bytes", "double"}
_ROOTS = {
    "core": "Pod Node Namespace ConfigMap Service ResourceQuota PersistentVolume PersistentVolumeClaim Secret "
    "ServiceAccount Event Binding ReplicationController Endpoints LimitRange",
    "apps": "Deployment ReplicaSet StatefulSet DaemonSet",
    "batch": "Job CronJob",
    "policy": "PodDisruptionBudget Eviction",
    "scheduling": "PriorityClass",
    "storage": "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment",
    "resource": "ResourceClaim ResourceClaimTemplate DeviceClass ResourceSlice",
    "networking": "NetworkPolicy Ingress",
    "coordination": "Lease",
    "events": "Event",
    "autoscaling": "HorizontalPodAutoscaler Scale",
    "discovery": "EndpointSlice",
    "rbac": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "meta": "DeleteOptions",
}
_GROUPS = {
    "core": "",
    "storage": "storage.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "resource": "resource.k8s.io",
    "networking": "networking.k8s.io",
    "coordination": "coordination.k8s.io",
    "events": "events.k8s.io",
    "discovery": "discovery.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
}
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]*) (\w+) = (\d+);$", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r'^\t(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"[^`]*protobuf:"[^"]*name=(\w+)')
_SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "raw",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "raw",
}


def main(api: str, machinery: str) -> None:
    """Read both modules, and print what the roots need."""
    messages: dict[str, dict[str, str]] = {}
    for folder in (*(Path(api, part) for part in _API), Path(machinery, _META)):
        package = "meta" if folder.as_posix().endswith(_META) else folder.parent.name
        marks = _marks(folder)
        for name, body in _MESSAGE.findall((folder / "generated.proto").read_text()):
            messages[f"{package}.{name}"] = {
                field: f"{number}:{_type(package, how, of_map, kind)}{marks.get((name, field), '')}"
                for how, of_map, kind, field, number in _FIELD.findall(body)
            }
    waiting = [f"{package}.{name}" for package, names in _ROOTS.items() for name in names.split()]
    for root in waiting:
        package, _, name = root.partition(".")
        group = _GROUPS.get(package, package)
        print(f"{group}/{name} {root}" if package != "meta" else f"meta/{name} {root}")
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed and name in messages:
            needed.add(name)
            waiting += [re.sub(r"^\d+:(\[\]|\{\})?|[~^]$", "", told) for told in messages[name].values()]
    for name in sorted(needed):
        print(f"{name}: {' '.join(f'{field}={told}' for field, told in messages[name].items())}")


def _type(package: str, how: str, of_map: str, kind: str) -> str:
    prefix = "[]" if how == "repeated" else "{}" if of_map else ""
    inner = of_map or kind
    if inner in _SCALARS:
        return prefix + inner
    inner = inner.removeprefix(".")
    if inner in _SPECIAL:
        return prefix + _SPECIAL[inner]
    if "." not in inner:
        full = f"k8s.io.apimachinery.pkg.apis.meta.v1.{inner}"
        return prefix + (_SPECIAL[full] if package == "meta" and full in _SPECIAL else f"{package}.{inner}")
    if inner.startswith("k8s.io.apimachinery.pkg.apis.meta.v1."):
        return f"{prefix}meta.{inner.rpartition('.')[2]}"
    parts = inner.split(".")  # k8s.io.api.core.v1.Container
    return f"{prefix}{parts[-3]}.{parts[-1]}"


def _marks(folder: Path) -> dict[tuple[str, str], str]:
    """By message and field: whether JSON leaves it out when zero, or has its fields in its place."""
    found: dict[tuple[str, str], str] = {}
    for file in folder.glob("*types.go"):
        for struct, body in _STRUCT.findall(file.read_text()):
            for line in body.splitlines():
                tag = _TAG.match(line)
                if tag is None:
                    continue
                _, kind, json, field = tag.groups()
                if ",inline" in json:
                    found[struct, field] = "^"
                elif not kind.startswith("*") and "omitempty" in json:
                    found[struct, field] = "~"
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
