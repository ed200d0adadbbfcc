"""How full the fabric is: amounts of every domain as columns, and the nodes of one domain row by row.

A cluster may have several trees over the same nodes. Where something is told of all of them, there is an entry for
each, that of the tree which rows follow first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tierwise.api.codec import Raw
from tierwise.dialects.kubernetes.requests import nominal
from tierwise.explain.board.pods import BoardPod, PodState
from tierwise.explain.naming import tier_label
from tierwise.explain.node_marks import node_marks
from tierwise.explain.usage import held, scarce
from tierwise.model.arrays import Ints
from tierwise.model.job import Status
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology, Topology, fabric_title

__all__ = ["BoardTree"]

_MOST_RESOURCES: Final = 8
_MOST_NODES: Final = 2000
"""Nodes that are told one by one; of a larger domain the first ones."""

_NO_MORE: Final[Mapping[str, Ints]] = {}
_DULL: Final = ("ephemeral-storage", "storage")


def shown_resources(snapshot: Snapshot) -> tuple[str, ...]:
    """The resources to choose from: the scarce one first, then other devices, then cpu, memory and pods."""
    totals = snapshot.nodes.allocatable.sum(axis=1).tolist()
    scarce_resource = scarce(snapshot)
    names = [
        name
        for name, total in zip(snapshot.axis.names, totals, strict=True)
        if total > 0
        and name != scarce_resource
        and nominal(name)
        and name not in _DULL
        and not name.startswith("hugepages-")
    ]
    return (scarce_resource, *sorted(names, key=lambda name: "/" not in name))[:_MOST_RESOURCES]


def trees_of(snapshot: Snapshot) -> dict[str, AlternateTopology]:
    """Every tree over the nodes by the name that `--fabric` has for it, the one that rows follow first."""
    trees = {snapshot.kind: AlternateTopology(snapshot.topology, np.arange(len(snapshot.nodes)))}
    return {fabric_title(kind): tree for kind, tree in (trees | snapshot.alternate_topologies).items()}


class BoardTree:
    """Amounts of the shown resources on every row: what there is, what is held, what of it is new, what is kept."""

    def __init__(self, snapshot: Snapshot, board_pods: Sequence[BoardPod]) -> None:
        self.resources = shown_resources(snapshot)
        self.trees = trees_of(snapshot)
        self._snapshot = snapshot
        self._standing = board_pods
        nodes = snapshot.nodes
        index = [snapshot.axis.index.get(name, -1) for name in self.resources]
        self.total = np.stack([nodes.allocatable[i] if i >= 0 else np.zeros(len(nodes), np.int64) for i in index])
        self._request = np.stack([_requests(snapshot, i) for i in index])
        self.new = self.of(stand for stand in board_pods if stand.how is PodState.NEW)
        self.kept = self.of(stand for stand in board_pods if not stand.holds)
        # What the last cycle bound may be pending in its own snapshot, where it is not counted yet.
        fresh = self.of(stand for stand in board_pods if stand.holds and stand.task.status is Status.PENDING)
        self.used: Ints = np.stack([held(snapshot, name) for name in self.resources]) + fresh
        self.shut = nodes.cordoned | LostNodes(nodes).down
        self._marks = node_marks(snapshot)
        self.free: Ints = np.where(self.shut, 0, np.maximum(self.total - self.used, 0))

    def of(self, board_pods: Iterable[BoardPod]) -> Ints:
        """Sum of the requests of pods, (resources x rows)."""
        pairs = [(stand.task.shape.number, stand.row) for stand in board_pods]
        sums = np.zeros_like(self.total)
        if pairs:
            shapes, rows = np.array(pairs, dtype=np.int64).T
            np.add.at(sums.T, rows, self._request[:, shapes].T)
        return sums

    def wire(self, fragmented: Ints) -> list[Raw]:
        """Every tree: its domains as columns in preorder; the sums of each resource by its name."""
        amounts = {**self._sums(), "fragmented": fragmented}
        return [self._columns(title, tree, amounts) for title, tree in self.trees.items()]

    def _columns(self, title: str, tree: AlternateTopology, amounts: Mapping[str, Ints]) -> Raw:
        topology = tree.topology
        rows = tree.rows
        ones = np.ones(len(self._snapshot.nodes), dtype=np.int64)
        over: Ints = np.any(self.used > self.total, axis=0).astype(np.int64)
        return {
            "title": title,
            "name": ["cluster", *topology.name[ROOT + 1 :]],
            "parent": topology.parent.tolist(),
            "tier": topology.tier.tolist(),
            "nodes": topology.totals(ones).tolist(),
            "own": topology.own(topology.totals(ones)).tolist(),
            "shut": topology.totals(self.shut[rows].astype(np.int64)).tolist(),
            "amounts": {
                name: {
                    what: topology.totals(sums[r, rows]).tolist()
                    for what, sums in amounts.items()
                    if what in ("total", "used", "free") or sums[r].any()
                }
                for r, name in enumerate(self.resources)
            },
            "over": topology.totals(over[rows]).tolist(),
            "tiers": _tiers(topology),
            "setAside": list(topology.set_aside),
        }

    def _sums(self) -> dict[str, Ints]:
        return {"total": self.total, "used": self.used, "free": self.free, "new": self.new, "kept": self.kept}

    def nodes(self, tree: AlternateTopology, domain: int, fragmented: Ints) -> Raw:
        """The nodes below a domain in tree order: amounts by resource, and the jobs there with how many pods."""
        span = tree.topology.span(domain)
        rows = tree.rows[span][:_MOST_NODES].tolist()
        jobs: dict[int, Counter[str]] = {row: Counter() for row in rows}
        for stand in self._standing:
            if stand.row in jobs:
                jobs[stand.row][stand.job.key] += 1
        return {
            "count": span.stop - span.start,
            "nodes": [{**self.node(row, {"fragmented": fragmented}), "jobs": dict(jobs[row])} for row in rows],
        }

    def state(self, row: int) -> str:
        """Why a node takes no pods, in a word or two; "" if it takes some."""
        nodes = self._snapshot.nodes
        if nodes.cordoned[row]:
            return "cordoned"
        if not nodes.ready[row]:
            return "not ready"
        return "unhealthy" if row in nodes.unhealthy else ""

    def marks(self, row: int) -> Raw:
        """Marks of a node, each with its text: that it is suspected, closed for a time, or kept in part."""
        return {node_mark.mark: node_mark.text for node_mark in self._marks.get(row, ())}

    def node(self, row: int, further_amounts: Mapping[str, Ints] = _NO_MORE) -> Raw:
        """One node: its innermost domains, whether it takes pods, and amounts in the order of the resources."""
        nodes = self._snapshot.nodes
        sums = {**self._sums(), **further_amounts}
        over = bool((self.used[:, row] > self.total[:, row]).any())
        return {
            "name": nodes.names[row],
            "hyperNodes": [int(tree.topology.leaf[tree.positions[row]]) for tree in self.trees.values()],
            "state": self.state(row),
            "marks": self.marks(row),
            "over": over,
            "amounts": {what: sums[what][:, row].tolist() for what in sums},
        }


def _requests(snapshot: Snapshot, index: int) -> Ints:
    """Request of each shape for one resource."""
    amounts = (int(shape.request[index]) if index >= 0 else 0 for shape in snapshot.shapes)
    return np.fromiter(amounts, np.int64, len(snapshot.shapes))


def _tiers(topology: Topology) -> list[Raw]:
    """The tiers from the innermost outwards; the virtual root is none."""
    tiers = []
    for tier, domains in topology.at_tier.items():
        below = int((domains != ROOT).sum())
        if below:
            tiers.append({"tier": tier, "name": tier_label(topology, tier).partition(" ")[2], "hyperNodes": below})
    return tiers
