"""HTTP servers that idle or slow clients cannot block.

Every server of the project (webhook, health and metrics, pages) uses `listen`. A connection is closed if it does not
send the head of a request, or finish its TLS handshake, in time. The number of open connections is limited; beyond the
limit the one that was idle longest is closed, so that a new client is served. `listening` runs a server in a thread
beside a synchronous program.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator

import msgspec
from aiohttp import web

from tierwise.api.errors import InputError

__all__ = ["ConnectionLimiter", "Limits", "listen", "listening", "place", "runner_of"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEAD_ENDS = b"\r\n\r\n"
_BACKLOG = 256


class Limits(msgspec.Struct, frozen=True):
    """The timeouts and limits of a server's connections."""

    connections: int = 256  # open at a time
    head: float = 10.0  # seconds until a request's head must have come, and between two requests


def place(text: str) -> tuple[str, int]:
    """Host and port of "HOST:PORT" or ":PORT"; ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) < 10) or int(port) > 65535:
        raise ValueError(f'"{text}" is not HOST:PORT')
    return host.strip("[]") or "0.0.0.0", int(port)


def runner_of(app: web.Application, limits: Limits | None = None) -> web.AppRunner:
    """A runner whose connections are cut after a quiet time.

    Bodies are read as they come: no one needs compressed requests, and a short one may unpack to gigabytes.
    """
    timeout = (limits or Limits()).head
    if _unless_gone not in app.middlewares:
        app.middlewares.insert(0, _unless_gone)
    return web.AppRunner(app, access_log=None, keepalive_timeout=timeout, auto_decompress=False)


@web.middleware
async def _unless_gone(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A client that hangs up before its request has come is no fault of the server: there is nothing to be told."""
    try:
        return await handler(request)
    except ConnectionError:
        if request.transport is not None and not request.transport.is_closing():
            raise  # some other connection
        return web.Response(status=400)


class _Connection(asyncio.Protocol):
    """One connection: hands everything on to the server's protocol, and notes when the head of a request has come."""

    def __init__(self, entrance: ConnectionLimiter, inner: asyncio.Protocol) -> None:
        self._entrance = entrance
        self._inner = inner
        self._tail = b""
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        head = self._entrance.limits.head
        self._deadline = asyncio.get_running_loop().call_later(head, self.cut)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        seen = self._tail + data
        if _HEAD_ENDS in seen:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            self._entrance.heard(self)
        self._tail = seen[-len(_HEAD_ENDS) + 1 :]
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._entrance.gone(self)
        self._inner.connection_lost(exc)

    def cut(self) -> None:
        """End it at once, whatever it is waiting for."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()  # still in its handshake


class ConnectionLimiter:
    """Takes connections for a server, so many at a time."""

    def __init__(self, server: web.Server, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self.limits = limits
        self._server = server
        self._tls = tls
        self._open: dict[_Connection, None] = {}  # the one that was quiet for longest first
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, host: str, port: int) -> None:
        """Listen on every address of the host; OSError where one is taken or cannot be had."""
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in addresses):
            listener = socket.socket(family, socket.SOCK_STREAM)
            self._listeners.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        self._accepting = [loop.create_task(self._accept(listener)) for listener in self._listeners]

    async def close(self) -> None:
        """Take no more connections; those that are open are the runner's to end."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        for connection in [c for c in self._open if c.transport is None]:
            connection.cut()

    def heard(self, connection: _Connection) -> None:
        """A request has come: this one was quiet for the shortest time of all."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def gone(self, connection: _Connection) -> None:
        self._open.pop(connection, None)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # out of file descriptors, or the caller is gone already
                self._make_way()
                await asyncio.sleep(0.01)
                continue
            while len(self._open) >= self.limits.connections:
                self._make_way()
            connection = _Connection(self, self._server())
            self._open[connection] = None
            connection.task = loop.create_task(self._enter(connection, accepted))
            connection.task.add_done_callback(functools.partial(self._entered, connection, accepted))

    def _make_way(self) -> None:
        if self._open:
            quiet = next(iter(self._open))
            del self._open[quiet]
            quiet.cut()

    async def _enter(self, connection: _Connection, accepted: socket.socket) -> None:
        """Hand a connection to the server, after its TLS handshake where there is one."""
        patience = self.limits.head if self._tls is not None else None
        with contextlib.suppress(OSError):  # a handshake that failed: the caller has heard of it, no one else needs to
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=patience
            )

    def _entered(self, connection: _Connection, accepted: socket.socket, _: asyncio.Task[None]) -> None:
        """Whatever became of it, what did not get as far as the server is let go."""
        if connection.transport is None:
            self.gone(connection)
            accepted.close()


async def listen(
    runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None = None, limits: Limits | None = None
) -> ConnectionLimiter:
    """Open the place to callers; InputError where it is taken or cannot be had. Close it before the runner."""
    server = runner.server
    assert server is not None, "the runner is not set up"
    entrance = ConnectionLimiter(server, limits or Limits(), tls)
    try:
        await entrance.open(host, port)
    except OSError as error:
        await entrance.close()
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return entrance


@contextlib.contextmanager
def listening(app: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """Serve an application meanwhile; InputError where the place is taken or cannot be had."""
    loop = asyncio.new_event_loop()
    runner = runner_of(app)
    entrances: list[ConnectionLimiter] = []

    async def start() -> None:
        await runner.setup()
        entrances.append(await listen(runner, host, port, tls))

    async def end() -> None:
        for entrance in entrances:
            await entrance.close()
        await runner.cleanup()

    def do(work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    thread = threading.Thread(target=loop.run_forever, name="listener", daemon=True)
    thread.start()
    try:
        do(start())
        yield
    finally:
        do(end())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
