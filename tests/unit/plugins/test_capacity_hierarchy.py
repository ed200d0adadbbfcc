"""Capacity with queues below queues."""

from __future__ import annotations

import pytest
from tests.support.draw import gang
from tests.support.queue_worlds import Hall, code, hall_of, queue

from tierwise.plugins.queues.capacity import Capacity


def company(**arguments: object) -> tuple[Hall, Capacity]:
    """Eight slots. eng (four of them, six at most) over prod and test; ops (four) over web, which has nothing."""
    hall = hall_of(
        "n0..7",
        queue("eng", deserved="cpu=4", capability="cpu=6"),
        queue("prod", parent="eng", deserved="cpu=3"),
        queue("test", parent="eng", deserved="cpu=1"),
        queue("ops", parent="root", deserved="cpu=4"),
        queue("web", parent="ops", deserved="cpu=4"),
        gang("p", tasks=6, minimum=1, queue="prod", on="n0 n1 n2"),
        gang("t", tasks=4, minimum=1, queue="test", on="n3 n4 n5"),
        gang("w", tasks=4, minimum=1, queue="web"),
        gang("boss", tasks=1, queue="eng"),
    )
    return hall, Capacity(arguments, hall.view)


def test_quota_holds_for_every_ancestor() -> None:
    """Three of prod and three of test are all that eng may have, whatever prod could use."""
    hall, plugin = company()

    reason = plugin.quota_exceeded(hall.job("p"), hall.vector("cpu=1"))
    assert "QueueOverCapability" == code(reason)
    assert reason is not None
    assert "queue eng " in reason.text
    assert "" == code(plugin.quota_exceeded(hall.job("w"), hall.vector("cpu=8")))


def test_jobs_stand_in_leaves_only() -> None:
    """A queue with queues below it takes no job."""
    hall, plugin = company()

    assert "QueueUnfit" == code(plugin.quota_exceeded(hall.job("boss"), hall.vector("cpu=1")))
    assert "QueueUnfit" == code(plugin.may_enqueue(hall.job("boss")))


def test_guarantees_are_set_aside_level_by_level() -> None:
    """What is guaranteed to a sibling is out of reach, in the same parent and above."""
    hall = hall_of(
        "n0..7",
        queue("a", guarantee="cpu=2"),
        queue("b"),
        queue("b1", parent="b", guarantee="cpu=1"),
        queue("b2", parent="b"),
        gang("x", tasks=1, queue="b2"),
    )
    plugin = Capacity({}, hall.view)

    assert "" == code(plugin.quota_exceeded(hall.job("x"), hall.vector("cpu=5")))
    assert "QueueOverCapability" == code(plugin.quota_exceeded(hall.job("x"), hall.vector("cpu=6")))


def test_order_compares_where_chains_part() -> None:
    """Ops has nothing, so web goes first; inside eng, prod has three of three, test three of one."""
    hall, plugin = company()
    leaves = [hall.queue(name) for name in ("test", "prod", "web")]

    assert "web prod test" == " ".join(q.name for q in sorted(leaves, key=plugin.queue_key))
    outside = hall.queue("default")
    assert "test prod web" == " ".join(
        q.name for q in sorted(leaves, key=lambda q: plugin.victim_queue_key(q, outside))
    )


def test_nearest_relatives_lose_first() -> None:
    """A queue below ops takes from its own relatives before it turns to eng, whoever holds more."""
    hall, plugin = company()
    leaves = [hall.queue(name) for name in ("test", "prod", "web")]
    taker = hall.queue("prod")

    assert "test" == sorted(leaves[:1] + leaves[2:], key=lambda q: plugin.victim_queue_key(q, taker))[0].name


def test_keys_have_one_length() -> None:
    """Keys of other plugins follow: a shorter chain must not let them slip into its place."""
    hall, plugin = company()

    assert 1 == len({len(plugin.queue_key(q)) for q in hall.view.queues.values()})


def test_victims_by_their_own_queue() -> None:
    """Without ancestors looked at, test loses what it has above its one; prod has what it deserves."""
    hall, plugin = company()

    assert "t-0 t-1" == hall.go(plugin, hall.cause("w"), "p-0 p-1 t-0 t-1 t-2")


def test_ancestors_are_looked_at_up_to_a_level() -> None:
    """Eng has six and deserves four: two may go. For a sibling's sake eng does not count."""
    hall, plugin = company(ancestorReclaimLevel=1)

    assert "t-0 t-1" == hall.go(plugin, hall.cause("w"), "t-0 t-1 t-2")
    hall.evict("p-0 p-1")
    assert "" == hall.go(plugin, hall.cause("w"), "t-0 t-1 t-2")
    assert "t-0 t-1" == hall.go(plugin, hall.cause("p"), "t-0 t-1 t-2")


def test_an_ancestor_counts_all_losses_below_it_whatever_their_depth() -> None:
    """Eng has four and deserves two: its near leaf and its far one may lose two together, not two each."""
    hall = hall_of(
        "n0..3",
        queue("eng", deserved="cpu=2"),
        queue("near", parent="eng"),
        queue("lab", parent="eng"),
        queue("far", parent="lab"),
        queue("other", deserved="cpu=4"),
        gang("x", tasks=2, queue="near", on="n0 n1"),
        gang("y", tasks=2, queue="far", on="n2 n3"),
        gang("new", tasks=4, queue="other"),
    )
    plugin = Capacity({"ancestorReclaimLevel": 2}, hall.view)

    assert "x-0 y-0" == hall.go(plugin, hall.cause("new"), "x-0 y-0 x-1 y-1")


