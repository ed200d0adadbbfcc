"""What-if: questions leave no trace, changes that change nothing differ in nothing, and the least is the least."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.api.core import Pod
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.explain.comparison import started
from tierwise.explain.disruption import Losses, broken, hours
from tierwise.port import Objects
from tierwise.sim.what_if.changes import (
    Change,
    Scenario,
    add_domains,
    add_nodes,
    drain,
    evict_pods,
    remove,
    set_constraint,
    set_priority,
    uncordon,
)
from tierwise.sim.what_if.fewest import of_size
from tierwise.sim.what_if.least_change import least_change
from tierwise.sim.what_if.runs import outcome_of, prepared, what_if
from tierwise.snapshot.builder import Reader
from tierwise.snapshot.consistency import differences

_NOON = 1767268800.0  # 2026-01-01T12:00:00Z
TREE = "s0[r0[n0 n1] r1[n2 n3]]"
CHANGES: tuple[Change, ...] = (
    add_nodes(2, "n0"),
    add_domains(1, "r1"),
    add_domains(1, "s0"),
    remove("n1"),
    remove("r0"),
    drain("n0"),
    drain("r1"),
    uncordon("n3"),
    set_priority("train", 7),
    set_constraint("train", "soft"),
    set_constraint("train", "hard", "2"),
)


@st.composite
def clusters(draws: st.DrawFn) -> Objects:
    """Four nodes in two racks with pods of one to four GPUs, and a gang that would like two whole nodes or parts."""
    busy = draws(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=5))
    world = draw(
        TREE,
        node="gpu=4",
        running=" ".join(f"n{node}:gpu={size}" for node, size in busy),
        cordoned=draws(st.sampled_from(["", "n3"])),
    )
    train = gang(
        "train",
        tasks=draws(st.integers(1, 4)),
        each=f"gpu={draws(st.sampled_from([2, 3, 4]))}",
        within=draws(st.sampled_from([1, 2])),
    )
    other = gang("other", tasks=1, each="gpu=2", created=draws(st.sampled_from([0, 99])))
    return objects_of(world, train, other)


def _text(objects: Objects) -> list[object]:
    return [(key, objects.raw(key)) for key in objects]


@given(objects=clusters(), changes=st.lists(st.sampled_from(CHANGES), max_size=3, unique=True))
def test_a_question_leaves_no_trace(objects: Objects, changes: list[Change]) -> None:
    """The objects are what they were, the same question has the same answer, and no change makes no difference."""
    before = _text(objects)
    scenario = prepared(objects, DEFAULT, 0.0)
    try:
        first = what_if(scenario, changes).comparison
    except InputError:  # one change took away what the next is about
        return

    assert before == _text(objects)
    assert first == what_if(scenario, changes).comparison
    if not changes:
        assert () == first.jobs


@given(objects=clusters(), changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4))
def test_a_reader_of_other_questions_tells_the_same(objects: Objects, changes: list[Change]) -> None:
    """Runs that read what differs from the run before them end as runs that read everything."""
    scenario = prepared(objects, DEFAULT, 0.0)
    reader: Reader | None = Reader(DEFAULT)
    for change in changes:
        changed = change.apply(scenario)
        history, outcome = outcome_of(changed, reader=reader)
        reader = history.reader

        assert reader is not None
        assert [] == differences(outcome.snapshot, outcome_of(changed)[1].snapshot)


def _brute_force(scenario: Scenario) -> int | None:
    """The fewest evictions by trying all of them."""
    pods = [path for path, pod in scenario.objects.every(Pod).items() if pod.spec.node_name]
    for size in range(len(pods) + 1):
        for chosen in combinations(pods, size):
            _, outcome = outcome_of(evict_pods(chosen).apply(scenario))
            if any(job.key == "default/train" and started(outcome.snapshot, job) for job in outcome.snapshot.jobs):
                return size
    return None


@given(objects=clusters())
def test_the_fewest_evictions_are_the_fewest(objects: Objects) -> None:
    """On small clusters the number is that of trying everything, and it is said to be exact."""
    scenario = prepared(objects, DEFAULT, 0.0)
    found = least_change(scenario, "train")
    evict = next((answer for answer in found.answers if answer.way == "evict"), None)
    expected = _brute_force(scenario)

    assert expected == (0 if found.starts else evict.number if evict is not None else None)
    assert evict is None or evict.exact


@st.composite
def _gangs_at_work(draws: st.DrawFn) -> Objects:
    """Two racks of two nodes in which gangs of one to three pods run since some time, and a gang that wants one."""
    gangs: list[Gang] = []
    order = draws(st.permutations(["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"]))
    while order and len(gangs) < 4:
        size = min(draws(st.integers(1, 3)), len(order), 6 - sum(gang.tasks for gang in gangs))
        if size < 1:
            break
        on, order = order[:size], order[size:]
        since = draws(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"]))
        least = draws(st.integers(1, size))
        gangs.append(gang(f"g{len(gangs)}", tasks=size, each="gpu=2", on=" ".join(on), minimum=least, since=since))
    train = gang("train", tasks=draws(st.integers(1, 2)), each="gpu=4", within=draws(st.sampled_from([1, 2])))
    return objects_of(draw(TREE, node="gpu=4"), train, *gangs)


@given(objects=_gangs_at_work())
@examples(18)
def test_no_other_evictions_cost_less(objects: Objects) -> None:
    """By gangs broken, then accelerator-hours, then pods: of all sets none is cheaper, where the answer is exact.

    But for the age of as many pods, which counts less than that the gang is in one rack.
    """
    scenario = prepared(objects, DEFAULT, _NOON)
    found = least_change(scenario, "train")
    evict = next((answer for answer in found.answers if answer.way == "evict"), None)
    lost = Losses(scenario.snapshot())
    pods = [path for path, pod in objects.every(Pod).items() if pod.spec.node_name]

    def cost(chosen: Collection[str]) -> tuple[int, float, int]:
        losses = lost.of(chosen)
        return broken(losses), round(hours(losses), 3), len(chosen)

    def starts(chosen: tuple[str, ...]) -> bool:
        _, outcome = outcome_of(evict_pods(chosen).apply(scenario))
        return any(job.key == "default/train" and started(outcome.snapshot, job) for job in outcome.snapshot.jobs)

    def racks(chosen: tuple[str, ...]) -> int:
        _, outcome = outcome_of(evict_pods(chosen).apply(scenario))
        (job,) = (job for job in outcome.snapshot.jobs if job.key == "default/train")
        return len({task.node // 2 for task in job.tasks})

    every = sorted((cost(c), c) for size in range(1, len(pods) + 1) for c in combinations(pods, size))
    cheapest, least = next(((price, chosen) for price, chosen in every if starts(chosen)), (None, ()))
    if found.starts:
        return
    assert (cheapest is None) == (evict is None)
    if evict is not None and cheapest is not None:
        paid = cost(evict.subjects)
        assert cheapest <= paid
        if evict.exact and cheapest != paid:
            assert (cheapest[0], cheapest[2], 1) == (paid[0], paid[2], racks(evict.subjects))
            assert racks(least) > 1


@given(objects=clusters())
def test_every_way_works(objects: Objects) -> None:
    """What is proposed makes the job start, and one node fewer does not."""
    scenario = prepared(objects, DEFAULT, 0.0)
    found = least_change(scenario, "train")
    nodes = next((answer for answer in found.answers if answer.way == "add-nodes"), None)
    if nodes is None or not nodes.exact:
        return
    names = sorted(set(nodes.subjects))

    def starts(numbers: dict[str, int]) -> bool:
        changed = scenario
        for name, number in numbers.items():
            changed = add_nodes(number, name).apply(changed) if number else changed
        _, outcome = outcome_of(changed)
        return any(job.key == "default/train" and started(outcome.snapshot, job) for job in outcome.snapshot.jobs)

    exact = {name: nodes.subjects.count(name) for name in names}
    assert starts(exact)
    for less in ("n0", "n2"):
        assert not starts({less: nodes.number - 1})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.text)
def test_changes_say_what_they_are(change: Change) -> None:
    """Every change has a sentence for people."""
    assert change.text


@given(most=st.lists(st.integers(0, 3), min_size=1, max_size=5), size=st.integers(0, 8))
@examples(60)
def test_choices_of_a_size_are_all_of_them_in_order(most: list[int], size: int) -> None:
    """The first units are taken first."""
    every = product(*(range(number, -1, -1) for number in most))

    assert [counts for counts in every if sum(counts) == size] == list(of_size(most, size))
