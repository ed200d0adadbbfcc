"""A plugin that takes part in everything and has no opinion, and the same with one method that fails.

Used in cycles of their own (tests/unit) and, as a plugin that is installed, in the live loop (tests/contract).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from tests.support.draw import Gang, gang, groups

from tierwise.framework.declaration import METHODS, POINTS, takes_part
from tierwise.framework.extension import Arguments, CycleView, Debt, Factory, Purpose, ScoreEffect
from tierwise.model.job import Reason

__all__ = ["NONSENSE", "TREE", "Faulty", "Sound", "busy_gangs", "faulty", "sound"]

TREE = "r0[n0 n1] r1[n2 n3]"


class Sound:
    """A plugin with every method, which has no opinion on anything."""

    answers = frozenset(Purpose)
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self.view = view
        self.fails = arguments.get("method", "")
        self.answer = str(arguments.get("answer", ""))
        self.neutral: Mapping[str, Callable[..., object]] = {
            "why_not": lambda shape: np.zeros(len(view.nodes), dtype=np.uint16),
            "concerns": lambda shape: shape.number % 2 == 0,
            "own_row": lambda shape: False,
            "order_free": lambda shape: True,
            "room": lambda shape: None,
            "ties": lambda shape: (),
            "pod_rules": lambda shapes: None,
            "why_not_now": lambda shape, span: np.zeros(span.stop - span.start, dtype=np.uint16),
            "effect": lambda ask: ScoreEffect.FREE,
            "score": lambda ask, span, fits: np.zeros(span.stop - span.start),
            "stale": lambda ask, row: slice(0, len(view.nodes)),
            "score_rows": lambda ask, rows: np.zeros(len(range(*rows.indices(len(view.nodes))))),
            "score_leaves": lambda ask: np.zeros(len(view.topology)),
            "score_domains": lambda sub, domains, copies=None: np.zeros(len(domains)),
            "limit": lambda gang: 9,
            "gradients": lambda gang, within, evicting=False: (np.array([within]),),
            "propose": lambda units, candidates: None,
            "gather_options": lambda job, count: (),
            "global_queue": lambda: False,
            "must_enqueue": lambda job: False,
            "starving": lambda job: True,
            "protect": lambda cause, victims: np.zeros(len(victims), dtype=bool),
            "protect_alone": lambda cause, victims: np.zeros(len(victims), dtype=bool),
            "protect_whole": lambda cause, victims, bundles: np.zeros(len(victims), dtype=bool),
            "lost_seconds": lambda running, victims: np.zeros(len(victims)),
            "gained_seconds": lambda job: 3600.0,
            "notice_seconds": lambda job: 0.0,
            "declines": lambda job: False,
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


def sound(method: str) -> Callable[..., object]:
    """A method as the sound plugin has it."""

    def act(self: Sound, *args: object, **kwargs: object) -> object:
        return self.neutral.get(method, lambda *_, **__: None)(*args, **kwargs)

    return act


def faulty(method: str, act: Callable[..., object], *points: type, without: tuple[str, ...] = ()) -> Factory:
    """The sound plugin with one method replaced, at some points or at all of them, without some methods."""
    chosen = points or tuple(POINTS.values())
    methods = {name: sound(name) for name, point in METHODS.items() if point in chosen and name not in without}
    methods[method] = lambda self, *args, **kwargs: act(*args, **kwargs)
    made = type("Faulty", (Sound,), methods)
    factory: Factory = takes_part(*chosen)(made)
    return factory


def busy_gangs() -> list[Gang]:
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


NONSENSE: Mapping[str, Mapping[str, Callable[[CycleView], object]]] = {
    "score": {
        "nan": lambda view: np.full(len(view.nodes), np.nan),
        "inf": lambda view: np.full(len(view.nodes), np.inf),
        "huge": lambda view: np.full(len(view.nodes), 1e300),
        "length": lambda view: np.zeros(len(view.nodes) + 1),
        "type": lambda view: np.zeros(len(view.nodes), dtype=np.int64),
        "text": lambda view: "x" * 1_000_000,
    },
    "effect": {
        "nan": lambda view: float("nan"),
        "type": lambda view: 3,
        "huge": lambda view: 10**400,
        "text": lambda view: "x" * 1_000_000,
    },
    "job_key": {
        "nan": lambda view: (float("nan"),),
        "length": lambda view: ((0.0,), ()),
        "type": lambda view: (1j,),
        "text": lambda view: ("x" * 1_000_000,),
    },
    "admit": {"text": lambda view: Reason("x" * 1_000_000, "faulty", "no")},
}
"""By method, answers that mean nothing."""


class FaultyArguments(msgspec.Struct):
    """Which method fails: it raises, or gives an answer of `NONSENSE`."""

    method: str = ""
    answer: str = ""


def _failing(method: str) -> Callable[..., object]:
    def act(self: Sound, *args: object, **kwargs: object) -> object:
        if method == self.fails:
            if self.answer:
                return NONSENSE[method][self.answer](self.view)
            raise RuntimeError("out of order")
        return sound(method)(self, *args, **kwargs)

    return act


Faulty = takes_part(*POINTS.values(), arguments=FaultyArguments)(
    type("Faulty", (Sound,), {name: _failing(name) for name in METHODS})
)
"""The same as a plugin that a configuration names: its argument says which method fails."""
