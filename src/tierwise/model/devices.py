"""Devices of a cycle: what drivers published, what claims ask for, and what of both is counted.

Devices are numbered pool by pool, so a pool is a slice of every array. Devices that no selector and no rule of the
cycle tells apart are of one kind. What a pod asks of devices is a `DeviceAsk`, which is part of its shape: the thousand
pods whose claims come from one template share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.model.arrays import EMPTY, Bools, Ints

if TYPE_CHECKING:
    from tierwise.api.core import NodeSelector
    from tierwise.api.resource import Device, DeviceClaim, DeviceClass, ResourceClaim, ResourceSlice

__all__ = [
    "CLASS_PREFIX",
    "NO_DEVICES",
    "ClaimAsk",
    "DeviceAsk",
    "DeviceIndex",
    "DevicePool",
    "DeviceTable",
    "Devices",
    "Extended",
    "Kind",
    "PlannedClaim",
    "PlannedRequest",
]

CLASS_PREFIX = "deviceclass/"
"""How resources begin that count devices of a class; Volcano's queues spell quotas so."""


class Kind(msgspec.Struct, frozen=True, eq=False):
    """Devices that nothing in the cycle tells apart."""

    number: int
    driver: str
    device: Device  # one of them; the others agree with it in everything that is looked at
    plain: bool  # given to one claim as a whole, without counters that it shares


class DevicePool(msgspec.Struct, frozen=True, eq=False):
    """A pool as its driver last published it; `fault` says why nothing is taken from it."""

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...]  # by name; those of counters among them
    first: int
    last: int
    row: int  # the node that it belongs to; -1 where nodes share it
    fault: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.driver, self.name


class DeviceIndex(Mapping[tuple[str, str, str], int]):
    """The numbers of devices by driver, pool and name; a pool is looked through when first asked about."""

    def __init__(self, pools: Sequence[DevicePool]) -> None:
        self._pools = {(pool.driver, pool.name): pool for pool in pools}
        self._known: dict[tuple[str, str], dict[str, int]] = {}

    def __getitem__(self, key: tuple[str, str, str]) -> int:
        driver, pool, name = key
        known = self._known.get((driver, pool))
        if known is None:
            known = self._known[driver, pool] = self._numbers(self._pools[driver, pool])
        return known[name]

    def _numbers(self, pool: DevicePool) -> dict[str, int]:
        names = []
        for one in pool.slices:
            for device in one.spec.devices:
                names.append(device.name)
        return {name: number for number, name in enumerate(names, pool.first)}

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return ((*key, name) for key, pool in self._pools.items() for name in self._numbers(pool))

    def __len__(self) -> int:
        return sum(len(self._numbers(pool)) for pool in self._pools.values())


class DeviceTable(msgspec.Struct, frozen=True, eq=False):
    """Devices as columns."""

    pools: tuple[DevicePool, ...] = ()  # by driver and name
    kinds: tuple[Kind, ...] = ()
    devices: tuple[Device, ...] = ()
    kind: Ints = EMPTY
    pool: Ints = EMPTY
    row: Ints = EMPTY  # -1 where nodes share the device
    marks: Ints = np.zeros((3, 0), dtype=np.int64)  # the rows of the three properties below
    index: Mapping[tuple[str, str, str], int] = {}  # driver, pool and name
    consumed: Mapping[tuple[int, str], int] = {}  # thousandths of a capacity that shares of a device hold
    at: Mapping[int, tuple[int, ...]] = {}  # the pools of each row
    shared: tuple[int, ...] = ()  # the pools that several rows may reach

    @property
    def taken(self) -> Ints:
        """1 where a claim holds the device as a whole."""
        return np.asarray(self.marks[0])

    @property
    def leaving(self) -> Ints:
        """1 where such a claim is reserved for pods that are gone: the device is free in a moment."""
        return np.asarray(self.marks[1])

    @property
    def foreign(self) -> Ints:
        """By device, 1 where its claim is not held by a running pod alone, so that no eviction frees it."""
        return np.asarray(self.marks[2])


class PlannedRequest(msgspec.Struct, frozen=True, eq=False):
    """A request, or one alternative of it, held against the kinds of a cycle."""

    name: str  # as results name it: "gpus", or "gpus/large"
    device_class: str
    answers: bytes  # per kind: 0 no, 1 yes, 2 tainted without toleration, 3 and above the number of a fault
    all: bool
    count: int
    admin: bool = False
    capacity: Mapping[str, int] = {}  # thousandths
    sized: bool = False  # it asks for an amount of a capacity


class PlannedClaim(msgspec.Struct, frozen=True, eq=False):
    """A claim held against the kinds and classes of a cycle."""

    requests: tuple[tuple[PlannedRequest, ...], ...]  # alternatives, the best first
    constraints: tuple[tuple[bool, str, frozenset[str]], ...]  # whether values must match, of what, in which requests
    faults: tuple[str, ...] = ()  # what went wrong with a selector, by number


class ClaimAsk(msgspec.Struct, frozen=True, eq=False):
    """A claim that is to be allocated; `shared` names it where several pods wait for it together."""

    plan: PlannedClaim
    spec: DeviceClaim
    shared: str = ""


class Extended(msgspec.Struct, frozen=True, eq=False):
    """Extended resources of a pod that device classes serve, as the requests of a claim that is made for them.

    What a node offers of `resources` itself it serves without a claim.
    """

    spec: DeviceClaim
    resources: tuple[str, ...]
    mappings: tuple[tuple[str, str, str], ...]  # container, resource, request
    plan: PlannedClaim | None = None  # held against the kinds of the cycle

    def without(self, offered: frozenset[str]) -> Extended | None:
        """What is left for a claim on nodes that offer some of the resources themselves; None for nothing."""
        kept = {request for _, resource, request in self.mappings if resource not in offered}
        places = [i for i, request in enumerate(self.spec.requests) if request.name in kept]
        if not places:
            return None
        plan = self.plan
        if plan is not None:
            plan = replace(plan, requests=tuple(plan.requests[i] for i in places))
        return Extended(
            spec=replace(self.spec, requests=tuple(self.spec.requests[i] for i in places)),
            resources=tuple(name for name in self.resources if name not in offered),
            mappings=tuple(one for one in self.mappings if one[1] not in offered),
            plan=plan,
        )


class DeviceAsk(msgspec.Struct, frozen=True, eq=False):
    """What pods of a shape ask of devices, beyond what is counted."""

    ties: tuple[NodeSelector, ...] = ()  # where their claims that are allocated can be reached
    claims: tuple[ClaimAsk, ...] = ()  # still to be allocated
    matched: bool = False  # counting does not tell where they fit: devices are matched, node by node
    extended: Extended | None = None
    binding: tuple[str, ...] = ()  # claims that are allocated, and whose devices their drivers must prepare first
    domain: str = ""  # the ComputeDomain that they join, whose pods are in one NVLink clique; also of running pods


class Devices(msgspec.Struct, frozen=True, eq=False):
    """All that a cycle knows of devices."""

    table: DeviceTable = DeviceTable()
    claims: Mapping[str, ResourceClaim] = {}
    classes: Mapping[str, DeviceClass] = {}
    columns: Mapping[str, bytes] = {}  # resources that count sets of devices, and 1 for each kind in the set
    unused: Mapping[str, Ints] = {}  # by column: devices of claims that no running pod holds alone
    native: Mapping[str, Bools] = {}  # by extended resource that a class serves: the rows that offer it themselves


NO_DEVICES = Devices()
