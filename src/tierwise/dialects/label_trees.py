"""Trees that node labels make, for languages whose constraints name the key of a label.

Two ways of reading labels are known. A *path* is an ordered list of keys, outermost first, as Topology objects of Kueue
and KAI have it: a domain is the path of values from the outside inwards, and a node that lacks one of the labels is
outside the tree. A *bare* tree has keys in no order, as Kubernetes' own groups name them: a domain is a value of a key,
wherever it is found. Keys whose domains lie within each other form one tree; a key that crosses the others is a tree by
itself. A key that no node has is in no tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tierwise.api.core import Node
from tierwise.model.tree import Declared

__all__ = ["CLUSTER", "MOST_CROSSING", "LabelTree", "Planned", "declared", "plan"]

CLUSTER = "cluster"
"""The name of the tier above all keys: no constraint means it, so that a key which no node has limits as it says."""

MOST_CROSSING = 16
"""How many crossing bare keys get a tree of their own; the limit exists because a group may name any node label."""

Domain = tuple[tuple[str, str], ...]
"""The labels around a node, outermost first, down to the one that names the domain."""

Path = tuple[Any, ...]
"""What tells a domain: a part for each domain around it, outermost first, and its own at the end."""


class LabelTree(msgspec.Struct, frozen=True):
    """A tree that some object asks for."""

    kind: str  # how constraints name it
    keys: tuple[str, ...]  # of node labels: outermost first, or in any order
    bare: bool = False
    only: tuple[tuple[tuple[str, str], ...], ...] = ()  # labels, one set of which its nodes must have; none: any node


class Planned(msgspec.Struct, frozen=True):
    """A tree of domains that can be grown: as constraints name it, with the tier of every key."""

    kind: str
    declared: list[Declared]
    tiers: dict[str, int]


def plan(tree: LabelTree, nodes: Sequence[Node]) -> Iterator[Planned]:
    """The trees that the labels of these nodes make: one for a path, one or more for bare keys, the largest first."""
    if tree.only:
        nodes = [node for node in nodes if any(_has(node, labels) for labels in tree.only)]
    if not tree.bare:
        yield _planned(tree.kind, tree.keys, [(_path(tree.keys, node), node) for node in nodes])
        return
    present = {key for node in nodes for key in node.metadata.labels}
    chain, crossing = _chain([key for key in tree.keys if key in present], nodes)
    if chain:
        yield _planned(tree.kind, chain, [(_labels(chain, node), node) for node in nodes])
    for key in crossing[:MOST_CROSSING]:
        yield _planned(f"{tree.kind} {key}", (key,), [(_labels((key,), node), node) for node in nodes])


def _has(node: Node, labels: tuple[tuple[str, str], ...]) -> bool:
    return all(node.metadata.labels.get(key) == value for key, value in labels)


def _planned(kind: str, keys: Sequence[str], placed: Sequence[tuple[Domain, Node]]) -> Planned:
    tiers = {key: len(keys) - depth for depth, key in enumerate(keys)}
    domains = declared(placed, _names, lambda domain: (tiers[domain[-1][0]], domain[-1][0]))
    return Planned(kind, domains, {**tiers, CLUSTER: len(keys) + 1})


def declared(
    placed: Iterable[tuple[Path, Node]],
    named: Callable[[Sequence[Path]], Mapping[Path, str]],
    tier: Callable[[Path], tuple[int, str]],
) -> list[Declared]:
    """The domains of nodes that have paths from the outside inwards; a node whose path is empty is in none.

    `named` gives each path its name, `tier` the number and the name of its tier.
    """
    inside: dict[Path, set[str]] = {}
    for path, node in placed:
        for depth in range(1, len(path) + 1):
            inside.setdefault(path[:depth], set())
        if path:
            inside[path].add(node.metadata.name)
    names = named(list(inside))
    children: dict[Path, list[str]] = {}
    for path in inside:
        children.setdefault(path[:-1], []).append(names[path])
    return [
        Declared(names[path], *tier(path), nodes=frozenset(nodes_inside), children=tuple(children.get(path, ())))
        for path, nodes_inside in inside.items()
    ]


def _names(domains: Sequence[Domain]) -> dict[Domain, str]:
    """The value of each domain where no other one has it; else its values from the outside inwards, else its labels."""
    values = Counter(domain[-1][1] for domain in domains)
    paths = Counter("/".join(value for _, value in domain) for domain in domains)
    names = {}
    for domain in domains:
        value, path = domain[-1][1], "/".join(value for _, value in domain)
        labels = ",".join(f"{key}={value}" for key, value in domain)
        unique = path if paths[path] == 1 and path not in values else labels
        names[domain] = value if values[value] == 1 else unique
    return names


def _path(keys: Sequence[str], node: Node) -> Domain:
    """The labels of a node for all keys; none where it lacks one."""
    labels = node.metadata.labels
    pairs = tuple((key, value) for key in keys if (value := labels.get(key, "")))
    return pairs if len(pairs) == len(keys) else ()


def _labels(keys: Sequence[str], node: Node) -> Domain:
    """The labels of a node for those of the keys that it has."""
    labels = node.metadata.labels
    return tuple((key, value) for key in keys if (value := labels.get(key, "")))


def _chain(keys: Sequence[str], nodes: Sequence[Node]) -> tuple[list[str], list[str]]:
    """Two lists of label keys: those whose domains nest, outermost first, and the rest.

    The rest are keys that cross one of the first, and keys that no node carries.
    """
    values = {key: {v for node in nodes if (v := node.metadata.labels.get(key, ""))} for key in keys}
    chain: list[str] = []
    crossing: list[str] = []
    for key in sorted(keys, key=lambda key: (len(values[key]), key)):
        (chain if values[key] and all(_within(key, outer, nodes) for outer in chain) else crossing).append(key)
    return chain, crossing


def _within(inner: str, outer: str, nodes: Sequence[Node]) -> bool:
    """Whether every domain of one key lies in one domain of another, with all its nodes."""
    around: dict[str, str] = {}
    for node in nodes:
        labels = node.metadata.labels
        value = labels.get(inner, "")
        if value and around.setdefault(value, labels.get(outer, "")) != labels.get(outer, ""):
            return False
    return all(around.values())
