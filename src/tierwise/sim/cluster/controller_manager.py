"""What Kubernetes' controller manager does while a cluster lives, beside making pods: scaling, rollouts, statuses.

`workloads` makes what is missing; here what is too much goes, and workloads are told how their pods fare. A user of the
simulation: `submit` and `simulate` need none of it, as no one changes a workload there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw, Unknown
from tierwise.api.core import Namespace, Pod, PodDisruptionBudget, ResourceQuota, Service, parse_time, read_number
from tierwise.api.errors import InputError
from tierwise.api.natural import natural
from tierwise.api.selector import matches
from tierwise.api.storage import PersistentVolumeClaim, StorageClass
from tierwise.controllers.stamp import stamp
from tierwise.dialects.workloads.children import Family, Owner, digest
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus, Update, key_of
from tierwise.sim.cluster.endpoints import endpoints
from tierwise.sim.cluster.kubelet import is_ready

__all__ = ["ControllerManager", "budget_status"]

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_HISTORY: Final = 10
"""Sets without pods that a Deployment keeps to go back to, where it does not say how many."""
_SETS: Final = (
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
)
_BATCH: Final = ("batch", "Job")


_WATCHED: Final = (Unknown, Pod, PodDisruptionBudget, Namespace, PersistentVolumeClaim, StorageClass, Service)
"""Kinds that it does something about when they change."""

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _nothing(objects: Objects) -> Iterable[Effect]:
    return ()


class ControllerManager:
    """Looks at the workloads of Kubernetes whenever something has changed."""

    def __init__(self, quotas: Callable[[Objects], Iterable[Effect]] = _nothing) -> None:
        """`quotas` says what the status of every ResourceQuota becomes."""
        self._quotas = quotas
        self._settled: Objects | None = None
        self._due: float | None = None

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """Effects at this time; none if everything is settled."""
        unchanged = self._settled is objects or (
            self._settled is not None
            and not objects.every(ResourceQuota)  # it may count objects of any kind
            and objects.alike(self._settled, *_WATCHED)
        )
        if unchanged and (self._due is None or now < self._due):
            return ()
        effects = [*_namespaces(objects), *_budgets(objects), *_classes(objects), *endpoints(objects)]
        effects += self._quotas(objects)
        self._due = None
        if any(objects.of_kind(*kind) for kind in (*_SETS, _BATCH)):
            family = Family.of(objects, (*_SETS, _BATCH))
            for owner, tend in _owners(objects, family):
                try:
                    effects += tend(owner, now)
                except InputError:
                    continue  # `workloads` says what is wrong with it
            self._due = min((end for end in _ends(objects, family) if end > now), default=None)
        if not effects:
            self._settled = objects
        return effects

    def due(self) -> float | None:
        return self._due


def _owners(objects: Objects, family: Family) -> Iterator[tuple[Owner, _Tend]]:
    for kind, tend in _TENDED.items():
        for path in objects.of_kind(*kind):
            namespace, _, name = path.rpartition("/")
            raw = objects.raw(Key(*kind, namespace, name))
            if raw is not None:
                yield Owner(raw, family), tend


def _classes(objects: Objects) -> Iterator[Effect]:
    """Claims that name no class, not even none, get the default one where there is one."""
    classes = objects.every(StorageClass)
    usual = [
        name
        for name, storage_class in classes.items()
        if storage_class.metadata.annotations.get(_DEFAULT_CLASS) == "true"
    ]
    if not usual:
        return
    for claim in objects.every(PersistentVolumeClaim).values():
        raw = objects.raw(key_of(claim))
        spec = raw.get("spec") if raw is not None else None
        if raw is None or not isinstance(spec, dict) or "storageClassName" in spec or spec.get("volumeName"):
            continue
        yield Update(key_of(claim), {**raw, "spec": {**spec, "storageClassName": usual[0]}})


# Sets of pods that run on.


def _deployment(owner: Owner, now: float) -> Iterator[Effect]:
    """The newest ReplicaSet grows and the others shrink, as fast as the strategy allows."""
    spec = owner.spec
    replicas = spec.count("replicas", 1)
    template = spec.at("template").raw
    sets = [Owner(raw, owner.family) for raw in _owned(owner, "ReplicaSet")]
    if not sets or not template:
        return
    fresh = next((replica_set for replica_set in sets if _template(replica_set) == _template(owner)), None)
    old = [replica_set for replica_set in sets if replica_set is not fresh]
    if fresh is None:
        if not spec.flag("paused"):
            yield Create(_replica_set(owner, template))
        return
    yield from _revisions(owner, sets, fresh)
    yield from _resized(spec, fresh, old, replicas)
    empty = sorted(
        (old_set for old_set in old if not old_set.spec.count("replicas", 1) and not list(old_set.pods())),
        key=_revision,
    )
    for old_set in empty[: max(len(empty) - spec.number("revisionHistoryLimit", _HISTORY), 0)]:
        yield Delete(_key(old_set))
    live: list[Pod] = []
    for replica_set in sets:
        live.extend(_live(replica_set))
    yield from _told(owner, _set_status(owner, live, list(_live(fresh)), replicas, now))


def _resized(spec: Fields, fresh: Owner, old: Sequence[Owner], replicas: int) -> Iterator[Effect]:
    """The old ReplicaSets of a Deployment smaller, and the newest one larger, within what its strategy allows."""
    ready = sum(map(is_ready, _live(fresh)))
    surge, missing = _bounds(spec, replicas)
    kept_replicas = 0 if spec.at("strategy").text("type") == "Recreate" else max(replicas - missing - ready, 0)
    for old_set in sorted(old, key=lambda replica_set: natural(replica_set.name)):
        size = old_set.spec.count("replicas", 1)
        target = min(size, kept_replicas)
        kept_replicas -= target
        if target != size:
            yield _scaled(old_set, target)
    old_replicas = sum(old_set.spec.count("replicas", 1) for old_set in old)
    target = (
        replicas
        if not old_replicas
        else max(min(replicas, replicas + surge - old_replicas), fresh.spec.count("replicas", 1))
    )
    if fresh.spec.count("replicas", 1) != min(target, replicas):
        yield _scaled(fresh, min(target, replicas))


def _revisions(owner: Owner, sets: Sequence[Owner], fresh: Owner) -> Iterator[Effect]:
    """Number the sets in the order in which they became the newest, for `kubectl rollout`."""
    last_revision = (
        max(_revision(replica_set) for replica_set in sets if replica_set is not fresh) if len(sets) > 1 else 0
    )
    number = _revision(fresh)
    if number <= last_revision:
        number = last_revision + 1
        yield PatchStatus(_key(fresh), {}, {_REVISION: str(number)})
    if owner.annotations.get(_REVISION) != str(number):
        yield PatchStatus(_key(owner), {}, {_REVISION: str(number)})


def _revision(owner: Owner) -> int:
    return read_number(owner.annotations.get(_REVISION, "")) or 0


def _replica_set(owner: Owner, template: Raw) -> Raw:
    """A set for a template that has none yet; it begins empty."""
    mark = {_HASH: digest(template)}
    meta = Fields(template).at("metadata")
    labels = meta.texts("labels") | mark
    selector = owner.spec.at("selector")
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner.name, "uid": owner.uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{owner.name}-{mark[_HASH]}",
            "namespace": owner.namespace,
            "labels": labels,
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": 0,
            "selector": {**selector.raw, "matchLabels": selector.texts("matchLabels") | mark},
            "template": {**template, "metadata": {**meta.raw, "labels": labels}},
        },
    }


def _template(owner: Owner) -> object:
    """The template of a Deployment, or of a ReplicaSet of it: the same where one was made from the other."""
    template = owner.spec.at("template")
    labels = {key: value for key, value in template.at("metadata").texts("labels").items() if key != _HASH}
    return _said({**template.raw, "metadata": {**template.at("metadata").raw, "labels": labels}})


def _said(value: object) -> object:
    """Value without nulls and empty maps, which clients add freely."""
    if isinstance(value, dict):
        inner = {name: _said(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item is not None and item != {}}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return value


def _bounds(spec: Fields, replicas: int) -> tuple[int, int]:
    """How many pods more, and how many fewer, a rollout may have."""
    rolling = spec.at("strategy", "rollingUpdate")
    surge = _part(rolling.raw.get("maxSurge", "25%"), replicas, up=True)
    missing = _part(rolling.raw.get("maxUnavailable", "25%"), replicas, up=False)
    return surge, missing if surge or missing else 1


def _part(value: object, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total."""
    percent = read_number(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if percent is not None and percent >= 0:
        exact = total * percent / 100
        return math.ceil(exact) if up else math.floor(exact)
    return value if isinstance(value, int) else 0


def _replicas(owner: Owner, now: float) -> Iterator[Effect]:
    """Yield the deletion of each pod beyond the workload's replicas, then what brings its status up to date.

    Waiting pods go first, then those that are not ready, then those whose names come last. It creates nothing.
    """
    replicas = owner.spec.count("replicas", 1)
    live = list(_live(owner))
    order = sorted(live, key=lambda pod: (bool(pod.spec.node_name), is_ready(pod), _reversed(pod.metadata.name)))
    for pod in order[: max(len(live) - replicas, 0)]:
        yield Delete(key_of(pod))
    yield from _told(owner, _set_status(owner, live, live, replicas, now))


def _reversed(name: str) -> tuple[int, ...]:
    """Sorts later names first."""
    return tuple(-ord(letter) for letter in name)


def _stateful(owner: Owner, now: float) -> Iterator[Effect]:
    start = owner.spec.at("ordinals").number("start", 0)
    replicas = owner.spec.count("replicas", 1)
    live = list(_live(owner))
    named = {f"{owner.name}-{index}" for index in range(start, start + replicas)}
    revision = f"{owner.name}-{digest(owner.spec.at('template').raw)}"
    stale = [pod for pod in live if pod.metadata.labels.get("controller-revision-hash", revision) != revision]
    for pod in live:
        if pod.metadata.name not in named:
            yield Delete(key_of(pod))
    if stale and owner.spec.at("updateStrategy").text("type") != "OnDelete":
        last_pod = max(stale, key=lambda pod: natural(pod.metadata.name))
        if last_pod.metadata.name in named and all(map(is_ready, (pod for pod in live if pod is not last_pod))):
            yield Delete(key_of(last_pod))
    status = _set_status(owner, live, [pod for pod in live if pod not in stale], replicas, now)
    yield from _told(owner, {**status, "currentReplicas": len(live), "updateRevision": revision})


def _daemons(owner: Owner, now: float) -> Iterator[Effect]:
    live = list(_live(owner))
    ready = sum(map(is_ready, live))
    status: Raw = {
        "observedGeneration": _generation(owner),
        "desiredNumberScheduled": len(live),
        "currentNumberScheduled": sum(bool(pod.spec.node_name) for pod in live),
        "updatedNumberScheduled": len(live),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberMisscheduled": 0,
        "numberUnavailable": len(live) - ready,
    }
    yield from _told(owner, status)


def _set_status(owner: Owner, live: Sequence[Pod], updated: Sequence[Pod], replicas: int, now: float) -> Raw:
    ready = sum(map(is_ready, live))
    status: Raw = {
        "observedGeneration": _generation(owner),
        "replicas": len(live),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    if owner.kind == "ReplicaSet":
        return status | {"fullyLabeledReplicas": len(live)}
    status["updatedReplicas"] = len(updated)
    if owner.kind == "Deployment":
        enough = ready >= replicas - _bounds(owner.spec, replicas)[1]
        done = ready >= replicas and len(updated) == len(live) == replicas
        status["unavailableReplicas"] = max(replicas - ready, 0)
        available = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        short = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        moving = ("NewReplicaSetAvailable", "the newest ReplicaSet has all its pods")
        waits = ("ReplicaSetUpdated", "the newest ReplicaSet waits for pods")
        status["conditions"] = [
            _condition(owner, "Available", *(available if enough else short), holds=enough, now=now),
            _condition(owner, "Progressing", *(moving if done else waits), holds=True, now=now),
        ]
    return status


def _condition(owner: Owner, kind: str, reason: str, message: str, *, holds: bool, now: float) -> Raw:
    """A line of the status, since when it holds."""
    word = "True" if holds else "False"
    condition = next((c for c in owner.fields.at("status").each("conditions") if c.text("type") == kind), Fields({}))
    since = condition.text("lastTransitionTime") if condition.text("status") == word else ""
    changed = condition.text("lastUpdateTime") if condition.text("reason") == reason else ""
    return {
        "type": kind,
        "status": word,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or stamp(now),
        "lastUpdateTime": changed or stamp(now),
    }


# Jobs of batch/v1.


def _ended_job(owner: Owner, finished: str, pods: Sequence[Pod], now: float) -> Iterator[Effect]:
    """Deletions of a finished Job and its pods once its time to live is over."""
    ttl = owner.spec.raw.get("ttlSecondsAfterFinished")
    if isinstance(ttl, int) and finished and now >= parse_time(finished) + ttl:
        yield Delete(_key(owner))
        yield from (Delete(key_of(pod)) for pod in pods)


def _has_succeeded(spec: Fields, succeeded: int, active: int) -> bool:
    """Whether enough pods have succeeded; a work queue is done once one has and none is active."""
    completions = spec.raw.get("completions")
    if not isinstance(completions, int):
        completions = 1 if spec.raw.get("parallelism") is None else 0
    if completions:
        return succeeded >= completions
    return bool(succeeded) and not active


def _job_failure(spec: Fields, failed: int, seconds: float) -> tuple[str, str]:
    """Reason and text if a Job has failed after so many failed pods and seconds, else two empty texts."""
    if failed > spec.number("backoffLimit", 6):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = spec.raw.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and seconds >= deadline:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return "", ""


def _true_conditions(status: Fields) -> set[str]:
    """Types of the conditions that hold."""
    return {condition.text("type") for condition in status.each("conditions") if condition.text("status") == "True"}


def _job(owner: Owner, now: float) -> Iterator[Effect]:
    """How many pods of a Job run and have ended, and whether it is over."""
    spec = owner.spec
    status = owner.fields.at("status")
    over = {"Complete", "Failed"} & _true_conditions(status)
    pods = list(owner.pods())
    if over:
        yield from _ended_job(owner, status.text("completionTime") or _since(status, over), pods, now)
        return
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    active = [pod for pod in pods if not pod.status.ended and not pod.metadata.deletion_timestamp]
    told: Raw = {
        "startTime": status.text("startTime") or stamp(now),
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "succeeded": succeeded,
        "failed": failed,
    }
    if _has_succeeded(spec, succeeded, len(active)):
        told["completionTime"] = stamp(now)
        told["conditions"] = [_condition(owner, "Complete", "CompletionsReached", "", holds=True, now=now)]
    else:
        reason, text = _job_failure(spec, failed, now - parse_time(str(told["startTime"])))
        if reason:
            told["conditions"] = [_condition(owner, "Failed", reason, text, holds=True, now=now)]
            yield from (Delete(key_of(pod)) for pod in active)
    if spec.flag("suspend"):
        yield from (Delete(key_of(pod)) for pod in active)
    else:
        parallel = spec.count("parallelism", 1)
        yield from (Delete(key_of(pod)) for pod in active[parallel:])
    yield from _told(owner, told)


def _since(status: Fields, kinds: Iterable[str]) -> str:
    return next((c.text("lastTransitionTime") for c in status.each("conditions") if c.text("type") in kinds), "")


def _ends(objects: Objects, family: Family) -> Iterator[float]:
    """When time alone ends a Job, or removes one that is over."""
    for path in objects.of_kind(*_BATCH):
        namespace, _, name = path.rpartition("/")
        job = Owner(objects.raw(Key(*_BATCH, namespace, name)) or {}, family)
        try:
            status = job.fields.at("status")
            spec = job.spec
            ended = []
            for c in status.each("conditions"):
                if c.text("status") == "True":
                    ended.append(c.text("type"))
            finished = status.text("completionTime") or _since(status, {"Failed"} & set(ended))
            limit = spec.raw.get("ttlSecondsAfterFinished") if finished else spec.raw.get("activeDeadlineSeconds")
            begun = finished or status.text("startTime")
            if isinstance(limit, int) and begun:
                yield parse_time(begun) + limit
        except (InputError, ValueError):
            continue


# Budgets and namespaces.


def budget_status(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> Raw:
    """Counts of a budget: pods expected, required healthy, healthy, and allowed to be disrupted."""
    namespace = budget.metadata.namespace or "default"
    spec = budget.spec
    meant = [
        pod
        for pod in pods
        if (pod.metadata.namespace or "default") == namespace
        and matches(spec.selector, pod.metadata.labels)
        and not pod.status.ended
    ]
    healthy = sum(is_ready(pod) and not pod.metadata.deletion_timestamp for pod in meant)
    expected = len(meant)
    if spec.max_unavailable is not None:
        desired = max(expected - _part(spec.max_unavailable, expected, up=True), 0)
    else:
        desired = _part(spec.min_available if spec.min_available is not None else 1, expected, up=True)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(healthy - desired, 0) if expected else 0,
    }


def _budgets(objects: Objects) -> Iterator[Effect]:
    for budget in objects.every(PodDisruptionBudget).values():
        raw = objects.raw(key_of(budget)) or {}
        status = budget_status(budget, objects.every(Pod).values())
        current = raw.get("status")
        if not isinstance(current, dict) or not status.items() <= current.items():
            yield PatchStatus(key_of(budget), status)


def _namespaces(objects: Objects) -> Iterator[Effect]:
    """Deletions of everything in a terminating namespace, then of the namespace."""
    leaving = {name for name, namespace in objects.every(Namespace).items() if namespace.metadata.deletion_timestamp}
    if not leaving:
        return
    full: set[str] = set()
    for key in objects:
        if key.namespace in leaving:
            full.add(key.namespace)
            record = objects.record(key)
            if record is not None and not (key.kind == "Pod" and record.metadata.deletion_timestamp):
                yield Delete(key)
    yield from (Delete(Key("", "Namespace", "", name)) for name in sorted(leaving - full))


def _owned(owner: Owner, kind: str) -> list[Raw]:
    """The manifests of the workloads of one kind that a workload owns."""
    raws = []
    for record in owner.children():
        if not isinstance(record, Pod) and key_of(record).kind == kind:
            key = Key("apps", kind, owner.namespace, record.metadata.name)
            raw = owner.family.raw(key)
            raws += [raw] if raw is not None else []
    return raws


def _live(owner: Owner) -> Iterator[Pod]:
    return (pod for pod in owner.pods() if not pod.status.ended and not pod.metadata.deletion_timestamp)


def _generation(owner: Owner) -> int:
    return owner.fields.at("metadata").number("generation", 1)


def _key(owner: Owner) -> Key:
    return Key(str(owner.raw["apiVersion"]).rpartition("/")[0], owner.kind, owner.namespace, owner.name)


def _scaled(owner: Owner, replicas: int) -> Effect:
    return Update(_key(owner), {**owner.raw, "spec": {**owner.spec.raw, "replicas": replicas}})


def _told(owner: Owner, status: Raw) -> Iterator[Effect]:
    """The status, where it says something else than before."""
    if not status.items() <= owner.fields.at("status").raw.items():
        yield PatchStatus(_key(owner), status)


_Tend = Callable[[Owner, float], Iterable[Effect]]
_TENDED: Final[Mapping[tuple[str, str], _Tend]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replicas,
    ("", "ReplicationController"): _replicas,
    ("apps", "StatefulSet"): _stateful,
    ("apps", "DaemonSet"): _daemons,
    _BATCH: _job,
}
