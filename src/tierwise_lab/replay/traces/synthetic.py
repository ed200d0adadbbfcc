"""Clusters and workloads that are drawn: for trying things out, for tests, and where no trace is at hand.

Text such as `racks=64,hosts=16,spines=4` says what is drawn; the same text and seed give the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tierwise.api.core import read_number
from tierwise.api.errors import InputError, suggestion
from tierwise.model.arrays import Floats, Ints
from tierwise_lab.replay.traces.fabric import Fabric, fabric
from tierwise_lab.replay.traces.trace import Trace, sorted_trace

__all__ = ["PREFIX", "synthetic_fabric", "synthetic_trace"]

PREFIX = "synthetic:"
_FABRIC = {"spines": (2,), "leaves": (8,), "hosts": (8,), "gpus": (0,)}
_TRACE = {
    "jobs": (1000,),
    "mean": (3600,),
    "gap": (60,),
    "largest": (64,),
    "priorities": (1,),
    "queues": (1,),
    "sizes": ("powers", "odd", "extremes"),
}
"""What may be given, with its default; of words the first is the default, and no other may be given."""


def synthetic_fabric(text: str, gpus_per_host: int) -> Fabric:
    """So many spines, leaves below each, and hosts below each leaf; `6+7+9` hosts are those of leaves in turn.

    `gpus` of a host are given by the text, `8+4` likewise for leaves in turn, or by the caller.
    """
    size = _settings(text, _FABRIC, "--topology")
    hosts = size["hosts"]
    gpus = size["gpus"] if any(size["gpus"]) else (gpus_per_host,)
    places = []
    for spine in range(size["spines"][0]):
        for leaf in range(size["leaves"][0]):
            for host in range(hosts[leaf % len(hosts)]):
                places.append((spine, leaf, host))
    names = {f"n{spine}-{leaf}-{host}": (f"spine-{spine}", f"leaf-{leaf}") for spine, leaf, host in places}
    return fabric(names, [gpus[leaf % len(gpus)] for _, leaf, _ in places])


def synthetic_trace(text: str, seed: int) -> Trace:
    """Poisson arrivals `gap` seconds apart, exponential durations around `mean`.

    Sizes in powers of two: half as many jobs are twice as large, up to `largest` GPUs. Sizes that are `odd`: 1, 3, 5, 7
    and such numbers of hosts of 8, rarer as they are larger. `extremes`: one to four GPUs, and one job in fifty
    with half of the largest or more. Priorities below `priorities` are equally likely, and so are the queues.
    """
    settings = _settings(text, _TRACE, "--trace")
    size = {name: value[0] for name, value in settings.items() if name != "sizes"}
    jobs = size["jobs"]
    rng = np.random.default_rng((seed, jobs))
    arrival = np.cumsum(rng.exponential(size["gap"], jobs))
    duration = np.maximum(1.0, rng.exponential(size["mean"], jobs)).round()
    gpus, weights = _sizes(settings["sizes"][0], size["largest"])
    return sorted_trace(
        "synthetic",
        arrival,
        duration,
        rng.choice(gpus, jobs, p=weights / weights.sum()),
        rng.integers(size["priorities"], size=jobs),
        [f"queue-{number}" for number in rng.integers(size["queues"], size=jobs).tolist()],
    )


def _sizes(kind: str, largest: int) -> tuple[Ints, Floats]:
    """GPUs of jobs, and how often each is drawn."""
    if kind == "odd":
        gpus = np.array([n for n in (1, 3, 5, 7, *range(8, largest + 1, 16)) if n <= largest])
        return gpus, 1.0 / gpus
    if kind == "extremes":
        gpus = np.array([1, 2, 3, 4, *range(max(largest // 2, 5), largest + 1, max(largest // 8, 1))])
        return gpus, np.where(gpus <= 4, 49 / 4, 1 / (len(gpus) - 4))
    gpus = 2 ** np.arange(largest.bit_length())
    return gpus, 1.0 / gpus


def _settings(text: str, defaults: Mapping[str, tuple[Any, ...]], option: str) -> dict[str, tuple[Any, ...]]:
    """`name=value` pairs, comma separated, over defaults."""
    values = {name: value[:1] for name, value in defaults.items()}
    for pair in filter(None, text.removeprefix(PREFIX).split(",")):
        name, _, value = pair.partition("=")
        usual = defaults.get(name, ())
        words = usual if usual and isinstance(usual[0], str) else ()
        numbers = () if words else tuple(read_number(part) or 0 for part in value.split("+"))
        if not usual or (value not in words if words else min(numbers) < 1):
            choices = ", ".join(f"{n}={'|'.join(map(str, v))}" for n, v in defaults.items())
            near = suggestion(name, defaults) if not usual else suggestion(value, words)
            raise InputError(f"{pair} is not one of the settings that may be given ({choices}){near}", field=option)
        values[name] = numbers or (value,)
    return values
