"""Domains that overlap or contain each other: what is found in one pass is what looking again and again finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.manifests import hypernode, node, objects, regex
from tests.support.tree_reference import ReferenceTree

from tierwise.api.core import Node
from tierwise.api.volcano import HyperNode
from tierwise.dialects.volcano.hypernodes import declare
from tierwise.model.topology import ROOT
from tierwise.model.tree import Declared, build_tree

NODES = [f"n{i}" for i in range(12)]
DOMAINS = st.lists(st.tuples(st.integers(1, 4), st.frozensets(st.sampled_from(NODES), max_size=8)), max_size=8)
NESTED = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 11), st.integers(1, 12)), max_size=9).map(
    lambda found: [(tier, frozenset(NODES[start : start + size])) for tier, start, size in found]
)
PATTERNS = st.sampled_from(
    [
        "n1",
        "^n1$",
        "^n1[0-9]?$",
        "n(2|3)$",
        "^(n4|n5)$",
        ".*1.*",
        "",
        "(?i)^N7",
        r"\An2\z",
        r"^n\d{2}$",
        "[",
        "a" * 300,
        "(?:n8|é)",
    ]
)


@given(DOMAINS | NESTED)
def test_one_pass_finds_what_many_find(domains: list[tuple[int, frozenset[str]]]) -> None:
    """The same domains are adopted and broken, for the same reasons."""
    given_ = {f"h{i}": nodes for i, (_, nodes) in enumerate(domains)}
    tiers = {f"h{i}": tier for i, (tier, _) in enumerate(domains)}
    reference = ReferenceTree(given_, tiers)

    topology, _ = build_tree([Declared(name, tiers[name], nodes=given_[name]) for name in given_], NODES)

    above = {topology.name[i]: int(topology.parent[i]) for i in range(1, len(topology))}
    assert reference.parent == {name: topology.name[up] for name, up in above.items() if up != ROOT}
    assert reference.broken == set(topology.set_aside)
    assert reference.problems == {(problem.domain, problem.code) for problem in topology.problems}


@given(st.lists(PATTERNS, max_size=5))
def test_patterns_together_match_what_each_matches(patterns: list[str]) -> None:
    """Matching all patterns of all hyperNodes in one go changes nothing for any of them."""
    machines = [node(name) for name in (*NODES, "é")]
    domains = [hypernode(f"h{i}", 1, regex(pattern)) for i, pattern in enumerate(patterns)]

    together = _declared(machines, domains)

    assert together == [found for raw in domains for found in _declared(machines, [raw])]


def _declared(*raws: list[dict[str, object]]) -> list[Declared]:
    world = objects(*(raw for part in raws for raw in part))
    return declare(world.every(HyperNode).values(), world.every(Node).values())
