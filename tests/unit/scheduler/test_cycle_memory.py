"""What a cycle leaves behind: nothing that waits for the collector of garbage."""

from __future__ import annotations

import gc

from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.framework.ledger import Ledger
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build


def _ledgers() -> int:
    return sum(isinstance(found, Ledger) for found in gc.get_objects())


def test_a_cycle_ends_with_its_report() -> None:
    """No part of a cycle holds another in a ring, or its arrays would stay until the collector comes round."""
    snapshot = build(objects_of(draw("r0[n0 n1]"), gang("fits", tasks=2), gang("large", tasks=99)), 0.0)
    gc.collect()
    before = _ledgers()
    gc.disable()
    try:
        cycle(snapshot, DEFAULT)

        assert before == _ledgers()
    finally:
        gc.enable()
