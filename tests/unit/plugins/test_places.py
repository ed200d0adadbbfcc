"""Places: a pod alone chooses its host, a gang the leaves that are missed least, by when what runs will end."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.draw import Gang, World, allocate, draw, gang, placed, spots
from tests.support.reservations import HOUR, MINUTE, NOW, job, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.closest import least_missed, pieces_needed
from tierwise.model.tree import Declared, build_tree
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

WITHOUT = replace(
    DEFAULT, tiers=tuple(tuple(choice for choice in tier if choice.name != "places") for tier in DEFAULT.tiers)
)
"""The default profile without the plugin."""
TWO = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")


def rows(world: World, *parts: list[Raw], profile: Profile = DEFAULT) -> dict[str, str]:
    """The nodes of every job that one cycle starts, each once and in the order of the tree."""
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, profile)
    report = cycle(snapshot, profile)
    return {
        decision.job.key.partition("/")[2]: " ".join(
            snapshot.nodes.names[row] for row in sorted({row for _, row in decision.places()})
        )
        for decision in report.decisions
    }


@pytest.mark.parametrize(
    "alone",
    [
        gang("alone", tasks=1, each="gpu=1", soft=True),
        gang("alone", tasks=1, each="gpu=1", within=1),
        gang("alone", tasks=1, each="gpu=1", within=2),
    ],
    ids=["soft", "within a rack", "within a spine"],
)
def test_a_pod_alone_goes_to_the_fullest_host(alone: Gang) -> None:
    """Its rack is half full with an empty host, and in the next one a host has one device left."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n0:gpu=8 n2:gpu=7")

    assert "n2" == spots(allocate(world, alone), "alone")
    assert "n1" == spots(allocate(world, alone, profile=WITHOUT), "alone")


def test_hosts_that_take_no_pod_cost_nothing() -> None:
    """A whole host that is cordoned must not spoil the scores of the others, which are all in use."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n0:gpu=8 n2:gpu=7 n3:gpu=6", cordoned="n1")
    report = allocate(world, gang("alone", tasks=1, each="gpu=1", soft=True))

    assert "n2" == spots(report, "alone")


def test_devices_count_and_not_cpu() -> None:
    """The host with the least cpu left has all its devices: it stays whole."""
    world = draw("s0: r0[n0 n1]", node="cpu=16,gpu=8", running="n0:cpu=12 n1:cpu=1,gpu=2")

    assert "n1" == spots(allocate(world, gang("alone", tasks=1, each="cpu=1,gpu=1", soft=True)), "alone")


def test_of_equal_hosts_the_one_in_the_fuller_leaf_is_taken() -> None:
    """Two hosts have four devices left; one of them has a neighbour in use."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n0:gpu=4 n2:gpu=4 n3:gpu=8")

    assert "n2" == spots(allocate(world, gang("alone", tasks=1, each="gpu=2", soft=True)), "alone")


def test_a_pod_goes_where_its_host_is_in_use_for_as_long() -> None:
    """Both hosts have four devices left; one of them is whole again in a minute, the other in two hours."""
    busy = [
        *running("short", "n0", ends_in=MINUTE, each="gpu=4"),
        *running("long", "n2", ends_in=2 * HOUR, each="gpu=4"),
    ]

    assert "n2" == rows(TWO, busy, job("alone", lasts="1h", each="gpu=2", soft=True))["alone"]


def test_a_gang_goes_to_the_leaf_that_stays_full() -> None:
    """A host of each rack is free; that of the rack which is empty soon is left to larger gangs."""
    busy = [*running("short", "n0", ends_in=MINUTE), *running("long", "n2", ends_in=2 * HOUR)]
    swapped = [*running("short", "n2", ends_in=MINUTE), *running("long", "n0", ends_in=2 * HOUR)]

    assert "n3" == rows(TWO, busy, job("train", 2, lasts="1h", each="gpu=4", soft=True))["train"]
    assert "n1" == rows(TWO, swapped, job("train", 2, lasts="1h", each="gpu=4", soft=True))["train"]


def test_what_is_beyond_its_time_may_stay_a_bit() -> None:
    """A job that is overdue by half an hour is taken to run for some minutes more, and not for ever."""
    busy = [*running("late", "n0", ends_in=-HOUR / 2, ago=HOUR), *running("long", "n2", ends_in=3 * HOUR)]

    assert "n3" == rows(TWO, busy, job("train", 2, lasts="2h", each="gpu=4", soft=True))["train"]


def test_without_run_times_the_tightest_leaf_is_taken() -> None:
    """Nothing is known of ends: the leaf with the fewest whole hosts that holds the gang."""
    world = draw("s0: r0[n0..3] r1[n4..6] r2[n7..8]", node="gpu=8", running="n0:gpu=8")

    assert "n7 n8" == spots(allocate(world, gang("g", tasks=2, each="gpu=8", soft=True)), "g")


def test_a_gang_over_two_spines_takes_the_fewest_leaves() -> None:
    """Neither spine holds it; emptying one of them would touch four leaves, and two are enough."""
    world = draw("s0: r0[n0..2] r1[n3] r2[n4] | s1: r3[n5..7] r4[n8]", node="gpu=8")
    wide = gang("g", tasks=6, each="gpu=8", soft=True)

    assert "n0 n1 n2 n5 n6 n7" == spots(allocate(world, wide), "g")


