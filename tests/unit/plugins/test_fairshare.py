"""fairshare: usage that is remembered decides who goes first, in queues, between them and in the whole tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.queue_worlds import queue
from tests.support.shares import HOUR, START, Demand, SharedSite, remembers

from tierwise.framework.usage import MOST_CORRECTED, MOST_OF_QUEUE, corrected, ratios
from tierwise.model.arrays import Ints


def ints(*numbers: int) -> Ints:
    """Columns."""
    return np.array(numbers, dtype=np.int64)


def floats(*numbers: float) -> Any:
    """Columns."""
    return np.array(numbers, dtype=np.float64)


# The formula.


def test_equal_usage_by_weight_is_a_ratio_of_one() -> None:
    """Nobody is corrected."""
    found = ratios(ints(-1, -1), floats(3, 1), floats(75, 25), ints(1, 1), 100.0)

    assert [1.0, 1.0] == found.ratio.tolist()
    assert [3 * 4096, 4096] == corrected(ints(-1, -1), [3, 1], found.ratio)


def test_who_has_used_all_is_corrected_down_and_who_has_used_nothing_up() -> None:
    """Within the bound."""
    found = ratios(ints(-1, -1), floats(1, 1), floats(100, 0), ints(1, 1), 100.0)

    assert [2.0, 0.0] == found.ratio.tolist()
    assert [2048, 4096 * int(MOST_CORRECTED)] == corrected(ints(-1, -1), [1, 1], found.ratio)


def test_what_nobody_used_counts_for_all() -> None:
    """A little usage on a cluster that was idle changes little."""
    found = ratios(ints(-1, -1), floats(1, 1), floats(1, 0), ints(1, 1), 100.0)

    assert [1.01, 0.99] == pytest.approx(found.ratio.tolist())


def test_queues_that_neither_hold_nor_wait_do_not_share() -> None:
    """The others share what is there between them."""
    found = ratios(ints(-1, -1, -1), floats(1, 1, 8), floats(50, 50, 900), ints(1, 1, 0), 100.0)

    assert [0.5, 0.5, 0.0] == found.target.tolist()
    assert [1.0, 1.0, 1.0] == found.ratio.tolist()


def test_a_level_of_the_tree_is_corrected_by_itself_and_by_those_around_it() -> None:
    """Two departments, of which one has used all; in it one team has used all."""
    found = ratios(ints(-1, -1, 0, 0, 1), floats(1, 1, 1, 1, 1), floats(0, 0, 100, 0, 0), ints(0, 0, 1, 1, 1), 100.0)
    weights = corrected(ints(-1, -1, 0, 0, 1), [1, 1, 1, 1, 1], found.ratio)

    assert [2.0, 0.0, 2.0, 0.0, 1.0] == found.ratio.tolist()
    assert weights[2] < weights[3] < weights[4] * 16


# Who pays.


def test_a_burst_pays_when_it_starts() -> None:
    """Jobs that have just started count before any time has passed."""
    site = SharedSite(remembers("proportion", entry="5m"), {"a": Demand(), "b": Demand(ends=0.0)}, nodes=4)
    site.once()

    assert site.usage.counted()["a", "default"] > 0
    assert site.usage.prepaid


def test_who_cancels_and_submits_again_pays_each_time() -> None:
    """What was paid ahead for pods that are gone is not given back."""
    steady = SharedSite(remembers("proportion", entry="5m"), {"a": Demand(lasts=100 * HOUR)}, nodes=1, step=60.0)
    churning = SharedSite(remembers("proportion", entry="5m"), {"a": Demand(lasts=60.0)}, nodes=1, step=60.0)
    for site in (steady, churning):
        for _ in range(20):
            site.once()

    assert churning.usage.counted()["a", "default"] > 3 * steady.usage.counted()["a", "default"]


def test_a_resource_without_weight_costs_nothing() -> None:
    """And one with twice the weight costs twice."""
    found = []
    for weights in ({"cpu": 1}, {"cpu": 2}, {"nvidia.com/gpu": 1}):
        site = SharedSite(remembers("proportion", weights=weights, entry="0s"), {"a": Demand(lasts=9 * HOUR)})
        site.run(2)
        found.append(site.usage.counted().get(("a", "default"), 0))

    assert 2 * found[0] == pytest.approx(found[1], rel=1e-6)
    assert (True, 0) == (found[0] > 0, found[2])


def test_room_that_is_kept_idle_is_paid_by_whom_it_is_kept_for() -> None:
    """A gang of three nodes waits with a reservation while one of four nodes is held by another queue."""
    profile = remembers(
        entry="0s", actions={"allocate": {"reservations": "conservative", "reservationAging": "1s", "idleRoom": "off"}}
    )
    site = SharedSite(profile, {"a": Demand(ends=0.0), "b": Demand(ends=0.0)}, nodes=2, step=600.0)
    site.queues = {}
    site.submit("a", "long", 1, 8 * HOUR)
    site.once()
    site.submit("b", "wide", 2, HOUR)
    for _ in range(4):
        site.once()

    assert ("b", "default") in site.usage.rates
    assert site.usage.counted()["b", "default"] > 0


def test_a_job_with_weights_of_another_unit_starts_even() -> None:
    """Usage that was counted in other weights is not comparable."""
    site = SharedSite(remembers("proportion"), {"a": Demand()})
    site.run(2)
    before = site.usage
    site.profile = remembers("proportion", weights={"cpu": 1})
    site.once()

    assert before.since < site.usage.since


def test_namespaces_that_are_not_among_the_first_count_for_their_queue() -> None:
    """Whoever makes a thousand namespaces makes the record no longer, and loses no usage by it."""
    many = tuple(f"t{number}" for number in range(MOST_OF_QUEUE + 50))
    site = SharedSite(remembers(entry="0s"), {"a": Demand(namespaces=many, waiting=1, lasts=HOUR / 2)}, nodes=50)
    site.run(3)
    owners = site.usage.used

    assert len(owners) <= MOST_OF_QUEUE + 1
    assert ("a", "") in owners


# Orders.


def test_namespaces_of_a_queue_take_turns_by_what_they_used() -> None:
    """One has used the queue alone for half a day; then it shares with another that catches up."""
    site = SharedSite(remembers(half_life="4h"), {"a": Demand(namespaces=("heavy",), lasts=HOUR / 2)}, nodes=4)
    site.run(12)
    site.queues = {"a": Demand(namespaces=("heavy", "light"), lasts=HOUR / 2, waiting=6)}
    site.waiting = []
    site.forget()
    site.run(2)

    assert site.share("a", "light") > 0.9


def test_a_burst_of_one_namespace_takes_turns_in_one_cycle() -> None:
    """Eight jobs of one and four of another, all made at once, on eight nodes: four and four."""
    site = SharedSite(remembers(), {"a": Demand(ends=0.0)}, nodes=8)
    site.queues = {}
    for number in range(8):
        site.submit("a", f"x{number}", 1, HOUR, "many")
    for number in range(4):
        site.submit("a", f"y{number}", 1, HOUR, "few")
    site.once()

    assert {("a", "many"): 4, ("a", "few"): 4} == {key: round(held / site.step) for key, held in site.held.items()}


def _wait_of_the_patient(**arguments: Any) -> float:
    """Hours that a job of a heavy namespace waits beside a light one that always has jobs."""
    site = SharedSite(remembers(**arguments), {"a": Demand(namespaces=("heavy",), lasts=HOUR / 2)}, nodes=1)
    site.run(4)
    site.queues = {"a": Demand(namespaces=("light",), lasts=HOUR / 2)}
    site.waiting = []
    site.submit("a", "patient", 1, HOUR, "heavy")
    site.run(8)
    made, started = site.starts["patient"]
    return (started - made) / HOUR


def test_a_job_that_has_waited_for_the_bound_goes_first() -> None:
    """Whatever its namespace has used."""
    assert _wait_of_the_patient() >= 2.5
    assert _wait_of_the_patient(aging="1h") <= 1.5


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf", ""])
def test_every_plugin_that_shares_gives_the_idle_queue_its_turn(plugin: str) -> None:
    """Two equal queues; one was alone for two half-lives: then the other gets most."""
    queues = {"a": Demand(lasts=HOUR / 2), "b": Demand(lasts=HOUR / 2, begins=8.0)}
    if plugin == "drf":
        queues = {
            name: replace(demand, spec={"hierarchy": f"root/{name}", "weights": "1/1"})
            for name, demand in queues.items()
        }
    names = (plugin,) if plugin else ()
    site, amnesiac = (
        SharedSite(remembers(*names, half_life="4h"), queues),
        SharedSite(remembers(*names, forgets=True), queues),
    )
    for one in (site, amnesiac):
        one.run(8)
        one.forget()
        one.run(2)

    assert site.share("b") > 0.75
    assert amnesiac.share("b") < 0.6


def test_what_a_queue_deserves_is_not_touched_by_history() -> None:
    """capacity: who has used much still gets what it deserves, before others borrow."""
    queues = {
        "a": Demand(lasts=HOUR / 2, spec={"deserved": "cpu=32 mem=32"}),
        "b": Demand(lasts=HOUR / 2, begins=8.0),
    }
    site = SharedSite(remembers("capacity", half_life="4h"), queues)
    site.run(8)
    site.forget()
    site.run(2)

    assert 0.5 == pytest.approx(site.share("a"), abs=0.01)


def test_departments_share_before_their_teams_do() -> None:
    """A department with two busy teams gets no more than one with a single team."""
    queues = {
        "x1": Demand(lasts=HOUR / 2, parent="x"),
        "x2": Demand(lasts=HOUR / 2, parent="x"),
        "y1": Demand(lasts=HOUR / 2, parent="y"),
    }
    site = SharedSite(remembers(half_life="4h"), queues, parents=[queue("x"), queue("y")])
    site.run(8)
    site.forget()
    site.run(16)

    assert 0.5 == pytest.approx(site.share("y1"), abs=0.07)
    assert 0.25 == pytest.approx(site.share("x1"), abs=0.07)


def test_usage_follows_the_clock_of_cycles() -> None:
    """A site that is looked at twice as often has used the same."""
    found = []
    for step in (HOUR / 2, HOUR / 4):
        site = SharedSite(remembers(entry="0s"), {"a": Demand(lasts=50 * HOUR)}, step=step)
        while site.now < START + 8 * HOUR:
            site.once()
        site.once()
        found.append(site.usage.counted()["a", "default"])

    assert found[0] == pytest.approx(found[1], rel=0.03)
