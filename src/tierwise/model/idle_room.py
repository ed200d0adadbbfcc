"""Room that is kept idle for jobs, as one cycle hands it on to the next: by namespace and queue, and by queue."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["NO_IDLE_ROOM", "IdleAccount", "IdleRoomState", "Owner"]

Owner = tuple[str, str]
"""A namespace, and a queue of its jobs."""


class IdleAccount(msgspec.Struct, frozen=True):
    """What is kept idle for the jobs of one namespace in one queue, or for those of all namespaces in it."""

    spent: float = 0.0  # node-seconds that were kept, less what has been paid back
    nodes: float = 0.0  # how many nodes are kept now
    size: float = 0.0  # node-seconds that are paid back in a day: the share of who kept them last
    largest: float = 0.0  # of a queue: the largest share of who has kept any since all was paid back
    closed: float = 0.0  # node-seconds that were all used; nothing more is kept for as much until half is paid back
    owes: bool = False  # the oldest gang has used as much again; nobody may until all is paid back


class IdleRoomState(msgspec.Struct, frozen=True):
    """The accounts after a cycle, and the hours in which others were held back without a known moment."""

    at: float = 0.0  # when the cycle was, in seconds since the epoch
    accounts: Mapping[Owner, IdleAccount] = {}
    hours: Mapping[str, float] = {}  # by namespace: when its last hour of aging began
    queues: Mapping[str, IdleAccount] = {}  # by queue: of all its namespaces
    queue_hours: Mapping[str, float] = {}  # by queue: when the last hour of aging of its namespaces began


NO_IDLE_ROOM = IdleRoomState()
"""Before the first cycle."""
