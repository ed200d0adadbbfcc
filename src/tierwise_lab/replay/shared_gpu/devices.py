"""GPUs that pods share: what is left of every device, and how much of it pods like those of a workload cannot use.

Fragmentation is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent" (USENIX ATC 2023). To a kind of pod that does not fit on a node, all that is left of its GPUs is a
fragment; to one that fits, the devices that have too little left for it. A node's fragmentation is the mean over the
kinds of pods, each weighted by how often it occurs.

Stranded is ours: what is left of a node's GPUs beyond what its cpu can serve, at the cpu that pods of the workload ask
for with a GPU on average. It grows before pods stop fitting, which fragmentation notices late.
Amounts are thousandths of a GPU.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats, Ints

__all__ = ["DeviceState", "PodKinds", "after", "fitting", "fragmentation", "options", "stranded"]


class PodKinds(msgspec.Struct, frozen=True):
    """Kinds of pods as columns; `weight` is the share of each in the workload."""

    cpu: Ints
    memory: Ints
    devices: Ints  # how many GPUs a pod uses; 0 for none
    each: Ints  # how much of each of them
    weight: Floats

    def __len__(self) -> int:
        return len(self.cpu)


class DeviceState(msgspec.Struct, frozen=True):
    """Free parts of some nodes, one row each; a node with fewer devices than columns has 0 in the rest."""

    cpu: Ints
    memory: Ints
    left: Ints  # (rows x devices)

    def at(self, rows: Ints) -> DeviceState:
        return DeviceState(self.cpu[rows], self.memory[rows], self.left[rows])


def fitting(state: DeviceState, kinds: PodKinds, kind: int) -> Bools:
    """Which rows take a pod of a kind."""
    devices = (state.left >= max(1, int(kinds.each[kind]))).sum(axis=1) >= kinds.devices[kind]
    enough: Bools = devices & (state.cpu >= kinds.cpu[kind]) & (state.memory >= kinds.memory[kind])
    return enough


def fragmentation(state: DeviceState, kinds: PodKinds) -> Floats:
    """Row by row: what is left of GPUs and of no use to the pods of the workload, on average over them."""
    free_parts = state.left[:, None, :]
    small = free_parts < np.maximum(1, kinds.each)[None, :, None]
    fits = (~small).sum(axis=2) >= kinds.devices[None, :]
    fits &= state.cpu[:, None] >= kinds.cpu[None, :]
    fits &= state.memory[:, None] >= kinds.memory[None, :]
    fits &= kinds.devices[None, :] > 0  # who asks for no GPU can use none of what is left
    total = state.left.sum(axis=1)
    unusable = np.where(fits, (free_parts * small).sum(axis=2), total[:, None])
    mean: Floats = unusable @ kinds.weight
    return mean


def stranded(state: DeviceState, kinds: PodKinds) -> Floats:
    """Row by row: what is left of GPUs and has no cpu to go with it."""
    demand = kinds.devices * kinds.each
    weight = np.where(demand > 0, kinds.weight, 0.0)
    per_unit = (kinds.cpu * weight).sum() / max(1.0, float((demand * weight).sum()))
    if not per_unit:
        return np.zeros(len(state.cpu))
    beyond: Floats = np.maximum(0.0, state.left.sum(axis=1) - state.cpu / per_unit)
    return beyond


def options(state: DeviceState, kinds: PodKinds, kind: int) -> list[int]:
    """The devices of the first row on which a pod may start, one for each amount left; -1 where it uses none."""
    if not kinds.devices[kind]:
        return [-1]
    free_parts = state.left[0].tolist()
    share = int(kinds.each[kind])
    device_by_amount: dict[int, int] = {}
    for device, amount in enumerate(free_parts):
        if amount >= share:
            device_by_amount.setdefault(amount, device)
    if kinds.devices[kind] == 1:
        return list(device_by_amount.values())
    return list(device_by_amount.values())[:1]


def after(state: DeviceState, kinds: PodKinds, kind: int, device: int) -> DeviceState:
    """The first row once a pod is on it: on a device, or on the first so many that have enough."""
    free_parts = state.left[:1].copy()
    number = int(kinds.devices[kind])
    if number == 1:
        free_parts[0, device] -= kinds.each[kind]
    elif number:
        free_parts[0, np.flatnonzero(free_parts[0] >= kinds.each[kind])[:number]] -= kinds.each[kind]
    return DeviceState(state.cpu[:1] - kinds.cpu[kind], state.memory[:1] - kinds.memory[kind], free_parts)
