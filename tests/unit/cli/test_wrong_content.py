"""Objects of known kinds with wrong content are told as such: the field is named, and nothing is scheduled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import manifests, run

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.dialects.workloads import WORKLOADS

PODS: Raw = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
LABELS: Raw = {"app": "x"}
LABELLED: Raw = {**PODS, "metadata": {"labels": LABELS}}
ENDING: Raw = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
NODE: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "9"}}}
_HEAD: Raw = {"headGroupSpec": {"rayStartParams": {}, "template": PODS}}
_REPLICATED: Raw = {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": PODS}}}]}
SPECS: dict[tuple[str, str], Raw] = {
    **{
        ("apps", kind): {"selector": {"matchLabels": LABELS}, "template": LABELLED}
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
    ("", "ReplicationController"): {"template": LABELLED},
    ("batch", "Job"): {"template": ENDING},
    ("grove.io", "PodCliqueSet"): {
        "replicas": 1,
        "template": {"cliques": [{"name": "w", "spec": {"podSpec": PODS["spec"]}}]},
    },
    ("workloads.x-k8s.io", "RoleBasedGroup"): {
        "roles": [{"name": "w", "replicas": 1, "standalonePattern": {"template": PODS}}]
    },
    ("workload.serving.volcano.sh", "ModelServing"): {
        "template": {"roles": [{"name": "w", "replicas": 1, "workerReplicas": 0, "entryTemplate": PODS}]}
    },
    ("orchestration.aibrix.ai", "StormService"): {"template": {"spec": {"roles": [{"name": "w", "template": PODS}]}}},
    ("orchestration.aibrix.ai", "RoleSet"): {"roles": [{"name": "w", "template": PODS}]},
    ("serving.kserve.io", "InferenceService"): {"predictor": PODS["spec"]},
    ("nvidia.com", "DynamoGraphDeployment"): {"components": [{"name": "w", "podTemplate": PODS}]},
    ("batch", "CronJob"): {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": ENDING}}},
    ("kubeflow.org", "PyTorchJob"): {"pytorchReplicaSpecs": {"Worker": {"template": PODS}}},
    ("kubeflow.org", "TFJob"): {"tfReplicaSpecs": {"Worker": {"template": PODS}}},
    ("kubeflow.org", "XGBoostJob"): {"xgbReplicaSpecs": {"Worker": {"template": PODS}}},
    ("kubeflow.org", "PaddleJob"): {"paddleReplicaSpecs": {"Worker": {"template": PODS}}},
    ("kubeflow.org", "JAXJob"): {"jaxReplicaSpecs": {"Worker": {"template": PODS}}},
    ("kubeflow.org", "MPIJob"): {"mpiReplicaSpecs": {"Launcher": {"template": PODS}, "Worker": {"template": PODS}}},
    ("ray.io", "RayCluster"): _HEAD,
    ("ray.io", "RayJob"): {"rayClusterSpec": _HEAD},
    ("ray.io", "RayService"): {"rayClusterConfig": _HEAD},
    ("jobset.x-k8s.io", "JobSet"): _REPLICATED,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {"leaderWorkerTemplate": {"size": 2, "workerTemplate": PODS}},
    ("batch.volcano.sh", "Job"): {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": PODS}]},
}
"""The least that a kind may say."""


def _object(kind: tuple[str, str], spec: Raw) -> Raw:
    group, name = kind
    version = codec.versions_of(group, name)[0]
    return {
        "apiVersion": f"{group}/{version}".removeprefix("/"),
        "kind": name,
        "metadata": {"name": "x"},
        "spec": json.loads(json.dumps(spec)),
    }


def _places(value: Any, path: tuple[Any, ...] = ("spec",)) -> Iterator[tuple[Any, ...]]:
    """Every step on the way to the containers."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list) and '"containers"' in json.dumps({str(key): inner}):
            yield (*path, key)
            if key != "containers":
                yield from _places(inner, (*path, key))


VARIANTS = [
    pytest.param(kind, place, id=f"{kind[1]}-{'.'.join(map(str, place))}")
    for kind, spec in SPECS.items()
    for place in _places(spec)
    if isinstance(place[-1], str) and place[-1] not in ("Launcher", "Worker")
]


def test_every_workload_is_tried() -> None:
    """A TrainJob has no pods of its own: its runtime has."""
    assert WORKLOADS.keys() - SPECS.keys() == {("trainer.kubeflow.org", "TrainJob")}


