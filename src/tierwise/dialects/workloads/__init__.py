"""Workloads of Kubernetes and of operators: which pods, and which group, the controller of each kind would write.

One row for each kind. The embedded cluster asks `children` where no such controller runs; on a real cluster
it is not asked. A workload may have others below it (a Deployment has a ReplicaSet), which have rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tierwise.api import codec
from tierwise.api.codec import Raw, api_group
from tierwise.api.errors import InputError
from tierwise.dialects.workloads import kubeflow, kubernetes, ray, sets
from tierwise.dialects.workloads.children import Child, Expansion, Family, NoTemplateError, Owner, missing
from tierwise.port import Key, Objects, key_of_raw

__all__ = ["NO_TEMPLATE", "READ_BESIDE", "WORKLOADS", "blank", "check", "checked", "children", "notes", "understood"]

WORKLOADS: Final[Mapping[tuple[str, str], Callable[[Owner], Expansion]]] = {
    ("apps", "Deployment"): kubernetes.deployment,
    ("apps", "ReplicaSet"): kubernetes.replica_set,
    ("apps", "StatefulSet"): kubernetes.stateful_set,
    ("apps", "DaemonSet"): kubernetes.daemon_set,
    ("batch", "CronJob"): kubernetes.cron_job,
    ("trainer.kubeflow.org", "TrainJob"): kubeflow.train_job,
    ("kubeflow.org", "PyTorchJob"): kubeflow.by_replica_type("pytorchReplicaSpecs", "pytorchjob-controller"),
    ("kubeflow.org", "TFJob"): kubeflow.by_replica_type("tfReplicaSpecs", "tfjob-controller"),
    ("kubeflow.org", "XGBoostJob"): kubeflow.by_replica_type("xgbReplicaSpecs", "xgboostjob-controller"),
    ("kubeflow.org", "PaddleJob"): kubeflow.by_replica_type("paddleReplicaSpecs", "paddlejob-controller"),
    ("kubeflow.org", "JAXJob"): kubeflow.by_replica_type("jaxReplicaSpecs", "jaxjob-controller"),
    ("kubeflow.org", "MPIJob"): kubeflow.mpi_job,
    ("ray.io", "RayJob"): ray.ray_job,
    ("ray.io", "RayService"): ray.ray_service,
    ("ray.io", "RayCluster"): ray.ray_cluster,
    ("jobset.x-k8s.io", "JobSet"): sets.job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): sets.leader_worker_set,
    ("batch", "Job"): kubernetes.job,
}
"""What becomes of an object, by API group and kind."""

READ_BESIDE: Final[frozenset[tuple[str, str]]] = frozenset(kubeflow.RUNTIMES)
"""Kinds that make nothing themselves, and are read for those that do."""


NO_TEMPLATE: Final = "it has no pod template"
"""The note of an object that is there to be named as an owner: nothing can be made of it."""


def understood(group: str, kind: str) -> bool:
    """Whether something is made of objects of a kind, here or by others."""
    return (group, kind) in WORKLOADS or (group, kind) in READ_BESIDE


def children(objects: Objects) -> Iterator[Raw]:
    """The manifests of all children of all workloads that are missing; InputError where a workload cannot be read."""
    if not objects.any_of(WORKLOADS):
        return
    family = Family.of(objects, WORKLOADS)
    for owner, expand in _owners(objects, family):
        if not owner.fields.at("metadata").text("deletionTimestamp"):
            yield from missing(owner, _expanded(owner, expand).children)


def notes(objects: Objects) -> Iterator[tuple[Key, str]]:
    """Workloads that make no pods for the time being, and why."""
    for owner, expand in _owners(objects, Family(objects)):
        note = _expanded(owner, expand).note
        if note:
            yield key_of_raw(owner.raw), note


def blank(raw: Raw) -> bool:
    """Whether nothing can be made of a workload; InputError where it cannot be read."""
    expand = WORKLOADS.get((api_group(str(raw["apiVersion"])), str(raw["kind"])))
    return expand is not None and _expanded(Owner(raw), expand).note == NO_TEMPLATE


def check(raw: Raw) -> dict[str, Raw]:
    """Raise InputError for a workload of which no pods can be made; else an example of its pods by template."""
    expand = WORKLOADS.get((api_group(str(raw["apiVersion"])), str(raw["kind"])))
    if expand is None:
        return {}
    owner = Owner(raw)
    first: dict[str, Child] = {}
    for child in _expanded(owner, expand).children:
        first.setdefault(child.template, child)
    examples: dict[str, Raw] = {}
    for template, child in first.items():
        examples |= _check_child(owner, template, child.raw)
    return examples


def _check_child(owner: Owner, template: str, raw: Raw) -> dict[str, Raw]:
    """A child that cannot be decoded is the template's fault."""
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    try:
        codec.decode({**raw, "metadata": {**meta, "name": str(meta["name"]).rstrip("-")}})
        inner = {"": raw} if raw["kind"] == "Pod" else check(raw)
    except InputError as error:
        field = ".".join(part for part in (template, error.field) if part)
        raise InputError(error.message, obj=_shown(owner), field=field) from None
    return {".".join(part for part in (template, field) if part): pod for field, pod in inner.items()}


def checked(objects: Objects) -> Iterator[tuple[str, str, Raw]]:
    """Every template of every workload: whose it is, its field, and an example of its pods."""
    for owner, _ in _owners(objects, Family(objects)):
        for field, pod in check(owner.raw).items():
            yield _shown(owner), field, pod


def _owners(objects: Objects, family: Family) -> Iterator[tuple[Owner, Callable[[Owner], Expansion]]]:
    for (group, kind), expand in WORKLOADS.items():
        for path in objects.of_kind(group, kind):
            namespace, _, name = path.rpartition("/")
            raw = objects.raw(Key(group, kind, namespace, name))
            if raw is not None:
                yield Owner(raw, family), expand


def _expanded(owner: Owner, expand: Callable[[Owner], Expansion]) -> Expansion:
    try:
        return expand(owner)
    except NoTemplateError:
        return Expansion(note=NO_TEMPLATE)
    except InputError as error:
        raise error.inside(obj=_shown(owner)) from None


def _shown(owner: Owner) -> str:
    return f"{owner.kind} {owner.namespace}/{owner.name}"
