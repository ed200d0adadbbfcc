"""Beside any 100 KB of one other namespace a gang is decided at once, and no cycle takes more than the setting."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from tests.properties.cost import HOST, NOW, WORLD, ZONE, Task, Trick, climb, cost, grown, manifests, measured, profile
from tests.support.depth import DEEP, ROTATION, size

from tierwise.actions.placement.program import Program, Question, TooLargeError
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import Profile
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import Rounds

STEPS = 8000
EACH, OBJECT, FIXED = 80, 250, 100_000
"""Calls of functions that a cycle takes: for a step, for an object that it sees, and else."""


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("part", range(size(2, 8)))
def test_a_stranger_keeps_nobody_waiting(
    part: int, evicts: bool, record_property: Callable[[str, object], None]
) -> None:
    """The dearest jobs that a search finds, as often as 100 KB hold them, all older than the honest gang.

    The calls show that steps are charged for all that is done: else a cycle could do much in few of them.
    """
    under = profile(STEPS, evicts=evicts)
    for trick, alone in climb(Random(f"{ROTATION} {part}"), under, size(12, 400, quick=6))[: 5 if DEEP else 2]:
        found = cost(grown(trick), under, count=True)
        record_property("dearest", f"{1000 * alone.dearness:.0f} steps per KB: {trick}")

        assert found.decided, trick
        assert found.steps <= STEPS, trick
        assert found.calls <= FIXED + OBJECT * found.objects + EACH * found.steps, trick


def _workload(replicas: int, notes: Raw) -> Raw:
    """A workload of gangs of two pods, each of which takes more than half a node."""
    pod = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "33"}}}]}
    size: Raw = {"size": 2, "workerTemplate": {"spec": pod}}
    meta = {"name": "l", "namespace": "stranger", "annotations": notes, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"replicas": replicas, "leaderWorkerTemplate": size}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    "notes",
    [
        {"leaderworkerset.sigs.k8s.io/exclusive-topology": ZONE},
        {"leaderworkerset.sigs.k8s.io/exclusive-topology": HOST},
        {"tierwise.io/set": "s", "tierwise.io/set-start": "100"},
        {"tierwise.io/set": "s"},
    ],
    ids=["a-zone-each", "a-host-each", "that-start-together", "of-a-set"],
)
def test_gangs_of_one_workload_keep_nobody_waiting(notes: Raw) -> None:
    """Some 400 bytes that make a hundred gangs with rules about each other: what is done for the rules is charged."""
    plain, found = (measured([_workload(100, one)], profile(STEPS, evicts=False), count=True) for one in ({}, notes))

    assert found.decided
    assert found.steps <= STEPS
    assert found.calls <= plain.calls + EACH * found.steps


RING = Trick(tuple(Task(30, 1000 + 10 * i, near=HOST) for i in range(10)))
"""Each task beside the next one on every node: some 14,000 variables and entries, which no order of placing meets."""


def _steps(trick: Trick, under: Profile, cycles: int) -> list[int]:
    """The steps of each cycle in which the jobs have pods."""
    every = (*WORLD, *manifests(trick))
    rounds, found = Rounds(Objects.of((codec.decode(one), one) for one in every), under, NOW), []
    for _ in range(cycles + 1):
        decided = rounds.decide()
        assert decided is not None
        found.append(decided.report.search_counts.steps)
        rounds.carry_out(decided)
    return found[1:]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What was built and solved: how large it was, and in how many rounds at most it was to be solved."""
    found: list[tuple[str, int, int]] = []
    build, solve = Program.__init__, Program.solve

    def built(self: Program, question: Question, *, firm: bool, max_entries: int, size: int) -> None:
        try:
            build(self, question, firm=firm, max_entries=max_entries, size=size)
        except TooLargeError as error:
            found.append(("too large", error.size, 0))
            raise
        found.append(("built", self.size, 0))

    def solved(self: Program, nodes: int, rounds: int) -> object:
        found.append(("solved", self.size, rounds))
        return solve(self, nodes, rounds)

    monkeypatch.setattr(Program, "__init__", built)
    monkeypatch.setattr(Program, "solve", solved)
    return found


@pytest.mark.parametrize("steps", [6000, 8000, 20_000])
def test_a_program_is_no_larger_than_the_steps_that_are_left(steps: int, programs: list[tuple[str, int, int]]) -> None:
    """What is built of one that would be is charged, and no later cycle builds it."""
    whole = steps // 4
    first, second, third = _steps(RING, profile(steps, evicts=False), 3)

    assert programs
    for what, entries, rounds in programs:
        assert entries <= 4 * whole + 4000, what
        assert rounds * (entries // 8) <= whole + entries // 8, what
    assert whole <= first + 50
    assert first <= steps
    assert max(second, third) < 50


def test_a_program_that_can_be_solved_is_charged_by_its_size_and_its_rounds(
    programs: list[tuple[str, int, int]],
) -> None:
    """More steps are taken than it takes to build it and to solve it in one round."""
    (first,) = _steps(RING, profile(1_000_000, evicts=False), 1)

    sizes = [entries for what, entries, _ in programs if what == "solved"]
    assert sizes
    assert "too large" not in {what for what, *_ in programs}
    assert first >= sum(entries // 4 + entries // 8 for entries in sizes)


def test_what_is_tried_before_solving_is_charged(programs: list[tuple[str, int, int]]) -> None:
    """Each variable at its bounds, in programs that are small enough for it."""
    few = Trick(tuple(Task(4, 1000 + 10 * i, near=HOST) for i in range(3)))
    first, *_ = _steps(few, profile(1_000_000, evicts=False), 1)

    sizes = [entries for what, entries, _ in programs if what == "solved"]
    assert any(1000 <= size <= 4096 for size in sizes), sizes
    assert first >= sum(size // 4 + size**2 // 8192 for size in sizes if size <= 4096)


def test_too_large_for_the_setting_is_charged_and_not_built_again(
    programs: list[tuple[str, int, int]],
) -> None:
    """The refusal is kept until room grows, also where it is the bound of the program that was met."""
    arguments = {"allocate": {"cycleSteps": 10_000, "searchSteps": 500}}
    bound = msgspec.structs.replace(profile(10_000, evicts=False), action_arguments=arguments)
    first, *later = _steps(RING, bound, 3)

    sizes = [entries for what, entries, _ in programs if what == "too large"]
    assert len(sizes) == len(programs) <= 2  # when it is placed, and when it is explained
    assert first >= sum(sizes) // 4 > 0
    assert max(later) < 50
