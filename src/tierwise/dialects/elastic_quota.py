"""Reads Koordinator's ElasticQuotas into model types: quotas are queues, and every pod is in one.

A quota of a trusted namespace (the profile says which) counts for every namespace, any other for its own alone: a pod
sees those two kinds, and no more. A pod's quota is the one that its label names, else the one called like its
namespace, else the one that lists its namespace, else the default quota; so is that of a pod whose label names no
quota that it sees. A pod that sees no quota at all waits in the default queue. Of two quotas with one name the older
counts. A job that names a Queue is in that instead, but the queues that always exist say nothing: a job that names
`default`, as every group does for which nobody chose a queue, is in the quota of its pods. That quota is the default
one's only where something limits it.

What a namespace says of itself must cost no other namespace anything. So its quotas share among themselves what is left
of the cluster, count in what would hold its pods without them as well (`Queue.enclosing`), may hang only below a quota
that claims their namespace, and are no queues where plugins share between queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api import elastic_quota as api
from tierwise.api.core import ObjectMeta, Pod, ResourceList, parse_time
from tierwise.api.eviction_terms import queue_times
from tierwise.api.hold import held
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.config.profile import DEFAULT, Profile
from tierwise.model.job import Queue
from tierwise.model.snapshot import Fault

__all__ = ["DEEPEST", "DEFAULT_QUEUE", "OWNER", "QUOTA_NAMESPACE", "Quotas", "firm", "shielded", "trusted_namespaces"]

DEFAULT_QUEUE = "default"
_NO_CHOICE: Final = frozenset((DEFAULT_QUEUE, "root"))
"""Volcano's queues that always exist."""
OWNER = "scheduling.koordinator.sh/questioned-object-key"
"""The label by which Koordinator tells which pods belong to one owner when it weighs evictions."""


QUOTA_NAMESPACE: Final = "koordinator-system"
"""Where the quotas are that always exist, unless the profile names another namespace; it is trusted."""
_SYSTEM_NAMESPACE: Final = "kube-system"
_EVERY: Final = "*"
_BUILT_IN: Final = (api.SYSTEM_QUOTA, api.DEFAULT_QUOTA)
DEEPEST: Final = 32
"""Quotas above a quota: a chain of thousands would make every cycle long."""
_SHARING: Final = frozenset({"capacity", "proportion"})
"""Plugins that give every queue a share of the cluster: none may be had by declaring a quota."""


def trusted_namespaces(profile: Profile) -> frozenset[str]:
    """The namespaces whose quotas count for all: that of the quota root, and those that the profile lists."""
    root = profile.listed("elasticquota", "quotaGroupNamespace") or (QUOTA_NAMESPACE,)
    return frozenset((*root, *profile.listed("elasticquota", "trustedNamespaces")))


class _Scope(msgspec.Struct, frozen=True):
    """Quotas that see each other: those of trusted namespaces, or those of one other namespace."""

    namespace: str  # "" for the trusted ones
    records: dict[str, api.ElasticQuota]  # by name
    lists: dict[str, str]  # by namespace, the quota that lists it


