"""Room that is kept idle for jobs, as `schedule`, `top` and the pages show it: nodes now, and node-hours used."""

from __future__ import annotations

from tierwise.api.codec import Raw
from tierwise.framework.report import CycleReport

__all__ = ["idle_room_wire"]

_HOUR = 3600.0


def idle_room_wire(report: CycleReport) -> list[Raw]:
    """By namespace and queue, what is kept after a cycle and what its account has used, in their order."""
    return [
        {
            "namespace": namespace,
            "queue": queue,
            "nodes": round(account.nodes, 3),
            "nodeHours": round(account.spent / _HOUR, 3),
        }
        for (namespace, queue), account in sorted(report.turns.idle.accounts.items())
    ]
