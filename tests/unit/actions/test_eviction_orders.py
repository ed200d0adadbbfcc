"""Who of several goes, which of several choices is taken, and what one preemptor or action leaves for the next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support import koordinator as drawn
from tests.support.evict_world import Budget, Gang, Pod, Queue, Scene, once, profile_of
from tests.support.quotas import koordinator, nodes, quota, settle, worker
from tests.unit.actions import test_job_preempt as jobs
from tests.unit.actions.test_eviction_rules import gang, scene, switched
from tests.unit.actions.test_pod_preempt import DEFAULTS, budget, labelled

SAFELY = profile_of("gangpreempt", arguments={"allowWholeBundle": False})
"""Gangs lose what they can spare, and nothing else."""


def racks(nodes: dict[str, str], *gangs: Gang) -> Scene:
    """A rack for each node."""
    names = {f"r{i}": (node,) for i, node in enumerate(nodes)}
    return Scene({"s0": tuple(names)}, names, nodes, (), gangs)


# -- what gangs can spare


def test_the_last_pod_of_a_role_stays() -> None:
    """The youngest pod would go first, but its role has no more than its minimum."""
    pods = (
        Pod("v0", on="n0", role="a", created=9),
        Pod("v1", on="n0", role="b", created=2),
        Pod("v2", on="n0", role="b"),
    )
    world = scene({"n0": "cpu=3"}, gang("low", *pods, minimum=2, roles={"a": 1}), gang("high", Pod("p"), priority=9))

    assert {"default/v1"} == once(world, SAFELY).victims


def test_one_sub_group_to_spare_is_spared_once() -> None:
    """Two of three sub-groups must be whole: the pods of one go, and no pod of a second."""
    pods = [Pod(f"v{i}", on="n0", part=part) for i, part in enumerate("aabbcc")]
    low = gang("low", *pods, minimum=2, size=2, whole=2)
    two, three = (scene({"n0": "cpu=6"}, low, gang("high", Pod("p", f"cpu={number}"), priority=9)) for number in (2, 3))

    assert 2 == len(once(two, SAFELY).victims)
    assert set() == once(three, SAFELY).victims


def test_pods_of_a_broken_gang_are_free() -> None:
    """A gang that has less than its minimum anyway loses pods where no gang may be broken."""
    world = scene({"n0": "cpu=1"}, gang("low", Pod("v", on="n0"), minimum=3), gang("high", Pod("p"), priority=9))

    assert {"default/v"} == once(world, SAFELY).victims


@pytest.mark.parametrize("action", ["gangpreempt", "preempt"])
@pytest.mark.parametrize(("allowed", "asked", "victims"), [(0, 1, {"v2"}), (1, 1, {"v0"}), (1, 2, {"v0", "v2"})])
def test_a_pod_under_a_budget_is_not_what_its_gang_can_spare(
    action: str, allowed: int, asked: int, victims: set[str]
) -> None:
    """The first in order are covered: beyond their budget the gang spares others, and is not broken."""
    pods = [Pod(f"v{i}", on="n0", role="a" if i < 2 else "b", created=9 - i) for i in range(4)]
    world = scene(
        {"n0": "cpu=4"},
        gang("low", *pods, minimum=4 - asked),
        gang("high", *(Pod(f"p{i}") for i in range(asked)), minimum=asked, priority=9),
        budgets=(Budget("low", allowed, role="a"),),
    )
    told = once(world, profile_of(action, budgets=True))

    assert {f"default/{name}" for name in victims} == told.victims


def test_a_system_pod_is_not_what_its_gang_can_spare() -> None:
    """It stays in any case: the gang gives another pod, and not all of the others."""
    pods = (Pod("v0", on="n0", mark="critical", created=9), Pod("v1", on="n0"), Pod("v2", on="n0"))
    world = scene({"n0": "cpu=3"}, gang("low", *pods, minimum=2), gang("high", Pod("p"), priority=9))

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_a_marked_pod_is_not_what_its_gang_can_spare() -> None:
    """The gang of lower priority gives its other pod; the more important gang is left alone."""
    world = scene(
        {"n0": "cpu=4"},
        gang("a", Pod("v0", on="n0", mark="kept", created=9), Pod("v1", on="n0"), minimum=1, priority=1),
        gang("b", Pod("w0", on="n0"), Pod("w1", on="n0"), minimum=1, priority=2),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_the_pod_that_frees_more_is_spared_by_its_gang() -> None:
    """One pod that is enough goes, not two smaller ones of two gangs."""
    first = gang("a", Pod("v0", "cpu=2", on="n0"), Pod("v1", on="n0", created=9), minimum=1, priority=1)
    second = gang("b", Pod("w0", "cpu=2", on="n0"), Pod("w1", on="n0", created=9), minimum=1, priority=1)
    world = scene({"n0": "cpu=6"}, first, second, gang("high", Pod("p", "cpu=2"), priority=9))

    assert 1 == len(once(world, profile_of("gangpreempt")).victims)


# -- which gang


def test_of_two_gangs_that_can_spare_a_pod_the_less_important_does() -> None:
    """Whatever their age."""
    world = scene(
        {"n0": "cpu=2"},
        gang("a", Pod("v0", on="n0"), minimum=0, priority=2, created=9),
        gang("b", Pod("v1", on="n0"), minimum=0, priority=1, created=1),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_of_equal_gangs_the_younger_one_loses() -> None:
    """What has run longest is worth most."""
    world = scene(
        {"n0": "cpu=2"},
        gang("a", Pod("v0", on="n0"), minimum=0, created=1),
        gang("b", Pod("v1", on="n0"), minimum=0, created=9),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_a_small_pod_goes_before_a_large_one() -> None:
    """Of equal gangs the younger would go first, but the pod of the older one is smaller and enough."""
    world = scene(
        {"n0": "cpu=5"},
        gang("a", Pod("v0", "cpu=4", on="n0"), minimum=0, created=9),
        gang("b", Pod("v1", on="n0"), minimum=0, created=1),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_an_important_pod_stays_though_it_is_small() -> None:
    """Of two pods that gangs can spare the more important one stays, also where it is the smaller one."""
    world = scene(
        {"n0": "cpu=3"},
        gang("a", Pod("v0", on="n0", priority=5), minimum=0, created=9),
        gang("b", Pod("v1", "cpu=2", on="n0"), minimum=0, created=1),
        gang("high", Pod("p"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_a_less_important_gang_is_broken_before_a_smaller_one() -> None:
    """Breaking the gang of two costs more room, and the gang of one is more important."""
    world = Scene(
        {"s0": ("r0", "r1")},
        {"r0": ("n0",), "r1": ("n1", "n2")},
        {"n0": "cpu=1", "n1": "cpu=1", "n2": "cpu=1"},
        (),
        (
            gang("a", Pod("v0", on="n0"), minimum=1, priority=2),
            gang("b", Pod("v1", on="n1"), Pod("v2", on="n2"), minimum=2, priority=1),
            gang("high", Pod("p"), priority=9, within=1),
        ),
    )

    assert {"default/v1", "default/v2"} == once(world, profile_of("gangpreempt")).victims


def test_of_gangs_that_are_not_all_needed_the_dearest_stays() -> None:
    """The first three in order make room; one of the two smaller ones is not needed, and the larger of them stays."""
    world = scene(
        {"n0": "cpu=6"},
        gang("a", Pod("v0", "cpu=1", on="n0"), minimum=1, created=9),
        gang("b", Pod("v1", "cpu=2", on="n0"), minimum=1, created=8),
        gang("c", Pod("v2", "cpu=3", on="n0"), minimum=1, created=7),
        gang("high", Pod("p", "cpu=4"), priority=9),
    )

    assert {"default/v0", "default/v2"} == once(world, profile_of("gangpreempt")).victims


def test_of_gangs_that_are_nearly_as_efficient_the_younger_go() -> None:
    """All cost the same, and the oldest frees a little more of it here: too little to count against its age."""
    young = [gang(n, Pod(f"{n}0", "cpu=40", on="n0"), Pod(f"{n}1", on="n1"), minimum=2, created=9) for n in ("b", "c")]
    world = racks(
        {"n0": "cpu=121", "n1": "cpu=2"},
        gang("a", Pod("a0", "cpu=41", on="n0"), minimum=1, created=1),
        *young,
        gang("high", Pod("p", "cpu=80"), priority=9, within=1),
    )

    assert {"default/b0", "default/c0"} == once(world, profile_of("gangpreempt")).victims & {
        f"default/{n}0" for n in "abc"
    }


def test_one_gang_is_broken_where_two_would_cost_more() -> None:
    """Two gangs are each more efficient than the third, which alone costs less than both."""
    world = scene(
        {"n0": "cpu=24", "n1": "cpu=2"},
        gang("a", Pod("v0", "cpu=7", on="n0"), minimum=1),
        gang("b", Pod("v1", "cpu=7", on="n0"), minimum=1),
        gang("c", Pod("v2", "cpu=10", on="n0"), Pod("v3", "cpu=2", on="n1"), minimum=2),
        gang("high", Pod("p", "cpu=10"), priority=9),
    )

    assert {"default/v2"} <= once(world, profile_of("gangpreempt")).victims <= {"default/v2", "default/v3"}


def test_of_equal_plans_the_tightest_domain() -> None:
    """Two pods of one rack go for a gang of two, not one pod in each of two racks."""
    world = Scene(
        {"s0": ("r0", "r1")},
        {"r0": ("n0", "n1"), "r1": ("n2", "n3")},
        dict.fromkeys(("n0", "n1", "n2", "n3"), "cpu=1"),
        (),
        (
            *(gang(f"g{i}", Pod(f"v{i}", on=f"n{i}"), minimum=0, created=9 if i in (0, 2) else 1) for i in range(4)),
            gang("high", Pod("p0"), Pod("p1"), minimum=2, priority=9, within=2),
        ),
    )

    assert {"default/v0", "default/v1"} == once(world, profile_of("gangpreempt")).victims


def test_a_gang_that_must_stay_uses_up_nothing() -> None:
    """Half of the first gang is more than its queue may lose: it stays whole, and the second gang goes."""
    queues = (Queue("q0", deserved="cpu=3"), Queue("q1", deserved="cpu=9"))
    world = scene(
        {"n0": "cpu=4"},
        gang("a", Pod("v0", on="n0"), Pod("v1", on="n0"), minimum=2, queue="q0"),
        gang("b", Pod("v2", "cpu=2", on="n0"), minimum=1, queue="q0", priority=1),
        gang("taker", Pod("p"), queue="q1"),
        queues=queues,
    )

    assert {"default/v2"} == once(world, profile_of("gangreclaim", quota="capacity")).victims


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_a_queue_that_is_not_reclaimable_loses_nobody(action: str) -> None:
    """Also where no plugin counts what queues have."""
    pods = (Pod("v0", on="n0"), Pod("v1", on="n0"))
    kept, lent = (
        scene(
            {"n0": "cpu=2"},
            gang("low", *pods, minimum=1, queue="q0"),
            gang("taker", Pod("p"), queue="q1", priority=9),
            queues=(Queue("q0", reclaimable=reclaimable), Queue("q1")),
        )
        for reclaimable in (False, True)
    )

    assert (0, 1) == (len(once(kept, profile_of(action)).victims), len(once(lent, profile_of(action)).victims))


# -- several preemptors and several actions


def test_the_remainder_of_a_gang_goes_once() -> None:
    """The first preemptor takes the pod that a gang can spare, the second breaks it: nobody is evicted twice."""
    pods = [Pod(f"v{i}", on=f"n{i}") for i in range(3)]
    world = racks(
        {"n0": "cpu=1", "n1": "cpu=1", "n2": "cpu=1"},
        gang("low", *pods, minimum=2),
        gang("a", Pod("p0"), priority=9, within=1),
        gang("b", Pod("p1"), priority=8, within=1),
    )
    told = once(world, profile_of("gangpreempt", arguments={"evictRemainder": True}))

    assert ["default/v0", "default/v1", "default/v2"] == sorted(entry["pod"] for entry in told.evictions)


@pytest.mark.parametrize("second", ["preempt", "gangpreempt", "jobpreempt", "podpreempt"])
@pytest.mark.parametrize("first", ["preempt", "gangpreempt", "jobpreempt", "podpreempt"])
def test_a_second_action_evicts_nobody_again(first: str, second: str) -> None:
    """Whoever went for one preemptor is gone for the next, also in an action after it, where no gang is a shield."""
    world = scene(
        {"n0": "cpu=1"},
        gang("low", Pod("v", on="n0"), minimum=0),
        gang("a", Pod("p0"), priority=9),
        gang("b", Pod("p1"), priority=8),
    )
    told = once(world, switched(profile_of(f"{first} {second}"), "Preemptable", "gang"))

    assert [("default/v", "default/a")] == [(entry["pod"], entry["by"]) for entry in told.evictions]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_tried_in_vain_is_tried_again_after_an_eviction(at_once: bool) -> None:
    """A pod of one quota may evict nobody; its like fits beside a pod of another quota that evicted for itself."""
    hall = [*nodes("n0"), quota("a", most=8), quota("b", most=8), worker("v", quota="b", on="n0", gpu=8)]
    pods = [worker(f"p{i}", quota=name, gpu=4, priority=9) for i, name in enumerate("aba")]
    outcome = settle(hall, pods, profile=replace(koordinator(), immediate_preemption=at_once), cycles=1)

    assert (["v"], {"p1": "n0", "p2": "n0"}) == (outcome.evicted, outcome.nominated)


# -- preempt and reclaim, node by node


def test_whoever_is_not_needed_on_a_node_stays() -> None:
    """The first in order is too small, and not needed once the second goes."""
    world = scene(
        {"n0": "cpu=4"},
        gang("a", Pod("v0", on="n0"), minimum=0, created=9),
        gang("b", Pod("v1", "cpu=3", on="n0"), minimum=0, created=1),
        gang("high", Pod("p", "cpu=3"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("preempt")).victims


def test_the_one_pod_to_spare_goes_where_that_is_enough() -> None:
    """The younger pod of the gang would go first, but beside it stands one that nobody may evict."""
    pods = (Pod("v0", on="n0", created=9), Pod("v1", "cpu=2", on="n1", created=1))
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=2"},
        gang("low", *pods, minimum=1),
        gang("whole", Pod("w", on="n0"), minimum=1),
        gang("high", Pod("p", "cpu=2"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("preempt")).victims


def test_the_one_pod_that_a_share_can_do_without_goes_where_that_is_enough() -> None:
    """Of two pods the gang may lose either and keep as much as the preemptor gets: the first in order does not help."""
    kept = Pod("v2", on="n2", mark="kept")
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=2", "n2": "cpu=1"},
        gang("low", Pod("v0", on="n0", created=9), Pod("v1", "cpu=2", on="n1", created=1), kept, minimum=0),
        gang("whole", Pod("w", on="n0"), minimum=1),
        gang("high", Pod("p", "cpu=2"), priority=9),
    )

    assert {"default/v1"} == once(world, profile_of("preempt", quota="drf")).victims


def test_a_free_node_comes_first_where_eviction_does() -> None:
    """A profile may preempt before it allocates: nobody goes while a node is free."""
    world = scene(
        {"n0": "cpu=1", "n1": "cpu=1"}, gang("low", Pod("v", on="n0"), minimum=0), gang("high", Pod("p"), priority=9)
    )
    told = once(world, replace(profile_of("preempt"), actions=("enqueue", "preempt", "allocate")))

    assert (set(), {"default/p": "n1"}) == (told.victims, told.wire["bindings"])


def test_preempt_breaks_no_gang_that_was_just_given_more() -> None:
    """A gang that was given a pod beyond its minimum may lose one for it, and not two."""
    pods = (Pod("v0", on="n0"), Pod("v1", on="n0"), Pod("v2"))
    world = scene(
        {"n0": "cpu=2", "n1": "cpu=1"}, gang("low", *pods, minimum=2), gang("high", Pod("p", "cpu=2"), priority=9)
    )
    told = once(world, switched(profile_of("preempt"), "Preemptable", "gang"))

    assert ({"default/v2"}, set()) == (set(told.wire["bindings"]), told.victims)


def test_a_budget_is_left_for_whoever_makes_room() -> None:
    """The first in order is too small, and the budget lets one pod go: it is the other one."""
    pods = (Pod("v0", on="n0", created=9), Pod("v1", "cpu=2", on="n0", created=1))
    world = scene(
        {"n0": "cpu=3"},
        gang("low", *pods, minimum=0),
        gang("high", Pod("p", "cpu=2"), priority=9),
        budgets=(Budget("low", 1),),
    )

    assert {"default/v1"} == once(world, profile_of("preempt", budgets=True)).victims


# -- pods that fall one by one


def test_negative_priorities_do_not_make_victims_cheap() -> None:
    """Of nodes with the same highest priority the one with fewer victims is cleared, whatever the others' priority."""
    standing = [worker("a0", on="n0", gpu=4, priority=5), worker("a1", on="n0", gpu=4, priority=-3)]
    standing += [worker("b0", on="n1", gpu=8, priority=5)]

    assert ["b0"] == settle(nodes("n0 n1"), standing, [worker("j", gpu=8, priority=9)], profile=DEFAULTS).evicted


