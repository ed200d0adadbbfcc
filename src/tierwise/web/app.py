"""The routes of the pages: static files by name, and the board, the nodes of a domain and the story of a job as JSON.

Added to the caller's application. Every client that reaches the port may read; no route takes a body, and no file is
opened by a name from a request. Browsers are told to load nothing from elsewhere and to run nothing inline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tierwise.explain.board import JobQuery
from tierwise.web.views import CachedBody, RunSource, RunView

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
        "/api/nodes/{name:.+}": lambda show, name, _: show.nodes(name),
        "/api/node/{name:.+}": lambda show, name, _: show.node(name),
        "/api/nodes-for/{name:.+}": lambda show, name, _: show.nodes_for(name),
        "/api/jobs/{name:.+}": lambda show, name, _: show.job(name),
    }
    for path, ask in asks.items():
        app.router.add_get(path, _data(source, ask))
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


def _data(source: RunSource, ask: Ask) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        # Reading files and making a board take their time: other requests are answered meanwhile.
        show = await asyncio.to_thread(source.show)
        if isinstance(show, str):
            raise web.HTTPServiceUnavailable(text=f"{show}\n")
        answer = await asyncio.to_thread(ask, show, request.match_info.get("name", ""), request.query)
        if answer is None:
            raise web.HTTPNotFound(text="there is nothing of this name\n")
        return _respond(request, answer, "application/json")

    return serve


def _job_query(asked: Mapping[str, str]) -> JobQuery:
    """The jobs that a page asks for; a number that is none is refused."""
    try:
        offset, limit = int(asked.get("offset", "0")), int(asked.get("limit", "60"))
    except ValueError:
        raise web.HTTPBadRequest(text="offset and limit are numbers\n") from None
    if offset < 0 or limit < 0:
        raise web.HTTPBadRequest(text="offset and limit are not negative\n")
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
