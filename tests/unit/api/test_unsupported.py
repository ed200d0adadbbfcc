"""What a pod names and what cannot be honoured, and the page that lists it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tierwise.api import codec
from tierwise.api.core import Volume
from tierwise.api.unsupported import (
    ANNOTATIONS,
    LABELS,
    PREFIXES,
    RESOURCES,
    SPEC_FIELDS,
    unsupported,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "kubernetes-support.md"


VALUES = {"koordinator.sh/qosClass": "LSR"}


def _field(*, spec: dict[str, object] | None = None, **meta: dict[str, str]) -> str:
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **meta}, "spec": spec or {}}
    found = unsupported(codec.decode(raw))
    return found.field if found is not None else ""


@pytest.mark.parametrize(
    "kind", ["emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath", "nfs", "csi", "image"]
)
def test_volumes_without_effect_on_placement_are_fine(kind: str) -> None:
    """Kubernetes' scheduler does not look at them either."""
    assert "" == _field(spec={"volumes": [{"name": "v", kind: {}}]})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, ""),
        ({"schedulingGroup": {"podGroupName": "g"}}, ""),
        ({"schedulingGroup": {}}, "spec.schedulingGroup"),
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, ""),
        ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
        ({"hostNetwork": True, "hostUsers": False}, "spec.hostUsers"),
        ({"hostUsers": False}, ""),
        (
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            "spec.containers[0].restartPolicyRules",
        ),
        (
            {"initContainers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            "spec.initContainers[0].restartPolicyRules",
        ),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ""),
    ],
)
def test_fields_of_the_spec_are_named(spec: dict[str, object], field: str) -> None:
    """A field that cannot be honoured is found wherever it stands."""
    assert field == _field(spec=spec)


@pytest.mark.parametrize("key", [*LABELS, *ANNOTATIONS, *(f"{prefix}x" for prefix in PREFIXES)])
def test_marks_of_languages_that_are_not_read_are_named(key: str) -> None:
    """An annotation with a value counts; one without is no mark."""
    assert f"metadata.annotations.{key}" == _field(annotations={key: VALUES.get(key, "g")})
    assert "" == _field(annotations={key: ""})


@pytest.mark.parametrize("key", [*LABELS, *(f"{prefix}x" for prefix in PREFIXES)])
def test_labels_count_like_annotations(key: str) -> None:
    """Most of these marks are labels."""
    assert f"metadata.labels.{key}" == _field(labels={key: VALUES.get(key, "g")})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("volcano.sh/numa-topology-policy", "none"),
        ("scheduling.koordinator.sh/numa-topology-spec", "{}"),
        ("koordinator.sh/qosClass", "LS"),
        ("koordinator.sh/qosClass", "BE"),
    ],
)
def test_values_that_ask_for_nothing_keep_nobody_waiting(key: str, value: str) -> None:
    """A mark counts for what it asks for."""
    assert "" == _field(annotations={key: value}, labels={key: value} if "qosClass" in key else {})


ASKED = [pattern.replace("*", "x") for pattern in RESOURCES]


@pytest.mark.parametrize(("quantity", "field"), [("0.5", "limits"), ("2500m", "limits"), ("2000m", ""), (2, "")])
def test_parts_of_one_device_are_not_rounded_up(quantity: object, field: str) -> None:
    """Kubernetes refuses them, and nobody is given a whole device for a half."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": quantity}}}

    found = _field(spec={"containers": [container]})

    assert (f"spec.containers[0].resources.{field}.nvidia.com/gpu" if field else "") == found


@pytest.mark.parametrize("resource", [*ASKED, "koordinator.sh/gpu-memory-ratio", "volcano.sh/vgpu-memory-percentage"])
def test_parts_of_devices_are_named_wherever_they_are_asked_for(resource: str) -> None:
    """In requests or limits of any container, and for the pod as a whole."""
    for kind in ("requests", "limits"):
        asks = {"name": "c", "resources": {kind: {"cpu": "1", resource: "5"}}}
        plain = {"name": "d", "resources": {kind: {"cpu": "1", resource: "0"}}}

        where = f"resources.{kind}.{resource}"
        assert f"spec.containers[1].{where}" == _field(spec={"containers": [plain, asks]})
        assert f"spec.initContainers[0].{where}" == _field(spec={"initContainers": [asks], "containers": [plain]})
        assert f"spec.{where}" == _field(spec={"resources": asks["resources"], "containers": [plain]})


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "huawei.com/Ascend910", "rdma/hca", "cpu"],
)
def test_whole_devices_are_counted(resource: str) -> None:
    """A kubelet gives them out by itself."""
    assert "" == _field(spec={"containers": [{"name": "c", "resources": {"limits": {resource: "1"}}}]})


def test_languages_that_are_read_are_fine() -> None:
    """Volcano's and Koordinator's marks keep nobody waiting, nor does a queue of Kueue's."""
    labels = {"pod-group.scheduling.sigs.k8s.io": "g", "kueue.x-k8s.io/queue-name": "q"}
    marks = {"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/group-name": "g"}

    assert "" == _field(labels=labels, annotations=marks)


def test_the_page_lists_what_waits() -> None:
    """Every field, kind of volume and mark that keeps a pod waiting is on the page, and nothing else is."""
    page = PAGE.read_text(encoding="utf-8")
    waits = set(re.findall(r"^\| `([^`]+)` \| waits ", page, re.M))
    marks = set(re.findall(r"^\| `([^`]+)` \| (?:label or )?annotation \|", page, re.M))
    inside = {"restartPolicyRules"}  # of containers
    parts = page.partition("## Parts of devices")[2].partition("\n## ")[0]

    assert {*SPEC_FIELDS} - inside == waits
    assert {*LABELS, *ANNOTATIONS, *(f"{prefix}*" for prefix in PREFIXES)} == marks
    assert all(name in page for name in inside)
    assert [*RESOURCES] == re.findall(r"^\| `([^`]+)` \|", parts, re.M)


def test_every_kind_of_volume_that_is_looked_at_is_on_the_page() -> None:
    """What the record knows is honoured, and the page says so."""
    page = PAGE.read_text(encoding="utf-8")
    known = {field.encode_name for field in msgspec.structs.fields(Volume)} - {"name"}
    volumes = page.partition("## Kinds of volumes")[2].partition("\n## ")[0]

    assert known == set(re.findall(r"^\| `([^`]+)` \| honoured ", volumes, re.M))


def test_a_pattern_of_resources_has_at_most_one_star() -> None:
    """A second one would be taken for itself, and the resource for one that is understood."""
    assert [] == [pattern for pattern in RESOURCES if pattern.count("*") > 1]
