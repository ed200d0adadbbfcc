"""P10: what `propose` recommends against the exact optimum, gang by gang on a cluster that is half in use.

Each gang is decided alone, so that every one of them meets the same cluster; gangs that fit into a rack are left out,
because nothing can be done better or worse for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.measure import at_least, at_most
from tierwise.bench.optimum import fewest_touched, touched
from tierwise.bench.worlds import CLASSES, BenchCluster, GangSpec, cluster, jobs, snapshot
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle

__all__ = ["proposing"]

_WHOLE_NODE = CLASSES[7]
_GROUPS = (0, 0, 4, 8)
Counts = tuple[int, ...]


def proposing(**arguments: object) -> Profile:
    """The default profile with `propose`."""
    first, second = DEFAULT.tiers
    return replace(DEFAULT, tiers=(first, (*second, PluginChoice("propose", arguments))))


@row("P10a", at_most(1.10, 1.0))
def _p10a(lab: Lab) -> Measured:
    """Racks touched, in sum over the gangs."""
    exact, plain, best = (sum(found[i][-1] for found in _measured(lab)) for i in range(3))
    what = f"racks touched ÷ exact optimum with propose, {_gangs(lab)} ({plain / best:.3g} without)"
    return what, exact / best


@row("P10b", at_least(0.8, 1.0))
def _p10b(lab: Lab) -> Measured:
    """Gangs that touch as few domains as possible on every tier."""
    found = _measured(lab)
    exact, plain = (float(np.mean([counts[i] == counts[2] for counts in found])) for i in range(2))
    what = f"share of gangs exactly optimal on every tier with propose, {_gangs(lab)} ({plain:.3g} without)"
    return what, exact


def _gangs(lab: Lab) -> str:
    return f"{len(_measured(lab))} gangs at {lab.size.small:,} nodes"


def _measured(lab: Lab) -> list[tuple[Counts, Counts, Counts]]:
    """Of each gang the touched domains, tier by tier: with propose, without it, and the fewest that are possible."""
    return lab.once("proposals", lambda: list(_measure(lab)))


def _measure(lab: Lab) -> Iterator[tuple[Counts, Counts, Counts]]:
    where = cluster(lab.size.small, load=0.5)
    profiles = (proposing(), DEFAULT)
    for gang in _draw(lab, where):
        snap = snapshot(where, jobs([gang]))
        own = _room(snap, gang)
        holding = _holding(snap, own, gang.pods // (gang.group or 1))
        if holding is None or not snap.topology.children[int(holding[0])]:
            continue
        with_it, without = (touched(snap.topology, cycle(snap, p).decisions[-1]) for p in profiles)
        yield with_it, without, fewest_touched(snap.topology, own, gang.pods // (gang.group or 1), holding)


def _draw(lab: Lab, where: BenchCluster) -> Iterator[GangSpec]:
    """Sizes from 2 pods to a fifth of the nodes, as many small as large ones; half of the gangs in groups."""
    rng = np.random.default_rng(1)
    for _ in range(lab.size.proposals):
        pods = int(np.exp(rng.uniform(np.log(2), np.log(lab.size.small // 5))))
        group = int(rng.choice(_GROUPS))
        yield GangSpec(_WHOLE_NODE, pods, where.top, group if pods >= 2 * group else 0)


def _room(snap: Snapshot, gang: GangSpec) -> Ints:
    """How many pods or groups every rack holds."""
    room = open_cycle(snap, DEFAULT).fit_counts.of(gang.shape).domains(Pool.IDLE)
    return snap.topology.own(room) // (gang.group or 1)


def _holding(snap: Snapshot, own: Ints, count: int) -> Ints | None:
    """The domains of the tightest tier that hold a gang."""
    held = snap.topology.roll_up(own)
    groups = (group[held[group] >= count] for group in snap.topology.at_tier.values())
    return next((group for group in groups if len(group)), None)
