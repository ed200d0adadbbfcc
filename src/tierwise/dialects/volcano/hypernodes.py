"""HyperNodes as declared domains: which nodes and which other domains each of them names.

Called by the snapshot builder, by the hyperNode controller and by `validate`. Finds members and notes those that
select nothing; what the declarations amount to, and what is wrong between them, is `model.tree`'s business.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final, Protocol

import msgspec

from tierwise.api.core import LabelSelector, Node, Requirement
from tierwise.api.domain_amounts import AMOUNTS, Amount, parse_amounts
from tierwise.api.fabric import fabric_of
from tierwise.api.go_pattern import Pattern, compile_pattern, options
from tierwise.api.natural import natural
from tierwise.api.selector import matches, selects_nothing
from tierwise.api.volcano import HyperNode, MemberSpec
from tierwise.model.topology import HYPERNODES, Problem
from tierwise.model.tree import Declared

__all__ = ["by_fabric", "declare", "pattern_fault"]


def by_fabric(hypernodes: Iterable[HyperNode]) -> dict[str, list[HyperNode]]:
    """Lists of hyperNodes by the name of their fabric.

    The key "" is for those of Volcano's own tree, and is absent where there are none. The names are in natural order,
    the hyperNodes of each in the order given.
    """
    by_name: dict[str, list[HyperNode]] = {}
    for hypernode in hypernodes:
        name = fabric_of(hypernode.metadata)
        by_name.setdefault("" if name == HYPERNODES else name, []).append(hypernode)
    return {name: by_name[name] for name in sorted(by_name, key=natural)}


def declare(hypernodes: Iterable[HyperNode], nodes: Iterable[Node]) -> list[Declared]:
    """The domain that each hyperNode declares over these nodes, with a warning for each member that selects nothing."""
    every = tuple(hypernodes)
    regexes = (member.selector.regex_match for hypernode in every for member in hypernode.spec.members)
    patterns = dict.fromkeys(regex.pattern for regex in regexes if regex is not None)
    census = _NodeNames(tuple(nodes), tuple(pattern for pattern in patterns if pattern_fault(pattern) is None))
    return [_declared(hypernode, census) for hypernode in every]


def pattern_fault(pattern: str) -> str | None:
    """Error text for a pattern; None if it compiles."""
    compiled = _compile(pattern)
    return compiled if isinstance(compiled, str) else None


def _declared(hypernode: HyperNode, census: _NodeNames) -> Declared:
    name = hypernode.metadata.name
    spec = hypernode.spec
    nodes: set[str] = set()
    children: list[str] = []
    problems: list[Problem] = []
    for index, member in enumerate(spec.members):
        where = f"members[{index}]"
        if member.type == "Node":
            member_nodes, code, fault = _nodes_of(member, census)
            nodes |= member_nodes
        else:
            child, code, fault = _child_of(member)
            children += child
        if fault:
            problems.append(Problem(name, code, f"{where}: {fault}", error=False))
    text = hypernode.metadata.annotations.get(AMOUNTS, "")
    amounts = parse_amounts(text) if text else ()
    if isinstance(amounts, str):
        text = f"annotation {AMOUNTS}: {amounts}; nothing that takes of an amount starts there"
        problems.append(Problem(name, "InvalidAmounts", text, error=False))
        amounts = (Amount("", 0),)
    return Declared(
        name=name,
        tier=spec.tier,
        tier_name=spec.tier_name,
        nodes=frozenset(nodes),
        children=tuple(dict.fromkeys(children)),
        problems=tuple(problems),
        amounts=amounts,
    )


def _child_of(member: MemberSpec) -> tuple[list[str], str, str]:
    """The hyperNode that a member names, and the code and text of what is wrong with it."""
    if member.type != "HyperNode":
        return [], "IgnoredMember", f'members of type "{member.type}" are ignored'
    exact = member.selector.exact_match
    if exact is None:
        # Volcano resolves hyperNode members by name alone; so do we, but we say so.
        return [], "IgnoredMember", "hyperNodes are named by exactMatch only, other selectors are ignored"
    if exact.name:
        return ([exact.name], "", "")
    return ([], "EmptyMember", "the member's name is empty")


def _nodes_of(member: MemberSpec, census: _NodeNames) -> tuple[frozenset[str], str, str]:
    """The nodes that a member selects, and the code and text of why there are none."""
    exact = member.selector.exact_match
    regex = member.selector.regex_match
    labels = member.selector.label_match
    if exact is not None and exact.name:
        names = census.names & {exact.name}
        return names, "MissingNode", "" if names else f'node "{exact.name}" does not exist'
    if exact is not None:
        return frozenset(), "EmptyMember", "the node's name is empty"
    if regex is not None:
        fault = pattern_fault(regex.pattern)
        if fault:
            return frozenset(), "BadPattern", f'pattern "{regex.pattern}" does not compile: {fault}'
        names = census.matching(regex.pattern)
        return names, "EmptyMember", "" if names else f'pattern "{regex.pattern}" matches no node'
    if labels is not None and not selects_nothing(labels):
        names = census.selected(labels)
        return names, "EmptyMember", "" if names else f"no node has the labels {_shown(labels)}"
    # Kubernetes reads an empty selector as "everything", Volcano's hyperNodes as "nothing"; here Volcano is right.
    fault = "the member has no selector" if labels is None else "an empty labelMatch selects nothing"
    return frozenset(), "EmptyMember", fault


def _shown(labels: LabelSelector) -> str:
    pairs = [f"{key}={value}" for key, value in sorted(labels.match_labels.items())]
    conditions = [f"{r.key} {r.operator} ({', '.join(r.values)})" for r in labels.match_expressions]
    return ", ".join(pairs + [condition.removesuffix(" ()") for condition in conditions])


class _NodeNames(msgspec.Struct, frozen=True, dict=True):
    """The nodes of a cluster, indexed for the ways of selecting them."""

    nodes: Sequence[Node]
    patterns: Sequence[str] = ()  # those that may be asked for, all of them sound
    _values: dict[str, dict[str, frozenset[str]]] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(node.metadata.name for node in self.nodes)

    @cached_property
    def _matches(self) -> dict[str, frozenset[str]]:
        """Which names each pattern matches: names are gone through once for many patterns, not once for each."""
        names = sorted(self.names)
        names_by_pattern: dict[str, list[str]] = {pattern: [] for pattern in self.patterns}
        for start in range(0, len(self.patterns), _TOGETHER):
            for name, pattern in _pairs(names, self.patterns[start : start + _TOGETHER]):
                names_by_pattern[pattern].append(name)
        return {pattern: frozenset(matched) for pattern, matched in names_by_pattern.items()}

    def matching(self, pattern: str) -> frozenset[str]:
        """Names that a sound pattern matches anywhere, as Go's MatchString does."""
        return self._matches[pattern]

    def selected(self, labels: LabelSelector) -> frozenset[str]:
        """Names of the nodes that satisfy a selector; asks once for each value that a label has, not for each node."""
        name_sets = [self._by_value(key).get(value, frozenset()) for key, value in labels.match_labels.items()]
        name_sets += [self._satisfying(requirement) for requirement in labels.match_expressions]
        return frozenset.intersection(*sorted(name_sets, key=len))

    def _satisfying(self, requirement: Requirement) -> frozenset[str]:
        condition = LabelSelector(match_expressions=(requirement,))
        groups = self._by_value(requirement.key)
        name_sets = [names for value, names in groups.items() if matches(condition, {requirement.key: value})]
        if matches(condition, {}):
            name_sets.append(self.names.difference(*groups.values()))
        return frozenset().union(*name_sets)

    def _by_value(self, key: str) -> dict[str, frozenset[str]]:
        by_value = self._values.get(key)
        if by_value is None:
            groups: dict[str, list[str]] = defaultdict(list)
            for meta in [node.metadata for node in self.nodes]:
                value = meta.labels.get(key)
                if value is not None:
                    groups[value].append(meta.name)
            by_value = self._values[key] = {value: frozenset(names) for value, names in groups.items()}
        return by_value


