"""Disruption budgets and marks protect what a queue deserves, and nothing that it has borrowed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.evict_world import Budget, Gang, Pod, Queue, Scene, Told, once, profile_of

from tierwise.config.profile import Profile

RECLAIMING = ("reclaim", "gangreclaim")
QUEUES = (Queue("q0", deserved="cpu=1"), Queue("q1", deserved="cpu=1"))


def scene(*gangs: Gang, queues: tuple[Queue, ...] = QUEUES, budgets: tuple[Budget, ...] = ()) -> Scene:
    """Two nodes in one rack, with room for two pods in all."""
    nodes = {"n0": "cpu=1", "n1": "cpu=1"}
    return Scene({"s0": ("r0",)}, {"r0": tuple(nodes)}, nodes, queues, gangs, budgets)


def rich(*, namespace: str = "default", priority: int = 0, kept: bool = False) -> Gang:
    """Two pods of queue q0 that fill the cluster."""
    pods = tuple(Pod(f"v{i}", on=f"n{i}", priority=priority) for i in range(2))
    return Gang("rich", pods, 1, "q0", priority, namespace=namespace, kept=kept)


def poor(*, pods: int = 1, queue: str = "q1", priority: int = 9) -> Gang:
    """A gang that waits for room."""
    wanted = tuple(Pod(f"p{i}", priority=priority) for i in range(pods))
    return Gang("poor", wanted, pods, queue, priority)


@pytest.mark.parametrize("action", RECLAIMING)
@pytest.mark.parametrize("quota", ["capacity", "proportion"])
def test_budgets_protect_no_more_than_the_queue_deserves(action: str, quota: str) -> None:
    """A budget for no disruption loses the one pod that its queue has borrowed, and keeps the other."""
    world = scene(rich(), poor(), budgets=(Budget("rich", 0),))

    assert 1 == len(once(world, profile_of(action, quota=quota)).victims)


@pytest.mark.parametrize("action", RECLAIMING)
@pytest.mark.parametrize("quota", ["capacity", "proportion"])
def test_marks_protect_no_more_than_the_queue_deserves(action: str, quota: str) -> None:
    """A marked gang loses the one pod that its queue has borrowed, and keeps the other."""
    world = scene(rich(kept=True), poor())

    assert 1 == len(once(world, profile_of(action, quota=quota)).victims)


@pytest.mark.parametrize("action", RECLAIMING)
def test_what_a_queue_deserves_stays_protected(action: str) -> None:
    """Nothing of it is borrowed, so the mark holds and the message says so."""
    queues = (Queue("q0", deserved="cpu=2"), Queue("q1", deserved="cpu=2"))
    told = once(scene(rich(kept=True), poor(), queues=queues), profile_of(action, quota="capacity"))

    assert set() == told.victims


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize("namespace", ["default", "other"])
def test_inside_a_queue_other_namespaces_are_other_tenants(action: str, namespace: str) -> None:
    """A more important job of another namespace gets what the queue has borrowed; a namespace keeps its own marks."""
    world = scene(rich(namespace=namespace, kept=True), poor(queue="q0"))

    assert (namespace == "other") == bool(once(world, profile_of(action, quota="capacity")).victims)


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_a_queue_that_names_nothing_has_borrowed_nothing(action: str) -> None:
    """Marks hold inside it, whatever it holds."""
    world = scene(rich(namespace="other", kept=True), poor(queue="q0"), queues=(Queue("q0"), Queue("q1")))

    assert set() == once(world, profile_of(action, quota="capacity")).victims


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "podpreempt", "jobpreempt"])
@pytest.mark.parametrize(("gap", "goes"), [(0, False), (9, True), (10, False)])
def test_protection_ends_at_a_difference_of_priority(action: str, gap: int, goes: bool) -> None:
    """A job of priority 9 evicts a marked pod of priority 0 where the profile names a difference of 9 or less."""
    world = scene(rich(kept=True), poor(queue="q0"))
    profile = replace(profile_of(action), protection_gap=gap)

    assert goes == bool(once(world, profile).victims)


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize(("gap", "goes"), [(0, False), (9, True), (10, False)])
def test_budgets_end_at_a_difference_of_priority(action: str, gap: int, goes: bool) -> None:
    """As marks do."""
    world = scene(rich(), poor(queue="q0"), budgets=(Budget("rich", 0),))
    profile = replace(profile_of(action), protection_gap=gap)

    assert goes == bool(once(world, profile).victims)


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_pods_under_two_budgets_are_no_victims_inside_of_what_is_deserved(action: str) -> None:
    """The Eviction API would answer with an error, though both budgets allow a disruption."""
    one, two = Budget("rich", 1), Budget("rich", 2)

    assert 1 == len(once(scene(rich(), poor(queue="q0"), budgets=(one,)), profile_of(action)).victims)
    assert set() == once(scene(rich(), poor(queue="q0"), budgets=(one, two)), profile_of(action)).victims


@pytest.mark.parametrize("action", RECLAIMING)
@pytest.mark.parametrize(("allowed", "past"), [((0,), True), ((1,), False), ((1, 2), True)])
def test_past_a_budget_pods_are_deleted(action: str, allowed: tuple[int, ...], past: bool) -> None:
    """The Eviction API would refuse what a budget forbids, and what two budgets cover."""
    world = scene(rich(), poor(), budgets=tuple(Budget("rich", number) for number in allowed))

    assert [past] == _past_budgets(once(world, profile_of(action, quota="capacity")))


def test_kubernetes_preemption_deletes_past_a_budget() -> None:
    """Podpreempt breaks a budget where nothing else makes room, and the Eviction API would refuse that."""
    world = scene(rich(), poor(), budgets=(Budget("rich", 0),))

    assert [True] == _past_budgets(once(world, _kubernetes()))


def _kubernetes() -> Profile:
    return profile_of("podpreempt")


def _past_budgets(told: Told) -> list[bool]:
    return [eviction.past_budgets for eviction in told.report.evictions]
