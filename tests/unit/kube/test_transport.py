"""Answers are read as a general HTTP client reads them, however they are cut; connections are kept, and none is trusted
that has ended.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import cast

import aiohttp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tierwise.kube.errors import NotLeadingError
from tierwise.kube.transport import DirectTransport, ProxyTransport, Request, Transport, WaitLimits
from tierwise.runtime.certificates import issue, tls_of

LIMITS = WaitLimits(head=30.0, part=30.0, whole=30.0)
ASKED = Request("POST", "/api/v1/namespaces/default/pods/p/binding?timeout=10s", {"Accept": "*/*"}, b"{}")


def _within(seconds: float) -> WaitLimits:
    return WaitLimits(seconds, seconds, seconds)


_TURNS_TO_ACCEPT = 20
"""Turns of the event loop that are more than a connection takes from its acceptance to its task."""


class _Server:
    """Answers every request with the same bytes, a piece at a time; closes then, where it is told to."""

    def __init__(self, pieces: Iterable[bytes], *, close: bool = False) -> None:
        self._pieces, self._close = list(pieces), close
        self.heads: list[bytes] = []
        self.connections = 0
        self.left = asyncio.Event()  # set once a client has closed its connection
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving[cast("asyncio.Task[None]", asyncio.current_task())] = writer
        await self.answer(reader, writer)

    async def end(self) -> None:
        """Leave nothing open, however busy the machine is."""
        for _ in range(_TURNS_TO_ACCEPT):  # a connection may have come just now, and nobody serves it yet
            await asyncio.sleep(0)
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if b"Content-Length: 2" in self.heads[-1]:
                    await reader.readexactly(2)
                for piece in self._pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


def _run(
    server: _Server,
    work: Callable[[Transport], Awaitable[object]],
    *,
    proxied: bool = False,
    tls: tuple[ssl.SSLContext, ssl.SSLContext, str | None] | None = None,
) -> object:
    async def run() -> object:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls[0] if tls else None)
        url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        context, name = (tls[1], tls[2]) if tls else (None, None)

        def trust() -> ssl.SSLContext | None:
            return context

        transport = ProxyTransport(url, trust, name, url) if proxied else DirectTransport(url, trust, name)
        try:
            async with asyncio.timeout(30):
                return await work(transport)
        finally:
            await transport.close()
            listening.close()
            await server.end()

    return asyncio.run(run())


async def _ask(transport: Transport) -> object:
    """Status, a header field and body of an answer; None where there is no whole one."""
    try:
        answer = await transport.request(ASKED, lambda: True, LIMITS)
    except (aiohttp.ClientError, OSError):
        return None
    return answer.status, answer.headers.get("retry-after"), answer.body


async def _read(transport: Transport) -> object:
    """The same of an answer that is read as it comes."""
    try:
        async with transport.stream(ASKED, LIMITS) as answer:
            return answer.status, answer.headers.get("retry-after"), b"".join([part async for part in answer.parts])
    except (aiohttp.ClientError, OSError):
        return None


BODIES = st.binary(max_size=40)
CUTS = st.lists(st.integers(0, 400), max_size=6)


@st.composite
def _answers(draw: st.DrawFn) -> list[bytes]:
    """An answer in pieces, perhaps one that breaks off."""
    status = draw(st.sampled_from([b"200 OK", b"201 Created", b"429 Too Many Requests", b"204 No Content", b"503"]))
    body, framing = draw(BODIES), draw(st.sampled_from(["sized", "chunked", "until closed"]))
    head = [b"HTTP/1.1 " + status, draw(st.sampled_from([b"Retry-After: 3", b"retry-after:3", b"X: y"]))]
    if status.startswith(b"204"):
        body = b""
    elif framing == "sized":
        head.append(b"Content-Length: %d" % len(body))
    elif framing == "chunked":
        head.append(b"Transfer-Encoding: chunked")
        edges = sorted({0, len(body), *(cut % (len(body) + 1) for cut in draw(CUTS))})
        chunks = [body[a:b] for a, b in pairwise(edges)]
        extension = draw(st.sampled_from([b"", b";a=b"]))
        body = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
        body += b"0\r\n" + draw(st.sampled_from([b"", b"Later: field\r\n"])) + b"\r\n"
    whole = b"\r\n".join(head) + b"\r\n\r\n" + body
    if draw(st.booleans()) and framing != "until closed":
        whole = whole[: draw(st.integers(0, len(whole)))]
    edges = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in draw(CUTS))})
    return [whole[a:b] for a, b in pairwise(edges)]


@given(_answers(), st.sampled_from([_ask, _read]))
@example([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r", b"\n0\r\n\r", b"\n"], _ask)
@example([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"], _ask)
@example([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"], _read)
def test_answers_are_read_as_a_general_client_reads_them(
    pieces: list[bytes], ask: Callable[[Transport], Awaitable[object]]
) -> None:
    """Of every length and framing, in whatever pieces they come; what is not whole is no answer."""
    expected = _run(_Server(pieces, close=True), ask, proxied=True)

    assert expected == _run(_Server(pieces, close=True), ask)


def _answer(body: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *fields, b"Content-Length: %d" % len(body), b"", body))


def test_compressed_answers_are_read() -> None:
    """As lists are sent, where they are long."""
    packed = gzip.compress(b"text" * 100)

    assert (200, None, b"text" * 100) == _run(_Server([_answer(packed, b"Content-Encoding: gzip")]), _ask)
    assert _run(_Server([_answer(packed[:-9], b"Content-Encoding: gzip")]), _ask) is None


def test_an_announcement_is_no_answer() -> None:
    """What a server says before it answers is passed over."""
    early = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\n"

    assert (200, None, b"x") == _run(_Server([early + _answer(b"x")]), _ask)


@pytest.mark.parametrize("said", [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200\r\nContent-Length: many\r\n\r\n"])
def test_what_is_no_http_is_no_answer(said: bytes) -> None:
    """A server that speaks something else has not answered."""
    assert _run(_Server([said]), _ask) is None


@pytest.mark.parametrize(
    ("answer", "close", "connections"),
    [
        (_answer(b"x"), False, 1),
        (_answer(b"x", b"Connection: close"), True, 2),
        (_answer(b"x"), True, 2),  # without a word
        (_answer(b"x") + b"more", False, 2),  # what nobody asked for would be taken for the next answer
    ],
)
def test_connections_are_kept_while_they_can_be_trusted(answer: bytes, close: bool, connections: int) -> None:
    """One that has ended, or on which something came that nobody asked for, carries no further request."""
    server = _Server([answer], close=close)

    async def apart(transport: Transport) -> object:
        first = await _ask(transport)
        for _ in range(100):  # turns of the event loop in which the end of the connection arrives
            await asyncio.sleep(0)
        return first, await _ask(transport)

    assert ((200, None, b"x"), (200, None, b"x")) == _run(server, apart)
    assert connections == server.connections


def test_requests_wait_for_each_others_connections() -> None:
    """A handshake takes longer than most requests: where many come at once, few make connections for all."""
    server = _Server([_answer(b"x")])

    async def many(transport: Transport) -> object:
        return await asyncio.gather(*(_ask(transport) for _ in range(200)))

    assert [(200, None, b"x")] * 200 == _run(server, many)
    assert server.connections < 100


def test_who_gives_up_waiting_keeps_nobody_from_a_connection() -> None:
    """Neither before nor after being let to have one."""
    server = _Server([_answer(b"x")])

    async def some_give_up(transport: Transport) -> object:
        asked = [asyncio.ensure_future(_ask(transport)) for _ in range(40)]
        given_up = asked[::2]
        for turn in range(40):
            await asyncio.sleep(0)
            if turn % 2:
                given_up.pop().cancel()
        return [answer for answer in await asyncio.gather(*asked, return_exceptions=True) if isinstance(answer, tuple)]

    answers = _run(server, some_give_up)

    assert isinstance(answers, list)
    assert len(answers) >= 20


def test_nobody_waits_for_a_server_that_is_not_there() -> None:
    """Everybody learns it, however many ask at once."""

    async def ask() -> object:
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))  # nobody listens
            transport = DirectTransport(f"http://127.0.0.1:{unheard.getsockname()[1]}", lambda: None, None)
            async with asyncio.timeout(30):
                return await asyncio.gather(*(_ask(transport) for _ in range(20)))

    assert [None] * 20 == asyncio.run(ask())


class _Slow(_Server):
    """Answers every second request only when it is told to."""

    def __init__(self) -> None:
        super().__init__([_answer(b"x")])
        self.go = asyncio.Event()

    async def end(self) -> None:
        self.go.set()
        await super().end()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for number in range(4):
                self.heads.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2))
                if number % 2:
                    await self.go.wait()
                writer.write(_answer(b"x"))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@contextmanager
def _standing_still() -> Iterator[Callable[[float], Awaitable[None]]]:
    """Time of the event loop stands still, but for so many seconds that pass at once; some turns of it follow."""
    loop = asyncio.get_running_loop()
    now = loop.time()

    async def let_pass(seconds: float) -> None:
        nonlocal now
        now += seconds
        for _ in range(50):
            await asyncio.sleep(0)

    loop.time = lambda: now  # type: ignore[method-assign]
    try:
        yield let_pass
    finally:
        del loop.time


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("before", [5.0, 20.0])
def test_a_request_that_is_not_answered_in_time_is_given_up(*, proxied: bool, before: float) -> None:
    """However long the one before it on that connection might have taken; the connection is not used again."""
    server = _Slow()

    async def wait(transport: Transport) -> object:
        with _standing_still() as let_pass:
            await transport.request(ASKED, lambda: True, _within(before))
            asked = asyncio.ensure_future(transport.request(ASKED, lambda: True, _within(10.0)))
            while len(server.heads) < 2:
                await asyncio.sleep(0)
            await let_pass(9.0)
            early = asked.done()
            await let_pass(2.0)
            assert asked.done()  # time stands still: who waits on would wait for ever
            with pytest.raises(TimeoutError):
                await asked
        server.go.set()
        await server.left.wait()
        return early, await _ask(transport)

    assert (False, (200, None, b"x")) == _run(server, wait, proxied=proxied)
    assert 2 == server.connections


async def _read_within(transport: Transport, limits: WaitLimits) -> object:
    try:
        async with transport.stream(ASKED, limits) as answer:
            return [part async for part in answer.parts]
    except TimeoutError as error:
        return error


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize(
    ("pieces", "limits"),
    [
        ([], WaitLimits(head=0.05, part=30.0)),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"], WaitLimits(head=30.0, part=0.05)),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"], WaitLimits(head=30.0, part=0.05)),
    ],
    ids=["no head", "half a body", "no body"],
)
def test_a_server_that_falls_silent_is_not_waited_for(
    *, proxied: bool, pieces: list[bytes], limits: WaitLimits
) -> None:
    """Neither for the head of an answer nor for its next part, whether it is read whole or as it comes."""

    async def wait(transport: Transport) -> object:
        with pytest.raises(TimeoutError):
            await transport.request(ASKED, lambda: True, limits)
        return await _read_within(transport, limits)

    assert isinstance(_run(_Server(pieces), wait, proxied=proxied), TimeoutError)


def test_what_was_kept_beside_a_dead_connection_is_not_used() -> None:
    """A request that got no answer in time is made again over a new connection, however many are kept."""
    server = _Slow()

    async def wait(transport: Transport) -> object:
        await asyncio.gather(_ask(transport), _ask(transport))  # over two connections, which are kept
        with pytest.raises(TimeoutError):
            await transport.request(ASKED, lambda: True, _within(0.05))
        asked = asyncio.ensure_future(_ask(transport))
        while server.connections < 3 and len(server.heads) < 4:
            await asyncio.sleep(0)
        server.go.set()
        return await asked

    assert (200, None, b"x") == _run(server, wait)
    assert 3 == server.connections


def test_time_that_a_request_did_not_need_is_none_of_the_next() -> None:
    """An answer comes when the limit of the request before it is long over."""
    server = _Slow()

    async def wait(transport: Transport) -> object:
        with _standing_still() as let_pass:
            await transport.request(ASKED, lambda: True, _within(5.0))
            await let_pass(4.0)
            asked = asyncio.ensure_future(_ask(transport))
            while len(server.heads) < 2:
                await asyncio.sleep(0)
            await let_pass(4.0)
            server.go.set()
            return await asked

    assert (200, None, b"x") == _run(server, wait)
    assert 1 == server.connections


def test_header_fields_are_those_of_the_request() -> None:
    """Whichever were sent before."""
    server = _Server([_answer(b"x")])

    async def ask(transport: Transport) -> object:
        for name in ("A", "B", "A"):
            await transport.request(Request("POST", "/", {name: "1"}, b"{}"), lambda: True, LIMITS)
        return [name for head in server.heads for name in (b"A", b"B") if b"\r\n" + name + b": 1\r\n" in head]

    assert [b"A", b"B", b"A"] == _run(server, ask)


def test_nothing_is_sent_that_may_not_be() -> None:
    """Whether a request may be made is asked when there is a connection for it; that is kept for the next."""
    server = _Server([_answer(b"x")])

    async def refuse(transport: Transport) -> object:
        with pytest.raises(NotLeadingError):
            await transport.request(ASKED, lambda: False, LIMITS)
        return await _ask(transport)

    assert (200, None, b"x") == _run(server, refuse)
    assert (1, 1) == (len(server.heads), server.connections)


def test_a_request_that_outlives_its_transport_leaves_no_connection() -> None:
    """Somebody else's failure may close the transport while an answer is on its way."""
    server = _Server([_answer(b"x")])

    async def closing(transport: Transport) -> object:
        asked = asyncio.ensure_future(_ask(transport))
        while not server.heads:
            await asyncio.sleep(0)
        await transport.close()
        answer = await asked
        await asyncio.wait_for(server.left.wait(), 30)
        return answer

    assert (200, None, b"x") == _run(server, closing)


