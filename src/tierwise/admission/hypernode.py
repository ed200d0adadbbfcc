"""Checks of HyperNodes: each on its own, and the tree that they form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from tierwise.admission.findings import Issue, at_least, at_most, error, one_of, warning
from tierwise.admission.names import LONGEST_NAME, dns_subdomain, label_selector
from tierwise.api.codec import Raw, part
from tierwise.api.core import Node, ObjectMeta
from tierwise.api.domain_amounts import AMOUNTS, parse_amounts
from tierwise.api.fabric import FABRIC, fabric_name_fault, fabric_of
from tierwise.api.limits import MEMBERS, TIER
from tierwise.api.volcano import HyperNode, MemberSelector
from tierwise.dialects.volcano.hypernodes import declare, pattern_fault
from tierwise.model.topology import Topology
from tierwise.model.tree import build_tree

__all__ = ["check", "check_itself", "check_tree", "grown"]

_MEMBER_TYPES: Final = frozenset({"Node", "HyperNode"})


def check(hypernode: HyperNode, raw: Raw) -> Iterator[Issue]:
    """Issues of one hyperNode, whatever else there is."""
    spec = hypernode.spec
    yield from dns_subdomain("metadata.name", hypernode.metadata.name)
    written = part(raw, "spec")
    if written.get("tier") is None:
        yield error("spec.tier", "the tier is missing")
    if fault := fabric_name_fault(fabric_of(hypernode.metadata)):
        yield error(f"metadata[{FABRIC}]", fault)
    yield from _check_amounts(hypernode)
    yield from at_least("spec.tier", spec.tier, 0)
    yield from at_most("spec.tier", spec.tier, TIER)
    if len(spec.members) > MEMBERS:
        text = f"{len(spec.members)} members are more than the {MEMBERS} that a hyperNode may have"
        yield error("spec.members", text)
    if len(spec.tier_name) > LONGEST_NAME:
        yield error("spec.tierName", f"tierName must have at most {LONGEST_NAME} characters")
    if not spec.members:
        yield error("spec.members", "at least one member is needed")
    members = written.get("members")
    for index, member in enumerate(spec.members):
        entry = members[index] if isinstance(members, list) else None
        named = entry.get("name") if isinstance(entry, dict) else None
        yield from one_of(f"spec.members[{index}].type", member.type, _MEMBER_TYPES)
        yield from _check_selector(f"spec.members[{index}].selector", member.selector, str(named or ""))


def _check_amounts(hypernode: HyperNode) -> Iterator[Issue]:
    """Amounts that cannot be read are errors; those without charges of their own count by a profile alone."""
    amounts = parse_amounts(hypernode.metadata.annotations.get(AMOUNTS, ""))
    if isinstance(amounts, str):
        yield error(f"metadata.annotations[{AMOUNTS}]", amounts)
        return
    for amount in amounts:
        if not amount.charges:
            text = f"{amount.name} has no charges: it counts where a profile gives them (plugin amounts), else nowhere"
            yield warning(f"metadata.annotations[{AMOUNTS}]", text)


def check_itself(hypernode: HyperNode) -> Iterator[Issue]:
    """Errors where a hyperNode is a member of itself, for reviews, in which circles of several are only warned of."""
    for index, member in enumerate(hypernode.spec.members):
        exact = member.selector.exact_match
        if member.type == "HyperNode" and exact is not None and exact.name == hypernode.metadata.name:
            yield error(f"spec.members[{index}].selector.exactMatch.name", "a hyperNode cannot contain itself")


def _check_selector(path: str, selector: MemberSelector, named: str) -> Iterator[Issue]:
    """`named` is what the member is called without a selector, as the first examples of Volcano's design have it."""
    exact = selector.exact_match
    regex = selector.regex_match
    labels = selector.label_match
    kinds = (("exactMatch", exact), ("regexMatch", regex), ("labelMatch", labels))
    kinds_given = [name for name, value in kinds if value is not None]
    if not kinds_given:
        hint = f": selector: {{exactMatch: {{name: {named}}}}} instead of name: {named}?" if named else ""
        yield error(path, f"the selector needs one of exactMatch, regexMatch and labelMatch{hint}")
    if len(kinds_given) > 1:
        yield error(path, f"the selector takes only one of {', '.join(kinds_given)}")
    if exact is not None and not exact.name:
        yield error(f"{path}.exactMatch.name", "the name is empty")
    elif exact is not None:
        yield from dns_subdomain(f"{path}.exactMatch.name", exact.name)
    if regex is not None:
        fault = pattern_fault(regex.pattern) if regex.pattern else "it is empty"
        if fault:
            yield error(f"{path}.regexMatch.pattern", f'pattern "{regex.pattern}" is not a regular expression: {fault}')
    yield from label_selector(f"{path}.labelMatch", labels)


def grown(hypernodes: Iterable[HyperNode], nodes: Iterable[Node]) -> tuple[Topology, list[Node]]:
    """The tree of hyperNodes, and the nodes in the order of its rows.

    Where no nodes are given, those that members name are used: overlaps show all the same. What patterns and
    label selectors would find is not known then, and not complained about.
    """
    hypernodes = list(hypernodes)
    all_nodes = list(nodes)
    stand_in = all_nodes or [Node(metadata=ObjectMeta(name=name)) for name in _named(hypernodes)]
    declared = declare(hypernodes, stand_in)
    if not all_nodes:
        declared = [
            replace(domain, problems=tuple(p for p in domain.problems if p.code != "EmptyMember"))
            for domain in declared
        ]
    topology, order = build_tree(declared, [node.metadata.name for node in stand_in])
    return topology, [all_nodes[row] for row in order.tolist()] if all_nodes else []


def check_tree(topology: Topology) -> Iterator[tuple[str, Issue]]:
    """Issues between hyperNodes, each with the name of the hyperNode that it is about."""
    for problem in topology.problems:
        issue = error if problem.error else warning
        yield problem.domain, issue("spec.members", problem.text)


def _named(hypernodes: Iterable[HyperNode]) -> list[str]:
    names: dict[str, None] = {}
    for hypernode in hypernodes:
        for member in hypernode.spec.members:
            if member.type == "Node" and member.selector.exact_match is not None and member.selector.exact_match.name:
                names[member.selector.exact_match.name] = None
    return list(names)
