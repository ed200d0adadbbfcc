"""Check what domains share: the pods of a hyperNode take no more of an amount than it has.

Amounts and charges are those that hyperNodes give themselves (`tierwise.io/amounts`); what a profile gives is no object
of the cluster, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from tierwise.api.core import Node, Pod
from tierwise.api.quantity import ratio
from tierwise.api.volcano import HyperNode
from tierwise.audit.pods import Finding, asked, holds
from tierwise.audit.topology import Fabrics, fabric_of
from tierwise.port import Objects

__all__ = ["amounts"]

_AMOUNTS = "tierwise.io/amounts"


def amounts(objects: Objects) -> Iterator[Finding]:
    """HyperNodes whose pods take more of an amount than there is."""
    fabrics = Fabrics(objects)
    pods = [pod for pod in objects.every(Pod).values() if holds(pod)]
    nodes = objects.every(Node)
    for name, record in objects.every(HyperNode).items():
        for entry in _entries(record.metadata.annotations.get(_AMOUNTS, "")):
            inside = fabrics.tree(fabric_of(record.metadata)).inside(name)
            used = Fraction(0)
            for pod in pods:
                node = nodes.get(pod.spec.node_name)
                if node is not None and pod.spec.node_name in inside:
                    used += _charge(entry, pod, node)
            limit = Fraction(*ratio(entry["amount"]))
            if used > limit:
                text = f"its pods take {float(used):g} of {entry['name']}, and it has {float(limit):g}"
                yield Finding("over-amount", f"HyperNode {name}", text)


def _entries(text: str) -> list[dict[str, object]]:
    """The amounts of an annotation with charges of their own; none where it cannot be read."""
    try:
        entries = msgspec.json.decode(text or "[]")
        return [entry for entry in entries if entry.get("charges") and Fraction(*ratio(entry["amount"])) >= 0]
    except (msgspec.DecodeError, RecursionError, ValueError, TypeError, AttributeError, KeyError):
        return []


def _charge(entry: dict[str, object], pod: Pod, node: Node) -> Fraction:
    """The charge of a pod on a node: for each resource by the first charge that is for the node."""
    total = Fraction(0)
    counted = set[str]()
    request = asked(pod)
    charges = entry["charges"]
    for charge in charges if isinstance(charges, list) else ():
        resource = charge["resource"]
        labels = charge.get("nodes") or {}
        if resource in counted or any(node.metadata.labels.get(key) != value for key, value in labels.items()):
            continue
        counted.add(resource)
        units = Fraction(request[resource], 1000 if resource == "cpu" else 1)
        total += units * Fraction(*ratio(charge["each"]))
    return total
