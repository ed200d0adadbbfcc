"""Gangs on two fabrics, from manifests to bindings: audited, and compared with writing out every way."""

from __future__ import annotations

import json
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.drawn_gang import Gang, Role
from tests.support.koordinator import objects_of
from tests.support.sight import schedule, sees
from tests.support.two_fabrics import NODES, Question, draw_nodes, fabric, multisets

from tierwise.audit import audit
from tierwise.config.profile import DEFAULT

_HOMES = st.lists(st.sampled_from([0, 0, 1, 1, 2, -1]), min_size=NODES, max_size=NODES)
_ASKED = st.tuples(st.sampled_from(["", "rack", "feed"]), st.sampled_from(["", "rack", "feed"]), st.booleans())


@sees(binds=5, refusals=1)
@given(
    st.builds(
        Question,
        st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES),
        _HOMES.filter(lambda homes: set(homes) != {-1}),
        _HOMES.filter(lambda homes: set(homes) != {-1}),
        st.integers(1, 3),
        st.integers(1, 2),
        _ASKED,
        st.sampled_from([0, 0, 1, 2]),
    )
)
@examples(40)
def test_a_gang_on_two_fabrics_is_placed_where_there_is_a_place_and_nowhere_else(question: Question) -> None:
    """The scheduler binds all of it exactly where a way exists, and the auditor finds nothing wrong with it."""
    history = schedule(objects_of(question.manifests()), DEFAULT, now=0.0)

    bound = len(history.bindings)
    assert (question.groups * question.size + question.large if question.possible() else 0) == bound
    assert [] == audit(history.cluster.read())


@sees(binds=5, refusals=1)
@given(
    st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES),
    _HOMES.filter(lambda homes: set(homes) != {-1}),
    _HOMES.filter(lambda homes: set(homes) != {-1}),
    st.sampled_from([(True, False), (False, True), (True, True)]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 3),
)
@examples(60)
def test_a_gang_with_pods_to_choose_from_starts_wherever_some_of_them_fit(
    cpus: list[int],
    racks: list[int],
    feeds: list[int],
    within: tuple[bool, bool],
    large: int,
    small: int,
    minimum: int,
) -> None:
    """So many pods of one cpu or two, in a rack, in a feed of another fabric, or in both: any of them will do."""
    roles = [
        Role(name, tasks, each=each) for name, tasks, each in (("a", large, "cpu=2"), ("b", small, "cpu=1")) if tasks
    ]
    constraint = {"tierwise.io/topology-constraints": json.dumps([{"fabric": "power", "tier": 1}])}
    gang = Gang(
        "g", within=1 if within[0] else None, minimum=minimum, roles=(*roles,), marks=constraint if within[1] else {}
    )
    nodes = draw_nodes(cpus)

    history = schedule(
        objects_of([*nodes, *fabric("r", racks, ""), *fabric("p", feeds, "power"), *gang.manifests()]), DEFAULT, now=0.0
    )

    homes = [(rack if within[0] else 0, feed if within[1] else 0) for rack, feed in zip(racks, feeds, strict=True)]
    rooms = [[cpu for cpu, own in zip(cpus, homes, strict=True) if own == home] for home in {*homes} if -1 not in home]
    able = any(
        _takes(room, many, minimum - many)
        for room in rooms
        for many in range(min(large, minimum) + 1)
        if minimum - many <= small
    )
    assert able == (len(history.bindings) >= minimum), (rooms, history.bindings)
    assert able or not history.bindings
    assert [] == audit(history.cluster.read())


def _takes(cpus: list[int], large: int, small: int) -> bool:
    """Whether nodes with so many cpus take so many pods of two cpus, and of one."""
    return large <= sum(cpu // 2 for cpu in cpus) and small <= sum(cpus) - 2 * large


def test_the_two_ways_of_writing_out_are_one() -> None:
    """Two tasks on five nodes: fifteen ways, each pair and each node twice."""
    assert sorted([*map(list, combinations(range(NODES), 2)), *([i, i] for i in range(NODES))]) == sorted(multisets(2))