def test_a_request_is_what_was_asked() -> None:
    """The path and the query to the letter, below the path of the server, and no line that nobody meant."""
    server = _Server([_answer(b"")])

    async def ask(transport: Transport) -> object:
        with pytest.raises(ValueError, match="no path"):
            await transport.request(Request("GET", "/api HTTP/1.1\r\nX: y", {}), lambda: True, LIMITS)
        return await _ask(transport)

    _run(server, ask)
    first, *fields = server.heads[0].split(b"\r\n")
    assert b"POST /api/v1/namespaces/default/pods/p/binding?timeout=10s HTTP/1.1" == first
    assert [b"Accept: */*", b"Content-Length: 2", b"", b""] == fields[1:]


@pytest.mark.parametrize("secure", [False, True])
def test_a_stream_is_whole_for_those_who_read_slowly(*, secure: bool) -> None:
    """What comes while nobody asks for it waits, the end of the connection included."""
    bundle = issue(["api.example"], datetime.now(UTC))
    trust = ssl.create_default_context(cadata=bundle.authority.decode())
    pieces = [b"HTTP/1.1 200 OK\r\n\r\n", *(b"%d;" % number for number in range(200)), b"x" * 1_000_000]

    async def slowly(transport: Transport) -> object:
        found = b""
        async with transport.stream(ASKED, LIMITS) as answer:
            async for part in answer.parts:
                found += part
                for _ in range(20):
                    await asyncio.sleep(0)
        return found

    tls = (tls_of(bundle), trust, "api.example") if secure else None
    assert b"".join(pieces[1:]) == _run(_Server(pieces, close=True), slowly, tls=tls)


def test_certificates_are_checked_by_the_name_that_was_asked_for() -> None:
    """The server's own name, or the one that a kubeconfig gives."""
    bundle = issue(["api.example"], datetime.now(UTC))
    trust = ssl.create_default_context(cadata=bundle.authority.decode())

    assert (200, None, b"x") == _run(_Server([_answer(b"x")]), _ask, tls=(tls_of(bundle), trust, "api.example"))
    assert _run(_Server([_answer(b"x")]), _ask, tls=(tls_of(bundle), trust, None)) is None


@pytest.mark.parametrize("addresses", [["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
def test_a_server_of_several_addresses_is_reached_by_one_that_answers(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens on the other."""

    async def look_up(_loop: object, _host: str, port: int, **_rest: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    assert (200, None, b"x") == _run(_Server([_answer(b"x")]), _ask)


def test_a_server_without_an_address_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is an error like any other of the connection."""

    async def look_up(*_: object, **_rest: object) -> list[object]:
        return []

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    assert _run(_Server([_answer(b"x")]), _ask) is None
