"""What a process is busy with: profiles that others' programs read, allocations, threads and tasks."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tierwise.api.codec import Raw
from tierwise.runtime.access import Access
from tierwise.runtime.probes import OneAtATime, debug
from tierwise.runtime.profiling import Place, Profile, allocations, folded, sampled, speedscope, threads

MAIN, INNER, OTHER = Place("main", "a.py", 1), Place("inner", "a.py", 5), Place("other", "b.py", 2)
PROFILE = Profile(0.5, {"t 1": [((MAIN,), 2), ((MAIN, INNER), 1)], "u 2": [((OTHER,), 3)]})


def _read(answer: Raw) -> Any:
    """An answer as programs read it."""
    return json.loads(msgspec.json.encode(answer))


def test_looks_in_a_row_are_counted() -> None:
    """Stacks follow each other as they were seen, of every thread but the one that looks."""
    here = inspect.currentframe()
    assert here is not None
    seen: list[dict[int, FrameType]] = [{-1: here}, {-1: here}, {threading.get_ident(): here}, {-1: here}]

    found = sampled(4, 0.01, wait=lambda _: None, frames=lambda: seen.pop(0))

    ((name, stacks),) = found.threads.items()
    assert "thread -1" == name
    assert [3] == [looks for _, looks in stacks]
    assert "test_looks_in_a_row_are_counted" == stacks[0][0][-1].name


def test_a_profile_is_a_file_for_speedscope() -> None:
    """Frames are named once, and samples weigh the seconds that they stand for."""
    file = _read(speedscope(PROFILE, "tierwise"))

    assert {"frames": [place._asdict() for place in (MAIN, INNER, OTHER)]} == file["shared"]
    first, second = file["profiles"]
    assert ([[0], [0, 1]], [1.0, 0.5], 1.5) == (first["samples"], first["weights"], first["endValue"])
    assert ("u 2", [[2]], [1.5]) == (second["name"], second["samples"], second["weights"])
    assert "https://www.speedscope.app/file-format-schema.json" == file["$schema"]


def test_a_profile_is_lines_for_flame_graphs() -> None:
    """One for each stack, with its looks."""
    assert "t 1;main 2\nt 1;main;inner 1\nu 2;other 3\n" == folded(PROFILE)


def test_allocations_are_told_by_line() -> None:
    """What was allocated meanwhile and is held, with this file among the places."""
    held: list[bytes] = []

    told = allocations(1.0, wait=lambda _: held.append(bytes(10_000_000)))

    found = _read(told)
    assert "test_profiling.py" in found["lines"][0]["where"]
    assert found["lines"][0]["bytes"] >= 10_000_000


def test_threads_and_tasks_are_told() -> None:
    """By their names and stacks."""

    async def look() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="waits")
        await asyncio.sleep(0)
        found = _read(threads([asyncio.get_running_loop()]))
        task.cancel()
        assert "MainThread" in [thread["name"] for thread in found["threads"]]
        assert "waits" in [task["name"] for task in found["tasks"]]

    asyncio.run(look())


Visit = Callable[[TestClient], Awaitable[None]]  # type: ignore[type-arg]


def _visited(access: Access, visit: Visit) -> None:
    async def go() -> None:
        async with TestClient(TestServer(debug(dict, access=access))) as client:
            await visit(client)

    asyncio.run(go())


def test_a_profile_can_be_asked_for() -> None:
    """As a file or as lines, for a bounded time; nonsense is refused."""

    async def visit(client: TestClient) -> None:  # type: ignore[type-arg]
        async with client.get("/debug/profile?seconds=0.02") as answer:
            assert "tierwise" == json.loads(await answer.text())["exporter"]
        async with client.get("/debug/profile?seconds=0.02&format=folded") as answer:
            assert 200 == answer.status
        async with client.get("/debug/threads") as answer:
            assert {"threads", "tasks"} == set(json.loads(await answer.text()))
        for wrong in ("profile?seconds=61", "profile?seconds=x", "profile?format=svg", "allocations?seconds=0"):
            async with client.get(f"/debug/{wrong}") as answer:
                assert 400 == answer.status

    _visited(Access(), visit)


def test_others_need_the_token() -> None:
    """Nothing is measured for who does not know it."""

    async def visit(client: TestClient) -> None:  # type: ignore[type-arg]
        for headers, status in (({}, 401), ({"Authorization": "Bearer t"}, 200)):
            async with client.get("/debug/threads", headers=headers) as answer:
                assert status == answer.status

    _visited(Access(token="t"), visit)


def test_two_do_not_measure_at_once() -> None:
    """The second is told to come again, and may once the first is done."""

    async def both() -> None:
        measure, done = OneAtATime(), threading.Event()
        first = asyncio.create_task(measure(done.wait))
        await asyncio.sleep(0)
        with pytest.raises(web.HTTPConflict):
            await measure(done.is_set)
        done.set()
        assert (True, True) == (await first, await measure(done.is_set))

    asyncio.run(both())
