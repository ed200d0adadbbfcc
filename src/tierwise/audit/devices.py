"""No device is held twice, and no pod that tierwise bound runs without the devices that its claims promise."""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Node, NodeSelectorTerm, Pod
from tierwise.api.resource import ResourceClaim
from tierwise.api.selector import holds as requires
from tierwise.audit.pods import Finding, holds, ours
from tierwise.port import Objects

__all__ = ["devices"]


def devices(objects: Objects) -> Iterator[Finding]:
    """Devices with two holders, pods whose claims are not theirs, and pods out of reach of their devices."""
    claims, nodes = objects.every(ResourceClaim), objects.every(Node)
    holders: dict[tuple[str, str, str], list[str]] = {}
    for path, claim in claims.items():
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            if not result.admin_access and not result.share_id:
                holders.setdefault((result.driver, result.pool, result.device), []).append(path)
    for device, paths in sorted(holders.items()):
        if len(paths) > 1:
            yield Finding("device-held-twice", f"Device {'/'.join(device)}", f"is held by {' and '.join(paths)}")
    for path, pod in objects.every(Pod).items():
        if not holds(pod) or not ours(pod):
            continue
        for name in _claims(pod):
            found = claims.get(name)
            if found is None or found.status.allocation is None or not _reserved(found, pod):
                yield Finding("without-devices", f"Pod {path}", f"was bound, and ResourceClaim {name} is not its own")
            elif pod.spec.node_name in nodes and not _reached(found, nodes[pod.spec.node_name]):
                text = f"stands on node {pod.spec.node_name}, which does not reach the devices of {name}"
                yield Finding("device-out-of-reach", f"Pod {path}", text)


def _claims(pod: Pod) -> Iterator[str]:
    """The claims of a pod by path; one from a template by what its status says."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name, "")
        if name:
            yield f"{pod.metadata.namespace or 'default'}/{name}"


def _reserved(claim: ResourceClaim, pod: Pod) -> bool:
    meta = pod.metadata
    return any(
        one.uid == meta.uid if one.uid and meta.uid else one.name == meta.name for one in claim.status.reserved_for
    )


def _reached(claim: ResourceClaim, node: Node) -> bool:
    """Whether the allocation of a claim lets a node use it."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    return selector is None or any(_meets(term, node) for term in selector.node_selector_terms)


def _meets(term: NodeSelectorTerm, node: Node) -> bool:
    labels, fields = node.metadata.labels, {"metadata.name": node.metadata.name}
    return all(requires(one, labels.get(one.key)) for one in term.match_expressions) and all(
        requires(one, fields.get(one.key)) for one in term.match_fields
    )
