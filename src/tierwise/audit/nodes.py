"""Check nodes: none is oversubscribed, no pod is on a node that does not exist, and no pod was bound that asks for
something unsupported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierwise.api.core import Node, Pod
from tierwise.api.quantity import amount, show
from tierwise.api.unsupported import unsupported
from tierwise.audit.pods import Finding, asked, counts, holds, ours
from tierwise.port import Objects

__all__ = ["nodes", "support"]


def _by_claim(pod: Pod) -> set[str]:
    served = pod.status.extended_resource_claim_status
    return {one.resource_name for one in served.request_mappings} if served is not None else set()


def nodes(objects: Objects) -> Iterator[Finding]:
    """Nodes above their allocatable, and pods on unknown nodes."""
    used: dict[str, Counter[str]] = {}
    known = objects.every(Node)
    for path, pod in objects.every(Pod).items():
        if holds(pod):
            if pod.spec.node_name not in known:
                yield Finding(
                    "unknown-node", f"Pod {path}", f"stands on node {pod.spec.node_name}, which does not exist"
                )
            wanted = asked(pod)
            for resource in _by_claim(pod):  # devices that a class serves are held by a claim, and not by the node
                wanted.pop(resource, None)
            used.setdefault(pod.spec.node_name, Counter()).update(wanted)
    for name, node in known.items():
        has = {resource: amount(resource, q) for resource, q in node.status.allocatable.items()}
        for resource, number in sorted(used.get(name, {}).items()):
            if number > has.get(resource, 0):
                text = f"its pods ask for {show(resource, number)} of {resource}, and it has "
                yield Finding("oversubscribed", f"Node {name}", text + show(resource, has.get(resource, 0)))


def support(objects: Objects) -> Iterator[Finding]:
    """Pods of the scheduler tierwise, or with its marks, that should still wait."""
    for path, pod in objects.every(Pod).items():
        found = unsupported(pod) if ours(pod) and pod.spec.node_name and counts(pod) else None
        if found is not None:
            yield Finding("not-supported", f"Pod {path}", f"was bound although {found}")
