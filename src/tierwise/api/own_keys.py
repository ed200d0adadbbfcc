"""The labels and annotations that are tierwise's own, and those under its prefix that have no effect.

A misspelt key has none, nor has an annotation that is written as a label: admission and the command line warn of them.
A key is known where the table of keys has a row for it; a test holds the table against the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from tierwise.api.errors import suggestion
from tierwise.api.fabric import FABRIC
from tierwise.api.keys import PREFIX, known_keys
from tierwise.api.unsupported import KUEUE_READ

__all__ = ["KUEUE_LEAST", "labels_said_by_jobs", "own_keys", "said_by_jobs", "unknown_keys", "unknown_keys_in"]

_DEEPEST: Final = 12
_OF_KUEUE: Final = "kueue.x-k8s.io"
_KUEUE: Final = f"{_OF_KUEUE}/"
KUEUE_LEAST: Final = f"{_KUEUE}job-min-parallelism"
"""How many pods of a Job Kueue would start at least; read as the minimum of its gang."""


@cache
def _forms() -> Mapping[str, str]:
    """Whether each is a label, an annotation or both."""
    return {key.name: key.form for key in known_keys() if key.name.startswith(PREFIX)}


@cache
def own_keys() -> frozenset[str]:
    """Those that have a name, not a pattern of names."""
    return frozenset(name for name in _forms() if not name.endswith("*"))


@cache
def _said_by_jobs() -> frozenset[str]:
    rows = (key for key in known_keys() if key.name.startswith(PREFIX))
    return frozenset(key.name for key in rows if "user" in key.owner and "job" in key.on.split(", "))


def said_by_jobs(key: str) -> bool:
    """Whether a key under tierwise's prefix is one that users write for a job; false for all that tierwise writes."""
    return key in _said_by_jobs() or key.startswith(f"{FABRIC}.")


@cache
def labels_said_by_jobs() -> frozenset[str]:
    """Labels, of whatever language, that users write for a job."""
    rows = (key for key in known_keys() if "user" in key.owner and "job" in key.on.split(", "))
    return frozenset(key.name for key in rows if "label" in key.form.split(", "))


@cache
def _read_of_kueue() -> frozenset[str]:
    """Marks of Kueue's that count without it."""
    return frozenset((*(key.name for key in known_keys() if key.name.startswith(_KUEUE)), *KUEUE_READ))


def unknown_keys(labels: Mapping[str, str], annotations: Mapping[str, str], path: str) -> Iterator[tuple[str, str]]:
    """Those among the labels and annotations at a path, each with its place and what is wrong with it.

    Kueue's are among them where Kueue has not admitted the object: it alone obeys the others.
    """
    admitted = labels.get(f"{_KUEUE}managed") == "true" or f"{_KUEUE}workload" in annotations
    for form, marks in (("label", labels), ("annotation", annotations)):
        for key in marks:
            if not admitted and key.partition("/")[0].endswith(_OF_KUEUE) and key not in _read_of_kueue():
                near = suggestion(key, _read_of_kueue()) if key.startswith(_KUEUE) else ""
                yield f"{path}.{form}s.{key}", f'"{key}" is passed over: Kueue alone reads it{near}'
            if not key.startswith(PREFIX):
                continue
            form_read = _forms().get(f"{FABRIC}.*" if key.startswith(f"{FABRIC}.") else key, "")
            if form not in form_read:
                why = f"is read as {form_read}, not as {form}" if form_read else "is not known"
                hint = "" if form_read else suggestion(key, own_keys())
                yield f"{path}.{form}s.{key}", f'"{key}" {why}: it is passed over{hint}'


def unknown_keys_in(raw: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Unknown labels and annotations of an object and of the templates in it, each with its place and what is wrong."""
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
