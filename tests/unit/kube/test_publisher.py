"""Statuses are written behind binds: the newest of an object, what still holds, each once, with its warning behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from tierwise.kube import publisher as module
from tierwise.kube.behind_binds import BindsUnderWay
from tierwise.kube.client import Client
from tierwise.kube.events import Recorder
from tierwise.kube.publisher import Publisher
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots
from tierwise.port import Key, Outcome, PatchStatus, RecordEvent


class _Server:
    """Takes statuses and events, each when the test lets it."""

    def __init__(self) -> None:
        self.wrote: list[str] = []
        self.fails = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.held = 0

    async def status(self, effect: PatchStatus) -> Outcome:
        self.held += 1
        await self.gate.wait()
        self.held -= 1
        told = effect.status.get("phase") or effect.annotations.get("expected")
        self.wrote.append(f"{effect.key.name}={told}")
        if self.fails:
            self.fails -= 1
            return Outcome(effect, ok=False, error="not today")
        return Outcome(effect, ok=True)

    async def ask(self, method: str, path: str, body: object = None, **_: object) -> bytes:
        assert isinstance(body, dict)
        self.wrote.append(f"{body['involvedObject']['name']}: {body['reason']} x{body['count']}")
        return b"{}"


def _writers(server: _Server, binds: BindsUnderWay) -> tuple[Publisher, Recorder]:
    """Of statuses behind binds, and of events."""
    idle = BindsUnderWay(lambda: 0.0)
    recorder = Recorder(cast(Client, server), Store(), "tierwise", binds=idle, slots=WriteSlots())
    return Publisher(server.status, recorder, binds), recorder


def _key(name: str, namespace: str = "default") -> Key:
    return Key("scheduling.volcano.sh", "PodGroup", namespace, name)


def _status(name: str, phase: str, namespace: str = "default") -> PatchStatus:
    return PatchStatus(_key(name, namespace), {"phase": phase})


def _warning(name: str) -> RecordEvent:
    return RecordEvent(_key(name), "Warning", "Unschedulable", "no room")


def _play(script: Callable[[Publisher, _Server], object], *, fails: int = 0, binds: int = 0) -> list[str]:
    """Let a script tell things while nothing is written; then what was written, in order."""

    async def run() -> list[str]:
        server, left = _Server(), binds
        server.fails = fails

        class Busy(BindsUnderWay):
            def lately(self) -> bool:
                nonlocal left
                left -= 1
                if left >= 0:
                    server.wrote.append("binding")
                return left >= 0

        publisher, recorder = _writers(server, Busy(lambda: 0.0))
        script(publisher, server)
        tasks = [asyncio.create_task(publisher.run()), asyncio.create_task(recorder.run())]
        async with asyncio.timeout(60):
            while not (publisher.idle() and recorder.idle()):
                await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return server.wrote

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker that does not rest, so that the order is known."""
    monkeypatch.setattr(module, "_WORKERS", 1)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr("tierwise.kube.behind_binds._STEP", 0.0)


def test_the_newest_status_is_written() -> None:
    """What was told before and is not written yet is not written at all."""

    def script(publisher: Publisher, _: _Server) -> None:
        publisher.tell([_status("g", "Pending"), _status("h", "Pending")], "0")
        publisher.tell([_status("g", "Running"), _status("h", "Pending")], "0")

    assert ["g=Running", "h=Pending"] == _play(script)


def test_what_no_longer_holds_is_not_written() -> None:
    """Who tells all that differs and no longer names an object has nothing to say about it; others' words stay."""

    def script(publisher: Publisher, _: _Server) -> None:
        publisher.tell([_status("g", "Pending"), _status("h", "Pending")], "0")
        publisher.tell([_status("i", "Pending")], "1")
        publisher.tell([_status("h", "Pending")], "0")
        publisher.tell([], "")

    assert ["h=Pending", "i=Pending"] == _play(script)


def test_namespaces_take_turns() -> None:
    """A tenant with many odd objects has them written one by one between those of others."""

    def script(publisher: Publisher, _: _Server) -> None:
        noisy = [_status(f"n{i}", "Pending", "noisy") for i in range(5)]
        publisher.tell([*noisy, _status("a", "Running"), _status("b", "Running")], "0")

    assert ["n0", "a", "n1", "b", "n2", "n3", "n4"] == [told.partition("=")[0] for told in _play(script)]


def test_a_warning_comes_behind_its_status() -> None:
    """Told with it in several turns, it is written once; other events do not wait for any status."""

    def script(publisher: Publisher, _: _Server) -> None:
        for _turn in range(3):
            publisher.tell([_status("g", "Pending"), _warning("g")], "0")
        publisher.tell([_status("g", "Pending"), _warning("g"), RecordEvent(_key("h"), "Normal", "Scheduled", "")], "0")

    assert ["h: Scheduled x1", "g=Pending", "g: Unschedulable x1"] == sorted(
        _play(script), key=lambda told: (told[0] != "h", ":" in told)
    )


def test_what_is_not_written_has_no_warning() -> None:
    """The next turn tells both again."""
    assert ["g=Pending"] == _play(
        lambda publisher, _: publisher.tell([_status("g", "Pending"), _warning("g")], "0"), fails=1
    )


def test_an_event_that_waits_and_is_said_again_counts_up() -> None:
    """It is one request, and nothing of it is lost."""

    def script(publisher: Publisher, _: _Server) -> None:
        for _turn in range(3):
            publisher.tell([RecordEvent(_key("g"), "Normal", "Scheduled", "")], "0")

    assert ["g: Scheduled x3"] == _play(script)


def test_statuses_wait_for_binds() -> None:
    """No status is written while binds are under way."""
    assert ["binding", "binding", "g=Running"] == _play(
        lambda publisher, _: publisher.tell([_status("g", "Running")], "0"), binds=2
    )


def test_what_is_told_while_it_is_written_is_written_once() -> None:
    """The cycle that tells it again has not seen the answer yet; another status is written behind the first."""

    async def run() -> list[str]:
        server = _Server()
        server.gate.clear()
        publisher, _ = _writers(server, BindsUnderWay(lambda: 0.0))
        task = asyncio.create_task(publisher.run())
        publisher.tell([_status("g", "Pending"), _status("h", "Pending")], "0")
        while not server.held:
            await asyncio.sleep(0)
        publisher.tell([_status("g", "Pending"), _status("h", "Running")], "0")
        server.gate.set()
        while not publisher.idle():
            await asyncio.sleep(0)
        publisher.tell([_status("h", "Running")], "0")  # told by who looked before that was written
        while not publisher.idle():
            await asyncio.sleep(0)
        task.cancel()
        return server.wrote

    assert ["g=Pending", "h=Running"] == asyncio.run(run())


def test_annotations_wait_beside_the_status_of_their_object() -> None:
    """Who tells an annotation alone neither loses it to a status nor takes that away; of both the newest counts."""

    def forecast(text: str) -> PatchStatus:
        return PatchStatus(_key("g"), {}, {"expected": text})

    def script(publisher: Publisher, _: _Server) -> None:
        publisher.tell([_status("g", "Pending")], "0")
        publisher.tell([forecast("soon")], "forecasts")
        publisher.tell([_status("g", "Inqueue")], "0")
        publisher.tell([forecast("late")], "forecasts")
        publisher.tell([_status("g", "Running")], "0")

    assert ["g=Running", "g=late"] == _play(script)
