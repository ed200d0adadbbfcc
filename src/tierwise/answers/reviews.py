"""Who asks, and what they may see: asked of the API server, and remembered for a bounded time.

A token is never kept, only its digest. What the API server does not confirm is refused; where it cannot be reached,
the question fails, and nobody is let in by what was true before.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from tierwise.kube.client import Client
from tierwise.kube.errors import understood

__all__ = ["AccessReviewer", "ClusterReviewer", "Person", "Right"]

_TOKENS_KEPT: Final = 4096
_RIGHTS_KEPT: Final = 16_384

_TOKEN_SECONDS: Final = 60.0
"""For so long a token that was confirmed or refused is not asked about again."""

_RIGHT_SECONDS: Final = 30.0
"""For so long a right that was given or withheld is not asked about again."""

_LONGEST_TOKEN: Final = 16_384
"""Characters of a token: longer ones are refused without asking."""


class Person(msgspec.Struct, frozen=True):
    """A user as the API server knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Right(msgspec.Struct, frozen=True):
    """An action on a kind of objects, all of a namespace or one by name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class AccessReviewer(Protocol):
    """Knows users by their tokens, and what they may do. Raises ApiError and UnreachableError."""

    def knows(self, token: str) -> bool:
        """Return whether a token was confirmed a short while ago, so that nobody has to be asked."""

    async def person(self, token: str) -> Person | None:
        """Return whose token this is; None where it is nobody's."""

    async def may(self, person: Person, right: Right) -> bool:
        """Return whether somebody has a right."""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_READ_TOKEN: Final = msgspec.json.Decoder(_TokenReview)
_READ_ACCESS: Final = msgspec.json.Decoder(_AccessReview)


class _Recent:
    """Values that were learned a short while ago; of too many those that were learned first are forgotten."""

    def __init__(self, limit: int, seconds: float, ticks: Callable[[], float]) -> None:
        self._limit = limit
        self._seconds = seconds
        self._ticks = ticks
        self._values: OrderedDict[object, tuple[float, Any]] = OrderedDict()

    def get(self, key: object) -> tuple[Any] | None:
        """Return the value in a tuple of its own; None where none is recent."""
        entry = self._values.get(key)
        if entry is None or self._ticks() - entry[0] > self._seconds:
            return None
        return (entry[1],)

    def put(self, key: object, value: object) -> None:
        self._values.pop(key, None)
        self._values[key] = self._ticks(), value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)


class ClusterReviewer:
    """Asks the API server, with the rights of the scheduler: `create` of tokenreviews and subjectaccessreviews."""

    def __init__(self, client: Client, audience: str = "", ticks: Callable[[], float] = time.monotonic) -> None:
        """`audience` is the one that tokens must be for; "" for those that are for the API server."""
        self._client = client
        self._audience = audience
        self._people = _Recent(_TOKENS_KEPT, _TOKEN_SECONDS, ticks)
        self._rights = _Recent(_RIGHTS_KEPT, _RIGHT_SECONDS, ticks)

    def knows(self, token: str) -> bool:
        """Return whether a token was confirmed a short while ago."""
        recent = self._people.get(_digest(token))
        return recent is not None and recent[0] is not None

    async def person(self, token: str) -> Person | None:
        """Return whose token this is; None where it is nobody's, or is for another audience."""
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        digest = _digest(token)
        recent = self._people.get(digest)
        if recent is not None:
            reviewed: Person | None = recent[0]
            return reviewed
        person = await self._reviewed(token)
        self._people.put(digest, person)
        return person

    async def _reviewed(self, token: str) -> Person | None:
        audiences = {"audiences": [self._audience]} if self._audience else {}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **audiences},
        }
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        status = understood(_READ_TOKEN.decode, await self._client.ask("POST", path, body, expects="Review")).status
        # A server that knows nothing of audiences leaves the list out: its word would not be about ours.
        if self._audience and self._audience not in (status.audiences or ()):
            return None
        if not status.authenticated or not status.user.username:
            return None
        user = status.user
        extra = tuple((name, tuple(values)) for name, values in sorted((user.extra or {}).items()))
        return Person(user.username, user.uid, tuple(user.groups or ()), extra)

    async def may(self, person: Person, right: Right) -> bool:
        """Return whether somebody has a right."""
        key = person, right
        recent = self._rights.get(key)
        if recent is not None:
            return bool(recent[0])
        attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
        if right.namespace:
            attributes["namespace"] = right.namespace
        if right.name:
            attributes["name"] = right.name
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": person.name,
                "uid": person.uid,
                "groups": list(person.groups),
                "extra": {name: list(values) for name, values in person.extra},
                "resourceAttributes": attributes,
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        status = understood(_READ_ACCESS.decode, await self._client.ask("POST", path, body, expects="Review")).status
        allowed = status.allowed and not status.denied
        self._rights.put(key, allowed)
        return allowed


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
