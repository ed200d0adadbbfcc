"""Kubernetes' filters in their most obvious form: one node and one pod at a time, no arrays, no counts kept.

What the vectorised filters are compared with; slow, and meant to be read next to the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from tests.support.worlds import NodeDraft, PodsDraft, taints

from tierwise.api.core import (
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    Requirement,
    Taint,
    TopologySpreadConstraint,
)

__all__ = ["CORDON", "HOSTNAME", "Standing", "moving_code", "static_code"]

HOSTNAME = "kubernetes.io/hostname"
CORDON = taints("node.kubernetes.io/unschedulable:NoSchedule")[0]


class Standing(msgspec.Struct, frozen=True):
    """A pod on a node."""

    pod: PodsDraft
    node: NodeDraft
    leaving: bool = False


def holds(requirement: Requirement, value: str | None) -> bool:
    """One condition on one value."""
    listed = requirement.values
    if requirement.operator in ("Gt", "Lt"):
        if value is None or len(listed) != 1 or not value.isdigit() or not listed[0].isdigit():
            return False
        return int(value) > int(listed[0]) if requirement.operator == "Gt" else int(value) < int(listed[0])
    return {
        "In": value in listed,
        "NotIn": bool(listed) and value not in listed,
        "Exists": not listed and value is not None,
        "DoesNotExist": not listed and value is None,
    }.get(requirement.operator, False)


def selects(selector: LabelSelector | None, pod_labels: Mapping[str, str]) -> bool:
    """A label selector on one set of labels."""
    if selector is None or any(pod_labels.get(k) != v for k, v in selector.match_labels.items()):
        return False
    known = all(r.operator not in ("Gt", "Lt") for r in selector.match_expressions)
    return known and all(holds(r, pod_labels.get(r.key)) for r in selector.match_expressions)


def tolerated(pod: PodsDraft, taint: Taint) -> bool:
    """Whether a pod puts up with a taint."""
    for t in pod.tolerations:
        if t.effect and t.effect != taint.effect:
            continue
        if t.key and t.key != taint.key:
            continue
        if t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value):
            return True
    return False


def barring(pod: PodsDraft, node: NodeDraft) -> list[Taint]:
    """The taints of a node that keep a pod off it."""
    return [t for t in node.taints if t.effect in ("NoSchedule", "NoExecute") and not tolerated(pod, t)]


def has_labels(pod: PodsDraft, node: NodeDraft) -> bool:
    """Whether a node has what the node selector names."""
    return all(node.labels.get(k) == v for k, v in pod.node_selector.items())


def has_affinity(pod: PodsDraft, node: NodeDraft) -> bool:
    """Whether a node matches one of the required terms, where there are any conditions."""
    assert pod.affinity is not None
    assert pod.affinity.node_affinity is not None
    required = pod.affinity.node_affinity.required
    return required is None or any(term_matches(t, node) for t in required.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: NodeDraft) -> bool:
    """All conditions of one term on one node."""
    if not term.match_expressions and not term.match_fields:
        return False
    for r in term.match_fields:
        if r.key != "metadata.name" or r.operator not in ("In", "NotIn") or len(r.values) != 1:
            return False
        if not holds(r, node.name):
            return False
    return all(holds(r, node.labels.get(r.key)) for r in term.match_expressions)


def static_code(pod: PodsDraft, node: NodeDraft) -> str:
    """The first static objection to a pod on a node."""
    if node.cordoned and not tolerated(pod, CORDON):
        return "NodeUnschedulable"
    if not node.ready:
        return "NodeNotReady"
    if not has_labels(pod, node):
        return "NodeSelectorMismatch"
    if not has_affinity(pod, node):
        return "NodeAffinityMismatch"
    return "UntoleratedTaint" if barring(pod, node) else ""


def means(carrier: PodsDraft, term: PodAffinityTerm, pod: PodsDraft) -> bool:
    """Whether a term of one pod means another pod."""
    by_name = term.namespace_selector
    if not term.namespaces and by_name is None:
        inside = pod.namespace == carrier.namespace
    else:
        inside = pod.namespace in term.namespaces
    if by_name is not None and set(by_name.match_labels) <= {"kubernetes.io/metadata.name"}:
        inside |= all(pod.namespace == name for name in by_name.match_labels.values())
    same = all(pod.labels.get(k) == carrier.labels[k] for k in term.match_label_keys if k in carrier.labels)
    other = all(pod.labels.get(k) != carrier.labels[k] for k in term.mismatch_label_keys if k in carrier.labels)
    return inside and same and other and selects(term.label_selector, pod.labels)


Where = Callable[[NodeDraft, str], str | None]


def near_ok(pod: PodsDraft, node: NodeDraft, cluster: list[Standing], where: Where) -> bool:
    """Required pod affinity of one pod on one node."""
    assert pod.affinity is not None
    terms = pod.affinity.pod_affinity.required if pod.affinity.pod_affinity else ()
    matching = [s for s in cluster if all(means(pod, t, s.pod) for t in terms)]
    found = {(t.topology_key, where(s.node, t.topology_key)) for t in terms for s in matching}
    found = {(key, value) for key, value in found if value is not None}
    if any(where(node, t.topology_key) is None for t in terms):
        return False
    if all((t.topology_key, where(node, t.topology_key)) in found for t in terms):
        return True
    return not found and all(means(pod, t, pod) for t in terms)


def away_terms(pod: PodsDraft) -> tuple[PodAffinityTerm, ...]:
    """Required anti-affinity."""
    assert pod.affinity is not None
    return pod.affinity.pod_anti_affinity.required if pod.affinity.pod_anti_affinity else ()


def together(a: NodeDraft, b: NodeDraft, key: str, where: Where) -> bool:
    """Whether two nodes share a value of a label."""
    return where(a, key) is not None and where(a, key) == where(b, key)


def counts(pod: PodsDraft, constraint: TopologySpreadConstraint, other: PodsDraft) -> bool:
    """Whether a constraint of one pod counts another pod; an empty selector counts nobody, as in Kubernetes."""
    if constraint.label_selector is not None and constraint.label_selector == LabelSelector():
        return False
    keys = [k for k in constraint.match_label_keys if k in pod.labels]
    same = all(other.labels.get(k) == pod.labels[k] for k in keys)
    return same and other.namespace == pod.namespace and selects(constraint.label_selector, other.labels)


def spread_ok(pod: PodsDraft, node: NodeDraft, nodes: list[NodeDraft], cluster: list[Standing], where: Where) -> bool:
    """All hard spread constraints of one pod on one node."""
    hard = [c for c in pod.spread if c.when_unsatisfiable == "DoNotSchedule"]
    for c in hard:
        if where(node, c.topology_key) is None:
            return False
        included = [
            n.name
            for n in nodes
            if all(where(n, other.topology_key) is not None for other in hard)
            and (c.node_affinity_policy == "Ignore" or (has_labels(pod, n) and has_affinity(pod, n)))
            and (c.node_taints_policy != "Honor" or not barring(pod, n))
        ]
        domains = {where(n, c.topology_key): 0 for n in nodes if n.name in included}
        for s in cluster:
            if s.node.name in included and not s.leaving and counts(pod, c, s.pod):
                domains[where(s.node, c.topology_key)] += 1
        lowest = min(domains.values(), default=0)
        if c.min_domains is not None and len(domains) < c.min_domains:
            lowest = 0
        here = domains.get(where(node, c.topology_key), 0)
        if here + counts(pod, c, pod) - lowest > c.max_skew:
            return False
    return True


def moving_code(pod: PodsDraft, node: NodeDraft, nodes: list[NodeDraft], cluster: list[Standing]) -> str:
    """The first objection of the rules between pods."""
    unnamed = all(HOSTNAME not in n.labels for n in nodes)

    def where(n: NodeDraft, key: str) -> str | None:
        return n.name if unnamed and key == HOSTNAME else n.labels.get(key)

    if not near_ok(pod, node, cluster, where):
        return "PodAffinityUnsatisfied"
    for s in cluster:
        if any(means(pod, t, s.pod) and together(node, s.node, t.topology_key, where) for t in away_terms(pod)):
            return "PodAntiAffinityConflict"
    for s in cluster:
        if any(means(s.pod, t, pod) and together(node, s.node, t.topology_key, where) for t in away_terms(s.pod)):
            return "ExistingPodAntiAffinity"
    return "" if spread_ok(pod, node, nodes, cluster, where) else "TopologySpreadViolated"