_PATTERNS: Final = 16_384
"""Patterns that are kept compiled: a tree is read again and again."""


_TOGETHER: Final = 1_000
"""Patterns that are matched in one go. More are slower where they begin with anything, as ".*rack7"."""

_MEMORY: Final = 64 << 20
"""Bytes that matching them may take; where that is too little, fewer are matched in one go."""


def _pairs(names: Sequence[str], patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every name with every pattern that it matches."""
    together = _together(patterns)
    if together is None and len(patterns) > 1:
        middle = len(patterns) // 2
        yield from _pairs(names, patterns[:middle])
        yield from _pairs(names, patterns[middle:])
        return
    for name in names:
        matched = together.Match(name) if together is not None else ()
        if 0 in matched:  # the empty pattern, which is in every name: not there where memory ran out
            yield from ((name, patterns[i - 1]) for i in matched if i)
        else:
            yield from ((name, pattern) for pattern in patterns if _pattern(pattern).search(name))


class _Together(Protocol):
    """Interface of re2's sets of patterns, which come without types."""

    def Match(self, text: str) -> list[int]: ...  # noqa: N802


def _together(patterns: Sequence[str]) -> _Together | None:
    """These patterns, numbered from 1, beside the empty one; None where they are too much for one set."""
    import re2

    together = re2.Set.SearchSet(options(never_capture=True, max_mem=_MEMORY))
    try:
        for pattern in ("", *patterns):
            together.Add(pattern)
        together.Compile()
    except re2.error:
        return None
    matcher: _Together = together
    return matcher


@lru_cache(maxsize=_PATTERNS)
def _compile(text: str) -> Pattern | str:
    """A pattern in Go's syntax, or what is wrong with it."""
    try:
        return compile_pattern(text)
    except ValueError as error:
        return str(error)


def _pattern(text: str) -> Pattern:
    compiled = _compile(text)
    assert not isinstance(compiled, str)
    return compiled
