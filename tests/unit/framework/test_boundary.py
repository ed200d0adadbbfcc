"""The boundary around plugins: whatever a method does, the cycle ends, the others are served, the failure is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.draw import Gang, draw, gang, groups, objects_of

from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.declaration import METHODS, POINTS, takes_part
from tierwise.framework.extension import Arguments, CycleView, Debt, Factory, Preparation, Purpose, ScoreEffect
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, SubJob
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape
from tierwise.plugins import PLUGINS
from tierwise.scheduler import cycle, inspector_for
from tierwise.snapshot.builder import build

ACTIONS = {
    "gang": ("enqueue", "allocate", "backfill", "gangpreempt", "gangreclaim", "giveback"),
    "classic": ("enqueue", "allocate", "backfill", "preempt", "reclaim"),
    "evicting first": ("gangreclaim", "giveback", "allocate"),
    "by job": ("allocate", "jobpreempt", "podpreempt", "quotapreempt"),
}


class Sound:
    """A plugin with every method, which has no opinion on anything."""

    answers = frozenset(Purpose)
    counts = False

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self.view = view
        self.neutral: Mapping[str, Callable[..., object]] = {
            "why_not": lambda shape: np.zeros(len(view.nodes), dtype=np.uint16),
            "concerns": lambda shape: shape.number % 2 == 0,
            "why_not_now": lambda shape, span: np.zeros(span.stop - span.start, dtype=np.uint16),
            "effect": lambda ask: ScoreEffect.FREE,
            "score": lambda ask, span, fits: np.zeros(span.stop - span.start),
            "stale": lambda ask, row: slice(0, len(view.nodes)),
            "score_domains": lambda sub, domains, copies=None: np.zeros(len(domains)),
            "limit": lambda gang: 9,
            "gradients": lambda gang, within, evicting=False: (np.array([within]),),
            "propose": lambda units, candidates: None,
            "gather_options": lambda job, count: (),
            "needs_gang": lambda: True,
            "global_queue": lambda: False,
            "must_enqueue": lambda job: False,
            "starving": lambda job: True,
            "spare": lambda cause, victims: np.zeros(len(victims), dtype=bool),
            "debts": lambda: (Debt("q", np.ones(len(view.axis), dtype=np.int64), "it owes", due=True),),
            "paid_with": lambda debt, running: np.zeros(0, dtype=np.int64),
            "entitled": lambda: np.zeros((len(view.axis), len(view.queues)), dtype=np.int64),
            "complaints": lambda: (),
            "figures": lambda ask: [{}] * len(view.nodes),
            "queue_key": lambda queue: (0.0,),
            "job_key": lambda job: (0.0,),
            "sub_job_key": lambda sub: (0.0,),
            "task_key": lambda pod_set: (0.0,),
            "victim_queue_key": lambda queue, taker: (0.0,),
        }


def _sound(method: str) -> Callable[..., object]:
    def act(self: Sound, *args: object, **kwargs: object) -> object:
        return self.neutral.get(method, lambda *_, **__: None)(*args, **kwargs)

    return act


def raising(*_: object) -> object:
    """What every method may do."""
    raise RuntimeError("out of order")


BAD: Mapping[str, list[object]] = {
    "why_not": [None, "no", np.zeros(1, dtype=np.uint16), np.zeros(9), np.full(4, 999, dtype=np.uint16)],
    "concerns": [None, "yes"],
    "why_not_now": [None, np.zeros(1, dtype=np.int64), np.zeros(99, dtype=np.uint16), [0, 0]],
    "effect": [None, "free", 3],
    "score": [None, 1.0, np.zeros(99), np.full(4, np.nan), np.full(4, np.inf), np.zeros(4, dtype=np.int64), "high"],
    "stale": [None, 3, slice(None), slice(0, 99)],
    "score_domains": [None, np.zeros(99), np.array([np.nan]), 1],
    "limit": ["two", 1.5],
    "gradients": [None, 7, [None], [np.zeros(0, dtype=np.int64)], [np.array([99])], [[0]]],
    "propose": ["r0", 1],
    "gather_options": [None, [1], (1,)],
    "queue_key": [None, 1, ("a",), (float("nan"),), [0.0]],
    "job_key": [None, 1, ("a",), (float("nan"),), [0.0]],
    "sub_job_key": [None, ("a",)],
    "task_key": [None, ("a",)],
    "victim_queue_key": [None, ("a",)],
    "admit": [True, "no"],
    "may_enqueue": [False, "no"],
    "must_enqueue": [None, "yes"],
    "needs_gang": [None, "yes"],
    "quota_exceeded": [True, "over"],
    "global_queue": [None, 1],
    "debts": [None, [1]],
    "paid_with": [None, np.array([999]), np.array([True])],
    "entitled": [None, np.zeros(1, dtype=np.int64)],
    "overused": [True],
    "may_reclaim": [True],
    "spare": [None, True, np.zeros(99, dtype=bool), np.zeros(1)],
    "select_victims": [np.array([99]), "all", np.array([0, 0])],
    "never_fits": [True],
    "defer": [True, "later"],
    "starving": [None, "yes"],
    "complaints": [None, [1], [("pod", "no")]],
    "before_bind": [True, "later", (), Preparation(waits="later"), Preparation(writes=(1,))],  # type: ignore[arg-type]
    "figures": [None, [], [1] * 4],
}
CALLED_ELSEWHERE = {"entitled", "gather_options"}
"""By those who look at queues, or for jobs that are gathered."""


def faulty(method: str, act: Callable[..., object]) -> Factory:
    """The sound plugin with one method replaced."""
    methods = {name: _sound(name) for name in METHODS}
    methods[method] = lambda self, *args, **kwargs: act(*args, **kwargs)
    made = type("Faulty", (Sound,), methods)
    factory: Factory = takes_part(*POINTS.values())(made)
    return factory


def objects() -> list[Gang]:
    """Running gangs of two queues; gangs that wait: one that fits, one that must evict, one that must reclaim."""
    return [
        gang("run", tasks=2, each="cpu=8", on="n0 n1", priority=1),
        gang("other", tasks=1, each="cpu=8", on="n2", priority=1, queue="q"),
        gang("fits", tasks=1, each="cpu=2", priority=5),
        gang("waits", tasks=2, each="cpu=7", priority=9, within=1),
        gang("reclaims", tasks=1, each="cpu=6", priority=5, queue="r"),
        gang("effort", tasks=1, each="", priority=5),
        gang("close", tasks=2, each="cpu=1", priority=5, within=1),
        gang("subs", groups=(groups(2, 1, within=1, each="cpu=1"),), priority=4),
        gang("late", tasks=1, each="cpu=1", priority=5, phase="Pending"),
    ]


def run(factory: Factory, actions: tuple[str, ...], probe: str = "") -> CycleReport:
    """One cycle of the default profile with the plugin in front."""
    world = draw("r0[n0 n1] r1[n2 n3]", queues="default q r")
    snapshot = build(objects_of(world, *objects()), now=0.0)
    filters = PluginChoice("conformance"), PluginChoice("priority"), PluginChoice("gang"), PluginChoice("predicates")
    profile = replace(DEFAULT, actions=actions, tiers=((PluginChoice("faulty"),), filters))
    looks = inspector_for(probe) if probe else None
    return cycle(snapshot, profile, inspector=looks, plugins={**PLUGINS, "faulty": factory})


def named(report: CycleReport) -> set[tuple[str, str, str]]:
    """The failures of a report."""
    return {(failure.plugin, failure.point, failure.method) for failure in report.failures}


def test_a_sound_plugin_does_not_fail() -> None:
    """The plugin that the others are made of takes part everywhere, and nothing is wrong with it."""
    for actions in ACTIONS.values():
        report = run(faulty("admit", lambda job: None), actions, probe="default/fits-0")

        assert not report.failures, report.failures
        assert "default/fits" in {decision.job.key for decision in report.decisions if decision.bound}


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_raises_or_answers_wrongly_is_named(method: str) -> None:
    """In every action: the cycle ends, and plugin, point and method are in the report, with nothing else."""
    expected = ("faulty", METHODS[method].__name__, method)
    for act in (raising, *((lambda *_, bad=bad, **__: bad) for bad in BAD[method])):
        seen = set()
        for actions in ACTIONS.values():
            seen |= named(run(faulty(method, act), actions, probe="default/fits-0"))
        assert seen == (set() if method in CALLED_ELSEWHERE else {expected}), act


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
        return _sound(method)(self, *args, **kwargs)

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
        assert {"PluginFailed"} == {r.reason.code for r in report.rejections.values()}


def test_a_victim_filter_that_fails_spares_everybody() -> None:
    """The safe side of a veto is the veto."""
    assert run(faulty("admit", lambda job: None), ACTIONS["gang"]).evictions
    for act in (raising, lambda cause, victims: np.zeros(1, dtype=bool)):
        assert not run(faulty("spare", act), ACTIONS["gang"]).evictions


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
