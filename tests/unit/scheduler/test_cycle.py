"""Which actions run in which order, and which profiles cannot be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import allocate, draw, gang, role
from tests.support.evict_world import Gang, Pod, Scene, once, profile_of
from tests.support.manifests import container, node, objects
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, Profile
from tierwise.scheduler.cycle import check_profile, cycle, nothing_is_left
from tierwise.snapshot.builder import build

TWO = Scene({"s0": ("r0",)}, {"r0": ("n0", "n1")}, {"n0": "cpu=4", "n1": "cpu=4"})


def _profile(actions: str) -> Profile:
    """A profile with these actions in this order, and no others."""
    return replace(profile_of("gangpreempt"), actions=tuple(actions.split()))


@pytest.mark.parametrize("actions", ["gangpreempt allocate", "gangpreempt", "preempt allocate", "preempt"])
def test_nobody_goes_for_what_fits(actions: str) -> None:
    """An action that evicts finds placed what fits without it, wherever it stands in the list."""
    low = Gang("low", (Pod("low-0", "cpu=4", on="n0"),), 1)
    urgent = Gang("urgent", (Pod("urgent-0", "cpu=4", priority=9),), 1, priority=9)
    told = once(replace(TWO, gangs=(low, urgent)), _profile(actions))

    assert {"default/urgent-0": "n1"} == told.wire["bindings"]
    assert [] == list(told.report.evictions)


def test_what_an_eviction_leaves_over_is_given_out() -> None:
    """An allocate that had to run before its turn runs again in it, where somebody was evicted in between."""
    low = Gang("low", (Pod("low-0", "cpu=4", on="n0"),), 1)
    full = Gang("full", (Pod("full-0", "cpu=4", on="n1", priority=9),), 1, priority=9)
    urgent = Gang("urgent", (Pod("urgent-0", "cpu=1", priority=8),), 1, priority=8)
    modest = Gang("modest", (Pod("modest-0", "cpu=3", never=True),), 1)
    told = once(replace(TWO, gangs=(low, full, urgent, modest)), _profile("gangpreempt allocate"))

    assert {"default/urgent-0": "n0", "default/modest-0": "n0"} == told.wire["nominations"]


@pytest.mark.parametrize("classic", ["preempt", "reclaim"])
def test_two_variants_of_one_action_are_refused(classic: str) -> None:
    """They would undo each other's plans, however they are spelled."""
    both = profile("gang", actions=f"allocate {classic} gang-{classic.title()}")
    with pytest.raises(InputError, match=f"{classic} and gang{classic} cannot be in one profile"):
        check_profile(both)


def test_actions_are_known_however_they_are_spelled() -> None:
    """One of the variants is fine under its own name."""
    assert ("allocate", "gangpreempt") == check_profile(profile("gang", actions="allocate gang-Preempt")).actions


@pytest.mark.parametrize("minimum", [1, 2])
@pytest.mark.parametrize("actions", ["enqueue backfill allocate", "backfill allocate", "backfill gangpreempt allocate"])
def test_best_effort_pods_of_a_gang_wait_for_no_other_cycle(actions: str, minimum: int) -> None:
    """Those it needs and those beyond its minimum start with it, also where backfill comes before what places it."""
    mixed = gang("g", roles=(role("main", 1, "cpu=1", minimum=1), role("probe", 1, "")), minimum=minimum)
    outcome = allocate(draw("r0[n0]"), mixed, profile=replace(DEFAULT, actions=tuple(actions.split())))

    assert {"g-main-0", "g-probe-0"} == set(outcome.bindings)


def _pod(name: str, *, leaves: bool = False, **spec: object) -> Raw:
    """A pod of a cpu, which may be terminating."""
    meta = {"name": name, "namespace": "default"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaves else {})
    spec = {"schedulerName": "tierwise", "containers": [container("cpu=1")], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        ([_pod("p")], False),
        ([_pod("p", schedulingGates=[{"name": "later"}])], True),
        ([_pod("p"), _pod("old", nodeName="n0", leaves=True)], True),
        ([_pod("old", nodeName="n0", leaves=True)], False),
    ],
    ids=["bound", "gated", "nominated for what another one leaves", "nobody waits"],
)
def test_who_was_not_bound_is_left(pods: list[Raw], left: bool) -> None:
    """A cycle that refuses nobody may leave somebody waiting all the same."""
    snapshot = build(objects(node("n0", "cpu=1 pods=9"), *pods), 0.0)
    report = cycle(snapshot, DEFAULT)

    assert ({}, left) == (dict(report.rejections), not nothing_is_left(snapshot, DEFAULT, report))
