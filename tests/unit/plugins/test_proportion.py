"""Proportion: what queues deserve by weight, and what follows from it."""

from __future__ import annotations

from tests.support.draw import gang
from tests.support.points import answers
from tests.support.queue_worlds import Hall, code, hall_of, queue

from tierwise.framework.extension import Purpose
from tierwise.plugins.queues.proportion import Proportion


def deserved(hall: Hall, resource: str = "cpu") -> dict[str, int]:
    """What each queue deserves of a resource."""
    row = Proportion({}, hall.view).deserved[hall.view.axis.index[resource]]
    return {name: int(row[column]) for name, column in hall.ledger.queue_index.items() if name != "default"}


def two_queues(**second: object) -> Hall:
    """Four slots: queue a asks for three and holds none, queue b asks for five and holds three."""
    return hall_of(
        "n0..3",
        queue("a"),
        queue("b", **second),  # type: ignore[arg-type]
        gang("poor", tasks=3, minimum=2, each="cpu=1 mem=1", queue="a"),
        gang("rich", tasks=5, minimum=1, each="cpu=1 mem=1", queue="b", on="n0 n1 n2"),
    )


def test_takes_part_everywhere() -> None:
    """The plugin has a say in order, quota, overuse, enqueueing and reclaim."""
    plugin = Proportion({}, two_queues().view)
    shares = "queue_key", "quota_exceeded", "overused", "entitled"

    assert answers(plugin, *shares, "may_enqueue", "may_reclaim", "protect", "victim_queue_key")


def test_equal_weights_share_equally() -> None:
    """Two queues that ask for more than half deserve half each."""
    assert {"a": 2000, "b": 2000} == deserved(two_queues())


def test_weights_decide() -> None:
    """Three times the weight is three times the share."""
    assert {"a": 1000, "b": 3000} == deserved(two_queues(weight=3))


def test_a_weight_below_one_is_one() -> None:
    """A weight of 0, or a negative one, is Volcano's default."""
    assert deserved(two_queues()) == deserved(two_queues(weight=0)) == deserved(two_queues(weight=-4))


def test_nobody_deserves_more_than_it_asks_for() -> None:
    """What a modest queue leaves goes to the others."""
    hall = hall_of(
        "n0..3",
        queue("a", weight=9),
        queue("b"),
        gang("small", tasks=1, queue="a"),
        gang("large", tasks=9, queue="b"),
    )

    assert {"a": 1000, "b": 3000} == deserved(hall)


def test_capability_and_guarantee_bound_the_share() -> None:
    """A capability caps, a guarantee lifts, and what is guaranteed to others is out of reach."""
    assert {"a": 3000, "b": 1000} == deserved(two_queues(capability="cpu=1"))
    assert {"a": 1000, "b": 3000} == deserved(two_queues(guarantee="cpu=3"))


def test_a_guarantee_counts_while_nobody_asks() -> None:
    """An idle queue keeps its guarantee; the others share the rest."""
    hall = hall_of("n0..3", queue("idle", guarantee="cpu=1"), queue("b"), gang("large", tasks=9, queue="b"))

    assert {"idle": 1000, "b": 3000} == deserved(hall)


def test_whole_units_are_shared_out_to_the_last() -> None:
    """Five devices for two queues: three and two, the first by name has one more."""
    queues = (queue("b"), queue("a"))
    gangs = (gang("x", tasks=5, each="gpu=1", queue="a"), gang("y", tasks=5, each="gpu=1", queue="b"))

    assert {"a": 3, "b": 2} == deserved(hall_of("n0", *queues, *gangs, node="gpu=5"), "nvidia.com/gpu")


def test_order_follows_priority_then_share() -> None:
    """Whoever has less of what it deserves goes first, unless a queue is more important; victims the other way."""
    hall = two_queues()
    plugin = Proportion({}, hall.view)
    important = Proportion({}, two_queues(priority=1).view)

    assert plugin.queue_key(hall.queue("a")) < plugin.queue_key(hall.queue("b"))
    taker = hall.queue("default")
    assert plugin.victim_queue_key(hall.queue("b"), taker) < plugin.victim_queue_key(hall.queue("a"), taker)
    other = two_queues(priority=1)
    assert important.queue_key(other.queue("b")) < important.queue_key(other.queue("a"))
    assert important.victim_queue_key(other.queue("a"), taker) < important.victim_queue_key(other.queue("b"), taker)


def test_shares_follow_the_ledger_and_rewind() -> None:
    """A task given raises the share of its queue; rewinding restores it."""
    hall = two_queues()
    plugin = Proportion({}, hall.view)
    before = plugin.queue_key(hall.queue("a"))
    with hall.ledger.statement():
        hall.ledger.charge(hall.job("poor"), hall.vector("cpu=1 mem=1"))

        assert (0.0, 0.5) == plugin.queue_key(hall.queue("a"))
    assert (0.0, 0.0) == before == plugin.queue_key(hall.queue("a"))


