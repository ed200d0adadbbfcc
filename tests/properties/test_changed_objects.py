"""Objects that replace others are read as if they were new; what is the same object in both manifests is not read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.manifests import job, node, objects, pod, pod_group, task

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.port import key_of_raw

CLASS: Raw = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1}
OTHER: Raw = {"apiVersion": "example.com/v1", "kind": "Owner", "metadata": {"name": "o"}, "spec": {"a": 1}}
FIRST = (pod("p"), node("n"), pod_group("g", minMember=1), job("j", task("w", 2)), CLASS, OTHER)
PARTS: dict[str, tuple[Any, ...]] = {
    "metadata": ({"annotations": {"a": "b"}}, {"labels": {"l": None}}, {"creationTimestamp": "never"}, {"name": "a/b"}),
    "spec": ({"queue": "q"}, {"nodeName": "n"}, {"nodeName": None}, {"tasks": [{"name": "x", "template": {}}]}, 7),
    "status": ({"phase": "Running"}, {"allocatable": {"cpu": "x"}}, {"conditions": None}, {}, None),
    "value": (2, "two"),
}


def _read(raw: Raw) -> object:
    try:
        return codec.decode(raw)
    except InputError as error:
        return str(error)


@given(st.sampled_from(FIRST), st.lists(st.sampled_from([(k, v) for k, vs in PARTS.items() for v in vs]), max_size=3))
@examples(60)
def test_changed_manifests_are_read_like_new_ones(raw: Raw, steps: list[tuple[str, Any]]) -> None:
    """Or refused with the same words; parts that are the same object stay so in the record."""
    world = objects(raw)
    for part, value in steps:
        whole = isinstance(raw.get(part), dict) and isinstance(value, dict)
        changed: Raw = {**raw, part: {**raw[part], **value} if whole else value}  # type: ignore[dict-item]
        expected = _read(changed)
        if isinstance(expected, str):
            with pytest.raises(InputError, match=re.escape(expected)):
                world.changed({key_of_raw(raw): changed})
            continue
        before = world.record(key_of_raw(raw))
        world = world.changed({key_of_raw(raw): changed})
        record = world.record(key_of_raw(raw))
        assert expected == record
        for same in {"metadata", "spec", "status"} - {part}:
            assert getattr(record, same, None) is getattr(before, same, None) or same not in raw
        raw = changed
