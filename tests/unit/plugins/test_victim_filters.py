"""Victim filters of conformance, priority and gang, and who starves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import gang, role
from tests.support.points import takes
from tests.support.queue_worlds import Hall, hall_of

from tierwise.api.codec import Raw
from tierwise.framework.extension import Purpose, Starving, VictimFilter
from tierwise.framework.ledger import Pool
from tierwise.plugins.conformance import Conformance
from tierwise.plugins.gang import GangPlugin
from tierwise.plugins.priority import Priority

PREEMPT, RECLAIM = Purpose.PREEMPT, Purpose.RECLAIM


def system_pod(name: str, node: str, priority_class: str) -> list[Raw]:
    """A pod group of one pod with a priority class."""
    group, pod = gang(name, tasks=1, on=node).manifests()
    spec = pod["spec"]
    assert isinstance(spec, dict)
    return [group, {**pod, "spec": {**spec, "priorityClassName": priority_class}}]


def test_conformance_spares_system_pods() -> None:
    """Whatever the purpose."""
    hall = hall_of(
        "n0..2",
        *system_pod("crit", "n0", "system-node-critical"),
        gang("plain", tasks=1, on="n1"),
        gang("new", tasks=1),
    )
    plugin = Conformance({}, hall.view)

    assert takes(plugin, VictimFilter)
    assert not plugin.counts
    for purpose in Purpose:
        assert "plain-0" == hall.go(plugin, hall.cause("new", purpose=purpose), "crit-0 plain-0")


def ranks() -> Hall:
    """Jobs of three priorities, all running, and a job of the middle one with a task that waits."""
    return hall_of(
        "n0..3",
        gang("low", tasks=1, on="n0", priority=1),
        gang("same", tasks=1, on="n1", priority=5),
        gang("high", tasks=1, on="n2", priority=9),
        gang("new", tasks=2, on="n3", priority=5),
    )


def test_priority_lets_only_less_important_jobs_be_preempted() -> None:
    """Equal is not less, and nobody preempts itself; in reclaim priority has no say."""
    hall = ranks()
    plugin = Priority({}, hall.view)
    everyone = "low-0 same-0 high-0 new-0"

    assert takes(plugin, VictimFilter)
    assert "low-0" == hall.go(plugin, hall.cause("new", purpose=PREEMPT), everyone)
    assert "low-0" == hall.go(plugin, hall.cause("new", purpose=PREEMPT, gang=False), everyone)
    assert everyone == hall.go(plugin, hall.cause("new", purpose=RECLAIM), everyone)


def test_pods_by_themselves_are_preempted_by_their_own_priority() -> None:
    """Equal is not less there either."""
    hall = ranks()
    cause = replace(hall.cause("new", purpose=PREEMPT, gang=False), by_pod=True)

    assert "low-0" == hall.go(Priority({}, hall.view), cause, "low-0 same-0 high-0")


def test_less_important_tasks_of_one_job_make_room_one_by_one() -> None:
    """Inside a job the tasks' own priorities count, where single tasks are weighed."""
    group, *pods = gang("mixed", tasks=3, on="n0 n1", priority=5).manifests()
    spec = pods[0]["spec"]
    assert isinstance(spec, dict)
    hall = hall_of("n0 n1", group, {**pods[0], "spec": {**spec, "priority": 1}}, *pods[1:])
    plugin = Priority({}, hall.view)

    assert "mixed-0" == hall.go(plugin, hall.cause("mixed", purpose=PREEMPT, gang=False), "mixed-0 mixed-1")
    assert "" == hall.go(plugin, hall.cause("mixed", purpose=PREEMPT), "mixed-0 mixed-1")


@pytest.mark.parametrize("purpose", list(Purpose))
def test_gang_keeps_every_job_at_its_minimum(purpose: Purpose) -> None:
    """Three of two may lose one; a job at its minimum, or below it, loses none; without a minimum all may go."""
    hall = hall_of(
        "n0..8",
        gang("spare", tasks=3, minimum=2, on="n0 n1 n2"),
        gang("tight", tasks=2, minimum=2, on="n3 n4"),
        gang("broken", tasks=3, minimum=3, on="n5 n6"),
        gang("loose", tasks=2, minimum=0, on="n7 n8"),
        gang("new", tasks=1),
    )
    plugin = GangPlugin({}, hall.view)
    everyone = "spare-0 tight-0 loose-0 spare-1 broken-0 loose-1 spare-2"
    preemptor = hall.cause("new", purpose=purpose, gang=False)

    assert takes(plugin, VictimFilter)
    assert plugin.counts
    assert "spare-0 loose-0 loose-1" == hall.go(plugin, preemptor, everyone)
    hall.evict("spare-2")
    assert "loose-0 loose-1" == hall.go(plugin, preemptor, everyone)


def test_gang_has_no_say_where_gangs_are_weighed() -> None:
    """Bundles keep gangs whole there, or take them whole."""
    hall = hall_of("n0 n1", gang("tight", tasks=2, on="n0 n1"), gang("new", tasks=1))

    assert "tight-0 tight-1" == hall.go(GangPlugin({}, hall.view), hall.cause("new"), "tight-0 tight-1")


def test_gang_starves_below_its_minimum() -> None:
    """Ready and pipelined tasks count; pending best-effort ones do not."""
    hall = hall_of(
        "n0..4",
        gang("short", tasks=3, minimum=2, on="n0"),
        gang("enough", tasks=3, minimum=2, on="n1 n2"),
        gang("light", tasks=2, minimum=2, each="", on="n3"),
        gang("led", minimum=1, roles=(role("chief", 1, minimum=1), role("log", 1, each=""))),
    )
    plugin = GangPlugin({}, hall.view)

    assert takes(plugin, Starving)
    names = ("short", "enough", "light", "led")
    assert [True, False, True, True] == [plugin.starving(hall.job(name)) for name in names]
    job = hall.job("short")
    pod_set = job.subs[0].pod_sets[0]
    hall.ledger.count_placed(
        job.subs[0], pod_set, hall.positions(""), hall.vector("pods=1")[:1] + 1, pool=Pool.FUTURE_IDLE
    )
    assert not plugin.starving(job)


def test_priority_starves_while_tasks_are_pending() -> None:
    """Beyond the minimum too; tasks that are left to backfill and gated ones are not waited for."""
    hall = hall_of(
        "n0..4",
        gang("surplus", tasks=3, minimum=1, on="n0"),
        gang("done", tasks=2, on="n1 n2"),
        gang("light", tasks=2, minimum=1, each="", on="n3"),
        gang("gated", tasks=2, minimum=1, on="n4 ~"),
    )
    plugin = Priority({}, hall.view)

    assert takes(plugin, Starving)
    assert [True, False, False, False] == [
        plugin.starving(hall.job(name)) for name in ("surplus", "done", "light", "gated")
    ]
