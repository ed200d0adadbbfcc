"""The results of admission: errors, which make an object invalid, and warnings, which do not.

A check yields issues about one object; `validate` adds the object's name and collects them into a verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import force_setattr

from tierwise.api.brief import brief

__all__ = ["FieldFinding", "Issue", "ValidationResult", "at_least", "at_most", "error", "missing", "one_of", "warning"]


class Issue(msgspec.Struct, frozen=True):
    """Something about a field of the object at hand."""

    path: str
    message: str
    fatal: bool


class FieldFinding(msgspec.Struct, frozen=True):
    """Something about a field of an object; `object` reads like "HyperNode rack-1" or "Job default/train"."""

    object: str
    path: str
    message: str

    def __post_init__(self) -> None:
        for field in ("object", "path", "message"):
            force_setattr(self, field, brief(getattr(self, field)))


class ValidationResult(msgspec.Struct, frozen=True):
    """All that was found, in the order of the objects."""

    errors: tuple[FieldFinding, ...] = ()
    warnings: tuple[FieldFinding, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether a cluster should accept the objects."""
        return not self.errors


def error(path: str, message: str) -> Issue:
    """An issue that makes the object invalid."""
    return Issue(path, message, fatal=True)


def warning(path: str, message: str) -> Issue:
    """An issue that people should know of."""
    return Issue(path, message, fatal=False)


def at_least(path: str, value: int | None, minimum: int) -> Iterator[Issue]:
    """An error where a number that was given is too small."""
    if value is not None and value < minimum:
        yield error(path, f"{_field(path)} is {value}, it must be at least {minimum}")


def at_most(path: str, value: int | None, maximum: int) -> Iterator[Issue]:
    """An error where a number that was given is too large."""
    if value is not None and value > maximum:
        yield error(path, f"{_field(path)} is {value}, it must be at most {maximum}")


def missing(path: str, raw: object, *fields: str) -> Iterator[Issue]:
    """An error for each field that a mapping lacks."""
    for field in fields:
        if not isinstance(raw, dict) or raw.get(field) is None:
            yield error(f"{path}.{field}", f"{field} is missing")


def one_of(path: str, value: str, allowed: Collection[str]) -> Iterator[Issue]:
    """An error where a text is none of those allowed."""
    if value not in allowed:
        listed = ", ".join(sorted(entry for entry in allowed if entry))
        yield error(path, f'{_field(path)} "{value}" is not known: it must be one of {listed}')


def _field(path: str) -> str:
    """The last word of a path; of an annotation's name, what follows its domain."""
    return path.rpartition(".")[2].rpartition("/")[2]
