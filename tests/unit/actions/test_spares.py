"""Spares are what a tenant writes for itself: how many there are at most, who pays for them, and to whom they yield."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace as replaced
from tests.support.draw import Outcome, World, allocate, draw, gang, objects_of, placed, why
from tests.support.drawn_gang import Role, manifest

from tierwise.api.codec import Raw, decode
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.model.turns import NO_TURNS
from tierwise.port import Bind, Objects, key_of_raw
from tierwise.scheduler import check_profile, cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import Reader

_gang = partial(gang, owned=True)
ROW = "r0[n0..9]"
PREEMPTING = replaced(DEFAULT, actions=(*DEFAULT.actions, "gangpreempt"))


def _spares(number: object) -> dict[str, str]:
    return {"tierwise.io/spares": str(number)}


def _keeping(number: object) -> Profile:
    return replaced(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"maxSpares": number}),)))


def _bound(outcome: Outcome, name: str) -> int:
    return sum(placed(outcome, name).values())


def _queue(name: str, cpu: int) -> Raw:
    spec = {"weight": 1, "capability": {"cpu": str(cpu)}}
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name}, spec=spec, status={"state": "Open"})


def _with(world: World, *more: Raw) -> World:
    return World((*world.manifests, *more), world.drawing)


@pytest.mark.parametrize(("tasks", "asked", "kept"), [(1, 9999, 1), (5, 3, 1), (30, 9, 3), (29, 9, 2), (30, 2, 2)])
def test_a_gang_has_a_tenth_of_its_pods_as_spares_or_one(tasks: int, asked: int, kept: int) -> None:
    """Where the profile does not say, more than that is kept for nobody, however much is asked for."""
    world = draw("r0[n0..49]", node="cpu=1")
    owner = _gang("train", tasks=tasks, on=" ".join(f"n{i}" for i in range(tasks)), marks=_spares(asked))
    outcome = allocate(world, owner, _gang("small", tasks=50 - tasks, minimum=1))

    assert 50 - tasks - kept == _bound(outcome, "small")


@pytest.mark.parametrize(("most", "kept"), [(0, 0), ("off", 0), (False, 0), (3, 3), ("50%", 4), ("10%", 1)])
def test_a_profile_says_how_many_spares_there_are(most: object, kept: int) -> None:
    """A number, a share of the pods that run, or none at all."""
    world = draw("r0[n0..19]", node="cpu=1")
    owner = _gang("train", tasks=8, on=" ".join(f"n{i}" for i in range(8)), marks=_spares(9))
    outcome = allocate(world, owner, _gang("small", tasks=12, minimum=1), profile=_keeping(most))

    assert 12 - kept == _bound(outcome, "small")


@pytest.mark.parametrize("most", ["many", -1, "101%", True, 1.5])
def test_a_number_of_spares_that_cannot_be_read_is_an_error(most: object) -> None:
    """A profile with such a value is refused in one line that names it."""
    with pytest.raises(InputError, match=r"repair: maxSpares: .* is neither a number such as 2"):
        check_profile(_keeping(most))


def test_the_cap_holds_for_all_domains_of_a_tier_together() -> None:
    """One in each of many racks is as much as so many in one."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="cpu=1", tier_names={1: "rack"})
    owner = _gang("train", tasks=3, within=2, on="n0 n2 n4", marks=_spares("1@rack"))

    assert 2 == _bound(allocate(world, owner, _gang("small", tasks=3, minimum=1)), "small")


def test_an_owner_is_told_that_it_asks_for_too_many() -> None:
    """Whoever asks for more than is kept hears how many are."""
    outcome = allocate(draw(ROW), _gang("train", tasks=2, on="n0 n1", marks=_spares(5)))

    told = "annotation tierwise.io/spares: 5 spares asked for, and the profile keeps at most 1 for 2 running pods"
    assert [("FewerSpares", told)] == [(reason.code, reason.text) for _, reason in outcome.report.complaints]


@pytest.mark.parametrize(("capability", "kept"), [(2, 0), (3, 1), (4, 1), (9, 1)])
def test_spares_are_kept_as_far_as_their_queue_goes(capability: int, kept: int) -> None:
    """A queue that may use no more than what its gang uses keeps nothing free for it."""
    world = _with(draw("r0[n0 n1 n2 n3]", node="cpu=1"), _queue("tiny", capability))
    owner = _gang("train", tasks=2, on="n0 n1", queue="tiny", marks=_spares(1))

    assert 2 - kept == _bound(allocate(world, owner, _gang("small", tasks=2, minimum=1)), "small")


def test_spares_are_charged_to_their_queue() -> None:
    """What a queue keeps free it cannot use for another job."""
    world = _with(draw("r0[n0..5]", node="cpu=1"), _queue("tiny", 4))
    owner = _gang("train", tasks=2, on="n0 n1", queue="tiny", marks=_spares(1))
    outcome = allocate(world, owner, _gang("more", tasks=2, queue="tiny"))

    assert (0, "QueueOverCapability") == (_bound(outcome, "more"), why(outcome, "more"))
    assert 2 == _bound(allocate(world, replaced(owner, marks={}), _gang("more", tasks=2, queue="tiny")), "more")


