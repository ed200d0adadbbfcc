"""The record of usage: what is written when, what is read back, and whom a reset concerns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.queue_worlds import queue
from tests.support.shares import HOUR, START, remembers

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import Profile
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import Turns
from tierwise.model.usage import Prepaid, UsageState
from tierwise.port import Create, Objects, RecordEvent, Update
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise.snapshot.usage import resetting, spelled_usage, usage_effects, usage_of

KEEPS = remembers(record="tierwise")
STATE = UsageState(
    at=START,
    time=HOUR,
    half_life=8 * HOUR,
    unit="parts of the cluster",
    used={("a", "x"): 10**30, ("b", "y"): 7},
    rates={("a", "x"): 3},
    prepaid=(Prepaid("x/j", ("a", "x"), 3, HOUR + 60),),
    writes=4,
    since=START - 9 * HOUR,
    resets={"b": START - HOUR},
)


def record(text: str = "", resets: str = "{}") -> Raw:
    """The ConfigMap."""
    metadata = {"name": "tierwise-usage", "namespace": "tierwise", "resourceVersion": "5"}
    data = {"usage": text or spelled_usage(STATE), "resets": resets, "other": "kept"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def objects(*raws: Raw) -> Objects:
    """These, and two queues."""
    return Objects.of((codec.decode(raw), raw) for raw in [queue("a"), queue("b"), *raws])


def seen(now: float, *raws: Raw, usage: UsageState | None = None, profile: Profile = KEEPS) -> Snapshot:
    """What a cycle sees."""
    found = build(objects(*raws), now, profile)
    return replace(found, turns=Turns(usage=usage)) if usage is not None else found


def usage_after(snapshot: Snapshot, profile: Profile = KEEPS) -> UsageState:
    """What the cycle leaves."""
    return cycle(snapshot, profile).turns.usage


def test_what_is_written_is_read_back() -> None:
    """To the last digit."""
    assert STATE == usage_of(spelled_usage(STATE))


def test_a_restart_goes_on_where_the_record_ends() -> None:
    """What was held is charged until now."""
    found = usage_after(seen(START + 30, record()))

    assert STATE.now(START + 30).used == found.used
    assert (STATE.since, STATE.writes) == (found.since, found.writes)


def test_the_own_memory_counts_before_an_older_record() -> None:
    """The record lies a minute back."""
    later = STATE.now(START + 40)

    assert later.now(START + 50).used == usage_after(seen(START + 50, record(), usage=later)).used


def test_what_another_leader_has_written_since_counts() -> None:
    """Two leaders in turn: the one that comes back does not go on with what it knew."""
    old = replace(STATE, at=START - 600, used={("a", "x"): 1}, rates={}, writes=3, prepaid=())

    assert STATE.now(START + 1).used == usage_after(seen(START + 1, record(), usage=old)).used


def test_a_record_of_a_clock_that_is_ahead_is_taken_once() -> None:
    """Another leader's clock is an hour ahead: its record counts, and time goes on."""
    first = usage_after(seen(START - HOUR, record(), usage=replace(STATE, at=START - 2 * HOUR, writes=1)))
    second = usage_after(seen(START - HOUR + 600, record(), usage=replace(first, rates={("a", "x"): 3})))

    assert first.used["a", "x"] < second.used["a", "x"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        "7",
        "{}",
        "[" * 5000,
        spelled_usage(STATE).replace('"halfLife":28800.0', '"halfLife":0'),
        spelled_usage(STATE).replace('"time":3600.0', '"time":1e300'),
        spelled_usage(STATE).replace('"time":3600.0', '"time":NaN'),
        spelled_usage(STATE).replace(str(10**30), "1e400"),
        spelled_usage(STATE).replace(str(10**30), "-3"),
        spelled_usage(STATE).replace('["a","x",3]', '["a","x"]'),
    ],
)
def test_a_record_that_cannot_be_read_is_told_and_stops_no_cycle(text: str) -> None:
    """All start even, and it is written anew."""
    snapshot = seen(START + 30, record(text))
    found = usage_after(snapshot)
    effects = usage_effects(objects(record(text)), snapshot, found)

    assert ["InvalidUsage"] == [fault.code for fault in snapshot.faults if fault.code == "InvalidUsage"]
    assert START + 30 == found.since
    assert [Update, RecordEvent] == [type(effect) for effect in effects]


def test_the_first_record_is_made_and_says_that_all_start_even() -> None:
    """Whoever looks at the events knows why nobody is behind."""
    snapshot = seen(START)
    made, told = usage_effects(objects(), snapshot, usage_after(snapshot))

    assert isinstance(made, Create)
    assert isinstance(told, RecordEvent)
    assert "UsageStartsEven" == told.reason


@pytest.mark.parametrize(("seconds", "written"), [(30, False), (59.9, False), (60, True), (3600, True), (-1, True)])
def test_it_is_written_once_a_minute_at_most(seconds: float, written: bool) -> None:
    """And at once where the clock was put back; other entries stay."""
    snapshot = seen(START + seconds, record())
    effects: Any = usage_effects(objects(record()), snapshot, usage_after(snapshot))

    assert written == bool(effects)
    for effect in effects:
        assert ("kept", "5") == (effect.raw["data"]["other"], effect.raw["metadata"]["resourceVersion"])
        assert 5 == json.loads(effect.raw["data"]["usage"])["writes"]


def test_on_a_clean_stop_it_is_written_at_once() -> None:
    """However short ago that was."""
    snapshot = seen(START + 1, record())

    assert usage_effects(objects(record()), snapshot, usage_after(snapshot), at_once=True)


def test_nothing_is_written_without_a_namespace() -> None:
    """Nor by profiles that remember nothing."""
    profile = remembers()
    snapshot = seen(START, profile=profile)
    forgets = seen(START, profile=remembers(forgets=True))

    assert [] == usage_effects(objects(), snapshot, usage_after(snapshot, profile))
    assert [] == usage_effects(objects(), forgets, usage_after(forgets, remembers(forgets=True)))


def test_a_reset_is_done_once() -> None:
    """Of the queue that it names; what it uses from then on counts."""
    entry = resetting(None, ["a"], START + 5)
    reset = record(resets=str(entry["resets"]))
    first = usage_after(seen(START + 10, reset))
    again = usage_after(seen(START + 20, reset, usage=replace(first, used={**first.used, ("a", "x"): 99}, rates={})))

    assert first.used["a", "x"] < 10**20 < STATE.used["a", "x"]
    assert 7 == first.used["b", "y"]
    assert 99 == again.used["a", "x"]
