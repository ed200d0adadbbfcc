"""Every plugin that filters or scores keeps what it declares, whoever wrote it: kernels and the slow reference agree.

The table is what is installed, with the example package; who writes a plugin installs it and runs this file.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.support.depth import examples
from tests.support.draw import objects_of
from tests.support.kernels import disturb, drawn_pool, effect_holds, every_ask, kernels_agree
from tests.support.plugin_table import example_plugins, plugin_table, plugins_at
from tests.support.strategies import Scene, profile, scenes

from tierwise.framework.cycle import Cycle
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Factory, Filter, ScoreEffect, Scorer
from tierwise.model.arrays import POD_SLOTS, Bools, Floats, Why
from tierwise.model.job import Reason, Shape
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

TABLE = plugin_table()
LOOKED_AT = plugins_at(Scorer, Filter)

Property = Callable[[str, Factory, Scene, DataObject], None]


def _open(scene: Scene, name: str, factory: Factory) -> Cycle:
    cycle = open_cycle(
        build(objects_of(scene.world, *scene.gangs), now=0.0),
        profile("predicates", name),
        plugins={**TABLE, name: factory},
    )
    assert not cycle.pipeline.failures
    return cycle


def _scores_hold(name: str, factory: Factory, scene: Scene, data: DataObject) -> None:
    """What a scorer says of its effect, and of the rows that go stale."""
    cycle = _open(scene, name, factory)
    disturb(cycle, data)
    count, pool = data.draw(st.integers(2, 9)), drawn_pool(cycle, data)
    for ask in every_ask(cycle):
        effect_holds(cycle, ask)
        kernels_agree(cycle, ask, count, slice(0, len(cycle.nodes)), pool)
    assert not cycle.pipeline.failures


def _filters_hold(name: str, factory: Factory, scene: Scene, data: DataObject) -> None:
    """The answers of a static filter stay, whatever is placed."""
    cycle = _open(scene, name, factory)
    before = [cycle.pipeline.why_not(shape).tobytes() for shape in cycle.snapshot.shapes]
    disturb(cycle, data)

    assert before == [cycle.pipeline.why_not(shape).tobytes() for shape in cycle.snapshot.shapes]
    assert not cycle.pipeline.failures


@pytest.mark.parametrize("plugin", LOOKED_AT)
@examples(20)
@given(scenes(gangs=2, leaving=True), st.data())
def test_kernels_equal_reference_for_every_plugin(plugin: str, scene: Scene, data: DataObject) -> None:
    """A scorer that says less of its effect than it has, or calls too few rows stale, is found."""
    _scores_hold(plugin, TABLE[plugin], scene, data)


@pytest.mark.parametrize("plugin", plugins_at(Filter))
@examples(20)
@given(scenes(gangs=2, leaving=True), st.data())
def test_static_filters_do_not_move(plugin: str, scene: Scene, data: DataObject) -> None:
    """A filter that looks at what is placed must say so."""
    _filters_hold(plugin, TABLE[plugin], scene, data)


def test_the_table_is_whole() -> None:
    """Other people's plugins are looked at as ours are."""
    assert {"binpack", "nodeorder", "predicates", "maintenance"} <= set(LOOKED_AT)
    assert set(example_plugins()) <= set(TABLE)


# Plugins that lie, each in one way: the properties above find them.


class _Scorer:
    """Ranks nodes by the pods on them: few are better, and some look at their neighbours' too."""

    says, sign, others = ScoreEffect.FREE, 1.0, 0.0

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._slots, self._topology = view.axis.index[POD_SLOTS], view.topology
        self._idle, self._all = view.ledger.idle, view.nodes.allocatable

    def effect(self, ask: Ask) -> ScoreEffect:
        return self.says

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        pods = (self._all[self._slots] - self._idle[self._slots]).astype(np.float64)
        scored: Floats = -self.sign * pods - self.others * np.roll(pods, 1)
        return scored[span]

    def stale(self, ask: Ask, row: int) -> slice:
        return slice(0, self._all.shape[1])


@takes_part(Scorer)
class SaysFixed(_Scorer):
    """Its scores fall as nodes fill up, and it says that they do not change."""

    says = ScoreEffect.FIXED


@takes_part(Scorer)
class SaysUpwards(_Scorer):
    """Its scores fall, and it says that they rise."""

    says = ScoreEffect.ROW


@takes_part(Scorer)
class SaysOwnRow(_Scorer):
    """A task raises another node's score by more than its own, and it says that only its own changes."""

    says, sign, others = ScoreEffect.ROW, -1.0, -3.0


@takes_part(Scorer)
class SaysSpan(_Scorer):
    """The same, and it says that its own changes most."""

    says, sign, others = ScoreEffect.SPAN, -1.0, -3.0


@takes_part(Scorer)
class SaysDomain(_Scorer):
    """A task raises its own node most and the next by half of that, and it says that nodes of its domain rise alike."""

    says, sign, others = ScoreEffect.DOMAIN, -1.0, -0.5

    def score_leaves(self, ask: Ask) -> Floats:
        return np.zeros(len(self._topology))


@takes_part(Scorer)
class SaysNothingIsStale(_Scorer):
    """Its scores change, and it says that no row has to be asked for again."""

    def stale(self, ask: Ask, row: int) -> slice:
        return slice(row, row)


@takes_part(Filter)
class MovesItsMind:
    """Refuses nodes that are in use, and says that it does not look at what is placed."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._idle, self._all = view.ledger.idle, view.nodes.allocatable
        self._number = view.reasons.number(Reason("InUse", "liar", "node(s) were in use"))

    def why_not(self, shape: Shape) -> Why:
        used = (self._idle < self._all).any(axis=0)
        why: Why = np.where(used, self._number, 0).astype(np.uint16)
        return why


@pytest.mark.parametrize(
    ("liar", "held"),
    [
        (SaysFixed, _scores_hold),
        (SaysUpwards, _scores_hold),
        (SaysOwnRow, _scores_hold),
        (SaysSpan, _scores_hold),
        (SaysDomain, _scores_hold),
        (SaysNothingIsStale, _scores_hold),
        (MovesItsMind, _filters_hold),
    ],
)
def test_a_plugin_that_lies_is_caught(liar: Factory, held: Property) -> None:
    """The same property that holds for the table does not hold for it."""

    @settings(max_examples=100, phases=[Phase.generate], report_multiple_bugs=False, derandomize=True, database=None)
    @given(scenes(gangs=2, leaving=True), st.data())
    def looked_at(scene: Scene, data: DataObject) -> None:
        held("liar", liar, scene, data)

    with pytest.raises(AssertionError):
        looked_at()


def test_the_scorer_that_liars_are_made_of_is_sound() -> None:
    """With the truth about its effect it passes."""

    @examples(45)
    @given(scenes(gangs=2, leaving=True), st.data())
    def looked_at(scene: Scene, data: DataObject) -> None:
        _scores_hold("honest", takes_part(Scorer)(type("Honest", (_Scorer,), {})), scene, data)

    looked_at()