@pytest.mark.parametrize(("hard", "kept"), [(2, 0), (3, 1)])
def test_spares_are_kept_as_far_as_the_resource_quota_of_their_namespace_goes(hard: int, kept: int) -> None:
    """Pods that the API server would refuse need no room."""
    quota = manifest("v1", "ResourceQuota", {"name": "q", "namespace": "default"}, spec={"hard": {"cpu": str(hard)}})
    world = _with(draw("r0[n0 n1 n2 n3]", node="cpu=1"), quota)
    owner = _gang("train", tasks=2, on="n0 n1", marks=_spares(1))

    assert 2 - kept == _bound(allocate(world, owner, _gang("small", tasks=2, minimum=1)), "small")


@pytest.mark.parametrize(("priority", "expected"), [(-1, 0), (0, 0), (1, 1)])
def test_spares_are_open_to_whom_is_more_important(priority: int, expected: int) -> None:
    """They are kept from jobs of the same or a lower priority."""
    world = draw("r0[n0 n1 n2]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=_spares(1))

    assert expected == _bound(allocate(world, owner, _gang("other", tasks=1, priority=priority)), "other")


def test_spares_stay_closed_after_a_more_important_job_was_served() -> None:
    """What an important job leaves is kept from those after it."""
    world = draw("r0[n0 n1 n2 n3] r1[n4]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=_spares(1))
    gangs = (_gang("first", tasks=1, within=1, priority=9), _gang("later", tasks=3, minimum=1))
    outcome = allocate(world, owner, *gangs)

    assert (1, 1) == (_bound(outcome, "first"), _bound(outcome, "later"))


def test_spares_are_no_reason_to_evict_for_a_more_important_job() -> None:
    """An evicting action counts them as free for whom they are open to."""
    world = draw("r0[n0 n1 n2 n3]", node="cpu=1")
    owner = _gang("train", tasks=1, on="n0", marks=_spares(1), priority=5)
    low = _gang("low", tasks=2, minimum=1, on="n1 n2", priority=1)
    outcome = allocate(world, owner, low, _gang("urgent", tasks=2, priority=9), profile=PREEMPTING)

    assert 1 == len(outcome.report.evictions)


def test_borrowers_give_back_no_more_than_was_kept() -> None:
    """An owner that lacks many pods gets as many places from borrowers as its spares."""
    world = draw("r0[n0..5]", node="cpu=1")
    lent = _gang("lent", tasks=3, minimum=1, on="n3 n4 n5", marks={"tierwise.io/borrows-spares": "true"})
    busy = _gang("busy", tasks=2, on="n1 n2")
    one = _gang("train", tasks=2, within=1, on="n0 -", marks=_spares(9))
    three = replaced(one, tasks=4, on="n0 - - -")

    assert (1, 0) == tuple(len(allocate(world, owner, lent, busy).report.evictions) for owner in (one, three))


def test_an_owner_beyond_its_quota_evicts_no_borrower() -> None:
    """Room is of no use to a gang whose queue may use no more."""
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), _queue("tiny", 1))
    owner = _gang("train", tasks=2, within=1, on="n0 -", queue="tiny", marks=_spares(1))
    lent = _gang("lent", tasks=2, minimum=1, on="n1 n2", marks={"tierwise.io/borrows-spares": "true"})

    assert [] == [*allocate(world, owner, lent).report.evictions]


def test_another_place_is_kept_where_a_more_important_job_took_the_first() -> None:
    """A spare whose place is gone is kept elsewhere in the rack, while there is room."""
    world = draw("r0[n0 n1 n2 n3] r1[n4]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=_spares(1))
    first = _gang("first", tasks=1, priority=9, spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    outcome = allocate(world, owner, first, _gang("later", tasks=3, minimum=1))

    assert ({"n2": 1}, {"n4": 1}) == (placed(outcome, "first"), placed(outcome, "later"))


@pytest.mark.parametrize("last", ["train-a-0", "train-b-0"])
def test_which_pods_spares_are_like_does_not_depend_on_who_was_read_last(last: str) -> None:
    """Of two kinds with as many pods, spares are like the first pod by name, also where one takes another's place."""
    world = draw("r0[n0 n1]", node="cpu=3")
    owner = _gang("train", roles=(Role("a", 1, each="cpu=1"), Role("b", 1, each="cpu=2")), on="n0 n0", marks=_spares(1))
    raws = [*world.manifests, *owner.manifests(), *_gang("small", tasks=3, minimum=1).manifests()]
    later = {key_of_raw(raw): raw for raw in raws if key_of_raw(raw).name == last}
    gone = _gang("gone", tasks=1, each="cpu=9").manifests()
    reader = Reader(_keeping(1))
    objects = Objects.of((decode(raw), raw) for raw in (*gone, *raws) if raw not in later.values())
    reader.read(objects, 0.0)
    snapshot = reader.read(objects.changed(later, map(key_of_raw, gone)), 0.0)
    asked = effects(snapshot, cycle(snapshot, _keeping(1)))

    assert ["small-0", "small-1"] == sorted(effect.pod.name for effect in asked if isinstance(effect, Bind))


def _reclaiming(shares: str, action: str) -> Profile:
    actions = ("enqueue", action, "allocate", "backfill")
    return replaced(DEFAULT, actions=actions, tiers=(*DEFAULT.tiers, (PluginChoice(shares),)))


def _share(name: str, cpu: int, **more: object) -> Raw:
    """A queue that deserves so much, by its word or by its weight."""
    spec = {"weight": max(cpu, 1), "deserved": {"cpu": str(cpu)}, **more}
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name}, spec=spec, status={"state": "Open"})


