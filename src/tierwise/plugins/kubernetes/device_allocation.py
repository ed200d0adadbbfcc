"""Which devices of a node satisfy claims, found as Kubernetes' structured allocator finds them.

Pools are searched in the order of driver and name, slices and devices in their own order; requests are served one after
the other, and the first solution is used. Where Kubernetes tries each of several indistinguishable devices, only the
first of them is tried here: that changes no answer, and keeps a failing search from growing with the number of
permutations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.core import NodeSelector
from tierwise.api.quantity import milli
from tierwise.api.resource import Device, DeviceAttribute, DeviceCapacity, ResourceSlice
from tierwise.dialects.kubernetes.devices import MOST_DEVICES, slices_fault
from tierwise.model.arrays import Bools, Ints
from tierwise.model.devices import DevicePool, DeviceTable, PlannedClaim, PlannedRequest
from tierwise.model.node import NodeTable
from tierwise.plugins.kubernetes.node_affinity import in_any_term

__all__ = ["AllocationFault", "Choice", "DeviceState", "OutOfStepsFault", "Reach", "allocate"]

_YES = 1
_TAINTED = 2
_FAULTS = 3


class AllocationFault(Exception):  # noqa: N818 - an answer about a node and not a defect
    """Nothing can be said about a node, or nothing can be taken there, for a reason of its own."""


class OutOfStepsFault(AllocationFault):
    """The search was given up: whether the node has the devices is not known."""


class Choice(msgspec.Struct, frozen=True):
    """A device that was found for a request."""

    request: PlannedRequest
    device: int
    consumed: Mapping[str, int] = {}  # of a device that is shared: thousandths of its capacities


class DeviceState:
    """Which devices are taken, and how much of those that are shared; arrays, so that an undo log restores them."""

    def __init__(self, table: DeviceTable) -> None:
        self.taken: Ints = table.taken.copy()
        shared = np.array([kind.device.allow_multiple_allocations for kind in table.kinds], dtype=bool)
        several = np.flatnonzero(shared[table.kind]).tolist() if shared.any() else []
        keys = ((i, name) for i in several for name in table.devices[i].capacity)
        self.slots = {key: number for number, key in enumerate(keys)}
        self.amounts: Ints = np.zeros(len(self.slots), dtype=np.int64)
        for key, amount in table.consumed.items():
            if key in self.slots:
                self.amounts[self.slots[key]] = amount

    def consumed(self, device: int, name: str) -> int:
        """Thousandths of a capacity of a device that are given away."""
        slot = self.slots.get((device, name), -1)
        return int(self.amounts[slot]) if slot >= 0 else 0


class _View(msgspec.Struct, frozen=True, eq=False):
    """A pool as one node sees it."""

    pool: DevicePool
    devices: Sequence[int]
    incomplete: bool = False
    invalid: str = ""
    counters: Mapping[tuple[str, str], int] = {}  # by set and name, thousandths
    prepared: bool = False  # some of its devices must be prepared first: such pools are looked through last


class Reach:
    """Which devices of which pools a node reaches."""

    def __init__(self, table: DeviceTable, nodes: NodeTable) -> None:
        self._table = table
        self._nodes = nodes
        self._masks: dict[int, list[Bools]] = {}  # of shared pools: the rows that each slice means
        self._own: dict[tuple[int, int], Bools] = {}  # of devices that say for themselves which nodes reach them
        self._views: dict[object, _View | None] = {}
        self._at: dict[int, list[_View]] = {}  # by row

    def views(self, row: int) -> list[_View]:
        """The pools of a node, in the order in which they are looked through."""
        views = self._at.get(row)
        if views is None:
            numbers = (*self._table.at.get(row, ()), *self._table.shared)
            all_views = [self._view(number, row) for number in sorted(numbers)]
            views = sorted((view for view in all_views if view is not None), key=lambda view: view.prepared)
            self._at[row] = views
        return views

    def signature(self, row: int, state: DeviceState) -> tuple[object, ...]:
        """Equal for nodes that have the same kinds of devices in the same order and condition."""
        parts: list[object] = []
        for number in sorted((*self._table.at.get(row, ()), *self._table.shared)):
            pool = self._table.pools[number]
            span = slice(pool.first, pool.last)
            if pool.row < 0:
                parts.append((number, row))
            else:
                pool_signature = self._table.kind[span].tobytes(), pool.driver, pool.fault, _counters_of(pool.slices)
                parts.append(pool_signature)
            parts.append(state.taken[span].tobytes())
            if state.slots:
                used_slots = [(i, n) for i, n in state.slots if pool.first <= i < pool.last]
                parts.append(tuple((i - pool.first, n, state.consumed(i, n)) for i, n in used_slots))
        return tuple(parts)

    def reaches(self, device: int, row: int) -> bool:
        """Whether a node reaches a device of a shared pool that it has a view of."""
        mask = self._own_mask(device)
        return mask is None or bool(mask[row])

    def rows(self, device: int) -> Bools:
        """The nodes that reach a device."""
        pool = self._table.pools[int(self._table.pool[device])]
        if pool.row >= 0:
            mask = np.zeros(len(self._nodes), dtype=bool)
            mask[pool.row] = True
            return mask
        own_rows = self._own_mask(device)
        return own_rows if own_rows is not None else self._slice_masks(int(self._table.pool[device]))[self.part(device)]

    def part(self, device: int) -> int:
        """Which slice of its pool a device is in."""
        pool = self._table.pools[int(self._table.pool[device])]
        position = device - pool.first
        for i, resource_slice in enumerate(pool.slices):
            if position < len(resource_slice.spec.devices):
                return i
            position -= len(resource_slice.spec.devices)
        raise AssertionError("the device is in no slice of its pool")

    def slice_of(self, device: int) -> ResourceSlice:
        return self._table.pools[int(self._table.pool[device])].slices[self.part(device)]

    def _view(self, number: int, row: int) -> _View | None:
        pool = self._table.pools[number]
        if pool.row >= 0:
            if number not in self._views:
                devices = range(pool.first, pool.last)
                self._views[number] = self._made(pool, pool.slices, devices, incomplete=False)
            return self._views[number]
        relevant = tuple(bool(mask[row]) for mask in self._slice_masks(number))
        key = number, relevant
        if key not in self._views:
            self._views[key] = self._shared_view(pool, relevant)
        return self._views[key]

    def _shared_view(self, pool: DevicePool, relevant: tuple[bool, ...]) -> _View | None:
        """A pool whose slices mean different nodes: Kubernetes looks at the newest generation among those meant."""
        meant = [meant_slice for meant_slice, is_meant in zip(pool.slices, relevant, strict=True) if is_meant]
        if not meant:
            return None
        newest = max(meant_slice.spec.pool.generation for meant_slice in meant)
        seen = [resource_slice for resource_slice in meant if resource_slice.spec.pool.generation == newest]
        slice_count = seen[0].spec.pool.resource_slice_count
        everything = [resource_slice for resource_slice in pool.slices if resource_slice.spec.pool.generation == newest]
        if len(seen) != slice_count and any(
            resource_slice.spec.pool.generation > newest for resource_slice in pool.slices
        ):
            return None
        incomplete = len(everything) != slice_count and len(seen) != slice_count
        return self._made(pool, everything, _devices_in(pool, seen), incomplete=incomplete)

    def _made(
        self, pool: DevicePool, slices: Sequence[ResourceSlice], devices: Sequence[int], *, incomplete: bool
    ) -> _View:
        counters = {
            (group.name, name): milli(counter.value)
            for resource_slice in slices
            for group in resource_slice.spec.shared_counters
            for name, counter in group.counters.items()
        }
        invalid = pool.fault if pool.row >= 0 and not pool.fault.startswith("being") else slices_fault(slices)
        incomplete = incomplete or pool.fault.startswith("being")
        prepared = not incomplete and any(self._table.devices[device].binding_conditions for device in devices)
        return _View(pool, devices, incomplete, invalid, counters, prepared)

    def _slice_masks(self, number: int) -> list[Bools]:
        masks = self._masks.get(number)
        if masks is None:
            masks = [self._slice_mask(resource_slice) for resource_slice in self._table.pools[number].slices]
            self._masks[number] = masks
        return masks

    def _slice_mask(self, resource_slice: ResourceSlice) -> Bools:
        spec = resource_slice.spec
        if spec.shared_counters:
            return np.ones(len(self._nodes), dtype=bool)
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self._mask(spec.node_name, spec.all_nodes, spec.node_selector)
        mask = np.zeros(len(self._nodes), dtype=bool)
        if spec.per_device_node_selection:
            for device in spec.devices:
                mask |= self._mask(device.node_name, device.all_nodes, device.node_selector)
        return mask

    def _own_mask(self, device: int) -> Bools | None:
        pool = int(self._table.pool[device])
        if self._table.pools[pool].row >= 0 or not self.slice_of(device).spec.per_device_node_selection:
            return None
        mask = self._own.get((pool, device))
        if mask is None:
            device_record = self._table.devices[device]
            mask = self._own[pool, device] = self._mask(
                device_record.node_name, device_record.all_nodes, device_record.node_selector
            )
        return mask

    def _mask(self, name: str, everywhere: bool, selector: NodeSelector | None) -> Bools:  # noqa: FBT001
        if name:
            mask = np.zeros(len(self._nodes), dtype=bool)
            row = self._nodes.row.get(name, -1)
            if row >= 0:
                mask[row] = True
            return mask
        if everywhere:
            return np.ones(len(self._nodes), dtype=bool)
        if selector is None:
            return np.zeros(len(self._nodes), dtype=bool)
        return in_any_term(self._nodes, selector)


def _devices_in(pool: DevicePool, seen: Sequence[ResourceSlice]) -> list[int]:
    """Numbers of the devices that these slices of a pool hold; slices that declare counters hold none."""
    devices: list[int] = []
    at = pool.first
    for resource_slice in pool.slices:
        if any(resource_slice is seen_slice for seen_slice in seen) and not resource_slice.spec.shared_counters:
            devices += range(at, at + len(resource_slice.spec.devices))
        at += len(resource_slice.spec.devices)
    return devices


def _counters_of(slices: tuple[ResourceSlice, ...]) -> bytes:
    """The counters of a pool, comparable; empty for the many that have none."""
    groups = [group for resource_slice in slices for group in resource_slice.spec.shared_counters]
    return msgspec.msgpack.encode(groups) if groups else b""


def allocate(
    table: DeviceTable,
    reach: Reach,
    row: int,
    claims: Sequence[PlannedClaim],
    state: DeviceState,
    *,
    max_steps: int,
) -> list[list[Choice]] | None:
    """Devices for each claim, the state being left as it was; None where the node has not enough of them.

    AllocationFault where a selector fails on a device, a pool that must be known whole is not, or the search is given
    up after so many steps.
    """
    return _Search(table, reach, row, claims, state, max_steps).run()


class _Search:
    def __init__(
        self,
        table: DeviceTable,
        reach: Reach,
        row: int,
        claims: Sequence[PlannedClaim],
        state: DeviceState,
        max_steps: int,
    ) -> None:
        self._most = max_steps
        self._table = table
        self._reach = reach
        self._row = row
        self._claims = claims
        self._state = state
        self._views = reach.views(row)
        self._view_of = {view.pool.key: view for view in self._views}
        self._in_use: dict[int, set[int]] = {}  # devices that were chosen -> by which claims
        self._drawn: dict[tuple[tuple[str, str], tuple[str, str]], int] = {}  # counters of pools that were drawn on
        self._left: dict[tuple[str, str], dict[tuple[str, str], int]] = {}  # counters of a pool that are free
        self._consumed: dict[tuple[int, str], int] = {}
        self._chosen: list[list[Choice]] = [[] for _ in claims]
        self._values: list[list[list[DeviceAttribute]]] = [[[] for _ in claim.constraints] for claim in claims]
        self._all: dict[int, list[int]] = {}
        self._steps = 0

    def run(self) -> list[list[Choice]] | None:
        for claim in self._claims:
            fewest_devices = sum(min(self._number(option, claim) for option in options) for options in claim.requests)
            if fewest_devices > MOST_DEVICES:
                raise AllocationFault(f"asks for {fewest_devices} devices, and a claim can hold {MOST_DEVICES}")
        if self._claim(0):
            return self._chosen
        broken = next((view for view in self._views if view.invalid), None)
        if broken is not None:
            raise AllocationFault(f"the pool {broken.pool.driver}/{broken.pool.name} is invalid: {broken.invalid}")
        return None

    def _number(self, request: PlannedRequest, claim: PlannedClaim) -> int:
        """How many devices a request needs; of all that there are, those are found first."""
        if not request.all:
            return request.count
        devices: list[int] = []
        for view in self._views:
            if view.incomplete or view.invalid:
                what = "being updated" if view.incomplete else "invalid"
                pool = f"{view.pool.driver}/{view.pool.name}"
                raise AllocationFault(f"request {request.name} asks for all devices, and the pool {pool} is {what}")
            devices += [
                device
                for device in view.devices
                if self._selectable(request, claim, device) and self._has_capacity(request, device) is not None
            ]
        self._all[id(request)] = devices
        return len(devices)

    def _claim(self, at: int) -> bool:
        return at == len(self._claims) or self._request(at, 0)

    def _request(self, claim: int, at: int) -> bool:
        requests = self._claims[claim].requests
        if at == len(requests):
            return self._claim(claim + 1)
        return any(self._begin(claim, at, request) for request in requests[at])

    def _begin(self, claim: int, at: int, request: PlannedRequest) -> bool:
        needed = len(self._all[id(request)]) if request.all else request.count
        if (request.all and not needed) or len(self._chosen[claim]) + needed > MOST_DEVICES:
            return False
        if request.all:
            return self._take_all(claim, at, request, 0)
        return self._take(claim, at, request, needed, 0, 0)

    def _take_all(self, claim: int, at: int, request: PlannedRequest, index: int) -> bool:
        devices = self._all[id(request)]
        if index == len(devices):
            return self._request(claim, at + 1)
        device = devices[index]
        view = self._view_of[self._pool_key(device)]
        if not self._add(claim, request, device, view, must=True):
            return False
        if self._take_all(claim, at, request, index + 1):
            return True
        self._remove(claim, request, device, view)
        return False

    def _take(self, claim: int, at: int, request: PlannedRequest, needed: int, view_at: int, device_at: int) -> bool:
        if not needed:
            return self._request(claim, at + 1)
        tried: set[tuple[int, bool]] = set()
        for v in range(view_at, len(self._views)):
            view = self._views[v]
            if view.incomplete or view.invalid:
                continue
            for d in range(device_at if v == view_at else 0, len(view.devices)):
                device = view.devices[d]
                number = int(self._table.kind[device])
                kind = self._table.kinds[number]
                alike = number, bool(self._state.taken[device])  # who only looks may choose what others hold
                if self._busy(claim, request, device) or alike in tried:
                    continue
                if not self._selectable(request, self._claims[claim], device):
                    continue
                self._steps += 1
                if self._steps > self._most:
                    raise OutOfStepsFault("the search for devices was given up: too many ways to arrange them")
                if not self._add(claim, request, device, view):
                    continue
                if self._take(claim, at, request, needed - 1, v, d + 1):
                    return True
                self._remove(claim, request, device, view)
                if kind.plain and view.pool.row >= 0:
                    tried.add(alike)  # what did not work with this one works with none that is like it
        return False

    def _selectable(self, request: PlannedRequest, claim: PlannedClaim, device: int) -> bool:
        answer = request.answers[self._table.kind[device]]
        if answer >= _FAULTS:
            raise AllocationFault(claim.faults[answer - _FAULTS])
        return answer != 0 and self._reach.reaches(device, self._row)

    def _busy(self, claim: int, request: PlannedRequest, device: int) -> bool:
        claims_of_device = self._in_use.get(device)
        if request.admin:
            return claims_of_device is not None and claim in claims_of_device
        return bool(self._state.taken[device]) or bool(claims_of_device)

    def _add(self, claim: int, request: PlannedRequest, device: int, view: _View, *, must: bool = False) -> bool:
        """Take a device for a request where nothing speaks against it.

        A constraint against one that it `must` have is a fault: Kubernetes takes it for a mistake in the claim.
        """
        device_record = self._table.devices[device]
        several = self._table.devices[device].allow_multiple_allocations
        if not several and request.admin and claim in self._in_use.get(device, ()):
            return False
        if not request.admin and (self._state.taken[device] or self._in_use.get(device)):
            return False
        consumed = self._has_capacity(request, device)
        if consumed is None or request.answers[self._table.kind[device]] == _TAINTED:
            return False
        draws = bool(device_record.consumes_counters) and not (several and self._shared_already(device))
        if draws and not self._draw(device_record, view):
            return False
        added: list[int] = []
        for c, (_, _, names) in enumerate(self._claims[claim].constraints):
            if names and request.name not in names and request.name.partition("/")[0] not in names:
                continue
            if not self._agrees(claim, c, device):
                if must:
                    name = self._table.devices[device].name
                    raise AllocationFault(
                        f"request {request.name} must have device {name}, and a constraint forbids it"
                    )
                for i in added:
                    self._values[claim][i].pop()
                if draws:
                    self._give_back(device_record, view)
                return False
            added.append(c)
        if several:
            for name, amount in consumed.items():
                self._consumed[device, name] = self._consumed.get((device, name), 0) + amount
        else:
            self._in_use.setdefault(device, set()).add(claim)
        self._chosen[claim].append(Choice(request, device, consumed if several else {}))
        return True

    def _remove(self, claim: int, request: PlannedRequest, device: int, view: _View) -> None:
        device_record = self._table.devices[device]
        choice = self._chosen[claim].pop()
        for c, (_, _, names) in enumerate(self._claims[claim].constraints):
            if not names or request.name in names or request.name.partition("/")[0] in names:
                self._values[claim][c].pop()
        if device_record.allow_multiple_allocations:
            for name, amount in choice.consumed.items():
                self._consumed[device, name] -= amount
        else:
            self._in_use[device].discard(claim)
            if device_record.consumes_counters:
                self._give_back(device_record, view)

    def _agrees(self, claim: int, constraint: int, device: int) -> bool:
        match, name, _ = self._claims[claim].constraints[constraint]
        value = _attribute(self._table.devices[device], self._table.pools[int(self._table.pool[device])].driver, name)
        if value is None:
            return False
        before = self._values[claim][constraint]
        if before and (
            match is not _same(value, before[0])
            if match
            else any(_same(value, earlier_value) for earlier_value in before)
        ):
            return False
        before.append(value)
        return True

    # -- devices that are shared by capacity, or cut from others

    def _has_capacity(self, request: PlannedRequest, device: int) -> dict[str, int] | None:
        """What a request takes of a device's capacities; None where the device does not have it left."""
        device_record = self._table.devices[device]
        if any(name not in device_record.capacity for name in request.capacity):
            return None
        consumed: dict[str, int] = {}
        for name, capacity in device_record.capacity.items():
            amount = _consumption(request.capacity.get(name), capacity)
            if amount is None:
                return None
            key = device, name
            before = self._state.consumed(device, name) + self._consumed.get(key, 0)
            if before + amount > milli(capacity.value):
                return None
            consumed[name] = amount
        return consumed

    def _shared_already(self, device: int) -> bool:
        names = self._table.devices[device].capacity
        return any(self._state.consumed(device, n) or self._consumed.get((device, n), 0) for n in names)

    def _draw(self, device: Device, view: _View) -> bool:
        free = self._free_counters(view)
        self._give_back(device, view, -1)
        if any(self._drawn.get((view.pool.key, counter), 0) > amount for counter, amount in free.items()):
            self._give_back(device, view)
            return False
        return True

    def _give_back(self, device: Device, view: _View, sign: int = 1) -> None:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                key = view.pool.key, (consumption.counter_set, name)
                self._drawn[key] = self._drawn.get(key, 0) - sign * milli(counter.value)

    def _free_counters(self, view: _View) -> dict[tuple[str, str], int]:
        """The counters of a pool less what devices that are taken draw, wherever these can be reached from."""
        free = self._left.get(view.pool.key)
        if free is None:
            free = self._left[view.pool.key] = dict(view.counters)
            for device in range(view.pool.first, view.pool.last):
                if self._state.taken[device]:
                    for consumption in self._table.devices[device].consumes_counters:
                        for name, counter in consumption.counters.items():
                            key = consumption.counter_set, name
                            if key in free:
                                free[key] -= milli(counter.value)
        return free

    def _pool_key(self, device: int) -> tuple[str, str]:
        return self._table.pools[int(self._table.pool[device])].key


