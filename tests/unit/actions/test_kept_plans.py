"""A plan that is kept from one preemptor to the next is made anew where anything that it follows from has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.evict_world import Gang, Pod, Queue, Scene, manifests, objects, profile_of

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.bundle import Bundles
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import (
    Arguments,
    CycleView,
    Factory,
    Preemptor,
    Purpose,
    Quota,
    VictimFilter,
    VictimSelector,
)
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Reason
from tierwise.plugins import PLUGINS
from tierwise.port import key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

NOW = 100_000.0
HIGH = 9


def racks(*gangs: Gang, capability: str = "", **nodes: str) -> Scene:
    """A rack for each node."""
    names = {f"r{node[1:]}": (node,) for node in nodes}
    return Scene({"s0": tuple(names)}, names, nodes, (Queue("default", capability=capability),), gangs)


def runs(name: str, *on: str, asks: str = "cpu=1", minimum: int = 0, **rest: Any) -> Gang:
    """A gang that runs on these nodes, which needs all of its pods where no minimum is given."""
    pods = tuple(Pod(f"{name}-{i}", asks, on=node) for i, node in enumerate(on))
    return Gang(name, pods, minimum or len(pods), **rest)


def waits(name: str, *asks: str, order: int, priority: int = HIGH, **rest: Any) -> Gang:
    """A gang that waits and matters more, in its turn, and must be in one rack."""
    pods = tuple(Pod(f"{name}-{i}", each, priority=priority) for i, each in enumerate(asks))
    return Gang(name, pods, len(pods), priority=priority, created=order, **{"within": 1, **rest})


def evicting(*plugins: str | PluginChoice, action: str = "gangpreempt", quota: str = "") -> Profile:
    """A profile that does nothing but evict, with plugins besides."""
    made = profile_of(action, quota=quota)
    chosen = tuple(PluginChoice(one) if isinstance(one, str) else one for one in plugins)
    return replace(made, actions=("enqueue", action), tiers=(*made.tiers, chosen))


def told(scene: Scene, profile: Profile, *more: Raw, **plugins: Factory) -> tuple[set[str], set[str]]:
    """Who goes, and which jobs are placed, in one cycle; names are without their namespace."""
    world = objects(scene).changed({key_of_raw(raw): raw for raw in more})
    report = cycle(build(world, NOW, profile), profile, plugins={**PLUGINS, **plugins})
    victims = {eviction.task.key.partition("/")[2] for eviction in report.evictions}
    return victims, {decision.job.key.partition("/")[2] for decision in report.decisions}


FIRST, SECOND = waits("first", "cpu=1", order=1), waits("second", "cpu=1", order=2)
BOTH = {"first", "second"}


def test_room_that_was_taken_in_another_rack_is_gone() -> None:
    """The first gang stands in two racks and takes what is free in the second of them: the next has more to evict."""
    nodes = {"n0": "cpu=2", "n1": "cpu=4", "n2": "cpu=1"}
    b = Gang("b", (Pod("b-0", "cpu=2", on="n1"), Pod("b-1", on="n2")), 2)
    hungry = [waits(name, *["cpu=1"] * 3, order=i, within=2 - i) for i, name in enumerate(("first", "second"))]
    scene = racks(runs("a", "n0", asks="cpu=2"), b, runs("c", "n1"), *hungry, **nodes)
    victims, placed = told(replace(scene, spines={"s0": ("r0", "r1"), "s1": ("r2",)}), evicting())

    assert ({"a-0", "b-0", "c-0"}, BOTH) == (victims, placed)


def test_a_role_that_lost_its_surplus_in_another_rack_keeps_the_rest() -> None:
    """Of two workers of which one must stay the first preemptor takes one, and the second breaks the smaller gang."""
    wide = runs("wide", "n0", "n1", "n2", "n2", minimum=2)
    pods = tuple(replace(pod, role="worker" if i < 2 else "chief") for i, pod in enumerate(wide.pods))
    wide = replace(wide, pods=pods, roles={"worker": 1, "chief": 1})
    scene = racks(wide, runs("small", "n3"), FIRST, SECOND, n0="cpu=1", n1="cpu=1", n2="cpu=2 pods=2", n3="cpu=1")

    victims, placed = told(scene, evicting())
    assert placed == BOTH
    assert not {"wide-0", "wide-1"} <= victims


def test_a_budget_that_was_used_up_in_another_rack_protects() -> None:
    """One budget over two gangs lets one of them go; the second preemptor breaks a gang that matters more."""
    low = [runs(name, node, node) for name, node in (("a", "n0"), ("b", "n1"))]
    low = [replace(gang, pods=tuple(replace(pod, part="x") for pod in gang.pods)) for gang in low]
    budget: Raw = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "both", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"part": "x"}}},
        "status": {"disruptionsAllowed": 3},
    }
    hungry = [waits(name, "cpu=2", order=i) for i, name in enumerate(("first", "second"))]
    scene = racks(*low, runs("c", "n2", "n2", priority=1), *hungry, n0="cpu=2", n1="cpu=2", n2="cpu=2")

    assert ({"a-0", "a-1", "c-0", "c-1"}, BOTH) == told(scene, evicting(), budget)


def test_a_gang_of_another_size_has_plans_of_its_own() -> None:
    """The second gang needs two pods to go."""
    scene = racks(
        *(runs(name, f"n{i // 2}") for i, name in enumerate("abcd")),
        FIRST,
        waits("second", "cpu=1", "cpu=1", order=2),
        n0="cpu=2",
        n1="cpu=2",
    )
    victims, placed = told(scene, evicting())

    assert ({"c-0", "d-0"}, BOTH) == (victims - {"a-0", "b-0"}, placed)


def test_a_gang_of_parts_has_plans_of_its_own() -> None:
    """Each half of the second gang is as the first gang, and it needs twice as many pods to go."""
    second = waits("second", *["cpu=1"] * 4, order=2, within=2, size=2, whole=2, inner=1)
    second = replace(second, pods=tuple(replace(pod, part=str(i // 2)) for i, pod in enumerate(second.pods)))
    scene = racks(
        *(runs(f"v{i}", f"n{i // 2}") for i in range(8)),
        waits("first", "cpu=1", "cpu=1", order=1, within=2),
        second,
        **{f"n{i}": "cpu=2" for i in range(4)},
    )
    victims, placed = told(replace(scene, spines={"s0": ("r0", "r1"), "s1": ("r2", "r3")}), evicting())

    assert ({"v4-0", "v5-0", "v6-0", "v7-0"}, BOTH) == (victims - {"v0-0", "v1-0"}, placed)


def test_gangs_with_a_choice_of_pods_have_plans_of_their_own() -> None:
    """One pod of two is enough for each of them, and the pods of the second ask for more kinds of resources."""
    first = replace(waits("first", "cpu=1", "cpu=2", order=1), minimum=1)
    second = replace(waits("second", "cpu=1 gpu=1", "cpu=2 gpu=1", order=2), minimum=1)
    scene = racks(runs("a", "n0"), runs("b", "n1"), first, second, n0="cpu=1 gpu=4", n1="cpu=1 gpu=4")

    assert ({"a-0", "b-0"}, BOTH) == told(scene, evicting())


@pytest.mark.parametrize("promised", [True, False])
def test_a_queue_that_holds_more_lets_more_go(promised: bool) -> None:
    """The queue may hold five cpus and holds five once the first gang is placed: for the second two must go."""
    ours = "cap"
    scene = racks(
        runs("a", "n0"),
        runs("b", "n1"),
        runs("c", "n1"),
        runs("d", "n2", priority=HIGH),
        waits("first", "cpu=2", order=1),
        waits("second", "cpu=2", order=2),
        capability="cpu=5" if promised else "",
        n0="cpu=3",
        n1="cpu=4",
        n2="cpu=1",
    )

    @takes_part(Quota)
    class Own:
        """Does not say what it reads."""

        def __init__(self, _: Arguments, view: CycleView) -> None:
            self._used, self._cpu = view.ledger.queue_used, view.axis.index["cpu"]
            self._column = view.ledger.queue_index["default"]

        def quota_exceeded(self, _job: Job, amounts: Ints) -> Reason | None:
            would = int(self._used[self._cpu, self._column] + amounts[self._cpu])
            return Reason("TooMuch", "cap", "too much") if would > 5000 else None

    profile = evicting() if promised else evicting(ours)

    assert ({"a-0", "b-0", "c-0"}, BOTH) == told(scene, profile, cap=Own)


def test_a_queue_that_is_full_by_now_lets_more_go() -> None:
    """The first gang keeps within the capability; for the second one more goes than there must for its room."""
    scene = racks(
        runs("a", "n0"),
        runs("b", "n1"),
        runs("c", "n1"),
        *(waits(name, "cpu=3", order=i) for i, name in enumerate(("first", "second"))),
        capability="cpu=6",
        n0="cpu=3",
        n1="cpu=4",
    )

    assert ({"a-0", "b-0", "c-0"}, BOTH) == told(scene, evicting())


def test_reclaim_asks_anew_whom_queues_may_lose() -> None:
    """The queue holds what it deserves once the first gang has taken a pod: the second gets none."""
    queues = (Queue("q0", deserved="cpu=1"), Queue("q1", deserved="cpu=3"))
    running = [runs(name, f"n{i}", queue="q0") for i, name in enumerate("ab")]
    hungry = [replace(gang, queue="q1") for gang in (FIRST, SECOND)]
    scene = replace(racks(*running, *hungry, n0="cpu=1", n1="cpu=1"), queues=queues)

    assert ({"a-0"}, {"first"}) == told(scene, evicting(action="gangreclaim", quota="capacity"))


def test_what_a_preemptor_holds_counts_for_shares() -> None:
    """The first gang runs in part and would hold more than those who run; the second would not."""
    half = Gang(
        "first",
        (
            *(Pod(f"first-{i}", on="n0", priority=HIGH) for i in range(2)),
            *(Pod(f"first-{i}", priority=HIGH) for i in (2, 3)),
        ),
        4,
        priority=HIGH,
    )
    second = waits("second", "cpu=1", "cpu=1", order=2, within=None)
    scene = racks(
        runs("a", "n0", "n0", "n0", "n0", minimum=2), runs("b", "n0", "n0", "n0", "n0"), half, second, n0="cpu=10"
    )
    victims, placed = told(scene, evicting("drf"))

    assert placed == {"second"}
    assert victims


def test_a_gang_that_gains_less_finds_losses_dearer() -> None:
    """The second gang runs for so short a time that a larger gang which has just begun is cheaper than its like that
    has run for long.
    """
    scene = racks(
        runs("a", "n0"),
        runs("b", "n1"),
        runs("c", "n2", "n3"),
        FIRST,
        SECOND,
        n0="cpu=1",
        n1="cpu=1",
        n2="cpu=1",
        n3="cpu=1",
    )
    more: list[Any] = manifests(scene)
    for raw in more:
        name = raw["metadata"]["name"]
        if raw["kind"] == "Pod" and raw["spec"].get("nodeName"):
            raw["status"]["startTime"] = format_time(NOW - (1000 if name == "b-0" else 0))
        if name == "second":
            raw["metadata"]["annotations"]["tierwise.io/expected-duration"] = "10m"
    victims, placed = told(scene, evicting(PluginChoice("eviction-cost", {"decline": False})), *more)

    assert (BOTH, 2) == (placed, len(victims))
    assert "b-0" not in victims


def test_costs_are_counted_in_what_is_short_by_now() -> None:
    """Once the only rack without cpu is taken, gangs are weighed by their gpus alone."""
    hungry = [waits(name, "cpu=2 gpu=2", order=i) for i, name in enumerate(("first", "second"))]
    running = [runs("x", "n1", asks="cpu=3 gpu=3"), runs("y", "n2", asks="cpu=1 gpu=4")]
    nodes = {"n0": "cpu=2 gpu=4", "n1": "cpu=8 gpu=3", "n2": "cpu=8 gpu=4", "n3": "cpu=2"}
    scene = racks(runs("z", "n0", "n3", asks="cpu=2"), *running, *hungry, **nodes)

    assert ({"z-0", "x-0"}, BOTH) == told(scene, evicting())


def test_plugins_of_another_scheduler_are_asked_about_its_gangs() -> None:
    """A plugin for the gangs of one scheduler protects everybody from them, whatever the gang before could do."""
    second = replace(waits("second", "cpu=1", "cpu=1", order=2), minimum=1)
    scene = racks(runs("a", "n0"), runs("b", "n1"), FIRST, second, n0="cpu=1", n1="cpu=1")
    every: list[Any] = manifests(scene)
    gated = next(raw for raw in every if raw["metadata"]["name"] == "second-0")  # the first pod says whose job it is
    gated["spec"] |= {"schedulerName": "own", "schedulingGates": [{"name": "site"}]}
    site = PluginChoice("site", scheduler="own")
    chosen = replace(evicting(site), schedulers=("volcano", "own"))

    assert ({"a-0"}, {"first"}) == told(scene, chosen, gated, site=Important)


@takes_part(VictimFilter, by_amounts=True)
class Important:
    """Protects everybody from all but one priority, and says that it reads no more."""

    answers = frozenset[Purpose]()
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return np.full(len(victims), preemptor.job.priority == HIGH)


@takes_part(VictimFilter)
class Named:
    """Protects everybody from one job, by its name."""

    answers = frozenset[Purpose]()
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return np.full(len(victims), preemptor.job.key == "default/first")


@takes_part(VictimSelector)
class Selected:
    """Selects nobody for one job, by its name."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def select_victims(self, preemptor: Preemptor, bundles: Bundles) -> Ints | None:
        return np.arange(0 if preemptor.job.key == "default/first" else len(bundles))


@pytest.mark.parametrize("site", [Important, Named, Selected])
def test_plugins_that_tell_preemptors_apart_are_asked_for_each(site: Factory) -> None:
    """What a plugin says of one gang does not hold for the next, of another priority or where it promises nothing."""
    second = waits("second", "cpu=1", order=2)
    second = replace(second, priority=HIGH - 1) if site is Important else second
    scene = racks(runs("a", "n0"), FIRST, second, n0="cpu=1")

    assert ({"a-0"}, {"second"}) == told(scene, evicting("site"), site=site)
