"""Namespaces in which more pods wait than the profile lets wait: who is looked at, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.koordinator import objects_of
from tests.support.languages import nodes, volcano_gang
from tests.support.marked_gangs import LANGUAGE_OF, gang_in, with_priority

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.volcano import read_volcano
from tierwise.explain.wire import pending_wire
from tierwise.sim.cluster import rounds

WORLD = nodes({"s0": {"r0": "n0"}}, cpu=3)


def _run(*gangs: list[Raw], most: int, profile: Profile = DEFAULT) -> tuple[list[str], dict[str, str]]:
    """The pods that are bound in one cycle, and why others wait."""
    objects = objects_of(WORLD, *gangs)
    history = rounds.schedule(objects, replace(profile, max_waiting_pods=most), now=0.0, cycles=1)
    assert history.report is not None
    waiting = pending_wire(history.after(0.0), history.report, history.nominations)
    why = {str(row["pod"])[8:]: f"{row['verdict']} {row['reason']} {row['message']}" for row in waiting}
    return sorted(pod[8:] for pod in history.bindings), why


def _at(second: int, gang: list[Raw], namespace: str = "default", priority: int = 0) -> list[Raw]:
    """A gang that was made then, in a namespace."""
    found: list[Any] = with_priority(gang, priority)
    for raw in found:
        raw["metadata"] |= {"creationTimestamp": f"1969-12-31T00:00:{second:02}Z", "namespace": namespace}
    return found


def test_jobs_behind_the_number_wait_and_are_told() -> None:
    """There is room for both gangs, and one of them is looked at."""
    first, second = _at(1, volcano_gang("b", 2)), _at(2, volcano_gang("a", 1))
    bound, why = _run(first, second, most=2)

    assert ["b-0", "b-1"] == bound
    assert "not-now TooManyWaitingPods 3 pods of namespace default wait, and the first 2" in why["a-0"]


def test_the_first_job_is_looked_at_whatever_its_size() -> None:
    """A gang of more pods than the number starts."""
    assert ["a-0", "a-1", "a-2"] == _run(volcano_gang("a", 3), most=1)[0]


def test_a_namespace_stands_in_its_own_way_alone() -> None:
    """Others are looked at, whatever waits there."""
    crowd = [one for i in range(5) for one in _at(1, volcano_gang(f"c{i}", 9), "evil")]
    bound, _ = _run(crowd, _at(2, volcano_gang("a", 3)), most=2)

    assert ["a-0", "a-1", "a-2"] == bound


def test_the_more_important_comes_first() -> None:
    """It is younger, and the older one waits for it."""
    bound, _ = _run(_at(1, volcano_gang("b", 2)), _at(2, volcano_gang("a", 2), priority=9), most=2)

    assert ["a-0", "a-1"] == bound


def test_nought_stands_for_no_such_number() -> None:
    """All are looked at."""
    assert ["a-0", "b-0", "b-1"] == _run(volcano_gang("a", 1), volcano_gang("b", 2), most=0)[0]


@pytest.mark.parametrize("way", LANGUAGE_OF)
def test_gangs_of_every_language_count(way: str) -> None:
    """Two gangs, and the first one is looked at."""
    first, second = (_at(i, gang_in(way, name, 1 if "second" not in way else 2)) for i, name in ((1, "b"), (2, "c")))

    assert {pod[0] for pod in _run(first, second, most=1)[0]} == {"b"}


def test_nobody_is_evicted_for_a_job_behind_the_number() -> None:
    """The first job cannot be placed at all; the second one would find room if others went."""
    running = _at(0, volcano_gang("r", 3, on={0: "n0", 1: "n0", 2: "n0"}), "other")
    big, small = _at(1, volcano_gang("big", 9), priority=9), _at(2, volcano_gang("a", 1), priority=8)
    by: dict[int, set[str]] = {}
    for most in (0, 5):
        profile = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt"), max_waiting_pods=most)
        evicted = rounds.schedule(objects_of(WORLD, running, big, small), profile, now=0.0, cycles=1).evictions
        by[most] = {eviction.by.key for eviction in evicted if eviction.by is not None}

    assert {0: {"default/a"}, 5: set()} == by


def test_the_profile_names_the_number() -> None:
    """In Volcano's format beside the actions."""
    assert 7 == read_volcano({"actions": "allocate", "maxWaitingPods": 7}).max_waiting_pods
    assert DEFAULT.max_waiting_pods == read_volcano({"actions": "allocate"}).max_waiting_pods > 0
