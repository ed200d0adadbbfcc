"""InferenceServices of KServe: a Deployment for each of predictor, transformer and explainer; a second one for workers.

A predictor names containers, or a model that a ServingRuntime serves: the runtime that it names, or the one among the
objects whose formats have it. Where there is none, a pod asks for what the service itself says. A predictor with a
`workerSpec` spans nodes: its head and its workers are Deployments, as KServe makes them, and so start one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import read_number
from tierwise.dialects.workloads.children import Child, Expansion, NoTemplateError, Owner, named, pod
from tierwise.dialects.workloads.fields import Fields, few
from tierwise.dialects.workloads.templates import patched, with_marks
from tierwise.dialects.workloads.unread import Unread, marked
from tierwise.port import Key

__all__ = ["RUNTIMES", "inference_service"]

_KSERVE: Final = "serving.kserve.io"
RUNTIMES: Final = ((_KSERVE, "ServingRuntime"), (_KSERVE, "ClusterServingRuntime"))
_NAME: Final = f"{_KSERVE}/inferenceservice"
_MODE: Final = f"{_KSERVE}/deploymentMode"
_MAIN: Final = "kserve-container"
_WORKER: Final = "worker-container"
_BACKEND: Final = "multinode/executor-backend"
_GPU: Final = "nvidia.com/gpu"
_FORMATS: Final = ("sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm")
"""Fields of a predictor that are a model of this format."""
_POD: Final = """
    affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostIPC hostNetwork hostPID hostUsers
    hostname imagePullSecrets initContainers nodeName nodeSelector overhead preemptionPolicy priority priorityClassName
    readinessGates resourceClaims restartPolicy runtimeClassName schedulerName schedulingGates securityContext
    serviceAccountName subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
"""
_OF_POD: Final = frozenset(_POD.split())
"""Fields of a component that are those of its pods."""
_DEFAULTS: Final[Raw] = {"cpu": "1", "memory": "2Gi"}
"""What a container asks for that does not say it, by KServe's own configuration."""


class _Part(msgspec.Struct, frozen=True):
    """One Deployment."""

    name: str
    replicas: int
    template: Raw
    path: str


def inference_service(owner: Owner) -> Expansion:
    """The Deployments of its components."""
    if owner.annotations.get(_MODE) == "ModelMesh":
        return Expansion(note="ModelMesh serves it with pods of its own")
    parts = list(_parts(owner))
    if not any(part.path.startswith("spec.predictor") for part in parts):
        raise NoTemplateError("it has no pod template", field="spec.predictor")
    examples = [pod(owner, Fields(part.template, part.path), owner.name) for part in parts]
    few(owner.spec, "predictor", sum(part.replicas for part in parts))
    unread = Unread(_unread(owner))
    active_parts = [part for part in parts if part.replicas]
    note = "" if active_parts else "none of its components has replicas"
    return Expansion(
        [Child(_deployment(owner, part, unread)) for part in active_parts],
        note=note,
        waits=unread.why,
        examples=examples,
    )


def _parts(owner: Owner) -> Iterator[_Part]:
    for name in ("predictor", "transformer", "explainer"):
        fields = owner.spec.at(name)
        if not fields:
            continue
        runtime = _runtime(owner, fields)
        template = _template(owner, name, fields, runtime)
        if template is None:
            continue
        workers = fields.at("workerSpec")
        if name != "predictor" or fields.raw.get("workerSpec") is None:
            yield _Part(f"{owner.name}-{name}", fields.count("minReplicas", 1), template, fields.path)
            continue
        worker_spec = runtime.at("spec", "workerSpec")
        worker = _joined(owner, name, worker_spec, workers, _WORKER)
        worker = worker if _containers(worker) else template
        nodes, gpus = _nodes(worker_spec, workers, runtime, [template, worker])
        head = _with_gpus(template, gpus[0])
        yield _Part(f"{owner.name}-{name}", fields.count("minReplicas", 1), head, fields.path)
        yield _Part(f"{owner.name}-{name}-worker", nodes - 1, _with_gpus(worker, gpus[1]), workers.path)


def _template(owner: Owner, name: str, fields: Fields, runtime: Fields) -> Raw | None:
    """The template of a component; None where it has nothing that runs."""
    if fields.raw.get("containers") is not None:
        return _joined(owner, name, Fields({}), fields, _MAIN)
    model, _ = _model(fields)
    if model is None:
        return None
    container = {**{key: value for key, value in model.raw.items() if key in _CONTAINER}, "name": _MAIN}
    return _joined(
        owner, name, runtime.at("spec"), Fields({**fields.raw, "containers": [container]}, fields.path), _MAIN
    )


_CONTAINER: Final = frozenset(("args", "command", "env", "envFrom", "image", "ports", "resources", "volumeMounts"))


def _joined(owner: Owner, name: str, runtime: Fields, fields: Fields, main: str) -> Raw:
    """Pod template of a runtime, overridden by that of a component."""
    spec = {key: value for key, value in runtime.raw.items() if key in _OF_POD or key == "containers"}
    pod_fields = {key: value for key, value in fields.raw.items() if key in _OF_POD or key == "containers"}
    merged = patched(spec, pod_fields)
    merged["containers"] = [
        _asking(Fields(container.raw), main) for container in Fields(merged, fields.path).each("containers")
    ]
    if not merged["containers"]:
        del merged["containers"]
    template: Raw = {"spec": merged}
    template = with_marks(template, runtime.texts("labels"), runtime.texts("annotations"))
    template = with_marks(template, fields.texts("labels"), fields.texts("annotations"))
    return with_marks(template, {_NAME: owner.name, "component": name})


