"""The labels and annotations that are tierwise's own, and the unknown ones under its prefix.

A misspelt key has no effect: admission and the command line warn of it. A key is known where the table of what tenants
write (`tenant_inputs`) has a row for it; a test holds the table against the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tierwise.api.errors import suggestion
from tierwise.api.fabric import FABRIC
from tierwise.api.tenant_inputs import PREFIX, TENANT_INPUTS

__all__ = ["OWN_KEYS", "unknown_keys", "unknown_keys_in"]

_KEYS: Final = (key for row in TENANT_INPUTS for key in row.keys)
OWN_KEYS: Final = frozenset(key for key in _KEYS if key.startswith(PREFIX) and not key.endswith("*"))
_DEEPEST: Final = 12


class UnknownKey(NamedTuple):
    """An unknown key: its place, and a message with the name that was probably meant."""

    path: str
    message: str


def unknown_keys(labels: Mapping[str, str], annotations: Mapping[str, str], path: str) -> Iterator[UnknownKey]:
    """Those among the labels and annotations at a path."""
    for field, marks in (("labels", labels), ("annotations", annotations)):
        for key in marks:
            if key.startswith(PREFIX) and key not in OWN_KEYS and not key.startswith(f"{FABRIC}."):
                text = f'"{key}" is not known: it is passed over{suggestion(key, OWN_KEYS)}'
                yield UnknownKey(f"{path}.{field}.{key}", text)


def unknown_keys_in(raw: object, path: str = "", depth: int = 0) -> Iterator[UnknownKey]:
    """The same for every `metadata` of a manifest: that of the object, and those of the templates in it."""
    if depth > _DEEPEST:
        return
    if isinstance(raw, list):
        for i, item in enumerate(raw):
            yield from unknown_keys_in(item, f"{path}[{i}]", depth + 1)
    elif isinstance(raw, dict):
        for name, value in raw.items():
            place = f"{path}.{name}" if path else str(name)
            if name == "metadata" and isinstance(value, dict):
                yield from unknown_keys(_marks(value.get("labels")), _marks(value.get("annotations")), place)
            elif isinstance(value, dict | list) and name != "status":
                yield from unknown_keys_in(value, place, depth + 1)


def _marks(value: object) -> Mapping[str, str]:
    return value if isinstance(value, dict) else {}
