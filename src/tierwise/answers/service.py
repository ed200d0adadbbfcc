"""Answers from one look at the cluster for all who ask, renewed after a window of time.

Within a window equal questions get the same answer, whoever asks. Facts of all namespaces and expected starts are
worked out once for each window; only dry runs and questions about help are worked out for those who ask them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final, TypeVar

import msgspec

from tierwise.api.core import format_time
from tierwise.api.errors import InputError
from tierwise.explain.tenant import (
    DryRunAnswer,
    FitsAnswer,
    HelpAnswer,
    HistoryAnswer,
    JobAnswer,
    JobsAnswer,
    PositionAnswer,
    QueuesAnswer,
    StartAnswer,
)
from tierwise.sim.answers.dry_run import queue_names
from tierwise.sim.answers.facts import ClusterFacts, NamespaceFacts
from tierwise.web.questions import Question
from tierwise.web.views import Basis
from tierwise.web.workers import Workers

__all__ = ["AnswerService", "NotReadyError", "UnknownJobError"]

T = TypeVar("T")

WINDOW: Final = 15.0
"""Seconds for which facts are kept at least."""

STARTS_WINDOW: Final = 60.0
"""Seconds for which expected starts are kept at least."""

_SHARE: Final = 10.0
"""A window is so many times as long as its answer took: looking takes a tenth of a processor's time at most."""

_EACH: Final = 2
"""Dry runs and questions about help that one user may have under way."""

_MOST: Final = 4
"""Of these, how many are worked on at a time for all users; facts and starts have room beside them."""

_NOTHING: Final = NamespaceFacts()


class NotReadyError(Exception):
    """There is no answer now: caches are not filled yet, or the question could not be worked out."""


class UnknownJobError(Exception):
    """The namespace has no job of this name."""


class _Refused(msgspec.Struct):
    """Fault of the manifests of a dry run, in place of its answer."""

    refused: str = ""


class _Kept(msgspec.Struct):
    """The newest answer of one kind, with the cluster that it is about."""

    value: Any
    basis: Basis
    until: float
    seconds: int  # so old it becomes


