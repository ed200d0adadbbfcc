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
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.runtime.access import LOOPBACK, Access, guarded
from tierwise.web.events import add_events
from tierwise.web.history import BoardHistory, History
from tierwise.web.recording import Recording
from tierwise.web.views import ASKS, CachedBody, RunSource, RunView, checked_ago, number_of
from tierwise.web.what_if import NO_QUESTIONS, Questions

__all__ = ["MANIFESTS", "add_pages", "pages"]

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

MANIFESTS: Final = "/api/manifests"
_HERE: Final = Access(LOOPBACK)

_Runs = Mapping[str, tuple[RunSource, History]]
"""What can be shown, by name: a source with its past. A live source is the only one, and has no name."""

_NONE: Final[Mapping[str, Recording]] = {}

_HEADER: Final = "X-Tierwise"


def add_pages(
    app: web.Application, source: RunSource, *, record: bool = False, recordings: Mapping[str, Recording] = _NONE
) -> None:
    """Let an application show what a source knows, from "/" on.

    With `record` past moments are kept though no page is open. `recordings` are shown instead of the past of the
    source, by name; the first where a request names none.
    """
    for path, (body, kind) in _static().items():
        app.router.add_get(path, _file(CachedBody.of(body), kind))
    runs: _Runs = {name: (history, history) for name, history in recordings.items()} or {"": (source, BoardHistory())}
    questions = Questions()
    handlers: dict[str, Callable[[web.Request], Awaitable[CachedBody]]] = {
        **{path: partial(_data, runs, path, questions) for path in ASKS},
        "/api/history": partial(_history, runs),
        "/api/history/queues": partial(_queues_over_time, runs),
        "/api/happened": partial(_happened, runs),
        "/api/life/{name:.+}": partial(_life, runs),
    }
    app.router.add_get("/csv/{name}.csv", _readable(partial(_csv, runs, questions)))
    for path, handler in handlers.items():
        app.router.add_get(path, _readable(_json(handler)))
    for path in ("/api/what-if", "/api/least/{name:.+}", "/api/drainable", "/api/eta", "/api/eta/{name:.+}"):
        app.router.add_get(path, _readable(partial(_question, runs, questions)))
    app.router.add_post(MANIFESTS, _readable(partial(_manifests, source, questions)))
    app.on_shutdown.append(questions.workers.end)
    add_events(app, runs, record=record)

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        if request.path.startswith("/api/"):
            response.headers["X-Checked"] = f"{checked_ago(source):.1f}"

    app.on_response_prepare.append(add_headers)


def pages(source: RunSource, access: Access = _HERE, recordings: Mapping[str, Recording] = _NONE) -> web.Application:
    """An application that serves one source, or recordings, to those who may ask."""
    access = replace(access, cookie_writes=(MANIFESTS,))
    app = web.Application(middlewares=[guarded(access)], client_max_size=_MOST_BYTES)
    add_pages(app, source, recordings=recordings)
    return app


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
    """Latest state to show. Reading files and making a board take time; other requests are answered meanwhile."""
    show = await asyncio.to_thread(source.show)
    if isinstance(show, str):
        raise web.HTTPServiceUnavailable(text=f"{show}\n")
    await asyncio.to_thread(history.saw, show)
    return show


def _json(handler: Callable[[web.Request], Awaitable[CachedBody]]) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        return _respond(request, await handler(request), "application/json")

    return serve


