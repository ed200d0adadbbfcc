"""Errors of the API server: a refusal, or an unknown outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

__all__ = ["ApiError", "NotLeadingError", "UnreachableError", "UnreadableError", "refusal", "understood"]

T = TypeVar("T")

_LONGEST_WAIT: Final = 5.0
"""Seconds that a refusal may let us wait: whoever refuses may be one tenant's webhook."""

_PASSING: Final = frozenset({429, 500, 502, 503, 504})


class UnreachableError(Exception):
    """No whole answer came: the connection failed or broke, or time ran out. A write may have happened or not."""


class UnreadableError(UnreachableError):
    """The answer did not come from an API server: a gateway's page, truncated JSON, or an object of another kind."""


class NotLeadingError(Exception):
    """Nothing was sent: we no longer hold the lease, and another may lead by now."""

    def __init__(self) -> None:
        super().__init__("withheld: no longer the leader")


class ApiError(Exception):
    """The API server said no."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None, causes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason  # as in `Status.reason`: "Conflict", "AlreadyExists", "Expired", ...
        self.retry_after = retry_after
        self.causes = causes

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in _PASSING and not self.over_budget

    @property
    def over_budget(self) -> bool:
        """Whether a disruption budget forbids an eviction: 429 as well, but no reason to hurry back."""
        return "DisruptionBudget" in self.causes


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] = []
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def understood(decode: Callable[[bytes], T], answer: bytes) -> T:
    """Decoded answer. Raises UnreadableError if it is not one of an API server."""
    try:
        return decode(answer)
    except (msgspec.MsgspecError, ValueError) as error:  # bytes that are no text are a ValueError
        raise UnreadableError(f"the answer cannot be read: {error}") from None


def refusal(status: int, body: bytes | msgspec.Raw, retry_after: str | None = None) -> ApiError:
    """The error for an answer other than a yes; a proxy before the API server may answer in plain text."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = _Status(message=bytes(body)[:200].decode(errors="replace").strip())
    details = said.details or _Details()
    wait = details.retry_after_seconds or None
    if retry_after is not None:
        with contextlib.suppress(ValueError):  # a date, which Kubernetes never sends
            wait = float(retry_after)
    if wait is not None:
        wait = min(wait, _LONGEST_WAIT) if wait >= 0.0 else None  # a number that is none is not waited for
    causes = tuple(cause.reason for cause in details.causes)
    return ApiError(said.code or status, said.reason, said.message, retry_after=wait, causes=causes)
