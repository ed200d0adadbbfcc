"""A report after its effects were carried out: what could not be bound was not placed, whatever the cycle decided."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from tierwise.framework.report import CycleReport, Decision, Placed
from tierwise.model.reason import Reason, Rejection
from tierwise.port import Bind, Outcome

__all__ = ["amended"]


def amended(report: CycleReport, outcomes: Iterable[Outcome]) -> CycleReport:
    """The report with pods whose bind failed taken out of its decisions, and their jobs rejected at stage "bind"."""
    failed = {o.effect.pod.path: o for o in outcomes if isinstance(o.effect, Bind) and not o.ok}
    if not failed:
        return report
    decisions: list[Decision] = []
    rejections = dict(report.rejections)
    for decision in report.decisions:
        lost = [task.key for placed in decision.placed for task in placed.tasks if task.key in failed]
        if not decision.bound or not lost:
            decisions.append(decision)
            continue
        decisions.append(replace(decision, placed=tuple(_left(placed, failed.keys()) for placed in decision.placed)))
        rejections[decision.job.key] = _rejection(decision, [failed[key] for key in lost])
    kept = tuple(decision for decision in decisions if decision.count())
    return replace(report, decisions=kept, rejections=rejections)


def _left(placed: Placed, failed: Iterable[str]) -> Placed:
    kept = [i for i, task in enumerate(placed.tasks) if task.key not in failed]
    return replace(placed, tasks=tuple(placed.tasks[i] for i in kept), rows=placed.rows[np.array(kept, dtype=np.intp)])


def _rejection(decision: Decision, lost: list[Outcome]) -> Rejection:
    """The first failure that is one of its own says why; binds withheld for its sake do not."""
    telling = next((o for o in lost if not o.error.startswith("withheld")), lost[0])
    assert isinstance(telling.effect, Bind)
    text = f"{len(lost)} of {decision.count()} pods could not be bound: {telling.effect.pod.path}: {telling.error}"
    return Rejection("bind", decision.job.key, Reason("BindFailed", "bind", text))
