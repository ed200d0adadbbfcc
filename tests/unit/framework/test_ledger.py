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


def test_rows_that_share_a_bucket_add_up() -> None:
    """Tasks on several rows of a bucket count together, in each tally over it, and a rewind takes them back."""
    world = draw("r0[n0 n1 n2]", node="cpu=4")
    cycle = open_cycle(build(objects_of(world, gang("a", tasks=3)), 0.0), DEFAULT)
    shape = next(cycle.snapshot.jobs[0].pod_sets()).shape
    zones = np.array([0, 0, -1])
    tallies = [Tally(np.zeros(2, dtype=np.int64), zones, {shape.number: weight}) for weight in (1, 3)]
    for tally in tallies:
        cycle.ledger.tally(tally)

    with cycle.ledger.statement():
        cycle.ledger.place(shape, np.array([0, 1, 2]), np.array([1, 2, 1]), pool=Pool.IDLE)
        cycle.ledger.place_each([shape], 1)

        assert [[4, 0], [12, 0]] == [tally.values.tolist() for tally in tallies]
    assert [[0, 0], [0, 0]] == [tally.values.tolist() for tally in tallies]


def test_an_attempt_stays_where_it_finds_something() -> None:
    """What a way has written is kept with what it finds, and undone where it finds nothing."""
    world = draw("r0[n0]", node="cpu=4")
    cycle = open_cycle(build(objects_of(world, gang("a", tasks=3)), 0.0), DEFAULT)
    shape, idle = next(cycle.snapshot.jobs[0].pod_sets()).shape, cycle.ledger.idle.copy()

    def way(found: str | None) -> str | None:
        cycle.ledger.place_each([shape], 0)
        return found

    assert cycle.ledger.attempt(way, None) is None
    assert idle.tolist() == cycle.ledger.idle.tolist()
    assert cycle.ledger.attempt(way, "here") == "here"
    assert (idle[:, 0] - shape.request).tolist() == cycle.ledger.idle[:, 0].tolist()
