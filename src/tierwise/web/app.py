"""The routes of the pages: static files by name, the board and its details as JSON, past moments, a stream of events.

Added to the caller's application. Every client that reaches the port may read; one route takes a body, the manifests of
a question that is answered in memory, and no file is opened by a name from a request. Browsers are told to load nothing
from elsewhere and to run nothing inline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.explain.board import Board, JobQuery
from tierwise.runtime.access import LOOPBACK, Access, guarded
from tierwise.web.events import add_events
from tierwise.web.history import BoardHistory, History, PastView
from tierwise.web.recording import RecordedHistory
from tierwise.web.views import CachedBody, RunSource, RunView
from tierwise.web.what_if import BusyError, WhatIfs

__all__ = ["add_pages", "pages"]

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Server": "tierwise",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LARGE: Final = 1400  # bytes that fit a packet are sent as they are

_MOST_BYTES: Final = 1 << 20
"""The largest body of a request: pasted manifests."""

_MANIFESTS: Final = "/api/manifests"
_HERE: Final = Access(LOOPBACK)

Ask = Callable[[RunView, str, Mapping[str, str]], CachedBody | None]
"""What a route asks of a view: the name in its path, and the parameters of its query."""

T = TypeVar("T")

_Runs = Mapping[str, tuple[RunSource, History]]
"""What can be shown, by name: a source with its past. A live source is the only one, and has no name."""

_NONE: Final[Mapping[str, RecordedHistory]] = {}

_HEADER: Final = "X-Tierwise"
_LONGEST: Final = 300
"""Characters of a text that is searched for."""


def add_pages(
    app: web.Application, source: RunSource, *, record: bool = False, recordings: Mapping[str, RecordedHistory] = _NONE
) -> None:
    """Let an application show what a source knows, from "/" on.

    With `record` past moments are kept though no page is open. `recordings` are shown instead of the past of the
    source, by name; the first where a request names none.
    """
    for path, (body, kind) in _static().items():
        app.router.add_get(path, _file(CachedBody.of(body), kind))
    asks: dict[str, Ask] = {
        "/api/board": lambda show, _, __: show.board(),
        "/api/jobs": lambda show, _, asked: show.answer(Board.jobs, _job_query(asked)),
        "/api/search": lambda show, _, asked: show.answer(Board.search, _text(asked, "q")),
        "/api/nodes/{name:.+}": lambda show, name, asked: show.answer(Board.nodes, name, _text(asked, "fabric")),
        "/api/node/{name:.+}": lambda show, name, _: show.answer(Board.node, name),
        "/api/fits": lambda show, _, asked: show.answer(Board.fits, _text(asked, "shape"), _text(asked, "job")),
        "/api/nodes-for/{name:.+}": lambda show, name, _: show.answer(Board.nodes_for, name),
        "/api/jobs/{name:.+}": lambda show, name, _: show.answer(Board.job, name),
    }
    runs: _Runs = {name: (history, history) for name, history in recordings.items()} or {"": (source, BoardHistory())}
    what_ifs = WhatIfs()
    works: dict[str, Callable[[RunView, Mapping[str, str]], CachedBody]] = {
        "/api/what-if": lambda show, asked: what_ifs.comparison(show, asked.get("if", "")),
        "/api/least/{name:.+}": lambda show, asked: what_ifs.least(show, asked["name"]),
        "/api/drainable": what_ifs.drainable,
        "/api/eta": lambda show, _: what_ifs.eta(show),
        "/api/eta/{name:.+}": lambda show, asked: what_ifs.eta(show, asked["name"]),
    }
    handlers: dict[str, Callable[[web.Request], Awaitable[CachedBody]]] = {
        **{path: partial(_data, runs, ask, what_ifs) for path, ask in asks.items()},
        **{path: partial(_work, runs, work) for path, work in works.items()},
        "/api/history": partial(_history, runs),
        "/api/history/queues": partial(_queues_over_time, runs),
        "/api/changes": partial(_changes, runs),
        "/api/happened": partial(_happened, runs),
        "/api/life/{name:.+}": partial(_life, runs),
    }
    for path, handler in handlers.items():
        app.router.add_get(path, _json(handler))
    app.router.add_post(_MANIFESTS, partial(_manifests, source, what_ifs))
    add_events(app, runs, record=record)
    app.on_response_prepare.append(_add_headers)


def pages(
    source: RunSource, access: Access = _HERE, recordings: Mapping[str, RecordedHistory] = _NONE
) -> web.Application:
    """An application that serves one source, or recordings, to those who may ask."""
    access = replace(access, cookie_writes=(_MANIFESTS,))
    app = web.Application(middlewares=[guarded(access)], client_max_size=_MOST_BYTES)
    add_pages(app, source, recordings=recordings)
    return app


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


def _run(runs: _Runs, request: web.Request) -> tuple[RunSource, History]:
    """The run that a request names, or the first."""
    name = request.query.get("run", "")
    if name and name not in runs:
        raise web.HTTPNotFound(text="there is no run of this name\n")
    return runs[name or next(iter(runs))]


async def _current(source: RunSource, history: History) -> RunView:
    """What there is to show now. Reading files and making a board take their time: others are answered meanwhile."""
    show = await asyncio.to_thread(source.show)
    if isinstance(show, str):
        raise web.HTTPServiceUnavailable(text=f"{show}\n")
    await asyncio.to_thread(history.saw, show)
    return show


def _json(handler: Callable[[web.Request], Awaitable[CachedBody]]) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        return _respond(request, await handler(request), "application/json")

    return serve


async def _data(runs: _Runs, ask: Ask, what_ifs: WhatIfs, request: web.Request) -> CachedBody:
    source, history = _run(runs, request)
    if "at" in request.query:
        past = await asyncio.to_thread(history.at, _number(request.query, "at"))
        if past is None:
            raise web.HTTPNotFound(text="this moment is not kept any more\n")
        if isinstance(past, PastView) and request.path != "/api/search":
            return await asyncio.to_thread(_past, past, request)
        show = past if isinstance(past, RunView) else await _current(source, history)
    else:
        show = await _current(source, history)
    if "if" in request.query:
        show = await _worked_out(lambda: what_ifs.view(show, request.query["if"]))
    answer = await asyncio.to_thread(ask, show, request.match_info.get("name", ""), request.query)
    if answer is None:
        raise web.HTTPNotFound(text="there is nothing of this name\n")
    return answer


async def _worked_out(work: Callable[[], T]) -> T:
    """What a question is answered with; one that makes no sense is refused with one line."""
    try:
        return await asyncio.to_thread(work)
    except InputError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None
    except BusyError:
        raise web.HTTPTooManyRequests(text="others have asked before: try again in a moment\n") from None


async def _work(
    runs: _Runs, work: Callable[[RunView, Mapping[str, str]], CachedBody], request: web.Request
) -> CachedBody:
    source, history = _run(runs, request)
    past = await asyncio.to_thread(history.at, _number(request.query, "at")) if "at" in request.query else None
    show = past if isinstance(past, RunView) else await asyncio.to_thread(source.show)
    if isinstance(show, str):
        raise web.HTTPServiceUnavailable(text=f"{show}\n")
    asked = {**request.query, **request.match_info}
    return await _worked_out(lambda: work(show, asked))


async def _manifests(source: RunSource, what_ifs: WhatIfs, request: web.Request) -> web.Response:
    # A form of another site cannot send this header without asking first, which is refused here.
    if _HEADER not in request.headers:
        raise web.HTTPForbidden(text=f"{_HEADER} is missing\n")
    show = await asyncio.to_thread(source.show)
    if isinstance(show, str) or show.scenario is None:
        raise web.HTTPForbidden(
            text="questions are answered by `tierwise serve`, of manifests, a cluster or a journal\n"
        )
    text = await request.read()  # bounded by the application's client_max_size
    return web.json_response({"name": await _worked_out(lambda: what_ifs.keep(text))})


def _past(view: PastView, request: web.Request) -> CachedBody:
    """The board or the jobs of a past moment; the rest is not kept."""
    if request.path == "/api/board":
        return view.board()
    if request.path == "/api/jobs":
        return view.jobs(_job_query(request.query))
    raise web.HTTPNotFound(text="nodes and stories of past moments are not kept\n")


async def _history(runs: _Runs, request: web.Request) -> CachedBody:
    source, history = _run(runs, request)
    if isinstance(history, BoardHistory):
        await _current(source, history)
    wire = await asyncio.to_thread(history.wire, _number(request.query, "since", "0"))
    return CachedBody.json({**wire, "runs": [name for name in runs if name]})


async def _queues_over_time(runs: _Runs, request: web.Request) -> CachedBody:
    _, history = _run(runs, request)  # recordings keep no queues of their moments
    return CachedBody.json(await asyncio.to_thread(history.queues) if isinstance(history, BoardHistory) else {})


async def _changes(runs: _Runs, request: web.Request) -> CachedBody:
    _, history = _run(runs, request)
    found = await asyncio.to_thread(history.changes, _number(request.query, "from"), _number(request.query, "to"))
    if found is None:
        raise web.HTTPNotFound(text="one of the moments is not kept any more\n")
    return CachedBody.json(found)


async def _happened(runs: _Runs, request: web.Request) -> CachedBody:
    """What happened between two times (`from`, `to`), or after a moment up to another (`after`, `upto`)."""
    _, history = _run(runs, request)
    query = request.query
    if "after" in query:
        after, upto = _number(query, "after"), _number(query, "upto")
        return CachedBody.json(await asyncio.to_thread(history.log.during, after, upto))
    first, last = _number(query, "from"), _number(query, "to")
    return CachedBody.json(await asyncio.to_thread(history.log.between, first, last))


async def _life(runs: _Runs, request: web.Request) -> CachedBody:
    _, history = _run(runs, request)
    return CachedBody.json(await asyncio.to_thread(history.log.life, request.match_info["name"]))


def _text(asked: Mapping[str, str], name: str) -> str:
    return asked.get(name, "")[:_LONGEST]


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
    words = {name: _text(asked, name) for name in ("state", "verdict", "reason", "sort")}
    first = _number(asked, "first", "0")
    return JobQuery(text=_text(asked, "q"), queue=asked.get("queue"), offset=offset, limit=limit, first=first, **words)


def _respond(request: web.Request, answer: CachedBody, kind: str) -> web.Response:
    """The body, unless the caller has it already. Nothing is kept without asking again."""
    headers = {"ETag": f'"{answer.mark}"', "Cache-Control": "no-cache"}
    if any(etag.value in (answer.mark, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=answer.body, content_type=kind, charset="utf-8", headers=headers)
    if len(answer.body) > _LARGE:
        response.enable_compression()
    return response
