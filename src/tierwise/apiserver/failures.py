"""Requests that are refused: the status codes and words of Kubernetes' API, which clients tell apart by reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.api.codec import Raw

__all__ = ["ApiFailure", "bad_request", "conflict", "expired", "invalid", "not_found"]


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
    told = [{"reason": "FieldValueInvalid", "message": text, "field": field or _NO_FIELD} for field, text in causes]
    lines = "; ".join(f"{field}: {text}" if field else text for field, text in causes)
    details: Raw = {"name": name, "kind": kind, "causes": told}
    return ApiFailure(422, "Invalid", f'{kind} "{name}" is invalid: {lines}', details)


def expired(message: str) -> ApiFailure:
    """A version that is no longer known: the client lists again."""
    return ApiFailure(410, "Expired", message)
