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


@given(DOMAINS | NESTED, st.permutations(NODES))
def test_rows_follow_the_walk(domains: list[tuple[int, frozenset[str]]], names: list[str]) -> None:
    """Rows are those of a walk: the nodes of children, then a domain's own, both in natural order."""
    declared = [Declared(f"h{i}", tier, nodes=nodes) for i, (tier, nodes) in enumerate(domains)]
    topology, order = build_tree(declared, names)
    chains = [[topology.name[d] for d in topology.ancestors(i)] for i in range(len(topology))]
    nodes = {d.name: d.nodes for d in declared}
    claims = {name: [i for i in range(1, len(topology)) if name in nodes[topology.name[i]]] for name in NODES}
    home = {name: max(claims[name], key=lambda i: len(chains[i]), default=ROOT) for name in NODES}
    rows: list[str] = []
    spans = {}

    def walk(domain: int) -> None:
        start = len(rows)
        for child in topology.children[domain]:
            walk(child)
        rows.extend(name for name in NODES if home[name] == domain)
        spans[domain] = start, len(rows)

    walk(ROOT)
    assert rows == [names[i] for i in order]
    assert [home[name] for name in rows] == topology.leaf.tolist()
    assert spans == {i: (int(topology.start[i]), int(topology.end[i])) for i in range(len(topology))}


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
