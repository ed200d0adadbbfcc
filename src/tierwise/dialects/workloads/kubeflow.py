"""Kubeflow's jobs: replicas by type (PyTorchJob and its siblings), MPIJobs, and TrainJobs, which are JobSets.

All of them are gangs, as the operators write them once a gang scheduler is chosen: a part of a training trains
nothing. `runPolicy.schedulingPolicy`, or the `podGroupPolicy` of a runtime, says more about the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.gangs import Gang, in_gang, queue
from tierwise.port import Key

__all__ = ["jax_job", "mpi_job", "paddle_job", "pytorch_job", "tf_job", "train_job", "xgboost_job"]

_TRAINING: Final = "training.kubeflow.org"


# Jobs of the training operator.


def _by_replica_type(field: str, operator: str) -> Callable[[Owner], Expansion]:
    """A kind whose replicas are by type in one field: pods named by type and index."""

    def expand(owner: Owner) -> Expansion:
        types = _replica_types(owner, field)
        idle = _idle(owner)
        if idle is not None:
            return idle
        children = []
        for kind, entry, number in types:
            for index in range(number):
                children.append(_replica(owner, entry, kind.lower(), index, operator))
        roles = []
        for kind, _, number in types:
            for _ in range(number):
                roles.append(kind.lower())
        return Expansion(in_gang(owner, _gang(owner, len(children)), children, roles))

    return expand


pytorch_job = _by_replica_type("pytorchReplicaSpecs", "pytorchjob-controller")
tf_job = _by_replica_type("tfReplicaSpecs", "tfjob-controller")
xgboost_job = _by_replica_type("xgbReplicaSpecs", "xgboostjob-controller")
paddle_job = _by_replica_type("paddleReplicaSpecs", "paddlejob-controller")
jax_job = _by_replica_type("jaxReplicaSpecs", "jaxjob-controller")


def _replica_types(owner: Owner, field: str) -> list[tuple[str, Fields, int]]:
    """Types in the order of their writing, with how many of each."""
    specs = owner.spec.at(field)
    replica_types = [
        (kind, entry, entry.count("replicas", 1)) for kind, entry in ((kind, specs.at(kind)) for kind in specs.raw)
    ]
    few(owner.spec, field, sum(number for _, _, number in replica_types))
    if not replica_types:
        raise NoTemplateError("it has no pod template", field=specs.path)
    for _, entry, _ in replica_types:
        pod(owner, entry.at("template"), owner.name)  # or it is refused
    return replica_types


def _idle(owner: Owner) -> Expansion | None:
    """Expansion of a job that makes nothing now (suspended, over, or managed by another controller), else None."""
    policy = owner.spec.at("runPolicy")
    if owner.suspended(policy, owner.spec):
        return Expansion(note="it is suspended")
    manager = policy.text("managedBy") or owner.spec.text("managedBy")
    if manager and not manager.startswith(("kubeflow.org/", "trainer.kubeflow.org/")):
        return Expansion(note=f"it is managed by {manager}")
    if owner.conditions & {"Succeeded", "Failed", "Complete"}:
        return Expansion()
    return None


def _replica(owner: Owner, entry: Fields, kind: str, index: int, operator: str) -> Child:
    labels = {
        f"{_TRAINING}/job-name": owner.name,
        f"{_TRAINING}/operator-name": operator,
        f"{_TRAINING}/replica-type": kind,
        f"{_TRAINING}/replica-index": str(index),
    }
    if kind in ("master", "chief") or (kind == "worker" and index == 0 and owner.kind == "JAXJob"):
        labels[f"{_TRAINING}/job-role"] = "master"
    return pod(owner, entry.at("template"), f"{owner.name}-{kind}-{index}", labels=labels)


def _gang(owner: Owner, pods: int) -> Gang:
    """The group of a job: all its pods, unless its scheduling policy says otherwise."""
    policy = owner.spec.at("runPolicy", "schedulingPolicy")
    return Gang(
        owner.name,
        min(policy.count("minAvailable", pods), pods) or pods,
        queue=policy.text("queue"),
        priority_class=policy.text("priorityClass"),
        timeout=policy.number("scheduleTimeoutSeconds", 0) if "scheduleTimeoutSeconds" in policy.raw else None,
    )


# MPIJobs: workers, and a launcher in a Job of its own.


def mpi_job(owner: Owner) -> Expansion:
    """Worker pods, and a Job for the launcher; all at once, whatever the launcher waits for when it starts."""
    types = {kind.lower(): (entry, number) for kind, entry, number in _replica_types(owner, "mpiReplicaSpecs")}
    idle = _idle(owner)
    if idle is not None:
        return idle
    worker, number = types.get("worker", (Fields({}), 0))
    launcher, launchers = types.get("launcher", (Fields({}), 0))
    first_index = 1 if owner.spec.flag("runLauncherAsWorker") else 0
    children = [_of_mpi(owner, worker, "worker", index, first_index) for index in range(number)]
    # The pod of the launcher is made by its Job, and has its marks from there.
    launch = [_of_mpi(owner, launcher, "launcher", 0, 0)] if launchers else []
    placed = in_gang(
        owner,
        _gang(owner, number + len(launch)),
        children + launch,
        [*["worker"] * number, *["launcher"] * len(launch)],
    )
    return Expansion([_launched(owner, child, launcher) for child in placed])


def _of_mpi(owner: Owner, entry: Fields, role: str, index: int, first_index: int) -> Child:
    labels = {
        f"{_TRAINING}/job-name": owner.name,
        f"{_TRAINING}/operator-name": "mpi-operator",
        f"{_TRAINING}/job-role": role,
        f"{_TRAINING}/replica-type": role,
    }
    if role == "worker":
        labels[f"{_TRAINING}/replica-index"] = str(index + first_index)
        return pod(owner, entry.at("template"), f"{owner.name}-worker-{index}", labels=labels)
    return pod(owner, entry.at("template"), f"{owner.name}-launcher", labels=labels)


def _launched(owner: Owner, child: Child, launcher: Fields) -> Child:
    """A launcher as the Job that makes it; any other child as it is."""
    meta = child.raw["metadata"]
    spec = child.raw["spec"]
    assert isinstance(meta, dict)
    assert isinstance(spec, dict)
    if child.raw["kind"] != "Pod" or meta["name"] != f"{owner.name}-launcher":
        return child
    marks = {field: meta.get(field, {}) for field in ("labels", "annotations")}
    policy = owner.spec.at("runPolicy")
    body: Raw = {"template": {"metadata": marks, "spec": {"restartPolicy": "OnFailure", **spec}}}
    if "backoffLimit" in policy.raw:
        body["backoffLimit"] = policy.number("backoffLimit", 6)
    job = named(owner, "batch/v1", "Job", f"{owner.name}-launcher", {"spec": body}, labels=marks["labels"])
    return Child(job, f"{launcher.path}.template")


# TrainJobs: the JobSet of a runtime, with the trainer's own words in it.


_TRAINER: Final = "trainer.kubeflow.org"
_STEP: Final = f"{_TRAINER}/trainjob-ancestor-step"


def train_job(owner: Owner) -> Expansion:
    """A JobSet from the runtime that it names; from the common form of runtimes where that one is not at hand.

    The common form is one replicated job "node" with a pod for each node.
    """
    idle = _idle(owner)
    trainer = owner.spec.at("trainer")
    if not owner.spec.at("runtimeRef") and not trainer:
        raise NoTemplateError("it has no pod template", field="spec.runtimeRef")
    runtime = _runtime(owner)
    template = runtime.at("template", "spec")
    policy = runtime.at("mlPolicy")
    number = trainer.count("numNodes", policy.count("numNodes", 1))
    if idle is not None:
        return idle
    jobs = [_with_trainer(entry, trainer, number, policy) for entry in template.each("replicatedJobs")]
    jobs = jobs or [_common_form(trainer, number)]
    jobs = [_patched(job, owner) for job in jobs]
    spec: Raw = {**template.raw, "replicatedJobs": jobs}
    pods = sum(_pods(Fields(job)) for job in jobs)
    groups = runtime.at("podGroupPolicy")
    gang = Gang(
        owner.name,
        few(owner.spec, "trainer", pods),
        queue=queue(owner),
        topology=groups.at("volcano", "networkTopology").raw,
        plugins="coscheduling" in groups.raw,
    )
    meta = runtime.at("template", "metadata")
    marks = {
        "labels": meta.texts("labels") | owner.labels,
        "annotations": meta.texts("annotations") | owner.annotations,
    }
    group, spec = _in_gang(owner, gang, spec)
    raw = named(owner, "jobset.x-k8s.io/v1alpha2", "JobSet", owner.name, {"spec": spec}, **marks)
    return Expansion([*group, Child(raw, template.path)])


def _runtime(owner: Owner) -> Fields:
    """The runtime that a job names; empty where it is not at hand."""
    ref = owner.spec.at("runtimeRef")
    kind = ref.text("kind", "ClusterTrainingRuntime")
    namespace = "" if kind == "ClusterTrainingRuntime" else owner.namespace
    raw = owner.family.raw(Key(_TRAINER, kind, namespace, ref.text("name")))
    if raw is not None:
        return Fields(raw).at("spec")
    return Fields({})


def _common_form(trainer: Fields, number: int) -> Raw:
    job: Raw = {
        "name": "node",
        "template": {
            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": trainer.text("image")}]}}}
        },
    }
    entry = Fields(job)
    return _trained(entry, trainer, number)


def _with_trainer(entry: Fields, trainer: Fields, number: int, policy: Fields) -> Raw:
    """A replicated job of a runtime: the one that trains has as many pods as the job has nodes, and what they need."""
    step = entry.at("template", "metadata").texts("labels").get(_STEP, "")
    name = entry.text("name")
    if policy.at("mpi") and name == "node":
        # With MPI the launcher may be one of the nodes.
        worker_count = number - 1 if policy.at("mpi").flag("runLauncherAsNode") else number
        return _trained(entry, trainer, worker_count)
    if step == "trainer" and not policy.at("mpi"):
        return _trained(entry, trainer, number)
    return entry.raw


def _trained(entry: Fields, trainer: Fields, number: int) -> Raw:
    inner = entry.at("template", "spec")
    pods = inner.at("template")
    needs = trainer.at("resourcesPerNode").raw
    containers = [
        {**container.raw, **({"resources": needs} if needs and container.text("name") == "node" else {})}
        for container in pods.at("spec").each("containers")
    ]
    spec = {**pods.at("spec").raw, "containers": containers}
    body = {**inner.raw, "parallelism": number, "completions": number, "template": {**pods.raw, "spec": spec}}
    return {**entry.raw, "template": {**entry.at("template").raw, "spec": body}}


_PATCHED: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates", "volumes")


def _patched(job: Raw, owner: Owner) -> Raw:
    """A replicated job with what the TrainJob changes of its pods, as far as scheduling sees it."""
    entry = Fields(job)
    inner = entry.at("template", "spec")
    pods = inner.at("template")
    for patch in _patches(owner, entry.text("name")):
        spec_fields = {}
        for field in _PATCHED:
            if field in patch.at("spec").raw:
                spec_fields[field] = patch.at("spec").raw[field]
        meta = pods.at("metadata")
        marks = {}
        for field in ("labels", "annotations"):
            if meta.texts(field) or patch.at("metadata").texts(field):
                marks[field] = meta.texts(field) | patch.at("metadata").texts(field)
        changed: Raw = {"metadata": meta.raw | marks, "spec": pods.at("spec").raw | spec_fields}
        pods = Fields(pods.raw | changed, pods.path)
    return {**job, "template": {**entry.at("template").raw, "spec": {**inner.raw, "template": pods.raw}}}


def _patches(owner: Owner, job: str) -> Iterator[Fields]:
    """Pod templates to be laid over those of a replicated job: by runtimePatches, or by podTemplateOverrides before."""
    for patch in owner.spec.each("runtimePatches"):
        for entry in patch.at("trainingRuntimeSpec", "template", "spec").each("replicatedJobs"):
            if entry.text("name") == job:
                yield entry.at("template", "spec", "template")
    for override in owner.spec.each("podTemplateOverrides"):
        if any(target.text("name") == job for target in override.each("targetJobs")):
            yield override


def _pods(job: Fields) -> int:
    return job.count("replicas", 1) * job.at("template", "spec").count("parallelism", 1)


def _in_gang(owner: Owner, gang: Gang, spec: Raw) -> tuple[list[Child], Raw]:
    """The group, and the JobSet whose pods will be in it."""
    jobs = list(Fields(spec).each("replicatedJobs"))
    examples = [pod(owner, job.at("template", "spec", "template"), f"{owner.name}-{i}") for i, job in enumerate(jobs)]
    placed = in_gang(owner, gang, examples)
    if len(placed) == len(examples):
        return [], spec
    new = [_marked(job, child.raw) for job, child in zip(jobs, placed[1:], strict=True)]
    return placed[:1], {**spec, "replicatedJobs": new}


def _marked(job: Fields, example: Raw) -> Raw:
    """A replicated job whose pods have the marks of an example."""
    inner = job.at("template", "spec")
    meta = Fields(example).at("metadata")
    pods = inner.at("template")
    marks = {}
    for field in ("labels", "annotations"):
        if field in meta.raw:
            marks[field] = meta.texts(field)
    template: Raw = pods.raw | {"metadata": pods.at("metadata").raw | marks}
    return {**job.raw, "template": {**job.at("template").raw, "spec": {**inner.raw, "template": template}}}
