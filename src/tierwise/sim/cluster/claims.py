"""ResourceClaims in the embedded cluster: does what Kubernetes' controller manager does on a real one.

Creates the claims of pods from their templates, removes reservations of pods that have ended, deallocates unused
claims, and deletes claims together with the pod that they were created for. The template that a ComputeDomain names is
made as NVIDIA's driver makes it, where that is installed: its class of devices says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.nvidia import ComputeDomain
from tierwise.api.resource import DeviceClass, ResourceClaim
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.kubernetes.devices import claim_name, is_consumer, owns
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus

__all__ = ["reconcile"]

_GROUP = "resource.k8s.io"
_NVIDIA: Final = "resource.nvidia.com"
_CHANNELS: Final = "compute-domain.nvidia.com"
_CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"


_TEMPLATE: Final = "ResourceClaimTemplate"


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Next effects of the claim controller; none if everything is settled."""
    effects: list[Effect] = list(_templates(objects))
    for pod in objects.every(Pod).values():
        if pod.spec.resource_claims and not pod.metadata.deletion_timestamp and not pod.status.ended:
            effects += _made(pod, objects)
    for claim in objects.every(ResourceClaim).values():
        effects += _tended(claim, objects)
    return effects


def _templates(objects: Objects) -> Iterator[Effect]:
    """For each domain the template of the claims by which pods join it; one that is there is left as it is."""
    if _CHANNEL_CLASS not in objects.every(DeviceClass):
        return
    for domain in objects.every(ComputeDomain).values():
        meta = domain.metadata
        name = domain.spec.channel.resource_claim_template.name
        namespace = meta.namespace or "default"
        if not name or meta.deletion_timestamp or objects.record(Key(_GROUP, _TEMPLATE, namespace, name)) is not None:
            continue
        uid = meta.uid or made_up_uid("ComputeDomain", namespace, meta.name)
        owner = {"apiVersion": f"{_NVIDIA}/v1beta1", "kind": "ComputeDomain", "name": meta.name, "uid": uid}
        marks = {"labels": {f"{_NVIDIA}/computeDomain": uid}, "ownerReferences": [{**owner, "controller": True}]}
        yield Create(
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": _TEMPLATE,
                "metadata": {"name": name, "namespace": namespace, **marks},
                "spec": {"spec": {"devices": _channel(uid)}},
            }
        )


def _channel(domain: str) -> Raw:
    """What a pod asks for that joins a domain: one channel of its node, which the driver opens for that domain."""
    parameters = {"apiVersion": f"{_NVIDIA}/v1beta1", "kind": "ComputeDomainChannelConfig", "domainID": domain}
    return {
        "requests": [{"name": "channel", "exactly": {"deviceClassName": _CHANNEL_CLASS}}],
        "config": [{"requests": ["channel"], "opaque": {"driver": _CHANNELS, "parameters": parameters}}],
    }


def _made(pod: Pod, objects: Objects) -> Iterator[Effect]:
    """Claims from templates, and what the pod is told of them."""
    namespace = pod.metadata.namespace or "default"
    known = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    told = dict(known)
    for entry in pod.spec.resource_claims:
        if not entry.resource_claim_template_name or entry.name in known:
            continue
        template = Key(_GROUP, _TEMPLATE, namespace, entry.resource_claim_template_name)
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


def _owner_ended(claim: ResourceClaim, objects: Objects, namespace: str) -> bool:
    """True if a claim was made for a pod that has ended or is gone."""
    owner = next((one for one in claim.metadata.owner_references if one.controller and one.kind == "Pod"), None)
    if owner is None:
        return False
    pod = objects.record(_pod(namespace, owner.name))
    return not isinstance(pod, Pod) or not owns(pod, claim) or pod.status.ended


def _tended(claim: ResourceClaim, objects: Objects) -> Iterator[Effect]:
    namespace = claim.metadata.namespace or "default"
    key = Key(_GROUP, "ResourceClaim", namespace, claim.metadata.name)
    if _owner_ended(claim, objects, namespace):
        yield Delete(key)
        return
    kept = [one for one in claim.status.reserved_for if _runs(objects.record(_pod(namespace, one.name)), one.name)]
    kept = [one for one in kept if _consumes(objects, namespace, one.name, claim)]
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
