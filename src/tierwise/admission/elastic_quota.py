"""Elastic quotas: each one by itself, the tree that they form together, and the pods that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tierwise.admission.verdict import Issue, error, warning
from tierwise.api.core import Pod, ResourceList
from tierwise.api.elastic_quota import (
    DEFAULT_QUOTA,
    FORCED,
    IGNORES_DEFAULT_TREE,
    IS_PARENT,
    IS_ROOT,
    LENDS,
    NAMESPACES,
    PARENT,
    PREEMPTIBLE,
    QUOTA_NAME,
    ROOT_QUOTA,
    SHARED_WEIGHT,
    STRICT_KEYS,
    SYSTEM_QUOTA,
    TOTAL,
    TREE_ID,
    ElasticQuota,
    read_amounts,
    read_list,
)
from tierwise.api.meta import ObjectMeta
from tierwise.api.quantity import amount, show

__all__ = ["Forest"]

_FLAGS: Final = (IS_PARENT, IS_ROOT, IGNORES_DEFAULT_TREE, LENDS, FORCED)
_BUILT_IN: Final = (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA)
_LABEL: Final = "metadata.labels."
_ANNOTATION: Final = "metadata.annotations."


class Forest:
    """All quotas of a collection."""

    def __init__(self, quotas: Iterable[ElasticQuota]) -> None:
        self._by_name: dict[str, ElasticQuota] = {}
        self._children: dict[str, list[ElasticQuota]] = {}
        self._lists: dict[str, str] = {}
        for quota in quotas:
            name = quota.metadata.name
            if self._by_name.setdefault(name, quota) is quota:
                self._children.setdefault(_parent(quota), []).append(quota)
                for namespace in read_list(quota.metadata, NAMESPACES) or ():
                    self._lists.setdefault(namespace, name)

    def check(self, quota: ElasticQuota) -> Iterator[Issue]:
        """Issues of a quota among the others."""
        if quota.metadata.name == ROOT_QUOTA:
            return
        yield from _check_alone(quota)
        if self._by_name[quota.metadata.name] is not quota:
            other = self._by_name[quota.metadata.name].metadata.namespace or "default"
            yield error(
                "metadata.name", f"there is a quota of this name in namespace {other}: names are for all namespaces"
            )
            return
        yield from self._check_namespaces(quota)
        yield from self._check_parent(quota)
        yield from self._check_children(quota)

    def check_pod(self, pod: Pod) -> Iterator[Issue]:
        """Issues of a pod's quota."""
        named, namespace = pod.metadata.labels.get(QUOTA_NAME, ""), pod.metadata.namespace or "default"
        quota = self._by_name.get(named or namespace) or self._by_name.get(self._lists.get(namespace, ""))
        if quota is not None and _flag(quota, IS_PARENT):
            text = f'quota "{quota.metadata.name}" is a parent of quotas: pods belong into one of its children'
            yield error(f"{_LABEL}{QUOTA_NAME}", text)
        if named and self._by_name and named not in (*self._by_name, *_BUILT_IN):
            yield warning(f"{_LABEL}{QUOTA_NAME}", f'quota "{named}" does not exist: the default quota counts')
        yield from _true_or_false(pod.metadata, (PREEMPTIBLE,))

    def _check_namespaces(self, quota: ElasticQuota) -> Iterator[Issue]:
        for namespace in read_list(quota.metadata, NAMESPACES) or ():
            owner = self._lists[namespace]
            if owner != quota.metadata.name:
                text = f'namespace "{namespace}" is listed by quota "{owner}" already'
                yield error(f"{_ANNOTATION}{NAMESPACES}", text)

    def _check_parent(self, quota: ElasticQuota) -> Iterator[Issue]:
        name, above = quota.metadata.name, _parent(quota)
        if not above:
            return
        path, parent = f"{_LABEL}{PARENT}", self._by_name.get(above)
        if parent is None:
            yield error(path, f'parent quota "{above}" does not exist')
            return
        if not _flag(parent, IS_PARENT):
            yield error(path, f'parent quota "{above}" is not marked as a parent (label {IS_PARENT}: "true")')
        chain = [name, above]
        while (further := _parent(self._by_name[chain[-1]])) and further in self._by_name and further not in chain:
            chain.append(further)
        if further == name:
            yield error(path, f"cyclic dependency: {' -> '.join([*chain, name])}")
        tree, around = (q.metadata.labels.get(TREE_ID, "") for q in (quota, parent))
        if tree and tree != around:
            yield error(f"{_LABEL}{TREE_ID}", f'tree "{tree}" is not that of its parent quota "{above}" ("{around}")')
        yield from _check_keys(quota, parent)

    def _check_children(self, quota: ElasticQuota) -> Iterator[Issue]:
        below = self._children.get(quota.metadata.name, [])
        if below and not _flag(quota, IS_PARENT):
            yield error(f"{_LABEL}{IS_PARENT}", "it has quotas below it, so it must be marked as a parent")
        if _flag(quota, IS_ROOT) or any(_flag(q, FORCED) for q in (quota, *below)):
            return
        yield from _check_sum(quota, below)


