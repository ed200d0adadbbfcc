"""InferenceServices of KServe on the embedded cluster: a Deployment for each component, and one for workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import manifests, run
from tests.support.koordinator import objects_of
from tests.support.languages import nodes
from tests.support.workloads import expanded, pods, scheduled

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.dialects import workloads
from tierwise.port import Key

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
SMALL: Raw = {"requests": {"cpu": "1", "memory": "0"}}


def _service(**spec: object) -> Raw:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat"},
        "spec": spec,
    }


def _runtime(name: str = "vllm", workers: Raw | None = None, **spec: object) -> Raw:
    formats = [{"name": "huggingface", "autoSelect": True}]
    containers = [{"name": "kserve-container", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]
    body: Raw = {"supportedModelFormats": formats, "containers": containers, **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": name},
        "spec": {**body, **({"workerSpec": workers} if workers else {})},
    }


def _containers(name: str) -> Raw:
    return {"containers": [{"name": name, "image": "i", "resources": SMALL}]}


def _deployment(name: str, *given: Raw) -> Any:
    raw = expanded(*given).raw(Key("apps", "Deployment", "default", name))
    assert raw is not None
    return raw["spec"]


def test_each_component_is_a_deployment() -> None:
    """With its least number of pods; none of one that is scaled to nothing."""
    given = _service(predictor={**_containers("c"), "minReplicas": 2}, transformer=_containers("t"))

    assert 3 == len(scheduled(*WORLD, given))
    assert (2, 1) == tuple(_deployment(f"chat-{name}", given)["replicas"] for name in ("predictor", "transformer"))
    assert {} == pods(_service(predictor={**_containers("c"), "minReplicas": 0}))


def test_a_model_has_the_pods_of_its_runtime() -> None:
    """What the model and the predictor say comes before what the runtime says."""
    model = {"modelFormat": {"name": "huggingface"}, "resources": {"limits": {"cpu": "9"}}}
    given = _service(predictor={"model": model, "nodeSelector": {"a": "b"}})
    runtime = _runtime(nodeSelector={"c": "d"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    spec = _deployment("chat-predictor", given, runtime)["template"]["spec"]
    (container,) = spec["containers"]

    assert {"cpu": "9", "memory": "2Gi", "nvidia.com/gpu": "2"} == container["resources"]["requests"]
    assert {"a": "b", "c": "d"} == spec["nodeSelector"]
    assert [{"key": "gpu", "operator": "Exists"}] == spec["tolerations"]
    alone = _deployment("chat-predictor", given)["template"]["spec"]["containers"]
    assert [{"cpu": "9", "memory": "2Gi"}] == [one["resources"]["requests"] for one in alone]


def test_a_model_may_name_its_runtime() -> None:
    """Else the one that selects its format by itself."""
    named = {"modelFormat": {"name": "other"}, "runtime": "second"}
    given = _service(predictor={"model": named})
    second = _runtime("second", nodeSelector={"e": "f"})

    assert {"e": "f"} == _deployment("chat-predictor", given, _runtime(), second)["template"]["spec"]["nodeSelector"]


@pytest.mark.parametrize(
    ("sizes", "gpus", "expected"),
    [
        ((2, 4), "4", (1, "2", "4")),  # the head has two by its runtime, a further node the rest
        ((3, 2), "2", (2, "2", "2")),
        ((1, 2), "2", (0, "2", "0")),
    ],
)
def test_a_model_that_spans_nodes_has_workers(
    sizes: tuple[int, int], gpus: str, expected: tuple[int, str, str]
) -> None:
    """As many as bring the GPUs that the head has not."""
    each = {"name": "worker-container", "image": "i", "resources": {"requests": {"nvidia.com/gpu": gpus}}}
    workers: Raw = {"containers": [each]}
    model = {"modelFormat": {"name": "huggingface"}}
    own = dict(zip(("pipelineParallelSize", "tensorParallelSize"), sizes, strict=True))
    given = _service(predictor={"model": model, "workerSpec": own})

    objects = expanded(given, _runtime(workers=workers))
    found: Any = [
        objects.raw(Key("apps", "Deployment", "default", name)) for name in ("chat-predictor", "chat-predictor-worker")
    ]
    asked = [
        one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
        for one in found
        if one
    ]
    number = found[1]["spec"]["replicas"] if found[1] else 0
    assert expected[: len(asked) + 1] == (number, *asked)


def test_a_stage_is_a_node_with_the_other_executor() -> None:
    """And has as many GPUs as a tensor is spread over."""
    each = {"name": "worker-container", "image": "i", "resources": SMALL}
    runtime = _runtime(workers={"containers": [each]}, annotations={"multinode/executor-backend": "mp"})
    sizes = {"pipelineParallelSize": 3, "tensorParallelSize": 8}
    model = {"modelFormat": {"name": "huggingface"}}
    made = _deployment("chat-predictor-worker", _service(predictor={"model": model, "workerSpec": sizes}), runtime)

    assert 2 == made["replicas"]
    assert "8" == made["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]


def test_what_is_not_read_makes_the_pods_wait(tmp_path: Path) -> None:
    """Workers of a runtime that is not here; with it nothing is wrong."""
    model = {"modelFormat": {"name": "huggingface"}, "resources": SMALL}
    given = _service(predictor={"model": model, "workerSpec": {}})
    workers: Raw = {"containers": [{"name": "worker-container", "image": "i"}]}
    alone, both = (
        run("validate", "-f", manifests(tmp_path, *WORLD, given, *more), "-o", "json")
        for more in ([], [_runtime(workers=workers)])
    )

    assert {} == scheduled(*WORLD, given)
    assert 1 == len(pods(given))
    assert ["spec.predictor.workerSpec"] == [entry["path"] for entry in json.loads(alone.stdout)["errors"]]
    assert [] == json.loads(both.stdout)["errors"]


def test_nothing_is_made_where_others_make_the_pods() -> None:
    """KServe's controller, or ModelMesh."""
    given = _service(predictor=_containers("c"))
    whose = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-predictor-00001-x", "controller": True}
    labels = {"serving.kserve.io/inferenceservice": "chat"}
    meta: Raw = {"name": "theirs", "namespace": "default", "labels": labels, "ownerReferences": [whose]}
    theirs: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _containers("c")}
    meshed = {**given, "metadata": {"name": "chat", "annotations": {"serving.kserve.io/deploymentMode": "ModelMesh"}}}

    assert ["theirs"] == list(pods(given, theirs))
    assert {} == pods(meshed)
    assert ["makes no pods: ModelMesh serves it with pods of its own"] == [
        text for _, text in workloads.notes(objects_of([meshed]))
    ]


def test_more_pods_than_an_object_may_have_are_refused() -> None:
    """Of all components."""
    with pytest.raises(InputError, match="makes 900000 pods"):
        workloads.check(_service(predictor={**_containers("c"), "minReplicas": 900_000}))
