"""Dominant resource fairness: among jobs, in preemption, and among queues that declare a path."""

from __future__ import annotations

import pytest
from tests.support.draw import gang
from tests.support.points import takes
from tests.support.queue_worlds import Hall, hall_of, queue

from tierwise.framework.extension import JobOrder, Purpose, QueueOrder, VictimFilter
from tierwise.plugins.queues.drf import drf


def mixed() -> Hall:
    """Ten cpus, ten Gi: one job has four cpus, one has five Gi, one waits."""
    return hall_of(
        "n0",
        gang("cpus", tasks=4, each="cpu=1", on="n0 n0 n0 n0"),
        gang("memory", tasks=5, each="mem=1", on="n0 n0 n0 n0 n0"),
        gang("waits", tasks=3, each="cpu=1"),
        node="cpu=10 mem=10",
    )


def test_jobs_are_ordered_by_dominant_share() -> None:
    """Half of the memory is more than two fifths of the cpus."""
    hall = mixed()
    plugin = drf({}, hall.view)

    assert takes(plugin, JobOrder)
    assert "waits cpus memory" == " ".join(
        job.key.removeprefix("default/") for job in sorted(hall.view.jobs, key=plugin.job_key)
    )
    assert (0.4,) == plugin.job_key(hall.job("cpus"))


def test_shares_follow_the_ledger_and_rewind() -> None:
    """What a job is given counts at once, and is forgotten with the statement."""
    hall = mixed()
    plugin = drf({}, hall.view)
    with hall.ledger.statement():
        hall.ledger.charge(hall.job("waits"), hall.vector("cpu=6"))

        assert (0.6,) == plugin.job_key(hall.job("waits"))
    assert (0.0,) == plugin.job_key(hall.job("waits"))


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        ("cpu=1", "cpus-0 cpus-1 cpus-2"),
        ("cpu=2", "cpus-0 cpus-1"),  # equal shares after the exchange are fine
        ("cpu=4", ""),
    ],
)
def test_a_preemption_must_not_turn_shares_around(need: str, expected: str) -> None:
    """A victim goes where its job keeps at least the share that the preemptor would have."""
    hall = mixed()
    plugin = drf({}, hall.view)
    preemptor = hall.cause("waits", purpose=Purpose.PREEMPT, need=need)

    assert takes(plugin, VictimFilter)
    assert expected == hall.go(plugin, preemptor, "cpus-0 cpus-1 cpus-2 cpus-3")


def test_no_say_in_reclaim() -> None:
    """Between queues, quotas decide."""
    hall = mixed()

    assert "cpus-0 cpus-1" == hall.go(drf({}, hall.view), hall.cause("waits", need="cpu=9"), "cpus-0 cpus-1")


def test_queues_have_no_say_unless_one_declares_a_path() -> None:
    """Then the order of queues does not move with every task."""
    assert not takes(drf({}, mixed().view), QueueOrder)


def tree(**asks: int) -> Hall:
    """Ten cpus; sci (weight 1) and eng (weight 3) over dev and prod, each with a job that asks for 9."""
    paths = {"sci": ("root/sci", "1/1"), "dev": ("root/eng/dev", "1/3/1"), "prod": ("root/eng/prod", "1/3/1")}
    return hall_of(
        "n0",
        *(queue(name, hierarchy=path, weights=weights) for name, (path, weights) in paths.items()),
        *(
            gang(f"{name}-job", tasks=9, minimum=1, queue=name, on=" ".join(["n0"] * asks.get(name, 0)))
            for name in paths
        ),
        node="cpu=10",
    )


def order(hall: Hall) -> str:
    """The queues with a path, the first to be served first."""
    plugin = drf({}, hall.view)
    assert takes(plugin, QueueOrder)
    return " ".join(q.name for q in sorted(hall.view.queues.values(), key=plugin.queue_key) if q.name != "default")


def test_shares_count_by_weight() -> None:
    """Three of ten by weight three are less than two of ten by weight one."""
    assert "dev prod sci" == order(tree(sci=2, dev=1, prod=2))
    assert "sci prod dev" == order(tree(sci=0, dev=2, prod=1))


def test_a_branch_counts_with_its_poorest_queue() -> None:
    """Prod's six do not count against dev: eng stands where dev does, twice."""
    assert "dev prod sci" == order(tree(sci=2, dev=1, prod=6))


def test_who_has_all_comes_last() -> None:
    """A queue whose jobs have all that they ask for is saturated."""
    hall = hall_of(
        "n0",
        queue("a", hierarchy="root/a", weights="1/1"),
        queue("b", hierarchy="root/b", weights="1/1"),
        gang("full", tasks=1, queue="a", on="n0"),
        gang("hungry", tasks=9, minimum=1, queue="b", on="n0 n0 n0 n0"),
        node="cpu=10",
    )

    assert "b a" == order(hall)


def test_queues_without_a_path_stand_below_the_root() -> None:
    """With their own weight; all keys have one length."""
    hall = hall_of(
        "n0",
        queue("plain", weight=4),
        queue("deep", hierarchy="root/x/y", weights="1/nonsense"),
        gang("p", tasks=9, minimum=1, queue="plain", on="n0 n0 n0"),
        gang("d", tasks=9, minimum=1, queue="deep", on="n0"),
        node="cpu=10",
    )
    plugin = drf({}, hall.view)

    assert "plain deep" == order(hall)
    assert takes(plugin, QueueOrder)
    assert 1 == len({len(plugin.queue_key(q)) for q in hall.view.queues.values()})
