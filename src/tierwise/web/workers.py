"""The server's side of questions: a process that holds clusters, a channel to a fork of it for each question.

A question belongs to those who follow it: the last who leaves ends it. Equal questions are answered once. So many are
worked on at a time, and so many of one client: whoever asks more is told so, and nobody waits behind another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec

from tierwise.api.errors import InputError
from tierwise.port import Objects
from tierwise.runtime.journal_fields import recorded
from tierwise.web.questions import Frame, Put, Question, Scene, sent
from tierwise.web.views import Basis, CachedBody

__all__ = ["BusyError", "Work", "Workers"]

MOST: Final = 16
"""Questions that are worked on at a time."""

EACH: Final = 4
"""Questions of one client that are."""

_BOARDS: Final = 4
"""Boards with changes that are held, each by its fork; the one that was asked about longest ago goes first."""

_ANSWERS: Final = 64
"""Answers that are remembered."""

_SCENES: Final = 4
_BEAT: Final = 0.5
"""Seconds after which one who waits hears that it goes on, and it is seen whether they are still there."""


class BusyError(Exception):
    """Too many questions are worked on, of all or of this client."""


class Work:
    """One question that is worked on, or was."""

    def __init__(
        self,
        client: str,
        basis: Basis,
        question: Question,
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.client = client
        self.question = question
        self.basis = basis  # held, so that no other has its identity
        self.answer: CachedBody | None = None
        self.fault = ""
        self._from, self._to = channel
        self._followers = 0
        self._progress: dict[str, Any] = {}
        self._news = asyncio.Event()
        self._asking = asyncio.Lock()
        self._bodies: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @property
    def done(self) -> bool:
        return self.answer is not None or bool(self.fault)

    @property
    def holds_board(self) -> bool:
        """Whether pages may ask about the board with the changes."""
        return self.question.kind == "what-if" and self.answer is not None and not self._reading.done()

    async def _read(self) -> None:
        """Take what the fork says, until it is gone."""
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    length = int.from_bytes(await self._from.readexactly(8))
                    self._take(msgspec.msgpack.decode(await self._from.readexactly(length)))
        finally:
            if not self.done:
                self.fault = "it was stopped: it took too long, or too much memory"
            self._bodies.put_nowait(None)
            self._news.set()
            self._to.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "body" in message:
            self._bodies.put_nowait(message)
        elif "answer" in message:
            self.answer = CachedBody.json(message["answer"])
        elif "fault" in message:
            self.fault = message["fault"]
        else:
            self._progress = message
        self._news.set()

    async def follow(self) -> AsyncGenerator[dict[str, Any], None]:
        """How far it is, until it is done; whoever leaves last ends what is not done."""
        self._followers += 1
        try:
            while not self.done:
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _BEAT)
                yield self._progress
        finally:
            self._followers -= 1
            if not self.done and not self._followers:
                self.end()

    async def ask(self, path: str, name: str, query: Mapping[str, str]) -> CachedBody | None:
        """Answer of the board with the changes; None if the subject does not exist. Raises InputError for a meaningless
        question and BusyError if the board is no longer kept.
        """
        async with self._asking:
            body = msgspec.msgpack.encode((path, name, dict(query)))
            self._to.write(len(body).to_bytes(8) + body)
            found = await self._bodies.get()
        if found is None:
            raise BusyError
        if "refused" in found:
            raise InputError(found["refused"])
        if found["body"]:
            return CachedBody.of(found["body"])
        return None

    def end(self) -> None:
        """Close the channel: the fork sees it, and ends."""
        self.fault = self.fault if self.done else "nobody waits for it any more"
        self._reading.cancel()
        self._to.close()


class Workers:
    """Questions about the boards of one server."""

    def __init__(self, *, each: int = EACH, most: int = MOST) -> None:
        """So many questions of `each` client are worked on at a time, and of all so many at `most`."""
        self._each = each
        self._most = most
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False
        self._lock = asyncio.Lock()
        self._sending: set[asyncio.Task[None]] = set()
        self._scenes: OrderedDict[int, tuple[int, Basis]] = OrderedDict()  # by identity of the basis
        self._number = 0
        self._works: OrderedDict[tuple[int, bytes], Work] = OrderedDict()

    def __len__(self) -> int:
        return sum(not work.done for work in self._works.values())

    @property
    def pid(self) -> int:
        """The process that holds clusters; 0 where there is none yet."""
        return self._process.pid if self._process is not None else 0

    def find(self, basis: Basis | None, question: Question) -> Work | None:
        """The work on a question, of this basis or where that is None of the newest."""
        key = msgspec.msgpack.encode(question)
        for (about, question_key), work in reversed(self._works.items()):
            if question_key == key and (basis is None or about == id(basis)) and not work.fault:
                return work
        return None

    async def begin(self, client: str, basis: Basis, question: Question) -> Work:
        """Work on a question, unless it is worked on or was; BusyError where there are too many."""
        known = self.find(basis, question)
        if known is not None and (question.kind != "what-if" or not known.done or known.holds_board):
            return known
        running = Counter(work.client for work in self._works.values() if not work.done)
        if running[client] >= self._each or sum(running.values()) >= self._most:
            raise BusyError
        ours, theirs = socket.socketpair()
        work = Work(client, basis, question, await asyncio.open_connection(sock=ours))
        key = id(basis), msgspec.msgpack.encode(question)
        if key in self._works:
            self._works.pop(key).end()
        self._works[key] = work
        self._tidy()
        sending = asyncio.create_task(self._hand_over(work, theirs))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return work

    async def _hand_over(self, work: Work, channel: socket.socket) -> None:
        """Send a question; a large cluster takes a while, in which the one who asks hears that it goes on."""
        with channel, contextlib.suppress(OSError):  # a process that cannot be had lets the channel go
            async with self._lock:
                if not work.done:  # there is still somebody who waits for it
                    await asyncio.to_thread(self._send, work.basis, work.question, channel)

    def _send(self, basis: Basis, question: Question, channel: socket.socket) -> None:
        """Hand a question to the process, with the cluster where that is new; a process that died is begun again."""
        for is_retry in (False, True):
            control = self._started()
            try:
                if id(basis) not in self._scenes:
                    self._number += 1
                    scenes = list(self._scenes.values())
                    sent(control, Frame(scene=_scene(self._number, basis, *(scenes[-1] if scenes else (0, None)))))
                    self._scenes[id(basis)] = self._number, basis
                    while len(self._scenes) > _SCENES:
                        self._scenes.popitem(last=False)
                number = self._scenes[id(basis)][0]
                sent(control, Frame(question=question, about=number), [channel.fileno()])
                return
            except OSError:
                self._stop()
                if is_retry:
                    raise

    def _started(self) -> socket.socket:
        if self._closed:
            raise ConnectionAbortedError
        if self._control is None or self._process is None or self._process.poll() is not None:
            self._stop()
            self._control, theirs = socket.socketpair()
            words = [sys.executable, "-P", "-m", "tierwise.web.questions", str(theirs.fileno())]
            single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a fork has one thread of its parent's
            with theirs:
                self._process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env={**os.environ, **single}
                )
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None
        self._scenes.clear()

    def _tidy(self) -> None:
        """Let boards go that are too many, and answers that are."""
        boards = [work for work in self._works.values() if work.holds_board]
        for work in boards[: max(0, len(boards) - _BOARDS)]:
            work.end()
        for key in list(self._works)[: max(0, len(self._works) - _ANSWERS)]:
            if self._works[key].done:
                self._works.pop(key).end()

    async def end(self, _: object = None) -> None:
        """Let everything go when the server stops."""
        self._closed = True
        for work in self._works.values():
            work.end()
        await asyncio.to_thread(self._stop)
        await asyncio.gather(*self._sending)


def _scene(number: int, basis: Basis, base: int, since: Basis | None) -> Scene:
    """Differences between a cluster and the last one that the process has."""
    objects = basis.objects
    before = since.objects if since is not None else Objects()
    keys = (
        list(objects)
        if since is None
        else [k for keys_of_kind in objects.changed_objects(before).values() for k in keys_of_kind]
    )
    puts = []
    deletes = []
    for key in keys:
        raw = objects.raw(key)
        body = msgspec.json.encode(raw) if raw is not None else recorded(objects, key)
        if body is not None:
            puts.append(Put(key.group, key.kind, key.path, body))
        elif objects.record(key) is None:
            deletes.append((key.group, key.kind, key.path))
    profile = msgspec.json.encode(basis.profile)
    return Scene(number, base, puts, deletes, profile, basis.now, basis.schedulers)