class AnswerService:
    """Answers for the users of one cluster; all methods are called in one event loop."""

    def __init__(self, basis: Callable[[], Basis | None], ticks: Callable[[], float] = time.monotonic) -> None:
        """`basis` is the cluster as it is now, with its profile; None while it is not known yet."""
        self._basis = basis
        self._ticks = ticks
        self._workers = Workers(each=_EACH, most=_MOST + 2)
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, asyncio.Lock] = {"facts": asyncio.Lock(), "starts": asyncio.Lock()}

    async def end(self) -> None:
        """End the processes of questions."""
        await self._workers.end()

    async def jobs(self, namespace: str, offset: int, limit: int) -> JobsAnswer:
        """The jobs of a namespace, in the order of their names."""
        facts, window_answer = await self._facts(namespace)
        names = sorted(facts.jobs)[offset : offset + limit]
        return self._stamped(
            JobsAnswer(namespace=namespace, jobs=tuple(facts.jobs[name] for name in names)), window_answer
        )

    async def job(self, namespace: str, name: str) -> JobAnswer:
        """One job: how it stands, and why it waits."""
        facts, window_answer = await self._facts(namespace)
        return self._stamped(_of(facts.jobs, name), window_answer)

    async def job_of_pod(self, namespace: str, pod: str) -> JobAnswer:
        """The job that a pod belongs to."""
        facts, window_answer = await self._facts(namespace)
        return self._stamped(_of(facts.jobs, _of(facts.pods, pod)), window_answer)

    async def position(self, namespace: str, name: str) -> PositionAnswer:
        """The place of a waiting job in its queue."""
        facts, window_answer = await self._facts(namespace)
        _of(facts.jobs, name)
        if name not in facts.positions:
            raise InputError("the job does not wait", field="job")
        return self._stamped(facts.positions[name], window_answer)

    async def history(self, namespace: str, name: str) -> HistoryAnswer:
        """The past of a job, as its objects tell it."""
        facts, window_answer = await self._facts(namespace)
        return self._stamped(HistoryAnswer(name=name, entries=_of(facts.histories, name)), window_answer)

    async def queues(self, namespace: str) -> QueuesAnswer:
        """The queues of the namespace's jobs, with what all namespaces use of them."""
        facts, window_answer = await self._facts(namespace)
        queues = tuple(facts.queues[name] for name in sorted(facts.queues))
        return self._stamped(QueuesAnswer(namespace=namespace, queues=queues), window_answer)

    async def fits(self, size: int | None) -> FitsAnswer:
        """How many gangs fit now, of every size or of the smallest that is told and is large enough."""
        window_answer = await self._newest("facts", WINDOW, ClusterFacts)
        facts: ClusterFacts = window_answer.value
        slots = facts.slots
        if size is not None:
            next_size = min((free.size for free in slots if free.size >= size), default=None)
            slots = tuple(free for free in slots if free.size == next_size)
        return self._stamped(FitsAnswer(resource=facts.resource, slots=slots), window_answer)

    async def start(self, namespace: str, name: str) -> StartAnswer:
        """When a job is expected to start."""
        facts, window_answer = await self._facts(namespace)
        job = _of(facts.jobs, name)
        if job.state == "running":
            return self._stamped(StartAnswer(name=name, expectation="started", text="it has started"), window_answer)
        window_answer = await self._newest("starts", STARTS_WINDOW, dict[str, dict[str, StartAnswer]])
        starts: Mapping[str, Mapping[str, StartAnswer]] = window_answer.value
        unknown = StartAnswer(name=name, expectation="unknown", text="it came after the last look ahead: ask again")
        return self._stamped(starts.get(namespace, {}).get(name, unknown), window_answer)

    async def help(self, user: str, namespace: str, name: str) -> HelpAnswer:
        """Changes that would start a waiting job now."""
        facts, window_answer = await self._facts(namespace)
        job = _of(facts.jobs, name)
        if not job.pods_waiting:
            raise InputError("the job does not wait", field="job")
        question = Question("help", f"{namespace}/{name}")
        answer = msgspec.json.decode(await self._worked_out(user, window_answer.basis, question), type=HelpAnswer)
        return self._stamped(answer, window_answer)

    async def dry_run(self, user: str, namespace: str, text: bytes, queues: tuple[str, ...]) -> DryRunAnswer:
        """The outcome of manifests, were they applied; `queues` are those besides its own that the user may get."""
        _, window_answer = await self._facts(namespace)
        question = Question("dry-run", manifests={"": text}, namespace=namespace, queues=queues)
        body = await self._worked_out(user, window_answer.basis, question)
        refused = msgspec.json.decode(body, type=_Refused).refused
        if refused:
            raise InputError(refused)
        return self._stamped(msgspec.json.decode(body, type=DryRunAnswer), window_answer)

    async def queues_in(self, text: bytes) -> tuple[str, ...]:
        """The queues that manifests may name; large ones take a while to read, in which others are answered."""
        return await asyncio.to_thread(queue_names, text)

    async def _facts(self, namespace: str) -> tuple[NamespaceFacts, _Kept]:
        window_answer = await self._newest("facts", WINDOW, ClusterFacts)
        facts: ClusterFacts = window_answer.value
        return facts.namespaces.get(namespace, _NOTHING), window_answer

    async def _newest(self, kind: str, window: float, form: object) -> _Kept:
        """The newest answer of a kind, worked out anew once its window is over; all who ask wait for the same one."""
        async with self._locks[kind]:
            window_answer = self._kept.get(kind)
            if window_answer is not None and self._ticks() < window_answer.until:
                return window_answer
            basis = await asyncio.to_thread(self._basis)
            if basis is None:
                raise NotReadyError("the scheduler has not seen the cluster yet")
            begun = self._ticks()
            question = Question("facts" if kind == "facts" else "starts")
            body = await self._worked_out("", basis, question)
            value = await asyncio.to_thread(msgspec.json.decode, body, type=form)
            seconds = ceil(max(window, _SHARE * (self._ticks() - begun)))
            window_answer = self._kept[kind] = _Kept(value, basis, begun + seconds, seconds)
            return window_answer

    async def _worked_out(self, user: str, basis: Basis, question: Question) -> bytes:
        """The answer to a question as JSON; InputError with what is wrong about it, BusyError where too many ask."""
        work = await self._workers.begin(user, basis, question)
        async for _ in work.follow():
            pass
        if work.answer is None:
            raise NotReadyError("the question was not worked out: ask again")
        return work.answer.body

    def _stamped(self, answer: T, window_answer: _Kept) -> T:
        """An answer with the moment that it is about, and how old it may become."""
        as_of = format_time(window_answer.basis.now)
        stamped: T = msgspec.structs.replace(answer, as_of=as_of, stale_seconds=window_answer.seconds)  # type: ignore[type-var]
        return stamped


def _of(values: Mapping[str, T], name: str) -> T:
    if name not in values:
        raise UnknownJobError
    return values[name]
