"""Beside any 100 KB of one other namespace a gang is decided at once, and no cycle takes more than the setting."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.properties.cost import climb, cost, grown, profile
from tests.support.depth import DEEP, ROTATION, size

STEPS = 8000
EACH, OBJECT, FIXED = 80, 250, 100_000
"""Calls of functions that a cycle takes: for a step, for an object that it sees, and else."""


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("part", range(size(2, 8)))
def test_a_stranger_keeps_nobody_waiting(
    part: int, evicts: bool, record_property: Callable[[str, object], None]
) -> None:
    """The dearest jobs that a search finds, as often as 100 KB hold them, all older than the honest gang.

    The calls show that steps are charged for all that is done: else a cycle could do much in few of them.
    """
    under = profile(STEPS, evicts=evicts)
    for trick, alone in climb(Random(f"{ROTATION} {part}"), under, size(12, 400, quick=6))[: 5 if DEEP else 2]:
        found = cost(grown(trick), under, count=True)
        record_property("dearest", f"{1000 * alone.dearness:.0f} steps per KB: {trick}")

        assert found.decided, trick
        assert found.steps <= STEPS, trick
        assert found.calls <= FIXED + OBJECT * found.objects + EACH * found.steps, trick
