"""The routes of the pages: static files by name, the board and its details as JSON, past moments, a stream of events.

Added to the caller's application. Every client that reaches the port may read; one route takes a body, the manifests of
a question that is answered in memory, and no file is opened by a name from a request. Browsers are told to load nothing
from elsewhere and to run nothing inline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tierwise.api.errors import InputError
from tierwise.explain.board import JobQuery
from tierwise.web.events import add_events
from tierwise.web.history import BoardHistory
from tierwise.web.views import CachedBody, RunSource, RunView
from tierwise.web.what_if import BusyError, WhatIfs

__all__ = ["LOOPBACK", "add_pages", "only_for", "pages"]

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Server": "tierwise",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST: Final = re.compile(r"\[?(?P<name>[^\[\]]*?)\]?(:[0-9]+)?")
_LARGE: Final = 1400  # bytes that fit a packet are sent as they are

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine calls itself."""

Ask = Callable[[RunView, str, Mapping[str, str]], CachedBody | None]
"""What a route asks of a view: the name in its path, and the parameters of its query."""

T = TypeVar("T")

_HEADER: Final = "X-Tierwise"
_LONGEST: Final = 300
"""Characters of a text that is searched for."""


def add_pages(app: web.Application, source: RunSource) -> None:
    """Let an application show what a source knows, from "/" on."""
    for path, (body, kind) in _static().items():
        app.router.add_get(path, _file(CachedBody.of(body), kind))
    asks: dict[str, Ask] = {
        "/api/board": lambda show, _, __: show.board(),
        "/api/jobs": lambda show, _, asked: show.jobs(_job_query(asked)),
        "/api/search": lambda show, _, asked: show.search(asked.get("q", "")[:_LONGEST]),
        "/api/nodes/{name:.+}": lambda show, name, asked: show.nodes(name, asked.get("fabric", "")[:_LONGEST]),
        "/api/node/{name:.+}": lambda show, name, _: show.node(name),
        "/api/nodes-for/{name:.+}": lambda show, name, _: show.nodes_for(name),
        "/api/jobs/{name:.+}": lambda show, name, _: show.job(name),
    }
    history, what_ifs = BoardHistory(), WhatIfs()
    for path, ask in asks.items():
        app.router.add_get(path, _data(source, ask, history, what_ifs))
    app.router.add_get(
        "/api/what-if", _answer(source, lambda show, asked: what_ifs.comparison(show, asked.get("if", "")))
    )
    app.router.add_get("/api/least/{name:.+}", _answer(source, lambda show, asked: what_ifs.least(show, asked["name"])))
    app.router.add_post("/api/manifests", _manifests(source, what_ifs))
    app.router.add_get("/api/history", _history(source, history))
    app.router.add_get("/api/changes", _changes(history))
    add_events(app, source, history)
    app.on_response_prepare.append(_add_headers)


def pages(source: RunSource, hosts: Collection[str] = ()) -> web.Application:
    """An application that serves one source; if hosts are given, only requests with these Host headers are answered."""
    app = web.Application(middlewares=[only_for(hosts)] if hosts else [])
    add_pages(app, source)
    return app