def _asking(container: Fields, main: str) -> Raw:
    """The manifest of a container, with KServe's default requests and limits where it serves (its name is main, or it
    has none) and does not say them. A stated limit is the request too where that is not stated; a stated request has no
    default limit. Any other container comes back as it is.
    """
    if container.text("name") not in (main, ""):
        return container.raw
    resources = container.at("resources")
    amounts = {part: {**_DEFAULTS, **resources.at(part).raw} for part in ("requests", "limits")}
    for amount in _DEFAULTS:
        if amount in resources.at("requests").raw and amount not in resources.at("limits").raw:
            del amounts["limits"][amount]  # the default could be less than what is asked for
        if amount in resources.at("limits").raw and amount not in resources.at("requests").raw:
            amounts["requests"][amount] = resources.at("limits").raw[amount]
    return {**container.raw, "resources": {**resources.raw, **amounts}}


def _model(fields: Fields) -> tuple[Fields | None, str]:
    """The model of a predictor, and its format."""
    if fields.raw.get("model") is not None:
        return fields.at("model"), fields.at("model", "modelFormat").text("name")
    format_name = next((name for name in _FORMATS if fields.raw.get(name) is not None), "")
    if format_name:
        return (fields.at(format_name), format_name)
    return (None, "")


def _runtime(owner: Owner, fields: Fields) -> Fields:
    """The runtime that serves the model; an empty one where none is among the objects."""
    model, form = _model(fields)
    if model is None:
        return Fields({})
    for group, kind in RUNTIMES:
        for path in sorted(owner.family.objects.of_kind(group, kind)):
            namespace, _, name = path.rpartition("/")
            if kind == "ServingRuntime" and (namespace or "default") != owner.namespace:
                continue
            runtime_fields = Fields(owner.family.objects.raw(Key(group, kind, namespace, name)) or {})
            if model.text("runtime") == name or (not model.text("runtime") and _serves(runtime_fields, form)):
                return runtime_fields
    return Fields({})


def _serves(runtime: Fields, form: str) -> bool:
    spec = runtime.at("spec")
    listed = spec.each("supportedModelFormats")
    return not spec.flag("disabled") and any(
        listed_format.text("name") == form and listed_format.flag("autoSelect") for listed_format in listed
    )


def _containers(template: Raw) -> bool:
    return bool(Fields(template).at("spec").raw.get("containers"))


def _nodes(
    worker_spec: Fields, workers: Fields, runtime: Fields, templates: Sequence[Raw]
) -> tuple[int, tuple[int, int]]:
    """How many nodes a model spans, and how many GPUs its head and each worker have.

    With Ray the GPUs of all are the product of both sizes, and a worker brings what it asks for; else there is a node
    for each stage of the pipeline.
    """
    sizes = [workers.count(name, worker_spec.count(name, 1)) for name in ("pipelineParallelSize", "tensorParallelSize")]
    pipeline, tensor = (max(size, 1) for size in sizes)
    total = few(workers, "pipelineParallelSize", pipeline * tensor)
    if runtime.at("spec").texts("annotations").get(_BACKEND) == "mp":
        return pipeline, (tensor, tensor)
    head, gpus_each = (_gpus(template) for template in templates)
    if not head and not gpus_each:
        return total, (1, 1)
    if not gpus_each:
        return 1 + max(total - head, 0), (head, 1)
    nodes = -(-total // gpus_each)
    if nodes == 1 or head >= total:
        return 1, (total, 0)
    return nodes, (head or total - gpus_each * (nodes - 1), gpus_each)


def _gpus(template: Raw) -> int:
    container = next(Fields(template).at("spec").each("containers"), Fields({}))
    resources = container.at("resources")
    amount_of_gpus = resources.at("requests").raw.get(_GPU, resources.at("limits").raw.get(_GPU, 0))
    return read_number(str(amount_of_gpus)) or 0


def _with_gpus(template: Raw, number: int) -> Raw:
    """A template whose first container has so many GPUs."""
    leader, *further = list(Fields(template).at("spec").each("containers"))
    amounts = {part: {**leader.at("resources", part).raw, _GPU: str(number)} for part in ("requests", "limits")}
    resources = {**leader.at("resources").raw, **amounts}
    containers = [{**leader.raw, "resources": resources}, *(container.raw for container in further)]
    return {**template, "spec": {**Fields(template).at("spec").raw, "containers": containers}}


def _unread(owner: Owner) -> Iterator[tuple[str, str]]:
    predictor = owner.spec.at("predictor")
    workers = predictor.at("workerSpec")
    worker_spec = _runtime(owner, predictor).at("spec", "workerSpec")
    if predictor.raw.get("workerSpec") is not None and not (worker_spec or workers.raw.get("containers")):
        yield (
            workers.path,
            "a ServingRuntime defines its pods, and the objects hold no matching one",
        )
    if owner.spec.raw.get("canary") is not None:
        yield "spec.canary", "a share of the traffic for another version is not read"


def _deployment(owner: Owner, part: _Part, unread: Unread) -> Raw:
    template = with_marks(marked(part.template, unread), {"app": f"isvc.{part.name}"})
    selector = {"matchLabels": {"app": f"isvc.{part.name}"}}
    spec: Raw = {"replicas": part.replicas, "selector": selector, "template": template}
    return named(owner, "apps/v1", "Deployment", part.name, {"spec": spec}, labels={_NAME: owner.name})
