"""A running scheduler as a source: its last turn, and the last cycles that decided something.

An observer of the loop. A turn costs a few comparisons; the board is made when somebody looks.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.board import Board, cycle_entry
from tierwise.explain.text.schedule import Run
from tierwise.framework.report import plugin_faults
from tierwise.model.snapshot import Fault
from tierwise.runtime.loop import LoopPass
from tierwise.scheduler.guard import Crash
from tierwise.web.views import RunView

__all__ = ["LiveRuns"]

_KEPT: Final = 20


class LiveRuns:
    """Remembers the turns of the profile that was seen first; pods of others count as used room, as in its cycles."""

    def __init__(self, title: str, options: str = "") -> None:
        """`options` are those with which commands see the same cluster, where it is not the usual one."""
        self._title, self._options = title, options
        self._lock = threading.Lock()
        self._number = 0
        self._turn: LoopPass | None = None
        self._cycles: deque[Raw] = deque(maxlen=_KEPT)
        self._show: RunView | None = None

    def saw(self, turn: LoopPass) -> None:
        """Keep a turn; one in which nothing happened and nobody came or went changes nothing."""
        with self._lock:
            if self._turn is not None and turn.profile is not self._turn.profile:
                return
            self._number += 1
            if self._turn is not None and _same(self._turn, turn):
                return
            if turn.report.decisions or turn.report.evictions or not self._cycles:
                self._cycles.append(cycle_entry(turn.snapshot, turn.report, self._number, turn.seconds))
            self._turn, self._show = turn, None

    def crashed(self, crash: Crash) -> None:
        """Nothing to show: the turn that follows names what was set aside."""

    def show(self) -> RunView | str:
        with self._lock:
            if self._turn is None:
                return "no cycle has ended yet: this replica has begun a moment ago, or another one leads"
            if self._show is None:
                board = Board(_run(self._turn), list(self._cycles))
                self._show = RunView(board, mode="scheduler", title=self._title, options=self._options)
            return self._show


def _same(old: LoopPass, new: LoopPass) -> bool:
    """Whether a turn saw what the one before it saw, and had as little to decide."""
    if new.report.decisions or new.report.evictions or old.report.decisions or old.report.evictions:
        return False
    same = new.snapshot.jobs is old.snapshot.jobs and new.snapshot.nodes is old.snapshot.nodes
    return same and new.report.rejections == old.report.rejections


def _run(turn: LoopPass) -> Run:
    told = [Fault(f"Pod {task.key}", reason.code, reason.text) for task, reason in turn.report.complaints]
    told += plugin_faults(turn.report)
    return Run([(turn.snapshot, turn.report)], turn.snapshot, turn.profile, turn.report.evictions, told)
