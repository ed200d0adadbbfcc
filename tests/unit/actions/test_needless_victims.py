"""Victims are looked at together at the end of an action: who is needless with the others gone stays."""

from __future__ import annotations

import pytest
from tests.support.evict_world import Gang, Pod, Queue, Scene, once, profile_of

LEAST = Gang("least", (Pod("least-0", "cpu=1", on="n0"),), 1)
BROKEN = Gang("broken", (Pod("broken-0", "cpu=4", on="n0"), Pod("broken-1", "cpu=5", on="n1")), 2)
FIRST = Gang("first", tuple(Pod(f"first-{i}", "cpu=1", priority=9) for i in range(4)), 4, priority=9)


def _told(*gangs: Gang, actions: str = "gangpreempt") -> tuple[set[str], set[str]]:
    """Who goes, and who is nominated, on a node of eight cpus beside one of five."""
    scene = Scene({"s0": ("r0",)}, {"r0": ("n0", "n1")}, {"n0": "cpu=8", "n1": "cpu=5"}, gangs=gangs)
    told = once(scene, profile_of(actions))
    return told.victims, {path.partition("/")[2] for path in told.wire["nominations"]}


def test_a_victim_that_a_later_plan_makes_needless_stays() -> None:
    """One pod goes for the first gang, then a gang for the second, which leaves enough for both beside that pod."""
    second = Gang("second", (Pod("second-0", "cpu=5", priority=8),), 1, priority=8)
    victims, nominated = _told(LEAST, BROKEN, FIRST, second)

    assert {"default/broken-0", "default/broken-1"} == victims
    assert {"first-0", "first-1", "first-2", "first-3", "second-0"} == nominated


def test_a_victim_that_is_needed_beside_a_later_plan_goes() -> None:
    """Where the second gang takes all that the broken one held, the pod that went for the first one goes."""
    pods = tuple(Pod(f"second-{i}", f"cpu={4 + i}", priority=8) for i in range(2))
    victims, _ = _told(LEAST, BROKEN, FIRST, Gang("second", pods, 2, priority=8))

    assert {"default/broken-0", "default/broken-1", "default/least-0"} == victims


@pytest.mark.parametrize(("capability", "spared"), [(9, False), (10, True)])
@pytest.mark.parametrize("quota", ["capacity", "proportion"])
def test_a_victim_that_a_quota_needs_gone_goes(quota: str, capability: int, *, spared: bool) -> None:
    """Where nodes have room for all, a victim stays only if its queue may hold it beside those who come."""
    least = Gang("least", (Pod("least-0", "cpu=1 gpu=1", on="n0"),), 1)
    broken = Gang("broken", (Pod("broken-0", "cpu=4 gpu=4", on="n0"), Pod("broken-1", "cpu=5 gpu=4", on="n1")), 2)
    first = Gang("first", tuple(Pod(f"first-{i}", "cpu=1 gpu=1", priority=9) for i in range(4)), 4, priority=9)
    second = Gang("second", (Pod("second-0", "cpu=5 gpu=5", priority=8),), 1, priority=8)
    has = {"n0": "cpu=8 gpu=99", "n1": "cpu=5 gpu=99"}
    queues = (Queue("default", capability=f"gpu={capability}"),)
    told = once(
        Scene({"s0": ("r0",)}, {"r0": ("n0", "n1")}, has, queues, (least, broken, first, second)),
        profile_of("gangpreempt", quota=quota),
    )

    expected = {"default/broken-0", "default/broken-1"} | (set() if spared else {"default/least-0"})
    assert expected == told.victims
    assert 5 == len(told.wire["nominations"])


def test_what_is_said_of_an_eviction_leaves_out_who_stays() -> None:
    """Bundles that `explain` shows have lost as many pods as go."""
    scene = Scene({"s0": ("r0",)}, {"r0": ("n0", "n1")}, {"n0": "cpu=8", "n1": "cpu=5"})
    second = Gang("second", (Pod("second-0", "cpu=5", priority=8),), 1, priority=8)
    for gang in (LEAST, BROKEN, FIRST, second):
        scene = scene.with_gang(gang)
    told = once(scene, profile_of("gangpreempt"))

    taken = [note.taken for attempt in told.report.eviction_attempts["default/first"] for note in attempt.bundles]
    assert [0] * len(taken) == taken
