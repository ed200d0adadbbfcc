"""Check what pods hold on their nodes: resources, ports, devices and volumes; and which pods they are beside.

No node is oversubscribed, no pod is on a node that does not exist, and no pod was bound that asks for something
unsupported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from tierwise.api.core import Namespace, Node, NodeSelectorTerm, Pod, PodAffinityTerm
from tierwise.api.quantity import amount, show
from tierwise.api.resource import ResourceClaim
from tierwise.api.selector import holds as requires
from tierwise.api.selector import matches
from tierwise.api.storage import CsiNode, PersistentVolume, PersistentVolumeClaim
from tierwise.api.unsupported import unsupported
from tierwise.audit.pods import Finding, asked, counts, holds, ours
from tierwise.port import Objects

__all__ = ["devices", "neighbours", "nodes", "support", "volumes"]


def _by_claim(pod: Pod) -> set[str]:
    served = pod.status.extended_resource_claim_status
    if served is not None:
        return {mapping.resource_name for mapping in served.request_mappings}
    return set()


def nodes(objects: Objects) -> Iterator[Finding]:
    """Nodes above their allocatable, and pods on unknown nodes."""
    used: dict[str, Counter[str]] = {}
    nodes_by_name = objects.every(Node)
    for path, pod in objects.every(Pod).items():
        if holds(pod):
            if pod.spec.node_name not in nodes_by_name:
                yield Finding("unknown-node", f"Pod {path}", f"is on node {pod.spec.node_name}, which does not exist")
            requests = asked(pod)
            for resource in _by_claim(pod):  # devices that a class serves are held by a claim, and not by the node
                requests.pop(resource, None)
            used.setdefault(pod.spec.node_name, Counter()).update(requests)
    for name, node in nodes_by_name.items():
        has = {resource: amount(resource, q) for resource, q in node.status.allocatable.items()}
        for resource, number in sorted(used.get(name, {}).items()):
            if number > has.get(resource, 0):
                text = f"its pods ask for {show(resource, number)} of {resource}, and it has "
                yield Finding("oversubscribed", f"Node {name}", text + show(resource, has.get(resource, 0)))


def support(objects: Objects) -> Iterator[Finding]:
    """Pods of the scheduler tierwise, or with its marks, that should still wait."""
    for path, pod in objects.every(Pod).items():
        lack = unsupported(pod) if ours(pod) and pod.spec.node_name and counts(pod) else None
        if lack is not None:
            yield Finding("not-supported", f"Pod {path}", f"was bound although {lack}")


# Check that no pod of tierwise's is beside one that required anti-affinity excludes, or shares a port of its node.
#
# Pods count until they are gone: one that is terminating is still there. Labels are read as they are now.


_HOST = "kubernetes.io/hostname"
_NAME = "kubernetes.io/metadata.name"


def _places(
    key: str, pods: Mapping[str, Pod], nodes: Mapping[str, Node], *, node_is_host: bool
) -> dict[str, list[str]]:
    """Pods by the value of a label of their node: "" without it, or the node's name if that stands for the host."""
    places: dict[str, list[str]] = {}
    for path, pod in pods.items():
        node = nodes.get(pod.spec.node_name)
        labels = node.metadata.labels if node is not None else {}
        value = labels.get(key, pod.spec.node_name if node_is_host else "")
        places.setdefault(value, []).append(path)
    return places


def neighbours(objects: Objects) -> Iterator[Finding]:
    """Pairs of pods that must not be together, one of them ours at least."""
    pods = {path: pod for path, pod in objects.every(Pod).items() if holds(pod)}
    yield from _ports(pods)
    nodes = objects.every(Node)
    unnamed = not any(_HOST in node.metadata.labels for node in nodes.values())
    spaces = {path: space.metadata.labels for path, space in objects.every(Namespace).items()}
    places: dict[str, dict[str, list[str]]] = {}  # pods by the value of a label of their node, by label
    for path, pod in pods.items():
        for term in _excluding(pod):
            key = term.topology_key
            if key not in places:
                places[key] = _places(key, pods, nodes, node_is_host=key == _HOST and unnamed)
            value, together = next((v, t) for v, t in places[key].items() if path in t)
            for partner in together if value else ():
                if partner != path and (ours(pod) or ours(pods[partner])) and _means(pod, term, pods[partner], spaces):
                    text = f"is in {key} {value} beside {partner}, which its anti-affinity excludes"
                    yield Finding("excluded-neighbour", f"Pod {path}", text)


