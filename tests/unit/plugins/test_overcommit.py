"""Overcommit: how many jobs are let in before the cluster has enough to do."""

from __future__ import annotations

import pytest
from tests.support.draw import gang
from tests.support.points import takes
from tests.support.queue_worlds import Hall, code, hall_of

from tierwise.framework.extension import EnqueueGate
from tierwise.plugins.queues.overcommit import Overcommit


def hall(**first: object) -> Hall:
    """Ten cpus, two of them used by nobody's pod; jobs that ask for four, six and ten at least."""
    sizes = {"four": 4, "six": 6, "ten": 10}
    gangs = [gang(name, tasks=1, least=f"cpu={least}") for name, least in sizes.items()]
    extra = [gang("first", tasks=8, **first)] if first else []  # type: ignore[arg-type]
    return hall_of("n0", *extra, *gangs, gang("any", tasks=1), node="cpu=10", running="n0:cpu=2")


def test_is_an_enqueue_gate() -> None:
    """The plugin has a say in enqueueing alone."""
    assert takes(Overcommit({}, hall().view), EnqueueGate)


def test_one_fifth_more_than_there_is() -> None:
    """Two used and ten asked for are twelve tenths; what is let in counts for the next."""
    h = hall()
    plugin = Overcommit({}, h.view)

    assert ["", "", "ClusterOvercommitted", ""] == [
        code(plugin.may_enqueue(h.job(name))) for name in ("four", "six", "ten", "any")
    ]
    assert "" == code(plugin.may_enqueue(h.job("six")))
    assert "" == code(Overcommit({}, h.view).may_enqueue(h.job("ten")))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"overcommit-factor": 1}, "ClusterOvercommitted"),
        ({"overcommit-factor": "1.2"}, ""),
        ({"overcommit-factor": 0.5}, ""),  # below 1: the default
        ({"overcommit-factor": "many"}, ""),
        ({"overcommit-factor": 1, "overcommit-factor.cpu": 1.2}, ""),
        ({"overcommit-factor.cpu": 1.1}, "ClusterOvercommitted"),
        ({"overcommit-factor": 1, "overcommit-factor.memory": 9}, "ClusterOvercommitted"),
    ],
)
def test_factors(arguments: dict[str, object], expected: str) -> None:
    """One factor for all, and one for each resource that is named."""
    h = hall()

    assert expected == code(Overcommit(arguments, h.view).may_enqueue(h.job("ten")))


def test_jobs_let_in_before_count_with_what_they_lack() -> None:
    """An enqueued job that holds three of its five claims two more; one that waits outside claims nothing."""
    h = hall(least="cpu=5", minimum=5, on="n0 n0 n0", phase="Inqueue")
    plugin = Overcommit({}, h.view)

    assert "ClusterOvercommitted" == code(plugin.may_enqueue(h.job("six")))
    assert "" == code(plugin.may_enqueue(h.job("four")))


def test_a_running_job_below_its_minimum_claims_nothing() -> None:
    """What it gave back is not reserved for it again."""
    h = hall(least="cpu=5", minimum=5, on="n0 n0 n0 + + + + +", phase="Running")

    assert "" == code(Overcommit({}, h.view).may_enqueue(h.job("six")))
