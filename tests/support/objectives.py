"""The ends of the conflict between the objectives of `propose`, in numbers: `python -m tests.support.objectives`.

Two workloads on the same clusters: one that fits (how many racks a gang touches, and which gangs still fit after it),
and one that asks for more than there is (how much of it is placed). docs/plugins/propose.md shows what came out.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec
import numpy as np
from tests.support.fewest_touched import touched
from tests.support.strategies import proposing

from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.arrays import Ints
from tierwise.model.slots import count_slots
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle
from tierwise_lab.bench.worlds import GPU, BenchCluster, GangSpec, cluster, jobs, mix, snapshot

__all__ = ["PROFILES", "ends"]

PROFILES: dict[str, Profile] = {
    "none": DEFAULT,
    "fewest-domains": proposing(),
    "pack": proposing(objective="pack"),
    "least-damage": proposing(objective="least-damage"),
    "fewest-domains, sortBySize": proposing(sortBySize=True),
    "least-damage, sortBySize": proposing(objective="least-damage", sortBySize=True),
}
_SIZES = (8, 64, 512)
_LOAD = 0.4


class End(msgspec.Struct, frozen=True):
    """One profile: racks per gang and slots left (racks for 8 and 64, leaves for 512) where all fits; GPUs placed."""

    racks: float
    left: tuple[int, ...]
    placed: float  # of the GPUs that were free, where more are asked for


def ends(nodes: int, seeds: Sequence[int]) -> dict[str, End]:
    """Every profile on the same clusters."""
    return {name: _end(profile, nodes, seeds) for name, profile in PROFILES.items()}


def _end(profile: Profile, nodes: int, seeds: Sequence[int]) -> End:
    racks, gangs, given, free = 0, 0, 0, 0
    left = np.zeros(len(_SIZES), dtype=np.int64)
    for seed in seeds:
        where = cluster(nodes, load=_LOAD, seed=seed)
        snap, report = _run(where, profile, 0.4, seed)
        tops = [d for d in report.decisions[1:] if sum(len(p.rows) for p in d.placed) > 1]
        racks += sum(max(1, touched(snap.topology, d)[-1]) for d in tops)
        gangs += len(tops)
        left += _slots(snap, _idle(snap) - _used(snap, report))
        snap, report = _run(where, profile, 1.15, seed)
        given += int(_used(snap, report).sum())
        free += int(_idle(snap).sum())
    return End(racks / gangs, tuple(left.tolist()), given / free)


def _run(where: BenchCluster, profile: Profile, demand: float, seed: int) -> tuple[Snapshot, CycleReport]:
    """Gangs of the mix that ask for so large a part of what is free."""
    limit = demand * float(_idle(snapshot(where, jobs([]))).sum())
    chosen: list[GangSpec] = []
    for gang in mix(len(where.nodes), top=where.top, seed=seed):
        limit -= gang.pods * int(gang.shape.request[-1])
        if limit < 0:
            break
        chosen.append(gang)
    snap = snapshot(where, jobs(chosen))
    return snap, cycle(snap, profile)


def _idle(snap: Snapshot) -> Ints:
    idle: Ints = open_cycle(snap, DEFAULT).ledger.idle[snap.axis.index[GPU]]
    return idle


def _used(snap: Snapshot, report: CycleReport) -> Ints:
    """GPUs that a cycle gave away, by row."""
    used = np.zeros(len(snap.nodes), dtype=np.int64)
    for decision in report.decisions:
        for placed in decision.placed:
            np.add.at(used, placed.rows, placed.tasks[0].shape.request[snap.axis.index[GPU]])
    return used


def _slots(snap: Snapshot, idle: Ints) -> Ints:
    """Gangs that still fit: of 8 and 64 GPUs in a rack, of 512 in a leaf."""
    total = snap.nodes.allocatable[snap.axis.index[GPU]]
    found = {(s.tier, s.size): s.gangs for s in count_slots(snap.topology, idle, total, _SIZES)}
    return np.array([found[1, 8], found[1, 64], found[2, 512]], dtype=np.int64)


def _lines(found: dict[str, End]) -> list[str]:
    titles = ("racks/gang", "8 in a rack", "64 in a rack", "512 in a leaf", "GPUs placed")
    lines = ["objective".ljust(28) + "".join(title.rjust(15) for title in titles)]
    for name, end in found.items():
        cells = (f"{end.racks:.3f}", *(f"{number:,}" for number in end.left), f"{end.placed:.3f}")
        lines.append(name.ljust(28) + "".join(cell.rjust(15) for cell in cells))
    return lines


if __name__ == "__main__":
    click.echo("\n".join(_lines(ends(2_000, range(1, 6)))))
