"""Room that is kept idle is a budget of each namespace and queue: what draws from it, its share, and who is told."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import World, draw
from tests.support.reservations import HOUR, MINUTE, NOW, in_namespace, job, profile, running, stopped

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.idle_room import idle_room
from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.idle_room import IdleAccount, IdleRoomState
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

ROW = draw("r0[n0 n1 n2 n3]", node="gpu=8")
EVIL = ("evil", "default")
TINY = stopped(in_namespace("evil", running("tiny", "n0", ends_in=20 * HOUR)), 80_000)
"""A pod with a deadline in a day has one node."""
BIG = in_namespace("evil", job("big", 4, turn=1))
"""It needs all nodes, three of which are idle; how long it runs is not known."""


def _of_kubernetes(written: object) -> Raw:
    own: Raw = {"name": "Tierwise", "args": {"idleRoom": written}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "profiles": [{"pluginConfig": [own]}]}


@pytest.mark.parametrize(
    ("written", "seconds"), [("own", None), (2.5, 2.5 * HOUR), (0, 0.0), (False, inf), ("off", inf)]
)
def test_a_configuration_of_kubernetes_says_how_much(written: object, seconds: float | None) -> None:
    """Under the name for what concerns the scheduler itself, as for searches."""
    read = read_kube(_of_kubernetes(written))

    assert {"allocate": {"idleRoom": written}} == read.action_arguments
    assert seconds == idle_room(read)


@pytest.mark.parametrize("written", [None, -1, "much", True, [1]])
def test_and_is_told_of_values_that_say_nothing(written: object) -> None:
    """With the field, as in the other format."""
    with pytest.raises(InputError, match="neither a number of node-hours, nor own, nor off") as told:
        read_kube(_of_kubernetes(written))
    assert told.value.field == "profiles[0].pluginConfig[0].args.idleRoom"


def _report(
    given: Profile, *parts: list[Raw], now: float = NOW, turns: Turns = NO_TURNS, world: World = ROW
) -> CycleReport:
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in every), now, given)
    return cycle(replace(snapshot, turns=turns), given)


def _bound(found: CycleReport) -> set[str]:
    return {decision.job.key for decision in found.decisions if decision.bound}


def _history(given: Profile, *parts: list[Raw], until: float) -> list[tuple[float, CycleReport]]:
    """Cycles one after the other, each when the one before says that time alone may change something."""
    found, now, turns = [], NOW, NO_TURNS
    while now < until:
        report = _report(given, *parts, now=now, turns=turns)
        found.append((now, report))
        now, turns = report.retry_after(now), report.turns
    return found


def test_a_reservation_is_charged_until_its_share_is_spent() -> None:
    """Three idle nodes for a gang of four that runs for an unknown time: four node-hours, and once as much again."""
    first, last = _history(profile(), TINY, BIG, until=NOW + 10 * HOUR)
    (account,) = first[1].turns.idle.accounts.items()

    assert (EVIL, IdleAccount(nodes=3.0, size=4 * HOUR)) == account
    ends = 8 * HOUR / (3 - 4 / 24)
    assert NOW + ends == pytest.approx(last[0], abs=2)
    assert [(True, None), (False, "IdleRoomSpent")] == [
        (one.holds, one.refused and one.refused.code) for _, report in (first, last) for one in report.reservations
    ]
    assert last[1].turns.idle.accounts[EVIL].owes


def test_who_was_held_back_starts_then_and_the_gang_is_told() -> None:
    """Jobs of another namespace wait no longer than the share lasts; the gang hears that nothing is kept for it."""
    x = job("x", turn=2)
    found = _history(profile(), TINY, BIG, x, until=NOW + 10 * HOUR)

    assert [set(), {"default/x"}] == [_bound(report) for _, report in found]
    codes = found[-1][1].rejections["evil/big"].codes()
    assert "IdleRoomSpent" in codes


def test_another_namespace_has_a_share_of_its_own() -> None:
    """Whatever one namespace has spent, the first gang of another one has its reservation in the same queue."""
    *_, (now, spent) = _history(profile(), TINY, BIG, until=NOW + 10 * HOUR)
    found = _report(profile(), TINY, BIG, job("big", 4, turn=5), now=now, turns=spent.turns)

    assert {"evil/big": False, "default/big": True} == {one.job.key: one.holds for one in found.reservations}


def _of_many(*names: str, turn: int = 1) -> list[Raw]:
    """A gang of all nodes in each of these namespaces."""
    return [raw for name in names for raw in in_namespace(name, job("big", 4, turn=turn))]


def test_all_namespaces_of_a_queue_have_three_shares_together() -> None:
    """And once a fourth for the gang that has waited longest: whoever makes namespaces has no more than that."""
    names, x = [f"evil{i}" for i in range(20)], job("x", turn=2)
    found, turns, kept = _report(profile(), TINY, _of_many(*names), x), NO_TURNS, list[float]()
    now = NOW
    for name in names:  # each comes when the one before has nothing left
        while now < NOW + 19 * HOUR:
            found = _report(profile(), TINY, _of_many(name), x, now=now, turns=turns)
            nodes = sum(account.nodes for account in found.turns.idle.accounts.values())
            if not nodes:
                break
            kept.append(nodes * (found.retry_after(now) - now))
            now, turns = found.retry_after(now), found.turns

    assert 12 * HOUR < sum(kept) <= 17 * HOUR
    assert {"default/x"} == _bound(found)
    assert 16 * HOUR == found.turns.idle.queues["default"].closed
    assert "jobs of all namespaces in queue default" in found.reservations[0].refused.text  # type: ignore[union-attr]


def test_another_queue_has_shares_of_its_own() -> None:
    """Whatever the namespaces of one queue have spent."""
    spent = IdleAccount(spent=20 * HOUR, size=4 * HOUR, closed=16 * HOUR, owes=True)
    turns = replace(NO_TURNS, idle=IdleRoomState(NOW, queues={"default": spent}))
    other: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    held = {
        queue: [
            one.holds for one in _report(profile(), TINY, [other], job("big", 4, queue=queue), turns=turns).reservations
        ]
        for queue in ("default", "q")
    }

    assert {"default": [False], "q": [True]} == held


def test_it_is_paid_back_in_a_day() -> None:
    """Half of what was used up must be paid back before anything is kept again, and all before the exception is."""
    *_, (now, spent) = _history(profile(), TINY, BIG, until=NOW + 10 * HOUR)
    soon, half, all_ = (
        _report(profile(), in_namespace("evil", running("tiny", "n0")), now=now + hours * HOUR, turns=spent.turns)
        for hours in (1, 25, 49)
    )

    assert 8 * HOUR == soon.turns.idle.accounts[EVIL].closed
    assert (0.0, True) == (half.turns.idle.accounts[EVIL].closed, half.turns.idle.accounts[EVIL].owes)
    assert {} == dict(all_.turns.idle.accounts)


@pytest.mark.parametrize(("deadline", "hours"), [(0, 1), (7200, 2), (200_000, 24)])
def test_the_share_is_by_a_run_that_others_may_rely_on(deadline: int, hours: int) -> None:
    """A deadline says how long the gang runs, a day at most; its own word alone says nothing to others."""
    big = stopped(in_namespace("evil", job("big", 4, turn=1, lasts="1000h")), deadline)
    found = _report(profile(), TINY, big)

    assert 4 * hours * HOUR == found.turns.idle.accounts[EVIL].size


@pytest.mark.parametrize(("setting", "hours"), [(6, 4.0), (0.5, 1 / 3), ("off", 20.0)])
def test_the_profile_may_give_a_number(setting: object, hours: float) -> None:
    """Node-hours, twice for the gang that has waited longest; off: without a bound."""
    found = _history(profile(idleRoom=setting), TINY, BIG, until=NOW + 19 * HOUR)
    kept = [now for now, report in found if any(not one.holds for one in report.reservations)]

    assert (hours == 20.0) == (not kept)
    assert not kept or NOW + hours * HOUR < kept[0] < NOW + 1.2 * hours * HOUR


@pytest.mark.parametrize("value", ["much", -1, True, "3h"])
def test_what_cannot_be_read_is_refused(value: object) -> None:
    """The error names the argument."""
    with pytest.raises(InputError, match=r"neither a number of node-hours, nor own, nor off") as caught:
        idle_room(profile(idleRoom=value))

    assert "configurations.allocate.idleRoom" == caught.value.field


def test_words_in_its_own_namespace_are_for_no_account() -> None:
    """A reservation that holds back its own namespace alone takes nothing from others."""
    bare = in_namespace("evil", running("tiny", "n0", ends_in=20 * HOUR))
    found = _report(profile(), bare, BIG)

    assert [True] == [one.bare for one in found.reservations]
    assert {} == dict(found.turns.idle.accounts)


RACKS = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
TWO_RUNS = [*running("short", "n0", ends_in=10 * MINUTE), *running("long", "n2", ends_in=9 * HOUR)]


@pytest.mark.parametrize(("setting", "expected"), [("own", set()), (0, {"x"})])
def test_a_declined_place_draws_from_it(setting: object, expected: set[str]) -> None:
    """A gang that waits for a closer place keeps what it declines as far as its account allows, and is told if not."""
    given = replace(DEFAULT, action_arguments={"allocate": {"idleRoom": setting}})
    train = job("train", 2, lasts="10h", soft=True, turn=1800)
    found = _report(given, TWO_RUNS, train, job("x", 2, turn=1900), world=RACKS)

    assert expected == {key.partition("/")[2] for key in _bound(found)}
    assert bool(expected) == ("IdleRoomSpent" in found.rejections["default/train"].codes())
    if not expected:
        assert 2.0 == found.turns.idle.accounts["default", "default"].nodes


def _nominated(raws: list[Raw], *nodes: str) -> list[Raw]:
    """The same with a node that is kept for each pod."""
    left = list(nodes)
    for raw in raws:
        if raw["kind"] == "Pod":
            raw["status"] = {"phase": "Pending", "nominatedNodeName": left.pop(0)}
    return raws


def _leaving(raws: list[Raw]) -> list[Raw]:
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["metadata"]["deletionTimestamp"] = "1970-01-12T13:46:40Z"
    return raws


def test_a_nomination_is_charged_and_stays() -> None:
    """Beyond its share a nominated gang keeps its nodes, and its queue pays."""
    given = replace(DEFAULT, action_arguments={"allocate": {"idleRoom": 0}})
    parts = (_leaving(running("a", "n0")), _nominated(job("big", 4, turn=1), "n0", "n1", "n2", "n3"), job("x", turn=2))
    found = _report(given, *parts)
    later = _report(given, *parts, now=NOW + HOUR, turns=found.turns)

    assert [{"default/big"}] * 2 == [{d.job.key for d in one.decisions} for one in (found, later)]
    assert 3.0 == found.turns.idle.accounts["default", "default"].nodes
    assert later.turns.idle.accounts["default", "default"].spent > 2.9 * HOUR


def _gangs(hours: int) -> list[Raw]:
    """One gang for all nodes that has come in each hour."""
    return [raw for i in range(hours) for raw in in_namespace("evil", job(f"c{i}", 4, turn=3600 * i))]


@pytest.mark.parametrize(("hours", "held"), [(0.5, True), (1.5, False), (2.5, False), (23.5, False), (25.5, True)])
def test_the_hour_of_aging_belongs_to_the_namespace(hours: float, held: bool) -> None:
    """However many gangs follow each other, others are held back for one hour, and then not for a day."""
    unknown = in_namespace("evil", running("tiny", "n0", each="gpu=1"))
    found = _report(profile(), unknown, _gangs(3), job("x", turn=2), now=NOW + hours * HOUR)

    assert held == (set() == _bound(found))


@pytest.mark.parametrize(("hours", "held"), [(0.5, True), (1.5, False), (2.5, False), (23.5, False), (25.5, True)])
def test_nor_has_a_queue_an_hour_for_each_of_its_namespaces(hours: float, held: bool) -> None:
    """One gang of all nodes an hour, each in a namespace of its own: as if all were of one."""
    unknown = in_namespace("evil", running("tiny", "n0", each="gpu=1"))
    gangs = [raw for i in range(3) for raw in in_namespace(f"evil{i}", job(f"c{i}", 4, turn=3600 * i))]
    found = _report(profile(), unknown, gangs, job("x", turn=2), now=NOW + hours * HOUR)

    assert held == (set() == _bound(found))


def test_namespaces_share_the_hour_of_their_queue() -> None:
    """One that comes in the middle has the rest of it, and one whose own hour is over opens no new one."""
    unknown, x = in_namespace("evil", running("tiny", "n0", each="gpu=1")), job("x", turn=2)
    first, other = in_namespace("evil", job("a", 4, turn=0)), in_namespace("team", job("b", 4, turn=0))
    begun = _report(profile(), unknown, first, x, now=NOW + HOUR / 4)
    middle = _report(profile(), unknown, other, x, now=NOW + HOUR / 2, turns=begun.turns)
    after = _report(profile(), unknown, other, x, now=NOW + HOUR * 1.1, turns=middle.turns)
    day = _report(profile(), unknown, other, first, x, now=NOW + HOUR * 25.5, turns=after.turns)

    assert [set(), set(), {"default/x"}, set()] == [_bound(one) for one in (begun, middle, after, day)]


def test_a_gang_that_is_made_anew_brings_no_new_hour() -> None:
    """The next cycle knows when the hour began, whoever waits then."""
    unknown = in_namespace("evil", running("tiny", "n0", each="gpu=1"))
    first = _report(profile(), unknown, _gangs(1), now=NOW + HOUR / 2)
    others = in_namespace("evil", job("other", 4, turn=3600)), job("x", turn=3700)
    known = _report(profile(), unknown, *others, now=NOW + 1.5 * HOUR, turns=first.turns)
    anew = _report(profile(), unknown, *others, now=NOW + 1.5 * HOUR)

    assert ({"default/x"}, set()) == (_bound(known), _bound(anew))


def test_the_pause_is_a_setting() -> None:
    """With half an hour between them the second hour comes sooner."""
    unknown = in_namespace("evil", running("tiny", "n0", each="gpu=1"))
    given = profile(reservationAgingPause="30m", reservationAgingLimit="30m")

    assert [set(), {"default/x"}, set()] == [
        _bound(_report(given, unknown, _gangs(1), job("x", turn=2), now=NOW + minutes * MINUTE))
        for minutes in (15, 45, 75)
    ]
