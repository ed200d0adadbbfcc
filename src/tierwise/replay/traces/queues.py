"""The queues of a replay: those that the trace names, with what each deserves of the fabric.

`share` gives a queue the share that its jobs have of all GPU time in the trace, `equal` gives all the same, and
`a=3,b=1` gives weights, 1 for queues that are not named. A weight is for proportion, deserved amounts are for capacity.
"""

from __future__ import annotations

import numpy as np

from tierwise.api.errors import InputError
from tierwise.api.natural import natural
from tierwise.model.arrays import Ints
from tierwise.model.job import Queue
from tierwise.replay.traces.fabric import AXIS, Fabric
from tierwise.replay.traces.trace import Trace

__all__ = ["weighted_queues"]

_OPTION = "--queues"
_PARTS = 1000
"""Weights by share are thousandths, and at least one."""


def weighted_queues(text: str, trace: Trace, fabric: Fabric) -> tuple[Queue, ...]:
    """A queue for each that the trace names, in its order; InputError where the text names others."""
    weights = _weights(text, trace)
    total = fabric.nodes.allocatable.sum(axis=1)
    return tuple(
        Queue(
            name,
            order=natural(name),
            weight=weight,
            deserved={resource: int(total[i]) * weight // int(weights.sum()) for i, resource in enumerate(AXIS.names)},
        )
        for name, weight in zip(trace.queues, weights.tolist(), strict=True)
    )


def _weights(text: str, trace: Trace) -> Ints:
    number = len(trace.queues)
    if text == "equal":
        return np.ones(number, dtype=np.int64)
    if text == "share":
        work = np.bincount(trace.queue, weights=trace.gpus * trace.seconds, minlength=number)
        parts: Ints = np.maximum(1, np.rint(_PARTS * work / work.sum())).astype(np.int64)
        return parts
    found = np.ones(number, dtype=np.int64)
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        if name not in trace.queues or not (value.isascii() and value.isdigit()) or not int(value):
            known = ", ".join(trace.queues)
            raise InputError(f"{pair} is neither share nor equal nor a weight of one of {known}", field=_OPTION)
        found[trace.queues.index(name)] = int(value)
    return found
