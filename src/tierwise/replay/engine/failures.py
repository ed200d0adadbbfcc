"""Hosts that fail and are repaired, drawn with a seed before the run begins."""

from __future__ import annotations

import heapq

import msgspec
import numpy as np

__all__ = ["Incident", "draw"]


class Incident(msgspec.Struct, frozen=True, order=True):
    """A host goes out of service, or comes back."""

    time: float
    row: int
    up: bool


def draw(hosts: int, span: float, *, between: float, repair: float, seed: int) -> tuple[Incident, ...]:
    """Incidents up to `span`: each host runs for a drawn time around `between` seconds, then is away around `repair`.

    Both times are exponential; 0 for `between` means that nothing fails. Repairs are listed even beyond the span, so
    that every host comes back.
    """
    if not between:
        return ()
    rng = np.random.default_rng((seed, hosts))
    found: list[Incident] = []
    due = [(float(rng.exponential(between)), row) for row in range(hosts)]
    heapq.heapify(due)
    while due and due[0][0] <= span:
        time, row = heapq.heappop(due)
        back = time + float(rng.exponential(repair))
        found += [Incident(time, row, up=False), Incident(back, row, up=True)]
        heapq.heappush(due, (back + float(rng.exponential(between)), row))
    return tuple(sorted(found))
