"""Requests that are refused: the status codes and words of Kubernetes' API, which clients tell apart by reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.yaml_events import DEEPEST

__all__ = [
    "MOST_BYTES",
    "MOST_OPERATIONS",
    "ApiFailure",
    "Work",
    "bad_request",
    "check_bounds",
    "conflict",
    "expired",
    "invalid",
    "not_found",
    "too_large",
]

_NO_FIELD: Final = "<nil>"  # as Kubernetes writes it; kubectl shows a field before every cause


class ApiFailure(Exception):  # noqa: N818 - it is the client's failure as often as not
    """An answer other than a yes: a `Status` of Kubernetes' API."""

    def __init__(self, code: int, reason: str, message: str, details: Raw | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def wire(self) -> Raw:
        """The answer's body."""
        status: Raw = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status |= {"message": self.message, "reason": self.reason, "code": self.code}
        return status | ({"details": self.details} if self.details is not None else {})


def bad_request(message: str) -> ApiFailure:
    """The request cannot be read."""
    return ApiFailure(400, "BadRequest", message)


def not_found(resource: str, name: str) -> ApiFailure:
    """There is no such object; `resource` is the plural with its group: "jobs.batch"."""
    return ApiFailure(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def conflict(resource: str, name: str, why: str) -> ApiFailure:
    """Someone else was faster."""
    text = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiFailure(409, "Conflict", text, _details(resource, name))


def _details(resource: str, name: str) -> Raw:
    plural, _, group = resource.partition(".")
    return {"name": name, "group": group, "kind": plural}


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str]]) -> ApiFailure:
    """The object is understood and not accepted; `causes` are fields with what is wrong about them."""
    causes_wire = [
        {"reason": "FieldValueInvalid", "message": text, "field": field or _NO_FIELD} for field, text in causes
    ]
    lines = "; ".join(f"{field}: {text}" if field else text for field, text in causes)
    details: Raw = {"name": name, "kind": kind, "causes": causes_wire}
    return ApiFailure(422, "Invalid", f'{kind} "{name}" is invalid: {lines}', details)


def expired(message: str) -> ApiFailure:
    """A version that is no longer known: the client lists again."""
    return ApiFailure(410, "Expired", message)


# How much a request may make: bytes and depth of what is kept, and steps that a patch may take.
#
# Kubernetes' own limits where it has them. A patch of some hundred bytes can ask for a result of gigabytes, and a body
# of three megabytes for a comparison of each of its items with each other; so both are counted while the patch is
# carried out, and the request is refused (413) where a limit is reached. Counting ends there: nothing is ever measured
# whole.


MOST_BYTES: Final = 3 * 1024 * 1024
"""The largest body of a request, the largest object, and what a JSON patch may copy: what Kubernetes takes."""

MOST_OPERATIONS: Final = 10_000
"""Operations of one JSON patch: what Kubernetes takes."""

_MOST_STEPS: Final = 20_000_000
"""Items of lists and maps that one patch may copy or compare: about a second's work."""


def too_large(text: str) -> ApiFailure:
    """More than this server does for one request."""
    return ApiFailure(413, "RequestEntityTooLarge", text)


class Work:
    """Remaining work that one patch may do."""

    def __init__(self) -> None:
        self._steps = _MOST_STEPS
        self._bytes = MOST_BYTES

    def take(self, steps: int) -> None:
        """Copy or compare so many items; 413 where that is too much."""
        self._steps -= steps + 1
        if self._steps < 0:
            raise too_large("the patch takes more work than one request may: send it in parts")

    def copy(self, value: object) -> None:
        """Have a value in a second place; 413 where all such values together are too large."""
        self._bytes -= check_bounds(value, self._bytes, f"the patch copies more than {MOST_BYTES} bytes")


def check_bounds(value: object, limit: int = MOST_BYTES, large: str = "") -> int:
    """About the bytes of a value as JSON, never more than they are; 413 beyond `most`, 400 where it is nested too deep.

    Values that stand in several places count in each of them, as they would be written.
    """
    counted = 0
    stack: list[tuple[object, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            counted += len(item) + 2
        elif isinstance(item, dict):
            counted += 2 + sum(map(len, item)) + 3 * len(item)
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            counted += 2 + len(item)
            stack.extend((inner, depth + 1) for inner in item)
        else:
            counted += 1
        if counted > limit:
            raise too_large(large or f"the object is larger than {MOST_BYTES} bytes")
        if depth > DEEPEST:
            raise bad_request(f"nested more than {DEEPEST} deep")
    return counted