def only_for(hosts: Collection[str]) -> Middleware:
    """Refuse requests for other hosts: a site elsewhere may give its own name our address, and then read along."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        form = _HOST.fullmatch(request.host)
        if form is None or form["name"] not in hosts:
            raise web.HTTPMisdirectedRequest(text=f"this server answers for {', '.join(sorted(hosts))}\n")
        return await handler(request)

    return check


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _static() -> dict[str, tuple[bytes, str]]:
    """Path, content and type of every static file; "/" is the page itself."""
    found: dict[str, tuple[bytes, str]] = {}
    for entry in files(__package__).joinpath("static").iterdir():
        kind = next((kind for ending, kind in _TYPES.items() if entry.name.endswith(ending)), "")
        if kind:
            path = "/" if entry.name == "index.html" else f"/static/{entry.name}"
            found[path] = entry.read_bytes(), kind
    return found


def _file(answer: CachedBody, kind: str) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        return _respond(request, answer, kind)

    return serve


async def _current(source: RunSource, history: BoardHistory) -> RunView:
    """What there is to show now. Reading files and making a board take their time: others are answered meanwhile."""
    show = await asyncio.to_thread(source.show)
    if isinstance(show, str):
        raise web.HTTPServiceUnavailable(text=f"{show}\n")
    await asyncio.to_thread(history.saw, show)
    return show


def _data(source: RunSource, ask: Ask, history: BoardHistory, what_ifs: WhatIfs) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        if "at" in request.query:
            return _respond(request, await asyncio.to_thread(_past, history, request), "application/json")
        show = await _current(source, history)
        if "if" in request.query:
            show = await _worked_out(lambda: what_ifs.view(show, request.query["if"]))
        answer = await asyncio.to_thread(ask, show, request.match_info.get("name", ""), request.query)
        if answer is None:
            raise web.HTTPNotFound(text="there is nothing of this name\n")
        return _respond(request, answer, "application/json")

    return serve


async def _worked_out(work: Callable[[], T]) -> T:
    """What a question is answered with; one that makes no sense is refused with one line."""
    try:
        return await asyncio.to_thread(work)
    except InputError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None
    except BusyError:
        raise web.HTTPTooManyRequests(text="others have asked before: try again in a moment\n") from None


def _answer(source: RunSource, ask: Callable[[RunView, Mapping[str, str]], CachedBody]) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        show = await asyncio.to_thread(source.show)
        if isinstance(show, str):
            raise web.HTTPServiceUnavailable(text=f"{show}\n")
        asked = {**request.query, **request.match_info}
        return _respond(request, await _worked_out(lambda: ask(show, asked)), "application/json")

    return serve


def _manifests(source: RunSource, what_ifs: WhatIfs) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        # A form of another site cannot send this header without asking first, and nobody here would say yes.
        if _HEADER not in request.headers:
            raise web.HTTPForbidden(text=f"{_HEADER} is missing\n")
        show = await asyncio.to_thread(source.show)
        if isinstance(show, str) or show.scenario is None:
            raise web.HTTPForbidden(text="what-if is answered by `tierwise serve`, on this machine alone\n")
        text = await request.read()  # bounded by the application's client_max_size
        name = await _worked_out(lambda: what_ifs.keep(text))
        return web.json_response({"name": name})

    return serve


def _past(history: BoardHistory, request: web.Request) -> CachedBody:
    """The board or the jobs of a past moment; the rest is not kept."""
    view = history.at(_number(request.query, "at"))
    if view is None:
        raise web.HTTPNotFound(text="this moment is not kept any more\n")
    if request.path == "/api/board":
        return view.board()
    if request.path == "/api/jobs":
        return view.jobs(_job_query(request.query))
    raise web.HTTPNotFound(text="nodes and stories of past moments are not kept\n")


def _history(source: RunSource, history: BoardHistory) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        await _current(source, history)
        return _respond(request, CachedBody.of(msgspec.json.encode(history.wire())), "application/json")

    return serve


def _changes(history: BoardHistory) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        first, second = _number(request.query, "from"), _number(request.query, "to")
        found = await asyncio.to_thread(history.changes, first, second)
        if found is None:
            raise web.HTTPNotFound(text="one of the moments is not kept any more\n")
        return _respond(request, CachedBody.of(msgspec.json.encode(found)), "application/json")

    return serve


def _number(asked: Mapping[str, str], name: str, default: str = "") -> int:
    try:
        number = int(asked.get(name, default))
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name} is a number\n") from None
    if number < 0:
        raise web.HTTPBadRequest(text=f"{name} is not negative\n")
    return number


def _job_query(asked: Mapping[str, str]) -> JobQuery:
    """The jobs that a page asks for; a number that is none is refused."""
    offset, limit = _number(asked, "offset", "0"), _number(asked, "limit", "60")
    words = {name: asked.get(name, "")[:_LONGEST] for name in ("state", "verdict", "reason", "sort")}
    text = asked.get("q", "")[:_LONGEST]
    return JobQuery(text=text, queue=asked.get("queue"), offset=offset, limit=limit, **words)


def _respond(request: web.Request, answer: CachedBody, kind: str) -> web.Response:
    """The body, unless the caller has it already. Nothing is kept without asking again."""
    headers = {"ETag": f'"{answer.mark}"', "Cache-Control": "no-cache"}
    if any(etag.value in (answer.mark, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=answer.body, content_type=kind, charset="utf-8", headers=headers)
    if len(answer.body) > _LARGE:
        response.enable_compression()
    return response
