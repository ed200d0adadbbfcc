"""What a hyperNode may say, and what hyperNodes may say together."""

import pytest
from tests.support.manifests import (
    children,
    hypernode,
    labelled,
    node,
    nodes,
    objects,
    regex,
)
from tests.support.verdicts import errors, warnings

from tierwise.admission import FieldFinding, judge, review_context, validate
from tierwise.api.codec import Raw

CLUSTER = [node("n0", rack="r0"), node("n1", rack="r1")]


def test_a_sound_tree_passes_without_a_word() -> None:
    """Nothing to complain about is nothing said."""
    tree = [hypernode("r0", 1, nodes("n0")), hypernode("r1", 1, regex("^n1$")), hypernode("s", 2, children("r0", "r1"))]

    assert ([], []) == (errors(*CLUSTER, *tree), warnings(*CLUSTER, *tree))


@pytest.mark.parametrize(
    ("member", "path", "message"),
    [
        ({"type": "Rack", "selector": {"exactMatch": {"name": "n0"}}}, "type", 'type "Rack" is not known: it must be'),
        ({"type": "Node", "selector": {}}, "selector", "the selector needs one of"),
        (
            {"type": "Node", "selector": {"exactMatch": {"name": "n0"}, "labelMatch": {}}},
            "selector",
            "the selector takes only one of exactMatch, labelMatch",
        ),
        (nodes("")[0], "selector.exactMatch.name", "the name is empty"),
        (nodes("N_0")[0], "selector.exactMatch.name", 'the name "N_0" must consist of'),
        (regex("")[0], "selector.regexMatch.pattern", 'pattern "" is not a regular expression: it is empty'),
        (regex("a(b")[0], "selector.regexMatch.pattern", 'pattern "a(b" is not a regular expression: missing )'),
        (
            labelled({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]})[0],
            "selector.labelMatch.matchExpressions[0].operator",
            'operator "Like" is not known',
        ),
        (
            labelled({"matchExpressions": [{"key": "a", "operator": "In"}]})[0],
            "selector.labelMatch.matchExpressions[0].values",
            "operator In needs values",
        ),
    ],
)
def test_a_member_is_named_in_exactly_one_sound_way(member: Raw, path: str, message: str) -> None:
    """The path leads to the member, the message says what is wrong with it."""
    [found] = errors(hypernode("h", 1, [member]))

    assert (f"spec.members[0].{path}", True) == (found[0], found[1].startswith(message))


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"tier": -1, "members": nodes("n0")}, "spec.tier", "tier is -1, it must be at least 0"),
        ({"members": nodes("n0")}, "spec.tier", "the tier is missing"),
        ({"tier": 1, "members": []}, "spec.members", "at least one member is needed"),
        ({"tier": 1}, "spec.members", "at least one member is needed"),
        (
            {"tier": 1, "tierName": "x" * 254, "members": nodes("n0")},
            "spec.tierName",
            "tierName must have at most 253 characters",
        ),
    ],
)
def test_a_hypernode_needs_a_tier_and_members(spec: Raw, path: str, message: str) -> None:
    """What the resource definition demands is demanded of files, too."""
    assert [(path, message)] == errors(hypernode("h", 1, []) | {"spec": spec})


def test_findings_name_the_object() -> None:
    """People find the object by its kind and name."""
    verdict = validate(objects(hypernode("rack-1", -2, nodes("n0"))))

    assert (FieldFinding("HyperNode rack-1", "spec.tier", "tier is -2, it must be at least 0"),) == verdict.errors
    assert not verdict.valid


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ([hypernode("a", 2, children("b")), hypernode("b", 3, children("a"))], "cyclic dependency: a -> b -> a"),
        (
            [hypernode("r", 1, nodes("n0")), hypernode("a", 2, children("r")), hypernode("b", 3, children("r"))],
            "two parents",
        ),
        ([hypernode("r", 2, nodes("n0")), hypernode("a", 2, children("r"))], "not below tier 2"),
        ([hypernode("a", 1, nodes("n0")), hypernode("b", 1, nodes("n0"))], "overlap"),
    ],
)
@pytest.mark.parametrize("cluster", [CLUSTER, []])
def test_trees_must_be_trees(tree: list[Raw], text: str, cluster: list[Raw]) -> None:
    """Cycles, two parents, wrong tier order and overlaps are errors, whether or not nodes are given."""
    assert any(text in message for _, message in errors(*cluster, *tree))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (nodes("n0", "gone"), 'members[1]: node "gone" does not exist'),
        (labelled({"matchLabels": {"rack": "r9"}}), "members[0]: no node has the labels rack=r9"),
        (children("gone"), "member hyperNode gone does not exist"),
    ],
)
def test_members_that_select_nothing_are_a_warning(members: list[Raw], message: str) -> None:
    """A hyperNode with a missing member is valid, but its author should know."""
    assert [] == errors(*CLUSTER, hypernode("h", 2, members))
    assert [("spec.members", message)] == warnings(*CLUSTER, hypernode("h", 2, members))


def test_without_nodes_nobody_complains_about_their_absence() -> None:
    """A file with hyperNodes alone is judged by what it can be judged by."""
    assert [] == warnings(hypernode("h", 1, [*nodes("n0"), *regex("^x"), *labelled({"matchLabels": {"a": "b"}})]))


def test_label_discovery_that_cannot_be_understood_is_a_warning() -> None:
    """Whoever misspells the configuration learns why no hyperNodes appear."""
    config: Raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-controller-configmap", "namespace": "volcano-system"},
        "data": {"volcano-controller.conf": "networkTopologyDiscovery: [{source: label, enabled: true}]"},
    }

    message = "label discovery is off: config.networkTopologyTypes must name at least one type"
    assert [("data.volcano-controller.conf", message)] == warnings(config)


def test_one_that_contains_itself_is_refused_by_the_webhook_too() -> None:
    """What is wrong between several may be on the way to a sound tree; this is never."""
    own = hypernode("r0", 1, children("r0"))
    world = objects(*CLUSTER, own)
    key = next(key for key in world if key.name == "r0")

    (found,) = [one for one in judge(world, key, review_context(world)).errors if "itself" in one.message]

    assert "spec.members[0].selector.exactMatch.name" == found.path