class Quotas:
    """The quotas of a cluster, and which of them a pod is in; `queues` are the names that other queues have."""

    def _queue_names(self) -> dict[tuple[str, str], str]:
        """The queue of each quota, by namespace ("" for trusted ones) and name.

        A quota's own name where no other queue has it, else with its namespace before it.
        """
        taken = {*self._declared, DEFAULT_QUEUE, *_BUILT_IN, *self._trusted.records}
        times = Counter(name for scope in self._scopes.values() for name in scope.records)
        names = {("", name): name for name in self._trusted.records}
        for namespace, scope in self._scopes.items():
            for name in scope.records:
                alone = name not in taken and times[name] == 1
                names[namespace, name] = name if alone else f"{namespace}/{name}"
        return names

    def __init__(
        self, records: Mapping[str, api.ElasticQuota], profile: Profile = DEFAULT, queues: Collection[str] = ()
    ) -> None:
        self.faults: list[Fault] = []
        self._declared = frozenset(queues)
        self._own = not any(choice.name in _SHARING for choice in profile.plugins())
        self._trusted_namespaces = trusted = trusted_namespaces(profile)
        plugins = [choice.arguments for choice in profile.plugins() if choice.name == "elasticquota"]
        self._default_is_limited = any(arguments.get("defaultQuotaGroupMax") for arguments in plugins)
        found: dict[str, list[api.ElasticQuota]] = {"": []}
        for record in records.values():
            namespace = record.metadata.namespace or "default"
            own = "" if namespace in trusted or _EVERY in trusted else namespace
            if record.metadata.name != api.ROOT_QUOTA and self._counts(record, own):
                found.setdefault(own, []).append(record)
        self._trusted = self._scope("", found.pop(""))
        self._default_is_limited |= api.DEFAULT_QUOTA in self._trusted.records
        self._scopes = {namespace: self._scope(namespace, several) for namespace, several in found.items()}
        self._scopes = {namespace: scope for namespace, scope in self._scopes.items() if scope.records}
        self._names = self._queue_names()
        self._taken = frozenset(self._names.values())
        self.queues = self._all_queues()
        """Every quota as a queue, with those that always exist; none where there are no quotas."""

    def _counts(self, record: api.ElasticQuota, scope: str) -> bool:
        """Whether a quota is looked at; those that always exist are the quota root's to declare."""
        if not scope:
            return True
        if record.metadata.name in _BUILT_IN:
            self._fault(record, "QuotaNotTrusted", "only a trusted namespace may declare this quota: it is set aside")
        elif not self._own:
            text = "this profile shares between queues, so only quotas of trusted namespaces count: it is set aside"
            self._fault(record, "QuotaNotTrusted", text)
        else:
            return True
        return False

    def _scope(self, namespace: str, records: list[api.ElasticQuota]) -> _Scope:
        """The quotas of a scope by name; of two with one name the older one, here and among those it sees."""
        kept: dict[str, api.ElasticQuota] = {}
        for record in sorted(records, key=_age):
            name = record.metadata.name
            other = kept.get(name) or (self._trusted.records.get(name) if namespace else None)
            if other is None or _age(record) <= _age(other):
                kept[name] = record
            if other is not None:
                where = other.metadata.namespace or "default"
                text = f"namespace {where} has an older quota of this name: that counts"
                if kept.get(name) is record:
                    text = (
                        f"namespace {where} has a younger quota of this name: in namespace {namespace} this one counts"
                    )
                self._fault(record, "QuotaNameClash", text)
        lists: dict[str, str] = {}
        for name, record in kept.items():
            for listed in api.read_list(record.metadata, api.NAMESPACES) or ():
                if not namespace or listed == namespace:
                    lists.setdefault(listed, name)
                else:
                    text = (
                        f"it lists namespace {listed}, and its own namespace {namespace} is not among the "
                        "trustedNamespaces of elasticquota: that does not count"
                    )
                    self._fault(record, "QuotaNotTrusted", text)
        return _Scope(namespace, kept, lists)

    def _fault(self, record: api.ElasticQuota, code: str, text: str) -> None:
        subject = f"ElasticQuota {record.metadata.namespace or 'default'}/{record.metadata.name}"
        self.faults.append(Fault(subject, code, text))

    def __bool__(self) -> bool:
        return bool(self._names)

    def sees(self, namespace: str) -> bool:
        """Whether a quota counts for the pods of a namespace."""
        return bool(self._trusted.records) or namespace in self._scopes

    def homes(self) -> tuple[object, ...]:
        """All that decides which quota a pod is in; comparable."""
        if not self._names:
            return ()
        lists = ((scope.namespace, *scope.lists.items()) for scope in (self._trusted, *self._scopes.values()))
        meant = {api.SYSTEM_QUOTA, *_NO_CHOICE, *self._taken, *(name for _, name in self._names)}
        return tuple(self._names.items()), tuple(lists), self._declared & meant

    def of(self, pod: Pod) -> str:
        """The quota of a pod, by the name of its queue; the default queue where it sees no quota."""
        namespace = pod.metadata.namespace or "default"
        if not self.sees(namespace):
            return DEFAULT_QUEUE
        named = pod.metadata.labels.get(api.QUOTA_NAME, "")
        if named == api.SYSTEM_QUOTA and self._privileged(namespace):
            return api.SYSTEM_QUOTA
        found = self._seen(namespace, named) if named else self._by_namespace(namespace)
        return found or api.DEFAULT_QUOTA

    def queue(self, name: str, namespace: str, pod: Pod | None = None) -> str:
        """The queue that an object of a namespace means by a name: a quota of another namespace is not to be had.

        A queue that always exists is no choice: the quota counts, of the first pod or else of the namespace. Where that
        is the default quota and nothing limits it, the queue stays, and with it what limits the queue.
        """
        if name in _NO_CHOICE and self.sees(namespace) and (name in self._declared or name == DEFAULT_QUEUE):
            return self._instead_of(name, namespace, pod)
        if name in self._declared or not self._names:
            return name
        found = self._seen(namespace, name)
        reserved = name == api.SYSTEM_QUOTA and not self._privileged(namespace)
        if reserved or (found is None and name in self._taken):
            return f"{name} (of another namespace)"
        return found or name

    def queue_of(self, record: api.ElasticQuota) -> str:
        """The name of a quota's queue; empty where it does not count."""
        name = record.metadata.name
        namespace = record.metadata.namespace or "default"
        for scope in (self._trusted, self._scopes.get(namespace)):
            if scope is not None and scope.records.get(name) is record:
                return self._names[scope.namespace, name]
        return ""

    def _privileged(self, namespace: str) -> bool:
        """Whether pods of a namespace may be in the system quota, which nothing limits."""
        return namespace == _SYSTEM_NAMESPACE or namespace in self._trusted_namespaces

    def _instead_of(self, name: str, namespace: str, pod: Pod | None) -> str:
        """The quota that counts instead of a queue that always exists; the queue if the default quota has no limit."""
        quota = self.of(pod) if pod is not None else self._by_namespace(namespace) or api.DEFAULT_QUOTA
        if quota != api.DEFAULT_QUOTA or self._default_is_limited:
            return quota
        return name

    def _seen(self, namespace: str, name: str) -> str | None:
        """The queue of the quota of this name that a namespace sees."""
        own = self._names.get((namespace, name))
        if own is not None:
            return own
        return self._names.get(("", name))

    def _by_namespace(self, namespace: str) -> str | None:
        """The queue of the quota that claims a namespace: called like it, or listing it."""
        called = self._seen(namespace, namespace)
        if called is not None:
            return called
        own = self._scopes.get(namespace)
        listed = own.lists.get(namespace) if own is not None else None
        if listed is not None:
            return self._names[namespace, listed]
        return self._claim(namespace) or None

    def _claim(self, namespace: str) -> str:
        """The trusted quota that claims a namespace; empty where none does."""
        if namespace in self._trusted.records:
            return namespace
        return self._trusted.lists.get(namespace, "")

    def _enclosing(self, namespace: str) -> str:
        """What would hold the pods of a namespace if it had no quotas of its own."""
        if self._trusted.records:
            return self._claim(namespace) or api.DEFAULT_QUOTA
        return DEFAULT_QUEUE

    def _all_queues(self) -> dict[str, Queue]:
        """Every quota as a queue, with those that always exist."""
        if not self._names:
            return {}
        found: dict[str, Queue] = {}
        for scope in (self._trusted, *self._scopes.values()):
            found.update((queue.name, queue) for queue in self._of_scope(scope))
        enclosing = "" if self._trusted.records else DEFAULT_QUEUE
        for name in _BUILT_IN:
            found.setdefault(name, Queue(name, order=natural(name), elastic=True, enclosing=enclosing))
        deep = [name for name in found if _is_deep(found, name)]
        for name in deep:
            text = f"more than {DEEPEST} quotas are above it, or it is its own ancestor: it counts as outermost"
            self.faults.append(Fault(f"ElasticQuota {name}", "QuotaTooDeep", text))
        return {**found, **{name: replace(found[name], parent="") for name in deep}}

    def _of_scope(self, scope: _Scope) -> Iterator[Queue]:
        trees = _trees(scope.records)
        claim = self._claim(scope.namespace) if scope.namespace else ""
        for name, record in scope.records.items():
            parent = record.metadata.labels.get(api.PARENT, "")
            parent = "" if parent == api.ROOT_QUOTA else parent
            if parent in scope.records:
                above = self._names[scope.namespace, parent]
            elif scope.namespace and parent in self._trusted.records and parent != claim:
                text = f"quota {parent} cannot be the parent: it does not claim namespace"
                self._fault(record, "QuotaNotTrusted", f"{text} {scope.namespace}")
                above = claim
            else:
                above = claim or parent
            yield _queue(
                record,
                trees,
                name=self._names[scope.namespace, name],
                parent=above,
                scope="" if claim else scope.namespace,
                enclosing=self._enclosing(scope.namespace) if scope.namespace else "",
            )


