"""Over several cycles: nominations hold, evictions come to an end, and nobody is evicted in turn."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fuzz.stage import Stage
from tests.support.depth import examples, seeds
from tests.support.evict_facts import crowded, standing
from tests.support.evict_scenes import (
    CLASSICS,
    GANGS,
    Case,
    Dials,
    cases,
    scenes,
)
from tests.support.evict_world import (
    Gang,
    Pod,
    Queue,
    Scene,
    Told,
    many,
    once,
    onward,
    profile_of,
    starves,
)
from tests.support.sight import saw, sees


def without_quotas(scene: Scene) -> Scene:
    """The scene with queues that have an order, but no amounts that could take a nomination back."""
    return replace(scene, queues=tuple(Queue(q.name, priority=q.priority) for q in scene.queues))


def whole(scene: Scene, told: Told) -> dict[str, dict[str, str]]:
    """The nominated pods of gangs that were wholly pending, by gang."""
    pods = scene.pods()
    found: dict[str, dict[str, str]] = {}
    for path, node in told.wire["nominations"].items():
        gang = pods[path][0]
        if not any(pod.on for pod in gang.pods):
            found.setdefault(gang.key, {})[path] = node
    return found


@sees(evictions=3, nominations=5)
@given(scenes(Dials(leaving=False)), st.booleans(), st.integers(1, 3))
def test_nominations_hold_against_thieves(scene: Scene, lingers: bool, size: int) -> None:
    """P18: whoever comes before it in every order, a nominated gang keeps its room until it is bound there."""
    scene = without_quotas(scene)
    profile = profile_of("gangpreempt", quota="capacity")
    first = once(scene, profile)
    kept = whole(scene, first)
    later = onward(scene, first, linger=True)
    thief = Gang("thief", tuple(Pod(f"thief-{i}", "cpu=1", priority=9) for i in range(size)), size, priority=9)
    later = replace(later.with_gang(thief), queues=(*scene.queues, Queue("default", priority=9)))
    if lingers:
        second = once(later, profile)
        assert [] == crowded(later, standing(onward(later, second, linger=False)) | second.wire["nominations"])
        assert all(second.placed.get(path) == node for gang in kept.values() for path, node in gang.items())
        later = onward(later, second, linger=False)
        later = replace(later, gangs=tuple(_without_leaving(gang) for gang in later.gangs))
    else:
        later = replace(later, gangs=tuple(_without_leaving(gang) for gang in later.gangs))
    places = standing(onward(later, once(later, profile), linger=False))

    assert all(places.get(path) == node for gang in kept.values() for path, node in gang.items())


def _without_leaving(gang: Gang) -> Gang:
    return replace(gang, pods=tuple(pod for pod in gang.pods if not pod.leaving))


@sees(evictions=3, nominations=5)
@given(scenes(Dials(leaving=False)))
def test_a_nominated_gang_evicts_nobody_again(scene: Scene) -> None:
    """P18: while its victims are leaving, a gang that has its room waits."""
    scene = without_quotas(scene)
    profile = profile_of("gangpreempt", quota="capacity")
    first = once(scene, profile)
    second = once(onward(scene, first, linger=True), profile)
    served = {entry["by"] for entry in first.evictions}

    assert set() == served & {entry["by"] for entry in second.evictions}


@sees(evictions=4, second_cycles=4)
@given(cases())
@examples(30)
def test_evictions_come_to_an_end(case: Case) -> None:
    """P19: a cluster to which nothing is added settles, and then evicts nobody; no pod goes twice."""
    scene, profile = case
    history = many(scene, profile)
    victims = [eviction.task.key for eviction in history.evictions]

    assert sorted(set(victims)) == sorted(victims)
    assert () == history.reports[-1][1].evictions
    assert history.cycles < 50


@sees(evictions=4)
@given(seeds(), st.sampled_from((*GANGS, *CLASSICS)), st.sampled_from(("capacity", "proportion")))
@examples(25)
def test_evictions_end_where_victims_come_back(pick: Random, actions: str, quota: str) -> None:
    """P19: also where every evicted pod is made anew and wants back in, evictions end, and no two gangs take turns."""
    dials = Dials(reclaims="reclaim" in actions, loose=actions in CLASSICS, running=5, pending=2)
    profile = profile_of(actions, quota=quota, budgets=True)
    drawn = (Stage(pick, profile, dials) for _ in range(8))
    stage = next((stage for stage in drawn if starves(stage.scene, profile)), Stage(pick, profile, dials))
    pairs: Counter[tuple[str, str]] = Counter()
    idle = 0
    for _ in range(40):
        act = stage.play(quiet=True)
        pairs.update((by, act.before.pods()[pod][0].key) for pod, by, _ in act.evictions)
        saw(evictions=len(act.evictions))
        idle = 0 if act.steps or act.evictions else idle + 1
        if idle > 4:
            break

    assert idle > 4
    assert [] == [pair for pair in pairs if pair[::-1] in pairs]


def back_again(scene: Scene, told: Told) -> Scene:
    """The scene after a cycle, with the evicted made anew."""
    after = onward(scene, told, linger=False)
    lost = {gang.key: [pod for pod in gang.pods if gang.path(pod) in told.victims] for gang in scene.gangs}
    gangs = (replace(g, pods=(*g.pods, *(replace(pod, on="") for pod in lost[g.key]))) for g in after.gangs)
    return replace(after, gangs=tuple(gangs))


def test_two_queues_do_not_take_turns() -> None:
    """P19: queues that are each below their due in one resource, and above it in the other, do not take for ever."""
    kept = tuple(Pod(f"kept-{i}", "cpu=1", on="n0") for i in range(6))
    scene = Scene(
        {"s0": ("r0",)},
        {"r0": ("n0",)},
        {"n0": "cpu=8 gpu=2"},
        queues=(Queue("a", deserved="cpu=4 gpu=1"), Queue("b", deserved="cpu=4 gpu=1")),
        gangs=(
            Gang("kept", kept, 1, "a", kept=True),
            Gang("one", (Pod("one-0", "cpu=1 gpu=1", on="n0"),), 1, "b"),
            Gang("two", (Pod("two-0", "cpu=1 gpu=1", on="n0"),), 1, "b"),
            Gang("want", (Pod("want-0", "cpu=1 gpu=1"),), 1, "a"),
        ),
    )
    victims: list[str] = []
    for _ in range(8):
        told = once(scene, profile_of("gangreclaim", quota="capacity"))
        victims += sorted(told.victims)
        scene = back_again(scene, told)

    assert sorted(set(victims)) == sorted(victims)


def test_who_deserves_none_of_a_resource_takes_none_in_turn() -> None:
    """P19: of something that it deserves none of, a queue's share is beyond any other.

    Else the less important gang of the other queue takes it back, and is preempted there by the one that lost it.
    """
    kept = tuple(Pod(f"kept-{i}", "cpu=1", on="n0") for i in range(7))
    scene = Scene(
        {"s0": ("r0",)},
        {"r0": ("n0",)},
        {"n0": "cpu=8 gpu=2"},
        queues=(Queue("none", deserved="cpu=2 gpu=0"), Queue("one", deserved="cpu=8 gpu=1")),
        gangs=(
            Gang("kept", kept, 1, "one", kept=True),
            Gang("big", (Pod("big-0", "cpu=1 gpu=2", on="n0", priority=9),), 1, "one", priority=9),
            Gang("small", (Pod("small-0", "cpu=1 gpu=1"),), 1, "one"),
            Gang("want", (Pod("want-0", "cpu=1 gpu=1"),), 1, "none"),
        ),
    )
    victims: list[str] = []
    for _ in range(8):
        told = once(scene, profile_of("gangpreempt gangreclaim", quota="capacity"))
        victims += sorted(told.victims)
        scene = back_again(scene, told)

    assert [] == victims
