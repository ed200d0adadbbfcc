"""What stands in part comes first within its priority and queue; gangs of pods that ask for nothing are whole, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.draw import allocate, draw, gang, groups, placed, role, spots, why
from tests.support.languages import (
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    nodes,
    plugin_gang,
    run,
    volcano_gang,
)
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT

_USUAL = ("predicates", "proportion", "nodeorder", "network-topology-aware")
PROFILES = {
    "default": DEFAULT,
    "shares first": profile("drf", "priority", "gang", *_USUAL),
    "shares behind": profile("priority", "gang", "drf", *_USUAL),
    "gang first": profile("gang", "priority", *_USUAL),
    "no priority": profile("gang", "drf", *_USUAL),
    "deadlines first": profile("sla", "priority", "gang", *_USUAL),
    "by class": profile("QOSSort", "gang", *_USUAL),
    "by application": profile("TopologicalSort", "gang", *_USUAL),
}


@pytest.mark.parametrize("how", PROFILES)
def test_rest_of_a_gang_goes_before_an_older_one(how: str) -> None:
    """One of two pods stands; the other gets the only room there is, although a gang has waited for longer."""
    half = gang("half", tasks=2, each="cpu=8", on="n0", created=99, phase="Running")
    old = gang("old", tasks=1, each="cpu=8")

    outcome = allocate(draw("r0[n0 n1]"), old, half, profile=PROFILES[how])

    assert ({"half-1": "n1"}, True) == (outcome.bindings, bool(why(outcome, "old")))


@pytest.mark.parametrize("how", [name for name in PROFILES if name != "no priority"])
def test_more_important_gang_goes_before_what_stands_in_part(how: str) -> None:
    """Priority decides before that, as far as the profile minds it."""
    half = gang("half", tasks=2, each="cpu=8", on="n0", phase="Running")
    urgent = gang("urgent", tasks=1, each="cpu=8", priority=9, created=99)

    outcome = allocate(draw("r0[n0 n1]"), urgent, half, profile=PROFILES[how])

    assert {"urgent-0": "n1"} == outcome.bindings


def test_room_beside_a_part_is_not_given_away_while_a_rack_is_empty() -> None:
    """The rest stands in its rack, and the gang that is older goes to the other one."""
    half = gang("half", tasks=4, each="cpu=8", on="n0 n1", within=1, created=99, phase="Inqueue")
    old = gang("old", tasks=2, each="cpu=8", within=1)

    outcome = allocate(draw("s: r0[n0 n1 n2 n3] r1[n4 n5]"), old, half)

    assert ({"n2": 1, "n3": 1}, {"n4": 1, "n5": 1}) == (placed(outcome, "half"), placed(outcome, "old"))


def test_half_a_sub_group_beyond_the_minimum_comes_first_as_well() -> None:
    """The gang has its minimum; the sub-group of which one pod stands is made whole before an older gang starts."""
    parts = (groups(2, 2, within=1, each="cpu=4", minimum=1),)
    half = gang("half", minimum=2, groups=parts, on="n0 n0 n1", created=99, phase="Running")
    old = gang("old", tasks=1, each="cpu=4")

    outcome = allocate(draw("s: r0[n0] r1[n1]"), old, half)

    assert ({"half-part-1-1": "n1"}, True) == (outcome.bindings, bool(why(outcome, "old")))


def test_surplus_of_a_whole_gang_does_not_come_first() -> None:
    """A gang that has what it needs waits in its turn with the rest."""
    elastic = gang("elastic", tasks=2, minimum=1, each="cpu=8", on="n0", created=99, phase="Running")

    assert {"old-0": "n1"} == allocate(draw("r0[n0 n1]"), gang("old", tasks=1, each="cpu=8"), elastic).bindings


def test_part_that_falls_back_to_pending_is_let_in() -> None:
    """A full queue lets no further gang in; one of which a part stands is in already, whatever its phase says."""
    crowd = gang("crowd", tasks=1, each="cpu=8", least="cpu=14", phase="Inqueue")
    half = gang("half", tasks=2, each="cpu=8", least="cpu=16", on="n0", phase="Pending", created=99)
    tight = profile("priority", "gang", "overcommit", "predicates")

    assert {"half-1": "n1"} == allocate(draw("r0[n0 n1]"), crowd, half, profile=tight).bindings


def _grove(name: str, pods: int, on: dict[int, str]) -> list[Raw]:
    return grove_gang(name, {"w": pods}, on={f"{name}-w-{i}": node for i, node in on.items()})


def _kai(name: str, pods: int, on: dict[int, str]) -> list[Raw]:
    return kai_gang(name, pods, on={f"{name}-{i}": node for i, node in on.items()})


LANGUAGES: dict[str, Callable[[str, int, dict[int, str]], list[Raw]]] = {
    "volcano": lambda name, pods, on: volcano_gang(name, pods, on=on),
    "kubernetes": lambda name, pods, on: kubernetes_gang(name, pods, on=on),
    "scheduler-plugins": lambda name, pods, on: plugin_gang(name, pods, on=on),
    "kai": _kai,
    "kueue": lambda name, pods, on: kueue_gang(name, pods, on=on),
    "grove": _grove,
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_part_comes_first_in_every_language(language: str) -> None:
    """The rest of z gets the last node, although a is before it by name."""
    gangs = LANGUAGES[language]
    bound, _ = run(nodes({"s0": {"r0": "n0 n1"}}), [*gangs("a", 1, {}), *gangs("z", 2, {0: "n0"})])

    assert [True] == [name.startswith("z") for name in bound]


# -- pods that ask for nothing


@pytest.mark.parametrize("each", ["", "cpu=1"])
def test_best_effort_gang_is_whole_or_not_at_all(each: str) -> None:
    """Two slots do not start half of a gang of four, whether its pods ask for more than a slot or not."""
    world = draw("r0[n0]", nodes={"n0": "cpu=8 pods=2"})

    assert {} == allocate(world, gang("g", tasks=4, each=each)).bindings
    assert 2 == len(allocate(world, gang("g", tasks=4, minimum=1, each=each)).bindings)


def test_best_effort_gang_finds_the_rack_with_room() -> None:
    """One slot in the first rack, many in the second: all of it goes there."""
    world = draw("s: r0[n0] r1[n1]", nodes={"n0": "cpu=8 pods=1"})

    assert {"n1": 4} == placed(allocate(world, gang("g", tasks=4, each="", within=1)), "g")


def test_best_effort_sub_groups_are_whole() -> None:
    """Each of them in the rack that has room for all of it; one that finds none does not start by half."""
    parts = (groups(2, 2, within=1, each=""),)
    roomy = draw("s: r0[n0] r1[n1]", nodes={"n0": "cpu=8 pods=1"})
    narrow = draw("s: r0[n0] r1[n1]", nodes={"n0": "cpu=8 pods=1", "n1": "cpu=8 pods=3"})

    assert {"n1": 4} == placed(allocate(roomy, gang("g", minimum=2, groups=parts)), "g")
    assert {"n1": 2} == placed(allocate(narrow, gang("g", minimum=2, groups=parts)), "g")


@pytest.mark.parametrize("actions", ["enqueue allocate backfill", "enqueue allocate", "enqueue backfill allocate"])
def test_gang_of_which_some_pods_ask_for_nothing_is_whole(actions: str) -> None:
    """The worker does not start alone where its companions have no slot, and starts with them where they have."""
    mixed = gang("g", roles=(role("worker", 1, "cpu=8"), role("log", 2, "")))
    chosen = profile("priority", "gang", "predicates", actions=actions)

    assert {} == allocate(draw("r0[n0]", nodes={"n0": "cpu=8 pods=2"}), mixed, profile=chosen).bindings
    assert {"n0": 3} == placed(allocate(draw("r0[n0]", node="cpu=8 pods=3"), mixed, profile=chosen), "g")


def test_nominated_gang_keeps_its_place_for_pods_that_ask_for_nothing() -> None:
    """A gang that waits for room goes where it was nominated, its best-effort pod with it."""
    mixed = gang("g", roles=(role("worker", 1, "cpu=8"), role("log", 1, "")), within=1)
    told = mixed.manifests()
    told[1]["status"] = {"phase": "Pending", "nominatedNodeName": "n1"}
    world = draw("s: r0[n0] r1[n1]")
    objects = (*world.manifests, *told)

    assert "n1 n1" == spots(allocate(type(world)(objects, world.drawing)), "g")


@pytest.mark.parametrize("actions", ["enqueue allocate", "enqueue gangpreempt", "enqueue podpreempt"])
def test_nominations_of_one_role_leave_room_for_the_minimum_of_another(actions: str) -> None:
    """Of two nominated pods of a role one starts, with a new pod of another role; what the second had is given back."""
    world = draw("r0[n0 n1]", node="cpu=1")
    told = gang("g", minimum=2, roles=(role("a", 2, minimum=1), role("b", 1, minimum=1))).manifests()
    for raw, node in zip(told[1:], ("n0", "n1"), strict=False):
        raw["status"] = {"phase": "Pending", "nominatedNodeName": node}
    chosen = profile("priority", "gang", "predicates", actions=actions)
    outcome = allocate(type(world)((*world.manifests, *told), world.drawing), profile=chosen)

    assert {"g-a-0": "n0", "g-b-0": "n1"} == outcome.bindings
    assert {"g-a-1": ""} == outcome.nominations


@pytest.mark.parametrize("language", LANGUAGES)
def test_best_effort_gang_is_whole_in_every_language(language: str) -> None:
    """Three slots on two nodes start a gang of three, and nothing of a gang of four."""
    world = nodes({"s0": {"r0": "n0", "r1": "n1"}})
    for node, pods in zip(world, ("1", "2"), strict=True):
        node["status"] = {"allocatable": {"cpu": "4", "pods": pods}}

    started = [len(run(world, [_asking_nothing(raw) for raw in LANGUAGES[language]("g", n, {})])[0]) for n in (4, 3)]

    assert [0, 3] == started


def _asking_nothing(raw: Raw) -> Raw:
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return {**raw, "spec": {**spec, "containers": [{"name": "c"}]}} if raw["kind"] == "Pod" else raw


# -- elastic gangs


@pytest.mark.parametrize("soft", [True, False])
def test_elastic_gang_goes_where_all_of_it_fits(soft: bool) -> None:
    """By cpu the smaller rack is the better one; by cards only the larger holds the whole gang."""
    world = draw(
        "l: r4[n0 n1] r5[n2]", nodes={"n0": "cpu=8 gpu=8", "n1": "cpu=8 gpu=0", "n2": "cpu=8 gpu=4"}, node="cpu=8"
    )
    tight = profile("priority", "gang", "predicates", "binpack", "nodeorder", "network-topology-aware")
    elastic = gang("g", tasks=5, minimum=1, each="cpu=1 gpu=1", within=None if soft else 2, soft=soft)

    assert {"n0": 5} == placed(allocate(world, elastic, profile=tight), "g")


def test_elastic_sub_groups_go_where_all_of_them_fit() -> None:
    """The same for the sub-groups beyond the minimum."""
    world = draw("s: (l0: r0[n0]) (l1: r1[n1] r2[n2])", nodes={"n0": "cpu=2", "n1": "cpu=2", "n2": "cpu=2"})
    parts = (groups(2, 2, within=1, each="cpu=1"),)

    assert {"n1": 2, "n2": 2} == placed(allocate(world, gang("g", minimum=2, groups=parts, within=2)), "g")
