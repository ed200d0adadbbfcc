"""Parts of a parsed configuration: mappings with known fields, and lists of them.

Used by the readers of both formats. InputError names the field, and the word that was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tierwise.api.errors import InputError, suggestion

__all__ = ["as_written", "check_fields", "entries", "mapping", "named"]


def as_written(value: object) -> str:
    """A value as it stands in a file, without quotes: null and true, not None and True."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def mapping(raw: object, path: str | None, fields: Collection[str] = (), what: str = "a mapping") -> Mapping[Any, Any]:
    """The mapping itself where it is a mapping with these fields alone, or with any if fields is empty.

    InputError for anything else, also None; what says in the message what was expected.
    """
    if not isinstance(raw, Mapping):
        raise InputError(f"expected {what}", field=path)
    if fields:
        check_fields(raw, path, fields)
    return raw


def named(raw: object, path: str, fields: Collection[str]) -> Mapping[Any, Any]:
    """A mapping with a name."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise InputError("expected a mapping with a name", field=path)
    return mapping(raw, path, fields)


def entries(raw: object, path: str) -> Iterator[tuple[str, object]]:
    """The entries of a list, each with its path; nothing where there is none."""
    if not isinstance(raw, list | None):
        raise InputError("expected a list", field=path)
    return ((f"{path}[{i}]", entry) for i, entry in enumerate(raw or ()))


def check_fields(raw: Mapping[Any, Any], path: str | None, fields: Collection[str], what: str = "field") -> None:
    """Refuse a mapping with a key that is not among the fields, of which one may end in a star."""
    starred = tuple(field[:-1] for field in fields if field.endswith("*"))
    for key in map(str, raw):
        if key not in fields and not (starred and key.startswith(starred)):
            raise InputError(f"unknown {what} {key}{suggestion(key, fields)}", field=path)
