"""The labels and annotations that are tierwise's own, and the unknown ones under its prefix.

A misspelt key has no effect: admission and the command line warn of it. Whatever a tenant may write needs a row in
docs/security-model.md: what it can take from others, up to what, who pays, which switch and which tests. A test holds
these keys against that table and against the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tierwise.api.errors import suggestion
from tierwise.api.fabric import FABRIC

__all__ = ["OWN_KEYS", "PREFIX", "UnknownKey", "unknown_keys", "unknown_keys_in"]

PREFIX: Final = "tierwise.io/"
_NAMES: Final = """
    borrows-spares caught checkpointed-at coordinates decision depends-on device-binding-failed-at diminished-since
    eviction-notice exit-code expected-duration expected-start fabric family hypernode made-for minimum-run-time
    observed-revision on-node-loss partial-since pattern provision-after quota-over-since rank ranks reservation
    restart-cost run-for selected-at selected-node spares start-after stop-after sub-groups tier topology
    topology-constraints topology-ladder unschedulable volume-binding-failed-at
"""
OWN_KEYS: Final = frozenset(f"{PREFIX}{name}" for name in _NAMES.split())
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
