"""Clusters and workloads that are drawn: for trying things out, for tests, and where no trace is at hand.

Text such as `racks=64,hosts=16,spines=4` says what is drawn; the same text and seed give the same thing.
"""

from __future__ import annotations

import numpy as np

from tierwise.api.errors import InputError
from tierwise.api.meta import read_number
from tierwise.replay.traces.fabric import Fabric, fabric
from tierwise.replay.traces.trace import Trace, sorted_trace

__all__ = ["PREFIX", "synthetic_fabric", "synthetic_trace"]

PREFIX = "synthetic:"
_FABRIC = {"spines": 2, "leaves": 8, "hosts": 8}
_TRACE = {"jobs": 1000, "mean": 3600, "gap": 60, "largest": 64, "priorities": 1, "queues": 1}


def synthetic_fabric(text: str, gpus_per_host: int) -> Fabric:
    """So many spines, leaves below each, and hosts below each leaf."""
    size = _numbers(text, _FABRIC, "--topology")
    return fabric(
        {
            f"n{spine}-{leaf}-{host}": (f"spine-{spine}", f"leaf-{leaf}")
            for spine in range(size["spines"])
            for leaf in range(size["leaves"])
            for host in range(size["hosts"])
        },
        gpus_per_host,
    )


def synthetic_trace(text: str, seed: int) -> Trace:
    """Poisson arrivals `gap` seconds apart, exponential durations around `mean`, sizes in powers of two.

    Half as many jobs are twice as large, up to `largest` GPUs; priorities below `priorities` are equally likely, and so
    are the queues.
    """
    size = _numbers(text, _TRACE, "--trace")
    rng = np.random.default_rng((seed, size["jobs"]))
    jobs = size["jobs"]
    powers = np.arange(size["largest"].bit_length())
    weights = 0.5**powers
    return sorted_trace(
        "synthetic",
        np.cumsum(rng.exponential(size["gap"], jobs)),
        np.maximum(1.0, rng.exponential(size["mean"], jobs)).round(),
        2 ** rng.choice(powers, jobs, p=weights / weights.sum()).astype(np.int64),
        rng.integers(size["priorities"], size=jobs),
        [f"queue-{number}" for number in rng.integers(size["queues"], size=jobs).tolist()],
    )


def _numbers(text: str, defaults: dict[str, int], option: str) -> dict[str, int]:
    """`name=number` pairs, comma separated, over defaults."""
    found = dict(defaults)
    for pair in filter(None, text.removeprefix(PREFIX).split(",")):
        name, _, value = pair.partition("=")
        if name not in defaults or (number := read_number(value) or 0) < 1:
            known = ", ".join(f"{n}={v}" for n, v in defaults.items())
            raise InputError(f"{pair} is not one of the numbers that may be given ({known})", field=option)
        found[name] = number
    return found
