"""The addresses behind services, as Kubernetes' controllers list them: Endpoints and EndpointSlices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import LabelSelector, Pod, Service
from tierwise.api.errors import InputError
from tierwise.api.selector import matches
from tierwise.dialects.workloads.children import digest
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Create, Delete, Effect, Key, Objects, Update, key_of
from tierwise.sim.cluster.kubelet import is_ready

__all__ = ["check_service", "endpoints"]

_SLICE: Final = 100
"""Addresses of an EndpointSlice at most."""
_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"
_SLICES: Final = "endpointslice-controller.k8s.io"
_ENDED: Final = ("Succeeded", "Failed")


def _of_service(objects: Objects, service: Service) -> dict[Key, Raw]:
    """Endpoints and EndpointSlices of a service; none if it selects no pods or cannot be read."""
    key = key_of(service)
    try:
        selected, ports = check_service(objects.raw(key) or {})
    except InputError:
        return {}  # a file may have what an API server refuses
    if not selected.match_labels:
        return {}
    pods: list[Pod] = []
    for pod in objects.every(Pod).values():
        same_namespace = (pod.metadata.namespace or "default") == (key.namespace or "default")
        is_selected = same_namespace and matches(selected, pod.metadata.labels) and pod.status.phase not in _ENDED
        if is_selected and _address(objects, pod):
            pods.append(pod)
    return dict(_listed(objects, service, ports, pods))


def endpoints(objects: Objects) -> Iterator[Effect]:
    """The addresses behind every service that selects pods, as Endpoints and as EndpointSlices."""
    manifests: dict[Key, Raw] = {}
    for service in objects.every(Service).values():
        manifests |= _of_service(objects, service)
    for key, raw in manifests.items():
        present = objects.raw(key)
        if present is None:
            yield Create(raw)
        elif any(present.get(field) != value for field, value in raw.items() if field != "metadata"):
            yield Update(key, {**present, **{field: value for field, value in raw.items() if field != "metadata"}})
    for path in objects.of_kind("discovery.k8s.io", "EndpointSlice"):
        key = Key("discovery.k8s.io", "EndpointSlice", *path.rpartition("/")[::2])
        labels = Fields(objects.raw(key) or {}).at("metadata").texts("labels")
        if key not in manifests and labels.get(_MANAGED) == _SLICES:
            yield Delete(key)


def check_service(raw: Raw) -> tuple[LabelSelector, list[Fields]]:
    """Which pods a service is for, and its ports; InputError where it cannot be read."""
    spec = Fields(raw).at("spec")
    ports = list(spec.each("ports"))
    for entry in ports:
        entry.number("port", 0)
        entry.text("name")
        entry.text("protocol")
    return LabelSelector(match_labels=spec.texts("selector")), ports


def _address(objects: Objects, pod: Pod) -> str:
    return Fields(objects.raw(key_of(pod)) or {}).at("status").text("podIP")


def _listed(
    objects: Objects, service: Service, service_ports: Sequence[Fields], pods: Sequence[Pod]
) -> Iterator[tuple[Key, Raw]]:
    """The objects that list the pods of a service."""
    meta = service.metadata
    namespace = meta.namespace or "default"
    named = {"kubernetes.io/service-name": meta.name}
    owner = {"apiVersion": "v1", "kind": "Service", "name": meta.name, "uid": meta.uid, "controller": True}
    ports = [_port(entry, pods) for entry in service_ports]
    entries: list[Raw] = []
    for pod in pods:
        ready = is_ready(pod)
        leaving = bool(pod.metadata.deletion_timestamp)
        entries.append(
            {
                "addresses": [_address(objects, pod)],
                "conditions": {"ready": ready and not leaving, "serving": ready, "terminating": leaving},
                "nodeName": pod.spec.node_name,
                "targetRef": {
                    "kind": "Pod",
                    "namespace": namespace,
                    "name": pod.metadata.name,
                    "uid": pod.metadata.uid,
                },
            }
        )
    for number in range(max(math.ceil(len(entries) / _SLICE), 1)):
        name = f"{meta.name}-{digest([meta.name, number], 5)}"
        about = {
            "name": name,
            "namespace": namespace,
            "labels": {**named, _MANAGED: _SLICES},
            "ownerReferences": [owner],
        }
        slice_entries = entries[number * _SLICE : (number + 1) * _SLICE]
        body: Raw = {"addressType": "IPv4", "endpoints": slice_entries, "ports": ports}
        raw = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": about, **body}
        yield Key("discovery.k8s.io", "EndpointSlice", namespace, name), raw
    parts: dict[bool, list[Raw]] = {True: [], False: []}
    for entry, pod in zip(entries, pods, strict=True):
        place = {"ip": _address(objects, pod), "nodeName": entry["nodeName"], "targetRef": entry["targetRef"]}
        parts[is_ready(pod) and not pod.metadata.deletion_timestamp].append(place)
    subset = {"addresses": parts[True], "notReadyAddresses": parts[False], "ports": ports}
    about = {"name": meta.name, "namespace": namespace, "ownerReferences": [owner]}
    subsets = [{field: value for field, value in subset.items() if value}] if entries else []
    raw = {"apiVersion": "v1", "kind": "Endpoints", "metadata": about, "subsets": subsets}
    yield Key("", "Endpoints", namespace, meta.name), raw


def _port(entry: Fields, pods: Sequence[Pod]) -> Raw:
    """A port of a service where its pods listen; a name is looked up in the first of them."""
    target = entry.raw.get("targetPort") or entry.raw.get("port")
    if isinstance(target, str):
        listed = (port for pod in pods[:1] for c in pod.spec.containers for port in c.ports if port.name == target)
        target = next((port.container_port for port in listed), entry.raw.get("port"))
    return {"name": entry.text("name"), "port": target, "protocol": entry.text("protocol", "TCP")}
