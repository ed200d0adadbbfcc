"""Static filters: cordons, readiness, selectors, node affinity and taints."""

from __future__ import annotations

import pytest
from tests.support.points import answers
from tests.support.worlds import (
    NodeDraft,
    World,
    node,
    pods,
    taints,
    world,
)

from tierwise.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Requirement, Toleration
from tierwise.plugins.kubernetes.node_affinity import tolerates
from tierwise.plugins.kubernetes.predicates import Predicates

EXISTS_ALL = Toleration(operator="Exists")


def why(w: World, **arguments: object) -> dict[str, str]:
    """The codes that Predicates gives the first shape of a world."""
    return w.codes(Predicates(arguments, w.view).why_not(w.shape(0)))


def zoned() -> list[NodeDraft]:
    """Two nodes in zones, one in none."""
    return [
        node("n0", labels={"zone": "a", "size": "4"}),
        node("n1", labels={"zone": "b", "size": "16"}),
        node("n2", labels={"size": "large"}),
    ]


def terms(*alternatives: NodeSelectorTerm) -> Affinity:
    """Required node affinity."""
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=alternatives)))


def term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    """One condition on a label."""
    return NodeSelectorTerm(match_expressions=(Requirement(key=key, operator=operator, values=values),))


def field(operator: str, *values: str, key: str = "metadata.name") -> NodeSelectorTerm:
    """One condition on a field."""
    return NodeSelectorTerm(match_fields=(Requirement(key=key, operator=operator, values=values),))


def matched(affinity: Affinity) -> set[str]:
    """The names of the zoned nodes that an affinity lets through."""
    return {name for name, code in why(world(zoned(), [pods(affinity=affinity)])).items() if not code}


def test_is_a_filter_of_both_kinds() -> None:
    """The plugin takes part in the static and in the moving filter point."""
    plugin = Predicates({}, world(zoned(), [pods()]).view)

    assert answers(plugin, "why_not", "concerns", "why_not_now", "order_free", "ties")


def test_a_plain_shape_fits_everywhere() -> None:
    """Without conditions nobody objects, and no rule between pods concerns the shape."""
    w = world(zoned(), [pods()])
    plugin = Predicates({}, w.view)

    assert {"n0": "", "n1": "", "n2": ""} == w.codes(plugin.why_not(w.shape(0)))
    assert not plugin.concerns(w.shape(0))


def test_cordoned_and_unready_nodes_are_refused() -> None:
    """A cordon and a missing heartbeat each keep pods away; the cordon is named first."""
    nodes = [node("n0", cordoned=True), node("n1", ready=False), node("n2", cordoned=True, ready=False), node("n3")]

    expected = {"n0": "NodeUnschedulable", "n1": "NodeNotReady", "n2": "NodeUnschedulable", "n3": ""}
    assert expected == why(world(nodes, [pods()]))


def test_a_cordon_can_be_tolerated() -> None:
    """A toleration of the cordon's taint opens cordoned nodes, as for daemons."""
    daemon = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")

    assert {"n0": ""} == why(world([node("n0", cordoned=True)], [pods(tolerations=(daemon,))]))


def test_the_node_selector_needs_every_label() -> None:
    """A node that lacks one of the labels, or has another value, does not match."""
    w = world(zoned(), [pods(node_selector={"zone": "a", "size": "4"}), pods(node_selector={"zone": "nowhere"})])
    plugin = Predicates({}, w.view)
    no = "NodeSelectorMismatch"

    assert {"n0": "", "n1": no, "n2": no} == w.codes(plugin.why_not(w.shape(0)))
    assert {"n0": no, "n1": no, "n2": no} == w.codes(plugin.why_not(w.shape(1)))


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (terms(term("zone", "In", "a", "c")), {"n0"}),
        (terms(term("zone", "In", "c", "d", "e", "f", "b")), {"n1"}),
        (terms(term("zone", "NotIn", "a")), {"n1", "n2"}),
        (terms(term("zone", "NotIn")), set()),
        (terms(term("zone", "Exists")), {"n0", "n1"}),
        (terms(term("zone", "Exists", "a")), set()),
        (terms(term("zone", "DoesNotExist")), {"n2"}),
        (terms(term("size", "Gt", "4")), {"n1"}),
        (terms(term("size", "Lt", "16")), {"n0"}),
        (terms(term("size", "Gt", "small")), set()),
        (terms(term("zone", "Like", "a")), set()),
        (terms(term("zone", "In", "a"), term("zone", "In", "b")), {"n0", "n1"}),
        (terms(field("In", "n1")), {"n1"}),
        (terms(field("NotIn", "n1")), {"n0", "n2"}),
        (terms(field("In", "n1", "n2")), set()),
        (terms(field("In", "n1", key="metadata.uid")), set()),
        (terms(NodeSelectorTerm()), set()),
        (terms(), set()),
        (Affinity(node_affinity=NodeAffinity()), {"n0", "n1", "n2"}),
    ],
)
def test_required_node_affinity(affinity: Affinity, expected: set[str]) -> None:
    """Terms are alternatives, their conditions must all hold, and what the API would refuse matches nothing."""
    assert expected == matched(affinity)


