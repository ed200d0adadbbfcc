"""Servers stay reachable whatever those who connect do not say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from tests.support.ports import HOST, free_port

from tierwise.api.errors import InputError
from tierwise.port import Objects
from tierwise.runtime.certificates import Bundle, Certificate, issue
from tierwise.runtime.listener import ConnectionLimiter, Limits, listen, place, runner_of
from tierwise.runtime.metrics import AdmissionMetrics
from tierwise.runtime.probes import probes
from tierwise.runtime.review import Reviewer
from tierwise.runtime.webhook import application

FEW = Limits(connections=8, head=600.0)
"""Nothing is cut for being slow: who is served is served because others made way."""
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def _app() -> web.Application:
    return probes(CollectorRegistry(), live=lambda: "", ready=lambda: "")


@contextlib.asynccontextmanager
async def _serving(
    app: web.Application, limits: Limits, certificate: Certificate | None = None, *, patience: Limits | None = None
) -> AsyncIterator[tuple[ConnectionLimiter, int]]:
    """A server behind a limiter with these limits; `patience` are those of the server itself."""
    runner, port = runner_of(app, patience or limits), free_port()
    await runner.setup()
    entrance = await listen(runner, HOST, port, certificate.context if certificate is not None else None, limits)
    try:
        yield entrance, port
    finally:
        await entrance.close()
        await runner.cleanup()


async def _ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(REQUEST)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
def test_silent_connections_make_way(said: bytes) -> None:
    """Many more than may be open, silent or stuck in the middle of a head: the next caller is answered."""

    async def visit() -> None:
        async with _serving(_app(), FEW) as (entrance, port):
            writers = []
            for _ in range(100):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.write(said)
                writers.append(writer)
            assert (await _ask(port)).startswith(b"HTTP/1.1 200")
            assert len(entrance) <= FEW.connections
            for writer in writers:
                writer.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


def test_whoever_asks_stays_before_those_who_are_silent() -> None:
    """A connection that is used is not the one that makes way."""

    async def visit() -> None:
        async with _serving(_app(), FEW) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writers = []
            for _ in range(5):
                for _ in range(FEW.connections - 1):
                    writers.append((await asyncio.open_connection(HOST, port))[1])
                writer.write(REQUEST.replace(b"close", b"keep-alive"))
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert b"ok\n" == await reader.readexactly(3)
            for other in (*writers, writer):
                other.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


def test_request_in_pieces_is_one() -> None:
    """Whose head comes in two packets has been heard like any other, and is not the one that makes way."""

    async def visit() -> None:
        async with _serving(_app(), Limits(connections=3, head=600.0)) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            others = [(await asyncio.open_connection(HOST, port))[1]]
            asked = REQUEST.replace(b"close", b"keep-alive")
            writer.write(asked[:-2])
            assert (await _ask(port)).startswith(b"HTTP/1.1 200")  # the first piece has come by now
            for piece in (asked[-2:], asked):
                writer.write(piece)
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                assert b"ok\n" == await reader.readexactly(3)
                others += [(await asyncio.open_connection(HOST, port))[1] for _ in range(2)]
            for other in (*others, writer):
                other.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_a_head_must_come_in_time(said: bytes) -> None:
    """The server hangs up on a caller that is silent, or never ends its request."""

    async def visit() -> None:
        async with _serving(_app(), Limits(head=0.05)) as (entrance, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(said)
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await reader.read()
            assert 0 == len(entrance)
            writer.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_a_head_must_come_in_time_by_our_own_clock(said: bytes) -> None:
    """Also where the server behind it would wait for ever."""

    async def visit() -> None:
        async with _serving(_app(), Limits(head=0.05), patience=FEW) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(said)
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await reader.read()
            writer.close()

    asyncio.run(asyncio.wait_for(visit(), 30))


def test_a_request_that_came_may_take_its_time() -> None:
    """The deadline is for its head: whoever was heard is answered, though others have been cut since."""
    go_on = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await go_on.wait()
        return web.Response(text="ok\n")

    async def visit() -> None:
        app = web.Application()
        app.router.add_get("/healthz", slow)
        async with _serving(app, Limits(head=0.05)) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(REQUEST)
            silent, other = await asyncio.open_connection(HOST, port)
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await silent.read()  # its time is over, and so is that of the first one's head
            go_on.set()
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            for each in (writer, other):
                each.close()

    asyncio.run(asyncio.wait_for(visit(), 30))


def test_a_connection_between_two_requests_is_not_kept_for_ever() -> None:
    """After its answer a caller that says no more is cut as well."""

    async def visit() -> None:
        async with _serving(_app(), Limits(head=0.05)) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(REQUEST.replace(b"close", b"keep-alive"))
            with contextlib.suppress(ConnectionResetError):
                assert (await reader.read()).endswith(b"ok\n")
            writer.close()

    asyncio.run(asyncio.wait_for(visit(), 30))


def test_a_handshake_must_end_in_time(tmp_path: Path) -> None:
    """The server hangs up on a caller that connects and does not begin with TLS, and forgets it."""
    _, certificate = _certified(tmp_path)

    async def visit() -> None:
        async with _serving(_app(), Limits(head=0.05), certificate) as (entrance, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await reader.read()
            while len(entrance):
                await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(asyncio.wait_for(visit(), 30))


def _certified(folder: Path) -> tuple[Bundle, Certificate]:
    """A new certificate for this host, in files."""
    bundle = issue([HOST], datetime.now(UTC))
    (folder / "tls.crt").write_bytes(bundle.certificate)
    (folder / "tls.key").write_bytes(bundle.key)
    return bundle, Certificate(folder / "tls.crt", folder / "tls.key")


def test_silent_handshakes_make_way(tmp_path: Path) -> None:
    """The webhook answers although many have connected and none of them begins with TLS."""
    bundle, certificate = _certified(tmp_path)

    async def visit() -> None:
        import ssl

        import aiohttp

        app = application(Reviewer(Objects), AdmissionMetrics(CollectorRegistry()))
        async with _serving(app, FEW, certificate) as (entrance, port):
            writers = [(await asyncio.open_connection(HOST, port))[1] for _ in range(100)]
            trust = ssl.create_default_context(cadata=bundle.authority.decode())
            trust.check_hostname = False
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, force_close=True)) as session,
                session.post(f"https://{HOST}:{port}/validate", data="{}") as answer,
            ):
                assert 400 == answer.status
            assert len(entrance) <= FEW.connections
            for writer in writers:
                writer.close()

    asyncio.run(asyncio.wait_for(visit(), 60))


def test_a_place_that_is_taken_is_bad_input() -> None:
    """One line says which."""

    async def visit() -> None:
        async with _serving(_app(), FEW) as (_, port):
            runner = runner_of(_app())
            await runner.setup()
            with pytest.raises(InputError, match=f"cannot listen on {HOST}:{port}"):
                await listen(runner, HOST, port)
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(visit(), 60))


@pytest.mark.parametrize("text", ["here", "here:", "here:-1", "here:65536", "here:²", f"here:{'9' * 5000}"])
def test_a_place_has_a_port_of_plain_digits(text: str) -> None:
    """Anything else is no place, in words of our own."""
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        place(text)
