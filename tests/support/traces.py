"""Small traces by hand, a cluster for them, and profiles under which queues get their shares."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise_lab.replay.traces.synthetic import synthetic_fabric
from tierwise_lab.replay.traces.trace import Trace, sorted_trace

__all__ = ["FABRIC", "profile", "trace"]

FABRIC = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=3", 8)


def trace(*jobs: tuple[str, float, float, int]) -> Trace:
    """Jobs as queue, arrival, duration and GPUs."""
    queue, arrival, duration, gpus = zip(*jobs, strict=True)
    return sorted_trace(
        "by hand",
        np.array(arrival, dtype=float),
        np.array(duration, dtype=float),
        np.array(gpus, dtype=np.int64),
        np.zeros(len(jobs), dtype=np.int64),
        queue,
    )


def profile(action: str, plugin: str) -> Profile:
    """The default profile with shares, and with an action that takes back what is over them."""
    first, second = DEFAULT.tiers
    actions = ("enqueue", "allocate", *filter(None, (action,)))
    return replace(DEFAULT, actions=actions, tiers=(first, (*second, PluginChoice(plugin))))
