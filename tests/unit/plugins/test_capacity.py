"""Capacity: queues side by side, each with the amounts that it declares."""

from __future__ import annotations

import pytest
from tests.support.draw import gang
from tests.support.points import answers
from tests.support.queue_worlds import Hall, code, hall_of, queue

from tierwise.api.codec import Raw
from tierwise.framework.extension import Purpose
from tierwise.plugins.queues.capacity import Capacity


def two_queues(a: Raw, b: Raw) -> Hall:
    """Four slots, all held by gangs of queue b; a gang of queue a waits."""
    return hall_of(
        "n0..3",
        a,
        b,
        gang("poor", tasks=4, minimum=1, each="cpu=1 mem=1", queue="a"),
        gang("rich", tasks=4, minimum=1, each="cpu=1 mem=1", queue="b", on="n0 n1 n2 n3"),
    )


def test_takes_part_everywhere_but_in_overuse() -> None:
    """A queue that has what it deserves may go on: capacity knows no overuse."""
    plugin = Capacity({}, two_queues(queue("a"), queue("b")).view)

    assert answers(
        plugin, "queue_key", "quota_exceeded", "may_enqueue", "may_reclaim", "protect", "victim_queue_key", "entitled"
    )
    assert not answers(plugin, "overused")


def test_deserved_is_bounded_by_the_real_capability() -> None:
    """What is declared is cut to what the queue could ever use, and raised to its guarantee."""
    hall = two_queues(queue("a", deserved="cpu=9"), queue("b", deserved="cpu=1", guarantee="cpu=2"))
    plugin = Capacity({}, hall.view)
    cpu = hall.view.axis.index["cpu"]

    assert {"a": 2000, "b": 2000} == {q: int(plugin.deserved[cpu, hall.ledger.queue_index[q]]) for q in "ab"}


def test_quota_is_the_real_capability() -> None:
    """A queue may have what the cluster has, less the guarantees of others, and at most its capability."""
    hall = two_queues(queue("a"), queue("b", guarantee="cpu=1"))
    plugin = Capacity({}, hall.view)

    assert "" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=3")))
    assert "QueueOverCapability" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=4")))
    assert "" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("pods=1")))
    hall = two_queues(queue("a", capability="cpu=2"), queue("b"))
    assert "QueueOverCapability" == code(Capacity({}, hall.view).quota_exceeded(hall.job("poor"), hall.vector("cpu=3")))


def test_nodes_that_are_not_ready_are_not_shared_out() -> None:
    """Queues share what nodes have that can take pods."""
    dead: Raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n9"},
        "status": {"allocatable": {"cpu": "8", "pods": "9"}, "conditions": [{"type": "Ready", "status": "False"}]},
    }
    hall = hall_of("n0 n1", dead, gang("new", tasks=3))
    plugin = Capacity({}, hall.view)
    allowed, refused = (code(plugin.quota_exceeded(hall.job("new"), hall.vector(f"cpu={n}"))) for n in (2, 3))

    assert ("", "QueueOverCapability") == (allowed, refused)


def test_a_capability_of_no_cpu_is_none() -> None:
    """Volcano reads zero cpu or memory as left out; zero devices are none at all."""
    hall = hall_of(
        "n0",
        queue("a", capability="cpu=0 gpu=0"),
        gang("poor", tasks=1, each="cpu=1 gpu=1", queue="a"),
        node="cpu=4 gpu=4",
    )
    plugin = Capacity({}, hall.view)

    assert "" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=4")))
    assert "QueueOverCapability" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("gpu=1")))


def test_a_closed_queue_is_given_nothing() -> None:
    """Neither room nor the right to reclaim."""
    hall = two_queues(queue("a", deserved="cpu=4", open=False), queue("b"))
    plugin = Capacity({}, hall.view)

    assert "QueueClosed" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=1")))
    assert "QueueClosed" == code(plugin.may_reclaim(hall.job("poor"), hall.vector("cpu=1")))


@pytest.mark.parametrize(
    ("deserved", "need", "expected"),
    [
        ("cpu=2 mem=2", "cpu=2 mem=2", ""),
        ("cpu=2 mem=2", "cpu=3 mem=3", "QueueOverDeserved"),
        ("cpu=2 mem=4", "cpu=3 mem=3", ""),  # one resource is enough
        ("mem=4", "cpu=1", "QueueOverDeserved"),  # nothing that it names is needed
        ("", "cpu=1", "QueueOverDeserved"),
        ("pods=1", "cpu=4 pods=1", ""),  # pods count where deserved names them
        ("cpu=4", "cpu=5", "QueueOverCapability"),
    ],
)
def test_reclaim_gate(deserved: str, need: str, expected: str) -> None:
    """All of the need within the capability, and within deserved in one resource that both name."""
    hall = two_queues(queue("a", deserved=deserved), queue("b"))

    assert expected == code(Capacity({}, hall.view).may_reclaim(hall.job("poor"), hall.vector(need)))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"deserved": "cpu=2 mem=2"}, "rich-0 rich-1"),
        ({"deserved": "cpu=4 mem=2"}, "rich-0 rich-1"),  # above in one resource is enough
        ({"deserved": "cpu=4 mem=4"}, ""),
        ({}, "rich-0 rich-1 rich-2 rich-3"),  # nothing deserved: everything is borrowed
        ({"guarantee": "cpu=3"}, "rich-0"),
        ({"deserved": "cpu=1", "guarantee": "mem=3"}, "rich-0"),
        ({"deserved": "gpu=4"}, "rich-0 rich-1 rich-2 rich-3"),  # no resource in common
        ({"deserved": "cpu=2", "reclaimable": False}, ""),
    ],
)
def test_victims(declared: dict[str, str], expected: str) -> None:
    """Victims go in order while their queue has more than it deserves and keeps its guarantee."""
    hall = two_queues(queue("a", deserved="cpu=4"), queue("b", **declared))

    assert expected == hall.go(Capacity({}, hall.view), hall.cause("poor"), "rich-0 rich-1 rich-2 rich-3")


