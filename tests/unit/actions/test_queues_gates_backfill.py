"""Who is tried at all, in which order, and what backfill does with pods that ask for nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import (
    Gang,
    allocate,
    draw,
    gang,
    groups,
    placed,
    role,
    spots,
    why,
)
from tests.support.strategies import profile

from tierwise.api.codec import Raw

_PAIRS = groups(2, size=2, within=1)


def _first(*gangs: Gang) -> str:
    """The name of the gang that gets the only node."""
    outcome = allocate(draw("r0[n0]"), *gangs)
    (pod,) = outcome.bindings
    return pod.rsplit("-", 1)[0]


def test_priority_decides_first() -> None:
    """The more important gang goes first, whatever its age and name."""
    assert "b" == _first(gang("a", tasks=1, each="cpu=8"), gang("b", tasks=1, each="cpu=8", priority=5, created=9))


def test_age_decides_next() -> None:
    """Of equally important gangs the older goes first."""
    assert "b" == _first(gang("a", tasks=1, each="cpu=8", created=1), gang("b", tasks=1, each="cpu=8"))


def test_natural_name_decides_last() -> None:
    """Of gangs of one age g2 goes before g10."""
    assert "g2" == _first(gang("g10", tasks=1, each="cpu=8"), gang("g2", tasks=1, each="cpu=8"))


def test_missing_queue() -> None:
    """A gang of a queue that does not exist waits."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=1, queue="blue"))

    assert ({}, "QueueNotFound") == (placed(outcome, "train"), why(outcome, "train"))


def test_closed_queue() -> None:
    """A gang of a closed queue waits."""
    outcome = allocate(draw("r0[n0]", queues="blue!"), gang("train", tasks=1, queue="blue"))

    assert ({}, "QueueClosed") == (placed(outcome, "train"), why(outcome, "train"))


@pytest.mark.parametrize("each", ["cpu=1", ""])
def test_a_queue_that_closed_after_the_gang_entered(each: str) -> None:
    """A gang that was let in before its queue closed starts nothing more, best-effort pods included."""
    late = gang("train", tasks=1, each=each, queue="blue", phase="Inqueue")
    outcome = allocate(draw("r0[n0]", queues="blue!"), late)

    assert ({}, "QueueClosed") == (placed(outcome, "train"), why(outcome, "train"))


@pytest.mark.parametrize("each", ["cpu=1", ""])
def test_a_queue_that_is_gone(each: str) -> None:
    """A gang whose queue was removed waits with that reason, best-effort pods included."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=1, each=each, queue="blue", phase="Inqueue"))

    assert ({}, "QueueNotFound") == (placed(outcome, "train"), why(outcome, "train"))


def test_open_queue() -> None:
    """A gang of an open queue is tried like any other."""
    assert "n0" == spots(allocate(draw("r0[n0]", queues="blue"), gang("train", tasks=1, queue="blue")), "train")


def test_gated_pods_wait() -> None:
    """A pod behind a scheduling gate is left alone, and the others of its gang start without it if they may."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=2, minimum=1, on="~"))

    assert {"train-1": "n0"} == outcome.bindings


