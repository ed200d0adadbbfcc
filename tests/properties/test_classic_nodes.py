"""Looking only at nodes where those who could go are enough finds what looking at every node finds."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from tests.support.depth import examples
from tests.support.evict_scenes import CLASSICS, Case, cases
from tests.support.evict_world import once

from tierwise.actions.eviction.classic import _ClassicPreemptor
from tierwise.framework.extension import Preemptor
from tierwise.model.arrays import Ints


def everybody(_self: _ClassicPreemptor, _preemptor: Preemptor, candidates: Ints) -> Ints:
    """The slow twin: nobody is left out before the filters are asked node by node."""
    return candidates


@given(cases(*CLASSICS))
@examples(60)
def test_nobody_is_passed_over(case: Case) -> None:
    """Gangs with and without pods to spare, budgets, queues and marks."""
    scene, profile = case
    quick = once(scene, profile)
    with patch.object(_ClassicPreemptor, "_could_go", everybody):
        slow = once(scene, profile)

    assert (slow.evictions, slow.placed) == (quick.evictions, quick.placed)
