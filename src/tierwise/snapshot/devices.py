"""Devices and claims of a cluster, followed from one cycle to the next, and what pods ask of them.

Sets of devices that requests may choose from are columns of the axis, as cpu is. Where such sets nest or are disjoint,
counting is exact: every set has room for all that is asked of it and of the sets inside it, and then devices can be
dealt out (Hall's theorem on a laminar family). Where they overlap otherwise, or more is asked than a number of devices,
the columns are a bound and devices are matched node by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import KINDS_OF
from tierwise.api.core import Container, NodeSelector, Pod
from tierwise.api.natural import natural
from tierwise.api.quantity import milli
from tierwise.api.resource import DeviceClaim, DeviceClass, ResourceClaim, ResourceSlice
from tierwise.dialects.compute_domains import template_names
from tierwise.dialects.kubernetes import devices as dra
from tierwise.model import devices as model
from tierwise.model.arrays import Axis, Bools, Ints, distinct
from tierwise.model.node import NodeTable
from tierwise.port import Objects
from tierwise.snapshot.derive import Index
from tierwise.snapshot.selector_shares import beyond_evaluating, beyond_reading

__all__ = ["NOTHING_ASKED", "Asked", "DeviceReader", "ReadDevices", "has_extended"]

_MOST_SETS: Final = 64
"""How many sets of devices are counted; what is asked of further ones is matched."""

_PLENTY: Final = 1 << 20
"""Of an extended resource whose devices serve several requests each."""

_LONGEST: Final = 80
_ENDED: Final = ("Succeeded", "Failed")
_encode = msgspec.msgpack.Encoder().encode


class Asked(msgspec.Struct, frozen=True, eq=False):
    """Devices that one pod requests or holds."""

    key: bytes = b""  # equal for pods that ask for the same
    counts: Mapping[str, int] = {}  # by resource
    ask: model.DeviceAsk | None = None
    waits: str = ""  # why it cannot be placed yet
    claims: tuple[str, ...] = ()  # the claims it means, by path


NOTHING_ASKED: Final = Asked()


_Device = tuple[str, str, str]
"""A device by its driver, its pool and its name."""


class _Holding(msgspec.Struct, frozen=True):
    """Devices held by an allocated claim; empty if it is not allocated."""

    devices: tuple[_Device, ...] = ()  # that are its own
    consumed: Mapping[tuple[_Device, str], int] = {}  # of shared devices: by device and capacity
    pods: tuple[str, ...] = ()  # the paths of those it is reserved for
    classes: tuple[str, ...] = ()  # that it names, where a running pod alone has it
    foreign: bool = False  # its devices are not free once one of our pods is gone
    leaving: bool = False  # it is about to be given back


_HOLDS_NOTHING: Final = _Holding()


class _Set(msgspec.Struct, frozen=True):
    """A set of kinds that is counted: a resource, the kinds as bits, and the classes whose requests count by name."""

    name: str
    kinds: int
    device_class: str = ""  # counts requests that name this class; else those whose devices are all in the set


class _Choices:
    """Sets of kinds, as bits, that requests for devices choose from, and how they can be counted."""

    def __init__(self) -> None:
        self.classes: dict[str, int] = {}  # what each class names
        self.classes_of: dict[int, set[str]] = {}  # the classes whose requests choose from a set
        self.counted: dict[int, tuple[str, str]] = {}  # by set: class and shown name of the first request for it
        self.matched: list[int] = []  # sets for which counting does not tell
        self.offered: list[int] = []  # counted, for extended resources that nodes offer as well
        self.claimed: list[int] = []  # counted, for all others
        self.by_pod: dict[str, set[int]] = {}

    def exact(self) -> Set[int]:
        """The sets for which counting is exact."""
        # What a node offers itself is not there for claims: where both are asked for, counting does not tell.
        both = [
            offered_kinds
            for offered_kinds in self.offered
            if any(offered_kinds & claimed_kinds for claimed_kinds in self.claimed)
        ]
        return _laminar(list(self.counted), [*self.matched, *both], {frozenset(sets) for sets in self.by_pod.values()})

    def sets(self, exact: Set[int]) -> list[_Set]:
        """A set for each class, and one for each exact set that no class alone stands for."""
        sets = [_Set(f"{model.CLASS_PREFIX}{name}", kinds, name) for name, kinds in sorted(self.classes.items())]
        for kinds, (name, shown) in self.counted.items():
            if kinds not in exact:
                continue
            inside = set().union(
                *(names for other_kinds, names in self.classes_of.items() if other_kinds & kinds == other_kinds)
            )
            if self.classes[name] != kinds or inside != {name}:
                alike = sum(device_set.name.partition(" #")[0] == shown for device_set in sets)
                sets.append(_Set(f"{shown} #{alike + 1}" if alike else shown, kinds))
        return sets


class DeviceReader:
    """Reads devices and claims again and again; what has not changed is taken over."""

    def __init__(self) -> None:
        self._objects = Objects()
        self._any = False  # whether there are slices, claims or classes
        self._rows: tuple[str, ...] = ()
        self._pods: Mapping[str, Pod] = {}
        self._users = Index[str]()  # by path of the claim: pods that mean it
        self._means: dict[str, tuple[str, ...]] = {}  # by path of the pod: claims that it means
        self._names: frozenset[tuple[str, str]] = frozenset()  # attributes that a selector or a constraint looks at
        self._kinds: dict[object, model.Kind] = {}
        self._keys: dict[str, dra.KindKeys] = {}
        self._slice_kinds: dict[str, tuple[ResourceSlice, tuple[int, ...]]] = {}
        self._table = model.DeviceTable()
        self._usable: Ints = np.zeros(0, dtype=np.int64)
        self._selectors = dra.Selectors()
        self._planner = dra.Planner((), {}, self._selectors)
        self._unread: dict[str, str] = {}  # by claim: why its selectors are not looked at yet
        self._plans: dict[bytes, model.PlannedClaim | str] = {}
        self._served: Mapping[str, str] = {}
        self._sets: tuple[_Set, ...] = ()
        self._counted: frozenset[int] = frozenset()  # sets of kinds, as bits, for which counting is exact
        self._unallocated: set[str] = set()  # claims that are to be allocated and that some pod means
        self._holdings: dict[str, _Holding] = {}  # by claim that is allocated
        self._holders = Index[_Device]()  # by device: claims that hold it
        self._reserved = Index[str]()  # by path of a pod: claims that are allocated and reserved for it
        self._naming = Index[str]()  # by class: claims that name it and that running pods hold
        self._consumed: Counter[tuple[_Device, str]] = Counter()  # of the capacities of shared devices
        self._bounds: frozenset[str] = frozenset()  # classes of which every request takes a device for itself
        self._asked: dict[bytes, model.DeviceAsk] = {}
        self._last: ReadDevices | None = None
        self.devices: model.Devices = model.NO_DEVICES
        self.changed = False  # whether the last reading found other devices, or others of them taken

    def __bool__(self) -> bool:
        return self._any or bool(self._means)

    @property
    def names(self) -> set[str]:
        """The resources that count devices, and extended resources that classes serve."""
        served = {name for name in self._served if name in self._wanted} if self._served else set()
        return {device_set.name for device_set in self._sets} | served

    def follow(
        self,
        objects: Objects,
        rows: tuple[str, ...],
        pods: Mapping[str, Pod | None],
        resources_wanted: frozenset[str],
        offered: Set[str],
        claiming: Set[str],
        served: Mapping[str, str],
        joins: Mapping[str, str],
    ) -> ReadDevices:
        """Take in what has changed since; see `_read`. The last answer where nothing has.

        `claiming` are the pods that have claims, `served` the extended resources with the classes that serve them,
        `joins` the ComputeDomains that pods join by templates of claims.
        """
        self.changed, asking = False, set[str]()
        if self or claiming or objects.any_of(_KINDS):
            asking = self._read(objects, rows, pods, resources_wanted, offered, served, joins)
        if self._last is None or asking or (self and self.changed) or self._last.any is not bool(self):
            self._last = ReadDevices(self, asking, bool(self), frozenset(self.names) if self else frozenset())
        return self._last

    def _read(
        self,
        objects: Objects,
        rows: tuple[str, ...],
        pods: Mapping[str, Pod | None],
        resources_wanted: frozenset[str],
        offered: Set[str],
        served: Mapping[str, str],
        joins: Mapping[str, str],
    ) -> set[str]:
        """Take in what has changed since, and say which pods ask for something else now.

        `pods` are those that came, went or changed, as they are now, `wanted` the resources that pods name, `offered`
        those that nodes have themselves.
        """
        before = self._objects
        self._objects = objects
        frame = self._sets, self._counted, self._served
        self._pods = objects.every(Pod)
        claims = objects.every(ResourceClaim)
        changed = set(objects.changes(before, ResourceClaim))
        described = not self or not objects.alike(before, ResourceSlice, DeviceClass) or rows != self._rows
        joined = self._join(joins)
        meant = set[str]()
        if described:
            meant = set(self._means)
            pods = pods if served == self._served else {**pods, **self._pods}
            self._served = served
        touched = self._follow(pods) | changed
        touched.update(claim for path in pods for claim in self._reserved[path])
        self._follow_waiting(claims, touched)
        changed_devices = self._hold(claims, touched)
        self._any = any(objects.every(kind) for kind in (ResourceSlice, DeviceClass, ResourceClaim))
        native = frozenset(offered) & self._served.keys() if self._served else frozenset()
        if not described and not touched and resources_wanted == self._wanted and native == self._native:
            return joined
        self._rows = rows
        self._wanted = resources_wanted
        self._native = native
        self.changed = True
        if not self:
            self.devices = model.NO_DEVICES
            self._sets, self._counted = (), frozenset()
            self._kinds, self._slice_kinds, self._keys = {}, {}, {}  # or classes that are gone would be planned with
            self._planner = dra.Planner((), {}, self._selectors)
            self._plans = {}
            self._asked = {}
            return meant
        table = self._table
        kinds = tuple(self._kinds)
        unread = self._unread
        looks = self._look(objects, claims)
        if looks or described:
            self._publish(objects)
            replaced_devices = self._take_over(table)
            changed_devices |= replaced_devices
            if not looks and kinds == tuple(self._kinds) and objects.alike(before, DeviceClass):
                touched.update(claim for device in replaced_devices for claim in self._holders[device])
            else:
                kinds_now = tuple(self._kinds.values())
                self._planner = dra.Planner(kinds_now, objects.every(DeviceClass), self._selectors)
                self._plans = {}
                self._asked = {}
                touched = set()
                for means in self._means.values():
                    touched.update(means)
        self._mark(changed_devices)
        self._unread |= beyond_evaluating(self._unallocated_specs(claims), self._planner)
        touched |= {path for path in unread.keys() | self._unread.keys() if unread.get(path) != self._unread.get(path)}
        self._sort(claims)
        self.devices = model.Devices(
            self._table,
            claims,
            objects.every(DeviceClass),
            {device_set.name: _bytes(device_set.kinds, len(self._kinds)) for device_set in self._sets},
        )
        concerned = joined.union(*(self._users[claim] for claim in touched))
        if (frame[0], frame[2]) != (self._sets, self._served):
            return concerned.union(meant, self._means)
        if frame[1] != self._counted:  # that matters to those alone who wait
            concerned.update(path for path in self._means if not _settled(self._pods.get(path)))
        return concerned

    def _join(self, joins: Mapping[str, str]) -> set[str]:
        """Take in what ComputeDomains say now; the pods that join another one by it, or none any more."""
        previous = self._domains
        self._domains = joins
        differing = {name for name in previous.keys() | joins.keys() if previous.get(name) != joins.get(name)}
        users = ((path, self._pods.get(path)) for path in (self._means if differing else ()))
        return {path for path, pod in users if pod is not None and not differing.isdisjoint(template_names(pod))}

    # -- who means which claim

    def _follow(self, pods: Mapping[str, Pod | None]) -> set[str]:
        """Note the claims that pods mean; says which claims have other users now, or users in another state."""
        touched: set[str] = set()
        for path, pod in pods.items():
            if path not in self._means and pod is not None and not _may_mean_claims(pod, self._served):
                continue  # as most of them
            means = tuple(dict.fromkeys(_claims_of(pod, self._served))) if pod is not None else ()
            touched.update(self._means.get(path, ()), means)
            self._users.put(path, means)
            if means or (pod is not None and pod.spec.resource_claims):
                self._means[path] = means
            else:
                self._means.pop(path, None)
        return touched

    def _waiting(self, claims: Mapping[str, ResourceClaim]) -> Iterator[tuple[str, DeviceClaim, list[str]]]:
        """Claims that are to be allocated, and the pods that wait for each; extended resources among them."""
        for path in sorted(self._unallocated - self._unread.keys()):
            waiting = sorted(user for user in self._users[path] if not _ended(self._pods[user]))
            if waiting:
                yield path, claims[path].spec.devices, waiting

    def _unallocated_specs(self, claims: Mapping[str, ResourceClaim]) -> list[tuple[str, DeviceClaim]]:
        """Those claims and what they ask for, the oldest first."""
        waiting = ((claims[path].metadata.creation_timestamp, path, spec) for path, spec, _ in self._waiting(claims))
        return [(path, spec) for _, path, spec in sorted(waiting, key=lambda entry: (entry[0], natural(entry[1])))]

    def _follow_waiting(self, claims: Mapping[str, ResourceClaim], touched: Iterable[str]) -> None:
        """Note which of some claims are to be allocated."""
        for path in touched:
            claim = claims.get(path)
            waits = claim is not None and claim.status.allocation is None and not claim.metadata.deletion_timestamp
            (self._unallocated.add if waits and self._users[path] else self._unallocated.discard)(path)

    # -- devices

    def _look(self, objects: Objects, claims: Mapping[str, ResourceClaim]) -> bool:
        """Whether selectors and constraints look at attributes that were not looked at before, and remember those too;
        then all kinds of devices must be found anew. Attributes that nobody looks at any more stay remembered, and give
        False.
        """
        names: set[tuple[str, str]] = set()
        texts: dict[str, None] = {}
        for device_class in objects.every(DeviceClass).values():
            texts |= dict.fromkeys(
                entry.cel.expression for entry in device_class.spec.selectors if entry.cel is not None
            )
        self._unread = {}  # of those that wait now
        self._unread = beyond_reading(self._unallocated_specs(claims))
        seen: set[int] = set()
        for _, spec, _ in self._waiting(claims):
            if id(spec) not in seen:
                seen.add(id(spec))
                texts |= dict.fromkeys(chain.from_iterable(dra.expressions(spec)))
                names.update(dra.compared_names(spec))
        self._selectors.keep(texts.keys())
        for text in texts:
            names |= dra.looks_at(text)
        if names <= self._names or (("", "") in self._names):
            return False
        self._names = frozenset(names | self._names)
        self._kinds = {}
        self._slice_kinds = {}
        self._keys = {}
        return True

    def _publish(self, objects: Objects) -> None:
        """Number the devices of all pools."""
        row = {name: i for i, name in enumerate(self._rows)}
        by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
        for slice_ in objects.every(ResourceSlice).values():
            by_pool.setdefault((slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
        pools: list[model.DevicePool] = []
        at: dict[int, list[int]] = {}
        shared: list[int] = []
        number = 0
        before = {pool.key: pool for pool in self._table.pools}
        for key, slices in sorted(by_pool.items()):
            slices.sort(key=lambda slice_: slice_.metadata.name)
            previous = before.get(key)
            if previous is not None and _same_slices(slices, previous.slices):
                pool = _moved(previous, row, number)
            else:
                pool = _pool(*key, slices, row, number)
            if pool.row == _GONE:
                continue
            if pool.row >= 0:
                at.setdefault(pool.row, []).append(len(pools))
            else:
                shared.append(len(pools))
            pools.append(pool)
            number = pool.last
        lengths = [pool.last - pool.first for pool in pools]
        everything = [slice_ for pool in pools for slice_ in pool.slices]
        kind = self._kinds_of(everything)
        if len(distinct(kind)) < len(self._kinds):  # some kinds are no more: the sets that they are in would linger
            self._kinds = {}
            self._slice_kinds = {}
            self._keys = {}
            kind = self._kinds_of(everything)
        owner = np.repeat(np.arange(len(pools)), lengths)
        where = np.repeat(np.array([pool.row for pool in pools], dtype=np.int64), lengths)
        sound = np.repeat(np.array([not pool.fault for pool in pools], dtype=bool), lengths)
        devices = tuple(chain.from_iterable(slice_.spec.devices for slice_ in everything))
        self._usable = sound.astype(np.int64)
        self._table = model.DeviceTable(
            pools=tuple(pools),
            kinds=tuple(self._kinds.values()),
            devices=devices,
            kind=kind,
            pool=owner,
            row=where,
            marks=np.zeros((3, number), dtype=np.int64),
            index=model.DeviceIndex(pools),
            at={row: tuple(numbers) for row, numbers in at.items()},
            shared=tuple(shared),
        )

    def _take_over(self, previous: model.DeviceTable) -> set[_Device]:
        """Mark the devices of pools that are what they were as in the table before; those of all other pools."""
        before = {pool.key: pool for pool in previous.pools}
        other_pools = []
        source = np.full(len(self._table.devices), -1, dtype=np.int64)
        for pool in self._table.pools:
            known_pool = before.get(pool.key)
            if known_pool is not None and known_pool.slices is pool.slices:
                source[pool.first : pool.last] = np.arange(known_pool.first, known_pool.last)
                del before[pool.key]
            else:
                other_pools.append(pool)
        stays = source >= 0
        self._table.marks[:, stays] = previous.marks[:, source[stays]]
        other_pools += before.values()
        return {
            (*pool.key, device.name) for pool in other_pools for slice_ in pool.slices for device in slice_.spec.devices
        }

    def _kinds_of(self, slices: Sequence[ResourceSlice]) -> Ints:
        """The numbers of the kinds of all devices of slices; those of a slice that is what it was stay."""
        known_slices = self._slice_kinds
        self._slice_kinds = {}
        for slice_ in slices:
            record, kinds = known_slices.get(slice_.metadata.name, (None, ()))
            self._slice_kinds[slice_.metadata.name] = slice_, kinds if record is slice_ else self._kinds_in(slice_)
        return np.fromiter(chain.from_iterable(kinds for _, kinds in self._slice_kinds.values()), np.int64)

    def _kinds_in(self, slice_: ResourceSlice) -> tuple[int, ...]:
        driver = slice_.spec.driver
        keys = self._keys.get(driver)
        if keys is None:
            keys = self._keys[driver] = dra.KindKeys(driver, self._names)
        kinds = self._kinds
        kind_keys = keys.of_all(slice_.spec.devices)
        for key, device in zip(kind_keys, slice_.spec.devices, strict=True):
            if key not in kinds:
                plain = not (device.allow_multiple_allocations or device.consumes_counters)
                kinds[key] = model.Kind(len(kinds), driver, device, plain)
        return tuple([kinds[key].number for key in kind_keys])

    def _hold(self, claims: Mapping[str, ResourceClaim], touched: Collection[str]) -> set[_Device]:
        """Note what some claims hold; the devices that they held or hold."""
        devices: set[_Device] = set()
        for path in touched:
            before = self._holdings.pop(path, _HOLDS_NOTHING)
            claim = claims.get(path)
            now = _HOLDS_NOTHING
            if claim is not None and claim.status.allocation is not None:
                now = self._holdings[path] = self._holding(path, claim)
            devices.update(before.devices, now.devices)
            self._holders.put(path, now.devices)
            self._reserved.put(path, now.pods)
            self._naming.put(path, now.classes)
            self._consumed.subtract(before.consumed)
            self._consumed.update(now.consumed)
        return devices

    def _mark(self, devices: Iterable[_Device]) -> None:
        """Mark devices by what claims hold them: all that are held, and apart those that no running pod alone holds."""
        table = self._table
        marks = self._table.marks.copy()
        for device in devices:
            number = table.index.get(device, -1)
            if number >= 0:
                holders = self._holders[device]
                # Two claims should not hold one device; where they do, the last of them says whose it is.
                holder = self._holdings[max(holders, key=natural)] if holders else _HOLDS_NOTHING
                marks[:, number] = bool(holders), holder.leaving, holder.foreign
        self._consumed = +self._consumed
        consumed_known = ((key, name, much) for (key, name), much in self._consumed.items() if key in table.index)
        consumed = {(table.index[key], name): much for key, name, much in consumed_known}
        self._table = replace(table, marks=marks, consumed=consumed)

    def _holding(self, path: str, claim: ResourceClaim) -> _Holding:
        """Devices held by an allocated claim."""
        is_held = self._holder(path, claim) is not None
        gone = not is_held and self._deserted(path, claim)
        devices: dict[_Device, None] = {}
        consumed: Counter[tuple[_Device, str]] = Counter()
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            device = result.driver, result.pool, result.device
            if result.share_id and not result.admin_access:
                consumed.update({(device, name): milli(amount) for name, amount in result.consumed_capacity.items()})
            elif not result.admin_access:
                devices[device] = None
        namespace = path.partition("/")[0]
        return _Holding(
            devices=tuple(devices),
            consumed=consumed,
            pods=tuple(dict.fromkeys(f"{namespace}/{consumer.name}" for consumer in claim.status.reserved_for)),
            classes=tuple(dict.fromkeys(_class_names(claim.spec.devices))) if is_held else (),
            foreign=not is_held and not gone,
            leaving=gone,
        )

    def _holder(self, path: str, claim: ResourceClaim) -> str | None:
        """The pod that runs and for which alone a claim is reserved: its devices are free once it is gone."""
        if len(claim.status.reserved_for) != 1:
            return None
        for user in self._users[path]:
            pod = self._pods[user]
            if dra.is_consumer(claim.status.reserved_for[0], pod):
                if pod.spec.node_name and not _ended(pod):
                    return user
                return None
        return None

    def _deserted(self, path: str, claim: ResourceClaim) -> bool:
        """Whether a claim is reserved for pods, all of which are gone: its devices are about to be given back."""
        namespace = path.partition("/")[0]
        consumers = [self._pods.get(f"{namespace}/{consumer.name}") for consumer in claim.status.reserved_for]
        return bool(consumers) and not any(
            pod is not None and dra.is_consumer(consumer, pod) and not _ended(pod)
            for consumer, pod in zip(claim.status.reserved_for, consumers, strict=True)
        )

    # -- sets of devices as resources

    def _sort(self, claims: Mapping[str, ResourceClaim]) -> None:
        """Find the sets that requests choose from, and those for which counting is exact."""
        choices = self._choices(claims)
        # Those that running pods hold have a column as well, so that columns do not come and go with whoever waits.
        for name in sorted({*self._naming} - choices.classes.keys()):
            choices.classes[name] = _mask(self._planner.of_class(name), 1)
        exact = choices.exact()
        self._sets = tuple(choices.sets(exact))
        self._counted = frozenset(exact)
        several = _bits({k.number for k in self._kinds.values() if k.device.allow_multiple_allocations})
        self._bounds = frozenset(name for name, kinds in choices.classes.items() if not kinds & several)

    def _choices(self, claims: Mapping[str, ResourceClaim]) -> _Choices:
        """The sets of kinds that the requests of waiting claims and extended resources choose from."""
        choices = _Choices()
        shared_kinds = _bits(set(self._table.kind[self._table.row < 0].tolist()))
        odd = _bits({kind.number for kind in self._kinds.values() if not kind.plain}) | shared_kinds
        for path, spec, waiting in chain(self._waiting(claims), self._extended()):
            plan = self._plan(spec, path)
            if isinstance(plan, str):
                continue
            simple = len(waiting) == 1 and _simple(plan)
            for request in chain.from_iterable(plan.requests):
                name = request.device_class
                kinds = _mask(request.answers, 1)
                choices.classes.setdefault(name, _mask(self._planner.of_class(name), 1))
                choices.classes_of.setdefault(kinds, set()).add(name)
                if simple and not kinds & odd and not any(answer > 2 for answer in request.answers):
                    choices.counted.setdefault(kinds, (name, _shown(spec, request)))
                    (choices.offered if waiting[0] in self._native else choices.claimed).append(kinds)
                else:
                    choices.matched.append(_mask(request.answers, 1, 2) if request.all else kinds)
                for pod in waiting:
                    choices.by_pod.setdefault(pod, set()).add(kinds)
        return choices

    def _extended(self) -> Iterator[tuple[str, DeviceClaim, list[str]]]:
        """A claim for each extended resource that a class serves and that some pod names."""
        for resource, name in self._served.items():
            if resource in self._wanted:
                yield f"for {resource}", _class_claim(name), [resource]

    def _plan(self, spec: DeviceClaim, path: str) -> model.PlannedClaim | str:
        """A claim as it can be searched for; what is wrong with it is told of this claim, whoever else asks alike."""
        key = _encode(spec)
        name = f"ResourceClaim {path.rpartition('/')[2]}"
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._planner.plan(spec, dra.ANY_CLAIM)
        if isinstance(plan, str):
            return plan.replace(dra.ANY_CLAIM, name)
        faults = tuple([fault.replace(dra.ANY_CLAIM, name) for fault in plan.faults])
        return replace(plan, faults=faults) if faults else plan

    def allocatable(self, native: Mapping[str, Ints], rows: int) -> dict[str, Ints]:
        """How many devices of each set every node has that no one but its pods holds.

        `native` are extended resources as nodes offer them themselves: where they do, classes are not asked.
        """
        table = self._table
        by_set = dict[str, Ints]()
        local = table.row >= 0
        free = (self._usable > 0) & (table.foreign == 0)
        usable_foreign = (self._usable > 0) & (table.foreign > 0) & local
        unused: dict[str, Ints] = {}
        for device_set in self._sets:
            member = np.frombuffer(_bytes(device_set.kinds, len(self._kinds)), dtype=np.uint8)
            inside = member[table.kind] > 0 if len(table.kind) else np.zeros(0, dtype=bool)
            counts = np.bincount(table.row[inside & local & free], minlength=rows).astype(np.int64)
            counts += int((inside & ~local & free).sum())  # which nodes share them is asked when they are matched
            by_set[device_set.name] = counts
            if (inside & usable_foreign).any():
                unused[device_set.name] = np.bincount(table.row[inside & usable_foreign], minlength=rows).astype(
                    np.int64
                )
        offers: dict[str, Bools] = {}
        extra: dict[str, Ints] = {}
        for resource, name in self._served.items():
            if resource not in self._wanted or f"{model.CLASS_PREFIX}{name}" not in by_set:
                continue
            around = self._around(name)
            column = np.minimum.reduce([by_set[set_name] for set_name in around])
            if name not in self._bounds:  # some of its devices serve several requests: matching tells how many
                column = np.where(column > 0, _PLENTY, 0)
            offered_count = native.get(resource, np.zeros(rows, dtype=np.int64))
            offers[resource] = offered_count > 0
            unused_counts = [unused[set_name] for set_name in around if set_name in unused]
            if unused_counts:
                unused[resource] = np.where(offered_count > 0, 0, np.maximum.reduce(unused_counts))
            extra |= {set_name: extra.get(set_name, 0) + offered_count for set_name in around}
            extra[resource] = np.where(offered_count > 0, offered_count, column)
        for resource, amount in extra.items():
            by_set[resource] = by_set.get(resource, 0) + amount
        self.devices = replace(self.devices, native=offers, unused=unused)
        return by_set

    def _around(self, name: str) -> list[str]:
        """The sets from which a request for any device of a class is counted."""
        plan = self._plan(_class_claim(name), f"for {name}")
        kinds = _mask(plan.requests[0][0].answers, 1) if isinstance(plan, model.PlannedClaim) else 0
        inside = [
            device_set for device_set in self._sets if not device_set.device_class and device_set.kinds & kinds == kinds
        ]
        return [f"{model.CLASS_PREFIX}{name}", *(device_set.name for device_set in inside if kinds in self._counted)]

    # -- what a pod asks for

    def of(self, path: str) -> Asked:
        """Devices that a pod requests or holds."""
        pod = self._pods.get(path) if self else None
        if pod is None:
            return NOTHING_ASKED
        extended = dra.extended(pod.spec, self._served) if self._served and not pod.spec.node_name else None
        if not pod.spec.resource_claims and extended is None and path not in self._means:
            return NOTHING_ASKED
        if pod.spec.node_name or _ended(pod):
            return self._held(path)
        claims = self._objects.every(ResourceClaim)
        for entry in pod.spec.resource_claims:
            why = dra.unfit(pod, entry, claims)
            if why:
                return Asked(key=why.encode(), waits=why)
        return self._asks(path, pod, claims, extended)

    def _count_in_sets(self, counts: dict[str, int], bit: int) -> None:
        """Count a device of this kind in every set that has the kind."""
        for device_set in self._sets:
            if device_set.kinds & bit:
                counts[device_set.name] = counts.get(device_set.name, 0) + 1

    def _held(self, path: str) -> Asked:
        counts: dict[str, int] = {}
        claims = self._objects.every(ResourceClaim)
        for name in self._means.get(path, ()):
            claim = claims.get(name)
            if claim is None or claim.status.allocation is None or self._holder(name, claim) != path:
                continue
            for result in claim.status.allocation.devices.results:
                number = self._table.index.get((result.driver, result.pool, result.device), -1)
                if number < 0 or result.admin_access or result.share_id or not self._usable[number]:
                    continue
                self._count_in_sets(counts, 1 << int(self._table.kind[number]))
        claimed = self._means.get(path, ())
        domain = self._domain_of(self._pods[path])
        if not claimed and not domain:
            return NOTHING_ASKED
        key = _encode((sorted(counts.items()), domain)) if counts or domain else b""
        return Asked(key, counts, model.DeviceAsk(domain=domain) if domain else None, claims=claimed)

    def _domain_of(self, pod: Pod) -> str:
        """The ComputeDomain that a pod joins by the template of one of its claims."""
        names = template_names(pod) if self._domains else ()
        return next((self._domains[name] for name in names if name in self._domains), "")

    def _asks(self, path: str, pod: Pod, claims: Mapping[str, ResourceClaim], extended: model.Extended | None) -> Asked:
        counts: dict[str, int] = {}
        ties: list[NodeSelector] = []
        asks: list[model.ClaimAsk] = []
        binding: list[str] = []
        names = self._means.get(path, ())
        matched = False
        for name in names:
            claim = claims.get(name)
            if claim is None:
                continue
            if claim.metadata.annotations.get(dra.EXTENDED_CLAIM) == "true" and dra.owns(pod, claim):
                extended = None  # it was made in an earlier attempt, and serves
            allocation = claim.status.allocation
            if allocation is not None:
                if allocation.node_selector is not None:
                    ties.append(allocation.node_selector)
                if any(result.binding_conditions for result in allocation.devices.results):
                    binding.append(name)
                continue
            users = [user for user in self._users[name] if not _ended(self._pods[user])]
            over = self._crowd(path, claim, users)
            if over:
                return Asked(key=over.encode(), waits=over)
            plan = self._unread.get(name) or self._plan(claim.spec.devices, name)
            if isinstance(plan, str):
                return Asked(key=plan.encode(), waits=plan)
            asks.append(model.ClaimAsk(plan, claim.spec.devices, name if len(users) > 1 else ""))
            matched = not self._count(plan, counts, alone=len(users) == 1) or matched
        if extended is not None:
            plan = self._plan(extended.spec, f"{path}/for its extended resources")
            if isinstance(plan, str):
                return Asked(key=plan.encode(), waits=plan)
            matched = not self._count(plan, counts, alone=True) or matched
            extended = replace(extended, plan=plan)
        spec = extended.spec if extended is not None else None
        domain = self._domain_of(pod)
        faulty = (
            path if any(claim_ask.plan.faults for claim_ask in asks) else ""
        )  # faults name claims: others have their own
        key = _encode((ties, [(claim_ask.spec, claim_ask.shared) for claim_ask in asks], spec, binding, domain, faulty))
        ask = self._asked.get(key)
        if ask is None or ask.matched is not matched:
            ask = self._asked[key] = model.DeviceAsk(
                tuple(ties), tuple(asks), matched, extended, tuple(binding), domain
            )
        return Asked(key, counts, ask, claims=names)

    def _crowd(self, path: str, claim: ResourceClaim, users: Sequence[str]) -> str:
        """Why a claim is not for this one of its users: more of them wait than it can be reserved for."""
        if len(users) + len(claim.status.reserved_for) <= dra.MOST_CONSUMERS:
            return ""
        first_users = sorted(users)[: dra.MOST_CONSUMERS - len(claim.status.reserved_for)]
        name = claim.metadata.name
        if path in first_users:
            return ""
        return f"ResourceClaim {name} is wanted by more than {dra.MOST_CONSUMERS} pods"

    def _count(self, plan: model.PlannedClaim, counts: dict[str, int], *, alone: bool) -> bool:
        """Add what a claim asks of each set; whether that is all there is to it."""
        exact = alone and _simple(plan)
        for options in plan.requests:
            request = options[0]
            if len(options) > 1 or request.all or request.admin or not alone:
                exact = False
                continue
            kinds = _mask(request.answers, 1)
            exact = exact and kinds in self._counted
            for device_set in self._sets:
                has_class = device_set.device_class == request.device_class and device_set.device_class in self._bounds
                if has_class or (not device_set.device_class and exact and device_set.kinds & kinds == kinds):
                    counts[device_set.name] = counts.get(device_set.name, 0) + request.count
        return exact

    _domains: Mapping[str, str] = {}  # by template of claims: the ComputeDomain that pods join by it
    _wanted: frozenset[str] = frozenset()
    _native: frozenset[str] = frozenset()  # extended resources that classes serve and nodes offer as well


class ReadDevices(msgspec.Struct, frozen=True, eq=False):
    """Devices as they were read."""

    of: DeviceReader
    asking: set[str]  # the pods that ask for something else than before
    any: bool  # whether there are devices or claims
    names: frozenset[str]  # the resources that count devices

    def table(self, table: NodeTable, axis: Axis) -> NodeTable:
        """The table with the columns that count devices."""
        if not self.names:
            return table
        amounts = table.allocatable.copy()
        native = {name: amounts[r] for name, r in axis.index.items()}
        for name, counts in self.of.allocatable(native, len(table)).items():
            amounts[axis.index[name]] = counts
        return replace(table, allocatable=amounts)


_KINDS: Final = frozenset(
    kind for kind_of_record in (ResourceSlice, DeviceClass, ResourceClaim) for kind in KINDS_OF[kind_of_record]
)
_GONE: Final = -2
"""Where the pool of a node is that does not exist."""


def _pool(
    driver: str, name: str, slices: list[ResourceSlice], row: Mapping[str, int], first_device: int
) -> model.DevicePool:
    """A pool of one node in its newest generation, or of several nodes with everything that is there of it."""
    nodes = {slice_.spec.node_name for slice_ in slices}
    if len(nodes) == 1 and "" not in nodes and not any(slice_.spec.per_device_node_selection for slice_ in slices):
        if len(slices) > 1:
            newest = max(slice_.spec.pool.generation for slice_ in slices)
            slices = [slice_ for slice_ in slices if slice_.spec.pool.generation == newest]
        where = row.get(next(iter(nodes)), _GONE)
        fault = dra.pool_fault(slices)
    else:
        where = -1
        fault = ""
    end = first_device + sum(len(slice_.spec.devices) for slice_ in slices) if where != _GONE else first_device
    return model.DevicePool(driver, name, tuple(slices), first_device, end, where, fault)


def _moved(pool: model.DevicePool, row: Mapping[str, int], first_device: int) -> model.DevicePool:
    """A pool of the same slices, whose node may be gone or have another row."""
    where = row.get(pool.slices[0].spec.node_name, _GONE) if pool.row >= 0 else pool.row
    if where == pool.row and first_device == pool.first:
        return pool
    return replace(pool, row=where, first=first_device, last=first_device + pool.last - pool.first)


def _same_slices(a: Sequence[ResourceSlice], b: Sequence[ResourceSlice]) -> bool:
    return len(a) == len(b) and all(a is b for a, b in zip(a, b, strict=True))


def _settled(pod: Pod | None) -> bool:
    """Whether a pod is gone or asks for nothing any more."""
    return pod is None or bool(pod.spec.node_name) or _ended(pod)


@cache
def _class_claim(name: str) -> DeviceClaim:
    """A claim for any one device of a class."""
    request = {"name": "any", "exactly": {"deviceClassName": name, "count": 1}}
    return msgspec.convert({"requests": [request]}, DeviceClaim)


def _class_names(spec: DeviceClaim) -> Iterator[str]:
    """The classes that the requests of a claim name."""
    for request in spec.requests:
        for option in (request.exactly, *request.first_available):
            if option is not None and option.device_class_name:
                yield option.device_class_name


def _may_mean_claims(pod: Pod, served: Mapping[str, str]) -> bool:
    return bool(served or pod.spec.resource_claims or pod.status.extended_resource_claim_status)


def has_extended(pod: Pod, served: Mapping[str, str]) -> bool:
    """Whether a pod asks for an extended resource that a class serves."""
    return any(_claims_of(pod, served))


def _claims_of(pod: Pod, served: Mapping[str, str]) -> Iterator[str]:
    """The claims that a pod means, as far as they are known, by path; that of its extended resources among them."""
    namespace = pod.metadata.namespace or "default"
    for entry in pod.spec.resource_claims:
        name = dra.claim_name(pod, entry)
        if name:
            yield f"{namespace}/{name}"
    claim_status = pod.status.extended_resource_claim_status
    if claim_status is not None and claim_status.resource_claim_name:
        yield f"{namespace}/{claim_status.resource_claim_name}"
    elif served and any(name in served for container in _containers(pod) for name in container.resources.requests):
        yield f"{namespace}/{dra.extended_claim_name(pod)}"


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _ended(pod: Pod) -> bool:
    return pod.status.phase in _ENDED


def _simple(plan: model.PlannedClaim) -> bool:
    """Whether a claim asks for numbers of devices, and for nothing else."""
    if plan.constraints or plan.faults:
        return False
    return all(len(options) == 1 and _plain(options[0]) for options in plan.requests)


def _plain(request: model.PlannedRequest) -> bool:
    return not (request.all or request.admin or request.sized)


def _crossing(counted: Sequence[int]) -> set[int]:
    """The sets that have devices in common with another one, without one of the two holding the other."""
    crossing: set[int] = set()
    for i, kinds_a in enumerate(counted):
        for kinds_b in counted[i + 1 :]:
            if kinds_a & kinds_b and kinds_a & kinds_b not in (kinds_a, kinds_b):
                crossing |= {kinds_a, kinds_b}
    return crossing


def _laminar(counted: Sequence[int], matched: Sequence[int], together: set[frozenset[int]]) -> set[int]:
    """The sets for which counting is exact: any two of them that meet nest, and no other request meets them.

    `together` are sets that one pod chooses from: either all of them are counted, or none.
    """
    good = set(counted[:_MOST_SETS])
    bad = {kinds for kinds in counted if kinds not in good or any(kinds & kinds_b for kinds_b in matched)}
    bad |= _crossing(counted)
    while True:
        spoilt: set[int] = set()
        for group in together:
            if not group <= good - bad:
                spoilt.update(group)
        newly_bad = {kinds for kinds in good - bad if kinds in spoilt or any(kinds & kinds_b for kinds_b in bad)}
        if not newly_bad:
            return good - bad
        bad |= newly_bad


def _shown(spec: DeviceClaim, request: model.PlannedRequest) -> str:
    """How the set of a request is called where it is not simply its class."""
    request_spec = next(
        (request_entry.exactly for request_entry in spec.requests if request_entry.name == request.name), None
    )
    texts = (
        [selector.cel.expression for selector in request_spec.selectors if selector.cel is not None]
        if request_spec is not None
        else []
    )
    selectors = " && ".join(" ".join(text.split()) for text in texts)
    selectors = selectors if len(selectors) <= _LONGEST else f"{selectors[: _LONGEST - 1]}…"
    tolerates = " with its tolerations" if request_spec is not None and request_spec.tolerations else ""
    where = f" where {selectors}" if selectors else " without taints"
    return f"{model.CLASS_PREFIX}{request.device_class}{where}{tolerates}"


def _mask(answers: bytes, *numbers_wanted: int) -> int:
    return _bits({i for i, answer in enumerate(answers) if answer in numbers_wanted})


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)


def _bytes(kinds: int, number: int) -> bytes:
    return bytes((kinds >> i) & 1 for i in range(number))
