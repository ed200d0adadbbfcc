"""One cycle in a few lines: who was placed where, who had to go for whom, how many wait, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.decisions import decision_id
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["cycle_entry", "telling"]

_MOST: Final = 200
"""Decisions, and groups of evictions, that are told of; the numbers count all."""


def cycle_entry(snapshot: Snapshot, report: CycleReport, number: int, seconds: Mapping[str, float]) -> Raw:
    """A cycle for the board; `seconds` are those of its stages, where somebody took the time."""
    names, tiers = snapshot.topology.name, snapshot.topology.tier
    return {
        "number": number,
        "now": snapshot.now,
        "seconds": {stage: round(value, 6) for stage, value in seconds.items()},
        "work": {"trials": report.work.trials, "domains": report.work.domains},
        "placed": len(report.decisions),
        "pods": sum(decision.count() for decision in report.decisions if decision.bound),
        "evicted": len(report.evictions),
        "waiting": len(report.rejections),
        "decisions": [
            {
                "id": decision_id(snapshot.now, decision.job.key),
                "job": decision.job.key,
                "action": decision.action,
                "bound": decision.bound,
                "pods": decision.count(),
                "hyperNode": names[decision.domain] if decision.domain != ROOT else "",
                "tier": int(tiers[decision.domain]),
            }
            for decision in report.decisions[:_MOST]
        ],
        "evictions": _evictions(report.evictions)[:_MOST],
    }


def _evictions(evictions: Sequence[Eviction]) -> list[Raw]:
    """Those who went from one job for one other and one reason together."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for e in evictions:
        groups.setdefault((e.job.key, e.by.key if e.by is not None else "", e.action, e.reason), []).append(e.task.key)
    return [
        {"job": job, "by": by, "action": action, "reason": reason, "pods": pods}
        for (job, by, action, reason), pods in groups.items()
    ]


def telling(entry: Raw) -> bool:
    """Whether anything was decided in a cycle."""
    return bool(entry["placed"] or entry["evicted"])
