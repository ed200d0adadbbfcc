"""The account of search steps: who may use how much of a cycle, and what the next cycle is told."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang
from tests.support.shared_time import in_namespaces

from tierwise.framework.refusals import StandingRefusals
from tierwise.framework.steps import CUT_SHORT, NOT_LOOKED_AT, OutOfStepsError, StepAccount
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.snapshot.builder import build

SETTING = 8000
WHOLE, SHARES = SETTING // 4, SETTING * 3 // 8


def _snapshot(*keys: str, turns: Turns = NO_TURNS) -> Snapshot:
    """One waiting gang for each `namespace/name`."""
    gangs = {key: gang(key.partition("/")[2], tasks=1) for key in keys}
    return replace(build(in_namespaces(draw("r0[n0]"), gangs), now=0.0), turns=turns)


def _use(account: StepAccount, job: Job, most: int) -> int:
    """Charge up to so many steps, one by one, in the turn of a job; how many it could have."""
    used = 0
    try:
        with account.searching(job):
            while used < most:
                account.charge(1)
                used += 1
    except OutOfStepsError:
        pass
    return used


def _jobs(snapshot: Snapshot) -> dict[str, Job]:
    return {job.key: job for job in snapshot.jobs}


def test_one_job_may_use_a_quarter() -> None:
    """Then its search was cut short, since it had a whole budget."""
    snapshot = _snapshot("a/x")
    account, (job,) = StepAccount(SETTING, snapshot), snapshot.jobs

    assert WHOLE == _use(account, job, SETTING)
    assert CUT_SHORT == account.out_of_steps(job).code


def test_a_namespace_leaves_the_others_their_shares() -> None:
    """However many jobs one namespace has, another one can use its share after all of them."""
    snapshot = _snapshot(*(f"many/x{i}" for i in range(9)), "one/y")
    account, jobs = StepAccount(SETTING, snapshot), _jobs(snapshot)

    used = [_use(account, jobs[f"many/x{i}"], SETTING) for i in range(9)]

    assert SHARES // 2 <= _use(account, jobs["one/y"], SETTING)
    assert [WHOLE, WHOLE] == used[:2]
    assert 0 == used[-1]
    assert account.taken <= SETTING


def test_who_was_left_out_is_told_so_and_counted() -> None:
    """It is late from the first cycle on that did not look at it; a job that had its whole budget is not."""
    snapshot = _snapshot("a/x", "a/y", "a/z", "a/w", "b/v")
    account, jobs = StepAccount(SETTING, snapshot), _jobs(snapshot)
    said = {}
    for key in ("a/x", "a/y", "a/z", "a/w"):
        _use(account, jobs[key], SETTING)
        said[key] = Rejection("steps", key, account.out_of_steps(jobs[key]))

    turns = account.turns(said)

    assert CUT_SHORT == said["a/x"].reason.code
    assert NOT_LOOKED_AT == said["a/w"].reason.code
    assert "a/w" in turns.late
    assert "a/x" not in turns.late


def test_a_late_job_has_its_whole_budget_after_others() -> None:
    """Whoever is served before it."""
    snapshot = _snapshot("a/x", "a/y", "b/late", "b/later", turns=Turns(cycles=3, late={"b/late": 1, "b/later": 2}))
    account, jobs = StepAccount(SETTING, snapshot), _jobs(snapshot)
    for key in ("a/x", "a/y"):
        _use(account, jobs[key], SETTING)

    assert WHOLE == _use(account, jobs["b/late"], SETTING)
    assert account.since(jobs["b/late"]) < account.since(jobs["b/later"]) < account.since(jobs["a/x"])


def _served(turns: Turns, keys: Iterable[str]) -> tuple[list[str], Turns]:
    """Who has a whole budget in a cycle in which a crowd goes first, and what the next one is told.

    These jobs are late; those that were not before have been left out by the last cycle for the first time.
    """
    late = {key: turns.late.get(key, turns.cycles - 1) for key in keys}
    snapshot = _snapshot("crowd/v", *late, turns=replace(turns, late=late, done=frozenset()))
    account, jobs = StepAccount(SETTING, snapshot), _jobs(snapshot)
    for _ in range(3):
        _use(account, jobs["crowd/v"], SETTING)
    had, said = [], {}
    for key in reversed(late):
        if _use(account, jobs[key], WHOLE) == WHOLE:
            had.append(key)
        else:
            said[key] = Rejection("steps", key, account.out_of_steps(jobs[key]))
    return had, account.turns(said)


def test_late_jobs_have_it_namespace_by_namespace() -> None:
    """A namespace with many of them does not keep the part for itself."""
    found, turns = [], Turns()
    for _ in range(4):
        had, turns = _served(turns, ("a/x", "a/y", "a/z", "b/w"))
        found += had

    assert ["a", "b", "a", "b"] == [key[0] for key in found]


@pytest.mark.parametrize("seed", range(20))
def test_no_namespace_waits_longer_for_its_turn_than_there_are_others(seed: int) -> None:
    """Whichever of the others are late in a cycle, and with however many jobs."""
    chance, turns = Random(seed), Turns()
    others, waited = 1 + seed % 5, 0
    for _ in range(40):
        there = [f"a{i}/{j}" for i in range(others) if chance.random() < 0.7 for j in range(chance.randrange(1, 3))]
        had, turns = _served(turns, (*there, "z/own"))
        assert len(had) == 1
        waited = 0 if had == ["z/own"] else waited + 1
        assert waited <= others


def test_what_is_looked_at_for_people_costs_nothing() -> None:
    """`explain` shows the cycle that would be without it."""
    snapshot = _snapshot("a/x")
    account, (job,) = StepAccount(SETTING, snapshot), snapshot.jobs

    with account.searching(job), account.uncounted():
        account.charge(10 * SETTING)

    assert 0 == account.taken


def test_a_part_of_a_search_may_have_a_limit_of_its_own() -> None:
    """The rest of the search goes on after it."""
    snapshot = _snapshot("a/x")
    account, (job,) = StepAccount(SETTING, snapshot), snapshot.jobs
    with account.searching(job):
        try:
            with account.limited(10):
                account.charge(11)
        except OutOfStepsError:
            account.charge(WHOLE - 10)

    assert WHOLE == account.taken


def _refused(free: Ints) -> tuple[Snapshot, Turns]:
    """A job whose search was cut short, and what the next cycle is told."""
    snapshot = _snapshot("a/x")
    account, (job,) = StepAccount(SETTING, snapshot), snapshot.jobs
    account.action = "allocate"
    _use(account, job, SETTING)
    refusal = Rejection("steps", job.key, account.out_of_steps(job))
    standing = StandingRefusals(account, lambda: free, snapshot)
    standing.add(job, refusal)
    return snapshot, standing.hand_on({job.key: refusal})


def _stands(snapshot: Snapshot, turns: Turns, free: Ints, *, after: float = 0.0, action: str = "allocate") -> bool:
    later = replace(snapshot, turns=turns, now=snapshot.now + after)
    account, (job,) = StepAccount(SETTING, later), later.jobs
    standing = StandingRefusals(account, lambda: free, later)
    standing.begin()
    account.action = action
    return standing.get(job) is not None


def test_a_refusal_that_was_cut_stands_until_room_grows() -> None:
    """Less room, or as much on every node, does not end it; more on any node does, and so does time."""
    room = np.array([[4, 2]], dtype=np.int64)
    snapshot, turns = _refused(room)

    assert _stands(snapshot, turns, room)
    assert _stands(snapshot, turns, np.array([[3, 2]]))
    assert not _stands(snapshot, turns, np.array([[3, 3]]))
    assert not _stands(snapshot, turns, room, after=601.0)
    assert not _stands(snapshot, turns, room, action="gangpreempt")


def test_room_that_was_taken_and_came_back_counts_as_more() -> None:
    """The least since then is what it is compared with: other tasks may have made way in other places."""
    snapshot, turns = _refused(np.array([[4, 2]], dtype=np.int64))
    later = replace(snapshot, turns=turns)
    account, (job,) = StepAccount(SETTING, later), later.jobs
    standing = StandingRefusals(account, lambda: np.array([[1, 2]], dtype=np.int64), later)
    standing.begin()
    account.action = "allocate"
    refusal = standing.get(job)
    assert refusal is not None

    after = standing.hand_on({job.key: refusal})

    assert not _stands(snapshot, after, np.array([[4, 2]]))


def test_without_a_setting_nothing_is_limited() -> None:
    """As for a ledger that no cycle opened."""
    account = StepAccount()
    account.charge(10**9)

    assert 10**9 == account.taken
