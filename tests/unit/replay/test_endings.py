"""What a replay tells of the ends of running gangs in columns is what follows from the gangs themselves."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice

import pytest
from msgspec.structs import replace

from tierwise.config.profile import DEFAULT
from tierwise.model.endings import endings
from tierwise.model.expected_ends import ExpectedEnds
from tierwise.model.snapshot import Snapshot
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace

FABRIC = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=3", 8)
USUAL = Contender("usual", DEFAULT)
EVICTING = Contender("evicting", replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt")))


def told(snapshot: Snapshot) -> list[tuple[int, str, float, float]]:
    """Row, request, start and end of every task that will end."""
    found = endings(snapshot, ExpectedEnds(snapshot))
    requests = [snapshot.shapes[number].request.tobytes().hex() for number in found.shape.tolist()]
    rows = zip(found.row.tolist(), requests, found.started.tolist(), found.end.tolist(), strict=True)
    return sorted((row, request, round(start, 3), round(end, 3)) for row, request, start, end in rows)


@pytest.mark.parametrize("durations", ["stated", "rough"])
def test_ends_are_the_same_in_columns(durations: str) -> None:
    """At many moments of a replay; a profile that evicts is shown every gang that runs."""
    rules = Rules(durations=durations)
    trace = synthetic_trace("synthetic:jobs=120,gap=120,mean=3000,largest=64", 3)
    engine = Engine(FABRIC, trace, USUAL, rules)
    seen = 0
    for state in islice(engine.run(), 0, None, 9):
        shown, *_ = engine.picture()
        other, *_ = Engine(FABRIC, trace, EVICTING, rules, deepcopy(state)).picture()
        assert told(other) == told(shown)
        assert shown.endings is not None
        assert other.endings is None
        seen += len(told(shown))

    assert seen > 100
