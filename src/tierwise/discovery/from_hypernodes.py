"""HyperNodes read back as a discovered tree, to be written in another format.

Nodes that are named exactly need not be given: a file of hyperNodes alone is enough. Problems of the
declarations are reported as `model.tree` words them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.core import Node
from tierwise.api.meta import ObjectMeta
from tierwise.api.volcano import HyperNode
from tierwise.dialects.volcano.hypernodes import declare
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree
from tierwise.model.topology import ROOT
from tierwise.model.tree import build_tree

__all__ = ["read"]


def read(hypernodes: Iterable[HyperNode], nodes: Iterable[Node]) -> Discovered:
    """The tree that these hyperNodes form; nodes outside of all of them are left out."""
    given = list(hypernodes)
    known = {node.metadata.name: node for node in nodes}
    for hypernode in given:
        for member in hypernode.spec.members:
            exact = member.selector.exact_match
            if member.type == "Node" and exact is not None and exact.name:
                known.setdefault(exact.name, Node(metadata=ObjectMeta(name=exact.name)))
    names = list(known)
    topology, order = build_tree(declare(given, known.values()), names)
    places: dict[str, Path] = {}
    for position, leaf in zip(order, topology.leaf.tolist(), strict=True):
        chain = [d for d in reversed(topology.chains[leaf].tolist()) if d != ROOT]
        if chain:
            places[names[position]] = tuple(PathElement(int(topology.tier[d]), topology.name[d]) for d in chain)
    remarks = [SourceRemark(f"HyperNode {p.domain}", p.text, error=p.error) for p in topology.problems]
    tier_names = {tier: name for name, tier in topology.tier_names.items()}
    return Discovered.of(Tree(places, tier_names, unique=True), remarks)
