"""Never, not now, not allowed: what each job that waits is told, and how it is put."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import (
    Gang,
    Outcome,
    World,
    allocate,
    draw,
    gang,
    groups,
    role,
)
from tests.support.manifests import NOW, node, objects
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.explain.message import message
from tierwise.explain.wire import pending_wire
from tierwise.model.job import Verdict
from tierwise.port import PatchStatus
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise.status.pod import pod_conditions

RACKS = "s0: r0[n0 n1] r1[n2 n3]"
FULL = draw(RACKS, node="cpu=8", running="n0:cpu=8 n1:cpu=8 n2:cpu=8 n3:cpu=8")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _said(outcome: Outcome, name: str = "train") -> tuple[str, str]:
    rejection = outcome.report.rejections[f"default/{name}"]
    return rejection.verdict.value, message(rejection)


def _verdict(world: World, *gangs: Gang) -> str:
    return _said(allocate(world, *gangs))[0]


def _near(label: str, *, apart: bool = False) -> Raw:
    term: Raw = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity" if apart else "podAffinity": {_REQUIRED: [term]}}}


def test_a_gang_larger_than_every_rack() -> None:
    """The first sentence says that an empty cluster would not help, the next what the best rack would hold."""
    verdict, text = _said(allocate(FULL, gang("train", tasks=3, each="cpu=8", within=1)))

    assert "never" == verdict
    assert text.startswith("needs 3 whole nodes in one hyperNode of tier 1; no hyperNode of tier 1 has more than 2; ")
    assert "best of 2 hyperNodes is r0: 2 of 3 pods would fit" in text


@pytest.mark.parametrize(
    ("tasks", "each", "within", "told"),
    [
        (3, "cpu=5", 1, "needs 3 nodes in one hyperNode of tier 1; no hyperNode of tier 1 has more than 2; "),
        (5, "cpu=8", None, "needs 5 whole nodes; the cluster has 4; "),
        (
            5,
            "cpu=4",
            1,
            "needs room for its 5 pods in one hyperNode of tier 1; no hyperNode of tier 1 has room for more ",
        ),
        (9, "cpu=4", None, "needs room for its 9 pods; the cluster has room for 8, even if it were empty; "),
    ],
)
def test_what_a_gang_needs_stands_beside_what_there_is(tasks: int, each: str, within: int | None, told: str) -> None:
    """Nodes where a pod takes one, whole ones where nothing is left of them, else room; in a domain, or anywhere."""
    verdict, text = _said(allocate(FULL, gang("train", tasks=tasks, each=each, within=within)))

    assert ("never", told) == (verdict, text[: len(told)])


def test_nodes_that_take_no_pod_of_a_gang_are_not_counted() -> None:
    """A rack of three with one that is cordoned has two that take its pods."""
    world = draw("r0[n0 n1 n2] r1[n3]", node="cpu=8", cordoned="n2")
    _, text = _said(allocate(world, gang("train", tasks=3, each="cpu=8", within=1)))

    told = "needs 3 whole nodes in one hyperNode of tier 1; no hyperNode of tier 1 has more than 2 that take its pods; "
    assert told == text[: len(told)]


def test_one_sub_group_larger_than_every_rack() -> None:
    """The cluster would hold all of its pods, but not where its only sub-group must stay."""
    verdict, text = _said(allocate(FULL, gang("train", each="cpu=8", groups=(groups(1, 3, within=1),))))

    assert "never" == verdict
    assert text.startswith("even if the cluster were empty, it would have no place for its 3 pods in their sub-group")


def test_a_gang_that_fits_an_empty_rack() -> None:
    """What is short, how much, and where it came closest."""
    verdict, text = _said(allocate(FULL, gang("train", tasks=2, each="cpu=8", within=1)))

    assert "not-now" == verdict
    assert text.startswith("no hyperNode of tier 1 or below has a place now for its 2 pods; ")
    assert "r0: 0 of 2 pods fit (2 nodes short of cpu: 8 asked, at most 0 free)" in text


@pytest.mark.parametrize(
    "waits",
    [
        gang("train", tasks=1, each="cpu=9"),
        gang("train", tasks=1, each="gpu=1"),
        gang("train", tasks=1, each="cpu=1", spec={"nodeSelector": {"disk": "ssd"}}),
        gang("train", tasks=5, each="cpu=8"),
        gang(
            "train",
            tasks=5,
            each="cpu=1",
            labels={f"train-{i}": {"app": "a"} for i in range(5)},
            spec=_near("a", apart=True),
        ),
        gang("train", each="cpu=8", within=2, groups=(groups(1, size=3, within=1),)),
        gang("train", tasks=1, each="cpu=8", roles=(role("ps", 1, each="cpu=9", minimum=1),)),
    ],
    ids=lambda waits: repr(waits)[:60],
)
def test_what_an_empty_cluster_would_not_hold(waits: Gang) -> None:
    """Pods larger than nodes, selectors that none matches, gangs larger than domains, rules between own pods."""
    assert "never" == _verdict(FULL, waits)


def test_a_gang_that_stands_too_wide() -> None:
    """Nobody who leaves would bring its own pods together."""
    assert "never" == _verdict(draw(RACKS), gang("train", tasks=3, within=1, on="n0 n2"))


@pytest.mark.parametrize(
    "waits",
    [
        gang("train", tasks=1, each="cpu=8"),
        gang("train", tasks=4, each="cpu=8"),
        gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),)),
        gang("train", tasks=1, each="cpu=6", roles=(role("ps", 1, each="cpu=2", minimum=1),)),
        gang("train", tasks=1, each="cpu=8", spec=_near("nobody")),
    ],
    ids=lambda waits: repr(waits)[:60],
)
def test_what_an_empty_cluster_would_hold(waits: Gang) -> None:
    """Others are in the way, or pods to be near to may still come."""
    assert "not-now" == _verdict(FULL, waits)


def test_all_are_judged_on_the_same_empty_nodes() -> None:
    """Several gangs of two sizes each would have the cluster for themselves, one after the other."""
    waiting = [
        gang(f"train-{i}", tasks=3, each="cpu=8", roles=(role("ps", i, each=f"cpu={8 // i}", minimum=i),))
        for i in (1, 2)
    ]
    outcome = allocate(FULL, *waiting)

    assert ["not-now", "not-now"] == [_said(outcome, each.name)[0] for each in waiting]


def test_own_pods_stay_in_the_way() -> None:
    """A gang whose own pods fill its rack never gets another one in it, whoever else leaves."""
    world = draw(RACKS, node="cpu=8", running="n2:cpu=8 n3:cpu=8")
    waits = gang("train", tasks=3, each="cpu=8", within=1, on="n0 n1")

    assert ["never", "not-now"] == [
        _verdict(world, waits),
        _verdict(
            world,
            gang("train", tasks=2, each="cpu=8", within=1, on="n0"),
            gang("other", tasks=1, each="cpu=8", on="n1"),
        ),
    ]


@pytest.mark.parametrize("within", [1, 2, None])
def test_the_rest_waits_for_pods_of_its_own_job(within: int | None) -> None:
    """Two of four run where two find room: the others start when these have ended, and are not told never."""
    world = draw("s0: r0[n0 n1]", node="cpu=8")
    rest = gang("train", tasks=4, minimum=2, each="cpu=8", within=within, on="n0 n1")

    assert "not-now" == _verdict(world, rest)
    assert "not-now" == _verdict(draw(RACKS, node="cpu=8"), gang("train", tasks=4, minimum=2, each="cpu=8", within=1))


def test_the_rest_that_no_empty_node_takes_is_told_never() -> None:
    """Its own pods are smaller than what is left: nobody's end makes room."""
    world = draw("s0: r0[n0 n1]", node="cpu=8")
    large = role("large", 1, each="cpu=9", minimum=0)
    rest = gang("train", tasks=2, each="cpu=8", minimum=2, on="n0 n1", roles=(large,))

    assert "never" == _verdict(world, rest)