def test_quota_and_overuse() -> None:
    """A queue is given no more than it deserves of any resource asked for; with all of it, it has no turn."""
    hall = two_queues()
    plugin = Proportion({}, hall.view)

    assert "" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=2 mem=2 pods=2")))
    assert "QueueOverDeserved" == code(plugin.quota_exceeded(hall.job("poor"), hall.vector("cpu=2 mem=3 pods=2")))
    assert "" == code(plugin.quota_exceeded(hall.job("rich"), hall.vector("pods=1")))
    assert "" == code(plugin.overused(hall.queue("a")))
    assert "" == code(plugin.overused(hall.queue("b")))  # it may still have pods that ask for nothing
    hall.ledger.charge(hall.job("rich"), hall.vector("pods=2"))
    assert "QueueOverused" == code(plugin.overused(hall.queue("b")))


def test_reclaim_gate_weighs_the_whole_need() -> None:
    """Two of two deserved may be reclaimed, three may not."""
    hall = two_queues()
    plugin = Proportion({}, hall.view)

    assert "" == code(plugin.may_reclaim(hall.job("poor"), hall.vector("cpu=2 mem=2 pods=2")))
    assert "QueueOverDeserved" == code(plugin.may_reclaim(hall.job("poor"), hall.vector("cpu=3 mem=3 pods=3")))


def test_victims_go_down_to_deserved() -> None:
    """Victims go while their queue has more than it deserves, each counted; then no more."""
    hall = two_queues()
    plugin = Proportion({}, hall.view)

    assert "rich-0" == hall.go(plugin, hall.cause("poor"), "rich-0 rich-1 rich-2")
    hall.evict("rich-0")
    assert "" == hall.go(plugin, hall.cause("poor"), "rich-1 rich-2")


def test_no_say_in_preemption() -> None:
    """Preemption stays inside a queue: shares do not change."""
    hall = two_queues()

    assert "rich-0 rich-1" == hall.go(
        Proportion({}, hall.view), hall.cause("poor", purpose=Purpose.PREEMPT), "rich-0 rich-1"
    )


def test_a_queue_that_is_not_reclaimable_loses_nothing() -> None:
    """The mark on the queue spares its tasks."""
    hall = two_queues(reclaimable=False)

    assert "" == hall.go(Proportion({}, hall.view), hall.cause("poor"), "rich-0 rich-1")


def test_no_victim_takes_a_queue_below_its_guarantee() -> None:
    """A large task stays where losing it would break the guarantee; a small one after it may go."""
    hall = hall_of(
        "n0 n1",
        queue("a"),
        queue("b", guarantee="cpu=4"),
        gang("poor", tasks=9, queue="a"),
        gang("big", tasks=1, each="cpu=3", queue="b", on="n0"),
        gang("small", tasks=2, each="cpu=1", queue="b", on="n0 n1"),
        node="cpu=4",
    )

    assert "small-0" == hall.go(Proportion({}, hall.view), hall.cause("poor"), "big-0 small-0 small-1")


def test_enqueue_keeps_promises_within_the_capability() -> None:
    """The minimums of jobs let in, before and in this cycle, count against the capability of their queue."""
    hall = hall_of(
        "n0..9",
        queue("a", capability="cpu=5"),
        gang("in", tasks=2, least="cpu=2", queue="a", phase="Inqueue"),
        gang("first", tasks=2, least="cpu=2", queue="a"),
        gang("second", tasks=2, least="cpu=2", queue="a"),
        gang("nothing", tasks=2, queue="a"),
    )
    plugin = Proportion({}, hall.view)

    assert "" == code(plugin.may_enqueue(hall.job("first")))
    assert "" == code(plugin.may_enqueue(hall.job("first")))
    assert "QueueQuotaExceeded" == code(plugin.may_enqueue(hall.job("second")))
    assert "" == code(plugin.may_enqueue(hall.job("nothing")))


def test_what_a_job_has_beyond_its_minimum_is_not_promised() -> None:
    """A running job counts with its minResources, not with the replicas on top."""
    hall = hall_of(
        "n0..4",
        queue("a", capability="cpu=5"),
        gang("elastic", tasks=4, minimum=1, least="cpu=1", queue="a", on="n0 n1 n2 n3", phase="Running"),
        gang("new", tasks=4, least="cpu=4", queue="a"),
    )

    assert "" == code(Proportion({}, hall.view).may_enqueue(hall.job("new")))
