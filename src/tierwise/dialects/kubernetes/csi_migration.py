"""Volume plugins from before drivers, and the drivers that do their work now.

A volume of such a plugin has the driver's name and a handle of the driver's on nodes where the driver serves it, and
its zone is under the driver's own label there. The rules are those of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.core import NodeSelector, NodeSelectorTerm, Requirement, Volume
from tierwise.api.storage import PersistentVolume, PersistentVolumeSpec

__all__ = [
    "DRIVERS",
    "UNCOUNTED",
    "ZONE_LABELS",
    "Attachable",
    "inline_handle",
    "translated",
    "volume_handle",
]

ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_OLD_ZONE, _OLD_REGION, _ZONE, _REGION = ZONE_LABELS

_EBS: Final = "kubernetes.io/aws-ebs"
_GCE: Final = "kubernetes.io/gce-pd"
_AZURE: Final = "kubernetes.io/azure-disk"
_CINDER: Final = "kubernetes.io/cinder"
_PORTWORX: Final = "kubernetes.io/portworx-volume"

DRIVERS: Final = {
    _EBS: "ebs.csi.aws.com",
    _GCE: "pd.csi.storage.gke.io",
    _AZURE: "disk.csi.azure.com",
    _CINDER: "cinder.csi.openstack.org",
    _PORTWORX: "pxd.portworx.com",
}
"""The driver that does the work of each plugin."""

UNCOUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Plugins whose volumes Kubernetes' scheduler does not count, though drivers do their work."""

_ZONE_KEYS: Final = {
    _EBS: "topology.ebs.csi.aws.com/zone",
    _GCE: "topology.gke.io/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
_EBS_ID: Final = r"aws://[^/]*(/.*)?"
_BETWEEN: Final = "__"


class Attachable(msgspec.Struct, frozen=True):
    """A volume as its driver knows it."""

    driver: str
    handle: str


def inline_handle(volume: Volume) -> Attachable | None:
    """A disk that a pod names itself, as its driver knows it; None for what no driver serves."""
    return _attachable(volume, "")


def volume_handle(volume: PersistentVolume) -> Attachable | None:
    """A volume as its driver knows it; None for what is attached by none, or cannot be translated."""
    if volume.spec.csi is not None:
        return Attachable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    return _attachable(volume.spec, _zones(volume))


def translated(volume: PersistentVolume) -> tuple[str, NodeSelector | None, bool]:
    """Plugin of a volume, its affinity on nodes where a driver does the plugin's work, and whether it has one there.

    The plugin is "" for a volume that no plugin of old serves.
    """
    plugin, handle = _disk(volume.spec, _zones(volume))
    if not plugin:
        return "", None, True
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    key = _ZONE_KEYS.get(plugin)
    return plugin, _moved(volume, affinity, key) if key else affinity, bool(handle)


def _zones(volume: PersistentVolume) -> str:
    labels = volume.metadata.labels
    return labels.get(_OLD_ZONE) or labels.get(_ZONE, "")


def _attachable(source: Volume | PersistentVolumeSpec, zones: str) -> Attachable | None:
    plugin, handle = _disk(source, zones)
    if handle:
        return Attachable(DRIVERS[plugin], handle)
    return None


def _disk(source: Volume | PersistentVolumeSpec, zones: str) -> tuple[str, str]:
    """The plugin of old that a disk belongs to, and the driver's handle of it.

    The plugin is "" where there is none, the handle where the plugin's name for the disk cannot be translated.
    """
    if source.gce_persistent_disk is not None:
        return _GCE, _gce_id(source.gce_persistent_disk.pd_name, zones)
    if source.aws_elastic_block_store is not None:
        return _EBS, _ebs_id(source.aws_elastic_block_store.volume_id)
    if source.cinder is not None:
        return _CINDER, source.cinder.volume_id
    if source.azure_disk is not None:
        return _AZURE, source.azure_disk.disk_uri if source.azure_disk.kind.lower() in ("", "managed") else ""
    if source.portworx_volume is not None:
        return (_PORTWORX, source.portworx_volume.volume_id)
    return ("", "")


def _ebs_id(name: str) -> str:
    """The identity of Amazon's: alone, or at the end of an address with the zone."""
    if not name.startswith("aws://"):
        return name
    form = re.fullmatch(_EBS_ID, name)
    volume_id = (form[1] or "").strip("/") if form is not None else ""
    if re.fullmatch(r"vol-[^/]*", volume_id):
        return volume_id
    return ""


def _gce_id(name: str, zones: str) -> str:
    several = zones.split(_BETWEEN)
    if len(several) > 1:
        regions = {zone.rpartition("-")[0] for zone in several}
        sound = len(regions) == 1 and all(zone.count("-") == 2 for zone in several)
        if sound:
            return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}"
        return ""
    return f"projects/UNSPECIFIED/zones/{several[0] or 'UNSPECIFIED'}/disks/{name}"


def _moved(volume: PersistentVolume, affinity: NodeSelector | None, key: str) -> NodeSelector | None:
    """The affinity with zones under the driver's label: those that it names, else those of the volume's labels."""
    requirements = [requirement for term in _terms(affinity) for requirement in term.match_expressions]
    named = {requirement.key for requirement in requirements}
    labels = volume.metadata.labels
    old = _ZONE not in named and (_OLD_ZONE in named or (_ZONE not in labels and _OLD_ZONE in labels))
    zone = _OLD_ZONE if old else _ZONE
    valued = {requirement.key for requirement in requirements if requirement.values}
    if zone in valued:
        affinity = _renamed(affinity, zone, key)
    elif zone in labels:
        zones = tuple(sorted({part for text in labels[zone].split(_BETWEEN) if (part := text.strip())}))
        if zones:
            affinity = _with(affinity, Requirement(key=key, operator="In", values=zones))
    if old and _OLD_REGION in valued:
        return _renamed(affinity, _OLD_REGION, _REGION)
    return affinity


def _terms(affinity: NodeSelector | None) -> tuple[NodeSelectorTerm, ...]:
    if affinity is not None:
        return affinity.node_selector_terms
    return ()


def _renamed(affinity: NodeSelector | None, old: str, new: str) -> NodeSelector:
    def term(selector_term: NodeSelectorTerm) -> NodeSelectorTerm:
        expressions = tuple(replace(r, key=new) if r.key == old else r for r in selector_term.match_expressions)
        return replace(selector_term, match_expressions=expressions)

    return NodeSelector(node_selector_terms=tuple(term(selector_term) for selector_term in _terms(affinity)))


def _with(affinity: NodeSelector | None, requirement: Requirement) -> NodeSelector:
    terms = _terms(affinity) or (NodeSelectorTerm(),)
    return NodeSelector(
        node_selector_terms=tuple(replace(t, match_expressions=(*t.match_expressions, requirement)) for t in terms)
    )
