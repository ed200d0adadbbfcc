"""Small clusters in two fabrics and a gang on both, and an exact answer to "can this gang start?"."""

from __future__ import annotations

import json
from itertools import product

from tests.support.drawn_gang import Gang, Groups
from tests.support.koordinator import hypernode

from tierwise.api.codec import Raw

__all__ = ["NODES", "Question", "draw_nodes", "fabric", "multisets"]

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
        nodes = draw_nodes(self.cpus)
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
        return [*nodes, *fabric("r", self.racks, ""), *fabric("p", self.feeds, "power"), *drawn]

    def _inner(self) -> int | None:
        return 1 if self.each == "rack" else None

    def possible(self) -> bool:
        """Every way to put each group on nodes, looked at one by one."""
        ways = [rows for rows in multisets(self.size) if self._within(self.each, rows)]
        for big, *chosen in product(multisets(self.large), *([ways] * self.groups)):
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


def multisets(size: int) -> list[list[int]]:
    """Every way to put so many tasks on the nodes of a question."""
    found: list[list[int]] = [[]]
    for _ in range(size):
        found = [[*rows, row] for rows in found for row in range(rows[-1] if rows else 0, NODES)]
    return found


def draw_nodes(cpus: list[int]) -> list[Raw]:
    """Nodes with so many cpus."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}"},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
        }
        for i, cpu in enumerate(cpus)
    ]


def fabric(letter: str, homes: list[int], name: str) -> list[Raw]:
    """The domains of a fabric of one tier, by the number that each node is in; -1 for none."""
    made = []
    for home in sorted(set(homes) - {-1}):
        raw = hypernode(f"{letter}{home}", 1, [("Node", f"n{i}") for i, own in enumerate(homes) if own == home])
        if name:
            raw["metadata"] = {"name": f"{letter}{home}", "labels": {"tierwise.io/fabric": name}}
        made.append(raw)
    return made
