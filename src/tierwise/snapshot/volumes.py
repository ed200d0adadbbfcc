"""Volumes of the pods of a cluster, followed from one moment to the next.

What a pod's volumes allow depends on the storage objects, and on who else uses the same: where either changes, pods
with volumes are looked at anew, and those that are read differently are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Pod, Volume
from tierwise.dialects.kubernetes.volumes import STORAGE_KINDS, ReadVolumes, VolumeReader
from tierwise.model.node import NodeTable
from tierwise.model.resources import Axis
from tierwise.model.volumes import ATTACH_PREFIX, Storage
from tierwise.port import Objects

__all__ = ["VolumeFollower"]

_ENDED: Final = ("Succeeded", "Failed")
_FIELDS: Final = tuple(name for name in Volume.__struct_fields__ if name != "name")


class VolumeFollower:
    """What was read of volumes, by path of the pod."""

    def __init__(self) -> None:
        self.read: dict[str, ReadVolumes] = {}
        self._pods: dict[str, Pod] = {}
        self._reader = VolumeReader(Objects())
        self._seen = Objects()
        self._outdated = False  # storage objects have changed since the reader looked

    @property
    def storage(self) -> Storage:
        """What there is for claims without a volume; nothing where no pod has volumes."""
        return self._reader.storage if self._pods else Storage()

    def of(self, path: str) -> ReadVolumes | None:
        """What was read of a pod's volumes; None where none of them matters."""
        return self.read.get(path)

    def follow(self, objects: Objects, paths: Iterable[str], pods: Mapping[str, Pod]) -> set[str]:
        """Take note of pods that have changed, and of the storage objects; whose volumes are read differently now."""
        moved = False
        for path in paths:
            pod = pods.get(path)
            counts = pod is not None and pod.status.phase not in _ENDED and any(map(_matters, pod.spec.volumes))
            if pod is not None and counts:
                before = self._pods.get(path)
                moved = moved or before is None or _differs(before, pod)
                self._pods[path] = pod
            elif self._pods.pop(path, None) is not None:
                moved = True
        self._outdated = self._outdated or not objects.alike(self._seen, *STORAGE_KINDS)
        self._seen = objects
        if (not self._pods and not self.read) or not (moved or self._outdated):
            return set()
        if self._outdated:
            self._reader, self._outdated = VolumeReader(objects), False
        return self._look()

    def _look(self) -> set[str]:
        users = Counter(use for pod in self._pods.values() for use in self._reader.uses(pod))
        before, self.read = self.read, {path: self._reader.of(pod, users) for path, pod in self._pods.items()}
        changed = {path for path in before if path not in self.read}
        for path, found in self.read.items():
            known = before.get(path)
            if known is None or known.body != found.body or known.claims != found.claims or known.names != found.names:
                changed.add(path)
            else:
                self.read[path] = known
        return changed

    def columns(self) -> set[str]:
        """The resources that count attached volumes: of drivers with limits that some pod has volumes of."""
        drivers: set[str] = set()
        for found in self.read.values():
            drivers.update(driver for driver, _ in found.terms.attached)
            drivers.update(driver for driver, _ in found.terms.shared)
        return {f"{ATTACH_PREFIX}{driver}" for driver in drivers}

    def limit(self, table: NodeTable, axis: Axis, most: int) -> NodeTable:
        """The table with what its nodes may attach: their limits, less what is attached besides the volumes of pods."""
        names = [name for name in axis.names if name.startswith(ATTACH_PREFIX)]
        if not names:
            return table
        standing = (pod for pod in self._pods.values() if pod.spec.node_name)
        besides = self._reader.attached_besides(standing)
        allocatable = table.allocatable.copy()
        for name in names:
            driver = name.removeprefix(ATTACH_PREFIX)
            column = np.full(len(table), most, dtype=np.int64)
            for node, limit in self._reader.limits.get(driver, {}).items():
                row = table.row.get(node)
                if row is not None:
                    # Kubernetes takes a limit below zero as it is: nothing more fits.
                    column[row] = max(limit, 0) - besides.get(driver, {}).get(node, 0)
            allocatable[axis.index[name]] = column
        return replace(table, allocatable=allocatable)


def _matters(volume: Volume) -> bool:
    """Whether a volume bears on where its pod may run."""
    return any(getattr(volume, name) is not None for name in _FIELDS)


def _differs(before: Pod, pod: Pod) -> bool:
    return before.spec.node_name != pod.spec.node_name or before.spec.volumes != pod.spec.volumes