def _readable(handler: Handler) -> Handler:
    """Handler that answers unreadable and impossible requests with status 400."""

    async def serve(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except InputError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    return serve


async def _data(runs: _Runs, path: str, questions: Questions, request: web.Request) -> CachedBody:
    source, history = _run(runs, request)
    if "at" in request.query:
        past = await asyncio.to_thread(history.at, number_of(request.query, "at"))
        if past is None:
            raise web.HTTPNotFound(text="this moment is not kept any more\n")
        show = await _current(source, history) if request.path == "/api/search" else past
    else:
        show = await _current(source, history)
    name = request.match_info.get("name", "")
    query = request.query
    if "if" in query and isinstance(show, RunView):
        answer = await questions.of_board(request, show, path, name)
    else:
        answer = await asyncio.to_thread(ASKS[path], show, name, query)
    if answer is None:
        explanation = (
            "" if isinstance(show, RunView) else ": of past moments boards, lists and nodes are kept, and no stories"
        )
        raise web.HTTPNotFound(text=f"there is nothing of this name{explanation}\n")
    return answer


async def _csv(runs: _Runs, questions: Questions, request: web.Request) -> web.Response:
    """A table as a file."""
    answer = await _data(runs, "/api/csv/{name}", questions, request)
    text: str = (await asyncio.to_thread(msgspec.json.decode, answer.body))["csv"]
    return _respond(request, CachedBody.of(text.encode()), "text/csv")


async def _question(runs: _Runs, questions: Questions, request: web.Request) -> web.StreamResponse:
    """A question: one line for each word about how far it is and one with the answer, or the answer alone."""
    source, history = _run(runs, request)
    past = await asyncio.to_thread(history.at, number_of(request.query, "at")) if "at" in request.query else None
    show = past if isinstance(past, RunView) else await asyncio.to_thread(source.show)
    if isinstance(show, str):
        raise web.HTTPServiceUnavailable(text=f"{show}\n")
    question = questions.read(request)
    if "application/x-ndjson" in request.headers.get("Accept", ""):
        return await questions.told(request, show, question)
    return _respond(request, await questions.answer(request, show, question), "application/json")


async def _manifests(source: RunSource, questions: Questions, request: web.Request) -> web.Response:
    # A form of another site cannot send this header without asking first, which is refused here.
    if _HEADER not in request.headers:
        raise web.HTTPForbidden(text=f"{_HEADER} is missing\n")
    show = await asyncio.to_thread(source.show)
    if isinstance(show, str) or show.basis is None:
        raise web.HTTPForbidden(text=f"{NO_QUESTIONS}\n")
    text = await request.read()  # bounded by the application's client_max_size, which may be that of an API beside
    if len(text) > _MOST_BYTES:
        raise web.HTTPRequestEntityTooLarge(_MOST_BYTES, len(text))
    return web.json_response({"name": await asyncio.to_thread(questions.keep, text)})


async def _history(runs: _Runs, request: web.Request) -> CachedBody:
    source, history = _run(runs, request)
    if isinstance(history, BoardHistory):
        await _current(source, history)
    wire = await asyncio.to_thread(history.wire, number_of(request.query, "since", "0"))
    return CachedBody.json({**wire, "runs": [name for name in runs if name]})


async def _queues_over_time(runs: _Runs, request: web.Request) -> CachedBody:
    _, history = _run(runs, request)  # recordings keep no queues of their moments
    return CachedBody.json(await asyncio.to_thread(history.queues) if isinstance(history, BoardHistory) else {})


async def _happened(runs: _Runs, request: web.Request) -> CachedBody:
    """Events between two times (`from`, `to`), or after a moment up to another (`after`, `upto`)."""
    _, history = _run(runs, request)
    query = request.query
    if "after" in query:
        after = number_of(query, "after")
        upto = number_of(query, "upto")
        return CachedBody.json(await asyncio.to_thread(history.log.during, after, upto))
    begin = number_of(query, "from")
    end = number_of(query, "to")
    return CachedBody.json(await asyncio.to_thread(history.log.between, begin, end))


async def _life(runs: _Runs, request: web.Request) -> CachedBody:
    _, history = _run(runs, request)
    return CachedBody.json(await asyncio.to_thread(history.log.life, request.match_info["name"]))


def _respond(request: web.Request, answer: CachedBody, kind: str) -> web.Response:
    """The body, unless the caller has it already. Nothing is kept without asking again."""
    headers = {"ETag": f'"{answer.mark}"', "Cache-Control": "no-cache"}
    if any(etag.value in (answer.mark, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=answer.body, content_type=kind, charset="utf-8", headers=headers)
    if len(answer.body) > _LARGE:
        response.enable_compression()
    return response
