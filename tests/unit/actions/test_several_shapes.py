"""Gangs whose pods differ in size: which of them start, and what is said where the search stops."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.affinity import only_for
from tests.support.draw import (
    World,
    allocate,
    draw,
    gang,
    groups,
    placed,
    role,
    why,
)
from tests.support.drawn_gang import manifest
from tests.support.shapes_oracle import Mixed

from tierwise.api.codec import Raw


def test_sizes_are_mixed_where_no_order_of_them_fits() -> None:
    """Two of three on the larger node, one on the other: neither large nor small pods first would find it."""
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=6", "n1": "cpu=4"})

    outcome = allocate(world, gang("g", within=1, roles=(role("lead", 1, "cpu=4"), role("worker", 2, "cpu=3"))))

    assert {"n0": 2, "n1": 1} == placed(outcome, "g")


def test_a_looser_tier_is_not_taken_for_want_of_mixing() -> None:
    """The rack that holds the gang in one way only is found before the spine is looked at."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="cpu=8", nodes={"n0": "cpu=6", "n1": "cpu=4", "n2": "cpu=3"})

    outcome = allocate(world, gang("g", soft=True, roles=(role("lead", 1, "cpu=4"), role("worker", 2, "cpu=3"))))

    assert {"n0", "n1"} == set(placed(outcome, "g"))


def test_any_pods_make_up_the_minimum() -> None:
    """Where fewer pods are needed than there are, those that fit together are chosen."""
    world = draw("r0[n0]", node="cpu=6")
    roles = (role("lead", 1, "cpu=5"), role("worker", 2, "cpu=3"))

    assert {"n0": 2} == placed(allocate(world, gang("g", within=1, minimum=2, roles=roles)), "g")


