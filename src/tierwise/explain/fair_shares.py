"""Shares that remember, as `top`, `queue` and `why` show them: who has used how much, and whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierwise.api.codec import Raw
from tierwise.explain.page import Page, Text, section
from tierwise.explain.tables import Cell, table
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job
from tierwise.model.usage import Standing

__all__ = ["fair_shares_wire", "share_line", "share_lines"]

_EVEN = 0.02
"""Parts of a share by which usage may differ from it and still be called even."""


def fair_shares_wire(standings: Mapping[str, Standing]) -> list[Raw]:
    """By queue: its part of what its siblings used, its share by weight, and usage divided by share."""
    return [
        {
            "queue": queue,
            "used": round(queue_standing.used, 4),
            "share": round(queue_standing.share, 4),
            "ratio": round(queue_standing.ratio, 4),
        }
        for queue, queue_standing in sorted(standings.items())
    ]


def share_lines(page: Page, shares: Sequence[Raw]) -> list[Text]:
    """Lines for people; none where no usage is remembered."""
    rows: list[list[Cell]] = []
    for entry in shares:
        used, share, ratio = (float(str(entry[name])) for name in ("used", "share", "ratio"))
        rows.append([str(entry["queue"]), f"{100 * used:.0f} %", f"{100 * share:.0f} %", f"{ratio:.2f}"])
    return section("Shares that remember", table(page, ("queue:12", "used>", "share>", "used of its share>"), rows))


def share_line(report: CycleReport, job: Job) -> str:
    """How the queue of a job stands beside its siblings, and what follows; "" where no usage is remembered."""
    usage = report.turns.usage
    queue_standing = usage.standings.get(job.queue)
    if queue_standing is None:
        return ""
    turn = "it has its share"
    if queue_standing.ratio > 1 + _EVEN:
        turn = "it goes after queues that have used less of theirs"
    elif queue_standing.ratio < 1 - _EVEN:
        turn = "it goes before queues that have used more of theirs"
    period = _period(usage.half_life)
    used, share = f"{100 * queue_standing.used:.0f} %", f"{100 * queue_standing.share:.0f} %"
    return f"queue {job.queue} used {used} of what was used of late ({period}), its share is {share}: {turn}"


def _period(half_life: float) -> str:
    hours = half_life / 3600
    length = f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
    return f"half of it counts after {length}"
