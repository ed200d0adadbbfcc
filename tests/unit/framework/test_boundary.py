"""The boundary around plugins: whatever a method does, the cycle ends, the others are served, the failure is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import count
from itertools import cycle as cycle_through
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from tests.support.draw import draw, objects_of
from tests.support.faulty import TREE, Sound, busy_gangs, faulty, sound

from tierwise.actions.diagnosis.inspection import PodInspector
from tierwise.config.actions import ACTIONS as ALL_ACTIONS
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.declaration import METHODS, POINTS, takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Factory, Filter, Preparation, Scorer, Tie
from tierwise.framework.ledger import Ledger
from tierwise.framework.pipeline import PluginError
from tierwise.framework.placer import KeptScores
from tierwise.framework.pod_rules import AtMost, Near, PodRules
from tierwise.framework.report import CycleReport
from tierwise.model.arrays import Ints
from tierwise.model.job import Gather, Job, PodSet, Reason, Shape, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.plugins import PLUGINS
from tierwise.scheduler import cycle, open_cycle
from tierwise.snapshot.builder import build

ACTIONS = {
    "gang": ("enqueue", "allocate", "backfill", "gangpreempt", "gangreclaim", "giveback"),
    "classic": ("enqueue", "allocate", "backfill", "preempt", "reclaim"),
    "evicting first": ("gangreclaim", "giveback", "allocate"),
    "by job": ("allocate", "jobpreempt", "podpreempt", "quotapreempt"),
}


def raising(*_: object) -> object:
    """What every method may do."""
    raise RuntimeError("out of order")


def exiting(*_: object) -> object:
    """The same with what ends a program."""
    raise SystemExit(1)


HUGE = "x" * 1_000_000

BAD: Mapping[str, list[object]] = {
    "why_not": [None, "no", np.zeros(1, dtype=np.uint16), np.zeros(9), np.full(4, 999, dtype=np.uint16)],
    "concerns": [None, "yes"],
    "own_row": [None, "yes"],
    "order_free": [None, "yes"],
    "room": [3, "much", np.zeros(1, dtype=np.int64), np.zeros(4)],
    "ties": [
        None,
        ("zone",),
        (Tie(np.zeros(1, dtype=np.int64), frozenset()),),
        (Tie(np.full(4, -2), frozenset()),),
        (Tie(np.zeros(4, dtype=np.int64), [0]),),  # type: ignore[arg-type]
    ],
    "pod_rules": [
        (),
        "rules",
        PodRules({0: np.zeros(1, dtype=bool)}),
        PodRules(records=("apart",)),  # type: ignore[arg-type]
        PodRules(records=(AtMost(frozenset(), np.full(4, -2), 1),)),
        PodRules(records=(Near(frozenset(), frozenset(), np.full(4, 1), np.zeros(1, dtype=bool), True),)),
    ],
    "shared_places": ["zones", np.zeros(1, dtype=np.int64), np.zeros(4)],
    "why_not_now": [None, np.zeros(1, dtype=np.int64), np.zeros(99, dtype=np.uint16), [0, 0]],
    "effect": [None, "free", 3, float("nan"), -1, 10**400, HUGE, [HUGE]],
    "score": [
        *(1.0, np.zeros(99), np.full(4, np.nan), np.full(4, np.inf), np.zeros(4, dtype=np.int64), "high"),
        *(np.full(4, 1e300), np.zeros((4, 4)), np.zeros(0), np.array([HUGE] * 4), np.array([None] * 4), HUGE),
    ],
    "stale": [None, 3, slice(None), slice(0, 99)],
    "score_rows": [np.nan, 1, np.zeros(99), np.full(4, np.nan), np.zeros(4, dtype=np.int64), "high"],
    "score_leaves": [1.0, np.zeros(99), np.full(3, np.nan), np.zeros(3, dtype=np.int64), "high"],
    "score_domains": [None, np.zeros(99), np.array([np.nan]), 1],
    "room_ahead": [1.0, np.zeros(99), np.full(3, np.nan), np.zeros(3, dtype=np.int64), "high"],
    "limit": ["two", 1.5],
    "gradients": [None, 7, [None], [np.zeros(0, dtype=np.int64)], [np.array([99])], [[0]]],
    "propose": ["r0", 1],
    "gather_options": [None, [1], (1,)],
    "queue_key": [None, 1, ("a",), (float("nan"),), [0.0]],
    "job_key": [None, 1, ("a",), (float("nan"),), [0.0], (HUGE,), HUGE, (1j,), (None,), ((0.0,),)],
    "sub_job_key": [None, ("a",)],
    "task_key": [None, ("a",)],
    "victim_queue_key": [None, ("a",)],
    "admit": [True, "no", HUGE, Reason(HUGE, "faulty", "no")],
    "may_enqueue": [False, "no", Reason(HUGE, "faulty", "no")],
    "must_enqueue": [None, "yes"],
    "quota_exceeded": [True, "over"],
    "global_queue": [None, 1],
    "debts": [None, [1]],
    "paid_with": [None, np.array([999]), np.array([True])],
    "entitled": [None, np.zeros(1, dtype=np.int64)],
    "protects_up_to": [None, np.zeros(1, dtype=np.int64)],
    "overused": [True],
    "may_reclaim": [True],
    "protect": [None, True, np.zeros(99, dtype=bool), np.zeros(1)],
    "protect_alone": [None, True, np.zeros(99, dtype=bool), np.zeros(1)],
    "protect_whole": [None, True, np.zeros(99, dtype=bool), np.zeros(1)],
    "select_victims": [np.array([99]), "all", np.array([0, 0])],
    "lost_seconds": [None, 1.0, np.zeros(99), np.array(["a"]), [0.0]],
    "gained_seconds": [None, "1h", float("nan"), -1.0],
    "notice_seconds": [None, "1h", float("nan"), -1.0],
    "declines": [None, "yes"],
    "never_fits": [True],
    "defer": [True, "later"],
    "starving": [None, "yes"],
    "complaints": [None, [1], [("pod", "no")]],
    "before_bind": [True, "later", (), Preparation(waits="later"), Preparation(writes=(1,))],  # type: ignore[arg-type]
    "figures": [None, [], [1] * 4],
}
CALLED_ELSEWHERE = {
    "entitled",
    "gather_options",
    "order_free",
    "protects_up_to",
    "score_leaves",
    "score_rows",
    "ties",
}
"""By those who look at queues, where running pods are protected, for jobs that are gathered, for plain pods that nobody
looks on, or where scores alone find no place."""


@cache
def busy() -> Snapshot:
    """The cluster of all these tests; nothing in a snapshot changes."""
    return build(objects_of(draw(TREE, queues="default q r"), *busy_gangs()), now=0.0)


def run(factory: Factory, actions: tuple[str, ...], probe: str = "", *, at_once: bool = False) -> CycleReport:
    """One cycle of the default profile with the plugin in front."""
    snapshot = busy()
    filters = PluginChoice("conformance"), PluginChoice("priority"), PluginChoice("gang"), PluginChoice("predicates")
    tiers = ((PluginChoice("faulty"),), filters)
    profile = replace(DEFAULT, actions=actions, tiers=tiers, immediate_preemption=at_once)
    looks = PodInspector(probe).inspect if probe else None
    return cycle(snapshot, profile, inspect=looks, plugins={**PLUGINS, "faulty": factory})


def named(report: CycleReport) -> set[tuple[str, str, str]]:
    """The failures of a report."""
    return {(failure.plugin, failure.point, failure.method) for failure in report.failures}


@cache
def asked_by(actions: tuple[str, ...], *, at_once: bool = False) -> set[str]:
    """The methods that a cycle asks of a sound plugin; one with a fault is asked no other before it fails."""
    asked: set[str] = set()

    def noting(method: str) -> Callable[..., object]:
        def act(self: Sound, *args: object, **kwargs: object) -> object:
            asked.add(method)
            return sound(method)(self, *args, **kwargs)

        return act

    watched = takes_part(*POINTS.values())(type("Watched", (Sound,), {name: noting(name) for name in METHODS}))
    run(watched, actions, probe="default/fits-0", at_once=at_once)
    return asked


def test_a_sound_plugin_does_not_fail() -> None:
    """The plugin that the others are made of takes part everywhere, and nothing is wrong with it."""
    for actions in ACTIONS.values():
        report = run(faulty("admit", lambda job: None), actions, probe="default/fits-0")

        assert not report.failures, report.failures
        assert "default/fits" in {decision.job.key for decision in report.decisions if decision.bound}


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_raises_or_answers_wrongly_is_named(method: str) -> None:
    """Whichever actions ask: the cycle ends, and plugin, point and method are in the report, with nothing else.

    Each wrong answer is given to one of the lists of actions that ask, in turn.
    """
    expected = ("faulty", METHODS[method].__name__, method)
    asking = cycle_through([actions for actions in ACTIONS.values() if method in asked_by(actions)])
    for act, actions in zip((raising, *((lambda *_, bad=bad, **__: bad) for bad in BAD[method])), asking, strict=False):
        seen = named(run(faulty(method, act), actions, probe="default/fits-0"))
        assert seen == (set() if method in CALLED_ELSEWHERE else {expected}), act


# Every action by itself, and those of Kubernetes' profiles as they run there: right after the turn of a job.
ALONE = {
    **{name: (False, (name,)) for name in ALL_ACTIONS},
    "at once": (True, ("enqueue", "allocate", "jobpreempt", "quotapreempt", "podpreempt")),
}


@pytest.mark.parametrize("action", sorted(ALONE))
def test_every_action_is_inside_the_boundary(action: str) -> None:
    """Whatever an action asks of a plugin may raise, or exit: the cycle ends, and names plugin, point and method."""
    at_once, actions = ALONE[action]
    asked = asked_by(actions, at_once=at_once)

    assert asked >= {"admit"} if action != "enqueue" else {"may_enqueue"} <= asked
    for method in sorted(asked):
        for act in (raising, exiting) if action == "gangpreempt" else (raising,):
            report = run(faulty(method, act), actions, probe="default/fits-0", at_once=at_once)
            assert {("faulty", METHODS[method].__name__, method)} == named(report), (method, act)


def test_every_point_is_reached_by_some_action_or_reader() -> None:
    """What no action asks here is asked by those who look at queues, or for some jobs and pods alone."""
    for method in CALLED_ELSEWHERE:
        for act in (raising, exiting, *((lambda *_, bad=bad, **__: bad) for bad in BAD[method])):
            snapshot = busy()
            profile = replace(DEFAULT, tiers=((PluginChoice("faulty"),),))
            factory = faulty(method, act, without=("score_leaves",) if method == "score_rows" else ())
            opened = open_cycle(snapshot, profile, plugins={"faulty": factory})
            if method == "entitled":
                assert opened.pipeline.entitled() is None
            elif method == "protects_up_to":
                assert opened.pipeline.protects_up_to() is None
            elif method in ("order_free", "ties"):
                with pytest.raises(PluginError):
                    getattr(opened.pipeline, method)(snapshot.shapes[0])
            elif method.startswith("score"):
                asks = [Ask(pod_set.shape, sub, job) for job, sub, pod_set in _pending(snapshot)]
                with pytest.raises(PluginError):
                    KeptScores(opened).best(next(ask for ask in asks if not opened.pipeline.moving(ask.shape)))
            else:
                with pytest.raises(PluginError):
                    opened.pipeline.gather_options(replace(snapshot.jobs[0], gather=Gather()), 2)
            assert [("faulty", method)] == [(found.plugin, found.method) for found in opened.pipeline.failures]


def _pending(snapshot: Snapshot) -> Iterator[tuple[Job, SubJob, PodSet]]:
    return ((job, sub, pod_set) for job in snapshot.jobs for sub in job.subs for pod_set in sub.pod_sets)


class _UnspeakableError(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_without_words_is_told_by_its_name() -> None:
    """What describing a failure raises is inside the boundary too."""

    def act(*_: object) -> object:
        raise _UnspeakableError

    (failure,) = run(faulty("admit", act), ACTIONS["gang"]).failures

    assert "_UnspeakableError" == failure.error


# What a plugin may make of the array that it should answer with.
SPOILED: dict[str, Callable[[NDArray[Any]], object]] = {
    "no array": lambda good: good.tolist(),
    "nothing": lambda good: None,
    "no dimension": lambda good: np.array(good.flat[0] if good.size else 0, dtype=good.dtype),
    "two dimensions": lambda good: good.reshape((1, *good.shape)),
    "another dtype": lambda good: good.astype(np.float32 if good.dtype.kind != "f" else np.int64),
    "objects": lambda good: good.astype(object),
    "masked": lambda good: np.ma.masked_array(good),
}
LENGTHS: dict[str, Callable[[NDArray[Any]], object]] = {
    "length 1": lambda good: good[:1],
    "one short": lambda good: good[:-1],
    "one too many": lambda good: np.append(good, good[:1]) if good.size else np.zeros(1, dtype=good.dtype),
}
NUMBERS: dict[str, Callable[[NDArray[Any]], object]] = {
    "not a number": lambda good: np.where(np.arange(len(good)) == 0, np.nan, good),
    "endless": lambda good: np.where(np.arange(len(good)) == 0, np.inf, good),
    "endless below": lambda good: np.where(np.arange(len(good)) == 0, -np.inf, good),
    "too large": lambda good: np.where(np.arange(len(good)) == 0, 1e300, good),
    "larger than may be": lambda good: np.where(np.arange(len(good)) == 0, 1e10, good),
}
OPTIONAL = {"score", "select_victims"}
ARRAYS: Mapping[str, Mapping[str, Callable[[NDArray[Any]], object]]] = {
    "why_not": SPOILED | LENGTHS,
    "why_not_now": SPOILED | LENGTHS,
    "score": SPOILED | LENGTHS | NUMBERS,
    "score_domains": SPOILED | {"one too many": LENGTHS["one too many"]} | NUMBERS,
    "protect": SPOILED | {"one too many": LENGTHS["one too many"]},
    "protect_alone": SPOILED | {"one too many": LENGTHS["one too many"]},
    "protect_whole": SPOILED | {"one too many": LENGTHS["one too many"]},
    "gradients": SPOILED | {"out of range": lambda good: good + 99, "twice": lambda good: np.append(good, good)},
    "paid_with": SPOILED | {"out of range": lambda good: good + 99, "twice": lambda good: np.append(good, good)},
    "select_victims": SPOILED | {"out of range": lambda good: good + 99, "twice": lambda good: np.append(good, good)},
}


def _good(plugin: Sound, method: str, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> NDArray[Any]:
    """An answer that is one."""
    if method == "select_victims":
        return np.arange(len(args[1]))
    if method == "paid_with":
        return np.arange(min(1, len(args[1])))
    found: Any = sound(method)(plugin, *args, **kwargs)
    return found[0] if method == "gradients" else found  # type: ignore[no-any-return]


@pytest.mark.parametrize(("method", "how"), [(m, how) for m, spoiled in ARRAYS.items() for how in spoiled])
def test_arrays_that_are_no_answer_are_refused(method: str, how: str) -> None:
    """Of another length (also 1, which numpy would spread over all nodes), dtype or type, or with odd numbers."""

    def act(self: Sound, *args: object, **kwargs: object) -> object:
        answer = ARRAYS[method][how](_good(self, method, args, kwargs))
        return (answer,) if method == "gradients" else answer

    factory = faulty(method, raising)
    setattr(factory, method, act)
    if method in OPTIONAL and how == "nothing":
        assert not run(factory, ACTIONS["gang"]).failures
        return
    asking = next(ACTIONS[name] for name in ("gang", "evicting first", "classic") if method in asked_by(ACTIONS[name]))
    assert {("faulty", METHODS[method].__name__, method)} == named(run(factory, asking))


def test_candidates_outside_the_domain_that_is_searched_are_refused() -> None:
    """A sub-group stays inside the domain that was found for its job, whatever a plugin says."""
    factory = faulty("gradients", lambda gang, within, evicting: (np.array([0]),))
    opened = open_cycle(busy(), replace(DEFAULT, tiers=((PluginChoice("faulty"),),)), plugins={"faulty": factory})
    job = busy().jobs[0]

    assert [[0]] == [group.tolist() for group in opened.pipeline.gradients(job, 0)]
    with pytest.raises(PluginError, match="faulty failed in gradients: expected domains below r0"):
        list(opened.pipeline.gradients(job, 1))


def _about_waits(view: CycleView, args: tuple[object, ...]) -> bool:
    """Whether a call is about the gang that is failed on."""
    for arg in args:
        key = getattr(arg, "key", "") if isinstance(arg, Job) else ""
        job = getattr(arg, "job", None)
        number = getattr(arg, "job_number", None) if isinstance(arg, SubJob) else None
        shape = getattr(arg, "number", None) if isinstance(arg, Shape) else None
        shapes = {pod_set.shape.number for j in view.jobs if j.key == "default/waits" for pod_set in j.pod_sets()}
        if key == "default/waits" or (isinstance(job, Job) and job.key == "default/waits"):
            return True
        if (number is not None and view.jobs[number].key == "default/waits") or shape in shapes:
            return True
    return False


# The first four are asked of every job in its turn, the others only where its turn comes so far.
COSTS = [
    "admit",
    "why_not",
    "concerns",
    "why_not_now",
    "effect",
    "score",
    "stale",
    "score_domains",
    "limit",
    "gradients",
]


@pytest.mark.parametrize("actions", sorted(ACTIONS))
@pytest.mark.parametrize("method", [*COSTS, "quota_exceeded", "defer", "starving", "job_key", "sub_job_key"])
def test_a_plugin_that_fails_on_one_job_costs_the_others_nothing(method: str, actions: str) -> None:
    """The others are placed as if it did not fail; the one hears which plugin and method cost it the turn."""

    def failing(self: Sound, *args: object, **kwargs: object) -> object:
        if _about_waits(self.view, args):
            raise RuntimeError("not this one")
        return sound(method)(self, *args, **kwargs)

    factory = faulty(method, raising)
    setattr(factory, method, failing)
    report = run(factory, ACTIONS[actions])

    bound = {decision.job.key for decision in report.decisions if decision.bound}
    assert {"default/fits"} <= bound
    rejection = report.rejections.get("default/waits")
    if method in COSTS[:4] and rejection is not None and method in {failure.method for failure in report.failures}:
        reasons = [rejection.reason, *(child.reason for child in rejection.children)]
        assert any(r.code == "PluginFailed" and f"faulty failed in {method}" in r.text for r in reasons), reasons


def test_a_plugin_that_cannot_be_made_lets_nobody_in() -> None:
    """Nothing is bound without a filter's say, and nobody is evicted; every job hears why."""

    @takes_part(POINTS["Gate"])
    class Broken(Sound):
        def __init__(self, arguments: Arguments, view: CycleView) -> None:
            raise OSError("no configuration")

        def admit(self, job: Job) -> Reason | None:
            return None

    for actions in ACTIONS.values():
        report = run(Broken, actions)

        assert not report.decisions
        assert not report.evictions
        assert {("faulty", "", "__init__")} == named(report)
        told = {rejection.reason.code for rejection in report.rejections.values()}
        assert {"PluginFailed"} == told - {"NoBackfillAction"}  # of pods that no action would have looked at