@pytest.mark.parametrize("first", ["alpha", "zeta"])
def test_pods_that_few_nodes_take_come_first_where_filters_move(first: str) -> None:
    """A pod that may go anywhere leaves the small node to the one that may go nowhere else, whatever their order."""
    world = draw("n0 n1", nodes={"n0": "cpu=1", "n1": "cpu=8"})
    alone = {"labelSelector": {"matchLabels": {"volcano.sh/task-spec": first}}, "topologyKey": "kubernetes.io/hostname"}
    picky: Raw = {
        "nodeSelector": {"kubernetes.io/hostname": "n0"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
    }
    whole = gang("g", roles=(role("alpha", 1, "cpu=1"), role("zeta", 1, "cpu=1")))

    outcome = allocate(world, only_for(first, whole, picky))

    assert ({"n0": 1, "n1": 1}, "n0") == (placed(outcome, "g"), outcome.bindings[f"g-{first}-0"])


def test_a_role_keeps_its_minimum() -> None:
    """Pods of a role that must be there are not left out for others that fit better."""
    world = draw("r0[n0]", node="cpu=6")
    roles = (role("lead", 1, "cpu=5", minimum=1), role("worker", 2, "cpu=3"))

    outcome = allocate(world, gang("g", within=1, minimum=2, roles=roles))

    assert ({}, "LargerThanAnyDomain") == (placed(outcome, "g"), why(outcome, "g"))


def test_releasing_room_is_mixed_too() -> None:
    """A gang that fits in one way only, on room that is being released, is nominated there."""
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=6", "n1": "cpu=4"})
    leaving = gang("old", tasks=1, each="cpu=4", on="n1!")

    outcome = allocate(world, leaving, gang("g", roles=(role("lead", 1, "cpu=4"), role("worker", 2, "cpu=3"))))

    assert {"n0": 2, "n1": 1} == {n: list(outcome.nominations.values()).count(n) for n in ("n0", "n1")}


def test_no_task_is_taken_twice() -> None:
    """Surplus of a sub-group that makes up the job's minimum is taken from what its own minimum left."""
    world = draw("r0[n0 n1] r1[n2]", nodes={"n0": "cpu=4", "n1": "cpu=4", "n2": "cpu=1"})
    policy = {"name": "p", "subGroupSize": 2, "matchLabelKeys": ["p"]}
    policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    asks = ("cpu=9", "cpu=2", "cpu=2", "cpu=2", "cpu=2", "cpu=1")

    class Split(Mixed, frozen=True):
        def manifests(self) -> list[dict[str, object]]:
            group, *pods = super().manifests()
            spec = group["spec"]
            assert isinstance(spec, dict)
            return [group | {"spec": spec | {"subGroupPolicy": [policy]}}, *pods]

    labels = {f"g-{i}": {"p": "0" if i < 5 else "1"} for i in range(6)}
    outcome = allocate(world, Split("g", tasks=6, minimum=4, labels=labels, asks=asks))

    assert len(outcome.bindings) == len(set(outcome.bindings)) >= 4
    assert "g-0" not in outcome.bindings


def test_chosen_pods_stay_within_the_quota() -> None:
    """The pods that fit together are not started where the queue may not have as much as they ask for."""
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=3 gpu=1", "n1": "cpu=7"})
    asked = gang("g", minimum=2, queue="q", roles=(role("a", 2, "cpu=3 gpu=1"), role("b", 2, "cpu=7")))

    assert {"n0": 1, "n1": 1} == placed(allocate(_capped(world, "10"), asked), "g")
    outcome = allocate(_capped(world, "9"), asked)
    assert ({}, "quota") == (placed(outcome, "g"), outcome.report.rejections["default/g"].stage)


def _capped(world: World, cpu: str) -> World:
    queue = manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": "q"}, spec={"capability": {"cpu": cpu}})
    return replace(world, manifests=(*world.manifests, queue))


def test_no_is_known_to_be_no_for_seven_sizes() -> None:
    """That a gang of more mixtures than are counted has no place is proven all the same."""
    roles = tuple(role(f"r{i}", 20, f"cpu={2 * i + 2}") for i in range(7))
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=561", "n1": "cpu=559"})  # odd nodes, even pods: one is left over

    outcome = allocate(world, gang("g", within=1, roles=roles))

    assert ({}, False) == (outcome.bindings, outcome.report.rejections["default/g"].bounded)
    fewer = allocate(world, gang("g", within=1, roles=roles[4:]))
    assert 60 == len(fewer.bindings)


def test_no_is_known_to_be_no_for_three_sizes() -> None:
    """Three sizes of thirty pods each are counted to the end."""
    roles = tuple(role(f"r{i}", 30, f"cpu={2 * i + 2}") for i in range(3))
    world = draw("r0[n0 n1 n2]", nodes={"n0": "cpu=121", "n1": "cpu=119", "n2": "cpu=120"})

    rejection = allocate(world, gang("g", within=1, roles=roles)).report.rejections["default/g"]

    assert not rejection.bounded


def test_two_roles_of_one_size_that_find_no_place() -> None:
    """Portions of one shape are a mixture too: the gang waits for room, and no plugin is said to have failed."""
    outcome = allocate(
        draw("r0[n0]", node="cpu=4", running="n0:cpu=2"),
        gang("g", tasks=0, roles=(role("a", 1, each="cpu=2", minimum=1), role("b", 1, each="cpu=2", minimum=1))),
    )

    assert ({}, "NotEnoughResources") == (placed(outcome, "g"), why(outcome, "g"))


def _led(number: int, *, within: int) -> Mixed:
    """Sub-groups of a leader and two workers, each in one rack."""
    parts = groups(number, size=3, within=1)
    return Mixed("g", within=within, groups=(parts,), asks=("cpu=3", "cpu=2", "cpu=2") * number)


def test_leaders_and_workers_fill_racks_whole() -> None:
    """Several sub-groups of a leader and its workers go to one rack as long as it takes them, the rest to the next."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="cpu=7", nodes={"n3": "cpu=0"})

    assert {"n0": 3, "n1": 3, "n2": 3} == placed(allocate(world, _led(3, within=2)), "g")
    assert {} == placed(allocate(world, _led(4, within=2)), "g")


def test_a_rack_that_is_counted_too_high_is_passed_by() -> None:
    """Of two racks with as much free, the one whose nodes are in pieces takes no leader beside its workers."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", nodes={"n0": "cpu=6", "n1": "cpu=1", "n2": "cpu=3", "n3": "cpu=4"})

    assert {"n2": 1, "n3": 2} == placed(allocate(world, _led(1, within=2)), "g")
