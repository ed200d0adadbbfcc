"""Rules that hold for every action that evicts: who goes, who stays, and what the first leaves for the second."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace
from tests.support.evict_world import (
    Budget,
    Gang,
    Pod,
    Queue,
    Scene,
    once,
    profile_of,
)

from tierwise.config.profile import Profile

EVICTING = ("preempt", "reclaim", "gangpreempt", "gangreclaim", "jobpreempt", "podpreempt", "quotapreempt", "giveback")
PREEMPTING = ("preempt", "gangpreempt", "jobpreempt", "podpreempt", "quotapreempt")


def scene(
    nodes: dict[str, str], *gangs: Gang, queues: tuple[Queue, ...] = (), budgets: tuple[Budget, ...] = ()
) -> Scene:
    """Nodes in one rack."""
    return Scene({"s0": ("r0",)}, {"r0": tuple(nodes)}, nodes, queues, gangs, budgets)


def gang(name: str, *pods: Pod, minimum: int = 1, priority: int = 0, **rest: object) -> Gang:
    """A gang whose pods have its priority where they name none."""
    own = tuple(pod if pod.priority else replace(pod, priority=priority) for pod in pods)
    return Gang(name, own, minimum, priority=priority, **rest)  # type: ignore[arg-type]


def switched(profile: Profile, point: str, *names: str) -> Profile:
    """The profile with a point switched off for some plugins, or for all."""
    tiers = tuple(
        tuple(replace(p, off=p.off | {point}) if not names or p.name in names else p for p in tier)
        for tier in profile.tiers
    )
    return replace(profile, tiers=tiers)


@pytest.mark.parametrize("action", EVICTING)
def test_what_fits_is_bound_in_any_order(action: str) -> None:
    """An idle cluster binds a gang in the first cycle, wherever the evicting action stands, and without allocate."""
    world = scene({"n0": "cpu=4"}, gang("j", Pod("a"), Pod("b"), minimum=2))
    orders = [*permutations(("allocate", "backfill", action)), (action,), (action, "backfill")]

    for order in orders:
        told = once(world, replace(profile_of(action, quota="capacity"), actions=("enqueue", *order)))
        assert {"default/a", "default/b"} == set(told.wire["bindings"]), order


@pytest.mark.parametrize("action", PREEMPTING)
def test_nobody_goes_where_no_plugin_answers(action: str) -> None:
    """Preemption is off where Preemptable is switched off for all plugins."""
    world = scene(
        {"n0": "cpu=2"},
        gang("low", Pod("v0", on="n0"), Pod("v1", on="n0"), minimum=1),
        gang("high", Pod("p"), priority=9),
    )
    profile = profile_of(action)

    assert 1 == len(once(world, profile).victims)
    assert set() == once(world, switched(profile, "Preemptable")).victims


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("allowed", [0, 1])
def test_budgets_hold_whether_or_not_a_profile_says_so(action: str, listed: bool, allowed: int) -> None:
    """One pod goes where its budget lets one go; else one goes that its queue has borrowed, and no other."""
    world = scene(
        {"n0": "cpu=2"},
        gang("low", Pod("v0", on="n0"), Pod("v1", on="n0"), minimum=1, queue="q0"),
        gang("high", Pod("p"), priority=9, queue="q1" if "reclaim" in action else "q0"),
        queues=(Queue("q0", deserved="cpu=1"), Queue("q1", deserved="cpu=1")),
        budgets=(Budget("low", allowed),),
    )
    borrowed = "reclaim" in action

    assert (allowed or borrowed) == len(once(world, profile_of(action, quota="capacity", budgets=listed)).victims)


@pytest.mark.parametrize("action", PREEMPTING)
def test_equals_stay(action: str) -> None:
    """In preemption nobody goes whose priority is as high, also where plugin priority has no say."""
    world = scene({"n0": "cpu=1"}, gang("old", Pod("v", on="n0"), priority=5), gang("new", Pod("p"), priority=5))

    assert set() == once(world, switched(profile_of(action), "Preemptable", "priority", "gang")).victims


@pytest.mark.parametrize("action", PREEMPTING)
def test_a_marked_gang_stays(action: str) -> None:
    """A podGroup that is marked as not preemptable shields its pods, though theirs is the lowest priority."""
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=2"},
        gang("kept", Pod("k0", on="n0"), Pod("k1", on="n0"), kept=True),
        gang("low", Pod("v0", on="n1"), Pod("v1", on="n1"), priority=1),
        gang("high", Pod("p"), priority=9),
    )
    victims = once(world, profile_of(action)).victims

    assert 1 == len(victims)
    assert victims <= {"default/v0", "default/v1"}


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "podpreempt"])
def test_a_healed_gang_is_left_alone(action: str) -> None:
    """A gang whose missing pod was bound in this cycle loses none of its others to a later action."""
    world = scene(
        {"n0": "cpu=3"},
        gang("low", Pod("v0", on="n0"), Pod("v1", on="n0"), Pod("v2"), minimum=3),
        gang("high", Pod("p"), priority=9, created=9),
    )
    told = once(world, _healing(action))

    assert ({"default/v2"}, set()) == (set(told.wire["bindings"]), told.victims)


def _healing(action: str) -> Profile:
    """A profile in which the first in time is served first, whatever its priority, and gangs are no shield."""
    profile = switched(profile_of(action), "Preemptable", "gang")
    return switched(profile, "JobOrder", "priority")


def test_a_nominated_gang_is_left_alone() -> None:
    """A gang that waits for room that is being released loses none of its others to a later action."""
    world = scene(
        {"n0": "cpu=1", "n1": "cpu=1"},
        gang("gone", Pod("x", on="n1", leaving=True)),
        gang("low", Pod("v0", on="n0"), Pod("v1"), minimum=2),
        gang("high", Pod("p"), priority=9, created=9),
    )
    told = once(world, switched(profile_of("gangpreempt"), "JobOrder", "priority"))

    assert ({"default/v1"}, set()) == (set(told.wire["nominations"]), told.victims)


def test_a_gang_that_was_given_more_is_not_broken() -> None:
    """A gang that was given a pod beyond its minimum is not broken in the same cycle."""
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=1"},
        gang("low", Pod("v0", on="n0"), Pod("v1", on="n0"), Pod("v2"), minimum=2),
        gang("high", Pod("p", "cpu=2"), priority=9),
    )
    told = once(world, profile_of("gangpreempt"))

    assert ({"default/v2"}, set()) == (set(told.wire["bindings"]), told.victims)


def test_surplus_placed_in_the_cycle_counts_for_its_gang() -> None:
    """A gang that was given a pod beyond its minimum may lose one, and stays whole with the new one."""
    world = scene(
        {"n0": "cpu=2 gpu=1", "n1": "cpu=1"},
        gang("low", Pod("v0", "cpu=1 gpu=1", on="n0"), Pod("v1", on="n0"), Pod("v2"), minimum=2),
        gang("high", Pod("p", "cpu=1 gpu=1"), priority=9),
    )
    told = once(world, profile_of("gangpreempt", arguments={"allowWholeBundle": False}))

    assert ({"default/v2"}, {"default/v0"}) == (set(told.wire["bindings"]), told.victims)


def test_a_job_that_others_went_for_is_no_victim() -> None:
    """A gang that has just reclaimed is not preempted by the next action: others would have gone in vain."""
    queues = (Queue("q0", deserved="cpu=1"), Queue("q1", deserved="cpu=9"))
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=2"},
        gang("other", Pod("v0", on="n0"), Pod("v1", on="n0"), minimum=1, queue="q0"),
        gang("taker", Pod("t0", "cpu=2", on="n1"), Pod("t1"), minimum=2, queue="q1", priority=1),
        gang("boss", Pod("b", "cpu=2"), queue="q1", priority=9),
        queues=queues,
    )
    told = once(world, profile_of("gangreclaim gangpreempt", quota="capacity"))

    assert [("default/v0", "default/taker")] == [(entry["pod"], entry["by"]) for entry in told.evictions]


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_two_preemptors_share_a_budget(action: str) -> None:
    """What the first takes off a disruption budget the second does not have."""
    world = scene(
        {"n0": "cpu=1", "n1": "cpu=1"},
        gang("low", Pod("v0", on="n0"), Pod("v1", on="n1"), minimum=0),
        gang("a", Pod("p0"), priority=9),
        gang("b", Pod("p1"), priority=8),
        budgets=(Budget("low", 1),),
    )
    told = once(world, profile_of(action, budgets=True))

    assert [("default/a", 1)] == [(told.evictions[0]["by"], len(told.evictions))]


def test_a_budget_in_the_cheapest_rack_hides_no_other() -> None:
    """Where a budget lets one of the two go who are cheapest, the gang goes to the next rack in which two may go.

    In the third rack nobody may go at all.
    """
    nodes = {f"n{i}": "cpu=1" for i in range(6)}
    world = Scene(
        {"s0": ("r0", "r1", "r2")},
        {"r0": ("n0", "n1"), "r1": ("n2", "n3"), "r2": ("n4", "n5")},
        nodes,
        (),
        (
            gang("low", Pod("v0", on="n0"), Pod("v1", on="n1"), minimum=0),
            gang("mid", Pod("v2", on="n2"), Pod("v3", on="n3"), minimum=2, priority=5),
            gang("shut", Pod("v4", on="n4"), Pod("v5", on="n5"), minimum=0),
            gang("high", Pod("p0"), Pod("p1"), minimum=2, priority=9, within=1),
        ),
        (Budget("low", 1), Budget("shut", 0)),
    )
    told = once(world, profile_of("gangpreempt", budgets=True))

    assert {"default/v2", "default/v3"} == told.victims


def test_whole_sub_groups_are_kept_at_their_limit() -> None:
    """A gang with exactly as many whole sub-groups as it needs can spare nobody, whatever its surplus."""
    pods = [Pod(f"v{i}", on="n0", part=part) for i, part in enumerate("aabb")]
    world = scene({"n0": "cpu=4"}, gang("low", *pods, minimum=2, size=2, whole=2), gang("high", Pod("p"), priority=9))

    assert set() == once(world, profile_of("gangpreempt", arguments={"allowWholeBundle": False})).victims


def test_the_remainder_leaves_marked_pods() -> None:
    """With evictRemainder what is left of a broken gang goes, but not a pod that is marked as not preemptable."""
    world = Scene(
        {"s0": ("r0", "r1")},
        {"r0": ("n0",), "r1": ("n1",)},
        {"n0": "cpu=1", "n1": "cpu=2"},
        (),
        (
            gang("low", Pod("v0", on="n0"), Pod("v1", on="n1"), Pod("v2", on="n1", mark="kept"), minimum=3),
            gang("high", Pod("p"), priority=9, within=1),
        ),
    )
    told = once(world, profile_of("gangpreempt", arguments={"evictRemainder": True}))

    assert {"default/v0", "default/v1"} == told.victims


def test_whom_a_failed_try_had_chosen_may_go_for_the_next() -> None:
    """A gang that one victim does not help leaves him to the next preemptor."""
    world = scene(
        {"n0": "cpu=1"},
        gang("low", Pod("v", on="n0"), minimum=0),
        gang("two", Pod("p0"), Pod("p1"), minimum=2, priority=9),
        gang("one", Pod("p2"), priority=8),
    )
    told = once(world, profile_of("preempt"))

    assert [("default/v", "default/one")] == [(entry["pod"], entry["by"]) for entry in told.evictions]


def test_marked_pods_are_the_last_of_their_gang() -> None:
    """A marked pod does not stand for the surplus of its gang while another could go."""
    world = scene(
        {"n0": "cpu=2"},
        gang("low", Pod("v0", on="n0", mark="kept", created=9), Pod("v1", on="n0", created=1), minimum=1),
        gang("high", Pod("p", "cpu=1"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt", arguments={"allowWholeBundle": False})).victims


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "podpreempt"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Pod("v0", on="n0", priority=2, created=1), Pod("v1", on="n0", priority=1, created=1)),
        (Pod("v0", on="n0", priority=1, created=1), Pod("v1", on="n0", priority=1, created=2)),
    ],
)
def test_the_less_important_and_then_the_younger_pod_goes(action: str, first: Pod, second: Pod) -> None:
    """Of two pods of a gang the one with the lower priority goes, of equals the younger one."""
    low = Gang("low", (first, second), 1, priority=2)
    world = scene({"n0": "cpu=3"}, low, gang("high", Pod("p", "cpu=2"), priority=9))

    assert {"default/v1"} == once(world, profile_of(action)).victims


def test_the_job_that_would_be_served_last_loses_first() -> None:
    """In preempt pods of the less important job go before those of a more important one."""
    world = scene(
        {"n0": "cpu=2"},
        gang("low", Pod("v0", on="n0"), minimum=0, priority=1),
        gang("mid", Pod("v1", on="n0"), minimum=0, priority=2),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v0"} == once(world, profile_of("preempt")).victims


def test_room_that_an_eviction_leaves_over_is_seen() -> None:
    """A job alike to one that was refused is nominated where an eviction in between left room for it."""
    profile = replace(profile_of("podpreempt"), actions=("allocate", "podpreempt"), immediate_preemption=True)
    world = scene(
        {"n0": "cpu=3"},
        gang("low", Pod("v", "cpu=3", on="n0"), minimum=0),
        gang("first", Pod("b0", never=True), priority=5, created=1),
        gang("taker", Pod("a", "cpu=2"), priority=5, created=2),
        gang("last", Pod("b1", never=True), priority=5, created=3),
    )
    told = once(world, profile)

    assert {"default/v"} == told.victims
    assert {"default/a", "default/b1"} == set(told.wire["nominations"])


def test_a_surplus_pod_goes_where_it_is_enough() -> None:
    """Of a gang's pods the one goes whose node then has room, not one beside a gang that would have to break."""
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=2"},
        gang("low", Pod("v0", on="n0", created=9), Pod("v1", on="n1", created=1), minimum=1),
        gang("tight", Pod("t0", on="n0"), minimum=1),
        gang("high", Pod("p", "cpu=2"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_whoever_went_for_one_task_and_is_not_needed_stays() -> None:
    """In preempt the victim of the first task is spared once that of the second makes room for both."""
    world = scene(
        {"n0": "cpu=4"},
        gang("small", Pod("v0", on="n0"), minimum=0),
        gang("large", Pod("v1", "cpu=3", on="n0"), minimum=0, priority=1),
        gang("high", Pod("p0"), Pod("p1"), minimum=2, priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("preempt")).victims


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_best_effort_pods_take_slots_of_their_like_alone(action: str) -> None:
    """A best-effort pod takes the slot of a less important best-effort pod, and never that of another pod."""
    high = gang("high", Pod("p", ""), priority=9)
    plain = scene({"n0": "cpu=4 pods=1"}, gang("low", Pod("v", "", on="n0"), minimum=0), high)
    rich = scene({"n0": "cpu=4 pods=1"}, gang("low", Pod("v", "cpu=1", on="n0"), minimum=0), high)

    assert {"default/v"} == once(plain, profile_of(action)).victims
    assert set() == once(rich, profile_of(action)).victims