def test_the_guarantee_of_an_ancestor_is_kept() -> None:
    """A parent's guarantee holds against other branches, not between its own queues."""
    hall = hall_of(
        "n0..5",
        queue("b", guarantee="cpu=3"),
        queue("b1", parent="b"),
        queue("b2", parent="b", deserved="cpu=2"),
        queue("c", deserved="cpu=4"),
        gang("x", tasks=4, queue="b1", on="n0 n1 n2 n3"),
        gang("near", tasks=1, queue="b2"),
        gang("far", tasks=1, queue="c"),
    )
    plugin = Capacity({}, hall.view)

    assert "x-0" == hall.go(plugin, hall.cause("far"), "x-0 x-1 x-2")
    assert "x-0 x-1 x-2" == hall.go(plugin, hall.cause("near"), "x-0 x-1 x-2")


def test_ancestors_lend_their_deserved_to_reclaimers() -> None:
    """A queue that deserves nothing reclaims on its parent's account where the level says so."""
    things = (
        queue("eng", deserved="cpu=4"),
        queue("lab", parent="eng"),
        queue("other"),
        gang("x", tasks=2, queue="lab"),
        gang("y", tasks=4, queue="other", on="n0 n1 n2 n3"),
    )
    hall = hall_of("n0..3", *things)

    assert "QueueOverDeserved" == code(Capacity({}, hall.view).may_reclaim(hall.job("x"), hall.vector("cpu=2")))
    lending = Capacity({"ancestorReclaimLevel": "1"}, hall.view)
    assert "" == code(lending.may_reclaim(hall.job("x"), hall.vector("cpu=2")))


def test_near_relatives_that_deserve_nothing_leave_each_other_alone() -> None:
    """Otherwise they would take from each other in turn, cycle after cycle."""
    hall = hall_of(
        "n0..3",
        queue("eng", deserved="cpu=4"),
        queue("lab", parent="eng"),
        queue("den", parent="eng"),
        queue("far"),
        gang("x", tasks=2, queue="lab"),
        gang("y", tasks=2, queue="den", on="n0 n1"),
        gang("z", tasks=2, queue="far", on="n2 n3"),
    )

    assert "y-0 z-0" == hall.go(Capacity({}, hall.view), hall.cause("x"), "y-0 z-0")
    assert "z-0" == hall.go(Capacity({"ancestorReclaimLevel": 1}, hall.view), hall.cause("x"), "y-0 z-0")


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ((queue("a", parent="ghost"),), "the parent ghost of queue a does not exist"),
        ((queue("a", parent="b"), queue("b", parent="a")), "is its own ancestor"),
        ((queue("a", parent="b"), queue("b", parent="c"), queue("c", parent="b")), "is its own ancestor"),
    ],
)
def test_a_broken_chain_is_named_and_the_rest_works(queues: tuple[dict[str, object], ...], says: str) -> None:
    """A queue whose parents go wrong takes no job; others do."""
    hall = hall_of("n0", *queues, queue("fine"), gang("x", tasks=1, queue="a"), gang("y", tasks=1, queue="fine"))
    plugin = Capacity({}, hall.view)
    reason = plugin.quota_exceeded(hall.job("x"), hall.vector("cpu=1"))

    assert "QueueUnfit" == code(reason)
    assert reason is not None
    assert says in reason.text
    assert "" == code(plugin.quota_exceeded(hall.job("y"), hall.vector("cpu=1")))


def test_root_stands_for_the_cluster() -> None:
    """Its capability bounds everything, and it takes no job itself; without a tree it is a queue like any other."""
    things = (
        queue("root", capability="cpu=2"),
        gang("x", tasks=1, queue="leaf"),
        gang("y", tasks=1, queue="root"),
    )
    hall = hall_of("n0..3", queue("top"), queue("leaf", parent="top"), *things)
    plugin = Capacity({}, hall.view)

    assert "QueueOverCapability" == code(plugin.quota_exceeded(hall.job("x"), hall.vector("cpu=3")))
    assert "QueueUnfit" == code(plugin.quota_exceeded(hall.job("y"), hall.vector("cpu=1")))
    flat = hall_of("n0..3", queue("leaf", parent="root"), *things)
    assert "" == code(Capacity({}, flat.view).quota_exceeded(flat.job("x"), flat.vector("cpu=3")))
    assert "" == code(Capacity({}, flat.view).quota_exceeded(flat.job("y"), flat.vector("cpu=1")))


def test_promises_count_along_the_chain() -> None:
    """What one leaf promises is gone for its sibling."""
    hall = hall_of(
        "n0..7",
        queue("eng", capability="cpu=3"),
        queue("a", parent="eng"),
        queue("b", parent="eng"),
        gang("x", tasks=2, least="cpu=2", queue="a"),
        gang("y", tasks=2, least="cpu=2", queue="b"),
    )
    plugin = Capacity({}, hall.view)

    assert "" == code(plugin.may_enqueue(hall.job("x")))
    assert "QueueQuotaExceeded" == code(plugin.may_enqueue(hall.job("y")))
