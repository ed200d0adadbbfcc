"""Counting before runs: what is kept by row and domain equals counting anew, and first answers are what runs find."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.explain.comparison import started
from tierwise.sim.what_if.changes import Scenario, evict_pods, job_named
from tierwise.sim.what_if.counted_room import CountedRoom
from tierwise.sim.what_if.evictions import Victims, shortfalls_of
from tierwise.sim.what_if.fewest import Counting
from tierwise.sim.what_if.first_answers import by_counting
from tierwise.sim.what_if.least_change import least_change
from tierwise.sim.what_if.room_by_count import RoomByCount
from tierwise.sim.what_if.runs import outcome_of, prepared

_TREE = "s0[r0[n0 n1] r1[n2 n3]] s1[r2[n4 n5]]"
_NODES = 6


@st.composite
def _worlds(draws: st.DrawFn) -> Scenario:
    """Three racks in which gangs run, some with pods to spare, and a gang that wants up to three whole nodes."""
    gangs: list[Gang] = []
    slots = draws(st.permutations([f"n{node}" for node in range(_NODES) for _ in range(4)]))
    for number in range(draws(st.integers(1, 6))):
        size = draws(st.integers(1, 3))
        on, slots = slots[:size], slots[size:]
        least = draws(st.integers(1, size))
        gangs.append(gang(f"g{number}", tasks=size, each="gpu=2", on=" ".join(on), minimum=least))
    train = gang(
        "train",
        tasks=draws(st.integers(1, 3)),
        each=f"gpu={draws(st.sampled_from([4, 6, 8]))}",
        within=draws(st.sampled_from([1, 2])),
    )
    cordoned = draws(st.sampled_from(["", "n5"]))
    return prepared(objects_of(draw(_TREE, node="gpu=8", cordoned=cordoned), train, *gangs), DEFAULT, 0.0)


def _has_room(scenario: Scenario, victims: Victims, broken: Collection[int], counting: Counting) -> bool:
    """Anew and one by one: all pods that may go go from the amounts, and each domain is added up."""
    spare = {number: surplus for number, (_, surplus) in victims.gangs().items()}
    free = counting.free.copy()
    for kind, owner in enumerate(victims.owners):
        number = victims.most[kind]
        if owner is not None and owner.number in spare and owner.number not in broken:
            number = min(number, spare[owner.number])
            spare[owner.number] -= number
        free[:, victims.rows[kind]] += victims.amounts[:, kind] * number
    topology = scenario.snapshot().topology
    shape = counting.pod_set.shape
    for domain in counting.domains.tolist():
        tasks = 0
        for row in range(int(topology.start[domain]), int(topology.end[domain])):
            now = int(counting.fits[row])
            then = min(int(free[r, row]) // int(shape.request[r]) for r in shape.asked.tolist())
            tasks += max(now, then) if counting.open[row] else now
        if tasks >= counting.need:
            return True
    return False


@given(scenario=_worlds(), data=st.data())
@examples(60)
def test_room_that_is_kept_equals_room_counted_anew(scenario: Scenario, data: st.DataObject) -> None:
    """Whatever sets of gangs were asked about before, the answer for a set is that of counting all from scratch."""
    snapshot = scenario.snapshot()
    job = job_named(snapshot, "train")
    counting = Counting.of(scenario, job)
    assert counting is not None
    victims = Victims.of(scenario, job, fair=True)
    gangs = victims.gangs()
    surplus = {number: pods for number, (_, pods) in gangs.items()}
    shortfalls = shortfalls_of(snapshot, job, counting)
    room = RoomByCount(victims.owners, victims.most, surplus, victims.rows, victims.amounts, counting, shortfalls)
    numbers = sorted(gangs)
    for broken in data.draw(st.lists(st.sets(st.sampled_from(numbers)) if numbers else st.just(set()), max_size=6)):
        assert _has_room(scenario, victims, broken, counting) == room.may_do(broken)
    needed = room.needed(numbers)
    assert (needed is None) != _has_room(scenario, victims, numbers, counting)
    if needed is not None:
        assert _has_room(scenario, victims, needed, counting)
        for number in needed:
            assert not _has_room(scenario, victims, set(needed) - {number}, counting)


@given(scenario=_worlds())
@examples(40)
def test_first_answers_are_no_better_than_what_runs_find(scenario: Scenario) -> None:
    """A count proposes as many as are needed or more, marks every answer, and its evictions do start the gang."""
    first = by_counting(scenario, "train")
    found = least_change(scenario, "train")
    proved = {answer.way: answer for answer in found.answers if answer.exact}

    assert all(answer.counted and not answer.exact for answer in first.answers)
    for answer in first.answers:
        if answer.way in ("evict", "add-nodes", "uncordon", "relax") and answer.way in proved:
            assert answer.way == "evict" or proved[answer.way].number <= answer.number
        if answer.way == "evict":
            _, outcome = outcome_of(evict_pods(answer.subjects).apply(scenario))
            (job,) = (job for job in outcome.snapshot.jobs if job.key == "default/train")
            assert started(outcome.snapshot, job)


@given(scenario=_worlds())
@examples(40)
def test_a_domain_that_lacks_nothing_holds_a_gang_of_one_shape(scenario: Scenario) -> None:
    """Of one shape a count is exact: the gang starts as things are where, and only where, some domain lacks nothing."""
    snapshot = scenario.snapshot()
    job = job_named(snapshot, "train")
    room = CountedRoom.of(snapshot, DEFAULT, job)
    assert room is not None
    limit = job.constraint.tier if job.constraint is not None else None
    assert limit is not None
    lacking = room.lacking()[np.flatnonzero(snapshot.topology.tier <= limit)]
    _, outcome = outcome_of(scenario)
    (after,) = (job for job in outcome.snapshot.jobs if job.key == "default/train")

    assert started(outcome.snapshot, after) == bool((lacking == 0).any())