def test_what_a_queue_holds_back() -> None:
    """A closed queue refuses what would fit; what would not fit hears that first, and the queue after it."""
    closed = draw(RACKS, node="cpu=8", queues="blue!")
    fits = _said(allocate(closed, gang("train", tasks=2, queue="blue")))
    verdict, text = _said(allocate(closed, gang("train", tasks=2, each="cpu=9", queue="blue")))

    assert ("not-allowed", "its queue blue is not open") == fits
    assert "never" == verdict
    assert text.startswith("even if the cluster were empty, no node would take any of its pods; ")
    assert text.endswith("queue: its queue blue is not open")


def test_missing_pods_are_not_looked_for() -> None:
    """A gang that waits for its own pods is held back by that, whatever their size."""
    assert "not-allowed" == _verdict(draw(RACKS), gang("train", tasks=1, each="cpu=9", minimum=2))


def test_the_rest_of_a_running_gang_is_told_of_its_own_rack() -> None:
    """Racks that the gang may not use are counted as such, and none is called the best."""
    world = draw(RACKS, node="cpu=8", running="n1:cpu=8")
    verdict, text = _said(allocate(world, gang("train", tasks=2, each="cpu=8", within=1, on="n0")))

    assert "not-now" == verdict
    assert text == (
        "hyperNode r0, where its running pods are, has no place now for the pod that its minimum lacks; "
        "tier 1: in r0, where its running pods are: 0 of 1 pod fits (2 nodes short of cpu: 8 asked, at most 0 free), "
        "and 1 other hyperNode of this tier is not searched"
    )


