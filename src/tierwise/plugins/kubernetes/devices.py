"""Kubernetes' rules about devices: where claims can be reached or allocated, and what is written before a bind.

What is counted is not asked about here: sets of devices are columns of the ledger. Claims that are allocated tie a pod
to the nodes that reach them. Where counting does not tell, devices are matched node by node, as Kubernetes' allocator
would, and what pods of the cycle were given is followed on the ledger; nodes whose devices are alike are asked about
once. At the end of a cycle devices are dealt out, and claims written with what they were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import status_time
from tierwise.api.plurals import count
from tierwise.api.quantity import milli
from tierwise.api.resource import ResourceClaim
from tierwise.dialects.compute_domains import CLIQUE
from tierwise.dialects.kubernetes.devices import binding_of
from tierwise.framework.extension import CycleView, Preparation, Tie
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Ledger, Pool, Tally, stays_released
from tierwise.model.arrays import Bools, Ints, Why
from tierwise.model.devices import NO_DEVICES, DeviceAsk, Extended, PlannedClaim, PlannedRequest
from tierwise.model.job import Job, Reason, Shape, Status, Task
from tierwise.plugins.kubernetes.claim_writes import FAILED_AT, ClaimWriter, claim_key, deallocation
from tierwise.plugins.kubernetes.device_allocation import (
    AllocationFault,
    Choice,
    DeviceState,
    OutOfStepsFault,
    Reach,
    allocate,
)
from tierwise.plugins.kubernetes.node_affinity import in_any_term
from tierwise.plugins.kubernetes.taken import TakenLog
from tierwise.port import Prepare

__all__ = ["DeviceRules"]

_SEVERAL: Final = -1

Taken = list[tuple[int, int, int]]
"""What a task took: which array, the place in it, and how much."""
_DEVICES, _AMOUNTS, _OWNERS = range(3)
"""The arrays: devices, capacities of shared ones, and whose devices they became."""

_PAUSE: Final = 10.0
"""Seconds before devices are given away again that could not be prepared, the longest that Kubernetes waits."""


class DeviceRules:
    """Says which nodes' devices serve a shape, follows what was given, and says what is written before a bind."""

    def __init__(self, view: CycleView, plugin: str, timeout: float, barred: Callable[[Shape], Bools]) -> None:
        """`timeout` is how many seconds drivers have to prepare devices that they prepare once these are given away.

        `barred` says which rows other rules keep from a shape.
        """
        self._timeout = timeout
        self._barred = barred
        self._plugin = plugin
        self._view = view
        self._reasons = view.reasons
        self._now = view.snapshot.now
        devices = view.snapshot.devices or NO_DEVICES
        self._devices = devices
        self._table = devices.table
        self._reach = Reach(devices.table, view.nodes)
        self._state = DeviceState(devices.table)
        self._matched = any(shape.devices is not None and shape.devices.matched for shape in view.snapshot.shapes)
        self._given_up = False  # the last search for tasks of several shapes together
        self._shared: dict[str, int] = {}  # claims that several pods wait for, numbered from 1
        self._owner: Ints = np.zeros(len(self._table.devices), dtype=np.int64)  # by device: such a claim, or 0
        self._parts: dict[tuple[int, frozenset[str]], Extended | None] = {}
        self._answers: dict[tuple[object, ...], int] = {}
        self._known = KeptOfLedger(view.ledger.moved, DeviceRules._why_anywhere, DeviceRules._why_again)
        self._elsewhere = Reason("ClaimElsewhere", plugin, "could not reach the devices that a claim of the pod holds")
        # What is given at the end of the cycle, claim by claim; together where tasks of several shapes share a node.
        self._dealt_together: dict[int, list[tuple[int, list[list[Choice]]]]] = {}
        self._dealt: DeviceState | None = None
        self._slack: dict[tuple[str, int], int] = {}
        self._inners: dict[bytes, list[tuple[str, bytes]]] = {}  # by what a request says of each kind
        self._clique_of: Ints = np.zeros(0, dtype=np.int64)  # by row
        self._cliques: dict[str, Ints] = {}  # by ComputeDomain: how many of its pods are in each clique
        self._at_first: dict[str, Ints] = {}  # the same as the cycle began
        self._contested: set[str] = set()  # ComputeDomains that pods of several jobs wait to join
        self._count_cliques()
        self._writer = ClaimWriter(devices, self._reach, view.nodes, view.snapshot.now)
        self._shape_on: Ints = np.zeros(len(view.nodes), dtype=np.int64)  # whose tasks came in this cycle, plus 1
        self._log = TakenLog[Taken]()
        self._released: Ints = np.zeros(len(self._table.devices), dtype=np.int64)  # 1 where a pod is letting it go
        self._released_amounts: Ints = np.zeros_like(self._state.amounts)  # of devices that several claims share
        if self._matched:
            self._released[:] = self._table.leaving
            self._state.taken[self._table.leaving > 0] = 0
            going = (task for job in view.jobs for task in job.tasks if task.status is Status.RELEASING)
            self._release(view.ledger, [*going, *(t for t in view.snapshot.others if t.status is Status.RELEASING)])
            view.ledger.follow(self, self._release, linger=stays_released)

    # -- filters

    def object_statically(self, shape: Shape, why: Why) -> None:
        """Note the nodes from which a claim that is allocated cannot be reached."""
        if shape.devices is None:
            return
        for tie in shape.devices.ties:
            np.copyto(why, self._reasons.number(self._elsewhere), where=~in_any_term(self._view.nodes, tie))
        if shape.devices.domain:
            self._object_to_cliques(shape.devices.domain, self._at_first[shape.devices.domain], why, slice(None))
        for path in shape.devices.binding:
            lost = self._lost(path)
            if lost is not None:
                why[:] = self._reasons.number(lost)

    def concerns(self, shape: Shape) -> bool:
        """Whether devices are matched for it, or several jobs look for one clique."""
        return shape.devices is not None and (shape.devices.matched or shape.devices.domain in self._contested)

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """Which nodes have not the devices for one more task, as devices are given now."""
        assert shape.devices is not None
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        if shape.devices.matched:
            why = self._known.of(shape.number, self, shape)[span].copy()
        if shape.devices.domain in self._contested:
            self._object_to_cliques(shape.devices.domain, self._cliques[shape.devices.domain], why, span)
        return why

    def reached_from_several(self, shape: Shape) -> bool:
        """Whether a task of the shape may take a device that tasks on other nodes could have had."""
        return bool(self._table.shared) or (shape.devices is not None and shape.devices.domain in self._contested)

    def tie(self, shape: Shape) -> Tie | None:
        """Pods that share a claim which has no devices yet go where the first of them gets its devices."""
        mine = self._not_given(shape)
        if not mine:
            return None
        sharing = (
            shape_sharing.number
            for shape_sharing in self._view.snapshot.shapes
            if not mine.isdisjoint(self._not_given(shape_sharing))
        )
        return Tie(np.arange(len(self._view.nodes)), frozenset(sharing))

    def _not_given(self, shape: Shape) -> frozenset[str]:
        """The claims of a shape that several pods wait for, and that no task of this cycle has been given."""
        shared = (
            {claim.shared for claim in shape.devices.claims if claim.shared} if shape.devices is not None else set()
        )
        return frozenset(claim for claim in shared if not (self._owner == self._number(claim)).any())

    def _why_anywhere(self, shape: Shape) -> Why:
        """Why nodes cannot give a task of the shape its devices; 0 for those that can."""
        why = np.array([self._why(shape, row) for row in range(len(self._view.nodes))], dtype=np.uint16)
        if shape.devices is not None and self._shares(shape.devices):
            self._object_to_cramped(shape, why)
        return why

    def _why_again(self, shape: Shape, why: Why, rows: Ints) -> Why:
        """Reasons after some rows have changed; all rows are asked again where several nodes reach the same devices."""
        if self._table.shared or (shape.devices is not None and self._shares(shape.devices)):
            return self._why_anywhere(shape)
        why[rows] = [self._why(shape, row) for row in rows.tolist()]
        return why

    def _count_cliques(self) -> None:
        """By ComputeDomain, how many of its pods are in each NVLink clique."""
        view = self._view
        joined: dict[str, list[int]] = {}
        for shape in view.snapshot.shapes:
            if _domain(shape):
                joined.setdefault(_domain(shape), []).append(shape.number)
        if not joined:
            return
        column = view.nodes.labels.column(CLIQUE)
        self._clique_of = column.codes.astype(np.int64)
        for domain, joining in joined.items():
            self._cliques[domain] = np.zeros(len(column.values), dtype=np.int64)
            view.ledger.tally(Tally(self._cliques[domain], self._clique_of, dict.fromkeys(joining, 1)))
            self._at_first[domain] = self._cliques[domain].copy()
        waiting = Counter(
            domain
            for job in view.jobs
            for domain in {_domain(task.shape) for task in job.tasks if task.status is Status.PENDING}
        )
        self._contested = {domain for domain, jobs in waiting.items() if domain and jobs > 1}

    def _object_to_cliques(self, domain: str, counts: Ints, why: Why, span: slice) -> None:
        """Pods of a ComputeDomain share memory over NVLink: where some of them are, the others follow."""
        if not counts.any():
            return
        codes = self._clique_of[span]
        away = (codes < 0) | (counts[codes] == 0)
        text = f"were not in the NVLink clique of the other pods of ComputeDomain {domain.partition('/')[2]}"
        reason = Reason("InAnotherClique", self._plugin, text)
        np.copyto(why, self._reasons.number(reason), where=(why == 0) & away)

    def _shares(self, ask: DeviceAsk) -> bool:
        return any(claim.shared for claim in ask.claims)

    def _why(self, shape: Shape, row: int) -> int:
        ask = shape.devices
        assert ask is not None
        plans, placed = self._open(ask, row)
        if placed is not None:
            return placed
        if not plans:
            return 0
        other_shapes = tuple(number for number, _ in self._standing(row)) if self._meets_others(shape, row) else ()
        key = (shape.number, other_shapes, *map(id, plans), *self._reach.signature(row, self._state))
        found = self._answers.get(key)
        if found is None:
            reason = self._reason(plans, row, self._state)
            if reason is not None and other_shapes:
                together = self._together(row, plans)
                reason = replace(reason, cut=reason.cut or self._given_up) if together is None else None
            found = self._answers[key] = 0 if reason is None else self._reasons.number(reason)
        return found

    def _open(self, ask: DeviceAsk, row: int) -> tuple[list[PlannedClaim], int | None]:
        """The claims that are to be allocated on a node, and the objection where one is given elsewhere already."""
        plans: list[PlannedClaim] = []
        for claim in ask.claims:
            if claim.shared:
                given_devices = np.flatnonzero(self._owner == self._number(claim.shared))
                if len(given_devices):
                    if not all(self._reach.rows(int(device))[row] for device in given_devices):
                        return [], self._reasons.number(self._elsewhere)
                    continue
            plans.append(claim.plan)
        extended = self._extended(ask, row)
        if extended is not None and extended.plan is not None:
            plans.append(extended.plan)
        return plans, None

    def _extended(self, ask: DeviceAsk, row: int) -> Extended | None:
        """The extended resources that a node does not offer itself, so that a claim is made for them."""
        if ask.extended is None:
            return None
        native = self._devices.native
        offered = frozenset(name for name in ask.extended.resources if name in native and native[name][row])
        if not offered:
            return ask.extended
        key = id(ask.extended), offered
        if key not in self._parts:
            self._parts[key] = ask.extended.without(offered)
        return self._parts[key]

    def _number(self, claim: str) -> int:
        return self._shared.setdefault(claim, len(self._shared) + 1)

    def _object_to_cramped(self, shape: Shape, why: Why) -> None:
        """Pods that share a claim go where as many of them as possible have room: the first decides for all.

        Those with volumes are let go anywhere: which nodes these allow is not known here.
        """
        ask = shape.devices
        assert ask is not None
        if shape.volumes is not None:
            return
        if all((self._owner == self._number(claim.shared)).any() for claim in ask.claims if claim.shared):
            return
        ledger = self._view.ledger
        room = shape.max_tasks(ledger.free(shape.asked, slice(None), Pool.IDLE))
        room[(why > 0) | self._barred(shape)] = 0
        wanted_room = min(
            int(room.max(initial=0)), sum(task.shape is shape for job in self._view.jobs for task in job.tasks)
        )
        reason = Reason(
            "SharedClaimCramped", self._plugin, "had room for fewer of the pods that share a claim than others"
        )
        np.copyto(why, self._reasons.number(reason), where=(why == 0) & (room < wanted_room))

    def _reason(self, plans: Sequence[PlannedClaim], row: int, state: DeviceState) -> Reason | None:
        """Why a node cannot serve claims; None where it can."""
        try:
            if self._allocate(row, plans, state) is not None:
                return None
        except AllocationFault as fault:
            text = f"had devices that cannot be used: {fault}"
            cut = isinstance(fault, OutOfStepsFault)
            return Reason("DevicesUnusable", self._plugin, text, cut=cut)
        requests_text = " and ".join(dict.fromkeys(_shown(request) for plan in plans for request in plan.requests))
        if self._would_do([_unbound(plan) for plan in plans], row, state):
            named = ", ".join(dict.fromkeys(name for plan in plans for _, name, _ in plan.constraints))
            return Reason(
                "DeviceConstraintNotMet", self._plugin, f"had no {requests_text} that meet the constraint on {named}"
            )
        empty = DeviceState(self._table)
        empty.taken[:] = 0
        empty.amounts[:] = 0
        if self._would_do(plans, row, empty):
            return Reason("DevicesInUse", self._plugin, f"had too few free devices for {requests_text}")
        return Reason("InsufficientDevices", self._plugin, f"had too few devices for {requests_text}")

    def _allocate(self, row: int, plans: Sequence[PlannedClaim], state: DeviceState) -> list[list[Choice]] | None:
        return allocate(self._table, self._reach, row, plans, state, max_steps=self._view.budget.devices)

    def _would_do(self, plans: Sequence[PlannedClaim], row: int, state: DeviceState) -> bool:
        try:
            return self._allocate(row, plans, state) is not None
        except AllocationFault:
            return False

    # -- what is given in the course of the cycle

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Take devices for tasks that come to rows, and free those of tasks that go again, such as nominated ones."""
        ask = shape.devices
        if ask is None or not ask.matched:
            return
        taken_by_place = self._log.by_place() if (counts < 0).any() else {}
        for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
            for _ in range(number):
                self._take(ledger, shape, ask, row)
            for _ in range(-number):
                taken_of_tasks = taken_by_place.get((shape.number, row))
                if taken_of_tasks:  # tasks from before the cycle hold their devices by their claims
                    taken_of_task = taken_of_tasks.pop()
                    self._move(ledger, shape, row, taken_of_task, by=-1)
                    if any(array == _OWNERS for array, _, _ in taken_of_task):
                        self._inherit(ledger, taken_of_task)
                        taken_by_place = self._log.by_place()

    def _take(self, ledger: Ledger, shape: Shape, ask: DeviceAsk, row: int) -> None:
        """Take devices for one task that comes to a row; those of other tasks there are dealt again if need be."""
        plans, placed = self._open(ask, row)
        choices = None
        if placed is None and plans:
            with suppress(AllocationFault):
                choices = self._allocate(row, plans, self._state)
            if choices is None and self._meets_others(shape, row):
                choices = self._rearrange(ledger, row, plans)
        self._move(ledger, shape, row, self._takes(ask, plans, choices or ()), by=1)

    def _inherit(self, ledger: Ledger, freed: Taken) -> None:
        """Devices of a claim that other tasks share stay with one of those when the task that took them goes."""
        for claim in {amount for array, _, amount in freed if array == _OWNERS}:
            devices = {place for array, place, amount in freed if array == _OWNERS and amount == claim}
            slots = {slot for (device, _), slot in self._state.slots.items() if device in devices}
            inherited = [
                (array, place, n) for array, place, n in freed if place in (slots if array == _AMOUNTS else devices)
            ]
            for number, row, taken in self._log.standing():
                heir = self._view.snapshot.shapes[number]
                heir_claims = heir.devices.claims if heir.devices is not None else ()
                if any(heir_claim.shared and self._number(heir_claim.shared) == claim for heir_claim in heir_claims):
                    self._move(ledger, heir, row, taken, by=-1)
                    self._move(ledger, heir, row, [*taken, *inherited], by=1)
                    break

    def _move(self, ledger: Ledger, shape: Shape, row: int, taken: Taken, *, by: int) -> None:
        """Take what a task gets, or give it back: places in the arrays of the state, and how much."""
        if self._shape_on[row] != shape.number + 1:
            ledger.save(self._shape_on, row)
            self._shape_on[row] = shape.number + 1 if not self._shape_on[row] else _SEVERAL
        for array, place, amount in taken:
            numbers = (self._state.taken, self._state.amounts, self._owner)[array]
            ledger.save(numbers, place)
            numbers[place] += by * amount
        self._log.add(ledger, shape, row, taken, back=by < 0)

    # Tasks of several shapes on one node: the first may have devices that only they would do for, so where one more
    # finds none, devices for all of them are looked for together.

    def _meets_others(self, shape: Shape, row: int) -> bool:
        """Whether tasks of other shapes came to a node in this cycle, with devices that could be theirs."""
        return int(self._shape_on[row]) not in (0, shape.number + 1)

    def _standing(self, row: int) -> list[tuple[int, Taken]]:
        """The tasks that came to a node in this cycle, by shape and with what they took."""
        return [(number, what) for number, row_of_task, what in self._log.standing() if row_of_task == row]

    def _together(
        self, row: int, plans: Sequence[PlannedClaim], state: DeviceState | None = None
    ) -> list[list[list[Choice]]] | None:
        """Devices for every task that came to a node, one after the other, and for further claims at the end.

        None where there are none, where finding them takes too long, and where some of the claims are shared. Without
        a state, what the tasks took is free for it.
        """
        self._given_up = False
        tasks_on_row = self._standing(row)
        shapes = [self._view.snapshot.shapes[number] for number, _ in tasks_on_row]
        asks = [shape.devices for shape in shapes if shape.devices is not None]
        if any(self._shares(ask) for ask in asks):
            return None
        parts = [*(self._open(ask, row)[0] for ask in asks), list(plans)]
        arrays = self._state.taken, self._state.amounts, self._owner
        freed = [] if state is not None else [amount_taken for _, taken in tasks_on_row for amount_taken in taken]
        for array, place, amount in freed:
            arrays[array][place] -= amount
        max_steps = self._view.budget.devices_together
        try:
            flat = []
            for part in parts:
                flat.extend(part)
            choices = allocate(self._table, self._reach, row, flat, state or self._state, max_steps=max_steps)
        except AllocationFault as fault:
            choices = None
            self._given_up = isinstance(fault, OutOfStepsFault)
        finally:
            for array, place, amount in freed:
                arrays[array][place] += amount
        if choices is None:
            return None
        ends = np.cumsum([len(part) for part in parts]).tolist()
        return [choices[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]

    def _rearrange(self, ledger: Ledger, row: int, plans: list[PlannedClaim]) -> list[list[Choice]] | None:
        """Deal the devices of a node again, so that further claims find some."""
        choices_by_task = self._together(row, plans)
        if choices_by_task is None:
            return None
        tasks_on_row = self._standing(row)
        shapes = [self._view.snapshot.shapes[number] for number, _ in tasks_on_row]
        for shape, (_, taken) in reversed(list(zip(shapes, tasks_on_row, strict=True))):
            self._move(ledger, shape, row, taken, by=-1)
        for shape, choices in zip(shapes, choices_by_task, strict=False):
            assert shape.devices is not None
            open_claims, _ = self._open(shape.devices, row)
            self._move(ledger, shape, row, self._takes(shape.devices, open_claims, choices), by=1)
        return choices_by_task[-1]

    def _release(self, ledger: Ledger, tasks: Sequence[Task]) -> None:
        """Free the devices of tasks that go: others may count on them, and are bound when they are there."""
        for task in tasks:
            for path in task.claims:
                claim = self._devices.claims.get(path)
                if claim is None or claim.status.allocation is None or not _alone(claim, task):
                    continue
                for result in claim.status.allocation.devices.results:
                    number = self._table.index.get((result.driver, result.pool, result.device), -1)
                    if number < 0 or result.admin_access:
                        continue
                    ledger.save(self._released, number)
                    self._released[number] = 1
                    if not result.share_id:
                        ledger.save(self._state.taken, number)
                        self._state.taken[number] = 0
                    for name, amount in result.consumed_capacity.items() if result.share_id else ():
                        slot = self._state.slots.get((number, name), -1)
                        if slot >= 0:
                            ledger.save(self._state.amounts, slot)
                            self._state.amounts[slot] -= milli(amount)
                            ledger.save(self._released_amounts, slot)
                            self._released_amounts[slot] += milli(amount)

    def _takes(
        self, ask: DeviceAsk, plans: Sequence[PlannedClaim], choices_by_plan: Sequence[Sequence[Choice]]
    ) -> Taken:
        """What claims take: devices, capacities of shared ones, and whose devices they become."""
        taken: Taken = []
        for plan, choices in zip(plans, choices_by_plan, strict=False):
            shared = next((claim.shared for claim in ask.claims if claim.plan is plan), "")
            for choice in choices:
                for name, amount in choice.consumed.items():
                    taken.append((_AMOUNTS, self._state.slots[choice.device, name], amount))
                if not choice.consumed and not choice.request.admin:
                    taken.append((_DEVICES, choice.device, 1))
                if shared:
                    taken.append((_OWNERS, choice.device, self._number(shared)))
        return taken

    # -- before a bind

    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None:
        """Devices for the claims of a task, as writes, and drivers that prepare them; None where it has no claims."""
        ask = task.shape.devices
        if ask is None:
            return None
        if row < 0:
            return self._given_back(job, ask)
        if self._dealt is None:
            self._dealt = DeviceState(self._table)
        open_claims = [
            (path, claim)
            for path in task.claims
            if (claim := self._devices.claims.get(path)) is not None
            and claim.status.allocation is None
            and path not in self._writer.given
        ]
        pause = 0.0
        for _, claim in open_claims:
            if FAILED_AT in claim.metadata.annotations:
                pause = max(pause, status_time(claim.metadata.annotations[FAILED_AT]))
        if pause and self._now < pause + _PAUSE:
            text = f"the devices of pod {task.key} could not be prepared; another try is made at "
            text += format_time(pause + _PAUSE)
            return Preparation(waits=Reason("DeviceBindingFailed", self._plugin, text), until=pause + _PAUSE)
        plans = [self._plan_of(ask, claim) for _, claim in open_claims]
        extended = self._extended(ask, row)
        if extended is not None:
            assert extended.plan is not None
            plans.append(extended.plan)
        try:
            choices_by_plan = self._deal(task.shape, row, plans)
        except AllocationFault as fault:
            return Preparation(failed=Reason("DevicesUnusable", self._plugin, str(fault)))
        if choices_by_plan is None and self._later(row, plans) is not None:
            text = f"pods that hold the devices of pod {task.key} on node {self._view.nodes.names[row]} are terminating"
            return Preparation(waits=Reason("DevicesInUse", self._plugin, text))
        if choices_by_plan is None:
            node = self._view.nodes.names[row]
            text = f"the devices that pod {task.key} was to have on node {node} were given to other pods"
            return Preparation(failed=Reason("DevicesInUse", self._plugin, text))
        for choices in choices_by_plan:
            self._give(choices)
        choices_by_claim = {path: choices for (path, _), choices in zip(open_claims, choices_by_plan, strict=False)}
        new_claim = (extended, choices_by_plan[-1]) if extended is not None else None
        writes = tuple(self._writer.writes(job, task, row, choices_by_claim, new_claim))
        waits, until = self._waits(task, choices_by_plan)
        return Preparation(writes, waits, until)

    def _waits(self, task: Task, choices_by_plan: Sequence[Sequence[Choice]]) -> tuple[Reason | None, float | None]:
        """Which device of a task its driver must prepare before the task is bound, and until when it may."""
        assert task.shape.devices is not None
        for path in task.shape.devices.binding:
            claim = self._devices.claims[path]
            state = binding_of(claim)
            if state is not None and state.device:
                text = f"device {state.device} of ResourceClaim {claim.metadata.name} is not {state.condition} yet"
                until = state.since + self._timeout if state.since else None
                return Reason("WaitsForDevice", self._plugin, text), until
        for choices in choices_by_plan:
            for choice in choices:
                device = self._table.devices[choice.device]
                if device.binding_conditions:
                    text = f"device {device.name} of pod {task.key} is not {device.binding_conditions[0]} yet"
                    return Reason("WaitsForDevice", self._plugin, text), self._now + self._timeout
        return None, None

    def _lost(self, path: str) -> Reason | None:
        """Why the devices of a claim will not be ready: their driver says so, or it took too long."""
        claim = self._devices.claims[path]
        state = binding_of(claim)
        if state is None or not state.device:
            return None
        named = f"device {state.device} of ResourceClaim {claim.metadata.name}"
        if state.failed:
            return Reason("DeviceBindingFailed", self._plugin, f"could not have {named}: {state.condition}")
        if state.since and self._now >= state.since + self._timeout:
            text = f"could not have {named}: it was not {state.condition} in {self._timeout:.0f} seconds"
            return Reason("DeviceBindingTimedOut", self._plugin, text)
        return None

    def _given_back(self, job: Job, ask: DeviceAsk) -> Preparation | None:
        """What takes back devices that will not be ready, where only waiting pods of the job use them."""
        waiting = [task for task in job.tasks if task.status is Status.PENDING]
        uids = {task.uid for task in waiting}
        names = {task.key.partition("/")[2] for task in waiting}
        undo: list[Prepare] = []
        lost: Reason | None = None
        for path in ask.binding:
            claim = self._devices.claims[path]
            why = self._lost(path)
            is_own = all(
                consumer.uid in uids if consumer.uid else consumer.name in names
                for consumer in claim.status.reserved_for
            )
            if why is not None and is_own:
                marks: Raw = {"metadata": {"annotations": {FAILED_AT: format_time(self._now)}}}
                undo += [deallocation(path, claim), Prepare(claim_key(path), marks)]
                lost = why
        if undo:
            return Preparation(failed=lost, undo=tuple(undo))
        return None

    def _plan_of(self, ask: DeviceAsk, claim: ResourceClaim) -> PlannedClaim:
        for claim_ask in ask.claims:
            if claim_ask.spec is claim.spec.devices or claim_ask.spec == claim.spec.devices:
                return claim_ask.plan
        raise AssertionError("a claim that is open is among those that the pod asks for")

    def _deal(self, shape: Shape, row: int, plans: list[PlannedClaim]) -> list[list[Choice]] | None:
        assert self._dealt is not None
        assert shape.devices is not None
        if not plans:
            return []
        choices_by_plan = None
        if not shape.devices.matched:
            choices_by_plan = self._dealt_by_count(row, plans)
        elif self._shape_on[row] == _SEVERAL:
            if row not in self._dealt_together:
                every = self._together(row, (), self._dealt) or ()
                numbers = (number for number, _ in self._standing(row))
                self._dealt_together[row] = list(zip(numbers, every, strict=False))
            dealt_to_shape = next((dealt for dealt in self._dealt_together[row] if dealt[0] == shape.number), None)
            if dealt_to_shape is not None:
                self._dealt_together[row].remove(dealt_to_shape)
                choices_by_plan = dealt_to_shape[1]
        if choices_by_plan is not None:
            return choices_by_plan
        return self._allocate(row, plans, self._dealt)

    def _later(self, row: int, plans: list[PlannedClaim]) -> list[list[Choice]] | None:
        """Devices for claims once all that are being released are free: as the search counted with them."""
        assert self._dealt is not None
        if not self._released.any() and not self._table.leaving.any():
            return None
        state = DeviceState(self._table)
        state.taken = np.where((self._released > 0) | (self._table.leaving > 0), 0, self._dealt.taken)
        state.amounts = self._dealt.amounts - self._released_amounts
        return self._allocate(row, plans, state)

    def _give(self, choices: Sequence[Choice]) -> None:
        assert self._dealt is not None
        for choice in choices:
            for name, amount in choice.consumed.items():
                self._dealt.amounts[self._dealt.slots[choice.device, name]] += amount
            if not choice.consumed and not choice.request.admin:
                self._dealt.taken[choice.device] = 1

    def _dealt_by_count(self, row: int, plans: list[PlannedClaim]) -> list[list[Choice]] | None:
        """The first devices that leave enough in every set for all that was counted on it in this cycle."""
        assert self._dealt is not None
        taken_devices = self._dealt.taken
        kinds_of = self._table.kind
        new_devices: set[int] = set()
        slack = dict[tuple[str, int], int]()
        result: list[list[Choice]] = []
        for plan in plans:
            choices: list[Choice] = []
            for (request,) in plan.requests:
                inner = self._inner(request)
                missing = request.count
                for view in self._reach.views(row):
                    for device in view.devices if not (view.incomplete or view.invalid) else ():
                        if not missing:
                            break
                        if taken_devices[device] or device in new_devices:
                            continue
                        kind = int(kinds_of[device])
                        if request.answers[kind] != 1:
                            continue
                        around = [name for name, kinds in inner if kinds[kind]] if inner else ()
                        if around and any(self._slack_of(name, row) - slack.get((name, row), 0) < 1 for name in around):
                            continue
                        for name in around:
                            slack[name, row] = slack.get((name, row), 0) + 1
                        new_devices.add(device)
                        choices.append(Choice(request, device))
                        missing -= 1
                if missing:
                    return None
            result.append(choices)
        for (name, _), number in slack.items():
            self._slack[name, row] = self._slack_of(name, row) - number
        return result

    def _inner(self, request: PlannedRequest) -> list[tuple[str, bytes]]:
        """The sets that are counted and hold some, but not all, of the devices that a request may have."""
        inner_sets = self._inners.get(request.answers)
        if inner_sets is None:
            kinds_wanted = [i for i, answer in enumerate(request.answers) if answer == 1]
            columns = self._devices.columns.items()
            inner_sets = [(name, kinds) for name, kinds in columns if not all(kinds[i] for i in kinds_wanted)]
            self._inners[request.answers] = inner_sets
        return inner_sets

    def _slack_of(self, name: str, row: int) -> int:
        """How many devices of a set are not counted on yet."""
        slack = self._slack.get((name, row))
        if slack is None:
            slack = int(self._view.ledger.idle[self._view.axis.index[name], row])
        return slack


def _domain(shape: Shape) -> str:
    if shape.devices is not None:
        return shape.devices.domain
    return ""


def _alone(claim: ResourceClaim, task: Task) -> bool:
    """Whether a claim is reserved for this task alone."""
    if len(claim.status.reserved_for) != 1:
        return False
    (consumer,) = claim.status.reserved_for
    if consumer.uid and task.uid:
        return consumer.uid == task.uid
    return consumer.name == task.key.partition("/")[2]


def _unbound(plan: PlannedClaim) -> PlannedClaim:
    return PlannedClaim(plan.requests, (), plan.faults)


def _shown(options: Sequence[PlannedRequest]) -> str:
    """What a request asks for, as people say it."""
    texts = dict.fromkeys(
        f"all devices of class {option.device_class}"
        if option.all
        else f"{count(option.count, 'device')} of class {option.device_class}"
        for option in options
    )
    return " or ".join(texts)
