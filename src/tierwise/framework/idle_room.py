"""The account of room that is kept idle for jobs: node-hours of each namespace and queue.

Everything that keeps nodes idle for a job draws from it: reservations and their aging, declined places, spares and
nominations. Who would keep more asks `allows` first and, where that is false, keeps nothing and tells the job so
(`refusal`). A nomination is never refused, and charged like all others.

    share of a gang    the setting `idleRoom`, or by default the nodes that it needs for as long as it runs
    oldest gang        the one that has waited longest of its namespace and queue may use as much again, and nobody
                       again until all is paid back: so large gangs start in the end, and their queue pays
    paid back          one share a day

A node of which a part is kept counts by the resource of which the largest part is kept. What counts is what is idle
now: a reserved node on which another job still runs is not idle. What binds jobs of its own namespace alone takes
nothing from others, and does not count. How long a gang runs is what other namespaces may rely on: its deadline or past
runs, else an hour; a day at most.

The core keeps nothing: `IdleRoomState` goes from the report of one cycle to the snapshot of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

import numpy as np
from msgspec.structs import replace

from tierwise.framework.declined import Held
from tierwise.framework.ledger import Ledger
from tierwise.framework.room_ahead import RoomAhead
from tierwise.model.arrays import EMPTY, Floats, Ints, distinct
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


class IdleRoom:
    """The accounts in one cycle."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, ahead: RoomAhead, setting: float | None) -> None:
        """`setting` is the share of every account in node-seconds; None for a gang's own need for its own run time."""
        self._snapshot, self._ledger, self._ahead, self._setting = snapshot, ledger, ahead, setting
        self._before = snapshot.turns.idle
        self._accounts = self._as_of_now() if self._before.accounts else {}
        self._hours = dict(self._before.hours)
        self._oldest: dict[Owner, Job] | None = None

    def _as_of_now(self) -> dict[Owner, IdleAccount]:
        """The accounts with what was kept since the last cycle, without those that are paid back."""
        passed = max(0.0, self._snapshot.now - self._before.at)
        found: dict[Owner, IdleAccount] = {}
        for owner, account in self._before.accounts.items():
            spent = account.spent + (account.nodes - account.size / _DAY) * passed
            closed = account.closed if spent > account.closed / 2 else 0.0
            if spent > 0:
                found[owner] = replace(account, spent=spent, nodes=0.0, closed=closed)
        return found

    # -- who may keep something

    def allows(self, job: Job, held: Held) -> bool:
        """Whether nodes may be kept idle for a job. Once its account has nothing left, not before half is paid back."""
        limit = self._limit(job, held)
        if limit == inf:
            return True
        account = self._accounts.get(_owner(job), _NOTHING)
        if limit - account.spent > _LEAST:
            return limit > account.closed
        owes = account.owes or limit > self._share(job, held)
        self._accounts[_owner(job)] = replace(account, closed=max(account.closed, limit), owes=owes)
        return False

    def refusal(self, job: Job) -> Reason:
        """Why nothing is kept for a job whose account has nothing left."""
        whose = f"jobs of its namespace in queue {job.queue}" if job.queue else "jobs of its namespace"
        return Reason("IdleRoomSpent", "idle-room", f"no room is kept idle for it: {whose} have used up their share")

    def _limit(self, job: Job, held: Held) -> float:
        """How many node-seconds an account may have spent for anything to be kept for a job, which holds so much."""
        share = self._share(job, held)
        owes = self._accounts.get(_owner(job), _NOTHING).owes
        return 2 * share if not owes and self._is_oldest(job) else share

    def _share(self, job: Job, held: Held) -> float:
        if self._setting is not None:
            return self._setting
        now, ends = self._snapshot.now, self._ahead.ends
        end = ends.relied_on(ends.if_started(job, now), namespace_of(job.key), ANYBODY)
        run = max(end - now, 0.0) if end < inf else _UNKNOWN
        return float(self._parts(held).sum()) * min(run, _DAY)

    def _is_oldest(self, job: Job) -> bool:
        """Whether a gang has waited longest of all of its namespace and queue."""
        if self._oldest is None:
            self._oldest = {}
            for other in sorted(self._snapshot.waiting, key=lambda one: (one.created, one.order)):
                self._oldest.setdefault(_owner(other), other)
        return self._oldest.get(_owner(job)) is job

    def hour(self, job: Job, since: float, length: float, pause: float) -> float:
        """Until when a job that has waited long may hold others back without a known moment; minus infinity: not now.

        Each namespace has an hour of this `length`, and then a `pause`, in turn. The first one begins when the first of
        its gangs has waited long, at `since`; a later one when it is asked for.
        """
        now, namespace = self._snapshot.now, namespace_of(job.key)
        begun = self._hours.get(namespace)
        if begun is None:
            begun = since + (now - since) // (length + pause) * (length + pause)
        elif now >= begun + length + pause:
            begun = now
        self._hours[namespace] = begun
        return begun + length if now < begun + length else -inf

    # -- what is kept

    def _parts(self, held: Held, idle: Ints | None = None) -> Floats:
        """Which part of each node is held, by the resource of which the largest part is asked for; with `idle`, only of
        what is idle there, which then is taken off it.
        """
        rows = distinct(np.concatenate([own for _, own, _ in held])) if held else EMPTY
        amounts = np.zeros((len(self._ledger.idle), len(rows)), dtype=np.int64)
        for shape, own, counts in held:
            amounts[:, np.searchsorted(rows, own)] += shape.request[:, None] * counts
        total = self._snapshot.nodes.allocatable[:, rows]
        parts: Floats = np.where(total > 0, amounts / np.maximum(total, 1), 0.0)
        if idle is None:
            every_part: Floats = parts.max(axis=0, initial=0.0)
            return every_part
        taken = np.minimum(amounts, np.maximum(idle[:, rows], 0))
        idle[:, rows] -= taken
        most, every = parts.argmax(axis=0), np.arange(len(rows))
        found: Floats = taken[most, every] / np.maximum(total[most, every], 1)
        return found

    def after(self, kept: Iterable[tuple[Job, Held]]) -> tuple[IdleRoomState, float]:
        """What the next cycle should know, given all that is kept now, and when the first account has nothing left."""
        if self._setting == inf:
            return (IdleRoomState(hours=self._hours) if self._hours else NO_IDLE_ROOM), inf
        now, idle, accounts = self._snapshot.now, self._ledger.idle.copy(), self._accounts
        sizes: dict[Owner, float] = {}
        limits: dict[Owner, float] = {}
        for job, held in kept:
            nodes, owner = float(self._parts(held, idle).sum()), _owner(job)
            if nodes <= 0:
                continue
            account = accounts.get(owner, _NOTHING)
            accounts[owner] = replace(account, nodes=account.nodes + nodes)
            sizes[owner] = max(sizes.get(owner, _UNKNOWN), self._share(job, held))
            limit = self._limit(job, held)
            if limit > account.spent:  # beyond it a nomination stays
                limits[owner] = min(limits.get(owner, inf), limit)
        runs_out = inf
        for owner, size in sizes.items():
            accounts[owner] = account = replace(accounts[owner], size=size)
            growth = account.nodes - size / _DAY
            if growth > 0 and owner in limits:
                runs_out = min(runs_out, now + (limits[owner] - account.spent) / growth)
        if not accounts and not self._hours:
            return (NO_IDLE_ROOM if self._before.accounts else self._before), inf
        return IdleRoomState(now, accounts, self._hours), runs_out


def _owner(job: Job) -> Owner:
    return namespace_of(job.key), job.queue
