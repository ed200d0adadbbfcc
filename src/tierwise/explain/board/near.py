"""Where there is nearly room: how many pods of a gang each domain takes now, and how few pods would have to leave.

Counted by the room that the search itself counts with, filters of the profile included, and nothing is tried: a
domain that counts as enough may still be refused by what looks at several pods together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from tierwise.actions.placement.bounds import Room
from tierwise.api.codec import Raw
from tierwise.api.plurals import count
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints, distinct
from tierwise.model.job import Job, Shape
from tierwise.model.running import running_table
from tierwise.model.topology import Topology

__all__ = ["Need", "near", "victims"]

_NAMED: Final = 6
"""Domains that are told, the nearest first."""

_LOOKED: Final = 48
"""Domains in which victims are counted, those with the fewest pods missing."""


class Need(msgspec.Struct, frozen=True):
    """So many pods of a shape."""

    shape: Shape
    pods: int


def _fitting(room: Room, needs: Sequence[Need], topology: Topology) -> Ints:
    """How many of the pods each domain takes, each shape by itself: never too few."""
    sums = np.zeros(len(topology.name), dtype=np.int64)
    for need in needs:
        sums += np.minimum(need.pods, topology.totals(room.rows(need.shape)))
    return sums


def _per_node(cycle: Cycle, needs: Sequence[Need]) -> int:
    """How many pods of the shape with most pods the largest node takes when it is empty; at least one."""
    shape = max(needs, key=lambda need: need.pods).shape
    empty = shape.max_tasks(cycle.nodes.allocatable[shape.asked])
    return max(1, int(empty.max(initial=1)))


def near(cycle: Cycle, topology: Topology, needs: Sequence[Need], within: Ints) -> list[Raw]:
    """The domains of some that take the most of the pods, where none takes all of them: how many, and what is short."""
    pods_needed = sum(need.pods for need in needs)
    if not pods_needed or not len(within):
        return []
    fits = _fitting(Room(cycle, Pool.IDLE), needs, topology)[within]
    nearest = within[np.argsort(-fits, kind="stable")[:_NAMED]]
    per_node = _per_node(cycle, needs)
    candidates = dict(zip(within.tolist(), fits.tolist(), strict=True))
    return [_told(topology, d, candidates[d], pods_needed, per_node) for d in nearest.tolist() if candidates[d]]


def _told(topology: Topology, domain: int, fits: int, pods_needed: int, per_node: int) -> Raw:
    short = pods_needed - fits
    nodes = -(-short // per_node)
    text = f"{fits} of {pods_needed} in {topology.name[domain]}"
    if short > 0:
        text += f", {count(nodes, 'node')} short"
    return {
        "domain": domain,
        "name": topology.name[domain],
        "fits": fits,
        "asked": pods_needed,
        "nodes": nodes,
        "text": text,
    }


def victims(cycle: Cycle, topology: Topology, job: Job, needs: Sequence[Need], within: Ints) -> list[Raw]:
    """Where the fewest pods of lower priority would have to go for a gang, by counting each node by itself.

    Of a gang of one shape: for others no count by nodes says enough.
    """
    if len(needs) != 1 or not len(within):
        return []
    (need,) = needs
    table = running_table(cycle.snapshot)
    lower = _lower(cycle, table.job, job)
    room_now = Room(cycle, Pool.IDLE).rows(need.shape)
    room_then = Room(cycle, Pool.IDLE, freed=table.freed(np.flatnonzero(lower))).rows(need.shape)
    gain = np.maximum(room_then - room_now, 0)
    lower_pods = np.bincount(table.row[lower], minlength=len(room_now))
    totals = topology.totals(room_now)[within]
    possible = topology.totals(room_now + gain)[within] >= need.pods
    order = within[possible][np.argsort(-totals[possible], kind="stable")[:_LOOKED]]
    candidates: list[tuple[int, int, Ints]] = []
    for domain in order.tolist():
        rows = _chosen(room_now, gain, lower_pods, topology.span(domain), need.pods)
        candidates.append((int(lower_pods[rows].sum()), domain, rows))
    candidates.sort(key=lambda entry: entry[:2])
    entries: list[Raw] = []
    for pods, domain, rows in candidates[:_NAMED]:
        jobs = len(distinct(table.job[np.flatnonzero(lower & np.isin(table.row, rows))]))
        name = topology.name[domain]
        text = f"{count(pods, 'pod')} of {count(jobs, 'job')} of lower priority in {name}"
        entries.append({"domain": domain, "name": name, "pods": pods, "jobs": jobs, "text": text})
    return entries


def _lower(cycle: Cycle, owner: Ints, job: Job) -> Bools:
    """Which running tasks belong to jobs of lower priority that may be evicted."""
    jobs = cycle.snapshot.jobs
    may_go = np.fromiter(
        (victim_job.priority < job.priority and not victim_job.not_preemptable for victim_job in jobs),
        np.bool_,
        len(jobs),
    )
    lower: Bools = may_go[owner]
    return lower


def _chosen(room_now: Ints, gain: Ints, lower_pods: Ints, span: slice, pods_needed: int) -> Ints:
    """The rows of a domain on which pods go: those that gain most for each pod that goes, until it is enough."""
    short = pods_needed - int(room_now[span].sum())
    rows = np.flatnonzero(gain[span]) + span.start
    order = rows[np.argsort(-(gain[rows] / np.maximum(lower_pods[rows], 1)), kind="stable")]
    reach = np.searchsorted(np.cumsum(gain[order]), short)
    rows_to_clear: Ints = order[: int(reach) + 1] if short > 0 else order[:0]
    return rows_to_clear