def _attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """An attribute by its whole name; of the driver's own domain, also by the short one."""
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, short_name = name.partition("/")
    return device.attributes.get(short_name) if slash and domain == driver else None


def _same(attribute: DeviceAttribute, other_attribute: DeviceAttribute) -> bool:
    """Whether two values are equal, and of one type."""
    for mine, theirs in (
        (attribute.string_value, other_attribute.string_value),
        (attribute.int_value, other_attribute.int_value),
        (attribute.bool_value, other_attribute.bool_value),
        (attribute.version_value, other_attribute.version_value),
    ):
        if mine is not None:
            return theirs is not None and mine == theirs
    return False


def _consumption(amount: int | None, capacity: DeviceCapacity) -> int | None:
    """What an amount that is asked for comes to by the policy of a capacity; None where it is not allowed.

    Thousandths; None as the amount is that of a request which names none.
    """
    policy = capacity.request_policy
    if amount is None:
        return milli(policy.default if policy is not None and policy.default is not None else capacity.value)
    if policy is None:
        return amount
    span = policy.valid_range
    values = [milli(value) for value in policy.valid_values]
    if span is not None and span.min is not None:
        lowest = milli(span.min)
        step = milli(span.step) if span.step is not None else 0
        amount = max(amount, lowest)
        if step:
            amount = lowest + -(-(amount - lowest) // step) * step
    elif values:
        amount = next((value for value in values if amount <= value), amount)
    if policy.default is not None and amount == milli(policy.default):
        return amount
    if span is not None:
        beyond = span.max is not None and amount > milli(span.max)
        return None if beyond else amount
    return None if values and amount not in values else amount
