"""HTTP to an API server: requests with typed errors, retries where these are safe, and streams.

Each request gives one answer or one error. The caller decides what may be retried: `send` tries once, `ask` retries
temporary refusals. A write of the leader passes `may`, which is checked as late as possible before every attempt,
because the lease may be lost between two of them. Knows nothing about kinds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, TypeVar, cast

import aiohttp
import msgspec

from tierwise import __version__
from tierwise.kube.auth import Access
from tierwise.kube.errors import ApiError, NotLeadingError, UnreachableError, refusal

__all__ = ["IN_FLIGHT", "ON_SERVER", "PATIENT", "Client", "always", "each", "pause"]


# The same work on many items, so many at a time.


T = TypeVar("T")
R = TypeVar("R")


async def each(items: Sequence[T], work: Callable[[T], Awaitable[R]], width: int) -> list[R]:
    """The results in the order of the items; the first items are begun first.

    A few workers that take item after item cost less than a task for each item, and nobody waits inside a time limit.
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
"""Seconds after which the server itself gives up a write, so that an unanswered one is decided after that time."""

PATIENT: Final = 30
"""The same for writes that admission webhooks look at: longer than several of them that hang one after the other, so
that a failurePolicy of Ignore has its say before we give up."""

_LIST: Final = aiohttp.ClientTimeout(total=120.0, connect=5.0)
_STREAM: Final = aiohttp.ClientTimeout(total=None, connect=5.0)
_ATTEMPTS: Final = 6
_TOKEN_AGE: Final = 30.0
_FAREWELL: Final = 0.02
"""Seconds for connections to be closed: their sockets go in a later turn of the event loop."""


def pause(attempt: int, *, least: float = 0.1, most: float = 5.0) -> float:
    """Seconds to wait after a failure: twice as long each time, and never two clients in step."""
    return min(most, least * 2.0**attempt) * random.uniform(0.5, 1.0)


def always() -> bool:
    """Whether a request may be made that needs no lease."""
    return True


class Client:
    """Requests to one API server; an asynchronous context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._token: tuple[float, str | None] = (float("-inf"), None)

    async def __aenter__(self) -> Client:
        tls = self._access.tls if self._access.tls is not None else True
        # Streams hold their connection for minutes, so they have a pool of their own. Writers limit themselves, and
        # events and look-ups come on top: a write that waited for a connection would leave long after it was let.
        self._requests = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=2 * IN_FLIGHT, keepalive_timeout=60, ssl=tls)
        )
        self._streams = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=tls))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._requests.close()
        await self._streams.close()
        await asyncio.sleep(_FAREWELL)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        within: int = ON_SERVER,
        may: Callable[[], bool] = always,
    ) -> bytes:
        """The answer to a request that does no harm when it is made twice: again while the refusal may pass."""
        for attempt in range(_ATTEMPTS):
            try:
                return await self.send(method, path, body, query=query, kind=kind, within=within, may=may)
            except ApiError as error:
                if not error.passing or attempt == _ATTEMPTS - 1:
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
    ) -> bytes:
        """The answer to one request; ApiError for a no, UnreachableError where none came; NotLeadingError."""
        asked = dict(query or {})
        if method != "GET":
            asked["timeout"] = f"{within}s"
        headers = await self._headers()
        data = None
        if body is not None:
            headers["Content-Type"] = kind
            data = msgspec.json.encode(body)
        patience = _LIST if "limit" in asked else aiohttp.ClientTimeout(total=within + 2.0, connect=5.0)
        try:
            async with self._requests.request(
                method,
                self._access.server + path,
                params=asked,
                data=data,
                headers=headers,
                timeout=patience,
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
                middlewares=() if may is always else (_asking(may),),
            ) as answer:
                found = await answer.read()
                if answer.status >= 300:
                    raise self._refused(answer, found)
                return found
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(_told(error)) from None

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer as they come; a line is whole or not given at all."""
        try:
            async with self._streams.get(
                self._access.server + path,
                params=query,
                headers=await self._headers(),
                timeout=_STREAM,
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
            ) as answer:
                if answer.status >= 300:
                    raise self._refused(answer, await answer.read())
                yield _lines(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(_told(error)) from None

    async def _headers(self) -> dict[str, str]:
        """Tokens rotate, and exec plugins may take their time: asked for now and then, off the event loop."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._token[0] > _TOKEN_AGE:
            try:
                self._token = (loop.time(), await loop.run_in_executor(None, self._access.token))
            except OSError as error:
                raise UnreachableError(f"there is no token: {error}") from None
        headers = {"Accept": "application/json", "User-Agent": f"tierwise/{__version__}"}
        if self._token[1]:
            headers["Authorization"] = self._token[1]
        return headers

    def _refused(self, answer: aiohttp.ClientResponse, body: bytes) -> ApiError:
        if answer.status == 401:
            self._token = (float("-inf"), None)  # perhaps it has just expired
            self._access.forget()
        return refusal(answer.status, body, answer.headers.get("Retry-After"))


def _asking(may: Callable[[], bool]) -> aiohttp.ClientMiddlewareType:
    """Ask before every attempt: the HTTP client sends a PUT or DELETE twice by itself where a connection was stale."""

    async def ask(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if not may():
            raise NotLeadingError
        return await send(request)

    return ask


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def _told(error: BaseException) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
