"""Structured logs: one JSON object to a line, with the time, a level, a text and whatever fields belong to it.

A line about a decision carries its id, which also stands in the event that users see: it is made
from the moment of the cycle and the job, so a replay of that moment gives it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, TextIO

from tierwise.explain.decisions import decision_id
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot

__all__ = ["LEVELS", "Logger", "decision_lines"]

LEVELS: Final = ("debug", "info", "warning", "error")


class Logger:
    """Writes lines of at least a level; `clock` gives seconds since the epoch."""

    def __init__(self, out: TextIO, clock: Callable[[], float], level: str = "info") -> None:
        self._out = out
        self._clock = clock
        self._least = LEVELS.index(level)

    def debug(self, text: str, **fields: object) -> None:
        self._write("debug", text, fields)

    def info(self, text: str, **fields: object) -> None:
        self._write("info", text, fields)

    def warning(self, text: str, **fields: object) -> None:
        self._write("warning", text, fields)

    def error(self, text: str, **fields: object) -> None:
        self._write("error", text, fields)

    def _write(self, level: str, text: str, fields: dict[str, object]) -> None:
        if LEVELS.index(level) < self._least:
            return
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": moment, "level": level, "message": text, **fields}
        self._out.write(json.dumps(line, default=str, ensure_ascii=False) + "\n")
        self._out.flush()


def decision_lines(snapshot: Snapshot, report: CycleReport) -> Iterator[tuple[str, dict[str, object]]]:
    """What a cycle decided, job by job: a text and its fields."""
    names = snapshot.topology.name
    for decision in report.decisions:
        yield (
            "bound" if decision.bound else "nominated",
            {
                "decision": decision_id(snapshot.now, decision.job.key),
                "job": decision.job.key,
                "action": decision.action,
                "pods": decision.count(),
                "domain": names[decision.domain],
                "tier": int(snapshot.topology.tier[decision.domain]),
            },
        )
    for eviction in report.evictions:
        yield (
            "evicted",
            {
                "decision": decision_id(snapshot.now, eviction.by.key),
                "job": eviction.job.key,
                "pod": eviction.task.key,
                "by": eviction.by.key,
                "action": eviction.action,
                "reason": eviction.reason,
            },
        )
    for key, rejection in report.rejections.items():
        fields: dict[str, object] = {"decision": decision_id(snapshot.now, key), "job": key}
        yield "waiting", fields | {"reason": rejection.reason.code, "why": message(rejection)}
