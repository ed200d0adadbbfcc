"""What is wrong with claims and classes of volumes, and with pods that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.admission.findings import Issue, one_of, warning
from tierwise.api.core import Pod, PodSpec
from tierwise.api.storage import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, StorageClass, class_of
from tierwise.api.volcano import Job
from tierwise.port import Objects

__all__ = ["check_claim", "check_class", "check_job", "check_modes", "check_pod"]

_BINDING: Final = frozenset({"Immediate", "WaitForFirstConsumer"})
_ACCESS: Final = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
_MODES: Final = frozenset({"", "Filesystem", "Block"})


def check_pod(pod: Pod, objects: Objects) -> Iterator[Issue]:
    """A pod that names claims which are not there, or not in order, waits for them; one that is bound has them."""
    if not pod.spec.node_name:
        yield from _named("spec", pod.spec, pod.metadata.namespace, objects)


def check_job(job: Job, objects: Objects) -> Iterator[Issue]:
    """Issues of the volumes of pods that are made from the job's templates."""
    for i, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{i}].template.spec"
        yield from _named(path, task.template.spec, job.metadata.namespace, objects)


def _named(where: str, spec: PodSpec, namespace: str, objects: Objects) -> Iterator[Issue]:
    claims = objects.every(PersistentVolumeClaim)
    for i, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is None:
            continue
        path = f"{where}.volumes[{i}].persistentVolumeClaim.claimName"
        name = volume.persistent_volume_claim.claim_name
        claim = claims.get(f"{namespace or 'default'}/{name}")
        if claim is None:
            yield warning(path, f'claim "{name}" does not exist; the pod will wait (VolumeClaimNotFound)')
        elif claim.status.phase == "Lost":
            yield warning(path, f'claim "{name}" has lost its volume; the pod will wait (VolumeClaimLost)')
        elif claim.metadata.deletion_timestamp:
            yield warning(path, f'claim "{name}" is being deleted; the pod will wait (VolumeClaimDeleted)')


def check_claim(claim: PersistentVolumeClaim, objects: Objects) -> Iterator[Issue]:
    """A claim of a class that does not exist, or on a volume that does not, is never bound."""
    yield from check_modes(claim)
    named = claim.spec.volume_name
    if named and named not in objects.every(PersistentVolume):
        yield warning("spec.volumeName", f'volume "{named}" does not exist')
    name = class_of(claim)
    if not named and name and name not in objects.every(StorageClass):
        text = f'storage class "{name}" does not exist; pods with the claim will wait (VolumeClaimUnbound)'
        yield warning("spec.storageClassName", text)


def check_modes(record: PersistentVolume | PersistentVolumeClaim) -> Iterator[Issue]:
    """A volume in unknown modes fits no claim, and a claim no volume."""
    for i, mode in enumerate(record.spec.access_modes):
        yield from one_of(f"spec.accessModes[{i}]", mode, _ACCESS)
    yield from one_of("spec.volumeMode", record.spec.volume_mode, _MODES)


def check_class(record: StorageClass) -> Iterator[Issue]:
    """Yield an error where a StorageClass has an unknown volumeBindingMode, and a warning where it limits topologies
    though its provisioner makes no volumes. An absent provisioner is not reported.
    """
    yield from one_of("volumeBindingMode", record.volume_binding_mode, _BINDING)
    if record.provisioner == NO_PROVISIONER and record.allowed_topologies:
        yield warning("allowedTopologies", "no volumes are made, so nothing is limited by it")
