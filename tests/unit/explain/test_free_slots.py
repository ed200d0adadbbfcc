"""Free slots: counted as one would by hand, node by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang, objects_of
from tests.support.split_optimum import tree_of
from tests.support.strategies import trees

from tierwise.explain.free_slots import free_slots
from tierwise.model.slots import TierSlots, count_slots, histogram
from tierwise.snapshot.builder import build


def _by_hand(idle: list[int], total: list[int], size: int) -> int:
    """How many gangs fit into one domain: nodes are taken whole, unless a gang is smaller than a node."""
    whole = sum(t for i, t in zip(idle, total, strict=True) if t <= size and i == t)
    parts = sum(i // size * size for i, t in zip(idle, total, strict=True) if t > size)
    return (whole + parts) // size


@given(trees(), st.data())
def test_slots_are_counted_as_by_hand(drawing: str, data: st.DataObject) -> None:
    """On every tier, for every size, the sum over its domains; and never more than if nothing ran."""
    topology = tree_of(drawing)
    total = data.draw(st.lists(st.sampled_from((0, 4, 8)), min_size=len(topology.leaf), max_size=len(topology.leaf)))
    idle = [data.draw(st.integers(0, t)) for t in total]
    for slots in count_slots(topology, np.array(idle), np.array(total), (2, 4, 8, 12)):
        spans = [topology.span(d) for d in topology.at_tier[slots.tier].tolist()]
        assert slots.gangs == sum(_by_hand(idle[s], total[s], slots.size) for s in spans)
        assert slots.gangs <= slots.most
        assert 0 <= slots.fragmentation <= 1


def test_fragments_do_not_make_a_gang() -> None:
    """Eight free GPUs on four half-full nodes are no slot for eight, and four for two."""
    topology = tree_of("r0[n0..3]")
    idle, total = np.full(4, 2), np.full(4, 4)
    eight, two = (count_slots(topology, idle, total, (size,))[0] for size in (8, 2))

    assert TierSlots(tier=1, size=8, gangs=0, most=2, free=8) == eight
    assert 1.0 == eight.fragmentation
    assert (4, 0.0) == (two.gangs, two.fragmentation)


def test_domains_are_sorted_by_how_full_they_are() -> None:
    """Full, at most half free, more, and wholly free; one without nodes that count is in none of them."""
    topology = tree_of("r0[n0] r1[n1] r2[n2] r3[n3] r4[n4]")

    assert (1, 1, 1, 1) == histogram(topology, np.array([0, 2, 3, 4, 0]), np.array([4, 4, 4, 4, 0]))[1]


def test_the_last_gangs_are_held_to_account() -> None:
    """What would fit without a gang, less what fits: one pod on a node of eight costs a slot of eight."""
    world = draw("r0[n0..1]", node="gpu=8", cordoned="n1")
    snapshot = build(objects_of(world, gang("a", tasks=1, each="gpu=1", on="n0")), now=0.0)
    found = free_slots(snapshot, (8,))
    ((job, without),) = found.lost

    assert "default/a" == job.key
    assert [(0, 1)] * 2 == [(n.gangs, w.gangs) for n, w in zip(found.slots, without, strict=True)]
    assert [1, 1] == [slots.most for slots in found.slots]  # the cordoned node does not count


def test_the_youngest_gangs_are_the_last() -> None:
    """Of four gangs the three that were created last are told, the youngest first."""
    gangs = [gang(name, tasks=1, each="gpu=1", on="n0", created=i) for i, name in enumerate("dbca")]
    snapshot = build(objects_of(draw("r0[n0]", node="gpu=8"), *gangs), now=0.0)

    assert ["default/a", "default/c", "default/b"] == [job.key for job, _ in free_slots(snapshot, (8,)).lost]


def test_programs_read_free_slots(tmp_path: Path) -> None:
    """`topology show -o json` has them tier by tier, and people see a table."""
    world = draw("r0[n0..1]", node="gpu=8", running="n0:gpu=1")
    file = manifests(tmp_path, *world.manifests)
    found = answer("topology", "show", "-f", file)["freeSlots"]

    assert "nvidia.com/gpu" == found["resource"]
    fits = {"tier": 1, "size": 8, "gangs": 1, "most": 2, "free": 15, "fragmentation": 0.466667, "roomiest": [["r0", 1]]}
    assert fits == found["tiers"][0]
    assert {"1": [0, 0, 1, 0], "2": [0, 0, 1, 0]} == found["filling"]
    assert "1 of 2" in run("topology", "show", "-f", file).stdout
