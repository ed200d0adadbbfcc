"""Fields that do not exist are found at every depth, and fields that do are never blamed."""

from __future__ import annotations

from typing import Any

import msgspec.inspect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api import codec
from tierwise.api.field_names import unheard
from tierwise.api.volcano import Job


def _paths(raw: Any, group: str, kind: str) -> list[str]:
    return [path for path, _ in unheard(raw, group, kind)]


def _examples(kind: Any, depth: int = 0) -> Any:
    """A value with every field of a record set, as JSON has it."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return _examples(kind.types[0], depth)
    if isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        return [_examples(kind.item_type, depth)]
    if isinstance(kind, msgspec.inspect.StructType) and depth < 12:
        return {f.encode_name: _examples(f.type, depth + 1) for f in kind.fields if f.encode_name not in _OURS}
    return {} if isinstance(kind, msgspec.inspect.DictType) else "x"


_OURS = ("raw", "transitionID", "lastHeartbeatTime")  # of the codec, and of other kinds' conditions


@pytest.mark.parametrize(("group", "kind"), sorted(codec.KINDS))
def test_every_field_that_is_read_is_known(group: str, kind: str) -> None:
    """Whatever tierwise reads of a kind is a field of that kind."""
    raw = _examples(msgspec.inspect.type_info(codec.KINDS[group, kind]))

    assert [] == _paths(raw, group, kind)


@given(st.data())
def test_a_misspelt_field_is_found_at_any_depth(data: st.DataObject) -> None:
    """One letter more anywhere in a manifest is told, once, at its place, with the right name."""
    raw = _examples(msgspec.inspect.type_info(Job))
    place, path = raw, ""
    while True:
        nested = sorted(key for key, inner in place.items() if inner and isinstance(inner, dict | list))
        if not nested or data.draw(st.booleans()):
            break
        key = data.draw(st.sampled_from(nested))
        inner = place[key]
        path += f".{key}[0]" if isinstance(inner, list) else f".{key}"
        place = inner[0] if isinstance(inner, list) else inner
        if not isinstance(place, dict):
            return  # a list of values
    if not place:
        return
    key = data.draw(st.sampled_from(sorted(place)))
    place[key + "z"] = place.pop(key)
    found = list(unheard(raw, "batch.volcano.sh", "Job"))

    assert [f"{path}.{key}z".removeprefix(".")] == [path for path, _ in found]
    assert "did you mean" in found[0][1] or len(key) < 3


def test_maps_take_any_key_and_kinds_that_are_not_known_take_anything() -> None:
    """Labels, amounts and the like are no fields."""
    labels = {"metadata": {"name": "p", "labels": {"anything": "goes"}}, "spec": {"nodeSelector": {"a": "b"}}}

    assert [] == _paths({**labels, "spec": {"overhead": {"cpu": "1"}}}, "", "Pod")
    assert [] == _paths({"spec": {"what": 1}}, "example.com", "Odd")
    types = {"Worker": {"replica": 1}}
    assert ["spec.tfReplicaSpecs.Worker.replica"] == _paths(
        {"spec": {"tfReplicaSpecs": types}}, "kubeflow.org", "TFJob"
    )
    assert ["metadata.lables"] == _paths({"metadata": {"lables": {}}}, "", "Node")
