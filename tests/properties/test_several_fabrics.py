"""Gangs on two fabrics, from manifests to bindings: audited, and compared with writing out every way."""

from __future__ import annotations

import json
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.drawn_gang import Gang, Groups
from tests.support.koordinator import hypernode, objects_of
from tests.support.sight import schedule, sees

from tierwise.api.codec import Raw
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT

NODES = 5


class Question:
    """A cluster of a few nodes in two fabrics, and a gang: where may each of its groups be, and where all of it?"""

    def __init__(
        self,
        cpus: list[int],
        racks: list[int],
        feeds: list[int],
        groups: int,
        size: int,
        asked: tuple[str, str, bool],
        large: int = 0,
    ) -> None:
        """`large` further pods of two cpus are in a group of their own, which may be wherever the job may."""
        self.cpus, self.racks, self.feeds = cpus, racks, feeds
        self.groups, self.size, self.large = groups, size, large
        self.whole, self.each, self.spread = asked

    def __repr__(self) -> str:
        return str(vars(self))

    def manifests(self) -> list[Raw]:
        """As a user would write it: racks without a fabric, feeds in the fabric `power`."""
        nodes: list[Raw] = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{i}"},
                "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
            }
            for i, cpu in enumerate(self.cpus)
        ]
        drawn = Gang(
            "g",
            within=1 if self.whole == "rack" else None,
            groups=(
                Groups(count=self.groups, size=self.size, minimum=self.groups, within=self._inner()),
                *((Groups(count=1, size=self.large, minimum=1, each="cpu=2", name="big"),) if self.large else ()),
            ),
        ).manifests()
        listed: list[Raw] = []
        if self.whole == "feed":
            listed.append({"fabric": "power", "tier": 1})
        if self.each == "feed":
            listed.append({"fabric": "power", "tier": 1, "subGroup": "part"})
        if self.spread:
            listed.append({"fabric": "power", "tier": 1, "spread": 2})
        meta = drawn[0]["metadata"]
        assert isinstance(meta, dict)
        noted = {"tierwise.io/topology-constraints": json.dumps(listed)} if listed else {}
        drawn[0]["metadata"] = {**meta, "annotations": {**meta.get("annotations", {}), **noted}}
        return [*nodes, *_tree("r", self.racks, ""), *_tree("p", self.feeds, "power"), *drawn]

    def _inner(self) -> int | None:
        return 1 if self.each == "rack" else None

    def possible(self) -> bool:
        """Every way to put each group on nodes, looked at one by one."""
        ways = [rows for rows in _multisets(self.size) if self._within(self.each, rows)]
        for big, *chosen in product(_multisets(self.large), *([ways] * self.groups)):
            small = [row for group in chosen for row in group]
            rows = [*big, *small]
            apart = not self.spread or len({self.feeds[row] for row in rows} - {-1}) >= 2
            fits = all(small.count(row) + 2 * big.count(row) <= self.cpus[row] for row in rows)
            if apart and fits and self._within(self.whole, rows):
                return True
        return False

    def _within(self, kind: str, rows: list[int]) -> bool:
        homes = {"rack": self.racks, "feed": self.feeds}.get(kind)
        found = {homes[row] for row in rows} if homes is not None else {0}
        return len(found) == 1 and -1 not in found


def _multisets(size: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for _ in range(size):
        found = [[*rows, row] for rows in found for row in range(rows[-1] if rows else 0, NODES)]
    return found


def _tree(letter: str, homes: list[int], fabric: str) -> list[Raw]:
    made = []
    for home in sorted(set(homes) - {-1}):
        raw = hypernode(f"{letter}{home}", 1, [("Node", f"n{i}") for i, own in enumerate(homes) if own == home])
        if fabric:
            raw["metadata"] = {"name": f"{letter}{home}", "labels": {"tierwise.io/fabric": fabric}}
        made.append(raw)
    return made


_HOMES = st.lists(st.sampled_from([0, 0, 1, 1, 2, -1]), min_size=NODES, max_size=NODES)
_ASKED = st.tuples(st.sampled_from(["", "rack", "feed"]), st.sampled_from(["", "rack", "feed"]), st.booleans())


@examples(40)
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
def test_a_gang_on_two_fabrics_is_placed_where_there_is_a_place_and_nowhere_else(question: Question) -> None:
    """The scheduler binds all of it exactly where a way exists, and the auditor finds nothing wrong with it."""
    history = schedule(objects_of(question.manifests()), DEFAULT, now=0.0)

    bound = len(history.bindings)
    assert (question.groups * question.size + question.large if question.possible() else 0) == bound
    assert [] == audit(history.cluster.read())


def test_the_two_ways_of_writing_out_are_one() -> None:
    """Two tasks on five nodes: fifteen ways, each pair and each node twice."""
    assert sorted([*map(list, combinations(range(NODES), 2)), *([i, i] for i in range(NODES))]) == sorted(_multisets(2))
