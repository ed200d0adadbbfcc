"""What several plugins say about one question is one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.cycle import Cycle
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Factory, Filter, ScoreEffect, Scorer
from tierwise.model.arrays import Bools, Floats, Why
from tierwise.model.job import Reason, Shape
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build


@takes_part(Filter)
class Objecting:
    """Has something against a row as long as tasks are placed."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._row: Any = arguments["row"]
        self._nodes = len(view.nodes)
        self._number = view.reasons.number(Reason(str(arguments["code"]), "test", "no"))

    def concerns(self, _: Shape) -> bool:
        return True

    def why_not_now(self, _: Shape, span: slice) -> Why:
        found = np.zeros(self._nodes, dtype=np.uint16)
        found[self._row] = self._number
        return found[span]


@takes_part(Scorer)
class Scoring:
    """Has one score for all nodes, and says how many rows another task makes stale."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._before: Any = arguments["before"]
        self._after: Any = arguments["after"]
        self._leaves = len(view.topology)

    def effect(self, _: Ask) -> ScoreEffect:
        return ScoreEffect.FREE

    def score(self, _: Ask, span: slice, __: Bools) -> Floats:
        return np.full(span.stop - span.start, 3.0)

    def stale(self, _: Ask, row: int) -> slice:
        return slice(row - self._before, row + self._after)

    def score_leaves(self, _: Ask) -> Floats | None:
        return np.full(self._leaves, 3.0)


def opened(factory: Factory, *choices: PluginChoice) -> tuple[Cycle, Ask]:
    """A cycle on four nodes with these plugins, and what its only gang asks."""
    snapshot = build(objects_of(draw("r0[n0..3]"), gang("g", tasks=1)), now=0.0)
    (job,) = snapshot.jobs
    cycle = open_cycle(snapshot, replace(DEFAULT, tiers=(choices,)), plugins={c.name: factory for c in choices})
    return cycle, Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job)


@pytest.mark.parametrize("rows", [(1, 2), (2, 1), (1, 1)])
def test_every_filter_that_moves_is_heard(rows: tuple[int, int]) -> None:
    """The first that has something against a node says why not, and what the second says is not lost."""
    first, second = (PluginChoice(f"p{i}", {"row": row, "code": f"No{i}"}) for i, row in enumerate(rows))
    cycle, ask = opened(Objecting, first, second)
    found = cycle.pipeline.why_not_now(ask.shape, slice(0, 4)).tolist()

    assert {rows[1]: "No1", rows[0]: "No0"} == {
        row: cycle.view.reasons[number].code for row, number in enumerate(found) if number
    }


def test_all_rows_that_any_score_makes_stale_are_scored_again() -> None:
    """From the first of one plugin to the last of another."""
    choices = (PluginChoice("p0", {"before": 0, "after": 3}), PluginChoice("p1", {"before": 1, "after": 1}))
    cycle, ask = opened(Scoring, *choices)

    assert slice(0, 4) == cycle.pipeline.stale(ask, 1)


@pytest.mark.parametrize("weight", [1.0, 2.0, 10.0])
def test_scores_by_domain_have_the_weight_of_those_by_node(weight: float) -> None:
    """Which of the two is asked must not change where a task goes."""
    cycle, ask = opened(Scoring, PluginChoice("p0", {"before": 0, "after": 1}, weight=weight))
    parts = cycle.pipeline.score_leaves(ask)
    assert parts is not None

    assert {3.0 * weight} == set(cycle.pipeline.score(ask, slice(0, 4), np.ones(4, dtype=bool)).tolist())
    assert {3.0 * weight} == set(parts[0].tolist())
