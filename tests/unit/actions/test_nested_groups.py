"""Groups of groups: which domain each gets, what is said of those that find none, and how they are evicted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.languages import RACK, SPINE, kai_gang, objects_of, pod, run, volcano_gang
from tests.support.nested_oracle import ZONE, Leaf, Nest, Scene, kai, leaves

from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.text.explain_pod import job_facts
from tierwise.explain.wire import pod_group_wire
from tierwise.sim.cluster.rounds import schedule

EVICTS = Profile(("enqueue", "allocate", "gangpreempt"), DEFAULT.tiers)


def _scene(gang: Nest, **rooms: int) -> Scene:
    """Nodes by name, zone, spine and rack in it, `z0s1r0n1=2`, and the room of each."""
    places = {name: (name[:2], name[:4], name[:6]) for name in rooms}
    return Scene({name: (places[name], room) for name, room in rooms.items()}, gang)


def _pair(name: str, size: int, key: str = SPINE, inner: str = RACK) -> Nest:
    return Nest(name, (Leaf(f"{name}a", size, inner), Leaf(f"{name}b", size, inner)), 2, key)


def _racks(bound: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("g-")[:2]: node[:6] for name, node in bound.items()}


def test_a_group_needs_its_parts_in_one_domain() -> None:
    """The first zone has room for all parts of both pairs, but in four spines; in the second each pair has one."""
    gang = Nest("g", (_pair("x", 2), _pair("y", 2)), 2, ZONE)
    apart = {f"z0s{i}r0n0": 2 for i in range(4)}
    scene = _scene(gang, **apart, z1s0r0n0=2, z1s0r1n0=2, z1s1r0n0=2, z1s1r1n0=2)

    assert {"xa": "z1s0r0", "xb": "z1s0r1", "ya": "z1s1r0", "yb": "z1s1r1"} == _racks(
        run(scene.manifests(), kai(scene.gang))[0]
    )


def test_groups_come_in_order_and_as_tight_as_they_can() -> None:
    """A pair that fits a rack has one; the next one has to share a spine, because the racks are taken."""
    gang = Nest("g", (_pair("x", 1), _pair("y", 1)), 2, ZONE)
    scene = _scene(gang, z0s0r0n0=2, z0s0r1n0=1, z0s0r2n0=1)

    assert {"xa": "z0s0r0", "xb": "z0s0r0", "ya": "z0s0r1", "yb": "z0s0r2"} == _racks(
        run(scene.manifests(), kai(scene.gang))[0]
    )


def test_groups_of_several_shapes_share_nodes() -> None:
    """The small pod, placed by itself, takes a node that the large ones need; counted together, all fit."""
    pair = Nest("x", (Leaf("xa", 1), Leaf("xb", 2, cpu=2)), 2, RACK)
    scene = _scene(Nest("g", (pair,), 1, SPINE), z0s0r0n0=3, z0s0r0n1=2)

    assert {"g-xa-0": "z0s0r0n0"}.items() <= run(scene.manifests(), kai(scene.gang))[0].items()


def test_every_level_is_shown_where_it_stands() -> None:
    """In the JSON of a run, by its path; and `explain` says what it needs."""
    scene = _scene(Nest("g", (_pair("x", 2), _pair("y", 1)), 2), z0s0r0n0=2, z0s0r1n0=2, z0s1r0n0=2)
    history = schedule(objects_of(scene.manifests(), kai(scene.gang)), DEFAULT, now=0.0)
    after = history.after(0.0)

    told = pod_group_wire(after, after.jobs[0], "default/g")["subGroups"]

    where = {path: place["hyperNode"] for path, place in told.items()}  # type: ignore[attr-defined]
    assert [
        "the gang: 2 of 2 parts must be whole",
        "x and y: 2 of 2 parts must be whole; hard, within one example.com/spine",
    ] == [str(text) for title, text in job_facts(after, after.jobs[0]) if title == "nested groups"]
    assert {"x": "z0s0", "x/xa": "z0s0r0", "x/xb": "z0s0r1", "y": "z0s1r0", "y/ya": "z0s1r0", "y/yb": "z0s1r0"} == where


def test_what_does_not_fit_is_named_by_its_path() -> None:
    """The innermost group that finds no place, with how far its best domain came; what is around it says no more."""
    gang = Nest("g", (Nest("half", (_pair("x", 2), Leaf("z", 1)), 2, ZONE), Leaf("w", 1)), 2)
    scene = _scene(gang, z0s0r0n0=2, z0s1r0n0=2, z0s1r1n0=1, z1s0r0n0=1)

    (told,) = set(run(scene.manifests(), kai(scene.gang))[1].values())
    assert "sub-group half/x: no hyperNode of tier 2 or below holds 2 sub-groups of it" in told
    assert "tier 2: best of 3 hyperNodes is z0s0: 1 of 2 sub-groups fits (of 2 pods each)" in told
    assert "sub-group half:" not in told

    gang = Nest("g", (_pair("x", 2), Leaf("w", 1)), 2)
    single = _scene(gang, z0s0r0n0=1, z0s0r1n0=1, z0s0r2n0=1, z0s0r3n0=1, z0s0r4n0=1)
    (told,) = set(run(single.manifests(), kai(single.gang))[1].values())
    assert "sub-group x/xa: no hyperNode of tier 1 or below holds the sub-group" in told
    assert "sub-group x:" not in told


def test_pods_that_ask_for_nothing_wait_for_the_groups_around_them() -> None:
    """One half is enough; of the other, which lacks room, the pod that any node would take does not start either."""
    halves = [Nest(name, (Leaf(f"{name}a", 2, RACK), Leaf(f"{name}b", 1)), 2) for name in ("x", "y")]
    scene = _scene(Nest("g", tuple(halves), 1), z0s0r0n0=3, z0s0r1n0=1)
    manifests = [
        raw | {"spec": {"containers": [{"name": "c"}]}} if str(raw["metadata"]["name"]) == "g-yb-0" else raw  # type: ignore[index]
        for raw in kai(scene.gang)
    ]

    assert {"xa": "z0s0r0", "xb": "z0s0r0"} == _racks(run(scene.manifests(), manifests)[0])


def test_half_a_group_of_groups_beyond_the_minimum_comes_first() -> None:
    """The gang has one whole pair; of the other one a whole part runs, and the rest of it goes before another gang."""
    whole = Nest("x", (Leaf("xa", 1, on=("z0s0r0n0",)), Leaf("xb", 1, on=("z0s0r0n0",))), 2)
    half = Nest("y", (Leaf("ya", 1, on=("z0s0r0n1",)), Leaf("yb", 1)), 2)
    scene = _scene(Nest("g", (whole, half), 1), z0s0r0n0=2, z0s0r0n1=2)
    first = kai_gang("a", 1)

    assert {"g-yb-0": "z0s0r0n1"} == run(scene.manifests(), [*first, *kai(scene.gang)])[0]
    beside = replace(scene, gang=Nest("g", (whole, Nest("y", half.parts, 1)), 1))
    assert {"a-0": "z0s0r0n1"} == run(beside.manifests(), [*first, *kai(beside.gang)])[0]


@pytest.mark.parametrize(("least", "fall"), [(1, 1), (2, 4)])
def test_a_nested_gang_loses_what_it_can_spare_or_falls_whole(least: int, fall: int) -> None:
    """One node is needed: a gang that can do without one of its halves loses a pod of it, another one all pods."""

    def half(name: str, rack: int) -> Nest:
        return Nest(name, tuple(Leaf(f"{name}{i}", 1, RACK, on=(f"z0s0r{rack}n{i}",)) for i in range(2)), 2, RACK)

    scene = _scene(
        Nest("g", (half("x", 0), half("y", 1)), least, SPINE), z0s0r0n0=1, z0s0r0n1=1, z0s0r1n0=1, z0s0r1n1=1
    )
    boss = [pod("boss", spec={"priority": 9})]

    history = schedule(objects_of(scene.manifests(), kai(scene.gang), boss), EVICTS, now=0.0)

    assert fall == len(history.evictions)


def test_pods_that_a_group_needs_are_not_spared_for_being_many() -> None:
    """The larger of two groups runs, with more pods than the smaller one would need: without one of them it breaks."""
    large = Nest("y", (Leaf("ya", 1, on=("z0s0r0n0",)), Leaf("yb", 2, on=("z0s0r0n1", "z0s0r0n2"))), 2, RACK)
    scene = _scene(Nest("g", (_pair("x", 1), large), 1), z0s0r0n0=1, z0s0r0n1=1, z0s0r0n2=1)
    boss = [pod("boss", spec={"priority": 9})]

    history = schedule(objects_of(scene.manifests(), kai(scene.gang), boss), EVICTS, now=0.0)

    assert 3 == len(history.evictions)


def test_room_is_made_where_every_level_finds_it() -> None:
    """The pair needs two racks of one spine: the first spine has one, so the pods of the second have to go."""
    rooms = {"z0s0r0n0": 2, "z0s1r0n0": 2, "z0s1r1n0": 2}
    scene = _scene(Nest("g", (_pair("x", 2),), 1), **rooms)
    spots = [node for node, room in rooms.items() for _ in range(room)]
    low = [raw for i, node in enumerate(spots) for raw in volcano_gang(f"low-{node}-{i}", 1, on={0: node})]
    high = [raw for raw in kai(scene.gang) if raw["kind"] != "Pod"]
    for leaf in leaves(scene.gang):
        labels, marks = {"kai.scheduler/subgroup-name": leaf.name}, {"pod-group-name": "g"}
        names = [f"g-{leaf.name}-{i}" for i in range(leaf.total)]
        high += [pod(name, spec={"priority": 9}, labels=labels, annotations=marks) for name in names]

    history = schedule(objects_of(scene.manifests(), low, high), EVICTS, now=0.0)

    assert ["z0s1r0n0"] * 2 + ["z0s1r1n0"] * 2 == sorted(e.task.key.split("-")[1] for e in history.evictions)
