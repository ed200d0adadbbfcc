"""Expected starts on podGroups: written once, and again only where they change by more than a step."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from tests.support.draw import draw, gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.api.expected_start import (
    EXPECTED_START,
    ExpectedStart,
    parse_expected_start,
    spell_expected_start,
)
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.runtime.forecasts import ForecastWriter
from tierwise.runtime.profile_run import LoopPass
from tierwise.scheduler import cycle
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build

NOW = 1_790_000_000.0


class AtOnce(Executor):
    """Does the work when it is asked for, and counts how often that is."""

    works = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.works += 1
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def cluster(states: str = "2h") -> EmbeddedCluster:
    """A gang that runs on both nodes since an hour and states how long, and one that waits for them."""
    raws: list[Raw] = list(draw("r0[n0 n1]", node="gpu=8").manifests)
    for raw in gang("a", tasks=2, each="gpu=8", on="n0 n1").manifests():
        body: Any = raw
        if raw["kind"] == "Pod":
            body["status"] = {"phase": "Running", "startTime": format_time(NOW - 3600)}
        else:
            body["metadata"].setdefault("annotations", {})[EXPECTED_DURATION] = states
        raws.append(raw)
    raws += gang("c", tasks=2, each="gpu=8").manifests()
    return EmbeddedCluster(Objects.of((codec.decode(raw), raw) for raw in raws))


class Turns:
    """Turns of a loop over a cluster, with a clock that is set by hand."""

    def __init__(self, embedded: EmbeddedCluster) -> None:
        self.cluster, self.executor, self.ticks = embedded, AtOnce(), 0.0
        self.writer = ForecastWriter(embedded, self.executor, ticks=lambda: self.ticks, every=60.0)

    def turn(self, after: float = 0.0) -> None:
        """One turn, so many seconds after the last one."""
        self.ticks += after
        objects = self.cluster.read()
        snapshot = build(objects, NOW + self.ticks, DEFAULT)
        self.writer.saw(LoopPass(snapshot, cycle(snapshot, DEFAULT), (), DEFAULT, objects=objects))

    def told(self) -> ExpectedStart | None:
        """What the podGroup says."""
        group = self.cluster.read().every(PodGroup)["default/c"]
        return parse_expected_start(group.metadata.annotations.get(EXPECTED_START, ""))


def test_a_waiting_group_is_told_when_it_starts() -> None:
    """What one turn has asked for, a later one writes."""
    turns = Turns(cluster())
    turns.turn()
    before = turns.told()
    turns.turn()
    told = turns.told()

    assert before is None
    assert told is not None
    assert ("expected", NOW + 3600, 1, 1) == (told.kind, told.start, told.position, told.of)
    assert "when a ends, 15:13" == told.text


def test_what_stays_is_not_written_again() -> None:
    """However many turns there are, an unchanged forecast is one write."""
    turns = Turns(cluster())
    turns.turn()
    turns.turn()
    version = turns.cluster.read().version
    for _ in range(5):
        turns.turn(after=61.0)

    assert version == turns.cluster.read().version


def test_forecasts_are_made_at_their_pace() -> None:
    """Between two of them nothing is worked out."""
    turns = Turns(cluster())
    for _ in range(3):
        turns.turn(after=1.0)
    assert 1 == turns.executor.works
    turns.turn(after=60.0)
    assert 2 == turns.executor.works


@pytest.mark.parametrize(("start", "differs"), [(3600.0, False), (3900.0, False), (4100.0, True), (3100.0, True)])
def test_a_step_is_a_tenth_of_the_wait(start: float, differs: bool) -> None:
    """A start in an hour that becomes one in 65 minutes is the same; ten minutes more are not."""
    one = ExpectedStart("expected", "", NOW, 1, 2, start=NOW + 3600)

    assert differs is one.differs(ExpectedStart("expected", "", NOW, 2, 2, start=NOW + start))


def test_seconds_are_not_worth_a_word() -> None:
    """A start that is near may change by a minute."""
    one = ExpectedStart("expected", "", NOW, 1, 2, start=NOW + 30)

    assert not one.differs(ExpectedStart("expected", "", NOW, 1, 2, start=NOW + 80))


def test_another_kind_is_told() -> None:
    """What becomes unknown, or possible, is news."""
    one, other = (ExpectedStart(kind, "", NOW, 1, 2) for kind in ("unknown", "never"))

    assert one.differs(other)
    assert not one.differs(one)


def test_an_annotation_is_read_as_it_was_written() -> None:
    """And one of somebody else counts as none."""
    told = ExpectedStart("expected", "soon", NOW, 1, 2, start=NOW + 60)

    assert told == parse_expected_start(spell_expected_start(told))
    assert [None] * 4 == [parse_expected_start(text) for text in ("", "{", "[]", '{"kind": "now"}')]