def test_conditions_of_one_term_must_all_hold() -> None:
    """Labels and fields of a term are one conjunction."""
    both = NodeSelectorTerm(
        match_expressions=(Requirement(key="zone", operator="Exists"),),
        match_fields=(Requirement(key="metadata.name", operator="NotIn", values=("n0",)),),
    )

    assert {"n1"} == matched(terms(both))


def test_the_selector_is_named_before_the_affinity_and_both_before_taints() -> None:
    """One reason per node: the first in a fixed order."""
    nodes = [node("n0", taints="gpu=true:NoSchedule"), node("n1", labels={"zone": "a"}, taints="gpu=true:NoSchedule")]
    w = world(nodes, [pods(node_selector={"zone": "a"}, affinity=terms())])

    assert {"n0": "NodeSelectorMismatch", "n1": "NodeAffinityMismatch"} == why(w)


def test_every_taint_that_is_not_tolerated_is_a_reason_of_its_own() -> None:
    """The text names the first taint of a node which keeps the pod away."""
    nodes = [
        node("n0", taints="soft:PreferNoSchedule"),
        node("n1", taints="gpu=true:NoSchedule"),
        node("n2", taints="soft:PreferNoSchedule gone:NoExecute gpu=true:NoSchedule"),
    ]
    w = world(nodes, [pods()])
    found = Predicates({}, w.view).why_not(w.shape(0))

    assert {"n0": "", "n1": "UntoleratedTaint", "n2": "UntoleratedTaint"} == w.codes(found)
    expected = {
        "n0": "",
        "n1": "had untolerated taint gpu=true:NoSchedule",
        "n2": "had untolerated taint gone:NoExecute",
    }
    assert expected == w.texts(found)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", value="true", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="true"), True),
        (Toleration(key="gpu", operator="Equal", value="false"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="cpu", operator="Exists"), False),
        (EXISTS_ALL, True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Gt", value="true"), False),
    ],
)
def test_tolerations_follow_kubernetes(toleration: Toleration, expected: bool) -> None:
    """Key, effect and value must match unless left open."""
    assert expected is tolerates((toleration,), taints("gpu=true:NoSchedule")[0])


def test_switched_off_filters_stay_silent() -> None:
    """Volcano's switches turn off node affinity and taints, given as text or as a value."""
    w = world([node("n0", taints="gpu:NoSchedule")], [pods(node_selector={"zone": "a"}, affinity=terms())])

    off = {"predicate.NodeAffinityEnable": "false", "predicate.TaintTolerationEnable": False}
    assert {"n0": ""} == why(w, **off, **{"predicate.GPUSharingEnable": True})
    assert {"n0": "UntoleratedTaint"} == why(w, **{"predicate.NodeAffinityEnable": False})


@pytest.mark.parametrize(
    ("seconds", "admitted"), [((0,), False), ((-5,), False), ((None, 0), False), ((1,), True), ((None,), True)]
)
def test_a_pod_that_would_be_driven_away_at_once_is_kept_off(seconds: tuple[int | None, ...], admitted: bool) -> None:
    """By the shortest time of those tolerations that match; other effects know no time."""
    times = tuple(Toleration(key="gone", operator="Exists", toleration_seconds=time) for time in seconds)
    gone = world([node("n0", taints="gone:NoExecute")], [pods(tolerations=times)])
    soft = world([node("n0", taints="gone:NoSchedule")], [pods(tolerations=times)])

    assert ({"n0": "" if admitted else "UntoleratedTaint"}, {"n0": ""}) == (why(gone), why(soft))