def _check_alone(quota: ElasticQuota) -> Iterator[Issue]:
    spec = quota.spec
    yield from _not_negative("spec.max", spec.max)
    yield from _not_negative("spec.min", spec.min)
    for resource, quantity in spec.min.items():
        path = f"spec.min.{resource}"
        if resource not in spec.max:
            yield error(path, f"{resource} is listed in min and not in max")
        elif amount(resource, quantity) > amount(resource, spec.max[resource]):
            yield error(path, f"min {quantity} is more than the max of {spec.max[resource]}")
    weights = read_amounts(quota, SHARED_WEIGHT)
    if weights is None:
        yield error(
            f"{_ANNOTATION}{SHARED_WEIGHT}", "the shared weight is not a JSON object of resources and quantities"
        )
    for resource, weight in (weights or {}).items():
        if weight < 0:
            yield error(f"{_ANNOTATION}{SHARED_WEIGHT}", f"the shared weight of {resource} is negative")
    if read_list(quota.metadata, NAMESPACES) is None:
        yield error(f"{_ANNOTATION}{NAMESPACES}", "not a JSON list of namespaces")
    yield from _check_total(quota)
    yield from _check_used(quota)
    yield from _true_or_false(quota.metadata, _FLAGS)


def _check_total(quota: ElasticQuota) -> Iterator[Issue]:
    """What a tree shares is said by its root."""
    path, total = f"{_ANNOTATION}{TOTAL}", read_amounts(quota, TOTAL)
    if total is None:
        yield error(path, "the total is not a JSON object of resources and quantities")
        return
    for resource, number in total.items():
        if number < 0:
            yield error(path, f"the total of {resource} is negative")
    if total and not (_flag(quota, IS_ROOT) and quota.metadata.labels.get(TREE_ID)):
        text = f'a total counts for the root of a tree alone (labels {IS_ROOT}: "true" and {TREE_ID})'
        yield warning(path, text)


def _check_used(quota: ElasticQuota) -> Iterator[Issue]:
    """Where the quota says so, max must not fall below what is used."""
    keys = read_list(quota.metadata, STRICT_KEYS)
    if keys is None:
        yield error(f"{_ANNOTATION}{STRICT_KEYS}", "not a JSON list of resources")
    most, used = quota.spec.max, quota.status.used
    for key in keys or ():
        if key in used and key not in most:
            yield error(f"spec.max.{key}", f"{used[key]} {key} is used, and max does not list it")
        elif key in used and amount(key, used[key]) > amount(key, most[key]):
            yield error(f"spec.max.{key}", f"max {most[key]} is less than the {used[key]} of {key} that is used")


def _check_keys(quota: ElasticQuota, parent: ElasticQuota) -> Iterator[Issue]:
    """The resources of parent and child: the same in max, and no further ones in min."""
    above = parent.metadata.name
    for resource in sorted(set(quota.spec.max) ^ set(parent.spec.max)):
        whose = "this quota does not" if resource in parent.spec.max else f'its parent quota "{above}" does not'
        yield error(
            f"spec.max.{resource}", f"max must list the same resources as that of the parent: {whose} list {resource}"
        )
    for resource in quota.spec.min:
        if resource not in parent.spec.min:
            yield error(f"spec.min.{resource}", f'min of its parent quota "{above}" does not list {resource}')


def _check_sum(quota: ElasticQuota, below: Sequence[ElasticQuota]) -> Iterator[Issue]:
    """A parent must be able to keep its word to its children; the cluster's word is nobody's to check."""
    for resource, quantity in quota.spec.min.items() if below else ():
        asked = sum(amount(resource, child.spec.min.get(resource, 0)) for child in below)
        if asked > amount(resource, quantity):
            text = f"the children's min come to {show(resource, asked)} in all, more than the {quantity} of this parent"
            yield error(f"spec.min.{resource}", text)


def _not_negative(path: str, amounts: ResourceList) -> Iterator[Issue]:
    for resource, quantity in amounts.items():
        if amount(resource, quantity) < 0:
            yield error(f"{path}.{resource}", f"{path.rpartition('.')[2]} {quantity} is negative")


def _true_or_false(meta: ObjectMeta, labels: Iterable[str]) -> Iterator[Issue]:
    for label in labels:
        value = meta.labels.get(label, "")
        if value not in ("", "true", "false"):
            yield warning(
                f"{_LABEL}{label}", f'"{value}" is neither "true" nor "false": it counts as if it were not set'
            )


def _parent(quota: ElasticQuota) -> str:
    """The parent's name; empty at the outermost level."""
    name = quota.metadata.labels.get(PARENT, "")
    return "" if name == ROOT_QUOTA else name


def _flag(quota: ElasticQuota, label: str) -> bool:
    return quota.metadata.labels.get(label) == "true"