@pytest.mark.parametrize(("kind", "place"), VARIANTS)
def test_a_misspelt_way_to_the_containers_is_named(
    kind: tuple[str, str], place: tuple[Any, ...], tmp_path: Path
) -> None:
    """Wherever it is misspelt, or left out, or null: `validate` ends with 1, `schedule` with 2."""
    for wrong in ("z", None, ""):
        raw = _object(kind, SPECS[kind])
        inner: Any = raw
        for step in place[:-1]:
            inner = inner[step]
        value = inner.pop(place[-1])
        if wrong is not None:
            inner[place[-1] + wrong] = value if wrong else None
        file = manifests(tmp_path, NODE, raw)

        found = run("validate", "-f", file, "-o", "json")
        verdict = json.loads(found.stdout)
        scheduled = run("schedule", "-f", file)

        assert (1, False) == (found.exit_code, verdict["valid"]), found.output
        assert any(_leads(entry["path"], place) for entry in verdict["errors"]), verdict
        assert 2 == scheduled.exit_code, scheduled.output
        assert f"{kind[1]} default/x: spec." in scheduled.stderr
        assert not scheduled.stdout
        if wrong:
            assert f'unknown field "{place[-1]}z" (did you mean {place[-1]}?)' in scheduled.stderr


def _leads(path: str, place: tuple[Any, ...]) -> bool:
    """Whether a path names the place, or what is missing because of it."""
    written = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return path.startswith(written) or written.startswith(path)


def test_a_pod_with_misspelt_containers_is_not_scheduled(tmp_path: Path) -> None:
    """It would be placed as one that asks for nothing."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"container": [{"name": "c"}]}}
    file = manifests(tmp_path, NODE, pod)

    assert [1, 2] == [run(verb, "-f", file).exit_code for verb in ("validate", "schedule")]
    assert "Pod default/p: spec.containers: at least one container is needed" in run("schedule", "-f", file).stderr


def test_a_gang_of_grove_without_groups_is_refused(tmp_path: Path) -> None:
    """The field that holds its groups is spelled with small letters."""
    spec: Raw = {"podGroups": [{"name": "a", "minReplicas": 1}]}
    file = manifests(tmp_path, NODE, _object(("scheduler.grove.io", "PodGang"), spec))

    assert [1, 2] == [run(verb, "-f", file).exit_code for verb in ("validate", "schedule")]
    assert "did you mean podgroups?" in run("schedule", "-f", file).stderr


@pytest.mark.parametrize("kind", sorted({*codec.KINDS, *WORKLOADS}), ids="/".join)
def test_a_version_that_does_not_exist_is_an_error(kind: tuple[str, str], tmp_path: Path) -> None:
    """Nothing is made of the object, and those beside it are scheduled."""
    group, name = kind
    spec = SPECS.get(kind, {})
    raw = {"apiVersion": f"{group}/v0".removeprefix("/"), "kind": name, "metadata": {"name": "x"}, "spec": spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "beside"}, **PODS}
    file = manifests(tmp_path, NODE, pod, raw)

    found = run("validate", "-f", file, "-o", "json")
    scheduled = json.loads(run("schedule", "-f", file, "-o", "json").stdout)

    assert 1 == found.exit_code
    assert ["apiVersion"] == [entry["path"] for entry in json.loads(found.stdout)["errors"]]
    assert codec.versions_of(group, name)[0] in json.loads(found.stdout)["errors"][0]["message"]
    assert {"default/beside": "n0"} == scheduled["bindings"]


@pytest.mark.parametrize(("kind", "place"), VARIANTS[::3])
def test_fields_that_do_not_exist_fail_a_strict_check(
    kind: tuple[str, str], place: tuple[Any, ...], tmp_path: Path
) -> None:
    """Whatever kind they are in; without --strict the warning names that option."""
    raw = _object(kind, SPECS[kind])
    inner: Any = raw
    for step in place[:-1]:
        inner = inner[step]
    inner["xyzzyq"] = 1
    file = manifests(tmp_path, NODE, raw)

    lax, strict = (run("validate", "-f", file, "-o", "json", *words) for words in ((), ("--strict",)))

    assert [0, 1] == [lax.exit_code, strict.exit_code]
    assert 'unknown field "xyzzyq"; an error with --strict' == json.loads(lax.stdout)["warnings"][0]["message"]
