"""Events come behind binds."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tierwise.api.codec import Raw
from tierwise.api.core import ObjectMeta, Pod
from tierwise.kube import behind_binds
from tierwise.kube.behind_binds import BindsUnderWay
from tierwise.kube.client import Client
from tierwise.kube.events import Recorder
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots
from tierwise.port import Key, RecordEvent

EVENT = RecordEvent(Key("", "Pod", "default", "p"), "Normal", "Scheduled", "on n0")


class _Client:
    """Notes how often somebody had asked for binds when an event was written."""

    def __init__(self) -> None:
        self.looks = 0
        self.written: list[int] = []
        self.bodies: list[object] = []

    async def ask(self, method: str, path: str, body: object = None, **_: object) -> bytes:
        self.written.append(self.looks)
        self.bodies.append(body)
        return b"{}"


@pytest.mark.parametrize(("busy", "expected"), [(0, 1), (3, 4), (10**9, 7)])
def test_events_wait_for_binds(monkeypatch: pytest.MonkeyPatch, busy: int, expected: int) -> None:
    """No event is written while binds are under way, unless there is no end to them."""
    monkeypatch.setattr(behind_binds, "_STEP", 0.0)
    monkeypatch.setattr(behind_binds, "_PATIENCE", 7)
    client = _Client()

    class Busy(BindsUnderWay):
        def lately(self) -> bool:
            client.looks += 1
            return client.looks <= busy

    async def run() -> None:
        binds = Busy(lambda: 0.0)
        recorder = Recorder(cast(Client, client), Store(), "tierwise", binds=binds, slots=WriteSlots())
        recorder.record(EVENT)
        worker = asyncio.create_task(recorder._worker())
        while not client.written:
            await asyncio.sleep(0)
        worker.cancel()

    asyncio.run(run())

    assert [expected] == client.written


def test_an_event_is_about_the_object_that_was_there() -> None:
    """It is written later: the object may be gone then, or another of its name be there."""
    client, store = _Client(), Store()
    pods = Resource("", "v1", "Pod", "pods", namespaced=True, status=True)
    shown = Pod(ObjectMeta(name="p", namespace="default", uid="first", resource_version="1"))
    store.put(pods, (shown, None))

    async def run() -> None:
        binds = BindsUnderWay(lambda: 0.0)
        recorder = Recorder(cast(Client, client), store, "tierwise", binds=binds, slots=WriteSlots())
        recorder.record(EVENT)
        store.delete(pods, (shown, None))
        worker = asyncio.create_task(recorder._worker())
        while not client.written:
            await asyncio.sleep(0)
        worker.cancel()

    asyncio.run(run())
    (body,) = client.bodies

    assert "first" == cast(Raw, body)["involvedObject"]["uid"]  # type: ignore[index]
