"""What `validate` says of claims, volumes and classes, and of pods that name them."""

from __future__ import annotations

import pytest
from tests.support.volumes import claim, node, objects, pod, storage_class, volume

from tierwise.admission import validate
from tierwise.api.codec import Raw


def _told(*manifests: Raw) -> list[str]:
    found = validate(objects(node("n0"), *manifests))
    return [f"{finding.path}: {finding.message}" for finding in (*found.errors, *found.warnings)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((pod("p", "c"),), 'claim "c" does not exist; the pod will wait (VolumeClaimNotFound)'),
        ((pod("p", "c", on="n0"),), ""),
        ((pod("p", "c"), storage_class(), claim("c")), ""),
        ((pod("p", "c"), storage_class(), claim("c", phase="Lost")), 'claim "c" has lost its volume'),
        (
            (pod("p", "c"), storage_class(), claim("c", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            'claim "c" is being deleted',
        ),
        ((claim("c"),), 'storage class "fast" does not exist'),
        ((claim("c", "pv"),), 'volume "pv" does not exist'),
        ((storage_class(), claim("c", modes=("ReadWrite",))), 'accessModes[0] "ReadWrite" is not known'),
        ((volume("pv", volumeMode="Blocks"),), 'volumeMode "Blocks" is not known'),
        ((storage_class(volumeBindingMode="Later"),), 'volumeBindingMode "Later" is not known'),
        (
            (storage_class(provisioner="kubernetes.io/no-provisioner", allowedTopologies=[{}]),),
            "no volumes are made, so nothing is limited by it",
        ),
    ],
)
def test_what_keeps_pods_waiting_is_told_before(given: tuple[Raw, ...], told: str) -> None:
    """One finding where something is wrong, and none where all is in order."""
    found = _told(*given)

    assert len(found) == bool(told)
    assert all(told in text for text in found)