def test_a_budget_counts_for_each_node_by_itself() -> None:
    """Either node may lose its pod within the budget: the less important of both goes."""
    standing = [labelled(worker("a", on="n0", gpu=8, priority=5), app="x")]
    standing += [labelled(worker("b", on="n1", gpu=8, priority=3), app="x"), budget("x", allows=1, app="x")]

    assert ["b"] == settle(nodes("n0 n1"), standing, [worker("j", gpu=8, priority=9)], profile=DEFAULTS).evicted


def test_fewer_evictions_count_before_budgets_for_jobs() -> None:
    """Koordinator's jobs evict one pod beyond its budget rather than two others."""
    standing = [labelled(worker("a", on="n0", gpu=8), app="x"), budget("x", allows=0, app="x")]
    standing += [worker("b0", on="n1", gpu=4), worker("b1", on="n1", gpu=4)]

    assert ["a"] == settle(nodes("n0 n1"), standing, [worker("j", gpu=8, priority=9)], profile=jobs.JOBS).evicted


def test_pods_of_one_owner_cost_as_one() -> None:
    """Two blocks would each lose two pods of one priority: those of one owner go."""
    world = drawn.cluster({"s0": {"b0": "n0", "b1": "n1", "b2": "n2"}}, cpu=2)
    group, *apart = jobs.gang("a", 2, on="n0 n0", priority=1)
    other, *together = jobs.gang("b", 2, on="n1 n1", priority=1)
    owned = [jobs.marked(pod, {jobs.OWNER: owner}) for pod, owner in zip((*apart, *together), "xyzz", strict=True)]
    least, most = jobs.gang("c", 1, on="n2"), jobs.gang("d", 1, on="n2", priority=99)
    job = jobs.gang("j", 2, priority=9, must="BlockLayer")

    assert ["b-0", "b-1"] == settle(world, [group, other, *owned], least, most, job, profile=jobs.JOBS).evicted


def test_of_equal_choices_the_first_node_gives_the_most() -> None:
    """Two pods of the first node go, not one of each."""
    standing = [worker("a0", on="n0", gpu=4), worker("a1", on="n0", gpu=4), worker("b0", on="n1", gpu=4)]
    standing += [worker("top", on="n1", gpu=4, priority=99)]
    job = jobs.plain("j", 2, gpu=4, priority=9)

    assert ["a0", "a1"] == settle(nodes("n0 n1"), standing, job, profile=jobs.JOBS).evicted


def test_multiples_count_what_stands() -> None:
    """One of two runs: the other makes the node's pair whole, and a pod there goes for it."""
    world = drawn.cluster({"s0": {"b0": "n0 n1"}}, cpu=2)
    job = jobs.gang("j", 2, priority=9, on="n0", multiples={"NodeTopologyLayer": 2})
    outcome = settle(world, jobs.gang("a", 1, on="n0"), job, profile=jobs.JOBS)

    assert (["a-0"], {"j-1": "n0"}) == (outcome.evicted, outcome.bound)
