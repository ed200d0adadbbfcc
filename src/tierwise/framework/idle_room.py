"""The account of room that is kept idle for jobs: node-hours of each namespace and queue, and of each queue.

Everything that keeps nodes idle for a job draws from it: reservations and their aging, declined places, spares, places
that predecessors have left, and nominations. Who would keep more asks `allows` first and, where that is false, keeps
nothing and tells the job so (`refusal`). A nomination is never refused, and charged like all others.

    share of a gang    the setting `idleRoom`, or by default the nodes that it needs for as long as it runs
    oldest gang        the one that has waited longest of its namespace and queue may use as much again, and nobody
                       again until all is paid back: so large gangs start in the end, and their queue pays
    queue              all namespaces of a queue together have three such shares, of the largest gang that has kept
                       any, and a fourth for the gang of the queue that has waited longest
    paid back          one share a day

Who may make namespaces has as many accounts as namespaces; the account of the queue ends that.

A node of which a part is kept counts by the resource of which the largest part is kept. What counts is what is idle
now: a reserved node on which another job still runs is not idle. What binds jobs of its own namespace alone takes
nothing from others, and does not count. How long a gang runs is what other namespaces may rely on: its deadline or past
runs, else an hour; a day at most.

The core keeps nothing: `IdleRoomState` goes from the report of one cycle to the snapshot of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

import numpy as np
from msgspec.structs import replace

from tierwise.framework.declined import Held
from tierwise.framework.ledger import Ledger
from tierwise.framework.room_ahead import RoomAhead
from tierwise.model.arrays import EMPTY, Floats, Ints, distinct
from tierwise.model.held_places import HeldPlace
from tierwise.model.idle_room import NO_IDLE_ROOM, IdleAccount, IdleRoomState, Owner
from tierwise.model.job import ANYBODY, Job, Reason, namespace_of
from tierwise.model.snapshot import Snapshot

__all__ = ["IdleRoom"]

_DAY: Final = 86_400.0
_UNKNOWN: Final = 3600.0
"""Seconds for which a gang is taken to run where nothing is known that others may rely on."""
_LEAST: Final = 1.0
"""Node-seconds from which on anything is kept: a cycle comes a moment before or after the time that it is meant for."""
_NOTHING: Final = IdleAccount()
_EVERY: Final = ""
"""In the place of a namespace: all of a queue."""
_TOGETHER: Final = 3
"""Shares that all namespaces of a queue have together."""


class IdleRoom:
    """The accounts in one cycle."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, ahead: RoomAhead, setting: float | None) -> None:
        """`setting` is the share of every account in node-seconds; None for a gang's own need for its own run time."""
        self._snapshot, self._ledger, self._ahead, self._setting = snapshot, ledger, ahead, setting
        self._before = snapshot.turns.idle
        self._accounts = self._as_of_now() if self._before.accounts or self._before.queues else {}
        self._hours, self._queue_hours = dict(self._before.hours), dict(self._before.queue_hours)
        self._oldest: dict[Owner, Job] | None = None
        self._since: dict[Owner, float] = {}  # since when jobs wait: by namespace, with no queue, and by queue
        self._by_queue: set[int] = set()  # numbers of jobs for which nothing is kept as their queue has nothing left

    def _as_of_now(self) -> dict[Owner, IdleAccount]:
        """The accounts with what was kept since the last cycle, without those that are paid back."""
        passed = max(0.0, self._snapshot.now - self._before.at)
        accounts: dict[Owner, IdleAccount] = {}
        queues = {(_EVERY, queue): account for queue, account in self._before.queues.items()}
        for owner, account in (*self._before.accounts.items(), *queues.items()):
            spent = account.spent + (account.nodes - account.size / _DAY) * passed
            closed = account.closed if spent > account.closed / 2 else 0.0
            if spent > 0:
                accounts[owner] = replace(account, spent=spent, nodes=0.0, closed=closed)
        return accounts

    # -- who may keep something

    def allows(self, job: Job, place: Held) -> bool:
        """Whether nodes may be kept idle for a job. Once an account has nothing left, not before half is paid back."""
        if self._setting == inf:
            return True
        share = self._share(job, place)
        if not self._has_left(_owner(job), job, share):
            return False
        if not self._has_left((_EVERY, job.queue), job, share):
            self._by_queue.add(job.number)
            return False
        return True

    def allowed_places(self, places: Sequence[HeldPlace]) -> list[HeldPlace]:
        """Those that may be kept: for pods that come after others, as far as the accounts of their owners allow.

        The share of an owner is what all its places are in an hour, where no setting says it.
        """
        nodes: dict[Owner, float] = {}
        for place in places:
            for owner in _owners_of(place) if place.after else ():
                nodes[owner] = nodes.get(owner, 0.0) + self._part(place, place.request)
        spent = {owner for owner, number in nodes.items() if not self._has_left(owner, None, self._share_of(number))}
        return [place for place in places if not place.after or spent.isdisjoint(_owners_of(place))]

    def _share_of(self, nodes: float) -> float:
        return nodes * _UNKNOWN if self._setting is None else self._setting

    def refusal(self, job: Job) -> Reason:
        """Why nothing is kept for a job whose account, or that of its queue, has nothing left."""
        whose = "jobs of all namespaces" if job.number in self._by_queue else "jobs of its namespace"
        where = f" in queue {job.queue}" if job.queue else ""
        text = f"no room is kept idle for it: {whose}{where} have used up their share"
        return Reason("IdleRoomSpent", "idle-room", text)

    def _has_left(self, owner: Owner, job: Job | None, share: float) -> bool:
        """Whether an account has something left for a job with such a share; else it is closed."""
        account, limit = self._accounts.get(owner, _NOTHING), self._limit(owner, job, share)
        if limit - account.spent > _LEAST:
            return limit > account.closed
        owes = account.owes or limit > self._usual(owner, share)
        self._accounts[owner] = replace(account, closed=max(account.closed, limit), owes=owes)
        return False

    def _limit(self, owner: Owner, job: Job | None, share: float) -> float:
        """How many node-seconds an account may have spent for anything to be kept for a job with such a share."""
        usual = self._usual(owner, share)
        owes = self._accounts.get(owner, _NOTHING).owes
        return usual + self._size(owner, share) if not owes and self._is_oldest(owner, job) else usual

    def _usual(self, owner: Owner, share: float) -> float:
        """How many it may have spent for a job which is not the one that has waited longest."""
        return _TOGETHER * self._size(owner, share) if owner[0] == _EVERY else share

    def _size(self, owner: Owner, share: float) -> float:
        """The share by which an account goes: of a namespace the job's own, of a queue the largest that it knows of."""
        return max(share, self._accounts.get(owner, _NOTHING).largest) if owner[0] == _EVERY else share

    def _share(self, job: Job, place: Held) -> float:
        if self._setting is not None:
            return self._setting
        now, ends = self._snapshot.now, self._ahead.ends
        end = ends.relied_on(ends.if_started(job, now), namespace_of(job.key), ANYBODY)
        run = max(end - now, 0.0) if end < inf else _UNKNOWN
        return float(self._parts(place).sum()) * min(run, _DAY)

    def _is_oldest(self, owner: Owner, job: Job | None) -> bool:
        """Whether a gang has waited longest of all whose account this is."""
        if self._oldest is None:
            self._oldest = {}
            for waiting_job in sorted(self._snapshot.waiting, key=lambda waiting: (waiting.created, waiting.order)):
                self._oldest.setdefault(_owner(waiting_job), waiting_job)
                self._oldest.setdefault((_EVERY, waiting_job.queue), waiting_job)
        return job is not None and self._oldest.get(owner) is job

    def hour(self, job: Job, aging: float, length: float, pause: float) -> float:
        """Until when a job that has waited long may hold others back without a known moment; minus infinity: not now.

        Each queue has an hour of this `length`, and then a `pause`, in turn; in it each of its namespaces may, for as
        long, and then not for a pause, in whatever queue. The first hour begins when the first of the gangs has waited
        for `aging`; a later one when it is asked for.
        """
        now, namespace = self._snapshot.now, namespace_of(job.key)
        times = length, pause
        queue = self._begun(self._queue_hours.get(job.queue), self._waits_since((_EVERY, job.queue)) + aging, *times)
        if now >= queue + length:
            self._queue_hours[job.queue] = queue
            return -inf
        own_hour = self._begun(
            self._hours.get(namespace), max(self._waits_since((namespace, "")) + aging, queue), *times
        )
        self._hours[namespace] = own_hour
        if now >= own_hour + length:
            return -inf
        self._queue_hours[job.queue] = queue
        return min(queue, own_hour) + length

    def _begun(self, last_begin: float | None, since: float, length: float, pause: float) -> float:
        """When an hour began, or begins now. The last one began at `last_begin`, the first one at `since`."""
        now = self._snapshot.now
        if last_begin is None:
            return since + (now - since) // (length + pause) * (length + pause)
        return now if now >= last_begin + length + pause else last_begin

    def _waits_since(self, whose: Owner) -> float:
        """When the first was made of the jobs that wait, of a namespace in whatever queue, or of a queue."""
        if not self._since:
            for waiting_job in self._snapshot.waiting:
                for key in ((namespace_of(waiting_job.key), ""), (_EVERY, waiting_job.queue)):
                    self._since[key] = min(waiting_job.created, self._since.get(key, inf))
        return self._since[whose]

    # -- what is kept

    def _parts(self, places: Held, idle: Ints | None = None) -> Floats:
        """Which part of each node is held, by the resource of which the largest part is asked for; with `idle`, only of
        what is idle there, which then is taken off it.
        """
        rows, amounts = self._amounts(places)
        total = self._snapshot.nodes.allocatable[:, rows]
        parts: Floats = np.where(total > 0, amounts / np.maximum(total, 1), 0.0)
        if idle is None:
            every_part: Floats = parts.max(axis=0, initial=0.0)
            return every_part
        idle_amounts = np.minimum(amounts, np.maximum(idle[:, rows], 0))
        idle[:, rows] -= idle_amounts
        largest, every = parts.argmax(axis=0), np.arange(len(rows))
        part_by_row: Floats = idle_amounts[largest, every] / np.maximum(total[largest, every], 1)
        return part_by_row

    def _amounts(self, places: Held) -> tuple[Ints, Ints]:
        """The rows of places, ascending, and what is held on each, (resources x rows)."""
        if len(places) == 1:  # as of most gangs
            ((shape, rows, counts),) = places
            if len(rows) == 1 or (rows[1:] > rows[:-1]).all():
                return rows, shape.request[:, None] * counts
        rows = distinct(np.concatenate([place_rows for _, place_rows, _ in places])) if places else EMPTY
        amounts = np.zeros((len(self._ledger.idle), len(rows)), dtype=np.int64)
        for shape, place_rows, counts in places:
            amounts[:, np.searchsorted(rows, place_rows)] += shape.request[:, None] * counts
        return rows, amounts

    def _count_places(self, places: Sequence[HeldPlace], idle: Ints) -> Iterator[tuple[Owner, float]]:
        """Count the nodes of places, as far as they are idle; whose they are, and what the accounts go by."""
        share = _UNKNOWN if self._setting is None else self._setting
        for place in places:
            idle_amounts = np.minimum(place.request, np.maximum(idle[:, place.row], 0))
            idle[:, place.row] -= idle_amounts
            nodes = self._part(place, idle_amounts)
            for owner in _owners_of(place) if nodes > 0 else ():
                size = self._size(owner, share)
                self._count(owner, nodes, size)
                yield owner, size

    def _count(self, owner: Owner, nodes: float, size: float) -> None:
        """So many more nodes are kept for an owner; what its account goes by is so large."""
        accounts, account = self._accounts, self._accounts.get(owner, _NOTHING)
        largest = size if owner[0] == _EVERY else 0.0
        accounts[owner] = replace(account, nodes=account.nodes + nodes, largest=largest)

    def _part(self, place: HeldPlace, amounts: Ints) -> float:
        """Which part of a node these amounts are, by the resource of which a place is the largest part."""
        total = self._snapshot.nodes.allocatable[:, place.row]
        largest = int(np.where(total > 0, place.request / np.maximum(total, 1), 0.0).argmax())
        return place.count * float(amounts[largest]) / max(int(total[largest]), 1)

    def after(
        self, kept_places: Iterable[tuple[Job, Held]], places: Sequence[HeldPlace] = ()
    ) -> tuple[IdleRoomState, float]:
        """What the next cycle should know, given all that is kept now, and when the first account has nothing left.

        `places` are kept for pods that come after others.
        """
        hours, queue_hours = self._hours, self._queue_hours
        any_hours = bool(hours or queue_hours)
        if self._setting == inf:
            return (IdleRoomState(hours=hours, queue_hours=queue_hours) if any_hours else NO_IDLE_ROOM), inf
        now, idle, accounts = self._snapshot.now, self._ledger.idle.copy(), self._accounts
        sizes: dict[Owner, float] = {}
        limits: dict[Owner, float] = {}
        for job, place in kept_places:
            nodes, share = float(self._parts(place, idle).sum()), self._share(job, place)
            if nodes <= 0:
                continue
            for owner in (_owner(job), (_EVERY, job.queue)):
                limit, size = self._limit(owner, job, share), self._size(owner, share)
                spent = accounts.get(owner, _NOTHING).spent
                self._count(owner, nodes, size)
                sizes[owner] = max(sizes.get(owner, _UNKNOWN), size)
                if limit > spent:  # beyond it a nomination stays
                    limits[owner] = min(limits.get(owner, inf), limit)
        for owner, size in self._count_places(places, idle):
            sizes[owner] = max(sizes.get(owner, 0.0), size)
        runs_out = inf
        for owner, size in sizes.items():
            accounts[owner] = account = replace(accounts[owner], size=size)
            growth = account.nodes - size / _DAY
            if growth > 0 and owner in limits:
                runs_out = min(runs_out, now + (limits[owner] - account.spent) / growth)
        if not accounts and not any_hours:
            return (NO_IDLE_ROOM if self._before.accounts or self._before.queues else self._before), inf
        own_accounts = {owner: account for owner, account in accounts.items() if owner[0] != _EVERY}
        queues = {queue: account for (namespace, queue), account in accounts.items() if namespace == _EVERY}
        return IdleRoomState(now, own_accounts, hours, queues, queue_hours), runs_out


def _owner(job: Job) -> Owner:
    return namespace_of(job.key), job.queue


def _owners_of(place: HeldPlace) -> tuple[Owner, Owner]:
    """Whose accounts a place draws from: those of its namespace and of its queue."""
    return (namespace_of(place.after), place.queue), (_EVERY, place.queue)
