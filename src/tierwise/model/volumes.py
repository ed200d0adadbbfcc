"""Volumes as scheduling sees them: what the claims of a pod allow, and what a cluster has for them.

Pods whose claims allow the same share a shape, whatever the claims are called; the names stay with the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tierwise.model.arrays import Ints

if TYPE_CHECKING:
    from tierwise.api.core import LabelSelector, NodeSelector
    from tierwise.api.storage import TopologySelectorTerm

__all__ = [
    "ATTACH_PREFIX",
    "Claim",
    "ClaimTerms",
    "DiskUse",
    "PodVolumes",
    "Provisioning",
    "Refusal",
    "Storage",
    "VolumeKind",
    "VolumeTerms",
]

ATTACH_PREFIX = "attachable-volumes/"
"""How the resource is called that counts the volumes of a driver on a node, before the driver's name."""


class VolumeTerms(msgspec.Struct, frozen=True):
    """From where a settled volume can be reached."""

    affinity: NodeSelector | None  # None: from everywhere
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()  # labels of zones and regions, and the values that will do
    plugin: str = ""  # the volume plugin of old that it belongs to, where drivers may do that plugin's work
    migrated: NodeSelector | None = None  # the same on nodes where they do
    untranslatable: bool = False  # it cannot be used on such nodes


class VolumeKind(msgspec.Struct, frozen=True, gc=False):
    """Volumes that no claim is settled on, and that claims cannot tell apart."""

    affinity: NodeSelector | None
    storage_class: str
    capacity: int  # in thousandths of a byte, so that no rounding lets a claim in
    access_modes: tuple[str, ...]
    volume_mode: str
    labels: tuple[tuple[str, str], ...]
    attributes_class: str


class ClaimTerms(msgspec.Struct, frozen=True):
    """What a claim asks for that gets its volume with the place of its pod."""

    storage_class: str
    size: int  # in thousandths of a byte
    access_modes: tuple[str, ...]
    volume_mode: str
    selector: LabelSelector | None
    attributes_class: str
    sized: bool = True  # it names a size at all
    selected_node: str = ""  # a volume is being made for that node
    reserved: tuple[VolumeKind, ...] = ()  # volumes that are meant for this very claim


class DiskUse(msgspec.Struct, frozen=True):
    """A disk from before drivers that pods of one node cannot always share."""

    kind: str
    names: tuple[str, ...]  # it is the same disk where one of them is the same
    shareable: bool  # by pods that only read it


class Refusal(msgspec.Struct, frozen=True):
    """Why no node will do, whatever else is there: something is wrong with a claim."""

    code: str
    text: str


class PodVolumes(msgspec.Struct, frozen=True):
    """All that scheduling sees of a pod's volumes."""

    refusal: Refusal | None = None
    settled: tuple[VolumeTerms, ...] = ()
    wanted: tuple[ClaimTerms, ...] = ()  # smallest first, as they are served
    attached: tuple[tuple[str, int], ...] = ()  # by driver: volumes of its own
    shared: tuple[tuple[str, str], ...] = ()  # driver and volume, of those that other pods name as well
    exclusive: tuple[str, ...] = ()  # claims for one pod at a time that other pods name as well
    disks: tuple[DiskUse, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    """A claim of a task that gets its volume with the task's place; in the order of `PodVolumes.wanted`."""

    key: str  # namespace/name
    uid: str
    version: str
    volume: str = ""  # a volume that is meant for it
    volume_version: str = ""
    by_scheduler: bool = False  # a scheduler has tied that volume to it, and no person
    chosen: str = ""  # the node that we have chosen
    since: float = 0.0  # when we did
    failed: float = 0.0  # when the last choice came to nothing
    refused: bool = False  # the provisioner took our choice back


class Provisioning(msgspec.Struct, frozen=True):
    """How volumes of a class are made."""

    provisioner: str  # "" where none are made
    topologies: tuple[TopologySelectorTerm, ...] = ()  # the nodes that they are made for; none: all
    rooms: tuple[tuple[int, LabelSelector | None], ...] | None = None  # largest volume, and its nodes; None: no limit


class VolumeColumns(msgspec.Struct, frozen=True):
    """Kinds of volumes as columns. Local disks come by the ten thousands and differ in node and size alone."""

    sizes: tuple[int, ...]  # distinct, ascending
    size: Ints  # of each kind, its place among these
    terms: Ints  # of each kind, the place of what else claims look at
    largest: tuple[VolumeKind, ...]  # for each of these places, a kind that no other exceeds in size
    labels: tuple[tuple[str, str], ...]  # keys and values, each once, of the only node labels that kinds ask for
    label: Ints  # of each kind, its place among these; -1: it asks for something else


class Storage(msgspec.Struct, frozen=True, dict=True):
    """What a cluster has for claims without a volume."""

    volumes: tuple[tuple[VolumeKind, tuple[str, ...]], ...] = ()  # kinds with the names of their volumes, all in order
    versions: Mapping[str, str] = {}  # resource versions of volumes by name
    classes: Mapping[str, Provisioning] = {}
    migrated: Mapping[str, frozenset[str]] = {}  # by node, the volume plugins of old whose work drivers do there

    @cached_property
    def columns(self) -> VolumeColumns:
        """The kinds as columns, made once for as long as the volumes stay."""
        kinds = [kind for kind, _ in self.volumes]
        sizes = tuple(sorted({kind.capacity for kind in kinds}))
        place = {size: i for i, size in enumerate(sizes)}
        terms: dict[tuple[object, ...], int] = {}
        largest: list[VolumeKind] = []
        numbers = []
        for kind in kinds:
            what = (kind.storage_class, kind.volume_mode, kind.attributes_class, kind.access_modes, kind.labels)
            number = terms.setdefault(what, len(terms))
            if number == len(largest):
                largest.append(kind)
            elif kind.capacity > largest[number].capacity:
                largest[number] = kind
            numbers.append(number)
        labels: dict[tuple[str, str] | None, int] = {None: 0}
        label = [labels.setdefault(_only_label(kind.affinity), len(labels)) for kind in kinds]
        return VolumeColumns(
            sizes=sizes,
            size=np.array([place[kind.capacity] for kind in kinds], dtype=np.int64),
            terms=np.array(numbers, dtype=np.int64),
            largest=tuple(largest),
            labels=tuple(one for one in labels if one is not None),
            label=np.array(label, dtype=np.int64) - 1,
        )


def _only_label(affinity: NodeSelector | None) -> tuple[str, str] | None:
    """The key and the value of the label that is all a selector of nodes asks for."""
    terms = affinity.node_selector_terms if affinity is not None else ()
    if len(terms) == 1 and len(terms[0].match_expressions) == 1 and not terms[0].match_fields:
        (one,) = terms[0].match_expressions
        if one.operator == "In" and len(one.values) == 1:
            return one.key, one.values[0]
    return None
