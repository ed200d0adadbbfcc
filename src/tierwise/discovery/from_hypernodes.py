"""HyperNodes read back as a discovered tree, to be written in another format.

Nodes that are named exactly need not be given: a file of hyperNodes alone is enough. Problems of the
declarations are reported as `model.tree` words them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tierwise.api.core import Node, ObjectMeta
from tierwise.api.volcano import ExactMatch, HyperNode, MemberSelector, MemberSpec
from tierwise.dialects.volcano.hypernodes import declare
from tierwise.discovery.slurm import Switch, merge_planes
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree
from tierwise.model.topology import ROOT
from tierwise.model.tree import build_tree

__all__ = ["read", "without_planes"]


def without_planes(hypernodes: Iterable[HyperNode]) -> tuple[list[HyperNode], list[SourceRemark]]:
    """One hyperNode for all of one tier with the same members, such as the spines of several planes, and warnings.

    The scheduler takes such a tree for a mistake; who carries a network elsewhere means planes by it.
    """
    by_name = {hypernode.metadata.name: hypernode for hypernode in hypernodes}
    written = [
        Switch(
            name,
            # A tier among the members keeps domains of different tiers apart.
            nodes=(f"tier {h.spec.tier}", *(_node_key(m) for m in h.spec.members if m.type != "HyperNode")),
            children=tuple(_inner(m) for m in h.spec.members if m.type == "HyperNode"),
            where=f"HyperNode {name}",
        )
        for name, h in by_name.items()
        if h.spec.members
    ]
    unmerged, remarks = merge_planes(written)
    hypernode_remarks = [replace(remark, text=remark.text.replace("switch ", "hyperNode ", 1)) for remark in remarks]
    merged = {switch.name for switch in written} - unmerged.keys()
    remaining = []
    for name, h in by_name.items():
        if name not in merged:
            remaining.append(_with_children(h, unmerged[name].children) if name in unmerged else h)
    return remaining, hypernode_remarks


def _node_key(member: MemberSpec) -> str:
    exact = member.selector.exact_match
    if exact is not None:
        return exact.name
    return repr(member.selector)


def _inner(member: MemberSpec) -> str:
    exact = member.selector.exact_match
    return exact.name if exact is not None else ""


def _with_children(hypernode: HyperNode, children: tuple[str, ...]) -> HyperNode:
    """A hyperNode with these children, each of which may replace others that it named."""
    spec = hypernode.spec
    if children == tuple(_inner(member) for member in spec.members if member.type == "HyperNode"):
        return hypernode
    inner = tuple(
        MemberSpec(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=name))) for name in children
    )
    nodes = tuple(member for member in spec.members if member.type != "HyperNode")
    return replace(hypernode, spec=replace(spec, members=(*inner, *nodes)))


def read(hypernodes: Iterable[HyperNode], nodes: Iterable[Node]) -> Discovered:
    """The tree that these hyperNodes form; nodes outside of all of them are left out."""
    declared = list(hypernodes)
    nodes_by_name = {node.metadata.name: node for node in nodes}
    for hypernode in declared:
        for member in hypernode.spec.members:
            exact = member.selector.exact_match
            if member.type == "Node" and exact is not None and exact.name:
                nodes_by_name.setdefault(exact.name, Node(metadata=ObjectMeta(name=exact.name)))
    names = list(nodes_by_name)
    topology, order = build_tree(declare(declared, nodes_by_name.values()), names)
    places: dict[str, Path] = {}
    for position, leaf in zip(order.tolist(), topology.leaf.tolist(), strict=True):
        chain = [d for d in reversed(topology.chains[leaf].tolist()) if d != ROOT]
        if chain:
            places[names[position]] = tuple(PathElement(int(topology.tier[d]), topology.name[d]) for d in chain)
    remarks = [SourceRemark(f"HyperNode {p.domain}", p.text, error=p.error) for p in topology.problems]
    tier_names = {tier: name for name, tier in topology.tier_names.items()}
    return Discovered.of(Tree(places, tier_names, unique=True), remarks)
