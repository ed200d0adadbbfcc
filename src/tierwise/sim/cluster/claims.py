"""ResourceClaims in the embedded cluster: does what Kubernetes' controller manager does on a real one.

Creates the claims of pods from their templates, removes reservations of pods that have ended, deallocates unused
claims, and deletes claims together with the pod that they were created for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Pod
from tierwise.api.resource import ResourceClaim, ResourceClaimTemplate
from tierwise.dialects.kubernetes.devices import claim_name, is_consumer, owns
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus

__all__ = ["reconcile"]

_GROUP = "resource.k8s.io"


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """What the controller does next; nothing where all is as it should be."""
    if not objects.every(ResourceClaim) and not objects.every(ResourceClaimTemplate):
        return []
    effects: list[Effect] = []
    for pod in objects.every(Pod).values():
        if pod.spec.resource_claims and not pod.metadata.deletion_timestamp and not pod.status.ended:
            effects += _made(pod, objects)
    for claim in objects.every(ResourceClaim).values():
        effects += _tended(claim, objects)
    return effects


def _made(pod: Pod, objects: Objects) -> Iterator[Effect]:
    """Claims from templates, and what the pod is told of them."""
    namespace = pod.metadata.namespace or "default"
    known = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    told = dict(known)
    for entry in pod.spec.resource_claims:
        if not entry.resource_claim_template_name or entry.name in known:
            continue
        template = Key(_GROUP, "ResourceClaimTemplate", namespace, entry.resource_claim_template_name)
        raw = objects.raw(template)
        spec = raw.get("spec") if raw is not None else None
        if not isinstance(spec, dict):
            continue
        name = f"{pod.metadata.name}-{entry.name}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        given = spec.get("metadata") if isinstance(spec.get("metadata"), dict) else {}
        assert isinstance(given, dict)
        meta = {**given, "name": name, "namespace": namespace, "ownerReferences": [{**owner, "controller": True}]}
        if objects.record(Key(_GROUP, "ResourceClaim", namespace, name)) is None:
            yield Create(
                {
                    "apiVersion": f"{_GROUP}/v1",
                    "kind": "ResourceClaim",
                    "metadata": meta,
                    "spec": spec.get("spec", {}),
                }
            )
        told[entry.name] = name
    if told != known:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in told.items()]
        yield PatchStatus(Key("", "Pod", namespace, pod.metadata.name), {"resourceClaimStatuses": statuses})


def _tended(claim: ResourceClaim, objects: Objects) -> Iterator[Effect]:
    namespace = claim.metadata.namespace or "default"
    key = Key(_GROUP, "ResourceClaim", namespace, claim.metadata.name)
    kept = [one for one in claim.status.reserved_for if _runs(objects.record(_pod(namespace, one.name)), one.name)]
    kept = [one for one in kept if _consumes(objects, namespace, one.name, claim)]
    owner = next((one for one in claim.metadata.owner_references if one.controller and one.kind == "Pod"), None)
    if owner is not None:
        pod = objects.record(_pod(namespace, owner.name))
        if not isinstance(pod, Pod) or not owns(pod, claim) or pod.status.ended:
            yield Delete(key)
            return
    if len(kept) < len(claim.status.reserved_for):
        left = [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in kept]
        yield PatchStatus(key, {"reservedFor": left} | ({} if kept else {"allocation": None}))


def _pod(namespace: str, name: str) -> Key:
    return Key("", "Pod", namespace, name)


def _runs(pod: object, name: str) -> bool:
    return isinstance(pod, Pod) and pod.metadata.name == name and not pod.status.ended


def _consumes(objects: Objects, namespace: str, name: str, claim: ResourceClaim) -> bool:
    """Whether the pod of that name is the one that the claim is reserved for, and means the claim."""
    pod = objects.record(_pod(namespace, name))
    if not isinstance(pod, Pod) or not any(is_consumer(one, pod) for one in claim.status.reserved_for):
        return False
    made = pod.status.extended_resource_claim_status
    meant = {claim_name(pod, entry) for entry in pod.spec.resource_claims}
    meant.add(made.resource_claim_name if made is not None else "")
    return claim.metadata.name in meant or owns(pod, claim)
