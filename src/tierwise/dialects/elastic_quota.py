"""What Koordinator's ElasticQuotas mean in model words: quotas are queues, and every pod is in one.

A pod's quota is the one that its label names, else the one called like its namespace, else the one that lists its
namespace, else the default quota; so is that of a pod whose label names no quota. Where a cluster declares no quota
at all, pods wait in the default queue as before.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.api.core import Pod, ResourceList
from tierwise.api.elastic_quota import (
    DEFAULT_QUOTA,
    DISABLE_PREEMPTIBLE,
    IGNORES_DEFAULT_TREE,
    IS_ROOT,
    LENDS,
    NAMESPACES,
    OVER_SINCE,
    PARENT,
    PREEMPTIBLE,
    QUOTA_NAME,
    ROOT_QUOTA,
    SHARED_WEIGHT,
    SYSTEM_QUOTA,
    TOTAL,
    TREE_ID,
    ElasticQuota,
    read_amounts,
    read_list,
)
from tierwise.api.meta import ObjectMeta, parse_time
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.model.queue import Queue

__all__ = ["DEFAULT_QUEUE", "OWNER", "Quotas", "firm", "shielded"]

DEFAULT_QUEUE = "default"
OWNER = "scheduling.koordinator.sh/questioned-object-key"
"""The label by which Koordinator tells which pods belong to one owner when it weighs evictions."""


class Quotas:
    """The quotas of a cluster, and which of them a pod is in."""

    def __init__(self, records: Mapping[str, ElasticQuota]) -> None:
        self._records: dict[str, ElasticQuota] = {}
        for record in records.values():  # names are unique in Koordinator; of two equal ones the first counts
            if record.metadata.name != ROOT_QUOTA:
                self._records.setdefault(record.metadata.name, record)
        self._by_namespace: dict[str, str] = {}
        for name, record in self._records.items():
            for namespace in read_list(record.metadata, NAMESPACES) or ():
                self._by_namespace.setdefault(namespace, name)

    def __bool__(self) -> bool:
        return bool(self._records)

    def homes(self) -> tuple[object, ...]:
        """All that decides which quota a pod is in; comparable."""
        return tuple(self._records), tuple(self._by_namespace.items())

    def of(self, pod: Pod) -> str:
        """The quota of a pod, by name; the default queue where there are no quotas."""
        if not self._records:
            return DEFAULT_QUEUE
        named = pod.metadata.labels.get(QUOTA_NAME, "")
        if named:
            return named if named in self._records or named == SYSTEM_QUOTA else DEFAULT_QUOTA
        namespace = pod.metadata.namespace or "default"
        if namespace in self._records:
            return namespace
        return self._by_namespace.get(namespace, DEFAULT_QUOTA)

    def queues(self) -> dict[str, Queue]:
        """Every quota as a queue, with those that always exist."""
        if not self._records:
            return {}
        trees = self._trees()
        found = {name: _queue(record, trees) for name, record in self._records.items()}
        for name in (DEFAULT_QUOTA, SYSTEM_QUOTA):
            found.setdefault(name, Queue(name, order=natural(name), elastic=True))
        return found

    def _trees(self) -> dict[str, str]:
        """By id, the trees that share a total of their own, each with the quota that says how much: its root."""
        found: dict[str, str] = {}
        for name in sorted(self._records, key=natural):
            record = self._records[name]
            tree = record.metadata.labels.get(TREE_ID, "")
            if tree and record.metadata.labels.get(IS_ROOT) == "true" and read_amounts(record, TOTAL):
                found.setdefault(tree, name)
        return found

    def resources(self) -> set[str]:
        """Every resource that some quota names."""
        specs = [record.spec for record in self._records.values()]
        return {name for spec in specs for name in (*spec.min, *spec.max)}


def firm(meta: ObjectMeta) -> bool:
    """Whether a pod is non-preemptible, so that its quota's min must cover it; only "false" says so."""
    return meta.labels.get(PREEMPTIBLE) == "false"


def shielded(meta: ObjectMeta) -> bool:
    """Whether a pod is marked as not to be evicted."""
    return firm(meta) or meta.labels.get(DISABLE_PREEMPTIBLE) == "true"


def _queue(record: ElasticQuota, trees: Mapping[str, str]) -> Queue:
    meta, spec = record.metadata, record.spec
    most = _amounts(spec.max)
    weights = {name: max(weight, 0) for name, weight in (read_amounts(record, SHARED_WEIGHT) or {}).items()}
    tree = meta.labels.get(TREE_ID, "")
    parent = meta.labels.get(PARENT, "")
    since = meta.annotations.get(OVER_SINCE, "")
    return Queue(
        name=meta.name,
        order=natural(meta.name),
        parent="" if parent == ROOT_QUOTA else parent,
        elastic=True,
        capability=most,
        guarantee=_amounts(spec.min),
        weights={**most, **weights} if any(weights.values()) else most,  # none, or nothing but zeros: max is the weight
        lends=meta.labels.get(LENDS) != "false",
        tree=tree if tree in trees else "",
        total=_total(record) if trees.get(tree) == meta.name else None,
        aside=meta.labels.get(IGNORES_DEFAULT_TREE) != "true",
        over_since=_moment(since),
    )


def _total(record: ElasticQuota) -> dict[str, int]:
    return {name: max(number, 0) for name, number in (read_amounts(record, TOTAL) or {}).items()}


def _amounts(given: ResourceList) -> dict[str, int]:
    """Amounts by name; a negative one, which admission refuses, counts as none."""
    return {name: max(amount(name, quantity), 0) for name, quantity in given.items()}


def _moment(text: str) -> float | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
