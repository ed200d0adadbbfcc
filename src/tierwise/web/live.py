"""A running scheduler as a source: its last iteration, and the last cycles that decided something.

An observer of the loop. An iteration costs a few comparisons; the board is made when a page asks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.attention import Seen, often_evicted
from tierwise.explain.board import Board, cycle_entry
from tierwise.explain.text.schedule import Run
from tierwise.framework.report import plugin_faults
from tierwise.model.snapshot import Fault
from tierwise.runtime.profile_run import LoopPass
from tierwise.scheduler.guard import Crash
from tierwise.web.views import Basis, RunView

__all__ = ["LiveRuns"]

_KEPT: Final = 20
_NEWS: Final = 1000
"""Cycles that decided something which are told to a history: nobody may look for a while."""


class LiveRuns:
    """Remembers iterations of the profile that was seen first; pods of others count as used room, as in its cycles."""

    def __init__(
        self, title: str, options: str = "", slow: Callable[[], Mapping[str, tuple[int, float]]] = dict
    ) -> None:
        """`options` are those with which commands see the same cluster, where it is not the usual one.

        `slow` tells of namespaces with writes that have no answer: how many, and for how many seconds the oldest.
        """
        self._title = title
        self._slow = slow
        self._evicted: Counter[str] = Counter()  # in how many cycles a job that is still there has lost pods
        self._options = options
        self._lock = threading.Lock()
        self._number = 0
        self._latest: LoopPass | None = None
        self._cycles: deque[Raw] = deque(maxlen=_NEWS)
        self._show: RunView | None = None
        self.checked: float | None = None  # the time of what was last looked at, whether anything came of it or not

    def saw(self, latest: LoopPass) -> None:
        """Keep an iteration, to be shown from now on.

        It is ignored where it ran another profile than the first that was kept. One that saw and decided the same as
        the last only counts, and says that the source was looked at.
        """
        with self._lock:
            if self._latest is not None and latest.profile is not self._latest.profile:
                return
            self._number += 1
            # What is shown is of the time that the cycle saw: a loop that cannot keep up is seen to lag.
            self.checked = min(latest.snapshot.now, time.time())
            if self._latest is not None and _same(self._latest, latest):
                return
            if latest.report.decisions or latest.report.evictions or not self._cycles:
                self._cycles.append(cycle_entry(latest.snapshot, latest.report, self._number, latest.seconds))
            if latest.report.evictions:
                self._evicted += often_evicted((latest.report,))
                present_jobs = {job.key for job in latest.snapshot.jobs}
                self._evicted = Counter({key: times for key, times in self._evicted.items() if key in present_jobs})
            self._latest = latest
            self._show = None

    def looked(self) -> None:
        """There is nothing left to iterate for, and nothing went wrong."""
        self.checked = time.time()

    def crashed(self, crash: Crash) -> None:
        """Nothing to show: the iteration that follows names what was set aside."""

    def show(self) -> RunView | str:
        with self._lock:
            if self._latest is None:
                return "no cycle has ended yet: this replica has begun a moment ago, or another one leads"
            if self._show is None:
                news = list(self._cycles)
                objects = self._latest.objects
                profile = self._latest.profile
                now = self._latest.snapshot.now
                schedulers = self._latest.schedulers
                basis = Basis(objects, profile, now, schedulers) if objects is not None else None
                seen = Seen(dict(self._evicted), self._slow())
                board = Board(_run(self._latest), news[-_KEPT:], seen=seen)
                self._show = RunView(
                    board, mode="scheduler", title=self._title, options=self._options, basis=basis, news=news
                )
            return self._show


def _same(old: LoopPass, new: LoopPass) -> bool:
    """Whether an iteration saw what the one before it saw, and had as little to decide."""
    if new.report.decisions or new.report.evictions or old.report.decisions or old.report.evictions:
        return False
    same_world = new.snapshot.jobs is old.snapshot.jobs and new.snapshot.nodes is old.snapshot.nodes
    return same_world and new.report.rejections == old.report.rejections


def _run(latest: LoopPass) -> Run:
    faults = [Fault(f"Pod {task.key}", reason.code, reason.text) for task, reason in latest.report.complaints]
    faults += plugin_faults(latest.report)
    return Run([(latest.snapshot, latest.report)], latest.snapshot, latest.profile, latest.report.evictions, faults)
