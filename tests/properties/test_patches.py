"""JSON patches beside the library jsonpatch: what both carry out gives the same object, and both refuse the same."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.patches import json_patch

NAMES = st.sampled_from(["a", "b", "a/b", "m~n", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
STEPS = st.sampled_from(["a", "b", "a~1b", "m~0n", "", "0", "1", "2", "-"])
PATHS = st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: "/" + "/".join(steps))
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "test"]), "path": PATHS, "value": VALUES}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": PATHS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": PATHS, "path": PATHS}),
)


def _ours(raw: object, operations: list[Any]) -> tuple[bool, object]:
    try:
        return True, json_patch(raw, operations)
    except ApiFailure:
        return False, None


def _theirs(raw: object, operations: list[Any]) -> tuple[bool, object]:
    jsonpatch = pytest.importorskip("jsonpatch")
    pointers = pytest.importorskip("jsonpointer")
    try:
        return True, jsonpatch.apply_patch(deepcopy(raw), operations)
    except (jsonpatch.JsonPatchException, pointers.JsonPointerException, TypeError):
        return False, None


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_json_patch_does_what_the_library_does(raw: dict[str, object], operations: list[Any]) -> None:
    """Whether it can be carried out at all, and what comes of it."""
    before = deepcopy(raw)

    assert _theirs(raw, operations) == _ours(raw, operations)
    assert before == raw
