"""Pod groups end the same whatever was seen on the way: changes shuffled, looked at twice, or not looked at at all."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.manifests import NOW, applied, container, objects, settled

from tierwise.api.codec import Raw
from tierwise.controllers import run
from tierwise.port import Key, Objects, key_of_raw

MARKS = st.dictionaries(
    st.sampled_from(
        [
            "scheduling.volcano.sh/group-min-member",
            "scheduling.volcano.sh/queue-name",
            "volcano.sh/network-topology-highest-tier",
            "volcano.sh/preemptable",
        ]
    ),
    st.sampled_from(["1", "2", "high"]),
    max_size=2,
)
NAMED = st.sampled_from([{}, {}, {"scheduling.k8s.io/group-name": "theirs"}])
NAMING = st.sampled_from([{}, {}, {"scheduling.k8s.io/group-name": "owners-choice"}])
OWNERS = ("rs", "sts", "crd")


@st.composite
def owners(draw: st.DrawFn) -> list[Raw]:
    """Objects that control pods; one of them may name the group."""
    return [
        {
            "apiVersion": "example.com/v1",
            "kind": "Owner",
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": draw(MARKS) | draw(NAMING)},
        }
        for name in OWNERS
        if draw(st.booleans())
    ]


@st.composite
def pods(draw: st.DrawFn) -> list[Raw]:
    """Pods of several owners and of none, of several schedulers, in several phases."""
    found: list[Raw] = []
    for index in range(draw(st.integers(0, 6))):
        owner = draw(st.sampled_from(["", *OWNERS]))
        metadata: Raw = {"name": f"p{index}", "namespace": "default", "annotations": draw(MARKS) | draw(NAMED)}
        if owner:
            reference = {"apiVersion": "example.com/v1", "kind": "Owner", "name": owner, "uid": owner}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        if draw(st.booleans()):
            metadata["creationTimestamp"] = f"2026-01-0{draw(st.integers(1, 3))}T00:00:00Z"
        spec: Raw = {"schedulerName": draw(st.sampled_from(["volcano", "volcano", "other"]))}
        spec["containers"] = [container(f"cpu={draw(st.integers(0, 2))}")]
        phase = draw(st.sampled_from(["", "Running", "Succeeded", "Failed"]))
        raw: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        found.append({**raw, "status": {"phase": phase}})
    return found


WORLDS = st.tuples(owners(), pods()).map(lambda parts: [*parts[0], *parts[1]])


def _content(world: Objects) -> dict[str, Raw]:
    """All that a world holds, but for when its groups were born: that is when somebody first looked."""
    found = {}
    for key in world:
        raw = world.raw(key) or {}
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        if key.kind == "PodGroup":
            raw = {**raw, "metadata": {field: v for field, v in metadata.items() if field != "creationTimestamp"}}
        found[str(key)] = raw
    return found


@given(WORLDS, st.sets(st.sampled_from(["p0", "p1", "p2"])), st.randoms(use_true_random=False))
def test_any_order_of_events_ends_in_the_same_state(raws: list[Raw], passing: set[str], chance: Random) -> None:
    """Objects come one by one in any order, some pods go again, and the controllers look now and then."""
    last = [raw for raw in raws if key_of_raw(raw).name not in passing]
    expected = _content(settled(objects(*last)))

    order = list(raws)
    chance.shuffle(order)
    world = objects()
    for raw in order:
        world = world.changed({key_of_raw(raw): raw})
        for _ in range(chance.choice([0, 0, 1, 2])):  # a look is lost, made once, or made twice
            world = applied(world, run(world, NOW))
    for key in (key_of_raw(raw) for raw in raws if key_of_raw(raw).name in passing):
        world = world.changed({}, [key])
        if chance.random() < 0.5:
            world = settled(world)
    world = settled(_again(world, last))

    assert expected == _content(world)
    assert [] == run(world, NOW + 86_400)


def _again(world: Objects, raws: list[Raw]) -> Objects:
    """Everything is told once more, as after a watch that was lost: pods lose what controllers wrote on them."""
    return world.changed({key_of_raw(raw): raw for raw in raws})


@given(WORLDS)
def test_every_pod_of_ours_is_in_one_group_that_exists(raws: list[Raw]) -> None:
    """No pod is left out, and no group of ours is empty."""
    world = settled(objects(*raws))
    named: set[str] = set()
    for raw in raws:
        if raw["kind"] == "Pod":
            metadata, spec = _part(world, key_of_raw(raw), "metadata"), _part(world, key_of_raw(raw), "spec")
            marks = metadata.get("annotations")
            group = marks.get("scheduling.k8s.io/group-name", "") if isinstance(marks, dict) else ""
            assert bool(group) or spec["schedulerName"] == "other"
            named.add(str(group))
    groups = {key.name for key in world if key.kind == "PodGroup"}

    assert groups <= named
    assert {name for name in named if name.startswith("podgroup-")} <= groups


def _part(world: Objects, key: Key, field: str) -> Raw:
    found = (world.raw(key) or {})[field]
    assert isinstance(found, dict)
    return found
