"""The page of `top`: what is in use, what is free for gangs of which size, and who holds how much."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.reservation import ReservationRecord
from tierwise.explain.free_slots import one_slot, slots_now
from tierwise.explain.naming import ObjectNames, tier_label
from tierwise.explain.page import Page, Text, count, heading, section, wrapped
from tierwise.explain.tables import Cell, TableColumn, meter, table
from tierwise.explain.usage import held, scarce, short
from tierwise.model.job import Job, Status
from tierwise.model.slots import SIZES, TierSlots
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, ROOT_NAME

__all__ = ["top_lines", "top_wire"]

_JOBS = 12
_BAR = 12
_WIDE = 70  # below it, a column that people can do without is left out


class _Share(msgspec.Struct, frozen=True):
    """What one job holds of the scarce resource, and how its pods are."""

    job: Job
    amount: int
    running: int
    waiting: int
    domain: int  # the innermost that holds its pods; -1 where none runs


def _shares(snapshot: Snapshot, resource: str) -> list[_Share]:
    """Every gang, the largest first, then those that wait."""
    index = snapshot.axis.index.get(resource)
    shares = []
    for job in snapshot.jobs:
        if not job.declared:
            continue
        running_tasks = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
        amount_held = sum(int(task.shape.request[index]) for task in running_tasks) if index is not None else 0
        rows = snapshot.nodes.rows[np.array([task.node for task in running_tasks], dtype=np.int64)]
        domain = snapshot.topology.meet_rows(rows) if running_tasks else -1
        waiting = sum(task.status in (Status.PENDING, Status.GATED) for task in job.tasks)
        shares.append(_Share(job, amount_held, len(running_tasks), waiting, domain))
    return sorted(shares, key=lambda share: (-share.amount, -share.waiting, share.job.key))


def top_lines(page: Page, snapshot: Snapshot, gangs: Sequence[int] = SIZES, idle: Sequence[Raw] = ()) -> list[Text]:
    """Everything that `top` tells people; `idle` is what is kept idle, as in JSON."""
    resource = scarce(snapshot)
    index = snapshot.axis.index.get(resource)
    total = int(snapshot.nodes.allocatable[index].sum()) if index is not None else 0
    used = int(held(snapshot, resource).sum())
    shares = _shares(snapshot, resource)
    share = used / total if total else 0.0
    headline = Text.assemble(
        meter(page.glyphs, _BAR, share),
        (f" {short(resource, used)} of {short(resource, total)} {resource}", "bold"),
        f" in use on {count(len(snapshot.nodes), 'node')}",
    )
    lines = [
        *wrapped(headline, page.width),
        *heading("Free slots by tier, and how many gangs of a size would fit"),
        *_tiers(page, snapshot, resource, gangs),
    ]
    lines += section("Gangs", _gangs(page, snapshot, resource, shares))
    lines += section("Reservations", _reservations(page, snapshot, _reserved(snapshot)))
    rows: list[list[Cell]] = [
        [str(account["namespace"]), str(account["queue"]), f"{account['nodes']:g}"] for account in idle
    ]
    return lines + section("Kept idle for jobs", table(page, ("namespace:16", "queue:8", "nodes>"), rows))


def _reserved(snapshot: Snapshot) -> list[tuple[Job, ReservationRecord]]:
    """The gangs that wait with a reservation, by when it begins; those without a known time come last."""
    reserved_jobs = [
        (job, job.reserved)
        for job in snapshot.jobs
        if job.reserved is not None and any(task.status is Status.PENDING for task in job.tasks)
    ]
    return sorted(reserved_jobs, key=lambda entry: (entry[1].start, entry[0].key))


def _reservations(page: Page, snapshot: Snapshot, reserved: Sequence[tuple[Job, ReservationRecord]]) -> list[Text]:
    names = ObjectNames(snapshot.jobs)
    columns = ("podGroup:16", "hyperNode:8", "from:20")
    rows: list[list[Cell]] = [
        [Text(names.of(job), style=names.style(job)), _named(record.domain), _from(record) or "not known"]
        for job, record in reserved
    ]
    return table(page, columns, rows)


def _named(domain: str) -> str:
    return "several" if domain == ROOT_NAME else domain


def _from(record: ReservationRecord) -> str | None:
    if record.start < inf:
        return format_time(record.start)
    return None


def _tiers(page: Page, snapshot: Snapshot, resource: str, gangs: Sequence[int]) -> list[Text]:
    """One row to a tier: free slots, and how much of them gangs of each size could use."""
    slots_by_tier: dict[int, list[TierSlots]] = {}
    for entry in slots_now(snapshot, (1, *(gang for gang in gangs if gang > 1))):
        slots_by_tier.setdefault(entry.tier, []).append(entry)
    counts = ["hyperNodes>"] if page.width >= _WIDE else []
    columns = ["tier:8", *counts, "free>", *(f"of {gang}>" for gang in gangs if gang > 1)]
    rows: list[list[Cell]] = []
    for tier, entries in slots_by_tier.items():
        domains = snapshot.topology.at_tier[tier]
        top = bool((domains == ROOT).all())
        title = "all" if top else tier_label(snapshot.topology, tier)
        number = ["" if top else str(len(domains))] if counts else []
        free = short(resource, _units(resource, entries[0].free))
        rows.append([title, *number, free, *(_usable(entry) for entry in entries[1:])])
    slot = one_slot(snapshot)
    note = Text(
        f"a slot is {short(*slot)} {slot[0]}; in brackets the share that is too scattered for them", style="dim"
    )
    return [*table(page, columns, rows), *wrapped(note, page.width, first="  ", rest="  ")]


def _units(resource: str, slots: int) -> int:
    return slots * (1000 if resource == "cpu" else 1)


def _usable(entry: TierSlots) -> Text:
    """How many gangs fit, and what share of the free slots is of no use to them."""
    if not entry.usable:
        return Text("0", style="red" if entry.free else "")
    text = Text(str(entry.gangs))
    if entry.fragmentation:
        text.append(f" ({entry.fragmentation:.0%})" if entry.fragmentation >= 0.01 else " (<1%)", style="yellow")
    return text


def _gangs(page: Page, snapshot: Snapshot, resource: str, shares: Sequence[_Share]) -> list[Text]:
    names = ObjectNames(snapshot.jobs)
    amounts = TableColumn(resource.rpartition("/")[2], right=True)
    columns = ("podGroup:16", "queue:6", amounts, "running>", "waiting>", "hyperNode:8", "tier>")
    rows: list[list[Cell]] = [
        [
            Text(names.of(share.job), style=names.style(share.job)),
            share.job.queue,
            short(resource, share.amount),
            str(share.running),
            Text(str(share.waiting), style="yellow" if share.waiting else ""),
            _where(snapshot, share.domain),
            str(int(snapshot.topology.tier[share.domain])) if share.domain > ROOT else "",
        ]
        for share in shares
    ]
    return table(page, columns, rows, most=_JOBS, more="more gang")


def _where(snapshot: Snapshot, domain: int) -> str:
    if domain > ROOT:
        return snapshot.topology.name[domain]
    return "several" if domain == ROOT else ""


def top_wire(snapshot: Snapshot, gangs: Sequence[int] = SIZES, idle: Sequence[Raw] = ()) -> Raw:
    """What `top` tells programs."""
    resource = scarce(snapshot)
    index = snapshot.axis.index.get(resource)
    total = int(snapshot.nodes.allocatable[index].sum()) if index is not None else 0
    names = snapshot.topology.name
    tiers = snapshot.topology.tier
    return {
        "resource": resource,
        "nodes": len(snapshot.nodes),
        "total": total,
        "used": int(held(snapshot, resource).sum()),
        "slots": [
            {"tier": s.tier, "gang": s.size, "free": s.free, "usable": s.usable, "fragmentation": s.fragmentation}
            for s in slots_now(snapshot, gangs)
        ],
        "podGroups": {
            share.job.key: {
                "queue": share.job.queue,
                "used": share.amount,
                "running": share.running,
                "waiting": share.waiting,
                "hyperNode": names[share.domain] if share.domain >= 0 else "",
                "tier": int(tiers[share.domain]) if share.domain >= 0 else None,
            }
            for share in _shares(snapshot, resource)
        },
        **_reservations_wire(snapshot),
        **({"idleRoom": [*idle]} if idle else {}),
    }


def _reservations_wire(snapshot: Snapshot) -> Raw:
    reservations = {job.key: {"hyperNode": record.domain, "from": _from(record)} for job, record in _reserved(snapshot)}
    return {"reservations": reservations} if reservations else {}