def test_of_two_spines_the_one_with_fewer_leaves_is_taken() -> None:
    """Both hold the gang; one of them on two leaves, the other, which is fuller, on three."""
    world = draw("s0: r0[n0..1] r1[n2..3] r2[n4..5] | s1: r3[n6..8] r4[n9..11]", node="gpu=8")

    assert "n6 n7 n8 n9 n10 n11" == spots(allocate(world, gang("g", tasks=6, each="gpu=8", soft=True)), "g")


def test_what_is_left_over_is_left_where_most_comes_free() -> None:
    """Three hosts of two racks with two free ones each: the rack that is empty soon keeps one."""
    world = draw("s0[r0[n0 n1 n2 n3] r1[n4 n5 n6 n7]]", node="gpu=8")
    busy = [*running("short", "n0 n1", ends_in=MINUTE), *running("long", "n4 n5", ends_in=9 * HOUR)]

    assert 2 == len({"n6", "n7"} & set(rows(world, busy, job("train", 3, lasts="1h", soft=True))["train"].split()))


def test_who_has_pods_placed_stays_close_to_them() -> None:
    """Room ahead is for gangs that begin."""
    world = draw("s0: r0[n0..3] r1[n4..5]", node="gpu=8")

    assert {"n1": 1} == placed(allocate(world, gang("g", tasks=2, each="gpu=8", soft=True, on="n0")), "g")


ROOMS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=7)


@given(ROOMS, st.integers(1, 20))
def test_sets_of_leaves_are_the_fewest_and_the_cheapest(leaves: list[tuple[int, int]], count: int) -> None:
    """By trying every set, and every place that may keep what is left over."""
    room = np.array([now for now, _ in leaves])
    ahead = np.array([now + more for now, more in leaves], dtype=float)

    def costs(chosen: tuple[int, ...]) -> list[float]:
        over = int(room[list(chosen)].sum()) - count
        whole = sum(ahead[i] ** 2 - (ahead[i] - room[i]) ** 2 for i in chosen)
        return [
            whole - (ahead[i] ** 2 - (ahead[i] - room[i]) ** 2) + ahead[i] ** 2 - (ahead[i] - room[i] + over) ** 2
            for i in chosen
        ]

    sizes = range(1, len(leaves) + 1)
    able = ([c for c in combinations(range(len(leaves)), size) if room[list(c)].sum() >= count] for size in sizes)
    fewest = next((sets for sets in able if sets), None)
    found = least_missed(room, ahead, count) if room.sum() >= count else None
    if fewest is None or found is None:
        assert fewest is None
        return
    spent = sum(ahead[i] ** 2 - (ahead[i] - k) ** 2 for i, k in zip(found.places, found.counts, strict=True))

    assert len(fewest[0]) == len(found.places)
    assert count == found.counts.sum()
    assert (found.counts <= room[found.places]).all()
    assert min(cost for chosen in fewest for cost in costs(chosen)) == pytest.approx(spent)


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(1, 9))
def test_leaves_that_a_gang_needs_are_counted(spines: list[list[int]], count: int) -> None:
    """As sorting the leaves of every spine says."""
    names = [[f"n{s}-{leaf}" for leaf in range(len(spine))] for s, spine in enumerate(spines)]
    declared = [
        Declared(f"s{s}", 2, children=tuple(f"r{s}-{leaf}" for leaf in range(len(spine))))
        for s, spine in enumerate(spines)
    ]
    declared += [
        Declared(f"r{s}-{leaf}", 1, nodes=frozenset({node}))
        for s, spine in enumerate(names)
        for leaf, node in enumerate(spine)
    ]
    every = tuple(node for spine in names for node in spine)
    tree, order = build_tree(declared, every)
    by_name = dict(zip(every, [room for spine in spines for room in spine], strict=True))
    room = tree.totals(np.array([by_name[every[i]] for i in order.tolist()]))
    domains = np.array([tree.index[f"s{s}"] for s in range(len(spines))])

    def needed(spine: list[int]) -> int:
        left = count
        for number, own in enumerate(sorted(spine, reverse=True)):
            if left <= 0 or not own:
                return number
            left -= own
        return len(spine)

    assert [needed(spine) for spine in spines] == pieces_needed(tree, room, domains, count).tolist()


@examples(20)
@given(
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
    st.lists(st.sampled_from([1, 2, 4, 8]), min_size=2, max_size=6),
)
def test_pods_of_one_cycle_go_where_pods_of_many_go(used: list[int], sizes: list[int]) -> None:
    """What is kept from pod to pod follows what was placed, in leaves that have room and in those that have none."""
    tree, running = "s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", [f"n{i}:gpu={gpus}" for i, gpus in enumerate(used) if gpus]
    pods = [gang(f"pod-{i}", tasks=1, each=f"gpu={size}", within=1) for i, size in enumerate(sizes)]
    report = allocate(draw(tree, node="gpu=8", running=" ".join(running)), *pods)
    together = [spots(report, f"pod-{i}") for i in range(len(pods))]

    one_by_one = []
    for i, (pod, size) in enumerate(zip(pods, sizes, strict=True)):
        one_by_one.append(spots(allocate(draw(tree, node="gpu=8", running=" ".join(running)), pod), f"pod-{i}"))
        running += [f"{one_by_one[-1]}:gpu={size}"] if one_by_one[-1] else []
    assert one_by_one == together
    assert () == report.report.failures
