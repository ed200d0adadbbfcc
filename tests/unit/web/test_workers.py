"""Questions in processes of their own: side by side, ended with those who ask, and bounded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from http.client import HTTPConnection

import pytest
from tests.support.boards import Fixed, shown
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.config.profile import DEFAULT
from tierwise.runtime.listener import listening
from tierwise.web.app import pages
from tierwise.web.questions import Question
from tierwise.web.views import Basis
from tierwise.web.workers import BusyError, Work, Workers

OBJECTS = objects_of(
    draw("r0[n0 n1] r1[n2 n3]", node="gpu=4"),
    gang("runs", tasks=2, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)
BASIS = Basis(OBJECTS, DEFAULT, 0.0)
LEAST = Question("least", "default/waits")


def _with_workers(act: Callable[[Workers], Awaitable[None]]) -> None:
    async def use() -> None:
        workers = Workers()
        try:
            await act(workers)
        finally:
            await workers.end()

    asyncio.run(use())


async def _answered(work: Work) -> object:
    async for _ in work.follow():
        pass
    assert work.answer is not None, work.fault
    return json.loads(work.answer.body)


def test_questions_are_answered_side_by_side_and_end_with_those_who_ask() -> None:
    """While the process stands still many are asked; those who leave end theirs, and the others get their answers."""

    async def act(workers: Workers) -> None:
        first = await workers.begin("a", BASIS, Question("eta"))
        await _answered(first)
        os.kill(workers.pid, signal.SIGSTOP)
        asked = [Question("what-if", "", (("drain", node),)) for node in ("n0", "n1", "n2")]
        works = [await workers.begin("a", BASIS, question) for question in (LEAST, *asked)]
        assert len(workers) == 4
        with pytest.raises(BusyError):  # of one client
            await workers.begin("a", BASIS, Question("eta", "default/waits"))
        other = await workers.begin("b", BASIS, Question("eta", "default/waits"))
        again = await workers.begin("c", BASIS, LEAST)
        assert again is works[0]  # the same question is asked once
        for work in works[:2]:
            following = work.follow()
            await anext(following)
            await following.aclose()
        assert len(workers) == 3
        os.kill(workers.pid, signal.SIGCONT)
        answers = [await _answered(work) for work in (*works[2:], other)]
        assert len(answers) == 3
        assert works[0].fault == "nobody waits for it any more"
        known = await workers.begin("a", BASIS, asked[1])
        assert known is works[2]  # an answer is remembered
        board = await known.ask("/api/board", "", {})
        assert board is not None
        assert json.loads(board.body)["title"] == "what if: drain n1"
        assert await known.ask("/api/node/{name:.+}", "n9", {}) is None

    _with_workers(act)


def test_a_process_that_died_is_begun_again() -> None:
    """And reads the cluster anew; later ones as what has changed."""

    async def act(workers: Workers) -> None:
        before = await _answered(await workers.begin("a", BASIS, LEAST))
        os.kill(workers.pid, signal.SIGKILL)
        os.waitpid(workers.pid, 0)
        more = objects_of(
            draw("r0[n0 n1] r1[n2 n3]", node="gpu=4"), gang("waits", tasks=4, each="gpu=4", within=1)
        ).changed({})
        changed = Basis(OBJECTS.changed({}, [key for key in OBJECTS if key.name.startswith("runs")]), DEFAULT, 0.0)
        again = await _answered(await workers.begin("a", Basis(OBJECTS, DEFAULT, 0.0), LEAST))
        alone = await _answered(await workers.begin("a", changed, Question("what-if", "", (("drain", "n0"),))))
        fresh = await _answered(
            await workers.begin("a", Basis(more, DEFAULT, 0.0), Question("what-if", "", (("drain", "n0"),)))
        )
        assert before == again
        assert alone == fresh

    _with_workers(act)


def test_a_question_is_told_line_by_line() -> None:
    """For those who take lines: how far it is, then the answer; a name that does not exist is one line, too."""
    view, port = shown(OBJECTS, questions=True), free_port()
    with listening(pages(Fixed(view)), HOST, port), closing(HTTPConnection(HOST, port, timeout=120)) as to:
        found = []
        for path in ("/api/least/default/waits", "/api/eta/default/nobody"):
            to.request("GET", path, headers={"Accept": "application/x-ndjson"})
            answer = to.getresponse()
            found.append([json.loads(line) for line in answer.read().splitlines()])

    assert all("seconds" in line for line in found[0][:-1])
    assert found[0][-1]["answer"]["ways"]
    assert "nobody" in found[1][-1]["fault"]
