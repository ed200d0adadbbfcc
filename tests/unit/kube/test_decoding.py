"""One object cannot hide the others of its list or end their watch, however it is nested."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.kube.decoding import event, page
from tierwise.kube.kinds import Resource

GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, status=True)
DEPTHS = [300, 1_500, 10_000, 200_000]


def _group(name: str, depth: int = 0, word: str = "1") -> str:
    deep = '{"a":[' * (depth // 2) + word + "]}" * (depth // 2)
    meta = f'{{"name":"{name}","namespace":"default","resourceVersion":"5"}}'
    return f'{{"metadata":{meta},"spec":{{"minMember":2,"more":{deep}}}}}'


@pytest.mark.parametrize("depth", DEPTHS[1:])
@pytest.mark.parametrize("word", ["1", r'"]}\"]}"', '"[[["'])
def test_list_shows_the_others(depth: int, word: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is nested more deeply than any decoder goes is left out by name, with brackets in texts or without."""
    items = ",".join((_group("a"), _group("deep", depth, word), _group("b", 20, word)))
    found = page(GROUPS, f'{{"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}'.encode())

    assert ("7", ["a", "b"]) == (found.version, [record.metadata.name for record, _ in found.entries])
    assert ["left out: PodGroup default/deep: nested too deeply"] == [r.getMessage() for r in caplog.records]
    assert logging.ERROR == caplog.records[0].levelno


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_watch_goes_on_behind_it(depth: int) -> None:
    """A line that cannot be read still tells from which version to go on."""
    found = event(GROUPS, f'{{"type":"ADDED","object":{_group("deep", depth)}}}'.encode())

    assert ("5", None) == (found.version, found.entry)


def test_moderate_depth_is_read() -> None:
    """Nothing is cut as long as everything can be read."""
    found = page(GROUPS, f'{{"metadata":{{}},"items":[{_group("a", DEPTHS[0])}]}}'.encode())

    assert ["a"] == [record.metadata.name for record, _ in found.entries]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_others_are_read_to_the_letter(value: object) -> None:
    """Whatever the texts of an object beside it hold, brackets and quotes among it: its manifest stays as it is."""
    beside = _group("a", 2, json.dumps(value))
    found = page(GROUPS, f'{{"metadata":{{}},"items":[{_group("deep", 3_000)},{beside}]}}'.encode())

    [(_, raw)] = found.entries
    assert raw is not None
    assert {"minMember": 2, "more": {"a": [value]}} == raw["spec"]
