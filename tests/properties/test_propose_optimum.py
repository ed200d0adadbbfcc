"""What `propose` recommends against the exact optimum, gang by gang on a cluster that is half in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tests.support.depth import size
from tests.support.fewest_touched import fewest_touched, touched
from tests.support.strategies import proposing

from tierwise.config.profile import DEFAULT
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle
from tierwise_lab.bench.worlds import CLASSES, BenchCluster, GangSpec, cluster, jobs, snapshot

WHOLE_NODE = CLASSES[7]
GROUPS = (0, 0, 4, 8)
NODES = size(2_000, 10_000)
GANGS = size(20, 60)


def test_the_optimum_is_found_two_ways() -> None:
    """A gang that no rack holds touches as few domains on every tier as the bottom-up tables say is possible, where
    the ordinary search touches more; each gang is decided alone, so that all of them meet the same cluster.
    """
    where = cluster(NODES, load=0.5)
    measured, plain = [], []
    for gang in _draw(where):
        snap = snapshot(where, jobs([gang]))
        own, count = _room(snap, gang), gang.pods // (gang.group or 1)
        holding = _holding(snap, own, count)
        if holding is None or not snap.topology.children[int(holding[0])]:
            continue  # it fits into a rack: nothing can be done better or worse
        expected = fewest_touched(snap.topology, own, count, holding)
        measured.append((expected, touched(snap.topology, cycle(snap, proposing()).decisions[-1])))
        plain.append((expected, touched(snap.topology, cycle(snap, DEFAULT).decisions[-1])))

    assert [expected for expected, _ in measured] == [actual for _, actual in measured]
    assert any(expected < actual for expected, actual in plain)


def _draw(where: BenchCluster) -> Iterator[GangSpec]:
    """Sizes from 2 pods to a fifth of the nodes, as many small as large ones; half of the gangs in groups."""
    rng = np.random.default_rng(1)
    for _ in range(GANGS):
        pods = int(np.exp(rng.uniform(np.log(2), np.log(NODES // 5))))
        group = int(rng.choice(GROUPS))
        yield GangSpec(WHOLE_NODE, pods, where.top, group if pods >= 2 * group else 0)


def _room(snap: Snapshot, gang: GangSpec) -> Ints:
    """How many pods or groups every rack holds."""
    room = open_cycle(snap, DEFAULT).fit_counts.of(gang.shape).domains(Pool.IDLE)
    return snap.topology.own(room) // (gang.group or 1)


def _holding(snap: Snapshot, own: Ints, count: int) -> Ints | None:
    """The domains of the tightest tier that hold a gang."""
    held = snap.topology.roll_up(own)
    groups = (group[held[group] >= count] for group in snap.topology.at_tier.values())
    return next((group for group in groups if len(group)), None)
