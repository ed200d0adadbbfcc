"""Structured logs: one JSON object to a line, with the time, a level, a text and whatever fields belong to it.

A line about a decision has its id, which is also in every event about it. The id is made from the time of the cycle and
the job, so a replay of that cycle gives the same id.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TextIO

from tierwise.explain.message import decision_id, message
from tierwise.framework.report import CycleReport
from tierwise.model.job import Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.port import Evict, Outcome
from tierwise.scheduler.partial_gangs import RELEASE

__all__ = ["JsonLines", "decision_lines", "release_lines", "set_up"]

LEVELS: Final = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """One JSON object to a line; further fields come as `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def set_up(out: TextIO, level: str) -> None:
    """Write what is at least of a level to a stream, as JSON lines."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def decision_lines(
    snapshot: Snapshot, report: CycleReport, earlier: Mapping[str, Rejection] = MappingProxyType({})
) -> Iterator[tuple[str, dict[str, object]]]:
    """Log lines for a cycle's decisions, job by job, as text and fields; unchanged rejections of `earlier` are left
    out.
    """
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
        by = eviction.by.key if eviction.by is not None else ""  # "" where it went for a quota's sake
        yield (
            "evicted",
            {
                "decision": decision_id(snapshot.now, by or eviction.job.key),
                "job": eviction.job.key,
                "pod": eviction.task.key,
                "by": by,
                "action": eviction.action,
                "reason": eviction.reason,
            },
        )
    yield from _waiting(snapshot, report, earlier)


def _waiting(
    snapshot: Snapshot, report: CycleReport, earlier: Mapping[str, Rejection]
) -> Iterator[tuple[str, dict[str, object]]]:
    bound = Counter[str]()
    for decision in report.decisions:
        bound[decision.job.key] += decision.count() if decision.bound else 0
    # A rejection that is the very object of the cycle before is about the same tasks.
    news = {key: rejection for key, rejection in report.rejections.items() if earlier.get(key) is not rejection}
    jobs = (job for job in snapshot.jobs if job.key in news) if news else ()
    pending = {job.key: sum(len(pod_set.tasks) for pod_set in job.pod_sets()) for job in jobs}
    for key, rejection in news.items():
        yield (
            "waiting",
            {
                "decision": decision_id(snapshot.now, key),
                "job": key,
                "pods": pending.get(key, 0) - bound[key],
                "reason": rejection.reason.code,
                "why": message(rejection),
            },
        )


def release_lines(snapshot: Snapshot, outcomes: Iterable[Outcome]) -> Iterator[tuple[str, dict[str, object]]]:
    """Log lines for released pods of partial gangs, as text and fields."""
    for outcome in outcomes:
        match outcome.effect:
            case Evict(pod, reason, job, action) if action == RELEASE and outcome.ok:
                decision = decision_id(snapshot.now, job)
                yield "released", {"decision": decision, "job": job, "pod": pod.path, "reason": reason}
