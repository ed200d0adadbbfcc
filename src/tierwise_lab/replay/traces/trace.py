"""What arrives when: the jobs of a trace as columns in the order of their arrival, and the pods that they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, inf

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.model.arrays import Floats, Ints

__all__ = ["QUEUE", "Trace", "pods_of", "slots", "sorted_trace", "split"]

QUEUE = "default"
"""The queue of jobs that name none."""

_ROLE = "[1-9][0-9]{0,3}x[1-9][0-9]?"

Sizes = tuple[int, ...]
"""The GPUs of each pod of a job, in the order of ranks."""


@cache
def split(gpus: int, per_host: int) -> Sizes:
    """The GPUs of each pod of a job, largest first: whole hosts, and a pod for the rest."""
    full_hosts, remainder = divmod(gpus, per_host)
    return (per_host,) * full_hosts + ((remainder,) if remainder else ())


@cache
def slots(sizes: Sizes) -> tuple[tuple[int, int], ...]:
    """For every size of these pods, largest first, how many slots of that size on hosts they take at least."""
    number = Counter(sizes)
    return tuple((s, sum(n * (t // s) for t, n in number.items() if t >= s)) for s in sorted(number, reverse=True))


def pods_of(text: str) -> Sizes:
    """`1x2+4x8`: a pod of 2 GPUs and four of 8, each term a role. ValueError where it reads otherwise."""
    if not re.fullmatch(rf"{_ROLE}(\+{_ROLE})*", text):
        raise ValueError(f"{text} is no number of pods with GPUs each, as in 1x2+4x8")
    pairs = (map(int, role.split("x")) for role in text.split("+"))
    return tuple(gpus for number, gpus in pairs for _ in range(number))


class Trace(msgspec.Struct, frozen=True):
    """Jobs by number: when each arrives (seconds from the first), how long it works, and with how many GPUs.

    A service works without end. How long an elastic gang works is what it would take with all its GPUs.
    """

    name: str
    arrival: Floats  # ascending
    duration: Floats
    gpus: Ints
    priority: Ints
    queue: Ints  # index into `queues`
    queues: tuple[str, ...] = (QUEUE,)
    least: Mapping[int, int] = {}  # GPUs that elastic gangs start with, by job; the others start whole
    pods: Mapping[int, Sizes] = {}  # of jobs that say which pods they have

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def span(self) -> float:
        """The seconds from the start of the trace, where the first job arrives, to the last arrival; 0 for a trace
        without jobs.
        """
        return float(self.arrival[-1]) if len(self) else 0.0

    @property
    def seconds(self) -> Floats:
        """How long jobs work, services until the last arrival."""
        return np.where(np.isinf(self.duration), self.span - self.arrival, self.duration)

    @property
    def work(self) -> float:
        """GPU-seconds of all jobs together."""
        return float((self.gpus * self.seconds).sum())

    def sizes(self, job: int, per_host: int) -> Sizes:
        """The GPUs of each pod of a job: those that it says, or whole hosts and one for the rest."""
        return self.pods.get(job) or split(int(self.gpus[job]), per_host)

    def elastic(self, share: float, per_host: int) -> Trace:
        """A copy of this trace in which gangs of several hosts may start with a share of their GPUs."""
        large = np.flatnonzero(self.gpus > per_host).tolist()
        return replace(self, least={**self.least, **{job: ceil(share * int(self.gpus[job])) for job in large}})

    def with_roles(self, added_pods: Sizes, per_host: int) -> Trace:
        """A copy in which each gang with more GPUs than one host has (per_host) has these further pods. added_pods is
        the number of GPUs of each; the gang's total grows by their sum.
        """
        large = np.flatnonzero(self.gpus > per_host)
        pods = {job: self.sizes(job, per_host) + added_pods for job in large.tolist()}
        return replace(self, gpus=self.gpus + sum(added_pods) * (self.gpus > per_host), pods={**self.pods, **pods})

    def with_services(self, share: float, seed: int) -> Trace:
        """A copy of this trace in which a share of the jobs, drawn with the seed, never ends."""
        drawn = np.random.default_rng((seed, len(self))).random(len(self)) < share
        return replace(self, duration=np.where(drawn, inf, self.duration))

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
        """A copy of this trace with times in whole seconds, as API objects have them."""
        return replace(self, arrival=np.ceil(self.arrival), duration=np.ceil(self.duration))

    def in_one_queue(self) -> Trace:
        """A copy of this trace with all jobs in one queue."""
        return replace(self, queue=np.zeros_like(self.queue), queues=(QUEUE,))

    def at_load(self, load: float, gpus: int) -> Trace:
        """A copy of this trace whose arrivals are moved together or apart until its load is a share of so many GPUs.

        The load is the work of all jobs by the GPU-seconds between the first arrival and the last; a service offers
        its GPUs from its arrival on, however far apart that is from the last.
        """
        if not self.span:
            return self
        ends = np.isfinite(self.duration)
        jobs = float((self.gpus * self.duration)[ends].sum())
        room = load * gpus * self.span - (self.work - jobs)
        if room <= 0 or not jobs:
            raise InputError("services alone offer as much", field="--load")
        return replace(self, arrival=self.arrival * (jobs / room))


def sorted_trace(
    name: str,
    arrival: Floats,
    duration: Floats,
    gpus: Ints,
    priority: Ints,
    queue: Sequence[str],
    minimums: Sequence[int] = (),
    pods: Sequence[Sizes] = (),
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
        {new: minimums[old] for new, old in enumerate(order.tolist()) if minimums and minimums[old]},
        {new: pods[old] for new, old in enumerate(order.tolist()) if pods and pods[old]},
    )
