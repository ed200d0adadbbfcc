"""Many alike sub-groups at once: the closed form gives what placing them one after the other does."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.draw import Gang, Groups, draw, objects_of
from tests.support.strategies import Scene, node_names, trees

from tierwise.actions.placement.alike import place_alike
from tierwise.actions.placement.bounds import Room, gradients_of, held
from tierwise.actions.placement.choose import search_group
from tierwise.actions.placement.demand import Demand, demand
from tierwise.actions.placement.problem import NOW_ONLY, NoPlace, Placement, SearchResult, parts_of
from tierwise.config.profile import DEFAULT
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.job import Job
from tierwise.model.topology import ROOT
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build


@st.composite
def alike_scenes(draw_: st.DrawFn) -> Scene:
    """Nodes with room for a few pods each, and one gang of alike sub-groups with a limit each."""
    tree = draw_(trees())
    nodes = {name: f"cpu={draw_(st.integers(0, 4))}" for name in node_names(tree)}
    running = " ".join(f"{n}:cpu=1" for n, has in nodes.items() if has != "cpu=0" and draw_(st.integers(0, 3)) == 0)
    count, size = draw_(st.integers(1, 5)), draw_(st.integers(1, 4))
    groups = Groups(count, size, within=draw_(st.integers(1, 4)))
    gang = Gang("train", within=draw_(st.one_of(st.none(), st.integers(1, 5))), groups=(groups,))
    return Scene(draw(tree, nodes=nodes, running=running), (gang,))


def _open(scene: Scene) -> tuple[Cycle, Job, Demand]:
    cycle = open_cycle(build(objects_of(scene.world, *scene.gangs), now=0.0), DEFAULT)
    (job,) = cycle.snapshot.jobs
    return cycle, job, demand(cycle, job)


def _at_once(cycle: Cycle, job: Job, asked: Demand) -> SearchResult | None:
    whole = parts_of(cycle, job, asked)
    assert whole is not None
    assert whole.kind is not None
    with cycle.ledger.statement():
        found = place_alike(cycle, job, whole, tuple(gradients_of(cycle, job, ROOT)))
    return found if isinstance(found, SearchResult) else None


def _in_turn(cycle: Cycle, job: Job, asked: Demand, domain: int) -> list[Placement] | None:
    """The takes of all sub-groups, placed one after the other below a domain; None where one finds no place."""
    placements: list[Placement] = []
    with cycle.ledger.statement():
        for task_group in asked.task_groups:
            found = search_group(cycle, job, task_group, within=domain, pools=NOW_ONLY)
            if isinstance(found, NoPlace):
                return None
            placements += found.placements
    return placements


def _inner(cycle: Cycle, placements: list[Placement] | tuple[Placement, ...]) -> Counter[str]:
    """How many sub-groups each innermost domain took."""
    return Counter(cycle.topology.name[cycle.topology.meet_rows(take.rows)] for take in placements)


@given(alike_scenes())
def test_feasible_exactly_where_one_by_one_is(scene: Scene) -> None:
    """Both find a domain for the job in the same gradient, or none at all."""
    cycle, job, asked = _open(scene)
    found = _at_once(cycle, job, asked)
    first = None
    for group in gradients_of(cycle, job, ROOT):
        if any(_in_turn(cycle, job, asked, domain) is not None for domain in group.tolist()):
            first = int(cycle.topology.tier[group[0]])
            break

    assert first == (int(cycle.topology.tier[found.domain]) if found is not None else None)


def _compare(scene: Scene) -> None:
    """Below the domain that the closed form chooses both share the sub-groups out alike."""
    cycle, job, asked = _open(scene)
    found = _at_once(cycle, job, asked)
    if found is None:
        return  # the test above compares when there is none
    in_turn = _in_turn(cycle, job, asked, found.domain)

    assert in_turn is not None
    assert _inner(cycle, in_turn) == _inner(cycle, found.placements)


@given(alike_scenes())
def test_same_number_of_groups_in_each_inner_domain(scene: Scene) -> None:
    """Below the chosen domain every inner domain takes as many sub-groups as it does one by one."""
    _compare(scene)


def test_later_groups_go_near_the_first() -> None:
    """Between racks that suit a sub-group, one near the job's other sub-groups comes first."""
    world = draw("s0[r0[n0] r1[n1]] s1[r2[n2]]", nodes={"n0": "cpu=1", "n1": "cpu=2", "n2": "cpu=1"})
    _compare(Scene(world, (Gang("train", groups=(Groups(2, 1, within=1),)),)))


def test_groups_placed_in_racks_count_when_spines_are_compared() -> None:
    """What the racks took makes their spine fuller for the sub-groups that no rack holds."""
    nodes = {"n0": "cpu=1", "n1": "cpu=1", "n2": "cpu=4", "n3": "cpu=1", "n4": "cpu=2", "n5": "cpu=4"}
    world = draw("s0[r0[n0] r1[n1] r2[n2]] s1[r3[n3] r4[n4] r5[n5]]", nodes=nodes, running="n3:cpu=1")
    _compare(Scene(world, (Gang("train", groups=(Groups(3, 3, within=2),)),)))


@given(alike_scenes())
def test_held_is_what_can_be_placed(scene: Scene) -> None:
    """The number of groups that a domain is said to hold is the number that can be placed there, no more, no less."""
    cycle, job, asked = _open(scene)
    whole = parts_of(cycle, job, asked)
    assert whole is not None
    assert whole.kind is not None
    said = held(Room(cycle, Pool.IDLE), whole.parts[0])
    for domain in range(len(cycle.topology)):
        number = 0
        with cycle.ledger.statement():
            for task_group in asked.task_groups:
                number += not isinstance(search_group(cycle, job, task_group, within=domain, pools=NOW_ONLY), NoPlace)
        assert min(int(said[domain]), len(asked.task_groups)) == number
