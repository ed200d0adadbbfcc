"""Where the quantities of records are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields

from tierwise.api.codec import KINDS_OF


def _records(kind: Any) -> Iterator[type[Struct]]:
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
    for inner in get_args(kind):
        yield from _records(inner)


def test_annotations_of_records_are_types() -> None:
    """No record of a kind, nor one inside it, spells an annotation as a text: amounts are found by what they are."""
    due: list[type[Struct]] = list(KINDS_OF)
    seen: set[type[Struct]] = set()
    while due:
        kind = due.pop()
        seen.add(kind)
        written = {
            name: hint for base in kind.__mro__[::-1] for name, hint in getattr(base, "__annotations__", {}).items()
        }
        read = {field.name: field.type for field in fields(kind)}
        assert read == {name: written[name] for name in read}, kind
        due += {record for hint in read.values() for record in _records(hint)} - seen

    assert len(seen) > len(KINDS_OF)
