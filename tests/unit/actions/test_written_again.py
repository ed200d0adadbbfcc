"""What was found and taken back is on the ledger once more as a whole, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.actions.placement.problem import NoPlace, Placement, found_on, written
from tierwise.config.profile import DEFAULT
from tierwise.framework.ledger import Pool
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build


@pytest.mark.parametrize(("rows", "fits"), [(([0], [1]), True), (([0], [0]), False), (([0], [1, 1]), False)])
def test_all_of_a_place_or_nothing(rows: tuple[list[int], list[int]], fits: bool) -> None:
    """Two placements on nodes of one cpu each: where the second has no room, the first is not there either."""
    snapshot = build(objects_of(draw("r[n0 n1]", node="cpu=1"), gang("g", 4)), 0.0, DEFAULT)
    cycle = open_cycle(snapshot, DEFAULT)
    (job,) = snapshot.jobs
    sub = job.subs[0]
    before = cycle.ledger.idle.copy()
    found = found_on(cycle, [Placement(sub, sub.pod_sets[0], np.array(some), Pool.IDLE) for some in rows])

    answer = written(cycle, job, found)

    assert (answer is found, answer is NoPlace.BOUNDED) == (fits, not fits)
    assert int(cycle.ledger.ready[sub.number]) == (2 if fits else 0)
    assert (cycle.ledger.idle == before).all() != fits