def test_a_running_minimum_is_not_said_to_wait() -> None:
    """What is beyond the minimum is called more pods."""
    world = draw(RACKS, node="cpu=8", running="n1:cpu=8")
    _, text = _said(allocate(world, gang("train", tasks=2, minimum=1, each="cpu=8", within=1, on="n0")))

    assert text.startswith("hyperNode r0, where its running pods are, has no place now for 1 more pod; ")


def test_pods_of_two_sizes_are_counted_together() -> None:
    """What each size finds by itself is not what both find."""
    world = draw("r0[n0]", node="cpu=8", running="n0:cpu=1")
    waits = gang("train", tasks=1, each="cpu=5", roles=(role("ps", 1, each="cpu=3", minimum=1),), minimum=2)
    _, text = _said(allocate(world, waits))

    assert "1 of 2 pods fits" in text
    assert "2 of 2 pods" not in text


def test_no_bound_that_was_hit_ends_in_never() -> None:
    """The ledger is as it was after the question, so that the cycle's figures are those of its decisions."""
    waits = gang("train", tasks=3, each="cpu=8", within=1)
    alone, beside = allocate(FULL, waits), allocate(FULL, waits, gang("small", tasks=1, each="cpu=8"))

    assert _said(alone) == _said(beside)
    assert "not-now" == _said(beside, "small")[0]


_NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def _taint(key: str) -> Raw:
    return {"taints": [{"key": key, "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "status", "verdict"),
    [
        ({}, _NOT_READY, "not-now"),
        (_taint("node.kubernetes.io/memory-pressure"), {}, "not-now"),
        (_taint("node.kubernetes.io/not-ready"), _NOT_READY, "not-now"),
        (_taint("dedicated"), {}, "never"),
        (_taint("dedicated"), _NOT_READY, "never"),
    ],
    ids=["not ready", "a condition's taint", "both", "a taint that stays", "a taint that stays on one not ready"],
)
def test_a_condition_of_nodes_passes_and_a_taint_of_people_stays(spec: Raw, status: Raw, verdict: str) -> None:
    """A node may be kept from pods by its readiness alone, or by the taint alone that a condition has given it."""
    nodes = [{**raw, "spec": spec, "status": {**raw["status"], **status}} for raw in (node("n0"), node("n1"))]  # type: ignore[dict-item]

    assert verdict == _verdict(World(tuple(nodes), "two nodes"), gang("train", tasks=1, each="cpu=8"))


def test_a_job_without_pods_has_an_entry() -> None:
    """It says what it waits for, under the name of its podGroup."""
    outcome = allocate(draw(RACKS), gang("train", tasks=0, minimum=2))
    (entry,) = pending_wire(outcome.snapshot, outcome.report, {})

    assert ("", "default/train", "not-allowed", "NotEnoughTasks") == (
        entry["pod"],
        entry["podGroup"],
        entry["verdict"],
        entry["reason"],
    )


def test_min_resources_stand_for_pods_that_do_not_exist() -> None:
    """A job that asks for more than any allowed domain has is told never before it has a pod."""
    world = draw(RACKS, node="cpu=8", queues="blue!")
    large = allocate(world, gang("train", tasks=0, minimum=2, least="cpu=17", within=1, queue="blue"))
    small = allocate(world, gang("train", tasks=0, minimum=2, least="cpu=16", within=1, queue="blue"))

    assert ("never", "not-allowed") == (_said(large)[0], _said(small)[0])


def _pod_reason(world: World, *gangs: Gang) -> set[tuple[str, str]]:
    manifests = (*world.manifests, *(m for g in gangs for m in g.manifests()))
    held = objects(*manifests)
    snapshot = build(held, NOW)
    effects = pod_conditions(held, snapshot, cycle(snapshot, profile("gang", "predicates", "network-topology-aware")))
    told: list[Any] = [e.status["conditions"] for e in effects if isinstance(e, PatchStatus)]
    return {(condition["reason"], condition["message"]) for (condition,) in told}


def test_autoscalers_hear_of_room_alone() -> None:
    """Nodes are bought for the reason Unschedulable, which a pod that is held back must not have."""
    ((reason, text),) = _pod_reason(draw(RACKS, queues="blue!"), gang("train", tasks=2, queue="blue"))
    ((short, _),) = _pod_reason(FULL, gang("train", tasks=2, each="cpu=8"))
    ((never, _),) = _pod_reason(FULL, gang("train", tasks=2, each="cpu=9"))

    assert ("NotAllowed", "Unschedulable", "Unschedulable") == (reason, short, never)
    assert "podGroup default/train waits, not allowed: its queue blue is not open" == text


def test_a_group_of_one_pod_is_told_everything() -> None:
    """The condition has the whole message, because no other pod would have to be patched with it."""
    ((_, text),) = _pod_reason(FULL, gang("train", tasks=1, each="cpu=8"))

    assert text.startswith("the cluster has no place now for its pod; in the whole cluster (4 nodes): 0 of 1 pod fits")


def test_every_verdict_has_its_words() -> None:
    """As JSON, people and conditions spell it."""
    expected = {
        "never": ("never", "Never"),
        "not-now": ("not now", "NotNow"),
        "not-allowed": ("not allowed", "NotAllowed"),
    }

    assert expected == {verdict.value: (verdict.words, verdict.camel) for verdict in Verdict}


@pytest.mark.parametrize("queue", ["closed", "default"])
@pytest.mark.parametrize("tasks", [2, 9])
def test_pods_of_a_role_that_nobody_has_made_yet_are_no_matter_of_room(queue: str, tasks: int) -> None:
    """A gang without a pod of a role that its minimum names is not allowed now, however much room there is."""
    lacks = gang(
        "train",
        minimum=2,
        each="cpu=1",
        queue=queue,
        roles=(role("lead", 0, minimum=1), role("work", tasks, minimum=1)),
    )

    assert "not-allowed" == _verdict(draw(RACKS, node="cpu=8", queues="default closed!"), lacks)
