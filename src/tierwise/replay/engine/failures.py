"""Hosts that fail and are repaired, drawn with a seed before the run begins."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from tierwise.replay.engine.rules import HostIncident
from tierwise.sim.cluster.agenda import NodeBack, NodeLost

__all__ = ["draw"]


def draw(hosts: Sequence[str], span: float, *, between: float, repair: float, seed: int) -> tuple[HostIncident, ...]:
    """Incidents up to `span`: each host runs for a drawn time around `between` seconds, then is away around `repair`.

    Both times are exponential; 0 for `between` means that nothing fails. Repairs are listed even beyond the span, so
    that every host comes back.
    """
    if not between:
        return ()
    rng = np.random.default_rng((seed, len(hosts)))
    found: list[tuple[float, int, bool]] = []
    due = [(float(rng.exponential(between)), row) for row in range(len(hosts))]
    heapq.heapify(due)
    while due and due[0][0] <= span:
        time, row = heapq.heappop(due)
        back = time + float(rng.exponential(repair))
        found += [(time, row, False), (back, row, True)]
        heapq.heappush(due, (back + float(rng.exponential(between)), row))
    return tuple((NodeBack if up else NodeLost)(time, hosts[row]) for time, row, up in sorted(found))
