"""Gangs that are as good to break as each other, but for little: importance and age decide, and `explain` agrees."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
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


@pytest.mark.parametrize("tree", [{"r0": ("n0", "n1")}, {"r0": ("n0",), "r1": ("n1",)}], ids=["one rack", "two racks"])
@pytest.mark.parametrize(("threshold", "victim"), [(0, "exact"), (0.02, "exact"), (0.03, "larger"), (0.05, "larger")])
def test_the_threshold_is_an_argument(tree: dict[str, tuple[str, ...]], threshold: float, victim: str) -> None:
    """Forty of 41 is 0.024 less than forty of forty: only where more than that counts as none, the younger goes."""
    gangs = _gang("exact", 40, "n0", created=1), _gang("larger", 41, "n1", created=2)
    profile = profile_of("gangpreempt")
    given = replace(profile, action_arguments={"gangpreempt": {"efficiencyThreshold": threshold}})

    assert {f"default/{victim}-0"} == once(_world(tree, *gangs, within=1), given).victims


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


def _full_racks(created: str, sizes: str = "1111", *, queue: str = "mine", **tight: object) -> Scene:
    """Two racks of two nodes, each full with one-pod jobs of these ages, and a gang of two that may use both racks."""
    racks = {"r0": ("n0", "n1"), "r1": ("n2", "n3")}
    ages = zip("abcd", created, sizes, strict=True)
    gangs = [_gang(name, int(size), f"n{i}", created=int(age), queue=queue) for i, (name, age, size) in enumerate(ages)]
    nodes = {f"n{i}": f"cpu={size}" for i, size in enumerate(sizes)}
    pair = (Pod("urgent-0", "cpu=1", priority=9), Pod("urgent-1", "cpu=1", priority=9))
    urgent = Gang("urgent", pair, 2, "mine", priority=9, within=2)
    queues = (Queue("mine", deserved="cpu=99"), Queue("theirs", deserved="cpu=1"))
    return Scene({"s0": tuple(racks)}, racks, nodes, queues, (*gangs, urgent))


@pytest.mark.parametrize(("action", "queue"), [("gangpreempt", "mine"), ("gangreclaim", "theirs")])
@pytest.mark.parametrize(("created", "victims"), [("1928", "cd"), ("2819", "ab"), ("1992", "cd")])
def test_the_tighter_domain_comes_before_age(action: str, queue: str, created: str, victims: str) -> None:
    """As many jobs of equal priority fall in one rack as in two; between the racks age decides."""
    told = once(_full_racks(created, queue=queue), profile_of(action, quota="capacity" if queue == "theirs" else ""))

    assert {f"default/{name}-0" for name in victims} == told.victims


def test_age_comes_before_the_tighter_domain_where_more_pods_fall() -> None:
    """A rack in which three pods would fall for the same room is no better than two racks in which two do."""
    racks = {"r0": ("n0", "n1"), "r1": ("n2", "n3")}
    nodes = dict.fromkeys(("n0", "n1", "n2", "n3"), "cpu=2")
    old = [
        Gang(name, tuple(Pod(f"{name}{i}", on=node) for i in range(2)), 2, "mine", created=1)
        for name, node in (("a", "n0"), ("d", "n3"))
    ]
    young = _gang("b", 2, "n1", created=5), _gang("c", 2, "n2", created=9)
    pair = (Pod("urgent-0", "cpu=2", priority=9), Pod("urgent-1", "cpu=2", priority=9))
    urgent = Gang("urgent", pair, 2, "mine", priority=9, within=2)

    told = once(
        Scene({"s0": tuple(racks)}, racks, nodes, (Queue("mine"),), (*old, *young, urgent)), profile_of("gangpreempt")
    )

    assert {"default/b-0", "default/c-0"} == told.victims


def test_surplus_elsewhere_in_a_domain_is_no_drawback() -> None:
    """A gang with a surplus that makes too little room is in one of two racks; still the younger jobs fall."""
    racks = {"r0": ("n0", "n1"), "r1": ("n2", "n3")}
    nodes = {"n0": "cpu=5", "n1": "cpu=4", "n2": "cpu=4", "n3": "cpu=4"}
    gangs = [
        _gang(name, 4, f"n{i}", created=age, queue="theirs")
        for i, (name, age) in enumerate(zip("abcd", (8, 9, 1, 2), strict=True))
    ]
    loose = Gang("loose", (Pod("loose-0", "cpu=1", on="n0"),), 0, "theirs", created=1)
    pair = (Pod("urgent-0", "cpu=4", priority=9), Pod("urgent-1", "cpu=4", priority=9))
    urgent = Gang("urgent", pair, 2, "mine", priority=9, within=1)
    queues = (Queue("mine", deserved="cpu=99"), Queue("theirs", deserved="cpu=1"))

    told = once(
        Scene({"s0": tuple(racks)}, racks, nodes, queues, (*gangs, loose, urgent)),
        profile_of("gangreclaim", quota="capacity"),
    )

    assert {"default/a-0", "default/b-0"} == told.victims
