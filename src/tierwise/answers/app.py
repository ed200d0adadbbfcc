"""The application of the answers API: who asks, what they may see, how often, and a line in the log for each question.

A user who may not list the pods of a namespace gets the same refusal for every question about it, before anything is
looked up: neither the answer nor its time depends on what is there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Final

import msgspec
from aiohttp import web

from tierwise.answers.questions import QUESTIONS, TenantQuestion
from tierwise.answers.reviews import AccessReviewer, Person, Right
from tierwise.answers.schema import ErrorAnswer, schema
from tierwise.answers.service import AnswerService, NotReadyError, UnknownJobError
from tierwise.api.errors import InputError
from tierwise.explain.tenant import QueuesAnswer
from tierwise.kube.errors import ApiError, UnreachableError
from tierwise.runtime.access import Allowance
from tierwise.web.workers import BusyError

__all__ = ["Limits", "application"]

audit = logging.getLogger("tierwise.answers.audit")

_MOST_BYTES: Final = 1 << 20
"""The largest body of a dry run."""

_LONGEST: Final = 512
"""Characters of a name in a path."""

_QUEUE_GROUP: Final = "scheduling.volcano.sh"
_JOBS: Final = 100
_MOST_JOBS: Final = 500

_LOG_NAMES: Final = 200
"""Characters of a name that the log shows."""

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "tierwise",
    "X-Content-Type-Options": "nosniff",
}

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}

_STATIC: Final = {
    "/": ("tenant.html", "text/html"),
    "/static/tenant.js": ("tenant.js", "text/javascript"),
    "/static/tenant.css": ("tenant.css", "text/css"),
    "/static/dom.js": ("dom.js", "text/javascript"),
    "/static/style.css": ("style.css", "text/css"),
}
"""Files of the page for one namespace, which hold no data: name and type, by path."""


class Limits(msgspec.Struct, frozen=True):
    """How many questions are answered: in a second for as long as they come, and at once."""

    user_rate: float = 2.0
    user_burst: int = 60
    costly_rate: float = 0.1
    costly_burst: int = 6
    all_rate: float = 100.0
    all_burst: int = 400
    unknown_rate: float = 2.0  # tokens of one address that have to be shown to the API server
    unknown_burst: int = 50


class _RefusedError(Exception):
    """A question that is not answered: the status code and a sentence."""

    def __init__(self, code: int, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after


class _Guard:
    """Finds who asks and what they may see, and counts their questions."""

    def __init__(self, reviewer: AccessReviewer, limits: Limits) -> None:
        self._reviewer = reviewer
        self._by_user = Allowance(limits.user_rate, limits.user_burst)
        self._costly = Allowance(limits.costly_rate, limits.costly_burst)
        self._all = Allowance(limits.all_rate, limits.all_burst)
        self._unknown = Allowance(limits.unknown_rate, limits.unknown_burst)

    async def person(self, request: web.Request) -> Person:
        """Return who asks; _RefusedError for nobody, and for an address that shows too many new tokens."""
        if not self._all.take("all"):
            raise _RefusedError(429, "too many questions are asked: try again in a few seconds", 2)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _RefusedError(401, "send a token of your user as Authorization: Bearer TOKEN")
        token = token.strip()
        if not self._reviewer.knows(token) and not self._unknown.take(request.remote or ""):
            raise _RefusedError(429, "too many unknown tokens come from here: try again in a few seconds", 2)
        person = await self._reviewer.person(token)
        if person is None:
            raise _RefusedError(401, "the API server does not know this token")
        return person

    def count(self, person: Person, question: TenantQuestion) -> None:
        """Charge a question to the user; _RefusedError where they have asked too many."""
        if not self._by_user.take(person.name):
            raise _RefusedError(429, "you ask too many questions: try again in a few seconds", 2)
        if question.is_costly and not self._costly.take(person.name):
            raise _RefusedError(429, "you ask for too many dry runs and ways to start: try again in 10 seconds", 10)

    async def allow(self, person: Person, namespace: str) -> None:
        """Let pass who may list the pods of a namespace; _RefusedError for everybody else, whatever is there."""
        if not await self._reviewer.may(person, Right("list", "", "pods", namespace)):
            text = f'user "{person.name}" may not list pods in namespace "{namespace}"'
            raise _RefusedError(403, text)

    async def may_get_queue(self, person: Person, queue: str) -> bool:
        """Return whether somebody may see a queue, and so what all namespaces use of it."""
        return await self._reviewer.may(person, Right("get", _QUEUE_GROUP, "queues", name=queue))


def application(service: AnswerService, reviewer: AccessReviewer, limits: Limits | None = None) -> web.Application:
    """An application that answers the questions of tenants."""
    app = web.Application(middlewares=[_errors_as_json], client_max_size=_MOST_BYTES)
    guard = _Guard(reviewer, limits or Limits())
    for question in QUESTIONS:
        handler = _handler(question, service, guard)
        app.router.add_route(question.method, question.path, handler)
    app.router.add_get("/v1/schema", _schema)
    for path, (name, kind) in _STATIC.items():
        app.router.add_get(path, _file(name, kind))

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)

    async def end_service(_: web.Application) -> AsyncIterator[None]:
        yield
        await service.end()

    app.on_response_prepare.append(add_headers)
    app.cleanup_ctx.append(end_service)
    return app


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, {404: "there is no such question"}.get(error.status, error.reason))


def _error(code: int, message: str, retry_after: int = 0) -> web.Response:
    body = msgspec.json.encode(ErrorAnswer(code, _REASONS.get(code, "InternalError"), message))
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(status=code, body=body, content_type="application/json", headers=headers)


async def _schema(_: web.Request) -> web.Response:
    return web.Response(body=msgspec.json.encode(schema()), content_type="application/json")


def _file(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = files("tierwise.web").joinpath("static", name).read_bytes()

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve


def _handler(
    question: TenantQuestion, service: AnswerService, guard: _Guard
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        begun = time.monotonic()
        asker = ""
        try:
            person = await guard.person(request)
            asker = person.name
            answer = await _answer(question, request, service, guard, person)
            response = web.Response(body=msgspec.json.encode(answer), content_type="application/json")
        except _RefusedError as error:
            response = _error(error.code, error.message, error.retry_after)
        except UnknownJobError:
            response = _error(404, "the namespace has no job of this name")
        except InputError as error:
            response = _error(400, str(error))
        except BusyError:
            response = _error(429, "too many dry runs and ways to start are worked on: try again in 5 seconds", 5)
        except NotReadyError as error:
            response = _error(503, str(error), 5)
        except (ApiError, UnreachableError):
            logging.getLogger(__name__).warning("who asks was not found out", exc_info=True)
            response = _error(503, "the API server does not say who you are, or what you may see: try again", 5)
        _tell(question, request, asker, response.status, time.monotonic() - begun)
        return response

    return handle


def _tell(question: TenantQuestion, request: web.Request, asker: str, status: int, seconds: float) -> None:
    """Write who asked what into the log: never a token, nor manifests."""
    fields: dict[str, object] = {
        "user": asker[:_LOG_NAMES],
        "question": question.name,
        "namespace": request.match_info.get("namespace", "")[:_LOG_NAMES],
        "job": (request.match_info.get("job") or request.match_info.get("pod") or "")[:_LOG_NAMES],
        "status": status,
        "milliseconds": round(seconds * 1000),
        "from": request.remote or "",
    }
    audit.info("asked", extra={"fields": fields})


async def _answer(
    question: TenantQuestion, request: web.Request, service: AnswerService, guard: _Guard, person: Person
) -> msgspec.Struct:
    namespace = request.match_info["namespace"]
    name = request.match_info.get("job") or request.match_info.get("pod") or ""
    if len(namespace) > _LONGEST or len(name) > _LONGEST:
        raise _RefusedError(400, "no object has so long a name")
    guard.count(person, question)
    await guard.allow(person, namespace)
    if question.name in ("jobs", "queues", "fits", "dry-run"):
        return await _answer_for_namespace(question, request, service, guard, person)
    return await _answer_for_job(question, service, person, namespace, name)


async def _answer_for_job(
    question: TenantQuestion, service: AnswerService, person: Person, namespace: str, name: str
) -> msgspec.Struct:
    match question.name:
        case "why":
            return await service.job(namespace, name)
        case "why-pod":
            return await service.job_of_pod(namespace, name)
        case "start":
            return await service.start(namespace, name)
        case "position":
            return await service.position(namespace, name)
        case "help":
            return await service.help(person.name, namespace, name)
        case _:
            return await service.history(namespace, name)


async def _answer_for_namespace(
    question: TenantQuestion, request: web.Request, service: AnswerService, guard: _Guard, person: Person
) -> msgspec.Struct:
    namespace = request.match_info["namespace"]
    match question.name:
        case "jobs":
            limit = min(_number(request.query, "limit", _JOBS), _MOST_JOBS)
            return await service.jobs(namespace, _number(request.query, "offset", 0), limit)
        case "queues":
            return await _queues(service, guard, person, namespace)
        case "fits":
            size = _number(request.query, "size", 0)
            return await service.fits(size or None)
        case _:
            text = await request.read()
            return await service.dry_run(person.name, namespace, text, await _queues_of(service, guard, person, text))


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError("a whole number is expected", field=name)
    return int(text)


async def _queues(service: AnswerService, guard: _Guard, person: Person, namespace: str) -> QueuesAnswer:
    """The queues, without what all namespaces use of those that the user may not get."""
    answer = await service.queues(namespace)
    shown = []
    for queue in answer.queues:
        if await guard.may_get_queue(person, queue.name):
            shown.append(queue)
        else:
            shown.append(msgspec.structs.replace(queue, used="", limit=""))
    return msgspec.structs.replace(answer, queues=tuple(shown))


async def _queues_of(service: AnswerService, guard: _Guard, person: Person, text: bytes) -> tuple[str, ...]:
    """The queues that manifests may name and that the user may get."""
    names = await service.queues_in(text)
    return tuple([name for name in names if await guard.may_get_queue(person, name)])
