"""Gangs on two fabrics, from manifests to bindings: audited, and compared with writing out every way."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.koordinator import objects_of
from tests.support.sight import schedule, sees
from tests.support.two_fabrics import NODES, Question, multisets

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


def test_the_two_ways_of_writing_out_are_one() -> None:
    """Two tasks on five nodes: fifteen ways, each pair and each node twice."""
    assert sorted([*map(list, combinations(range(NODES), 2)), *([i, i] for i in range(NODES))]) == sorted(multisets(2))
