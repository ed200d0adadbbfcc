"""Checks of ElasticQuotas: each on its own, the tree that they form, and the pods in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tierwise.admission.findings import Issue, error, warning
from tierwise.api import elastic_quota as api
from tierwise.api.core import ObjectMeta, Pod, ResourceList
from tierwise.api.cycles import cycle_text
from tierwise.api.natural import natural
from tierwise.api.quantity import amount, show
from tierwise.dialects.elastic_quota import DEEPEST, QUOTA_NAMESPACE

__all__ = ["Forest"]

_FLAGS: Final = (api.IS_PARENT, api.IS_ROOT, api.IGNORES_DEFAULT_TREE, api.LENDS, api.FORCED)
_BUILT_IN: Final = (api.ROOT_QUOTA, api.SYSTEM_QUOTA, api.DEFAULT_QUOTA)
_LABEL: Final = "metadata.labels."
_ANNOTATION: Final = "metadata.annotations."


class Forest:
    """All quotas of a collection.

    A quota of a trusted namespace counts for every namespace, any other for its own, as in the scheduler. Which
    further namespaces a profile trusts is not known here, so what such a quota says of others is a warning.
    """

    def __init__(self, quotas: Iterable[api.ElasticQuota]) -> None:
        self._by_name: dict[tuple[str, str], api.ElasticQuota] = {}  # by scope, "" for the trusted one, and name
        self._children: dict[tuple[str, str], list[api.ElasticQuota]] = {}
        self._lists: dict[str, tuple[str, str]] = {}
        self._elsewhere: dict[str, list[api.ElasticQuota]] = {}
        for quota in sorted(quotas, key=_age):
            name = quota.metadata.name
            scope = _scope(quota)
            self._elsewhere.setdefault(name, []).append(quota)
            if self._by_name.setdefault((scope, name), quota) is quota:
                for namespace in api.read_list(quota.metadata, api.NAMESPACES) or ():
                    if scope in ("", namespace):
                        self._lists.setdefault(namespace, (scope, name))
        for key, quota in self._by_name.items():
            above = self._above(key[0], _parent(quota))
            if above is not None:
                self._children.setdefault(above, []).append(quota)

    def _above(self, scope: str, name: str) -> tuple[str, str] | None:
        """The quota that one of a scope means by a name."""
        if name:
            return next((key for key in ((scope, name), ("", name)) if key in self._by_name), None)
        return None

    def check(self, quota: api.ElasticQuota) -> Iterator[Issue]:
        """Issues of a quota among the others."""
        if quota.metadata.name == api.ROOT_QUOTA:
            return
        yield from _check_alone(quota)
        yield from self._check_name(quota)
        if self._by_name[_scope(quota), quota.metadata.name] is not quota:
            return
        yield from self._check_namespaces(quota)
        yield from self._check_parent(quota)
        yield from self._check_children(quota)

    def _check_name(self, quota: api.ElasticQuota) -> Iterator[Issue]:
        """A clash is an error among quotas that one namespace sees: there the older one counts."""
        name = quota.metadata.name
        scope = _scope(quota)
        if scope and name in _BUILT_IN:
            yield error(
                "metadata.name",
                f"only namespace {QUOTA_NAMESPACE}, or one that the profile trusts, may declare this quota",
            )
        for namesake in self._elsewhere[name]:
            where = namesake.metadata.namespace or "default"
            if namesake is quota:
                continue
            if _age(namesake) < _age(quota) and _scope(namesake) in ("", scope):
                yield error("metadata.name", f"there is an older quota of this name in namespace {where}: that counts")
            else:
                yield warning("metadata.name", f"there is a quota of this name in namespace {where}, too")
            return

    def check_pod(self, pod: Pod) -> Iterator[Issue]:
        """Issues of a pod's quota."""
        named = pod.metadata.labels.get(api.QUOTA_NAME, "")
        namespace = pod.metadata.namespace or "default"
        key = self._above(namespace, named or namespace) or (None if named else self._lists.get(namespace))
        quota = self._by_name[key] if key is not None else None
        if quota is not None and _flag(quota, api.IS_PARENT):
            text = f'quota "{quota.metadata.name}" is a parent of quotas: pods belong into one of its children'
            yield error(f"{_LABEL}{api.QUOTA_NAME}", text)
        if named and quota is None and self._by_name and named not in _BUILT_IN:
            yield warning(
                f"{_LABEL}{api.QUOTA_NAME}",
                f'quota "{named}" does not exist for namespace {namespace}: the default quota counts',
            )
        yield from _true_or_false(pod.metadata, (api.PREEMPTIBLE,))

    def _check_namespaces(self, quota: api.ElasticQuota) -> Iterator[Issue]:
        scope = _scope(quota)
        for namespace in api.read_list(quota.metadata, api.NAMESPACES) or ():
            if scope not in ("", namespace):
                text = (
                    f'namespace "{namespace}" is not its own: that counts only where trustedNamespaces of elasticquota '
                    f"lists namespace {scope}"
                )
                yield warning(f"{_ANNOTATION}{api.NAMESPACES}", text)
                continue
            owner = self._lists[namespace]
            if owner != (scope, quota.metadata.name):
                text = f'namespace "{namespace}" is listed by quota "{owner[1]}" already'
                yield error(f"{_ANNOTATION}{api.NAMESPACES}", text)

    def _check_parent(self, quota: api.ElasticQuota) -> Iterator[Issue]:
        name = quota.metadata.name
        above = _parent(quota)
        if not above:
            return
        path = f"{_LABEL}{api.PARENT}"
        key = self._above(_scope(quota), above)
        if key is None:
            elsewhere = self._elsewhere.get(above, [])
            where = f" for namespace {_scope(quota)}" if elsewhere else ""
            yield error(path, f'parent quota "{above}" does not exist{where}')
            return
        parent = self._by_name[key]
        if not _flag(parent, api.IS_PARENT):
            yield error(path, f'parent quota "{above}" is not marked as a parent (label {api.IS_PARENT}: "true")')
        chain = [name, above]
        at = key
        while (further := self._above(at[0], _parent(self._by_name[at]))) is not None and further[1] not in chain:
            chain.append(further[1])
            at = further
            if len(chain) > DEEPEST + 1:
                yield error(path, f"more than {DEEPEST} quotas are above it")
                break
        if further is not None and further[1] == name:
            yield error(path, f"cyclic dependency: {cycle_text(list(dict.fromkeys(chain)))}")
        tree, around = (q.metadata.labels.get(api.TREE_ID, "") for q in (quota, parent))
        if tree and tree != around:
            yield error(
                f"{_LABEL}{api.TREE_ID}", f'tree "{tree}" is not that of its parent quota "{above}" ("{around}")'
            )
        yield from _check_keys(quota, parent)

    def _check_children(self, quota: api.ElasticQuota) -> Iterator[Issue]:
        below = self._children.get((_scope(quota), quota.metadata.name), [])
        if below and not _flag(quota, api.IS_PARENT):
            yield error(f"{_LABEL}{api.IS_PARENT}", "it has quotas below it, so it must be marked as a parent")
        if _flag(quota, api.IS_ROOT) or any(_flag(q, api.FORCED) for q in (quota, *below)):
            return
        yield from _check_sum(quota, below)


