"""What a cycle keeps count of while jobs follow each other: room that is kept, quotas, roles, and who is asked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import allocate, draw, gang, role
from tests.support.evict_world import Budget, Pod, Queue, once, profile_of
from tests.unit.actions.test_eviction_orders import SAFELY
from tests.unit.actions.test_eviction_rules import gang as evicted
from tests.unit.actions.test_eviction_rules import scene, switched

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.port import Bind, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build


def nominated(manifests: list[Raw], node: str) -> list[Raw]:
    """A gang whose pods are nominated to a node."""
    group, *pods = manifests
    return [group, *(pod | {"status": {"phase": "Pending", "nominatedNodeName": node}} for pod in pods)]


def bound(*manifests: Raw) -> dict[str, str]:
    """Which pods one cycle binds where."""
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in manifests), now=0.0)
    return {e.pod.name: e.node for e in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(e, Bind)}


# -- room that is kept


def test_room_of_a_nomination_is_not_given_to_who_comes_first() -> None:
    """A gang that is served earlier leaves the idle node alone that is kept for another."""
    world = draw("r0[n0]", node="cpu=2")
    kept = nominated(gang("late", tasks=2, created=9).manifests(), "n0")

    assert {"late-0": "n0", "late-1": "n0"} == bound(*world.manifests, *kept, *gang("soon", tasks=2).manifests())


def test_room_that_a_nomination_gives_back_is_seen() -> None:
    """Who was refused for room kept for another does not speak for its like, once that room was given back."""
    world = draw("r0[n0]", node="cpu=2")
    group, first, second = gang("b", tasks=2, each="cpu=2", created=1).manifests()
    halved = [*nominated([group, first], "n0"), second]
    jobs = [*gang("a", tasks=2).manifests(), *gang("c", tasks=2, created=2).manifests()]

    assert {"c-0": "n0", "c-1": "n0"} == bound(*world.manifests, *halved, *jobs)


def test_a_slot_is_kept_for_a_best_effort_pod() -> None:
    """The only slot is kept for a nominated best-effort pod, and not given to another."""
    world = draw("r0[n0]", nodes={"n0": "cpu=2 pods=1"})
    kept = nominated(gang("z", tasks=1, each="", created=9).manifests(), "n0")

    assert {"z-0": "n0"} == bound(*world.manifests, *kept, *gang("a", tasks=1, each="").manifests())


def test_roles_count_while_they_wait() -> None:
    """A gang with role minimums is nominated to room that is being released."""
    world = draw("r0[n0]", node="cpu=2")
    leaving = gang("old", tasks=2, on="n0! n0!")
    roles = (role("a", 1, minimum=1), role("b", 1, minimum=1))

    assert {"g-a-0": "n0", "g-b-0": "n0"} == allocate(world, leaving, gang("g", roles=roles)).nominations


def test_a_nominated_gang_waits_for_its_room() -> None:
    """What is left of a gang that was nominated is not asked for again in the same cycle: it waits for the rest."""
    pods = (Pod("p0", "cpu=2", role="a"), Pod("p1", role="b"))
    world = scene(
        {"n0": "cpu=2"},
        evicted("low", Pod("v", "cpu=2", on="n0"), minimum=0),
        evicted("high", *pods, minimum=1, roles={"a": 1}, priority=9),
    )
    told = once(world, profile_of("gangpreempt allocate"))

    assert ({"default/p0": "n0"}, "WaitsForGang") == (
        told.wire["nominations"],
        told.report.rejections["default/high"].reason.code,
    )


def test_a_chief_is_made_room_for_beside_a_pod_that_asks_for_nothing() -> None:
    """The gang has as many pods as it needs once the best-effort one is counted, and still lacks its chief."""
    pods = (Pod("p0", "cpu=2", role="chief"), Pod("p1", "", role="log"))
    world = scene(
        {"n0": "cpu=2"},
        evicted("low", Pod("v", "cpu=2", on="n0"), minimum=0),
        evicted("high", *pods, minimum=1, roles={"chief": 1}, priority=9),
    )

    assert {"default/v"} == once(world, profile_of("gangpreempt allocate")).victims


# -- what is counted


def test_who_was_evicted_still_counts_for_its_queue() -> None:
    """Room of a queue that an evicted pod gives up is not used before that pod is gone."""
    world = scene(
        {"n0": "cpu=2 gpu=1", "n1": "cpu=2"},
        evicted("low", Pod("v", "cpu=2 gpu=1", on="n0"), minimum=0, queue="q"),
        evicted("high", Pod("p", "cpu=1 gpu=1"), priority=9, queue="q"),
        evicted("next", Pod("s", "cpu=2", never=True), priority=5, queue="q"),
        queues=(Queue("q", capability="cpu=3"),),
    )
    told = once(world, profile_of("gangpreempt allocate", quota="capacity"))

    assert ({"default/v"}, {}) == (told.victims, told.wire["bindings"])


def test_a_role_loses_its_pods_to_two_preemptors() -> None:
    """What the first takes of a role the second does not take again."""
    pods = [Pod("v0", on="n0", role="a", created=9), Pod("v1", on="n0", role="a", created=8)]
    pods += [Pod("w0", on="n0", role="b", created=7), Pod("w1", on="n0", role="b", created=6)]
    world = scene(
        {"n0": "cpu=4"},
        evicted("low", *pods, minimum=2, roles={"a": 1}),
        evicted("x", Pod("p0"), priority=9),
        evicted("y", Pod("p1"), priority=8),
    )

    assert {"default/v0", "default/w0"} == once(world, SAFELY).victims


def test_a_best_effort_pod_counts_once() -> None:
    """A gang whose best-effort pod has just started can spare one pod for it, and not two."""
    world = scene(
        {"n0": "cpu=2"},
        evicted("low", Pod("v0", on="n0"), Pod("v1", on="n0"), Pod("e", ""), minimum=2),
        evicted("high", Pod("p", "cpu=2"), priority=9),
    )
    order = ("enqueue", "allocate", "backfill", "gangpreempt")
    told = once(world, replace(SAFELY, actions=order))

    assert ({"default/e"}, set()) == (set(told.wire["bindings"]), told.victims)


# -- who is asked


def test_who_is_spared_anyway_uses_up_no_budget() -> None:
    """A system pod stays whatever the budget says: the one disruption that it allows is another's."""
    pods = (Pod("v0", on="n0", mark="critical", created=9), Pod("v1", on="n0", created=1))
    world = scene(
        {"n0": "cpu=2"},
        evicted("low", *pods, minimum=0),
        evicted("high", Pod("p"), priority=9),
        budgets=(Budget("low", 1),),
    )

    assert {"default/v1"} == once(world, profile_of("preempt", budgets=True)).victims


