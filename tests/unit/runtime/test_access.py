"""Who may ask a server that a person opens: hosts, proxies, tokens, other sites, and how fast."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tierwise.cli.pages import opening
from tierwise.runtime.access import LOOPBACK, Access, guarded

TOKEN = "secret-of-this-run"
HERE = Access(LOOPBACK)
PROXY = Access(LOOPBACK | {"pages.example"}, TOKEN, cookie_writes=("/kept",))
ANYWHERE = Access((), TOKEN)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
COOKIE = {"Cookie": f"tierwise-token={TOKEN}"}


def _asked(access: Access, *requests: tuple[str, str, Mapping[str, str]], burst: int = 100) -> list[web.Response]:
    """The answers to requests, one after the other."""

    async def well(_: web.Request) -> web.Response:
        return web.Response(text="well")

    async def ask() -> list[web.Response]:
        app = web.Application(middlewares=[guarded(access, rate=0.0, burst=burst)])
        app.router.add_route("*", "/{path:.*}", well)
        async with TestClient(TestServer(app)) as client:
            found = []
            for method, path, headers in requests:
                async with client.request(method, path, headers=headers, allow_redirects=False) as answer:
                    found.append(web.Response(status=answer.status, text=await answer.text(), headers=answer.headers))
            return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("access", "method", "headers", "status"),
    [
        (HERE, "GET", {"Host": "127.0.0.1:8080"}, 200),
        (HERE, "GET", {"Host": "LOCALHOST"}, 200),
        (HERE, "GET", {"Host": "[::1]:8080"}, 200),
        (HERE, "GET", {"Host": "evil.example"}, 421),  # a site that gave its own name this address
        (HERE, "GET", {"Host": "127.0.0.1.evil.example"}, 421),
        (HERE, "GET", {"Host": "pages.example", **BEARER}, 421),  # no token makes up for a name that nobody gave
        (HERE, "GET", {"Host": "localhost", "X-Forwarded-For": "10.1.2.3"}, 403),
        (HERE, "GET", {"Host": "localhost", "Via": "1.1 somewhere"}, 403),
        (HERE, "GET", {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}, 403),
        (HERE, "GET", {"Host": "localhost", "Sec-Fetch-Site": "same-site"}, 403),  # another port, or a sister's host
        (HERE, "GET", {"Host": "localhost", "Sec-Fetch-Site": "same-origin"}, 200),
        (HERE, "GET", {"Host": "localhost", "Sec-Fetch-Site": "none"}, 200),  # a person's own doing
        (HERE, "POST", {"Host": "localhost", "Origin": "https://evil.example"}, 403),
        (HERE, "POST", {"Host": "localhost", "Origin": "http://localhost"}, 200),
        (PROXY, "GET", {"Host": "pages.example"}, 401),
        (PROXY, "GET", {"Host": "localhost"}, 401),  # proxies like to name the host behind them
        (PROXY, "GET", {"Host": "evil.example", **BEARER}, 421),
        (PROXY, "GET", {"Host": "pages.example", "X-Forwarded-For": "10.1.2.3", **BEARER}, 200),
        (PROXY, "GET", {"Host": "pages.example", **COOKIE}, 200),
        (PROXY, "POST", {"Host": "pages.example", **COOKIE}, 401),  # a cookie reads, but for what stays here
        (PROXY, "POST", {"Host": "pages.example", **BEARER}, 200),
        (PROXY, "GET", {"Host": "pages.example", "Authorization": "Bearer other"}, 401),
        (ANYWHERE, "GET", {"Host": "10.0.0.7:8080"}, 401),
        (ANYWHERE, "GET", {"Host": "10.0.0.7:8080", **BEARER}, 200),
    ],
)
def test_who_may_ask(access: Access, method: str, headers: dict[str, str], status: int) -> None:
    """Loopback by its own names and directly; under every other name, and through proxies, with the token."""
    (answer,) = _asked(access, (method, "/anything", headers))

    assert status == answer.status


def test_a_browser_gets_a_cookie_for_the_token() -> None:
    """The address with the token leads to one without; the cookie is for this site and for no script."""
    secure = {"Host": "pages.example", "X-Forwarded-Proto": "https"}
    plain, proxied, wrong, kept = _asked(
        PROXY,
        ("GET", f"/?token={TOKEN}", {"Host": "pages.example"}),
        ("GET", f"/?token={TOKEN}", secure),
        ("GET", "/?token=other", {"Host": "pages.example"}),
        ("POST", "/kept", {"Host": "pages.example", **COOKIE}),
    )

    assert (303, "/") == (plain.status, plain.headers["Location"])
    assert {"HttpOnly", "SameSite=Strict"} <= set(plain.headers["Set-Cookie"].split("; "))
    assert "Secure" in proxied.headers["Set-Cookie"].split("; ")
    assert (401, 200) == (wrong.status, kept.status)


def test_what_comes_too_fast_is_refused() -> None:
    """After a burst nothing is answered but when to try again."""
    answers = _asked(HERE, *[("GET", "/", {"Host": "localhost"})] * 3, burst=2)

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert "1" == answers[-1].headers["Retry-After"]


def test_strangers_use_up_nobody_elses_requests() -> None:
    """Who has no token is refused, and then told to wait; who has it is answered all the same."""
    stranger, friend = ("GET", "/", {"Host": "x"}), ("GET", "/", {"Host": "x", **BEARER})
    answers = _asked(ANYWHERE, *[stranger] * 4, friend, friend, friend, burst=2)

    assert [401, 401, 429, 429, 200, 200, 429] == [answer.status for answer in answers]


def test_each_client_has_requests_of_its_own() -> None:
    """One address that asks too fast is told to wait; another is answered."""
    statuses = asyncio.run(_statuses("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"))

    assert [200, 200, 429, 200] == statuses


async def _statuses(*addresses: str) -> list[int]:
    """The answers to requests from addresses of this machine."""

    async def well(_: web.Request) -> web.Response:
        return web.Response(text="well")

    app = web.Application(middlewares=[guarded(HERE, rate=0.0, burst=2)])
    app.router.add_get("/", well)
    found = []
    async with TestServer(app, host="127.0.0.1") as server:
        for address in addresses:
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(server.make_url("/")) as answer,
            ):
                found.append(answer.status)
    return found


def test_where_a_server_opens() -> None:
    """On loopback without a token; under another name with one, elsewhere with TLS besides."""
    here, named, elsewhere = opening(("127.0.0.1", 1)), opening(("::1", 1), ("P.example",)), opening(("0.0.0.0", 1))

    assert ("http://127.0.0.1:1/", "") == (here.page, here.access.token)
    assert {"p.example", "localhost"} <= set(named.access.hosts)
    assert named.page == f"http://[::1]:1/?token={named.access.token}"
    assert len(named.access.token) > 40
    assert elsewhere.tls is not None
    assert elsewhere.page.startswith("https://0.0.0.0:1/?token=")
    assert named.access.token != elsewhere.access.token
