"""Which nodes and hyperNodes the members of a hyperNode select."""

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.manifests import (
    children,
    hypernode,
    labelled,
    node,
    nodes,
    objects,
    regex,
)

from tierwise.api.codec import Raw
from tierwise.api.core import Node
from tierwise.api.volcano import HyperNode
from tierwise.dialects.volcano.hypernodes import declare, pattern_fault
from tierwise.model.tree import Declared

CLUSTER = [
    node("worker-1", role="worker"),
    node("worker-2", role="worker", zone="b"),
    node("control-plane-1", role="control"),
    node("bare"),
]


def _declared(*members: Raw) -> Declared:
    world = objects(*CLUSTER, hypernode("h", 1, members, tier_name="rack"))
    [found] = declare(world.every(HyperNode).values(), world.every(Node).values())
    return found


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"role": "worker"}}, {"worker-1", "worker-2"}),
        ({"matchLabels": {"role": "worker", "zone": "b"}}, {"worker-2"}),
        (
            {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["worker"]}]},
            {"control-plane-1", "bare"},
        ),
        ({"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}, {"bare"}),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"worker-2"}),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": ["control", "x"]}]}, {"control-plane-1"}),
        ({"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}, set()),
        ({}, set()),
    ],
)
def test_label_selectors_mean_what_kubernetes_says(selector: Raw, expected: set[str]) -> None:
    """Labels select as everywhere in Kubernetes, except that an empty selector selects nothing."""
    assert expected == _declared(*labelled(selector)).nodes


def test_members_of_all_entries_are_united() -> None:
    """Names, patterns and labels of one hyperNode add up."""
    members = [*nodes("bare"), *regex("^worker-1$"), *labelled({"matchLabels": {"role": "control"}})]

    assert {"bare", "worker-1", "control-plane-1"} == _declared(*members).nodes


@pytest.mark.parametrize(
    ("member", "text", "code"),
    [
        (nodes("gone"), 'members[0]: node "gone" does not exist', "MissingNode"),
        (nodes(""), "members[0]: the node's name is empty", "EmptyMember"),
        (regex("x["), 'members[0]: pattern "x[" does not compile: missing ]: [', "BadPattern"),
        (regex("^x"), 'members[0]: pattern "^x" matches no node', "EmptyMember"),
        (labelled({"matchLabels": {"role": "x"}}), "members[0]: no node has the labels role=x", "EmptyMember"),
        (labelled({}), "members[0]: an empty labelMatch selects nothing", "EmptyMember"),
        ([{"type": "Node", "selector": {}}], "members[0]: the member has no selector", "EmptyMember"),
    ],
)
def test_a_member_that_selects_nothing_is_named(member: list[Raw], text: str, code: str) -> None:
    """Whoever misspells a member is told which one, and the rest of the hyperNode stays usable."""
    [problem] = _declared(*member).problems

    assert ("h", code, text, False) == (problem.domain, problem.code, problem.text, problem.error)


@pytest.mark.parametrize("member", [regex("s.*", "HyperNode"), labelled({"matchLabels": {"a": "b"}}, "HyperNode")])
def test_hypernode_members_are_named_exactly_or_ignored(member: list[Raw]) -> None:
    """Patterns and labels do not select hyperNodes; that is said, not silently passed over."""
    found = _declared(*children("s0", "s0"), *member)

    assert ("s0",) == found.children
    assert ["IgnoredMember"] == [problem.code for problem in found.problems]


def test_patterns_that_do_not_compile_are_told_from_those_that_do() -> None:
    """Patterns are Go's: look-ahead is no part of them."""
    assert pattern_fault("^node-[0-9]+$") is None
    assert pattern_fault("(?!x)") == "invalid perl operator: (?!"


PIECES = [
    "^",
    "$",
    "a",
    "n1",
    "[^a]",
    ".",
    ".*",
    "(",
    ")",
    "|",
    "x?",
    "(?i)N",
    r"\A",
    r"\z",
    r"\b",
    "(?m)",
    "(?-m)",
    "-",
    "\n",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.sets(st.text("an1-", min_size=1, max_size=5), max_size=6),
)
def test_scanning_all_names_at_once_equals_asking_each(pattern: str, names: set[str]) -> None:
    """The fast search over a joined text finds what an unanchored search in each name finds."""
    if pattern_fault(pattern) is not None:
        return
    options = re2.Options()
    options.log_errors = False
    each = re2.compile(pattern, options=options)
    world = objects(*(node(name) for name in sorted(names)), hypernode("h", 1, regex(pattern)))
    [found] = declare(world.every(HyperNode).values(), world.every(Node).values())

    assert {name for name in names if each.search(name)} == found.nodes
