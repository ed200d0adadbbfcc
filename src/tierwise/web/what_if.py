"""What would happen if, in the page: questions as addresses ask them, and their answers as pages are told of them.

The changes are in the address (`if=drain=rack-7`), so a link leads others to the same answer; manifests that users
paste are kept for such links, a bounded number. Nothing outside is touched. Questions are worked out in processes of
their own (`workers`), which end when nobody waits for the answer.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import msgspec
from aiohttp import web
from yarl import URL

from tierwise.api.errors import InputError
from tierwise.sim.answers.dry_run import manifests_of
from tierwise.web.questions import Question
from tierwise.web.views import Bounded, CachedBody, RunView
from tierwise.web.workers import BusyError, Work, Workers

__all__ = ["NO_QUESTIONS", "Questions"]

_MANIFESTS: Final = 32
_CHANGES: Final = 20
_TOGETHER: Final = 16
_LONGEST: Final = 4096
"""Characters of one change, and of the name of a job."""

NO_QUESTIONS: Final = "questions cannot be answered for simulated traces or before the first cycle"
_BUSY: Final = "too many questions are worked on: close one, or try again in a moment\n"


class Questions:
    """Questions about the views of one server."""

    def __init__(self) -> None:
        self.workers = Workers()
        self._manifests: Bounded[str, bytes] = Bounded(_MANIFESTS)

    def keep(self, text: bytes) -> str:
        """Keep pasted manifests, under the name that changes use; InputError where they are none."""
        manifests_of(text)
        name = hashlib.sha256(text).hexdigest()[:12]
        self._manifests[name] = text
        return name

    def read(self, request: web.Request) -> Question:
        """The question of a request; InputError where it makes no sense."""
        if request.path == "/api/what-if":
            return self._what_if(request.query.get("if", ""))
        if request.path == "/api/drainable":
            number = request.query.get("together", "")
            tier = request.query.get("tier", "")[:_LONGEST]
            together = min(int(number[:9]), _TOGETHER) if number.isdecimal() else 0
            return Question("drainable", tier, together=together)
        name = request.match_info.get("name", "")
        if len(name) > _LONGEST:
            raise InputError("there is no job of so long a name")
        return Question("eta" if request.path.startswith("/api/eta") else "least", name)

    def _what_if(self, text: str) -> Question:
        changes = list(URL.build(query_string=text, encoded=True).query.items())
        if not 0 < len(changes) <= _CHANGES or any(len(value) > _LONGEST for _, value in changes):
            raise InputError(f"1 to {_CHANGES} changes are made, each as KIND=TEXT", field="if")
        names = {value for kind, value in changes if kind == "submit"}
        if not names <= self._manifests.keys():
            raise InputError("these manifests are not kept any more: paste them again", field="submit")
        return Question("what-if", "", tuple(changes), {name: self._manifests[name] for name in sorted(names)})

    async def _begun(self, request: web.Request, show: RunView, question: Question) -> Work:
        if show.basis is None:
            raise InputError(NO_QUESTIONS)
        try:
            return await self.workers.begin(request.remote or "", show.basis, question)
        except BusyError:
            raise web.HTTPTooManyRequests(text=_BUSY) from None

    async def answer(self, request: web.Request, show: RunView, question: Question) -> CachedBody:
        """The answer alone; a client that hangs up ends the question."""
        work = await self._begun(request, show, question)
        async for _ in work.follow():
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError
        return _answer(work)

    async def told(self, request: web.Request, show: RunView, question: Question) -> web.StreamResponse:
        """A line for each half second that passes, with how far it is and what is known, and one with the answer."""
        work = await self._begun(request, show, question)
        begun = time.monotonic()
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        try:
            await response.prepare(request)
            async for message in work.follow():
                seconds = round(time.monotonic() - begun, 1)
                await response.write(msgspec.json.encode({**message, "seconds": seconds}) + b"\n")
            if work.answer is not None:
                await response.write(b'{"answer":' + work.answer.body + b"}\n")
            else:
                await response.write(msgspec.json.encode({"fault": work.fault}) + b"\n")
        except ConnectionError:
            pass  # whoever asked is gone
        return response

    async def of_board(self, request: web.Request, show: RunView, path: str, name: str) -> CachedBody | None:
        """Answer of the board with the changes of a request: made to this view, else to the last one changed."""
        question = self._what_if(request.query["if"])
        work = self.workers.find(show.basis, question) if show.basis is not None else None
        if (work is None or not work.done) and show.live:
            work = self.workers.find(None, question)
        if work is None or not work.holds_board:
            await self.answer(request, show, question)
            work = self.workers.find(show.basis, question)
        if work is None or not work.holds_board:
            raise web.HTTPTooManyRequests(text=_BUSY)
        try:
            return await work.ask(path, name, request.query)
        except BusyError:
            raise web.HTTPTooManyRequests(text=_BUSY) from None


def _answer(work: Work) -> CachedBody:
    if work.answer is None:
        raise InputError(work.fault)
    return work.answer
