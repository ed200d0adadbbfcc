"""Workloads of Kubernetes and of operators as their own controllers look after them; on a real cluster those run.

What was read from a real cluster is left as it is, too: whatever its controllers have not made is not for us to make.
"""

from __future__ import annotations

from tierwise.api.limits import MANY_WAIT, TOO_MANY_WAITING
from tierwise.dialects import workloads
from tierwise.manifests.saved import saved_at
from tierwise.port import Create, Effect, Objects, RecordEvent
from tierwise.sim.cluster.adoption import adoptions

__all__ = ["reconcile"]


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Who looks after what is there; once that is settled, the pods and other objects that are missing."""
    if saved_at(objects) is not None:
        return []
    settled: list[Effect] = list(adoptions(objects))
    if settled:
        return settled
    room = workloads.Room(objects)
    creations: list[Effect] = [Create(raw) for raw in workloads.children(objects, room)]
    return [*creations, *(RecordEvent(key, "Warning", TOO_MANY_WAITING, MANY_WAIT) for key in room.full)]
