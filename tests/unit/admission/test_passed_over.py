"""What people write and nobody reads is told: misspelt keys, and marks where they do not count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tierwise.admission import passed_over, refused, validate
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.keys import PREFIX
from tierwise.api.own_keys import own_keys, unknown_keys_in
from tierwise.port import Objects

SOURCES = Path(__file__).parents[3] / "src" / "tierwise"
FABRIC = "tierwise.io/fabric"
CONSTRAINTS = "tierwise.io/topology-constraints"
LISTED = '[{"fabric": "nvlink", "tier": 1}]'


def made(kind: str, name: str, annotations: dict[str, str] | None = None, **fields: object) -> Raw:
    """A manifest of one of some kinds."""
    versions = {"Pod": "v1", "PodGroup": "scheduling.volcano.sh/v1beta1", "Node": "v1"}
    meta: Raw = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": versions[kind], "kind": kind, "metadata": meta} | fields


def told(*manifests: Raw) -> list[str]:
    """What a collection passes over; warnings of admission say the same, and errors never do."""
    objects = Objects.of((codec.decode(raw), raw) for raw in manifests)
    found = [f"{f.object} {f.path}: {f.message}" for f in passed_over(objects)]
    warned = [f"{f.object} {f.path}: {f.message}" for f in validate(objects).warnings]
    assert set(found) <= set(warned)
    assert refused(objects) == validate(objects).errors
    return found


def test_an_annotation_as_a_label_is_told() -> None:
    """It has no effect there, and looks as if it had."""
    meta: Raw = {"name": "g", "labels": {"tierwise.io/spares": "2"}}
    group = made("PodGroup", "g", spec={"minMember": 1}) | {"metadata": meta}
    said = '"tierwise.io/spares" is read as annotation, not as label: it is passed over'

    assert [f"PodGroup default/g metadata.labels.tierwise.io/spares: {said}"] == told(group)


def test_misspelt_keys_are_told_with_the_nearest_name() -> None:
    """On any object, and in the templates inside it."""
    job: Raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"tierwise.io/spare": "1"}},
        "spec": {"tasks": [{"template": {"metadata": {"annotations": {"tierwise.io/restart-costs": "5m"}}}}]},
    }
    group = made("PodGroup", "g", {"tierwise.io/toplogy-ladder": "rack=10m"})
    found = told(group, job)

    assert 3 == len(found)
    assert (
        '"tierwise.io/toplogy-ladder" is not known: it is passed over (did you mean tierwise.io/topology-ladder?)'
        in (" ".join(found))
    )
    assert "spec.tasks[0].template.metadata.annotations.tierwise.io/restart-costs" in " ".join(found)


def test_known_keys_and_those_of_nodes_are_not_told() -> None:
    """Fabrics of sub-groups have names of their own, and levels on nodes are called as people like."""
    group = made("PodGroup", "g", {"tierwise.io/topology-ladder": "rack=10m", "tierwise.io/fabric.worker": "nvlink"})
    node = made("Node", "n", {"tierwise.io/floor": "2"})

    assert [] == told(group, node)


def test_a_manifest_of_any_depth_is_looked_through() -> None:
    """Without an end, and without saying more than there is."""
    raw: object = {"metadata": {"annotations": {"tierwise.io/nonsense": ""}}}
    for _ in range(100):
        raw = {"spec": raw}

    assert [] == list(unknown_keys_in(raw))


@pytest.mark.parametrize("key", [FABRIC, CONSTRAINTS])
def test_marks_of_a_pod_whose_group_is_declared_are_told(key: str) -> None:
    """Those of a PodGroup count; a pod that repeats them says nothing new."""
    value = LISTED if key == CONSTRAINTS else "nvlink"
    pod = made("Pod", "p", {"scheduling.k8s.io/group-name": "g", key: value})

    (text,) = told(made("PodGroup", "g"), pod)

    assert f"Pod default/p metadata.annotations.{key}: it is passed over: it counts on PodGroup default/g" in text
    assert [] == told(made("PodGroup", "g", {key: value}), pod)


def test_a_fabric_on_a_pod_by_itself_is_told() -> None:
    """It has no constraint that could be about it."""
    (text,) = told(made("Pod", "p", {FABRIC: "nvlink"}))

    assert "a pod without a group has no such constraint" in text


def test_a_sub_group_that_does_not_exist_is_told() -> None:
    """Of a KAI group: the pod counts for none."""
    group: Raw = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            "minMember": 1,
            "subGroups": [{"name": "leaders", "minMember": 1}, {"name": "workers", "minMember": 1}],
        },
    }

    def pod(name: str) -> Raw:
        labels = {"kai.scheduler/subgroup-name": name}
        raw = made("Pod", name, {"pod-group-name": "g"})
        return raw | {"metadata": {**raw["metadata"], "labels": labels}}  # type: ignore[dict-item]

    (text,) = told(group, pod("worker"), pod("workers"))

    assert 'Pod default/worker metadata.labels: there is no sub-group "worker" in default/g' in text
    assert "leaders and workers" in text


def test_every_key_of_the_sources_is_known() -> None:
    """Whoever adds a key adds it to the list."""
    written = re.compile(rf'"({re.escape(PREFIX)}[a-z][a-z-]*)"')
    found = {key for path in SOURCES.rglob("*.py") for key in written.findall(path.read_text())}

    assert found <= own_keys()
