"""Check that no pod bound by tierwise is on a node that its volumes cannot reach, or has an unbound claim.

Volumes are checked as they are now; volumes that were attached or provisioned later are not tierwise's decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierwise.api.core import Node, NodeSelectorTerm, Pod
from tierwise.api.selector import holds as requires
from tierwise.api.storage import CsiNode, PersistentVolume, PersistentVolumeClaim
from tierwise.audit.pods import Finding, holds, ours
from tierwise.port import Objects

__all__ = ["volumes"]


def volumes(objects: Objects) -> Iterator[Finding]:
    """Pods without their volumes, volumes out of reach, claims for one pod that have two, nodes with too many."""
    claims, known = objects.every(PersistentVolumeClaim), objects.every(PersistentVolume)
    nodes = objects.every(Node)
    users: dict[str, list[str]] = {}
    attached: dict[tuple[str, str], set[str]] = {}
    for path, pod in objects.every(Pod).items():
        if not holds(pod):
            continue
        for name in _claims(pod):
            claim = claims.get(name)
            volume = known.get(claim.spec.volume_name) if claim is not None else None
            alone = claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and not _made_for(pod, name)
            if alone and pod.spec.node_name in nodes:  # what stood on a node that is gone uses nothing
                users.setdefault(name, []).append(path)
            if volume is not None and volume.spec.csi is not None:
                here = (pod.spec.node_name, volume.spec.csi.driver)
                attached.setdefault(here, set()).add(volume.spec.csi.volume_handle)
            if not ours(pod):
                continue
            if claim is None or not claim.spec.volume_name:
                yield Finding("without-volume", f"Pod {path}", f"was bound although claim {name} has no volume")
            elif volume is not None and pod.spec.node_name in nodes:
                labels = nodes[pod.spec.node_name].metadata.labels
                if not _reached(volume, labels) and not _served_by_driver(volume):
                    text = f"stands on node {pod.spec.node_name}, which does not reach volume {volume.metadata.name}"
                    yield Finding("volume-out-of-reach", f"Pod {path}", f"{text} of claim {name}")
    for name, paths in users.items():
        if len(paths) > 1:
            text = f"is for one pod at a time, and {', '.join(paths)} use it"
            yield Finding("claim-shared", f"PersistentVolumeClaim {name}", text)
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
    """Whether a claim is that of an ephemeral volume of the pod."""
    names = (f"{pod.metadata.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None)
    return claim.partition("/")[2] in names


def _reached(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    return required is None or any(_matches(term, labels) for term in required.node_selector_terms)


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """Fields of nodes do not count for volumes, and an empty term matches nothing."""
    known = bool(term.match_expressions or term.match_fields)
    return known and all(requires(one, labels.get(one.key)) for one in term.match_expressions)


def _served_by_driver(volume: PersistentVolume) -> bool:
    """Whether the volume is of a plugin of old, whose zones may be under another label."""
    spec = volume.spec
    return any((spec.gce_persistent_disk, spec.aws_elastic_block_store, spec.cinder, spec.azure_disk))
