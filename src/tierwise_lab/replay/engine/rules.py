"""What a replay goes by besides its trace: periods, the look-ahead, what a stop costs, which hosts fail, queues."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.model.job import Queue
from tierwise.sim.cluster.agenda import NodeBack, NodeLost

__all__ = ["HISTORY", "ROUGH", "STATED", "HostIncident", "Lemons", "Rules", "draw", "draw_lemons"]

HostIncident = NodeLost | NodeBack

STATED, ROUGH, HISTORY = "stated", "rough", "history"
"""Every job states its true duration; or one that is up to twice or half of it; or only what has ended is known."""


class Lemons(msgspec.Struct, frozen=True):
    """Hosts on which starts fail: a gang with a pod on one of them does not come up, with this probability."""

    hosts: tuple[str, ...] = ()
    fails: float = 0.0
    noticed: float = 30.0
    """Seconds until a start that fails is seen to have failed: it holds its hosts so long, and does no work."""


class Rules(msgspec.Struct, frozen=True):
    """Rules of a replay that the trace does not give. Times are seconds."""

    period: float = 10.0
    look_ahead: int = 64
    restart_cost: float = 600.0
    seed: int = 1
    incidents: tuple[HostIncident, ...] = ()
    controllers: bool = False  # whether jobs go through the embedded cluster and its controllers
    durations: str = STATED  # what profiles that go by ends are told of how long jobs run
    queues: tuple[Queue, ...] = ()  # those of the trace, in its order; where none are given, all jobs wait in one
    contention: float = 0.0  # the share of a gang's time in which it communicates; 0: crowded uplinks slow nobody
    checkpoint_interval: float = 0.0  # of work; 0 where a gang that stops repeats the restart cost alone
    lemons: Lemons = Lemons()

    @property
    def teams(self) -> int:
        """How many namespaces the jobs are of, by turns; 0 where they are all of one."""
        return _TEAMS if self.lemons.hosts else 0


_TEAMS = 8
"""A host is suspected where it has failed several namespaces, so where starts fail jobs have several."""


# Hosts that fail and are repaired, drawn with a seed before the run begins.


def draw(hosts: Sequence[str], span: float, *, between: float, repair: float, seed: int) -> tuple[HostIncident, ...]:
    """Incidents up to `span`: each host runs for a drawn time around `between` seconds, then is away around `repair`.

    Both times are exponential; 0 for `between` means that nothing fails. Repairs are listed even beyond the span, so
    that every host comes back.
    """
    if not between:
        return ()
    rng = np.random.default_rng((seed, len(hosts)))
    events: list[tuple[float, int, bool]] = []
    due = [(float(rng.exponential(between)), row) for row in range(len(hosts))]
    heapq.heapify(due)
    while due and due[0][0] <= span:
        time, row = heapq.heappop(due)
        back = time + float(rng.exponential(repair))
        events += [(time, row, False), (back, row, True)]
        heapq.heappush(due, (back + float(rng.exponential(between)), row))
    return tuple((NodeBack if up else NodeLost)(time, hosts[row]) for time, row, up in sorted(events))


def draw_lemons(hosts: Sequence[str], share: float, fails: float, seed: int) -> Lemons:
    """This share of the hosts, one at least where it is not 0, drawn with a seed."""
    if not share:
        return Lemons()
    rng = np.random.default_rng((seed, len(hosts), 62))
    rows = rng.choice(len(hosts), size=max(1, round(share * len(hosts))), replace=False)
    return Lemons(tuple(hosts[row] for row in sorted(rows.tolist())), fails)
