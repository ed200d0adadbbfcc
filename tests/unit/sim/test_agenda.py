"""The agenda of a virtual cluster: events in the order of time, each at one time at most."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.sim.cluster.agenda import Agenda, Arrives, Due, Ends, Event, LookAgain, NodeBack, NodeLost

TIMES = st.sampled_from([0.0, 1.0, 2.5, 7.0, inf])
EVENTS: st.SearchStrategy[Event] = st.sampled_from([Ends(1), Ends(2), Arrives(1), Arrives(2), LookAgain(), Due("b")])


@given(st.lists(st.tuples(EVENTS, TIMES | st.none())))
def test_an_event_happens_once_at_the_time_it_was_last_given(asked: list[tuple[Event, float | None]]) -> None:
    """Whatever was put, put off and called off before; what has no finite time never happens."""
    agenda = Agenda()
    expected: dict[Event, float] = {}
    for event, at in asked:
        expected.pop(event, None)
        if at is None:
            agenda.cancel(event)
        else:
            agenda.put(event, at)
            expected |= {event: at} if at < inf else {}
    assert expected == {event: agenda.at(event) for event, _ in asked if agenda.at(event) < inf}
    happened = [(agenda.clock, event) for event in agenda.until(100.0)]

    assert sorted(expected.values()) == [at for at, _ in happened]
    assert expected == {event: at for at, event in happened}
    assert (inf, 100.0) == (agenda.next(), agenda.clock)


def test_room_is_free_before_it_is_asked_for() -> None:
    """At one time ends come first, by name, then failures in the order given, then the rest."""
    agenda = Agenda()
    lost, back = NodeLost(3.0, "n2"), NodeBack(3.0, "n1")
    for event in (Arrives(1), lost, Ends(7), back, Arrives(0), Ends(4)):
        agenda.put(event, 3.0)

    assert [Ends(4), Ends(7), lost, back, Arrives(1), Arrives(0)] == list(agenda.until(3.0))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_what_is_put_on_the_way_happens_in_its_turn(offset: float) -> None:
    """An arrival that follows another within the same moment is not left for the next."""
    agenda = Agenda()
    agenda.put(Arrives(0), 1.0)
    seen: list[tuple[float, Event]] = []
    for event in agenda.until(3.0):
        seen.append((agenda.clock, event))
        if event == Arrives(0):
            agenda.put(Arrives(1), 1.0 + offset)

    assert [(1.0, Arrives(0)), (1.0 + offset, Arrives(1))] == seen


def test_the_clock_does_not_go_back() -> None:
    """What should have happened already happens now."""
    agenda = Agenda(10.0)
    agenda.put(Ends("late"), 4.0)

    assert [(10.0, Ends("late"))] == [(agenda.clock, event) for event in agenda.until(10.0)]
