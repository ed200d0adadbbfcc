"""No object ends a simulated life: what makes a stage raise is set aside, told of, and the others live on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.lives import gang, machines
from tests.support.manifests import NOW, objects

from tierwise.api.codec import Object
from tierwise.api.core import Pod
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.port import Key
from tierwise.sim.cluster.simulation import Simulation

GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "bad")
EVIL = Key("", "Pod", "default", "bad-0")


class _Trap(dict[str, str]):
    """Labels that raise as soon as somebody looks for a key."""

    def get(self, key: str, default: Any = None) -> Any:
        raise KeyError(f"somebody asked for {key}")


def _wrong_number(record: Object) -> Object:
    assert isinstance(record, PodGroup)
    return replace(record, spec=replace(record.spec, min_member="four"))


def _wrong_conditions(record: Object) -> Object:
    assert isinstance(record, PodGroup)
    return replace(record, status=replace(record.status, conditions=(object(),)))


def _trapped(record: Object) -> Object:
    assert isinstance(record, Pod)
    return replace(record, metadata=replace(record.metadata, labels=_Trap()))


@pytest.mark.parametrize(("key", "poison"), [(GROUP, _wrong_number), (GROUP, _wrong_conditions), (EVIL, _trapped)])
def test_the_others_live_on(key: Key, poison: Callable[[Object], Object]) -> None:
    """Their pods run and end, and the culprit has an event."""
    world = objects(*machines("n0", "n1"), *gang("bad", 1, run_for="60s"), *gang("good", 1, run_for="60s"))
    record = world.record(key)
    assert record is not None
    world = world.updated({key: (poison(record), world.raw(key))}, (), world.version)
    life = Simulation(world, DEFAULT, start=NOW)

    last = [*life.run(3600)][-1]

    assert "Succeeded" == last.objects.every(Pod)["default/good-0"].status.phase
    [blamed] = {crash.key for crash in life.guard.crashes}
    assert blamed in (GROUP, EVIL)
    assert {str(blamed)} == {str(event.about) for event in life.cluster.events if event.reason == "SetAside"}
