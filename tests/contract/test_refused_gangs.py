"""Gangs whose binds are refused for a reason that stays: asked for now and then, told why, and released in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import pod, pod_group
from tests.contract.turns import START, World, WrittenLoop

from tierwise.config.profile import DEFAULT
from tierwise.runtime.journal import Journal, JournalWriter, repeat
from tierwise.runtime.profile_run import SchedulerProfile

SAID = {"message": "denied by policy"}


def _gang(name: str, size: int) -> list[Json]:
    """A gang whose pods would be made anew."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    pods = [pod(f"{name}{i}", group=name) for i in range(size)]
    for found in pods:
        found["metadata"]["ownerReferences"] = [owner]
    return [pod_group(name, size), *pods]


def _asked(api: FakeApi, name: str) -> int:
    """How often a pod was to be bound."""
    return sum(request.endswith(f"/{name}/binding") for request in api.requests)


@pytest.mark.parametrize("status", [403, 422])
def test_a_refusal_that_stays_is_not_asked_for_all_the_time(world: World, status: int) -> None:
    """After one second, then two, up to a minute; the group says why, and other gangs are bound meanwhile."""
    world.api.fail("POST", "/g0/binding", status, times=10**6, said=SAID)
    world.put(*_gang("g", 1))
    asked = []
    for second in range(200):
        before = _asked(world.api, "g0")
        world.turn(after=1.0)
        if _asked(world.api, "g0") > before:
            asked.append(second)
    world.put(*_gang("h", 4))
    world.turn(after=1.0)

    assert [0, 1, 3, 7, 15, 31, 63, 123, 183] == asked
    assert "denied by policy" in world.api.get("podgroups", "g")["status"]["conditions"][0]["message"]
    assert all(world.api.get("pods", f"h{i}")["spec"].get("nodeName") for i in range(4))


def test_plain_pods_are_left_alone_one_by_one(world: World) -> None:
    """A pod of no gang that is refused waits by itself: its like are bound."""
    world.api.fail("POST", "/p0/binding", 403, times=10**6, said=SAID)
    world.put(*(pod(f"p{i}") for i in range(4)))
    bound = [world.turn(after=0.25) for _ in range(8)]

    assert [3] * 8 == bound
    assert 2 == _asked(world.api, "p0")


@pytest.mark.parametrize("what", ["label", "gate", "group", "anew"])
def test_a_change_of_the_gang_ends_the_wait(world: World, what: str) -> None:
    """Whoever mends what was refused is asked for again at once; once a minute, whatever else changes."""
    world.api.fail("POST", "/g0/binding", 403, times=10**6, said=SAID)
    world.put(*_gang("g", 1))
    for _ in range(16):
        world.turn(after=1.0)
    asked = [_asked(world.api, "g0")]
    for number in range(3):
        _change(world, what, number)
        world.turn(after=0.1)
        asked.append(_asked(world.api, "g0"))
    assert [5, 6, 6, 6] == asked

    world.turn(after=1.0)  # from its beginning again
    assert 7 == _asked(world.api, "g0")


def _change(world: World, what: str, number: int) -> None:
    found = world.api.get("pods", "g0")
    if what == "label":
        world.put({**found, "metadata": {**found["metadata"], "labels": {"team": f"{number}"}}})
    elif what == "gate":
        world.put({**found, "spec": {**found["spec"], "schedulingGates": [{"name": f"example.com/{number}"}]}})
        world.turn()
        world.put({**found, "spec": {**found["spec"], "priority": number + 1}})
    elif what == "group":
        group = world.api.get("podgroups", "g")
        world.put({**group, "spec": {**group["spec"], "minResources": {"cpu": f"{number + 1}"}}})
    else:
        world.put({**found, "metadata": {**found["metadata"], "uid": f"another-{number}"}})


def test_a_gang_of_which_one_pod_is_refused_is_released_in_time(world: World) -> None:
    """Its release counts from the first refusal, although each cycle finds a place for the rest."""
    world.api.fail("POST", "/g3/binding", 403, times=10**6, said=SAID)
    world.put(*_gang("g", 8))
    held = [world.turn(after=1.0) for _ in range(64)]

    assert 7 == max(held)
    assert 0 == held[-1]
    assert _asked(world.api, "g3") <= 8


def test_a_cycle_beside_a_refused_gang_is_repeated_from_the_journal(world: World, tmp_path: Path) -> None:
    """Who was left alone is a part of what a cycle has seen."""
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    writer = JournalWriter(tmp_path, 10**6, (own,))
    loop = WrittenLoop(world.cluster, [own], clock=lambda: START, ticks=lambda: START, observers=[writer])
    world.api.fail("POST", "/g0/binding", 403, times=10**6, said=SAID)
    world.put(*_gang("g", 1))
    for _ in range(3):
        loop.run_once()
    writer.close()
    journal = Journal(tmp_path)

    assert [True] * 3 == [repeat(journal.cycle(number)).same for number in (1, 2, 3)]
    assert [[], ["default/g"], ["default/g"]] == [[*journal.cycle(number).paused] for number in (1, 2, 3)]
