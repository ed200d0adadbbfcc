"""What pods and nodes use, for `kubectl top`: nothing runs here, so a pod that runs uses what it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierwise.api.codec import Raw, part
from tierwise.api.errors import InputError
from tierwise.api.quantity import amount
from tierwise.apiserver.failures import not_found
from tierwise.apiserver.selectors import selector
from tierwise.apiserver.store import ServedCluster, meta_of
from tierwise.controllers.stamp import stamp

__all__ = ["node_metrics", "pod_metrics"]

_VERSION = "metrics.k8s.io/v1beta1"
_SHOWN = ("cpu", "memory")


def pod_metrics(cluster: ServedCluster, namespace: str, name: str, query: Mapping[str, str]) -> Raw:
    """Pods that run: one by name, or all of a namespace, or of all."""
    is_selected = selector("Pod", query.get("labelSelector", ""), "")
    items = []
    for raw in _running(cluster):
        meta = meta_of(raw)
        if (
            (namespace and meta.get("namespace") != namespace)
            or name not in ("", meta.get("name"))
            or not is_selected(raw)
        ):
            continue
        containers = [
            {"name": container.get("name"), "usage": _written(_asked(container))} for container in _containers(raw)
        ]
        about = {field: value for field, value in meta.items() if field in ("name", "namespace", "labels")}
        items.append({**_head("PodMetrics", about, cluster), "containers": containers})
    return _answer("PodMetrics", "pods", name, items)


def node_metrics(cluster: ServedCluster, name: str, query: Mapping[str, str]) -> Raw:
    """Nodes, with the sum over the pods that run on each."""
    sums: dict[str, dict[str, int]] = {}
    for raw in _running(cluster):
        used = sums.setdefault(str(part(raw, "spec").get("nodeName")), dict.fromkeys(_SHOWN, 0))
        for container in _containers(raw):
            for resource, number in _asked(container).items():
                used[resource] += number
    is_selected = selector("Node", query.get("labelSelector", ""), "")
    nothing = dict.fromkeys(_SHOWN, 0)
    items = []
    for key, raw in cluster.all("", "Node")[0]:
        if name in ("", key.name) and is_selected(raw):
            about = {field: value for field, value in meta_of(raw).items() if field in ("name", "labels")}
            usage = _written(sums.get(key.name, nothing))
            items.append({**_head("NodeMetrics", about, cluster), "usage": usage})
    return _answer("NodeMetrics", "nodes", name, items)


def _running(cluster: ServedCluster) -> Iterator[Raw]:
    return (raw for _, raw in cluster.all("", "Pod")[0] if part(raw, "status").get("phase") == "Running")


def _containers(raw: Raw) -> Iterator[Raw]:
    listed = part(raw, "spec").get("containers")
    return (container for container in (listed if isinstance(listed, list) else ()) if isinstance(container, dict))


def _asked(container: Raw) -> dict[str, int]:
    """Cpu in thousandths and memory in bytes; what cannot be read, which admission lets through nowhere, as none."""
    resources = part(container, "resources")
    amounts = {**part(resources, "limits"), **part(resources, "requests")}
    totals = dict.fromkeys(_SHOWN, 0)
    for name in _SHOWN:
        try:
            totals[name] = amount(name, str(amounts.get(name, "0")))
        except (InputError, ValueError):
            continue
    return totals


def _written(amounts: Mapping[str, int]) -> Raw:
    return {"cpu": f"{amounts['cpu']}m", "memory": f"{amounts['memory'] // 1024}Ki"}


def _head(kind: str, about: Raw, cluster: ServedCluster) -> Raw:
    return {"kind": kind, "apiVersion": _VERSION, "metadata": about, "timestamp": stamp(cluster.now), "window": "1s"}


def _answer(kind: str, plural: str, name: str, items: list[Raw]) -> Raw:
    if not name:
        return {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": items}
    if not items:
        raise not_found(f"{plural}.metrics.k8s.io", name)
    return items[0]
