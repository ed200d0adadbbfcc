"""HTTP to an API server: requests with typed errors, retries where these are safe, and streams.

Each request gives one answer or one error. The caller decides what may be retried: `send` tries once, `ask` retries
temporary refusals. A write of the leader passes `may`, which is checked as late as possible before every attempt,
because the lease may be lost between two of them. Knows nothing about kinds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from types import TracebackType
from typing import Final, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote

import aiohttp
import msgspec

from tierwise import __version__
from tierwise.kube.auth import Access
from tierwise.kube.errors import ApiError, UnreachableError, UnreadableError, refusal, understood
from tierwise.kube.transport import DirectTransport, ProxyTransport, Request, Transport, WaitLimits

__all__ = ["IN_FLIGHT", "ON_SERVER", "PATIENT", "Client", "each", "pause"]


log = logging.getLogger(__name__)

# The same work on many items, so many at a time.


T = TypeVar("T")
R = TypeVar("R")


async def each(items: Sequence[T], work: Callable[[T], Awaitable[R]], width: int) -> list[R]:
    """The results in the order of the items; the first items are begun first.

    A few workers that take item after item cost less than a task for each item, and none waits inside a time limit.
    """
    results: list[R | None] = [None] * len(items)
    numbers = iter(range(len(items)))

    async def worker() -> None:
        for number in numbers:
            results[number] = await work(items[number])

    await asyncio.gather(*(worker() for _ in range(min(width, len(items)))))
    return cast(list[R], results)


IN_FLIGHT: Final = 32
"""Requests at once: more than this costs the server more than it gains (docs/benchmarks.md)."""

ON_SERVER: Final = 10
"""Seconds after which the server itself gives up a request that nobody else looks at."""

PATIENT: Final = 60
"""The same for writes that admission webhooks look at: as long as a server takes for any request. One webhook has up to
30 seconds, and several may be asked one after the other; a failurePolicy of Ignore has its say before we give up."""

_PAGE: Final = WaitLimits(head=60.0, part=30.0, whole=120.0)
"""For a page of a list: a server gives up a request of its own accord after a minute."""
_STREAM: Final = WaitLimits(head=30.0, part=150.0)
"""For a watch: a server sends a bookmark every minute, so one that says nothing for more than two is dead."""
_TOKEN: Final = 30.0
"""Seconds for our token: exec plugins may take their time."""
_ATTEMPTS: Final = 6
_SHOWN: Final = 80
"""Bytes of an answer that cannot be read which the log shows."""
_TOKEN_AGE: Final = 30.0
_PAGED: Final = "page"


def pause(attempt: int, *, shortest: float = 0.1, longest: float = 5.0) -> float:
    """Seconds to wait after a failure: twice as long each time, and never two clients in step."""
    return min(longest, shortest * 2.0**attempt) * random.uniform(0.5, 1.0)


def always() -> bool:
    """Whether a request may be made that needs no lease."""
    return True


class _Options(TypedDict, total=False):
    """Options of a request besides its path and body; see `Client.send`."""

    query: Mapping[str, str] | None
    kind: str
    within: int
    may: Callable[[], bool]
    expects: str | tuple[str, ...]


class Client:
    """Requests to one API server; an asynchronous context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known_at = float("-inf")  # when we last asked for our token
        self._headers: dict[str, dict[str, str]] = {}  # header fields by what distinguishes requests: see `_fields`

    async def __aenter__(self) -> Client:
        access = self._access
        self._transport: Transport
        if access.proxy:
            self._transport = ProxyTransport(access.server, access.tls, access.server_name, access.proxy)
        else:
            self._transport = DirectTransport(access.server, access.tls, access.server_name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        final: int = 0,
        slot: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
        **options: Unpack[_Options],
    ) -> bytes:
        """The answer to a request that does no harm when it is made twice: again while the refusal may pass.

        A refusal with the status `final` is one that stays, whatever it means elsewhere. Each attempt holds a `slot` of
        its own while it is under way.
        """
        for attempt in range(_ATTEMPTS):
            try:
                async with slot():
                    return await self.send(method, path, body, **options)
            except ApiError as error:
                if not error.passing or error.status == final or attempt == _ATTEMPTS - 1:
                    raise
                wait = error.retry_after
            except UnreachableError:
                if attempt == _ATTEMPTS - 1:
                    raise
                wait = None
            await asyncio.sleep(pause(attempt) if wait is None else wait * random.uniform(1.0, 1.2))
        raise AssertionError("the last attempt either answers or raises")

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        within: int = ON_SERVER,
        may: Callable[[], bool] = always,
        expects: str | tuple[str, ...] = "",
    ) -> bytes:
        """The answer to one request; ApiError for a no, UnreachableError where none came; NotLeadingError.

        A yes that is not of the API server is no answer: a gateway may put its own page in its place. It must be an
        object whose kind ends as `expects` says.
        """
        parameters = {**query} if query is not None else {}
        if method != "GET":
            parameters = {"timeout": f"{within}s", **parameters}
        paged = "limit" in parameters
        limits = _PAGE if paged else WaitLimits(within + 2.0, within + 2.0, within + 2.0)
        try:
            await self._introduce()
            content_type = kind if body is not None else ""
            fields = self._fields(_PAGED if paged else content_type)
            data = msgspec.json.encode(body) if body is not None else b""
            answer = await self._transport.request(
                Request(method, _target(path, parameters), fields, data), may, limits
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(_told(error)) from None
        if answer.status >= 300:
            raise self._refused(answer.status, answer.headers, answer.body)
        try:
            _check_kind(answer.body, expects)
        except UnreadableError as error:
            log.warning("%s %s: %s: %.*r", method, path, error, _SHOWN, answer.body[:_SHOWN])
            raise
        return answer.body

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The lines of an answer as they come, some at a time; a line is whole or not given at all."""
        try:
            await self._introduce()
            request = Request("GET", _target(path, query), self._fields(""))
            async with self._transport.stream(request, _STREAM) as answer:
                if answer.status >= 300:
                    body = b"".join([part async for part in answer.parts])
                    raise self._refused(answer.status, answer.headers, body)
                yield _lines(answer.parts)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(_told(error)) from None

    async def _introduce(self) -> None:
        """Know our token, which rotates: ask for it now and then, off the event loop."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._known_at <= _TOKEN_AGE:
            return
        try:
            async with asyncio.timeout(_TOKEN):
                token = await loop.run_in_executor(None, self._access.token)
        except OSError as error:  # a TimeoutError is one, too
            raise UnreachableError(f"there is no token: {_told(error)}") from None
        if token and not token.isprintable():
            raise UnreachableError("there is no token that can be sent: it has a line break or the like in it")
        headers = {"Accept": "application/json", "User-Agent": f"tierwise/{__version__}"}
        if token:
            headers["Authorization"] = token
        if headers != self._headers.get(""):
            self._headers = {"": headers}
        self._known_at = loop.time()

    def _fields(self, kind: str) -> dict[str, str]:
        """Header fields of requests with a body of some kind, with none (""), or for a page of a list."""
        headers = self._headers.get(kind)
        if headers is None:
            added = {"Accept-Encoding": "gzip"} if kind == _PAGED else {"Content-Type": kind}
            headers = self._headers[kind] = self._headers[""] | added
        return headers

    def _refused(self, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
        if status == 401:
            self._known_at = float("-inf")  # perhaps it has just expired
            self._access.forget()
        return refusal(status, body, headers.get("retry-after"))


class _Kind(msgspec.Struct):
    kind: str


_KIND: Final = msgspec.json.Decoder(_Kind)


def _check_kind(body: bytes, expects: str | tuple[str, ...]) -> None:
    try:
        kind = understood(_KIND.decode, body).kind
    except RecursionError:
        return  # nested too deeply for this look at it: who reads it knows what to do
    if not kind or not kind.endswith(expects):
        expected = expects if isinstance(expects, str) else " or ".join(expects)
        raise UnreadableError(f"the answer is a {kind or 'thing without a kind'}, and no {expected or 'object'}")


def _target(path: str, query: Mapping[str, str]) -> str:
    if query:
        return f"{path}?{_encoded(*query.items())}"
    return path


@lru_cache(maxsize=256)
def _encoded(*query: tuple[str, str]) -> str:
    """As it is sent; most requests ask the same as others."""
    return "&".join([f"{name}={quote(value, safe='')}" for name, value in query])


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    incomplete = b""
    async for part in parts:
        *complete, incomplete = (incomplete + part).split(b"\n")
        if complete:
            yield [line for line in complete if line]


def _told(error: BaseException) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
