"""The room ahead that is followed row by row as the ledger changes is that which is found anew."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import draw
from tests.support.reservations import HOUR, MINUTE, NOW, job, running

from tierwise.api import codec
from tierwise.config.profile import DEFAULT
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.room_ahead import GivenBack, RoomAhead
from tierwise.model.job import Shape
from tierwise.port import Objects
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

TREE = draw("s0[r0[n0 n1 n2] r1[n3 n4]] s1[r2[n5 n6] r3[n7 n8 n9]]", node="gpu=8")
NODES = [f"n{i}" for i in range(10)]


def opened(pick: Random) -> Cycle:
    """A cycle over a cluster of which parts of some hosts are in use until stated times."""
    raws = list(TREE.manifests)
    for i in range(pick.randrange(3, 15)):
        ends = pick.choice((None, pick.randrange(1, 40) * 30 * MINUTE, -MINUTE))
        raws += running(f"a{i}", pick.choice(NODES), ends_in=ends, each=f"gpu={pick.choice((1, 2, 4))}")
    for i, each in enumerate((1, 3, 8)):
        raws += job(f"w{i}", 2, lasts="5h", each=f"gpu={each}", soft=True)
    return open_cycle(build(Objects.of((codec.decode(raw), raw) for raw in raws), NOW, DEFAULT), DEFAULT)


def disturb(cycle: Cycle, shape: Shape, pick: Random) -> None:
    """Tasks take room, or took it for a moment."""
    rows = np.array(sorted(pick.sample(range(len(cycle.nodes)), pick.randrange(1, 4))))
    with cycle.ledger.statement() as statement:
        cycle.ledger.place(shape, rows, np.ones(len(rows), dtype=np.int64), pool=Pool.IDLE)
        if pick.random() < 0.6:
            statement.keep()


@given(pick=st.randoms(use_true_random=False))
@examples(60)
def test_followed_room_is_that_found_anew(pick: Random) -> None:
    """Of now, of moments ahead and its mean, for every shape, also with some of it given back and in a trial."""
    cycle = opened(pick)
    shapes = [sub.pod_sets[0].shape for waiting in cycle.snapshot.waiting for sub in waiting.subs]
    followed, topology = cycle.view.ahead, cycle.topology
    by = cycle.view.ahead.planner(cycle.snapshot.waiting[0])
    for _ in range(6):
        disturb(cycle, pick.choice(shapes), pick)
        shape, open_rows = pick.choice(shapes), np.array([pick.random() < 0.8 for _ in NODES])
        rows, idle = np.array(sorted(pick.sample(range(len(NODES)), 2))), cycle.ledger.idle.copy()
        idle[:, rows] += shape.request[:, None]
        without, run = GivenBack(idle, rows), pick.uniform(1, 10 * HOUR)
        with cycle.ledger.statement():
            if pick.random() < 0.3:
                cycle.ledger.go_ahead(NOW + pick.uniform(0, 5 * HOUR))
            anew = RoomAhead(cycle.snapshot, cycle.ledger)
            room = topology.totals(shape.max_tasks(cycle.ledger.idle[shape.asked]))

            for _ in range(2):
                assert (
                    anew.mean(shape, room, open_rows, run, by).tolist()
                    == followed.mean(shape, room, open_rows, run, by).tolist()
                )
                times, leaves = anew.leaves_at(shape, without, open_rows, NOW + run, by)
                found = followed.leaves_at(shape, without, open_rows, NOW + run, by)
                assert times.tolist() == found[0].tolist()
                assert leaves.tolist() == found[1].tolist()