def test_the_last_victim_may_take_a_queue_below_deserved() -> None:
    """A victim is weighed before it is taken off: by less than one task a queue may fall below."""
    hall = hall_of(
        "n0",
        queue("a", deserved="cpu=4"),
        queue("b", deserved="cpu=3"),
        gang("poor", tasks=1, queue="a"),
        gang("rich", tasks=2, each="cpu=2", queue="b", on="n0 n0"),
        node="cpu=4",
    )

    assert "rich-0" == hall.go(Capacity({}, hall.view), hall.cause("poor"), "rich-0 rich-1")


def test_victims_of_several_queues_are_counted_apart() -> None:
    """What one queue loses says nothing about another; who was spared costs nobody anything."""
    hall = hall_of(
        "n0..5",
        queue("a", deserved="cpu=2"),
        queue("b", deserved="cpu=2"),
        queue("c", deserved="cpu=2"),
        gang("poor", tasks=2, queue="a"),
        gang("x", tasks=3, queue="b", on="n0 n1 n2"),
        gang("y", tasks=3, queue="c", on="n3 n4 n5"),
    )

    assert "x-0 y-0" == hall.go(Capacity({}, hall.view), hall.cause("poor"), "x-0 x-1 y-0 x-2 y-1 y-2")


def test_no_say_in_preemption() -> None:
    """Preemption stays inside a queue."""
    hall = two_queues(queue("a"), queue("b", deserved="cpu=4"))

    assert "rich-0" == hall.go(Capacity({}, hall.view), hall.cause("poor", purpose=Purpose.PREEMPT), "rich-0")


def test_order() -> None:
    """By priority, then share; a queue that deserves nothing has share 1 and comes after its equals."""
    hall = hall_of(
        "n0..3",
        queue("best", priority=2),
        queue("even", deserved="cpu=1"),
        queue("poor", deserved="cpu=4"),
        queue("none"),
        queue("rich", deserved="cpu=1"),
        gang("e", tasks=1, queue="even", on="n0"),
        gang("r", tasks=2, queue="rich", on="n1 n2"),
    )
    plugin = Capacity({}, hall.view)
    queues = [q for q in hall.view.queues.values() if q.name != "default"]

    assert "best poor even none rich" == " ".join(q.name for q in sorted(queues, key=plugin.queue_key))
    assert "rich none even poor best" == " ".join(
        q.name for q in sorted(queues, key=lambda q: plugin.victim_queue_key(q, hall.queue("default")))
    )


def test_enqueue_keeps_promises_within_the_real_capability() -> None:
    """MinResources count against what the queue could ever use."""
    hall = hall_of(
        "n0..3",
        queue("a"),
        queue("b", guarantee="cpu=1"),
        gang("first", tasks=2, least="cpu=2", queue="a"),
        gang("second", tasks=2, least="cpu=2", queue="a"),
        gang("unknown", tasks=1, least="example.com/thing=1", queue="a"),
    )
    plugin = Capacity({}, hall.view)

    assert "" == code(plugin.may_enqueue(hall.job("first")))
    assert "QueueQuotaExceeded" == code(plugin.may_enqueue(hall.job("second")))
    assert "QueueQuotaExceeded" == code(plugin.may_enqueue(hall.job("unknown")))


@pytest.mark.parametrize(("held", "expected"), [(2, ""), (3, "rich-0"), (4, "rich-0 rich-1")])
def test_two_queues_do_not_take_from_each_other_in_turn(held: int, expected: str) -> None:
    """Where either could take from the other, rich in one resource and poor in another, the smaller share takes."""
    hall = hall_of(
        "n0",
        queue("a", deserved="cpu=1 mem=4"),
        queue("b", deserved="cpu=4 mem=1"),
        gang("rich", tasks=held, each="cpu=1 mem=1", queue="b", on=" ".join(["n0"] * held)),
        gang("poor", tasks=2, each="cpu=1 mem=1", queue="a"),
        node="cpu=8 mem=8",
    )
    names = " ".join(f"rich-{i}" for i in range(held))

    assert expected == hall.go(Capacity({}, hall.view), hall.cause("poor", need="cpu=2 mem=2"), names)