def test_a_plugin_that_has_no_say_names_no_victims() -> None:
    """Plugin priority decides about preemption alone: where no other answers, nobody is reclaimed."""
    world = scene(
        {"n0": "cpu=2"},
        evicted("low", Pod("v0", on="n0"), Pod("v1", on="n0"), minimum=1, queue="q0"),
        evicted("taker", Pod("p"), queue="q1", priority=9),
        queues=(Queue("q0"), Queue("q1")),
    )

    assert set() == once(world, switched(profile_of("gangreclaim"), "Reclaimable", "gang", "conformance")).victims


@pytest.mark.parametrize(("tiers", "let_in"), [("sla overcommit", False), ("sla / overcommit", True)])
def test_a_job_that_is_due_passes_the_gates_of_later_tiers(tiers: str, let_in: bool) -> None:
    """A permit ends the asking after its own tier, in which every objection holds."""
    plugins = tuple(tuple(map(PluginChoice, tier.split())) for tier in tiers.split("/"))
    group = gang("g", tasks=1).manifests()[0]
    spec, meta = group["spec"], group["metadata"]
    assert isinstance(spec, dict)
    assert isinstance(meta, dict)
    due = {"annotations": {"sla-waiting-time": "1s"}, "creationTimestamp": "1970-01-01T00:00:00Z"}
    group |= {"spec": spec | {"minResources": {"cpu": "100"}}, "status": {"phase": "Pending"}, "metadata": meta | due}
    raws = [*draw("r0[n0]", node="cpu=2").manifests, group]
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in raws), now=60.0)

    assert let_in is ("default/g" in cycle(snapshot, Profile(("enqueue",), plugins, {})).phases)
