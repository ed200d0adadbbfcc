"""Lists that are read item by item hold what they hold when they are read as a whole."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tierwise.api.errors import InputError
from tierwise.api.json_text import ItemReader, values

NAMES = st.sampled_from(["kind", "items", "name", "a]b", 'quo"te', "{", "é", "\n"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
HEADS = st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata"]), NAMES | st.just("List"), max_size=3)


class _Slow(io.BytesIO):
    """A file that gives a few bytes at a time once it is told to."""

    most = 1 << 30

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.most if size is None or size < 0 else min(size, self.most))


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A list in one of many ways of writing it, perhaps with something before and after its items."""
    whole = {**draw(HEADS), "items": draw(st.lists(VALUES, max_size=5)), "kind": draw(st.sampled_from(["List", "x"]))}
    keys = draw(st.permutations(sorted(whole)))
    indent = draw(st.sampled_from([None, 0, 4]))
    text = json.dumps({key: whole[key] for key in keys}, indent=indent, ensure_ascii=draw(st.booleans()))
    return text.encode() + draw(st.sampled_from([b"", b"\n"]))


def _read(data: bytes, at_once: int) -> list[object] | None:
    text = _Slow(data)
    reader = ItemReader.over(text, file="x.json")
    if reader is None:
        return None
    text.most = at_once
    return [{**reader.head, "items": [item for item, _ in reader]}]


@given(texts(), st.integers(1, 50))
@example(b'{"kind": "List", "items": [1.5, 20, 3e2]}', 1)  # a number may go on beyond what was read
def test_items_are_those_of_the_whole(data: bytes, at_once: int) -> None:
    """However little is read at a time; what is no list is left to whoever reads it whole."""
    assert _read(data, at_once) in (None, values(data, file="x.json"))


@given(texts(), st.integers(0, 400), st.sampled_from([b"", b",", b"]", b"}", b'"', b"\\", b"\xff", b"1"]))
def test_a_damaged_list_is_refused_or_read_as_it_stands(data: bytes, where: int, put: bytes) -> None:
    """A text that is broken as a whole is never read in part without a word."""
    where %= len(data)
    spoiled = data[:where] + put + data[where + 1 :]
    try:
        whole: list[object] | None = values(spoiled, file="x.json")
    except InputError:
        whole = None
    try:
        assert _read(spoiled, 7) in (None, whole)
    except InputError:
        assert whole is None or _names_a_key_twice(spoiled)


def _names_a_key_twice(data: bytes) -> bool:
    """Of keys given twice the last one counts; where that is the items, they are refused."""
    pairs: list[list[str]] = []
    json.loads(data, object_pairs_hook=lambda found: pairs.append([key for key, _ in found]))
    return any(len(keys) != len(set(keys)) for keys in pairs)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"kind": "List",\n "items": [{}\n {}]}', "x.json:3:2: Expecting ',' delimiter"),
        ('{"kind": "List",\n "items": [{},\n ]}', "x.json:3:2: Expecting value"),
        ('{"kind": "List",\n "items": [\n{"a": tru}]}', "x.json:3:7: Expecting value"),
    ],
)
def test_line_and_column_are_named(text: str, where: str) -> None:
    """Wherever reading has come to, the place of the fault is counted from the beginning."""
    for at_once in (1, 9, 1 << 20):
        with pytest.raises(InputError) as caught:
            _read(text.encode(), at_once)
        assert where == str(caught.value)
