"""Volumes of the pods of a cluster, followed from one moment to the next.

What a pod's volumes allow depends on the storage objects, and on who else uses the same: where either changes, pods
with volumes are looked at again, and those that are read differently are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Pod, Volume
from tierwise.api.storage import CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass
from tierwise.dialects.kubernetes.volumes import STORAGE_KINDS, ReadVolumes, VolumeReader
from tierwise.model.arrays import Axis
from tierwise.model.node import NodeTable
from tierwise.model.volumes import ATTACH_PREFIX, Storage
from tierwise.port import Objects
from tierwise.snapshot.derive import Index

__all__ = ["ReadVolumesOfPods", "VolumeFollower"]

_ENDED: Final = ("Succeeded", "Failed")
_SOURCES: Final = attrgetter(*(name for name in Volume.__struct_fields__ if name != "name"))
_NO_SOURCE: Final = _SOURCES(Volume())


class VolumeFollower:
    """Volumes as they were read, by path of the pod."""

    def __init__(self) -> None:
        self.read: dict[str, ReadVolumes] = {}
        self._pods: dict[str, Pod] = {}
        self._at = Objects()  # what the reader has seen
        self._reader = VolumeReader(self._at)
        self._users = Index[str]()  # the pods that use something, by what others may use as well
        self._readers = Index[str]()  # those that were read from a claim or volume
        self._last = ReadVolumesOfPods(self, set())
        self._besides: dict[str, dict[str, int]] | None = None  # attached and not used; None: to be counted

    @property
    def storage(self) -> Storage:
        """Storage for claims without a volume; empty if no pod has volumes."""
        return self._reader.storage if self._pods else Storage()

    def of(self, path: str) -> ReadVolumes | None:
        """Volumes of a pod as they were read; None if none of them matters."""
        return self.read.get(path)

    def follow(self, objects: Objects, latest: Mapping[str, Pod | None]) -> ReadVolumesOfPods:
        """Take note of pods that have changed, and of the storage objects; the last answer where nothing is new."""
        stale: set[str] = set()
        for path, pod in latest.items():
            if pod is not None and not pod.spec.volumes and path not in self._pods:
                continue  # as most of them are
            counts = pod is not None and pod.status.phase not in _ENDED and any(map(_matters, pod.spec.volumes))
            if pod is not None and counts:
                before = self._pods.get(path)
                if before is None or _differs(before, pod):
                    stale.add(path)
                self._pods[path] = pod
            elif self._pods.pop(path, None) is not None:
                stale.add(path)
        alike = objects.alike(self._at, *STORAGE_KINDS)
        if not stale and (alike or not self._pods):
            return self._last
        if not alike:
            stale |= self._concerned(objects)
            self._reader = VolumeReader(objects)
            self._at = objects
            self._besides = None
        self._last = ReadVolumesOfPods(self, self._look(stale) if stale else set())
        return self._last

    def _concerned(self, objects: Objects) -> set[str]:
        """Pods that may be read differently for what has changed among the storage objects."""
        if not objects.alike(self._at, StorageClass, CsiNode):
            return set(self._pods)
        keys = [f"claim {path}" for path in objects.changes(self._at, PersistentVolumeClaim)]
        for name in objects.changes(self._at, PersistentVolume):
            keys.append(f"volume {name}")
            for record in (self._at.every(PersistentVolume).get(name), objects.every(PersistentVolume).get(name)):
                meant = record.spec.claim_ref if record is not None else None
                if meant is not None:
                    keys.append(f"claim {meant.namespace}/{meant.name}")
        return {path for key in keys for path in self._readers[key]}

    def _look(self, stale: set[str]) -> set[str]:
        """Read the stale pods again, and those that share a volume which one of them has begun or ceased to use.

        Return the paths of the pods whose terms differ from before, those that are gone among them.
        """
        touched = set(stale)
        self._besides = None
        for path in stale:
            pod = self._pods.get(path)
            uses = {*self._reader.uses(pod)} if pod is not None else set()  # in several volumes it may name one claim
            touched = touched.union(*(self._users[use] for use in uses.symmetric_difference(self._users.keys(path))))
            self._users.put(path, uses)
            self._readers.put(path, {*self._reader.sources(pod)} if pod is not None else ())
        changed: set[str] = set()
        for path in touched:
            pod = self._pods.get(path)
            read_before = self.read.get(path)
            if pod is None:
                if self.read.pop(path, None) is not None:
                    changed.add(path)
                continue
            terms = self._reader.of(pod, self._number)
            if read_before is None or (read_before.body, read_before.claims, read_before.names) != (
                terms.body,
                terms.claims,
                terms.names,
            ):
                self.read[path] = terms
                changed.add(path)
        return changed

    def _number(self, use: str) -> int:
        return len(self._users[use])

    def columns(self) -> set[str]:
        """The resources that count attached volumes: of drivers with limits that some pod has volumes of."""
        drivers: set[str] = set()
        for pod_volumes in self.read.values():
            drivers.update(driver for driver, _ in pod_volumes.terms.attached)
            drivers.update(driver for driver, _ in pod_volumes.terms.shared)
        return {f"{ATTACH_PREFIX}{driver}" for driver in drivers}

    def limit(self, table: NodeTable, axis: Axis, most: int) -> NodeTable:
        """The table with what its nodes may attach: their limits, less what is attached besides the volumes of pods."""
        names = [name for name in axis.names if name.startswith(ATTACH_PREFIX)]
        if not names:
            return table
        if self._besides is None:
            self._besides = self._count_besides()
        allocatable = table.allocatable.copy()
        for name in names:
            driver = name.removeprefix(ATTACH_PREFIX)
            column = np.full(len(table), most, dtype=np.int64)
            for node, limit in self._reader.limits.get(driver, {}).items():
                row = table.row.get(node)
                if row is not None:
                    # Kubernetes takes a limit below zero as it is: nothing more fits.
                    column[row] = max(limit, 0) - self._besides.get(driver, {}).get(node, 0)
            allocatable[axis.index[name]] = column
        return replace(table, allocatable=allocatable)

    def _count_besides(self) -> dict[str, dict[str, int]]:
        """By driver and node, how many volumes are attached that no pod there uses."""
        used: dict[str, set[str]] = {}
        for path, pod in self._pods.items():
            if pod.spec.node_name:
                used.setdefault(pod.spec.node_name, set()).update(self._users.keys(path))
        return self._reader.attached_besides(used)


class ReadVolumesOfPods(msgspec.Struct, frozen=True, eq=False):
    """Volumes of pods as they were read."""

    of: VolumeFollower
    changed: set[str]  # the pods whose volumes are read differently than before


def _matters(volume: Volume) -> bool:
    """Whether a volume bears on where its pod may run."""
    return _SOURCES(volume) != _NO_SOURCE


def _differs(before: Pod, pod: Pod) -> bool:
    return before.spec.node_name != pod.spec.node_name or before.spec.volumes != pod.spec.volumes
