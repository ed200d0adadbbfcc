"""Several who act on devices in one cycle: what one of them is given, or waits for, is not there for the next."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.devices import DRIVER, claim, device, device_class, exactly, node, objects, pod, resource_slice

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

COUNTED = exactly(2)
MATCHED: Raw = {
    "name": "gpu",
    "firstAvailable": [
        {"name": name, "deviceClassName": DRIVER, "count": number} for name, number in (("four", 4), ("two", 2))
    ],
}
CLASSES: list[Raw] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("low", 1), ("high", 100))
]
ACTIONS = ("gangpreempt", "preempt", "podpreempt")


def _machine(name: str, number: int) -> list[Raw]:
    return [node(name), resource_slice(name, [device(f"gpu-{i}") for i in range(number)])]


def _gang(name: str, one: Raw, *, priority: str, least: int) -> list[Any]:
    """A podGroup of Volcano's with one pod."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, "priorityClassName": priority},
        "status": {"phase": "Inqueue"},
    }
    return [group, one]


def _held(name: str, first: int, *users: str) -> dict[str, Any]:
    """A claim with two devices of n0 that these pods use."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n0", "device": f"gpu-{first + i}"} for i in range(2)]
    used = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    return claim(name, exactly(2), status={"allocation": {"devices": {"results": results}}, "reservedFor": used})


def _low(name: str, of: str) -> list[Any]:
    """One that may go, whatever the action: it has no minimum."""
    return _gang(name, pod(name, of, on="n0", group=name, priorityClassName="low"), priority="low", least=0)


def _high(name: str, asks: Raw) -> list[Any]:
    waits = pod(name, f"for-{name}", group=name, priorityClassName="high")
    return [claim(f"for-{name}", asks), *_gang(name, waits, priority="high", least=1)]


def _decided(*raws: Any, action: str) -> CycleReport:
    profile = replace(DEFAULT, actions=("allocate", action, "backfill"))
    return cycle(build(objects(*raws, device_class(), CLASSES), 0.0, profile), profile)


def _gone(report: CycleReport) -> list[str]:
    return sorted(eviction.task.key.partition("/")[2] for eviction in report.evictions)


def _served(report: CycleReport) -> list[str]:
    return sorted(decision.job.key.partition("/")[2] for decision in report.decisions)


@pytest.mark.parametrize("asks", [COUNTED, MATCHED], ids=["counted", "matched"])
@pytest.mark.parametrize("action", ACTIONS)
def test_two_gangs_do_not_wait_for_the_devices_of_one_victim(action: str, asks: Raw) -> None:
    """The first is given what the victim holds, and the second waits without anybody's going for it."""
    report = _decided(
        _machine("n0", 2),
        *(_held("x", 0, "low"), _low("low", "x")),
        *(_high("a", asks), _high("b", asks)),
        action=action,
    )

    assert (["low"], ["a"]) == (_gone(report), _served(report))


@pytest.mark.parametrize("asks", [COUNTED, MATCHED], ids=["counted", "matched"])
@pytest.mark.parametrize("action", ACTIONS)
def test_each_of_two_gangs_has_a_victim_of_its_own(action: str, asks: Raw) -> None:
    """Devices that the first waits for are not counted for the second, which takes the other victim's."""
    report = _decided(
        _machine("n0", 4),
        *(_held("x", 0, "one"), _low("one", "x"), _held("y", 2, "two"), _low("two", "y")),
        *(_high("a", asks), _high("b", asks)),
        action=action,
    )

    assert (["one", "two"], ["a", "b"]) == (_gone(report), _served(report))


@pytest.mark.parametrize("asks", [COUNTED, MATCHED], ids=["counted", "matched"])
@pytest.mark.parametrize("action", ACTIONS)
def test_nobody_goes_for_the_devices_of_a_claim_that_another_uses_too(action: str, asks: Raw) -> None:
    """A claim has its devices as long as one pod uses it: the other would go in vain."""
    report = _decided(
        _machine("n0", 2),
        *(_held("x", 0, "one", "two"), _low("one", "x"), _low("two", "x")),
        _high("a", asks),
        action=action,
    )

    assert ([], []) == (_gone(report), _served(report))


@pytest.mark.parametrize("asks", [COUNTED, MATCHED], ids=["counted", "matched"])
@pytest.mark.parametrize("action", ACTIONS)
def test_free_devices_are_given_before_anybody_goes(action: str, asks: Raw) -> None:
    """Of two gangs the first takes the two devices that are free, and a victim goes for the second alone."""
    report = _decided(
        _machine("n0", 4),
        *(_held("x", 0, "low"), _low("low", "x")),
        *(_high("a", asks), _high("b", asks)),
        action=action,
    )

    assert (["low"], ["a", "b"]) == (_gone(report), _served(report))
    assert {"a": True, "b": False} == {d.job.key.partition("/")[2]: d.bound for d in report.decisions}
