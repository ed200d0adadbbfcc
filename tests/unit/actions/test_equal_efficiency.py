"""Gangs that are as good to break as each other, but for little: importance and age decide, and `explain` agrees."""

from __future__ import annotations

import pytest
from tests.support.evict_world import Gang, Pod, Queue, Scene, Told, once, profile_of


def _world(tree: dict[str, tuple[str, ...]], *others: Gang, within: int | None = None) -> Scene:
    """Full nodes, and a pod of forty cpus that waits."""
    pods = [pod for gang in others for pod in gang.pods]
    nodes = {pod.on: pod.asks for pod in pods}
    urgent = Gang("urgent", (Pod("urgent-0", "cpu=40", priority=9),), 1, "mine", priority=9, within=within)
    queues = (Queue("mine", deserved="cpu=99"), Queue("theirs", deserved="cpu=1"))
    return Scene({"s0": tuple(tree)}, tree, nodes, queues, (*others, urgent))


def _gang(name: str, cpu: int, on: str, *, created: int, queue: str = "mine", priority: int = 0) -> Gang:
    return Gang(
        name, (Pod(f"{name}-0", f"cpu={cpu}", on=on, priority=priority),), 1, queue, created=created, priority=priority
    )


def _taken(told: Told) -> list[int]:
    """How many pods each bundle of the domain lost, in the order that is shown."""
    return [note.taken for note in told.report.eviction_attempts["default/urgent"][-1].bundles]


@pytest.mark.parametrize("tree", [{"r0": ("n0", "n1")}, {"r0": ("n0",), "r1": ("n1",)}], ids=["one rack", "two racks"])
@pytest.mark.parametrize(("cpu", "victim"), [(41, "larger"), (42, "larger"), (43, "exact")])
def test_the_younger_goes_where_efficiency_differs_by_little(
    tree: dict[str, tuple[str, ...]], cpu: int, victim: str
) -> None:
    """Forty of 42 is 0.048 less than forty of forty, which counts as nothing; forty of 43 is 0.070 less."""
    gangs = _gang("exact", 40, "n0", created=1), _gang("larger", cpu, "n1", created=2)
    told = once(_world(tree, *gangs, within=1), profile_of("gangpreempt"))

    assert {f"default/{victim}-0"} == told.victims
    assert [1, 0][: len(_taken(told))] == _taken(told)


def test_the_less_important_goes_where_gangs_of_another_queue_are_alike() -> None:
    """For gangreclaim importance comes before age, and both after efficiency."""
    gangs = (
        _gang("exact", 40, "n0", created=9, queue="theirs", priority=5),
        _gang("larger", 41, "n1", created=1, queue="theirs", priority=1),
    )
    told = once(_world({"r0": ("n0", "n1")}, *gangs), profile_of("gangreclaim", quota="capacity"))

    assert {"default/larger-0"} == told.victims
    assert [1, 0] == _taken(told)


def test_small_differences_do_not_add_up() -> None:
    """Of 40, 42 and 44 the last is not as good as the first, however near the second is to both: it stays."""
    sizes = {"a": 40, "b": 42, "c": 44}
    gangs = [_gang(name, cpu, f"n{i}", created=i) for i, (name, cpu) in enumerate(sizes.items())]
    told = once(_world({"r0": ("n0", "n1", "n2")}, *gangs), profile_of("gangpreempt"))

    assert {"default/b-0"} == told.victims
