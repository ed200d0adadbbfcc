"""Which pod groups keep a mark, followed from change to change."""

from __future__ import annotations

import pytest

from tierwise.api.codec import Raw
from tierwise.port import Objects, key_of_raw
from tierwise.scheduler.partial_gangs import DIMINISHED, PARTIAL, Marks

VERSIONS = ("scheduling.volcano.sh/v1beta1", "scheduling.sigs.k8s.io/v1alpha1")


def _group(version: str, name: str = "g", **annotations: str) -> Raw:
    marks = {f"tierwise.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    metadata = {"namespace": "ml", "name": name, "annotations": marks}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}}


def _with(objects: Objects, *raws: Raw) -> Objects:
    return objects.changed({key_of_raw(raw): raw for raw in raws})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mark", ["partial_since", "diminished_since"])
def test_a_mark_is_found_and_lost(version: str, mark: str) -> None:
    """It counts from the change that sets it to the one that empties it."""
    assert {PARTIAL, DIMINISHED} == {"tierwise.io/partial-since", "tierwise.io/diminished-since"}
    marks, objects = Marks(), _with(Objects(), _group(version), _group(version, "other"))
    assert not marks.follow(objects)
    objects = _with(objects, _group(version, **{mark: "2026-01-01T00:00:00Z"}))
    assert {"ml/g"} == marks.follow(objects)
    assert {"ml/g"} == marks.follow(_with(objects, _group(version, "third")))
    assert not marks.follow(_with(objects, _group(version, **{mark: ""})))


def test_a_group_that_is_gone_has_none() -> None:
    """A mark goes with its group."""
    marks, marked = Marks(), _group(VERSIONS[0], partial_since="2026-01-01T00:00:00Z")
    objects = _with(Objects(), marked)
    assert {"ml/g"} == marks.follow(objects)
    assert not marks.follow(objects.changed({}, [key_of_raw(marked)]))