def _check_alone(quota: api.ElasticQuota) -> Iterator[Issue]:
    spec = quota.spec
    yield from _not_negative("spec.max", spec.max)
    yield from _not_negative("spec.min", spec.min)
    for resource, quantity in spec.min.items():
        path = f"spec.min.{resource}"
        if resource not in spec.max:
            yield error(path, f"{resource} is listed in min and not in max")
        elif amount(resource, quantity) > amount(resource, spec.max[resource]):
            yield error(path, f"min {quantity} is more than the max of {spec.max[resource]}")
    weights = api.read_amounts(quota, api.SHARED_WEIGHT)
    if weights is None:
        yield error(
            f"{_ANNOTATION}{api.SHARED_WEIGHT}", "the shared weight is not a JSON object of resources and quantities"
        )
    for resource, weight in (weights or {}).items():
        if weight < 0:
            yield error(f"{_ANNOTATION}{api.SHARED_WEIGHT}", f"the shared weight of {resource} is negative")
    if api.read_list(quota.metadata, api.NAMESPACES) is None:
        yield error(f"{_ANNOTATION}{api.NAMESPACES}", "not a JSON list of namespaces")
    yield from _check_total(quota)
    yield from _check_used(quota)
    yield from _true_or_false(quota.metadata, _FLAGS)


def _check_total(quota: api.ElasticQuota) -> Iterator[Issue]:
    """Check that only the root of a quota tree states the tree's total."""
    path = f"{_ANNOTATION}{api.TOTAL}"
    total = api.read_amounts(quota, api.TOTAL)
    if total is None:
        yield error(path, "the total is not a JSON object of resources and quantities")
        return
    for resource, number in total.items():
        if number < 0:
            yield error(path, f"the total of {resource} is negative")
    if total and not (_flag(quota, api.IS_ROOT) and quota.metadata.labels.get(api.TREE_ID)):
        text = f'a total counts for the root of a tree alone (labels {api.IS_ROOT}: "true" and {api.TREE_ID})'
        yield warning(path, text)


def _check_used(quota: api.ElasticQuota) -> Iterator[Issue]:
    """Where the quota says so, max must not fall below what is used."""
    keys = api.read_list(quota.metadata, api.STRICT_KEYS)
    if keys is None:
        yield error(f"{_ANNOTATION}{api.STRICT_KEYS}", "not a JSON list of resources")
    maximum = quota.spec.max
    used = quota.status.used
    for key in keys or ():
        if key in used and key not in maximum:
            yield error(f"spec.max.{key}", f"{used[key]} {key} is used, and max does not list it")
        elif key in used and amount(key, used[key]) > amount(key, maximum[key]):
            yield error(f"spec.max.{key}", f"max {maximum[key]} is less than the {used[key]} of {key} that is used")


def _check_keys(quota: api.ElasticQuota, parent: api.ElasticQuota) -> Iterator[Issue]:
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


def _check_sum(quota: api.ElasticQuota, below: Sequence[api.ElasticQuota]) -> Iterator[Issue]:
    """A parent must be able to keep its word to its children; what the cluster has is not checked."""
    for resource, quantity in quota.spec.min.items() if below else ():
        sum_below = sum(amount(resource, child.spec.min.get(resource, 0)) for child in below)
        if sum_below > amount(resource, quantity):
            total = show(resource, sum_below)
            text = f"the children's min come to {total} in all, more than the {quantity} of this parent"
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


def _scope(quota: api.ElasticQuota) -> str:
    """The namespace that sees a quota; empty where all do."""
    namespace = quota.metadata.namespace or "default"
    return "" if namespace == QUOTA_NAMESPACE else namespace


def _age(quota: api.ElasticQuota) -> tuple[str, tuple[object, ...]]:
    """The older first, then by namespace; the API server writes all times in one form."""
    return quota.metadata.creation_timestamp or "", natural(quota.metadata.namespace or "default")


def _parent(quota: api.ElasticQuota) -> str:
    """The parent's name; empty at the outermost level."""
    name = quota.metadata.labels.get(api.PARENT, "")
    return "" if name == api.ROOT_QUOTA else name


def _flag(quota: api.ElasticQuota, label: str) -> bool:
    return quota.metadata.labels.get(label) == "true"