def _is_deep(queues: Mapping[str, Queue], name: str) -> bool:
    """Whether so many quotas are above one that their chain would cost every cycle time."""
    above = queues[name].parent
    for _ in range(DEEPEST):
        if above not in queues:
            return False
        above = queues[above].parent
    return above in queues


def _age(record: api.ElasticQuota) -> tuple[float, tuple[object, ...]]:
    """The older first, then by namespace."""
    return _moment(record.metadata.creation_timestamp) or 0.0, natural(record.metadata.namespace or "default")


def _trees(records: Mapping[str, api.ElasticQuota]) -> dict[str, str]:
    """By id, the trees that share a total of their own, each with the quota that says how much: its root."""
    found: dict[str, str] = {}
    for name in sorted(records, key=natural):
        record = records[name]
        tree = record.metadata.labels.get(api.TREE_ID, "")
        if tree and record.metadata.labels.get(api.IS_ROOT) == "true" and api.read_amounts(record, api.TOTAL):
            found.setdefault(tree, name)
    return found


def firm(meta: ObjectMeta) -> bool:
    """Whether a pod is non-preemptible, so that its quota's min must cover it; only "false" says so."""
    return meta.labels.get(api.PREEMPTIBLE) == "false"


def forbearing(meta: ObjectMeta) -> str:
    """The mark by which a pod, or a gang, starts no preemption; empty where it has none. Only "false" says so."""
    if meta.labels.get(api.CAN_PREEMPT) == "false":
        return f"label {api.CAN_PREEMPT} is false"
    return ""