def test_a_victim_filter_that_fails_spares_everybody() -> None:
    """The safe side of a veto is the veto."""
    assert run(faulty("admit", lambda job: None), ACTIONS["gang"]).evictions
    for act in (raising, lambda cause, victims: np.zeros(1, dtype=bool)):
        assert not run(faulty("protect", act, without=("protect_whole",)), ACTIONS["gang"]).evictions


def test_what_follows_the_ledger_is_inside_the_boundary() -> None:
    """A follower or a tally that raises is its plugin's failure."""

    @takes_part(POINTS["JobOrder"])
    class Follows:
        def __init__(self, arguments: Arguments, view: CycleView) -> None:
            view.ledger.follow(self)

        def count(self, ledger: object, shape: object, rows: object, counts: object) -> None:
            raise RuntimeError("lost count")

        def job_key(self, job: Job) -> tuple[float, ...]:
            return (0.0,)

    report = run(Follows, ACTIONS["gang"])

    assert not report.decisions
    assert {("faulty", "", "count")} == named(report)


def _arrays(value: object, depth: int = 0) -> Iterator[NDArray[Any]]:
    """Every array in an argument, however deep."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, msgspec.Struct) and depth < 4:
        for name in value.__struct_fields__:
            yield from _arrays(getattr(value, name), depth + 1)
    elif isinstance(value, tuple) and depth < 4:
        for inner in value[:4]:
            yield from _arrays(inner, depth + 1)


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_no_argument_can_be_written_to(name: str) -> None:
    """Whatever a plugin is given at any point, with all that stands in it, is for reading alone."""
    writeable: set[str] = set()
    asked: set[str] = set()

    def looking(method: str) -> Callable[..., object]:
        def act(self: Sound, *args: object, **kwargs: object) -> object:
            asked.add(method)
            open_ = (array for arg in (*args, *kwargs.values()) for array in _arrays(arg))
            writeable.update(f"{method}: {array.dtype} {array.shape}" for array in open_ if array.flags.writeable)
            return sound(method)(self, *args, **kwargs)

        return act

    made = type("Looking", (Sound,), {method: looking(method) for method in METHODS})
    report = run(takes_part(*POINTS.values())(made), ACTIONS[name], probe="default/fits-0")

    assert not report.failures, report.failures
    assert {"paid_with"} >= {found.partition(":")[0] for found in writeable}, writeable  # given its own debt back
    assert {"score", "score_domains", "quota_exceeded"} <= asked


def test_a_plugin_that_writes_into_its_argument_fails() -> None:
    """It is named, the cycle ends, and nothing of what it wrote is there."""

    def write(ask: Ask, span: slice, fits: NDArray[np.bool_]) -> object:
        fits[:] = True
        return np.zeros(span.stop - span.start)

    for actions in ACTIONS.values():
        report = run(faulty("score", write), actions)

        assert ("faulty", "Scorer", "score") in named(report)
        assert any("read-only" in failure.error for failure in report.failures)


class _Follower:
    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        ledger.idle[:] = 0


WRITES: dict[str, Callable[[Ledger], object]] = {
    "an amount": lambda ledger: ledger.idle.fill(10**6),
    "a sum": lambda ledger: ledger.domain_idle.fill(0),
    "a count": lambda ledger: ledger.ready.fill(9),
    "what a queue uses": lambda ledger: ledger.queue_used.fill(0),
    "the rows of others": lambda ledger: ledger.held.clear(),
    "rows of a shape": lambda ledger: np.copyto(next(iter(ledger.held.values())), 0),
    "an attribute": lambda ledger: setattr(ledger, "idle", None),
    "a placement": lambda ledger: ledger.vacate(0, np.zeros(1, dtype=np.int64), 10**6),
    "the journal": lambda ledger: ledger.rewind(0),
    "others' tallies": lambda ledger: ledger.unregister((0, 0)),
    "a flag": lambda ledger: setattr(ledger, "any_releasing", True),
    "by a follower": lambda ledger: ledger.follow(_Follower()),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_plugin_can_but_read_the_ledger(what: str) -> None:
    """Who writes into it fails and is named; what others decide is as without it."""

    class Writing(Sound):
        def __init__(self, arguments: Arguments, view: CycleView) -> None:
            super().__init__(arguments, view)
            WRITES[what](view.ledger)

    writing = takes_part(Scorer)(type("Writing", (Writing,), {n: sound(n) for n in ("effect", "score", "stale")}))
    report = run(writing, ACTIONS["gang"])
    (failure,) = {(one.plugin, one.method) for one in report.failures}

    assert ("faulty", "count" if what == "by a follower" else "__init__") == failure


def test_a_plugin_reads_the_ledger_as_it_is() -> None:
    """Amounts change under its eyes as tasks are placed, and its follower is told."""
    seen: list[int] = []

    class Reading(Sound):
        def __init__(self, arguments: Arguments, view: CycleView) -> None:
            super().__init__(arguments, view)
            self.idle = view.ledger.idle
            view.ledger.follow(self)

        def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
            seen.append(int(self.idle[0].sum()))
            assert not ledger.idle.flags.writeable

    reading = takes_part(Scorer)(type("Reading", (Reading,), {n: sound(n) for n in ("effect", "score", "stale")}))

    assert () == tuple(run(reading, ACTIONS["gang"]).failures)
    assert 1 < len(set(seen))


@pytest.mark.parametrize(
    ("method", "act"),
    [
        ("gradients", lambda gang, within, evicting=False: (np.array([within]) for _ in count())),
        ("complaints", lambda: ((None, None) for _ in count())),
        ("debts", lambda: (1 for _ in count())),
        ("job_key", lambda job: (0.0 for _ in count())),
    ],
)
def test_answers_without_end_are_failures(method: str, act: Callable[..., object]) -> None:
    """A plugin that never comes to the end of its answer is named, and the cycle ends."""
    report = run(faulty(method, act), ACTIONS["gang"])

    assert method in {failure.method for failure in report.failures}


def test_filters_that_contradict_each_other_end() -> None:
    """Room for none where nothing speaks against it: no row is tried for ever, and no gang is placed by it."""
    points = Filter, Scorer
    factory = faulty("room", lambda shape: np.zeros(4, dtype=np.int64), *points)
    assert isinstance(factory, type)
    made = type("Contrary", (factory,), {"concerns": lambda self, shape: True})
    report = run(takes_part(*points)(made), ACTIONS["gang"])

    assert "default/close" not in {decision.job.key for decision in report.decisions if decision.bound}