def test_gated_pods_hold_their_gang() -> None:
    """A gang whose minimum needs a gated pod waits."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=2, on="~"))

    assert {} == placed(outcome, "train")
    assert "" != why(outcome, "train")


def test_a_gang_that_waits_for_gates_does_not_speak_for_others() -> None:
    """A gang like it that has all its pods is placed."""
    world = draw("r0[n0 n1 n2 n3]")
    gated = gang("gated", each="cpu=8", within=1, groups=(_PAIRS,), on="- - ~ ~")
    free = gang("free", each="cpu=8", within=1, groups=(_PAIRS,), created=1)

    assert 4 == len(placed(allocate(world, gated, free), "free"))


def test_best_effort_pods_are_backfilled() -> None:
    """A pod that asks for nothing is placed once the others are, also where no resource is left."""
    outcome = allocate(draw("r0[n0]"), gang("full", tasks=1, each="cpu=8"), gang("light", tasks=1, each=""))

    assert {"full-0": "n0", "light-0": "n0"} == outcome.bindings


def test_without_backfill_best_effort_pods_wait() -> None:
    """Allocate leaves pods that ask for nothing alone."""
    only = profile("gang", actions="enqueue allocate")

    assert {} == placed(allocate(draw("r0[n0]"), gang("light", tasks=1, each=""), profile=only), "light")


def test_best_effort_pods_take_pod_slots() -> None:
    """Backfill puts no more pods on a node than it has slots."""
    outcome = allocate(draw("r0[n0]", node="cpu=8 pods=2"), gang("light", tasks=3, each="", minimum=1))

    assert ({"n0": 2}, "NotEnoughResources") == (placed(outcome, "light"), why(outcome, "light"))


def test_best_effort_pods_count_as_ready() -> None:
    """A gang's best-effort pods count towards its minimum before they are placed."""
    mixed = gang("train", tasks=1, each="cpu=8", roles=(role("log", 1, each=""),), minimum=2)

    assert {"train-0": "n0", "train-log-0": "n0"} == allocate(draw("r0[n0]"), mixed).bindings


def test_best_effort_pods_do_not_start_ahead_of_their_gang() -> None:
    """Where the rest of a gang finds no place, its best-effort pods wait with it."""
    mixed = gang("train", tasks=2, each="cpu=8", roles=(role("log", 1, each=""),))

    assert {} == placed(allocate(draw("r0[n0]"), mixed), "train")


_ALL_OF_IT = gang("train", tasks=2, each="cpu=4", roles=(role("log", 1, each=""),), minimum=2, priority=9, queue="q")
_ONE_ROLE = gang(
    "train", tasks=1, each="", roles=(role("lead", 1, each="cpu=4", minimum=1),), minimum=1, priority=9, queue="q"
)


@pytest.mark.parametrize(
    ("mixed", "nominated"), [(_ALL_OF_IT, ("train-0", "train-1")), (_ONE_ROLE, ("train-lead-0",))], ids=["two", "lead"]
)
@pytest.mark.parametrize(
    "actions", ["allocate gangpreempt", "allocate jobpreempt", "gangpreempt allocate", "jobpreempt allocate"]
)
def test_best_effort_pods_wait_with_a_gang_that_is_nominated(
    mixed: Gang, nominated: tuple[str, ...], actions: str
) -> None:
    """Also where the gang has idle nodes, and waits for nothing but a quota that victims give back."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"capability": {"cpu": "8"}},
    }
    world = draw("r0[n0 n1]", node="cpu=8")
    old = gang("old", tasks=1, each="cpu=8", on="n0", queue="q")
    plugins = ("priority", "gang", "conformance", "capacity", "predicates")
    outcome = allocate(
        replace(world, manifests=(*world.manifests, queue)),
        *(old, mixed),
        profile=profile(*plugins, actions=f"enqueue {actions} backfill"),
    )

    assert ({}, dict.fromkeys(nominated, "n1")) == (outcome.bindings, outcome.nominations)
    assert "WaitsForGang" == why(outcome, "train")


def test_backfill_keeps_the_reason_of_what_still_waits() -> None:
    """A gang whose surplus found no room says so, also after its best-effort pods were placed."""
    mixed = gang("train", tasks=2, each="cpu=8", minimum=1, roles=(role("log", 1, each=""),))

    assert "NotEnoughResources" == why(allocate(draw("r0[n0]"), mixed), "train")


def test_best_effort_pods_of_an_incomplete_sub_group_wait() -> None:
    """A sub-group with fewer pods than its size does not start, though its pods ask for nothing."""
    outcome = allocate(draw("r0[n0]"), gang("light", each="", groups=(groups(1, size=2, tasks=1),)))

    assert ({}, True) == (placed(outcome, "light"), bool(why(outcome, "light")))
