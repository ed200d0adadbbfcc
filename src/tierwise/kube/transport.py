"""HTTP/1.1 to one server: requests over kept connections, and answers that are read while they come.

Called by the client, which knows what to ask and what an answer means; nothing here knows of Kubernetes. A scheduler
sends a thousand small requests a second and reads as many lines of a watch, so `DirectTransport` does what these need
and nothing besides: a general HTTP client takes more than twice the processor time for it (decision 0096). Where a
proxy is in between, `ProxyTransport` leaves everything to such a client.

Where no whole answer comes, that is an OSError, a TimeoutError or an aiohttp.ClientError; the caller decides whether
to ask again.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tierwise.kube.errors import NotLeadingError

__all__ = ["DirectTransport", "ProxyTransport", "Request", "Transport", "WaitLimits"]

_CONNECT: Final = 5.0
"""Seconds for a connection to come about."""
_KEPT: Final = 60.0
"""Seconds for which an idle connection is kept: less than servers keep one."""
_HANDSHAKES: Final = 2
"""Connections that come about at the same time: a handshake takes longer than a request, and who waits for one may have
a connection that is free before."""
_FAREWELL: Final = 0.02
"""Seconds for connections to be closed: their sockets go in a later iteration of the event loop."""
_FOREVER: Final = float("inf")
_LONGEST_HEAD: Final = 1 << 18
_TARGET: Final = re.compile(r"/[!-~]*")
_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,15}")
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""The kernel asks after a peer that has been silent for 30 s, and gives a connection up that is not acknowledged for as
long: whatever lies between forgets connections without a word. Names that a system lacks are left out."""


class WaitLimits(msgspec.Struct, frozen=True):
    """Seconds for which an answer is waited for: for its head, for the next part of its body, and for all of it."""

    head: float
    part: float
    whole: float = float("inf")


class Request(msgspec.Struct, frozen=True):
    """HTTP request: path and query as they are sent, header fields without line ends. Header fields that many requests
    have in common are one dictionary, which is never changed.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    """A whole answer; header fields by their names in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


class Stream(msgspec.Struct, frozen=True):
    """An answer that goes on: its body in parts, as they come."""

    status: int
    headers: dict[str, str]
    parts: AsyncIterator[bytes]


class Transport(Protocol):
    """Requests to one server."""

    async def request(self, request: Request, may: Callable[[], bool], limits: WaitLimits) -> Answer:
        """The whole answer; NotLeadingError where, at the last moment before it is sent, it may not be.

        TimeoutError where it, or a part of it, has not come in time.
        """

    def stream(self, request: Request, limits: WaitLimits) -> AbstractAsyncContextManager[Stream]:
        """The answer as it comes; TimeoutError where its head or its next part has not come in time."""

    async def close(self) -> None:
        """Close what is open."""


class _BrokenError(ConnectionError):
    """The server's side of the connection ended, or what came was no HTTP."""


# How long a body is: `feed` takes what came and gives what of it is the body; `ended` says whether that was all of it.
# What comes behind the end is `left`.


class _Sized:
    """A body of a known length."""

    def __init__(self, length: int) -> None:
        self._missing = length
        self.ended = length == 0
        self.left = b""

    def feed(self, data: bytes) -> bytes:
        part = data[: self._missing]
        self.left = data[self._missing :]
        self._missing -= len(part)
        self.ended = not self._missing
        return part


class _Chunked:
    """A body in chunks, each behind its size; one of no size is the last, and further fields may follow it."""

    def __init__(self) -> None:
        self._missing = 0  # bytes of a chunk that are still to come, with the two of its line end
        self._last = False  # whether nothing but fields is left
        self.ended = False
        self.left = b""

    def feed(self, data: bytes) -> bytes:
        data = self.left + data if self.left else data
        parts = []
        at = 0
        while True:
            if self._missing:
                inside = self._missing - 2
                if inside > 0:
                    parts.append(data[at : at + inside])
                length = min(len(data) - at, self._missing)
                at = at + length
                self._missing = self._missing - length
                if self._missing:
                    break
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            line = data[at:end]
            at = end + 2
            if self._last:
                if not line:
                    self.ended = True
                    break
            else:
                size = _SIZE.match(line)
                if size is None:
                    raise _BrokenError("the server sent a chunk without a size")
                self._missing = int(size[0], 16)
                self._last = not self._missing
                self._missing += 2 if self._missing else 0
        self.left = data[at:]
        if len(self.left) > _LONGEST_HEAD:
            raise _BrokenError("the server sent a line that does not end")
        return b"".join(parts)


