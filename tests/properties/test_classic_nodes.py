"""Looking only at nodes where those who could go are enough finds what looking at every node finds."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from tests.support.depth import examples
from tests.support.evict_scenes import CLASSICS, Case, cases
from tests.support.evict_world import once
from tests.support.sight import sees

from tierwise.framework.extension import Preemptor
from tierwise.framework.pipeline import Pipeline
from tierwise.model.arrays import Bools, Ints


def everybody(_self: Pipeline, _preemptor: Preemptor, victims: Ints) -> Bools:
    """The slow twin: nobody is left out before the filters are asked node by node."""
    return np.ones(len(victims), dtype=bool)


@sees(evictions=4)
@given(cases(*CLASSICS))
@examples(60)
def test_nobody_is_passed_over(case: Case) -> None:
    """Gangs with and without pods to spare, budgets, queues and marks."""
    scene, profile = case
    quick = once(scene, profile)
    with patch.object(Pipeline, "could_go", everybody):
        slow = once(scene, profile)

    assert (slow.evictions, slow.placed) == (quick.evictions, quick.placed)
