"""What a replay goes by besides its trace: periods, the look-ahead, what a stop costs, which hosts fail, queues."""

from __future__ import annotations

import msgspec

from tierwise.model.job import Queue
from tierwise.sim.cluster.agenda import NodeBack, NodeLost

__all__ = ["HISTORY", "ROUGH", "STATED", "HostIncident", "Rules"]

HostIncident = NodeLost | NodeBack

STATED, ROUGH, HISTORY = "stated", "rough", "history"
"""Every job states its true duration; or one that is up to twice or half of it; or only what has ended is known."""


class Rules(msgspec.Struct, frozen=True):
    """What does not come from the trace. Times are seconds."""

    period: float = 10.0
    look_ahead: int = 64
    restart_cost: float = 600.0
    seed: int = 1
    incidents: tuple[HostIncident, ...] = ()
    controllers: bool = False  # whether jobs go through the embedded cluster and its controllers
    durations: str = STATED  # what profiles that go by ends are told of how long jobs run
    queues: tuple[Queue, ...] = ()  # those of the trace, in its order; where none are given, all jobs wait in one
    checkpoint_interval: float = 0.0  # of work; 0 where a gang that stops repeats the restart cost alone