class _UntilClosed:
    """A body that ends with its connection."""

    ended = False
    left = b""

    def feed(self, data: bytes) -> bytes:
        return data


_Framing = _Sized | _Chunked | _UntilClosed


def _framing(method: str, status: int, headers: dict[str, str]) -> _Framing:
    if status in (204, 304) or method == "HEAD":
        return _Sized(0)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _Chunked()
    length = headers.get("content-length")
    if length is None:
        return _UntilClosed()
    if not (length.isascii() and length.isdecimal()):
        raise _BrokenError("the server sent no length that can be read")
    return _Sized(int(length))


class _Connection(asyncio.Protocol):
    """One connection, which carries one request at a time. What comes is kept until it is read."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = b""
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._until = _FOREVER  # when who waits for an answer gives it up
        self._timer: asyncio.TimerHandle | None = None
        self.open = True
        self.since = 0.0  # when it was last used

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            _keep_alive(sock)

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        self._wake()

    def eof_received(self) -> None:
        self.open = False
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._error = self._error or exc
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def limit(self, until: float) -> None:
        """Give up what is waited for at that time; for ever: there is no limit.

        A timer goes on from request to request and looks, when it rings, how long there is still to wait: most requests
        are answered before, and one of their own for each would cost a tenth of a request.
        """
        self._until = until
        if until != _FOREVER and (self._timer is None or until < self._timer.when()):
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self.open or self._until == _FOREVER:
            return
        if asyncio.get_running_loop().time() < self._until:
            self._set_timer()
            return
        self.open, self._error = False, TimeoutError()
        self._wake()

    def close(self) -> None:
        self.open = False
        self._transport.abort()

    @property
    def quiet(self) -> bool:
        """Whether a request may be sent: nothing unasked for has come."""
        return self.open and not self._received and not self._transport.is_closing()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause(self) -> None:
        """Take nothing from the connection: what comes meanwhile is decrypted and handed over at once, and a server
        that is faster than we are waits for us.
        """
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    async def more(self) -> bytes:
        """All bytes received since the last call, and wait for some where there are none; b"" once the other side has
        ended. It has no time limit. A connection that failed raises its error after its last bytes were read.
        """
        if not self._received and self.open:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._error is not None and not self._received:
            raise self._error
        data = self._received
        self._received = b""
        return data

    async def answer(self, method: str) -> _Incoming:
        """The head of the answer to what was written; its body follows."""
        data = b""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                received = await self.more()
                if not received:
                    raise _BrokenError("the server closed the connection before it answered")
                data += received
                if len(data) > _LONGEST_HEAD and b"\r\n\r\n" not in data:
                    raise _BrokenError("the server sent a head that does not end")
                continue
            status_line, *lines = data[:end].decode("latin-1").split("\r\n")
            version, _, status_text = status_line.partition(" ")
            if version not in ("HTTP/1.1", "HTTP/1.0") or not status_text[:3].isdecimal():
                raise _BrokenError("the server does not speak HTTP/1.1")
            data = data[end + 4 :]
            status = int(status_text[:3])
            if status >= 200:  # what is below only announces an answer
                break
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        keep_alive = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        return _Incoming(self, status, headers, _framing(method, status, headers), data, keep_alive=keep_alive)


class _Incoming:
    """An answer whose body is still to be read."""

    def __init__(
        self,
        connection: _Connection,
        status: int,
        headers: dict[str, str],
        framing: _Framing,
        data: bytes,
        *,
        keep_alive: bool,
    ) -> None:
        self._connection = connection
        self._framing = framing
        self._data = data
        self._kept = keep_alive
        self.status = status
        self.headers = headers

    async def part(self, within: float, until: float = _FOREVER) -> bytes:
        """The next part of the body; b"" behind the last. Waits `within` seconds for it, and no longer than `until`."""
        framing = self._framing
        while not framing.ended:
            if not self._data:
                self._connection.limit(min(until, asyncio.get_running_loop().time() + within))
            data = self._data or await self._connection.more()
            self._data = b""
            if not data:
                if isinstance(framing, _UntilClosed):
                    break
                raise _BrokenError("the server closed the connection before its answer was whole")
            if part := framing.feed(data):
                return part
        return b""

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request, once the body is read."""
        return self._kept and self._framing.ended and not self._framing.left and not self._data


