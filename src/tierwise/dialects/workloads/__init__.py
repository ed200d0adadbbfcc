"""Workloads of Kubernetes and of operators: which pods, and which group, the controller of each kind would write.

One row for each kind. The embedded cluster asks `children` where no such controller runs; on a real cluster
it is not asked. A workload may have others below it (a Deployment has a ReplicaSet), which have rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from tierwise.api import codec, field_names
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects.language import loaded
from tierwise.dialects.workloads.children import (
    Child,
    Expansion,
    Family,
    NoTemplateError,
    Owner,
    missing,
    with_containers,
)
from tierwise.dialects.workloads.fields import Fields
from tierwise.dialects.workloads.operated import operated
from tierwise.dialects.workloads.room import Room
from tierwise.port import Key, Objects, key_of_raw

__all__ = [
    "ELSEWHERE",
    "READ_BESIDE",
    "WORKLOADS",
    "NoTemplateError",
    "Room",
    "check",
    "checked",
    "children",
    "notes",
    "understood",
    "waits",
]

WORKLOADS: Final[Mapping[tuple[str, str], str]] = {
    ("apps", "Deployment"): "kubernetes:deployment",
    ("apps", "ReplicaSet"): "kubernetes:replica_set",
    ("", "ReplicationController"): "kubernetes:replica_set",
    ("apps", "StatefulSet"): "kubernetes:stateful_set",
    ("apps", "DaemonSet"): "kubernetes:daemon_set",
    ("batch", "CronJob"): "kubernetes:cron_job",
    ("trainer.kubeflow.org", "TrainJob"): "kubeflow:train_job",
    ("kubeflow.org", "PyTorchJob"): "kubeflow:pytorch_job",
    ("kubeflow.org", "TFJob"): "kubeflow:tf_job",
    ("kubeflow.org", "XGBoostJob"): "kubeflow:xgboost_job",
    ("kubeflow.org", "PaddleJob"): "kubeflow:paddle_job",
    ("kubeflow.org", "JAXJob"): "kubeflow:jax_job",
    ("kubeflow.org", "MPIJob"): "kubeflow:mpi_job",
    ("ray.io", "RayJob"): "ray:ray_job",
    ("ray.io", "RayService"): "ray:ray_service",
    ("ray.io", "RayCluster"): "ray:ray_cluster",
    ("jobset.x-k8s.io", "JobSet"): "sets:job_set",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "sets:leader_worker_set",
    ("workloads.x-k8s.io", "RoleBasedGroup"): "rbg:role_based_group",
    ("workload.serving.volcano.sh", "ModelServing"): "kthena:model_serving",
    ("orchestration.aibrix.ai", "StormService"): "aibrix:storm_service",
    ("orchestration.aibrix.ai", "RoleSet"): "aibrix:role_set",
    ("nvidia.com", "DynamoGraphDeployment"): "dynamo:dynamo_graph_deployment",
    ("grove.io", "PodCliqueSet"): "grove:pod_clique_set",
    ("serving.kserve.io", "InferenceService"): "kserve:inference_service",
    ("batch", "Job"): "kubernetes:job",
}
"""What says what becomes of an object, by API group and kind: a module of this folder, which is imported on use."""

READ_BESIDE: Final = frozenset(
    {
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org", "TrainingRuntime"),
        ("grove.io", "ClusterTopologyBinding"),
        ("grove.io", "ClusterTopology"),
        ("serving.kserve.io", "ServingRuntime"),
        ("serving.kserve.io", "ClusterServingRuntime"),
    }
)
"""Kinds that make nothing themselves, and are read for those that do."""


ELSEWHERE: Final[Mapping[tuple[str, str], str]] = {
    ("workloads.x-k8s.io", "RoleBasedGroupSet"): "a RoleBasedGroup for each replica",
    ("workloads.kserve.io", "RoleBasedGroup"): "a LeaderWorkerSet or a PodCliqueSet",
    ("sparkoperator.k8s.io", "SparkApplication"): "a Volcano Job of a driver and its executors",
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): "a Volcano Job of a driver and its executors",
    ("argoproj.io", "Workflow"): "the Jobs of its steps",
    ("argoproj.io", "CronWorkflow"): "the Jobs of its steps",
    ("argoproj.io", "Rollout"): "a Deployment",
    ("serving.kserve.io", "LLMInferenceService"): "a Deployment, or a LeaderWorkerSet where it spans nodes",
    ("serving.knative.dev", "Service"): "a Deployment",
    ("workload.serving.volcano.sh", "ModelBooster"): "the ModelServing that its controller makes",
    ("orchestration.aibrix.ai", "PodSet"): "a RoleSet, or a LeaderWorkerSet",
    ("flow.volcano.sh", "JobFlow"): "the Volcano Jobs of its steps",
    ("flow.volcano.sh", "JobTemplate"): "a Volcano Job",
    ("nvidia.com", "DynamoComponentDeployment"): "a Deployment, or a LeaderWorkerSet where it spans nodes",
    ("workload.codeflare.dev", "AppWrapper"): "the workloads inside it",
    ("apps.kruise.io", "CloneSet"): "a Deployment",
    ("apps.kruise.io", "StatefulSet"): "a StatefulSet of apps/v1",
    ("tekton.dev", "PipelineRun"): "the pods of its tasks, as Jobs",
    ("tekton.dev", "TaskRun"): "a Job",
    ("flink.apache.org", "FlinkDeployment"): "a Deployment for its managers and one for its workers",
}
"""Kinds whose controllers make pods, and which become none here: what to give instead."""


def understood(group: str, kind: str) -> bool:
    """Whether something is made of objects of a kind, here or by others."""
    return (group, kind) in WORKLOADS or (group, kind) in READ_BESIDE


def children(objects: Objects, room: Room | None = None) -> Iterator[Raw]:
    """Yield the manifests of the missing children of every workload that is not operated by something else and not
    being deleted. No more pods of a namespace than room allows; room notes who had to stop. InputError where a workload
    cannot be read.
    """
    if not objects.any_of(WORKLOADS):
        return
    family = Family.of(objects, WORKLOADS)
    room = room or Room(objects)
    operated_keys = operated(objects, WORKLOADS)
    for owner, expand in _owners(objects, family):
        if owner.key in operated_keys:
            continue
        if not owner.fields.at("metadata").text("deletionTimestamp"):
            expanded = _expanded(owner, expand).children
            yield from room.within(owner, expanded, missing(owner, expanded))


def notes(objects: Objects) -> Iterator[tuple[Key, str]]:
    """Workloads that make no pods for the time being, or none that may start, and why."""
    operated_keys = operated(objects, WORKLOADS)
    for owner, expand in _owners(objects, Family(objects)):
        expansion = _expanded(owner, expand)
        if owner.key in operated_keys:
            yield key_of_raw(owner.raw), "makes no pods: those of its own controller are here"
            continue
        if expansion.note:
            yield key_of_raw(owner.raw), f"makes no pods: {expansion.note}"
        if expansion.waits:
            yield key_of_raw(owner.raw), f"makes pods that wait: {expansion.waits}"


def waits(raw: Raw, objects: Objects | None = None) -> str:
    """Why the pods of a workload will wait whatever room there is; empty where nothing says so, or for other kinds."""
    key = key_of_raw(raw)
    workload = WORKLOADS.get((key.group, key.kind))
    if workload is not None:
        return _expanded(Owner(raw, Family(objects or Objects())), _expander(workload)).waits
    return ""


def check(raw: Raw, key: Key | None = None) -> dict[str, Raw]:
    """An example of the pods of a workload by template; InputError where no pods can be made of an object.

    The error names the field that is missing, and one beside it that is probably misspelt. What has a uid was stored by
    an API server, and is shown here without the parts that are not read. Whoever knows the key of the object gives it.
    """
    key = key_of_raw(raw) if key is None else key
    try:
        _check_pods(raw, key)
        return _examples(raw, key)
    except NoTemplateError as error:
        odd = next(field_names.unheard(raw, key.group, key.kind), None)
        if _is_stored(raw) or (key.kind == "Pod" and odd is None):
            return {}
        hint = f" ({': '.join(odd)})" if odd is not None else ""
        raise NoTemplateError(error.message + hint, obj=_shown(Owner(raw)), field=error.field) from None


def _check_pods(raw: Raw, key: Key) -> None:
    """Pods and the objects of other languages that say in a list what their pods are."""
    if (key.group, key.kind) == ("", "Pod"):
        with_containers(Fields(raw).at("spec"))
    listed = _LISTS.get((key.group, key.kind))
    if listed is not None:
        entries = list(Fields(raw).at("spec").each(listed))
        if not entries:
            raise NoTemplateError("at least one is needed", field=f"spec.{listed}")
        for entry in entries if listed == "tasks" else ():
            with_containers(entry.at("template", "spec"))


_LISTS: Final = {("batch.volcano.sh", "Job"): "tasks", ("scheduler.grove.io", "PodGang"): "podgroups"}


def _examples(raw: Raw, key: Key) -> dict[str, Raw]:
    workload = WORKLOADS.get((key.group, key.kind))
    if workload is None:
        return {}
    owner = Owner(raw)
    first_children: dict[str, Child] = {}
    expansion = _read(owner, _expander(workload))
    for child in expansion.examples or expansion.children:
        first_children.setdefault(child.template, child)
    examples: dict[str, Raw] = {}
    for template, child in first_children.items():
        examples |= _check_child(owner, template, child.raw)
    return examples


def _check_child(owner: Owner, template: str, raw: Raw) -> dict[str, Raw]:
    """A child that cannot be decoded is the template's fault."""
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    try:
        codec.decode({**raw, "metadata": {**meta, "name": str(meta["name"]).rstrip("-")}})
        inner = {"": raw} if raw["kind"] == "Pod" else _examples(raw, key_of_raw(raw))
    except InputError as error:
        raise type(error)(error.message, obj=_shown(owner), field=_below(template, error.field or "", raw)) from None
    return {_below(template, field, raw): pod for field, pod in inner.items()}


