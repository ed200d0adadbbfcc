"""What the ledger keeps for plugins: tallies by the shapes that they name."""

from __future__ import annotations

import numpy as np
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.framework.ledger import Pool, Tally
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build


def test_tallies_count_the_shapes_that_they_name() -> None:
    """Each adds its own weight; one that names another shape adds nothing, and neither does one that was taken back."""
    world = draw("r0[n0 n1 n2]", node="cpu=4")
    cycle = open_cycle(build(objects_of(world, gang("a", tasks=2), gang("b", tasks=2, each="cpu=2")), 0.0), DEFAULT)
    one, other = (next(job.pod_sets()).shape for job in cycle.snapshot.jobs)
    rows = np.arange(3)
    weights = ({one.number: 1}, {other.number: 1, one.number: 5}, {other.number: 1}, {one.number: 7})
    tallies = [Tally(np.zeros(3, dtype=np.int64), rows, of) for of in weights]
    for tally in tallies[:3]:
        cycle.ledger.tally(tally)
    known = cycle.ledger.registered
    cycle.ledger.tally(tallies[3])
    cycle.ledger.unregister(known)

    cycle.ledger.place(one, np.array([0, 2]), np.array([1, 2]), pool=Pool.IDLE)

    assert [[1, 0, 2], [5, 0, 10], [0, 0, 0], [0, 0, 0]] == [tally.values.tolist() for tally in tallies]
