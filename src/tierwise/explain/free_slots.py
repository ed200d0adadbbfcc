"""Free slots of a cluster: which gangs still fit on each tier, how domains are filled, and what the last gangs took.

Counted in the resource that people look at first. `topology show` tells all of it, `top` and the metrics what fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.explain.naming import ObjectNames, tier_label
from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.tables import Cell, TableColumn, table
from tierwise.explain.usage import held, scarce
from tierwise.model.arrays import CPU, Ints
from tierwise.model.job import Job, Status
from tierwise.model.lost_nodes import LostNodes
from tierwise.model.slots import SIZES, TierSlots, count_slots, histogram
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology

__all__ = ["free_slots", "one_slot", "slots_lines", "slots_now", "slots_wire"]

_RECENT = 3
_FILLING = ("full", "partly", "mostly free", "free")


class FreeSlots(msgspec.Struct, frozen=True):
    """Slots of one resource on every tier, and how many the youngest gangs that run have cost."""

    resource: str
    slots: tuple[TierSlots, ...]
    filling: dict[int, tuple[int, ...]]  # by tier: domains that are full, at most half free, more, wholly free
    lost: tuple[tuple[Job, tuple[TierSlots, ...]], ...]  # youngest first; slots as they would be without it


def one_slot(snapshot: Snapshot) -> tuple[str, int]:
    """The resource that makes a slot, and its amount: an accelerator, or a core where nodes have none."""
    resource = scarce(snapshot)
    return resource, _one(resource)


def slots_now(snapshot: Snapshot, sizes: Sequence[int] = SIZES) -> tuple[TierSlots, ...]:
    """The slots of every tier for gangs of these sizes."""
    return count_slots(snapshot.topology, *_units(snapshot, scarce(snapshot)), sizes)


def free_slots(snapshot: Snapshot, sizes: Sequence[int] = SIZES, *, tree: AlternateTopology | None = None) -> FreeSlots:
    """What is free in a snapshot, in domains of the tree that rows follow unless another one is named.

    Nodes that take no pods have nothing free, and nothing to begin with.
    """
    resource = scarce(snapshot)
    topology = tree.topology if tree is not None else snapshot.topology
    rows = tree.rows if tree is not None else np.arange(len(snapshot.nodes))
    idle, total = (units[rows] for units in _units(snapshot, resource))
    slots = count_slots(topology, idle, total, sizes)
    lost = []
    for job in _youngest(snapshot):
        without = np.minimum(idle + _taken(snapshot, job, resource)[rows], total)
        lost.append((job, count_slots(topology, without, total, sizes)))
    return FreeSlots(resource, slots, histogram(topology, idle, total), tuple(lost))


def _units(snapshot: Snapshot, resource: str) -> tuple[Ints, Ints]:
    """Idle and whole units of every row."""
    nodes = snapshot.nodes
    unit = _one(resource)
    index = snapshot.axis.index.get(resource)
    amounts = nodes.allocatable[index] if index is not None else np.zeros(len(nodes), dtype=np.int64)
    total = np.where(nodes.cordoned | LostNodes(nodes).down, 0, amounts // unit)
    idle = np.clip((amounts - held(snapshot, resource)) // unit, 0, total)
    return idle, total


def _one(resource: str) -> int:
    return 1000 if resource == CPU else 1


def _taken(snapshot: Snapshot, job: Job, resource: str) -> Ints:
    """Units that the running pods of a job hold, by row."""
    index = snapshot.axis.index[resource]
    running = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
    amounts = [int(task.shape.request[index]) for task in running]
    rows = snapshot.nodes.rows[np.array([task.node for task in running], dtype=np.int64)]
    amounts_held = np.bincount(rows, weights=amounts, minlength=len(snapshot.nodes))
    return amounts_held.astype(np.int64) // _one(resource)


def _youngest(snapshot: Snapshot) -> list[Job]:
    """The gangs that were created last and run."""
    gangs = [job for job in snapshot.jobs if not job.lone and any(len(sub.held) for sub in job.subs)]
    return sorted(gangs, key=lambda job: (-job.created, job.order))[:_RECENT]


def slots_lines(page: Page, snapshot: Snapshot) -> list[Text]:
    """A table with a line for each tier, and another with what the last gangs took."""
    free = free_slots(snapshot)
    if not any(slots.most for slots in free.slots):
        return []
    unit = "cpu" if free.resource == CPU else free.resource.rpartition("/")[2]
    rows: list[list[Cell]] = []
    for tier, filling in free.filling.items():
        fits = [f"{s.gangs} of {s.most}" if s.most else "-" for s in free.slots if s.tier == tier]
        rows.append([_tier(snapshot, tier), *fits, *(str(number) for number in filling)])
    sizes = dict.fromkeys(s.size for s in free.slots)
    columns: list[TableColumn | str] = ["tier", *(TableColumn(f"{size} {unit}", right=True) for size in sizes)]
    columns += [TableColumn(title, right=True) for title in _FILLING]
    lead = f"gangs of so much {unit} that fit now, of those that would if nothing ran; hyperNodes by how full they are"
    return [*_lead(page, lead), *table(page, columns, rows), *_lost_lines(page, snapshot, free)]


def _lost_lines(page: Page, snapshot: Snapshot, free: FreeSlots) -> list[Text]:
    names = ObjectNames(snapshot.jobs)
    rows: list[list[Cell]] = []
    for job, without in free.lost:
        gone = [
            (n.tier, f"{w.gangs - n.gangs}x{n.size}")
            for n, w in zip(free.slots, without, strict=True)
            if w.gangs > n.gangs
        ]
        cells = [" ".join(text for at, text in gone if at == tier) or "-" for tier in free.filling]
        pods = sum(len(sub.held) for sub in job.subs)
        rows.append([Text(names.of(job), names.style(job)), str(pods), *cells])
    columns: list[TableColumn | str] = ["podGroup:12", "pods>"]
    columns += [TableColumn(_tier(snapshot, tier), least=8, wraps=True) for tier in free.filling]
    lead = "what the gangs that were created last have cost: 2x64 is room for two gangs of 64"
    if rows:
        return [Text(""), *_lead(page, lead), *table(page, columns, rows)]
    return []


def _lead(page: Page, text: str) -> list[Text]:
    return wrapped(Text(text, style="dim"), page.width, first="  ", rest="  ")


def _tier(snapshot: Snapshot, tier: int) -> str:
    if tier == snapshot.topology.tier[ROOT]:
        return "cluster"
    return tier_label(snapshot.topology, tier)


def slots_wire(snapshot: Snapshot, tree: AlternateTopology | None = None) -> Raw:
    """Free slots by tier and gang size as JSON, and what the last gangs took."""
    free = free_slots(snapshot, tree=tree)
    topology = tree.topology if tree is not None else snapshot.topology
    lost: list[Raw] = [
        {"podGroup": job.key, "tier": n.tier, "size": n.size, "gangs": w.gangs - n.gangs}
        for job, without in free.lost
        for n, w in zip(free.slots, without, strict=True)
        if w.gangs > n.gangs
    ]
    return {
        "resource": free.resource,
        "tiers": [
            {
                "tier": s.tier,
                "size": s.size,
                "gangs": s.gangs,
                "most": s.most,
                "free": s.free,
                "fragmentation": round(s.fragmentation, 6),
                "roomiest": [[topology.name[d], gangs] for d, gangs in s.roomiest],
            }
            for s in free.slots
        ],
        "filling": {str(tier): list(numbers) for tier, numbers in free.filling.items()},
        "lost": lost,
    }
