"""Steps of a cycle are a budget: dear gangs of one namespace do not keep another one waiting."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace
from tests.support.draw import Gang, draw, groups
from tests.support.shared_time import dear_gang, in_namespaces

from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.framework.steps import CUT_SHORT, NOT_LOOKED_AT
from tierwise.model.job import Verdict
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.port import Key
from tierwise.scheduler import cycle
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import Reader
from tierwise.status.pod import more_nodes_help

RACKS = " ".join(f"r{r}[n{10 * r}..{10 * r + 9}]" for r in range(10))
WORLD = draw(f"s0: {RACKS}", node="gpu=8 cpu=64 mem=512")
HONEST = Gang("honest", tasks=8, each="gpu=8", within=1, created=30)


def _profile(steps: int, *actions: str) -> Profile:
    arguments = {"allocate": {"cycleSteps": steps}}
    return replace(DEFAULT, action_arguments=arguments, actions=actions or DEFAULT.actions)


def _dear(number: int) -> dict[str, Gang]:
    return {f"stranger/dear-{i}": dear_gang(f"dear-{i}", created=i) for i in range(number)}


def _gangs(number: int) -> dict[str, Gang]:
    return {**_dear(number), "own/honest": HONEST}


def _cycles(number: int, gangs: dict[str, Gang], profile: Profile) -> list[CycleReport]:
    """The reports of so many cycles over a cluster of which nothing is carried out."""
    objects, reader, turns = in_namespaces(WORLD, gangs), Reader(profile), NO_TURNS
    reports = []
    for _ in range(number):
        report = cycle(reader.read(objects, 0.0, turns), profile)
        turns = report.turns
        reports.append(report)
    return reports


def _codes(report: CycleReport) -> dict[str, str]:
    return {key.partition("/")[2]: refused.reason.code for key, refused in report.rejections.items()}


@pytest.mark.parametrize("actions", [("enqueue", "allocate"), ("enqueue", "allocate", "gangpreempt")])
@pytest.mark.parametrize("number", [1, 3, 6])
def test_an_honest_gang_is_decided_in_its_first_cycle(number: int, actions: tuple[str, ...]) -> None:
    """Beside dear gangs that came before it, with a budget of which they would use up many."""
    (report,) = _cycles(1, _gangs(number), _profile(4000, *actions))

    assert ["own/honest"] == [decision.job.key for decision in report.decisions]
    assert number == len(report.rejections)


def test_who_was_not_looked_at_is_told_so_and_comes_first_in_the_next_cycle() -> None:
    """Cycle after cycle others have their whole budget, until each of them has had one."""
    reports = _cycles(4, _dear(5), _profile(4000))

    codes = [_codes(report) for report in reports]
    cut = [{name for name, code in found.items() if code == CUT_SHORT} for found in codes]
    assert {"dear-0", "dear-1"} <= cut[0]
    assert NOT_LOOKED_AT == codes[0]["dear-4"]
    assert cut[0] < cut[1]
    assert {f"dear-{i}" for i in range(5)} == cut[-1]
    assert reports[0].goes_on
    assert not reports[-1].goes_on


def test_a_refusal_that_was_cut_is_not_looked_for_again() -> None:
    """The cycle after it says the same, and takes next to no steps."""
    first, second = _cycles(2, _dear(1), _profile(4000))

    assert first.rejections == second.rejections
    assert 1000 == first.search_counts.steps
    assert second.search_counts.steps < 50


@pytest.mark.parametrize("number", [1, 4])
def test_nor_is_room_made_for_it_again(number: int) -> None:
    """Evictions search as well: each job has its budget for that once, and then the cluster is at rest."""
    held = {f"other/there-{i}": Gang(f"there-{i}", tasks=1, each="gpu=1", on=f"n{i}") for i in range(10)}
    low = {key: replace(gang, priority=-1) for key, gang in held.items()}
    reports = _cycles(6, {**_dear(number), **low}, _profile(4000, "enqueue", "allocate", "gangpreempt"))

    assert all(report.search_counts.steps <= 4000 for report in reports)
    assert 2 * 1000 * number <= sum(report.search_counts.steps for report in reports)
    assert reports[-1].search_counts.steps < 50
    assert not reports[-1].goes_on
    assert reports[-1].rejections == reports[-2].rejections


def _apart(name: str, tasks: int, created: int, *, large: int = 0) -> Gang:
    """A gang of which no two pods share a node; some further ones may be large, and sizes are not counted together."""
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    further = groups(1, large, name="large", each="cpu=2")
    pods = [*(f"{name}-{i}" for i in range(tasks)), *(f"{name}-large-0-{i}" for i in range(large))]
    return Gang(
        name,
        tasks=tasks,
        each="cpu=1",
        groups=(further,) if large else (),
        labels={pod: {"app": name} for pod in pods},
        spec={"affinity": rule},
        within=2,
        created=created,
    )


@pytest.mark.parametrize("actions", [("enqueue", "allocate"), ("enqueue", "allocate", "gangpreempt")])
def test_nobody_has_a_second_turn_before_each_has_had_one(actions: tuple[str, ...]) -> None:
    """Refusals that were not cut stand until the last of the jobs was looked at; then the cluster is at rest."""
    gangs = {f"stranger/apart-{i}": _apart(f"apart-{i}", 50, i, large=51 + i) for i in range(6)}
    reports = _cycles(9, gangs, _profile(10_000, *actions))

    late = [sum(NOT_LOOKED_AT in refused.codes() for refused in report.rejections.values()) for report in reports]
    rounds = [report.goes_on for report in reports].index(False)
    assert 3 <= late[0]
    assert 1 <= rounds <= 6
    assert all(more > less for more, less in pairwise(late[: rounds + 1]))
    assert 0 == late[rounds]


def test_a_verdict_that_was_dear_is_found_out_once() -> None:
    """Rules between pods leave nothing to count: the cluster without other pods is filled, and once is enough."""
    there = Gang("there", tasks=50, each="cpu=64", on=" ".join(f"n{i}" for i in range(50)))
    first, second = _cycles(2, {"stranger/apart": _apart("apart", 120, 0), "other/there": there}, _profile(40_000))

    assert first.rejections == second.rejections
    assert ["LargerThanAnyDomain"] == [rejection.reason.code for rejection in second.rejections.values()]
    assert second.search_counts.steps < first.search_counts.steps / 2


def test_room_that_grows_ends_it() -> None:
    """A pod that is gone leaves more room than there was."""
    gangs = {**_dear(1), "other/there": Gang("there", tasks=1, each="gpu=8", on="n0")}
    profile = _profile(4000)
    reader, before = Reader(profile), in_namespaces(WORLD, gangs)
    turns = cycle(reader.read(before, 0.0), profile).turns
    gone = before.changed({}, [Key.at("", "Pod", "other/there-0")])

    assert 50 > cycle(reader.read(before, 0.0, turns), profile).search_counts.steps
    again = cycle(reader.read(gone, 0.0, turns), profile)
    assert 1000 == again.search_counts.steps
    assert 50 > cycle(reader.read(gone, 0.0, again.turns), profile).search_counts.steps


@pytest.mark.parametrize("steps", [400, 1000, 4000, 20_000])
def test_no_cycle_takes_more_steps_than_the_setting(steps: int) -> None:
    """Verdicts included."""
    for report in _cycles(3, _gangs(4), _profile(steps, "enqueue", "allocate", "gangpreempt")):
        assert report.search_counts.steps <= steps


def test_the_same_input_gives_the_same_answer() -> None:
    """Steps are counted and not timed."""
    one, other = (_cycles(3, _gangs(4), _profile(3000)) for _ in range(2))

    assert [report.rejections for report in one] == [report.rejections for report in other]
    assert [report.search_counts for report in one] == [report.search_counts for report in other]


def test_what_it_says() -> None:
    """Not now, in words of its own; more nodes are no help against it."""
    report = _cycles(1, _gangs(5), _profile(4000))[0]
    late, cut = report.rejections["stranger/dear-4"], report.rejections["stranger/dear-0"]

    assert message(late).startswith("not looked at yet")
    assert "1000 steps" in message(cut)
    assert message(cut).endswith("the search stopped at its bound, so a place may exist")
    assert {Verdict.NOT_NOW} == {late.verdict, cut.verdict}
    assert [False, False] == [more_nodes_help(late), more_nodes_help(cut)]


def test_rounds_go_on_until_all_have_had_their_turn() -> None:
    """`schedule` without a number of cycles looks at everybody, although nothing changes in between."""
    history = schedule(in_namespaces(WORLD, _gangs(5)), _profile(4000), now=0.0)

    assert history.report is not None
    assert {CUT_SHORT} == set(_codes(history.report).values())
    assert 8 == len(history.bindings)


def test_turns_hand_on_nothing_where_nothing_was_cut() -> None:
    """As in every cluster without dear gangs."""
    report = _cycles(1, {"own/honest": HONEST}, DEFAULT)[0]

    assert NO_TURNS is report.turns
    assert Turns().late == report.turns.late
