"""Controllers come to rest, and come to the same rest whatever the order of the objects."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.drawn_fabric import fabric
from tests.support.manifests import (
    NOW,
    applied,
    children,
    discovery,
    discovery_source,
    hypernode,
    job,
    labelled,
    node,
    nodes,
    objects,
    partitions,
    pod_group,
    regex,
    settled,
    task,
    tier,
)

from tierwise.api.codec import Raw
from tierwise.controllers import run
from tierwise.discovery import fetch_record
from tierwise.port import Objects

RACKS = st.sampled_from(["", "r0", "r1", "r2"])
CLUSTERS = st.sampled_from(["", "c0", "c1"])
MEMBERS = st.one_of(
    st.sampled_from(["n0", "n1", "n2", "gone"]).map(nodes),
    st.sampled_from(["h0", "h1", "h2"]).map(children),
    st.sampled_from(["n[0-2]", "^x", "("]).map(regex),
    st.sampled_from(["r0", "r9"]).map(lambda rack: labelled({"matchLabels": {"rack": rack}})),
).map(lambda members: members[0])


@st.composite
def machines(draw: st.DrawFn) -> list[Raw]:
    """Nodes with more or fewer labels."""
    chosen = draw(st.lists(st.tuples(CLUSTERS, RACKS), max_size=6))
    return [
        node(f"n{i}", **{key: value for key, value in (("cluster", cluster), ("rack", rack)) if value})
        for i, (cluster, rack) in enumerate(chosen)
    ]


@st.composite
def domains(draw: st.DrawFn) -> list[Raw]:
    """HyperNodes, sound and broken."""
    chosen = draw(st.lists(st.tuples(st.integers(1, 3), st.lists(MEMBERS, max_size=3)), max_size=4))
    made = [hypernode(f"h{i}", height, members) for i, (height, members) in enumerate(chosen)]
    for raw in made[: draw(st.integers(0, 1))]:
        # One that looks as if discovery had made it.
        labels = {"volcano.sh/network-topology-source": "label", "rack": "r0"}
        raw["metadata"] = {"name": "hypernode-a-tier1-zzzzz", "labels": labels}
    return made


@st.composite
def batches(draw: st.DrawFn) -> list[Raw]:
    """A job, perhaps with a pod group that exists already."""
    tasks = []
    for i, (size, parts) in enumerate(draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3))):
        fields: Raw = {"partitionPolicy": partitions(parts, size, networkTopology=tier(1))} if parts else {}
        tasks.append(task(draw(st.sampled_from(["", f"t{i}"])), size * max(parts, 1)) | fields)
    batch = job("train", *tasks, minAvailable=draw(st.integers(0, 4)))
    phase = draw(st.sampled_from(["", "Pending", "Running", "Completed", "Aborting"]))
    if phase:
        batch["status"] = {"state": {"phase": phase}}
    group = draw(st.sampled_from([[], ["Pending"], ["Inqueue"], ["Running"]]))
    return [batch, *(pod_group("train-u1", phase=phase, minMember=1) for phase in group)]


FETCHED = fetch_record.manifest(
    fetch_record.fetched(fabric("h1: r0[n0 n1] h0[n2]", "c1: r0[n3]"), NOW), "slurm", "volcano-system"
)
CONFIGS = st.sampled_from(
    [
        [],
        [discovery("a: cluster rack host")],
        [discovery("a: rack host; b: cluster host")],
        [discovery_source("topograph")],
        [discovery_source("slurm"), FETCHED],
    ]
)
WORLDS = st.tuples(machines(), domains(), batches(), CONFIGS).map(lambda parts: [raw for part in parts for raw in part])


def _content(world: Objects) -> dict[str, Raw | None]:
    return {str(key): world.raw(key) for key in world}


@given(WORLDS)
def test_controllers_come_to_rest(raws: list[Raw]) -> None:
    """Once the effects are applied, running again asks for nothing, at any later time."""
    world = settled(objects(*raws))

    assert [] == run(world, NOW + 86_400)


@given(WORLDS)
def test_each_effect_is_asked_for_once(raws: list[Raw]) -> None:
    """Nothing is created that exists, and nothing changed or described that is gone."""
    world = objects(*raws)
    for _ in range(3):
        world = applied(world, run(world, NOW))


@given(WORLDS, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(raws: list[Raw], chance: Random) -> None:
    """Shuffled input gives the same effects and the same end."""
    shuffled = list(raws)
    chance.shuffle(shuffled)

    assert run(objects(*raws), NOW) == run(objects(*shuffled), NOW)
    assert _content(settled(objects(*raws))) == _content(settled(objects(*shuffled)))
