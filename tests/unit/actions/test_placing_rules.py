"""Second-order rules of placing, each of which something else hides in most clusters."""

from __future__ import annotations

import json

from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    placed,
    role,
    spots,
)
from tests.support.koordinator import AWARE, cluster, run
from tests.support.koordinator import gang as koordinator_gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.port import SUB_GROUPS_ANNOTATION, Bind, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build


def test_a_free_rack_before_one_that_is_being_emptied() -> None:
    """The rack that would be fuller scores more, and is not waited for while another is free."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="cpu=6")
    leaving = gang("old", tasks=1, each="cpu=2", on="n0!")

    outcome = allocate(world, leaving, gang("g", tasks=2, each="cpu=5", within=1))

    assert ({"n2": 1, "n3": 1}, {}) == (placed(outcome, "g"), outcome.nominations)


def test_several_partitions_that_restart_return_to_their_racks() -> None:
    """Each sub-group goes where it stood, not where the first of their kind would go."""
    world = draw("s0: r0[n0] r1[n1] r2[n2] r3[n3]", node="cpu=2")
    asked = gang("g", within=2, groups=(groups(3, 2, within=1),))
    stood = {f"part-{i}": {"hyperNode": f"r{3 - i}", "tier": 1} for i in range(3)}
    group, *pods = asked.manifests()
    meta = group["metadata"]
    assert isinstance(meta, dict)
    noted = group | {"metadata": meta | {"annotations": {SUB_GROUPS_ANNOTATION: json.dumps(stood)}}}
    bound = _bound(*world.manifests, noted, *pods)

    assert {f"g-part-{i}-{j}": f"n{3 - i}" for i in range(3) for j in range(2)} == bound


def test_what_an_oversubscribed_node_owes_is_not_taken_from_its_rack() -> None:
    """A node that holds more than it has makes no room, and takes none from its neighbours."""
    world = draw("r0[n0 n1]", node="cpu=8", running="n0:cpu=14")

    assert {"n1": 2} == placed(allocate(world, gang("g", tasks=2, each="cpu=4", within=1)), "g")


def test_a_replacement_stays_in_the_racks_and_not_beside_them() -> None:
    """Nodes beside the racks count what stands on them alone, not what stands in the racks."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] n4", node="cpu=1")

    assert spots(allocate(world, gang("g", tasks=3, within=2, on="n0 n2")), "g") in ("n1", "n3")


def test_a_role_that_is_short_asks_for_more_than_the_number() -> None:
    """The number is met by a whole sub-group that runs: the minimum of a role asks for one pod more."""
    world = draw("r0[n0]", node="cpu=4")
    roles = (role("a", 3, minimum=1), role("b", 1, minimum=1))
    labels = {name: {"part": "0"} for name in ("g-a-0", "g-a-1", "g-a-2", "g-b-0")}

    outcome = allocate(world, gang("g", minimum=3, roles=roles, groups=(groups(0, 3),), labels=labels, on="n0 n0 n0"))

    assert {"g-b-0": "n0"} == outcome.bindings


def test_sub_groups_that_leave_equal_room_are_not_the_same_choice() -> None:
    """Who has the rack matters: the first sub-group is left out for one that may go nowhere else."""
    world = draw("r0[n0] r1[n1]", nodes={"n0": "cpu=4", "n1": "cpu=3"})
    parts = (groups(2, 3, within=1, minimum=1, name="x"), groups(1, 3, within=1, minimum=1, name="y"))

    outcome = allocate(world, gang("g", minimum=7, groups=parts, on="n0 - - n1 - - n0 - -"))

    assert {"x-1": "n1 n1", "y-0": "n0 n0"} == by_group(outcome, "g")


def test_roles_come_first_in_sub_groups() -> None:
    """A role that the job must have is not crowded out by pods that stand before it."""
    world = draw("r0[n0]", node="cpu=2")
    roles = (role("a", 2, minimum=1), role("b", 1, minimum=1))
    labels = {name: {"part": "0"} for name in ("g-a-0", "g-a-1", "g-b-0")}

    outcome = allocate(world, gang("g", minimum=2, roles=roles, groups=(groups(0, 2),), labels=labels))

    assert {"g-a-0": "n0", "g-b-0": "n0"} == outcome.bindings


def test_a_later_sub_group_stays_near_the_others() -> None:
    """Surplus sub-groups go next to the first, although another rack scores more."""
    nodes = {"n0": "cpu=2", "n1": "cpu=3", "n2": "cpu=3"}
    world = draw("s: (s0: r0[n0] r1[n1]) (s1: r2[n2 n3])", node="cpu=4", nodes=nodes, running="n3:cpu=4")
    parts = (groups(2, 2, within=1),)

    outcome = allocate(world, gang("g", minimum=2, soft=True, groups=parts))

    assert {"part-0": "n0 n0", "part-1": "n1 n1"} == by_group(outcome, "g")


def test_a_gathered_gang_starts_with_its_minimum_where_the_quota_has_no_more() -> None:
    """The whole of it is not planned for where the queue may not have that much."""
    world = cluster({"s0": {"b0": "n0 n1 n2"}}, cpu=1)
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "default"},
        "spec": {"capability": {"cpu": "2"}},
        "status": {"state": "Open"},
    }

    bound, waiting = run([*world, queue], koordinator_gang("k", 3, least=2, must="BlockLayer"), profile=AWARE)

    assert (2, 1) == (len(bound), len(waiting))


def test_who_is_turned_away_at_the_gate_keeps_no_room() -> None:
    """A nomination of a gang whose queue has closed is given to the next one."""
    world = draw("r0[n0]", node="cpu=2", queues="shut! open")
    first = gang("a", tasks=2, queue="shut").manifests()
    group, *pods = first
    kept = [pod | {"status": {"phase": "Pending", "nominatedNodeName": "n0"}} for pod in pods]
    second = gang("b", tasks=2, queue="open", created=1).manifests()

    assert {"b-0": "n0", "b-1": "n0"} == _bound(*world.manifests, group, *kept, *second)


def _bound(*manifests: Raw) -> dict[str, str]:
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in manifests), now=0.0)
    return {e.pod.name: e.node for e in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(e, Bind)}


def test_a_refusal_within_a_rack_is_none_for_who_may_go_wider() -> None:
    """Three like pods find no rack with three free nodes, and other three find room in the spine."""
    world = draw("s0: r0[n0 n1 n4] r1[n2 n3 n5]", node="cpu=1", running="n4:cpu=1 n5:cpu=1")
    narrow, wide = gang("narrow", tasks=3, within=1), gang("wide", tasks=3, created=1)

    assert ["default/narrow"] == list(allocate(world, narrow, wide).report.rejections)