class DirectTransport:
    """Connections of our own to a server."""

    def __init__(self, server: str, tls: Callable[[], ssl.SSLContext | None], server_name: str | None) -> None:
        """`server` is an address with a scheme, and perhaps a path below which everything lies.

        `tls` is asked for every new connection; None is the trust of the system.
        """
        parts = urlsplit(server)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._named = parts.netloc.rpartition("@")[2]
        self._secure = secure
        self._tls = tls
        self._server_name = (server_name or self._host) if secure else None
        self._idle: list[_Connection] = []
        self._fields: tuple[dict[str, str], str] = ({}, "")  # header fields that were sent last, and how
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a connection, or for being let to make one
        self._closed = False

    async def request(self, request: Request, may: Callable[[], bool], limits: WaitLimits) -> Answer:
        """The whole answer; NotLeadingError where, at the last moment before it is sent, it may not be.

        TimeoutError where it, or a part of it, has not come in time.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + limits.whole
        head = min(until, loop.time() + limits.head)
        connection = self._unused(loop)
        if connection is None:
            async with asyncio.timeout_at(head):
                connection = await self._connected(loop)
        if not may():
            self._keep(connection)
            raise NotLeadingError
        try:
            connection.limit(head)
            connection.write(self._message(request))
            answer = await connection.answer(request.method)
            parts = [part := await answer.part(limits.part, until)]
            while part:
                parts.append(part := await answer.part(limits.part, until))
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                self._distrust()
            self._admit()
            raise
        if answer.reusable:
            connection.limit(_FOREVER)
            connection.since = loop.time()
            self._keep(connection)
        else:
            connection.close()
            self._admit()
        return Answer(answer.status, answer.headers, _plain(b"".join(parts), answer.headers))

    @asynccontextmanager
    async def stream(self, request: Request, limits: WaitLimits) -> AsyncIterator[Stream]:
        """The answer as it comes; its connection ends with it."""
        loop = asyncio.get_running_loop()
        head = loop.time() + limits.head
        async with asyncio.timeout_at(head):
            connection = await self._connected(loop)
        try:
            connection.limit(head)
            connection.write(self._message(request))
            answer = await connection.answer(request.method)

            async def parts() -> AsyncIterator[bytes]:
                while part := await answer.part(limits.part):
                    connection.limit(_FOREVER)  # the server is not waited for while what came is read
                    connection.pause()
                    yield part
                    connection.resume()

            yield Stream(answer.status, answer.headers, parts())
        except TimeoutError:
            self._distrust()
            raise
        finally:
            connection.close()

    async def close(self) -> None:
        """Close what is open; a request that is still under way closes its own connection."""
        self._closed = True
        self._distrust()
        await asyncio.sleep(_FAREWELL)

    def _distrust(self) -> None:
        """Close idle connections: where one connection was dead without a word, those kept beside it may be, too."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _keep(self, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)
        self._admit()

    def _admit(self) -> None:
        """Let the next look for a connection of those who wait for one: the number of them has changed."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _unused(self, loop: asyncio.AbstractEventLoop) -> _Connection | None:
        """The idle connection that was used last."""
        while self._idle:
            connection = self._idle.pop()
            if connection.quiet and loop.time() - connection.since < _KEPT:
                return connection
            connection.close()
        return None

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        """An idle connection, or a new one."""
        while True:
            unused = self._unused(loop)
            if unused is not None:
                return unused
            if self._connecting < _HANDSHAKES:
                break
            waiter = loop.create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    self._admit()  # it was let, and is not there any more
                raise
        self._connecting += 1
        try:
            connection = await self._new_connection(loop)
        finally:
            self._connecting -= 1
            self._admit()
        connection.since = loop.time()
        return connection

    async def _new_connection(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        """The server's addresses one after the other, each for a share of the time.

        Not all at once: the event loop would lose the socket of an attempt that is cancelled in the moment it succeeds.
        """
        tls = (self._tls() or ssl.create_default_context()) if self._secure else None
        async with asyncio.timeout(_CONNECT):
            addresses = dict.fromkeys(str(entry[4][0]) for entry in await loop.getaddrinfo(self._host, self._port))
        error: OSError = _BrokenError("the server has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(_CONNECT / len(addresses)):
                    _, connection = await loop.create_connection(
                        _Connection, address, self._port, ssl=tls, server_hostname=self._server_name
                    )
                    return connection
            except OSError as failed:  # a TimeoutError is one, too
                error = failed
        raise error

    def _message(self, request: Request) -> bytes:
        """A request as it is sent."""
        if not _TARGET.fullmatch(request.target):
            raise ValueError(f"{request.target!r} is no path and query")
        if request.headers is not self._fields[0]:
            written = "".join([f"{name}: {value}\r\n" for name, value in request.headers.items()])
            self._fields = request.headers, written
        length = f"Content-Length: {len(request.body)}\r\n" if request.body or request.method != "GET" else ""
        head = f"{request.method} {self._prefix}{request.target} HTTP/1.1\r\nHost: {self._named}\r\n"
        return f"{head}{self._fields[1]}{length}\r\n".encode() + request.body


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _socket(kind: tuple[int, int, int]) -> socket.socket:
    sock = socket.socket(*kind)
    _keep_alive(sock)
    return sock


def _plain(body: bytes, headers: dict[str, str]) -> bytes:
    """A body without compression."""
    if headers.get("content-encoding", "").lower() != "gzip":
        return body
    try:
        return zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
    except zlib.error as error:
        raise _BrokenError(f"the server sent what cannot be decompressed: {error}") from None


class ProxyTransport:
    """Requests and watches through a proxy, by aiohttp."""

    def __init__(
        self, server: str, tls: Callable[[], ssl.SSLContext | None], server_name: str | None, proxy: str
    ) -> None:
        self._server = server
        self._tls = tls
        self._server_name = server_name
        self._proxy = proxy
        # Streams hold their connection for minutes. Writers limit themselves, and events and look-ups come on top: a
        # write that waited for a connection would leave long after it was let.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEPT, socket_factory=lambda address: _socket(address[:3])
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT),
        )

    async def request(self, request: Request, may: Callable[[], bool], limits: WaitLimits) -> Answer:
        """The whole answer; NotLeadingError where, at the last moment before it is sent, it may not be.

        TimeoutError where it, or a part of it, has not come in time.
        """
        async with (
            asyncio.timeout(limits.whole if limits.whole != _FOREVER else None),
            self._sent(request, limits, _asking(may)) as answer,
        ):
            return Answer(answer.status, _fields(answer), await answer.read())

    @asynccontextmanager
    async def stream(self, request: Request, limits: WaitLimits) -> AsyncIterator[Stream]:
        """The answer as it comes; TimeoutError where its head or its next part has not come in time."""
        async with self._sent(request, limits) as answer:
            yield Stream(answer.status, _fields(answer), answer.content.iter_any())

    async def close(self) -> None:
        """Close what is open."""
        await self._session.close()
        await asyncio.sleep(_FAREWELL)

    @asynccontextmanager
    async def _sent(
        self, request: Request, limits: WaitLimits, *middlewares: aiohttp.ClientMiddlewareType
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        trust = self._tls()
        async with asyncio.timeout(limits.head):
            answer = await self._session.request(
                request.method,
                self._server + request.target,
                data=request.body or None,
                headers=request.headers,
                proxy=self._proxy,
                ssl=True if trust is None else trust,
                server_hostname=self._server_name,
                middlewares=middlewares,
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT, sock_read=limits.part),
            )
        async with answer:
            yield answer


def _fields(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _asking(may: Callable[[], bool]) -> aiohttp.ClientMiddlewareType:
    """Ask before every attempt: aiohttp sends a PUT or DELETE twice by itself where a connection was stale."""

    async def ask(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if not may():
            raise NotLeadingError
        return await send(request)

    return ask