def shielded(meta: ObjectMeta) -> bool:
    """Whether a pod is marked as not to be evicted."""
    return firm(meta) or meta.labels.get(api.DISABLE_PREEMPTIBLE) == "true"


def _queue(
    record: api.ElasticQuota, trees: Mapping[str, str], *, name: str, parent: str, scope: str, enclosing: str
) -> Queue:
    meta = record.metadata
    spec = record.spec
    most = _amounts(spec.max)
    weights = {name: max(weight, 0) for name, weight in (api.read_amounts(record, api.SHARED_WEIGHT) or {}).items()}
    tree = meta.labels.get(api.TREE_ID, "")
    since = meta.annotations.get(api.OVER_SINCE, "")
    least, expected = queue_times(meta.annotations)
    return Queue(
        name=name,
        order=natural(name),
        parent=parent,
        elastic=True,
        capability=most,
        guarantee=_amounts(spec.min),
        weights={**most, **weights} if any(weights.values()) else most,  # none, or nothing but zeros: max is the weight
        lends=meta.labels.get(api.LENDS) != "false",
        tree=tree if tree in trees else "",
        total=_total(record) if trees.get(tree) == meta.name else None,
        aside=meta.labels.get(api.IGNORES_DEFAULT_TREE) != "true",
        over_since=_moment(since),
        minimum_run_time=least,
        expected_duration=expected,
        held=held(meta.annotations),
        scope=scope,
        enclosing=enclosing,
    )


def _total(record: api.ElasticQuota) -> dict[str, int]:
    return {name: max(number, 0) for name, number in (api.read_amounts(record, api.TOTAL) or {}).items()}


def _amounts(given: ResourceList) -> dict[str, int]:
    """Amounts by name; a negative one, which admission refuses, counts as none."""
    return {name: max(amount(name, quantity), 0) for name, quantity in given.items()}


def _moment(text: str) -> float | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
