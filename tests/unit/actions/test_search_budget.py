"""The budget of searches: a small one cuts every search, and the refusal says so; a large one finds more."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import asdict, replace
from tests.support import devices, languages
from tests.support.affinity import ZONE, near, only_for, zoned
from tests.support.draw import draw, gang, groups, objects_of, role
from tests.support.drawn_gang import Gang, manifest
from tests.support.koordinator import cluster, hypernode
from tests.support.koordinator import gang as gathered
from tests.support.koordinator import objects_of as joined
from tests.support.koordinator import pod as gathered_pod
from tests.support.nested_oracle import ZONE as NEST_ZONE
from tests.support.nested_oracle import Leaf, Nest, Scene, kai

from tierwise.actions.eviction.gang import EvictionOptions, gang_evict
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.config.searches import STEPS, SearchBudget
from tierwise.explain.message import message
from tierwise.framework.extension import Purpose
from tierwise.model.job import Reason, Rejection, Verdict
from tierwise.port import Objects
from tierwise.scheduler import open_cycle
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import build

CUT = "the search stopped at its bound, so a place may exist"
Case = Callable[[], Objects]


def _profile(steps: int) -> Profile:
    return replace(DEFAULT, action_arguments={"allocate": {"searchSteps": steps}})


def _outcome(objects: Objects, steps: int) -> tuple[int, Rejection | None]:
    """How many pods are bound, and the only refusal."""
    history = schedule(objects, _profile(steps), now=0.0)
    assert history.report is not None
    return len(history.bindings), next(iter(history.report.rejections.values()), None)


def _sub_groups() -> Objects:
    world = draw("s0: r0[n0 n1] r1[n2 n3 n4]", node="cpu=1")
    sizes = (groups(1, 2, name="a", each="cpu=1", within=1), groups(1, 3, name="b", each="cpu=1", within=1))
    return objects_of(world, gang("g", within=2, groups=sizes))


def _sub_groups_of_two_shapes() -> Objects:
    world = draw("s0: r0[n0 n1] r1[n2 n3]", nodes={"n0": "cpu=6", "n1": "cpu=4", "n2": "cpu=4", "n3": "cpu=5"})
    parts = (groups(1, 3, name="a", each="cpu=3", within=1), groups(1, 2, name="b", each="cpu=4", within=2))
    return objects_of(world, gang("g", within=2, groups=parts))


def _choice_of_tasks() -> Objects:
    roles = (role("lead", 1, "cpu=5"), role("worker", 2, "cpu=3"))
    return objects_of(draw("r0[n0]", node="cpu=6"), gang("g", within=1, minimum=2, roles=roles))


def _nested() -> Objects:
    """Two groups of two in a zone, each of them in a spine."""
    pairs = tuple(
        Nest(name, (Leaf(f"{name}a", size, languages.RACK), Leaf(f"{name}b", 2, languages.RACK)), 2, languages.SPINE)
        for size, name in ((1, "x"), (2, "y"))
    )
    rooms = {"z0s0r0n0": 2, "z0s0r1n0": 2, "z0s1r0n0": 1, "z0s1r1n0": 2}
    places = {name: ((name[:2], name[:4], name[:6]), room) for name, room in rooms.items()}
    scene = Scene(places, Nest("g", pairs, 2, NEST_ZONE))
    return joined(scene.manifests(), kai(scene.gang))


def _quota() -> Objects:
    """The queue may have one pod of each role, and not two of one."""
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=3 gpu=1", "n1": "cpu=7"})
    queue = manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": "q"}, spec={"capability": {"cpu": "10"}})
    world = replace(world, manifests=(*world.manifests, queue))
    roles = (role("a", 2, "cpu=7"), role("b", 2, "cpu=3 gpu=1"))
    return objects_of(world, gang("g", minimum=2, queue="q", roles=roles))


def _several_trees() -> Objects:
    return _on_feeds(gang("g", 2, within=1))


def _several_trees_and_shapes() -> Objects:
    return _on_feeds(gang("g", within=1, roles=(role("a", 1, "cpu=1"), role("b", 1, "cpu=2"))))


def _on_feeds(drawn: Gang) -> Objects:
    """Racks and feeds cross: a rack has two nodes on each feed."""
    nodes: list[Raw] = list(draw("n0 n1 n2 n3 n4 n5 n6 n7", node="cpu=2").manifests)
    trees = ({"r0": "n0 n1 n2 n3", "r1": "n4 n5 n6 n7"}, {"p0": "n0 n1 n4 n5", "p1": "n2 n3 n6 n7"})
    for domains, labels in zip(trees, ({}, {"tierwise.io/fabric": "power"}), strict=True):
        for name, inside in domains.items():
            raw = hypernode(name, 1, [("Node", member) for member in inside.split()])
            nodes.append({**raw, "metadata": {"name": name, "labels": labels}})
    group, *pods = drawn.manifests()
    noted = {"tierwise.io/topology-constraints": json.dumps([{"fabric": "power", "tier": 1}])}
    meta = group["metadata"]
    assert isinstance(meta, dict)
    return joined(nodes, [{**group, "metadata": {**meta, "annotations": noted}}, *pods])


def _gathered() -> Objects:
    """Pods of two shapes in one block, where neither shape first leaves room for the other."""
    world = cluster({"s0": {"b0": " ".join(f"n{i}" for i in range(10))}}, cpu=10)
    group = gathered("g", 30, must="BlockLayer")[:1]
    return joined(world, group, [gathered_pod(f"g-{i}", of="g", cpu=4 if i < 10 else 3) for i in range(30)])


def _zones(number: int) -> Objects:
    """The leader fits beside its workers in the zone that is tried last."""
    names = [f"n{i:02}" for i in range(number)]
    world = draw(" ".join(names), node="cpu=4", nodes={names[-1]: "cpu=5"})
    roles = (role("alpha", 2, "cpu=2"), role("zeta", 1, "cpu=1"))
    whole = gang("g", roles=roles, labels={"g-zeta-0": {"app": "leader"}})
    return objects_of(world, only_for("alpha", whole, near(app="leader")))


def _confined() -> Objects:
    world = draw("r0[n0] r1[n1] r2[n2] r3[n3]", nodes={"n0": "cpu=4", "n1": "cpu=2", "n2": "cpu=4", "n3": "cpu=4"})
    world = zoned(world, {"n0": "a", "n1": "a", "n2": "b", "n3": "b"})
    labels = {f"g-part-{i}-{j}": {"app": "g"} for i in range(2) for j in range(2)}
    parts = (groups(2, 2, each="cpu=2", within=1, minimum=2),)
    return objects_of(world, gang("g", groups=parts, labels=labels, spec=near(ZONE, app="g")))


def _devices() -> Objects:
    one = devices.claim("c", devices.exactly(2), constraints=[{"matchAttribute": f"{devices.DRIVER}/numa"}])
    found = [devices.device(f"gpu-{i}", numa=i // 2) for i in range(4)]
    return devices.objects(
        devices.node("n0"), devices.resource_slice("n0", found), devices.device_class(), one, devices.pod("p", "c")
    )


CASES: dict[str, Case] = {
    "sub-groups": _sub_groups,
    "sub-groups of two shapes": _sub_groups_of_two_shapes,
    "choice of tasks": _choice_of_tasks,
    "nested": _nested,
    "places": lambda: _zones(3),
    "confined": _confined,
    "several trees": _several_trees,
    "several trees and shapes": _several_trees_and_shapes,
    "gathered": _gathered,
    "quota": _quota,
    "devices": _devices,
}


@pytest.mark.parametrize("case", CASES)
def test_a_small_budget_cuts_the_search_and_says_so(case: str) -> None:
    """What the default places waits, is told that a place may exist, and is not said never to fit."""
    objects = CASES[case]()

    found, _ = _outcome(objects, STEPS)
    cut, refused = _outcome(objects, 1)

    assert (True, 0) == (found > 0, cut)
    assert refused is not None
    assert refused.verdict is not Verdict.NEVER
    assert message(refused).endswith(CUT)


def test_a_small_budget_proves_less() -> None:
    """Three sizes of thirty pods are counted to the end by default, and not with a small budget."""
    roles = tuple(role(f"r{i}", 30, f"cpu={2 * i + 2}") for i in range(3))
    world = draw("r0[n0 n1 n2]", nodes={"n0": "cpu=121", "n1": "cpu=119", "n2": "cpu=120"})
    objects = objects_of(world, gang("g", within=1, roles=roles))

    _, proven = _outcome(objects, STEPS)
    _, cut = _outcome(objects, 1)

    assert proven is not None
    assert cut is not None
    assert (False, Verdict.NEVER) == (proven.bounded, proven.verdict)
    assert (True, Verdict.NOT_NOW) == (cut.bounded, cut.verdict)


@pytest.mark.parametrize(("steps", "found"), [(STEPS // 1000, 0), (STEPS, 3)])
def test_a_large_budget_finds_what_a_small_one_does_not(steps: int, found: int) -> None:
    """Of forty places the one that is tried last holds the gang."""
    bound, refused = _outcome(_zones(40), steps)

    assert found == bound
    assert (found == 0) == (refused is not None and refused.bounded)


@pytest.mark.parametrize(("idle", "gone"), [(True, 0), (False, 1)])
def test_nobody_is_evicted_while_idle_room_might_do(idle: bool, gone: int) -> None:
    """After a search that was cut short pods go only where it is proven otherwise that idle room is too small."""
    world = draw("n0 n1", node="cpu=4", running="" if idle else "n0:cpu=3")
    gangs = (gang("g", tasks=2, each="cpu=2", priority=9, phase="Inqueue"), gang("old", tasks=1, each="cpu=4", on="n1"))
    tiers = tuple(PluginChoice(name) for name in ("priority", "gang", "predicates"))
    profile = Profile(("enqueue", "allocate", "gangpreempt"), (tiers,))
    cycle = open_cycle(build(objects_of(world, *gangs), 0.0, profile), profile)
    (job,) = (job for job in cycle.snapshot.jobs if job.key == "default/g")
    cycle.report.reject(job, Rejection("fit", job.key, Reason("NotEnoughResources", "allocate", ""), bounded=True))

    gang_evict(cycle, Purpose.PREEMPT, EvictionOptions.of("gangpreempt", {}))

    assert gone == len(cycle.report.evictions)
    attempts = cycle.report.eviction_attempts["default/g"]
    assert idle == any(one.obstacle is not None and one.obstacle.code == "IdleRoomMightDo" for one in attempts)


def test_every_bound_is_a_share_of_one_number() -> None:
    """At the default each is what it says, at half of it half, and none is ever nothing."""
    usual = asdict(SearchBudget())

    assert usual == asdict(SearchBudget.of(STEPS))
    assert {name: number // 2 for name, number in usual.items()} == asdict(SearchBudget.of(STEPS // 2))
    assert {1} <= set(asdict(SearchBudget.of(1)).values())
    assert 0 < min(asdict(SearchBudget.of(1)).values())
    twice = asdict(SearchBudget.of(2 * STEPS))
    assert {name: 2 * number for name, number in usual.items()} == twice


def test_a_search_that_was_cut_speaks_for_nobody_else() -> None:
    """A second gang like one whose search was cut is told, too, that a place may exist."""
    roles = (role("lead", 1, "cpu=5"), role("worker", 2, "cpu=3"))
    twins = [gang(name, within=1, minimum=2, roles=roles) for name in ("g", "h")]
    report = schedule(objects_of(draw("r0[n0]", node="cpu=6"), *twins), _profile(1), now=0.0).report
    assert report is not None

    assert [True, True] == [message(refused).endswith(CUT) for refused in report.rejections.values()]
