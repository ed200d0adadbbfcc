"""Pods that are evicted are there until they are gone, and pods that are nominated are not there yet."""

from __future__ import annotations

import pytest
from tests.support.affinity import ZONE, near, zoned
from tests.support.draw import allocate, draw, gang, placed, waiting
from tests.support.evict_world import profile_of

from tierwise.api.codec import Raw

LABELS = {"low-0": {"app": "low", "set": "s"}, "small-0": {"app": "small", "set": "s"}, "urgent-0": {"app": "urgent"}}


def _away(app: str) -> Raw:
    term: Raw = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _even() -> Raw:
    rule: Raw = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [rule | {"labelSelector": {"matchLabels": {"set": "s"}}}]}


@pytest.mark.parametrize("each", ["cpu=1", ""], ids=["with requests", "best effort"])
@pytest.mark.parametrize("actions", ["gangpreempt allocate", "jobpreempt allocate", "podpreempt allocate"])
@pytest.mark.parametrize(
    ("own", "victims"),
    [(_away("low"), {}), ({}, _away("small")), (_even(), {}), (near(ZONE, app="urgent"), {})],
    ids=["its anti-affinity", "the victim's anti-affinity", "spread", "affinity to who is nominated"],
)
def test_nothing_is_bound_as_if_victims_were_gone(own: Raw, victims: Raw, actions: str, each: str) -> None:
    """A pod that needs a victim of the cycle gone, or its preemptor there, waits; its zone has room for it."""
    world = draw("r0[n0 n1 n2]", nodes={"n0": "cpu=2", "n1": "cpu=1", "n2": "cpu=1 pods=1"}, running="n2:cpu=1")
    world = zoned(world, {"n0": "a", "n1": "a", "n2": "b"})
    low = gang("low", tasks=1, each="cpu=2", on="n0", labels=LABELS, spec=victims)
    urgent = gang("urgent", tasks=1, each="cpu=2", priority=9, labels=LABELS)
    small = gang("small", tasks=1, each=each, labels=LABELS, spec=own)
    outcome = allocate(world, low, urgent, small, profile=profile_of(actions))

    assert ["default/low-0"] == [eviction.task.key for eviction in outcome.report.evictions]
    assert {"n0": 1} == waiting(outcome, "urgent")
    assert {} == placed(outcome, "small")