@pytest.mark.parametrize("shares", ["capacity", "proportion"])
@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_spares_go_before_what_runs_in_their_queue(shares: str, action: str) -> None:
    """A queue that runs what it deserves and keeps a spare besides gives the spare, and none of its pods."""
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), _share("rich", 2), _share("poor", 1))
    owner = _gang("train", tasks=2, minimum=1, on="n0 n1", queue="rich", marks=_spares(1))
    outcome = allocate(world, owner, _gang("owed", tasks=1, queue="poor"), profile=_reclaiming(shares, action))

    assert ({"n2": 1}, []) == (placed(outcome, "owed"), [*outcome.report.evictions])


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(
    ("deserves", "asks", "reclaimable", "bound", "evicted"),
    [(1, 1, True, 1, 0), (2, 2, True, 0, 0), (0, 1, True, 0, 0), (1, 1, False, 0, 0)],
    ids=["owed", "owed more than spares", "owed nothing", "not reclaimable"],
)
def test_spares_are_open_to_queues_that_may_reclaim(
    action: str, deserves: int, asks: int, reclaimable: bool, bound: int, evicted: int
) -> None:
    """They are no reason to evict anybody of a queue that runs no more than it deserves."""
    rich = _share("rich", 2, reclaimable=reclaimable)
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), rich, _share("poor", deserves))
    owner = _gang("train", tasks=2, minimum=1, on="n0 n1", queue="rich", marks=_spares(1))
    outcome = allocate(world, owner, _gang("o", tasks=asks, queue="poor"), profile=_reclaiming("capacity", action))

    assert (bound, evicted) == (_bound(outcome, "o"), len(outcome.report.evictions))


def test_spares_are_not_taken_back_by_evicting_pods_of_their_quota() -> None:
    """An elastic quota that runs no more than its runtime gives nothing back for what is kept free for it."""
    spec = {"min": {"cpu": "2"}, "max": {"cpu": "9"}}
    quota = manifest(
        "scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", {"name": "e", "namespace": "default"}, spec=spec
    )
    choice = PluginChoice("elasticquota", {"delayEvictTime": "0s"})
    tiers = tuple(tuple(c if c.name != "elasticquota" else choice for c in tier) for tier in DEFAULT.tiers)
    profile = replaced(DEFAULT, actions=("enqueue", "allocate", "giveback"), tiers=tiers)
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), quota)
    own = {f"train-{i}": {"quota.scheduling.koordinator.sh/name": "e"} for i in range(2)}
    owner = _gang("train", tasks=2, minimum=1, on="n0 n1", labels=own, marks=_spares(1))

    assert [] == [*allocate(world, owner, profile=profile).report.evictions]


@pytest.mark.parametrize(("share", "kept"), [("own", 1), (0.5, 1), (0, 0)])
def test_spares_draw_from_the_account_of_idle_room(share: object, kept: int) -> None:
    """The node that is kept is charged to the queue of the gang; beyond the share none is kept, and its pods say so."""
    given = replaced(DEFAULT, action_arguments={"allocate": {"idleRoom": share}})
    owner = _gang("train", tasks=2, on="n0 n1", marks=_spares(1))
    outcome = allocate(draw("r0[n0 n1 n2 n3]", node="cpu=1"), owner, _gang("small", tasks=2, minimum=1), profile=given)

    assert 2 - kept == _bound(outcome, "small")
    account = outcome.report.turns.idle.accounts["default", "default"]
    assert (kept, False) == (account.nodes, account.owes)
    assert (["IdleRoomSpent"] if not kept else []) == [reason.code for _, reason in outcome.report.complaints]


def test_spares_end_when_the_share_is_spent_and_come_again_when_it_is_paid_back() -> None:
    """Half a node-hour keeps one node for half an hour, and once as much again for the gang that has waited longest."""
    given = replaced(DEFAULT, action_arguments={"allocate": {"idleRoom": 0.5}})
    owner = _gang("train", tasks=2, on="n0 n1", marks=_spares(1))
    objects, reader = objects_of(draw("r0[n0 n1 n2]", node="cpu=1"), owner), Reader(given)
    nodes, turns = list[float](), NO_TURNS
    for hours in (0, 0.25, 2, 2.25, 60):
        report = cycle(reader.read(objects, 3600 * hours, turns), given)
        account = report.turns.idle.accounts.get(("default", "default"))
        nodes.append(account.nodes if account is not None else 0)
        turns = report.turns

    assert [1, 1, 0, 0, 1] == nodes