_SPEC_OF_OWNER: Final = ("PodGroup", "RayCluster")
"""Kinds of children whose whole spec is a field of the owner."""


def _below(template: str, field: str, child: Raw) -> str:
    """Where a field of a child is in its owner."""
    inner = field.removeprefix("spec.") if child["kind"] in _SPEC_OF_OWNER or template.endswith("Spec") else field
    return ".".join(part for part in (template, inner) if part)


def checked(objects: Objects) -> Iterator[tuple[str, str, Raw]]:
    """Every template of every workload that has one: whose it is, its field, and an example of its pods."""
    for owner, _ in _owners(objects, Family(objects)):
        with suppress(NoTemplateError):
            yield from ((_shown(owner), field, pod) for field, pod in check(owner.raw).items())


def _owners(objects: Objects, family: Family) -> Iterator[tuple[Owner, Callable[[Owner], Expansion]]]:
    for (group, kind), workload in WORKLOADS.items():
        for path in objects.of_kind(group, kind):
            namespace, _, name = path.rpartition("/")
            raw = objects.raw(Key(group, kind, namespace, name))
            if raw is not None:
                yield Owner(raw, family), _expander(workload)


def _expander(function: str) -> Callable[[Owner], Expansion]:
    return loaded(f"{__name__}.{function}")


def _expanded(owner: Owner, expand: Callable[[Owner], Expansion]) -> Expansion:
    try:
        return _read(owner, expand)
    except NoTemplateError as error:
        return Expansion(note=error.message)


def _read(owner: Owner, expand: Callable[[Owner], Expansion]) -> Expansion:
    try:
        return expand(owner)
    except InputError as error:
        raise error.inside(obj=_shown(owner)) from None


def _is_stored(raw: Raw) -> bool:
    return bool(Fields(raw).at("metadata").text("uid"))


def _shown(owner: Owner) -> str:
    return f"{owner.kind} {owner.namespace}/{owner.name}"