def _excluding(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    side = affinity.pod_anti_affinity if affinity is not None else None
    return side.required if side is not None else ()


def _means(carrier: Pod, term: PodAffinityTerm, pod: Pod, spaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a term of one pod means another."""
    own_namespace = carrier.metadata.namespace or "default"
    space = pod.metadata.namespace or "default"
    named = space in term.namespaces
    if term.namespace_selector is not None:
        named |= matches(term.namespace_selector, {**spaces.get(space, {}), _NAME: space})
    elif not term.namespaces:
        named = space == own_namespace
    labels = pod.metadata.labels
    mine = carrier.metadata.labels
    same_values = all(labels.get(key) == mine[key] for key in term.match_label_keys if key in mine)
    different_values = all(labels.get(key) != mine[key] for key in term.mismatch_label_keys if key in mine)
    return named and same_values and different_values and matches(term.label_selector, labels)


def _ports(pods: Mapping[str, Pod]) -> Iterator[Finding]:
    """Yield a finding for each pod that takes a host port of its node which a pod before it has: same number, same
    protocol, and the same address or one of them all addresses. One of the two pods must be ours. Pods on the host's
    network take all their container ports.
    """
    users_of_ports: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for path, pod in pods.items():
        for container in pod.spec.containers:
            for port in container.ports:
                number = port.host_port or (port.container_port if pod.spec.host_network else 0)
                if not number:
                    continue
                users = users_of_ports.setdefault((pod.spec.node_name, port.protocol or "TCP", number), [])
                address = port.host_ip or "0.0.0.0"
                for user, user_address in users:
                    everywhere = "0.0.0.0" in (address, user_address)
                    if user != path and (ours(pod) or ours(pods[user])) and (everywhere or address == user_address):
                        text = f"takes port {number} of node {pod.spec.node_name}, which {user} has"
                        yield Finding("port-taken", f"Pod {path}", text)
                users.append((path, address))


# Check that no pod bound by tierwise is on a node that its volumes cannot reach, or has an unbound claim.
#
# Volumes are checked as they are now; volumes that were attached or provisioned later are not tierwise's decision.


def volumes(objects: Objects) -> Iterator[Finding]:
    """Pods without their volumes, volumes out of reach, claims for one pod that have two, nodes with too many."""
    claims = objects.every(PersistentVolumeClaim)
    volumes_by_name = objects.every(PersistentVolume)
    nodes = objects.every(Node)
    users: dict[str, list[str]] = {}
    attached: dict[tuple[str, str], set[str]] = {}
    for path, pod in objects.every(Pod).items():
        if not holds(pod):
            continue
        for name in _claims(pod):
            claim = claims.get(name)
            volume = volumes_by_name.get(claim.spec.volume_name) if claim is not None else None
            if (
                _is_for_one_pod(claim, pod, name) and pod.spec.node_name in nodes
            ):  # what stood on a node that is gone uses nothing
                users.setdefault(name, []).append(path)
            if volume is not None and volume.spec.csi is not None:
                driver_on_node = (pod.spec.node_name, volume.spec.csi.driver)
                attached.setdefault(driver_on_node, set()).add(volume.spec.csi.volume_handle)
            if not ours(pod):
                continue
            if claim is None or not claim.spec.volume_name:
                yield Finding("without-volume", f"Pod {path}", f"was bound although claim {name} has no volume")
            elif volume is not None and pod.spec.node_name in nodes:
                labels = nodes[pod.spec.node_name].metadata.labels
                if not _reached(volume, labels) and not _served_by_driver(volume):
                    text = f"is on node {pod.spec.node_name}, which does not reach volume {volume.metadata.name}"
                    yield Finding("volume-out-of-reach", f"Pod {path}", f"{text} of claim {name}")
    for name, paths in users.items():
        if len(paths) > 1:
            text = f"is for one pod at a time, and {', '.join(paths)} use it"
            yield Finding("claim-shared", f"PersistentVolumeClaim {name}", text)
    yield from _crowded(objects, attached)


def _is_for_one_pod(claim: PersistentVolumeClaim | None, pod: Pod, name: str) -> bool:
    """True if a claim is for one pod at a time and was not made for this one."""
    return claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and not _made_for(pod, name)


def _crowded(objects: Objects, attached: Mapping[tuple[str, str], Set[str]]) -> Iterator[Finding]:
    """Nodes with more volumes than a driver attaches; `attached` are handles of volumes by node and driver."""
    for node, record in objects.every(CsiNode).items():
        for driver in record.spec.drivers:
            limit = driver.allocatable.count if driver.allocatable is not None else None
            number = len(attached.get((node, driver.name), ()))
            if limit is not None and number > limit:
                text = f"its pods use {number} volumes of {driver.name}, which attaches {limit}"
                yield Finding("too-many-volumes", f"Node {node}", text)


def _claims(pod: Pod) -> Iterator[str]:
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{namespace}/{pod.metadata.name}-{volume.name}"


def _made_for(pod: Pod, claim: str) -> bool:
    """Whether the claim at this path, "namespace/name", has the name of one that Kubernetes makes for an ephemeral
    volume of the pod (pod name, dash, volume name). The namespace is not compared.
    """
    names = (f"{pod.metadata.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None)
    return claim.partition("/")[2] in names


def _reached(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    return required is None or any(_matches(term, labels) for term in required.node_selector_terms)


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """Fields of nodes do not count for volumes, and an empty term matches nothing."""
    has_terms = bool(term.match_expressions or term.match_fields)
    return has_terms and all(
        requires(requirement, labels.get(requirement.key)) for requirement in term.match_expressions
    )


def _served_by_driver(volume: PersistentVolume) -> bool:
    """Whether the volume is of a plugin of old, whose zones may be under another label."""
    spec = volume.spec
    return any((spec.gce_persistent_disk, spec.aws_elastic_block_store, spec.cinder, spec.azure_disk))


# No device is held twice, and no pod that tierwise bound runs without the devices that its claims promise.


def _held_twice(claims: Mapping[str, ResourceClaim]) -> Iterator[Finding]:
    """Devices that are allocated whole to more than one claim."""
    holders: dict[tuple[str, str, str], list[str]] = {}
    for path, claim in claims.items():
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            if not result.admin_access and not result.share_id:
                holders.setdefault((result.driver, result.pool, result.device), []).append(path)
    for device, paths in sorted(holders.items()):
        if len(paths) > 1:
            yield Finding("device-held-twice", f"Device {'/'.join(device)}", f"is held by {' and '.join(paths)}")


def devices(objects: Objects) -> Iterator[Finding]:
    """Devices with two holders, pods whose claims are not theirs, and pods out of reach of their devices."""
    claims = objects.every(ResourceClaim)
    nodes = objects.every(Node)
    yield from _held_twice(claims)
    for path, pod in objects.every(Pod).items():
        if not holds(pod) or not ours(pod):
            continue
        for name in _claims_of(pod):
            found = claims.get(name)
            if found is None or found.status.allocation is None or not _reserved(found, pod):
                yield Finding("without-devices", f"Pod {path}", f"was bound, and ResourceClaim {name} is not its own")
            elif pod.spec.node_name in nodes and not _in_reach(found, nodes[pod.spec.node_name]):
                text = f"is on node {pod.spec.node_name}, which does not reach the devices of {name}"
                yield Finding("device-out-of-reach", f"Pod {path}", text)


def _claims_of(pod: Pod) -> Iterator[str]:
    """The claims of a pod by path; one from a template by what its status says."""
    claim_names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or claim_names.get(entry.name, "")
        if name:
            yield f"{pod.metadata.namespace or 'default'}/{name}"


def _reserved(claim: ResourceClaim, pod: Pod) -> bool:
    meta = pod.metadata
    return any(
        consumer.uid == meta.uid if consumer.uid and meta.uid else consumer.name == meta.name
        for consumer in claim.status.reserved_for
    )


def _in_reach(claim: ResourceClaim, node: Node) -> bool:
    """Whether the allocation of a claim lets a node use it."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    return selector is None or any(_meets(term, node) for term in selector.node_selector_terms)


def _meets(term: NodeSelectorTerm, node: Node) -> bool:
    labels = node.metadata.labels
    fields = {"metadata.name": node.metadata.name}
    return all(requires(requirement, labels.get(requirement.key)) for requirement in term.match_expressions) and all(
        requires(requirement, fields.get(requirement.key)) for requirement in term.match_fields
    )
