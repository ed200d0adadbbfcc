"""What arrives when: the jobs of a trace as columns in the order of their arrival."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.model.arrays import Floats, Ints

__all__ = ["QUEUE", "Trace", "sorted_trace"]

QUEUE = "default"
"""The queue of jobs that name none."""


class Trace(msgspec.Struct, frozen=True):
    """Jobs by number: when each arrives (seconds from the first), how long it works, and with how many GPUs."""

    name: str
    arrival: Floats  # ascending
    duration: Floats
    gpus: Ints
    priority: Ints
    queue: Ints  # index into `queues`
    queues: tuple[str, ...] = (QUEUE,)

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival[-1]) if len(self) else 0.0

    @property
    def work(self) -> float:
        """GPU-seconds of all jobs together."""
        return float((self.gpus * self.duration).sum())

    def first(self, jobs: int) -> Trace:
        """The first so many jobs."""
        return replace(
            self,
            arrival=self.arrival[:jobs],
            duration=self.duration[:jobs],
            gpus=self.gpus[:jobs],
            priority=self.priority[:jobs],
            queue=self.queue[:jobs],
        )

    def in_whole_seconds(self) -> Trace:
        """The same jobs with times as API objects have them."""
        return replace(self, arrival=np.ceil(self.arrival), duration=np.ceil(self.duration))

    def in_one_queue(self) -> Trace:
        """The same jobs, all in one line."""
        return replace(self, queue=np.zeros_like(self.queue), queues=(QUEUE,))

    def at_load(self, load: float, gpus: int) -> Trace:
        """The same jobs with their arrivals drawn together, or apart, so that they offer a share of so many GPUs.

        The load is the work of all jobs by the GPU-seconds between the first arrival and the last.
        """
        if not self.span:
            return self
        return replace(self, arrival=self.arrival * (self.work / (load * gpus * self.span)))


def sorted_trace(
    name: str, arrival: Floats, duration: Floats, gpus: Ints, priority: Ints, queue: Sequence[str]
) -> Trace:
    """A trace of jobs in any order; jobs that arrive together stay in the order given."""
    names, number = np.unique(np.array(queue, dtype=str), return_inverse=True)
    order = np.argsort(arrival, kind="stable")
    start = arrival[order[0]] if len(order) else 0.0
    return Trace(
        name,
        arrival[order] - start,
        duration[order],
        gpus[order],
        priority[order],
        number[order],
        tuple(names.tolist()),
    )
