"""Parts of an outcome: figures of many values, of spread as a whole and by size, and of each queue."""

from __future__ import annotations

import numpy as np

from tierwise.model.arrays import Floats
from tierwise.replay.engine import Engine
from tierwise.replay.gangs import split
from tierwise.replay.lived import Lived
from tierwise.replay.spread import FIGURES, Spreads
from tierwise.replay.state import State

__all__ = ["HOUR", "Data", "figures", "of_queue", "spread", "spread_by_size"]

Data = dict[str, object]
HOUR = 3600.0


def figures(values: Floats) -> Data:
    """Mean, median, 95th percentile and maximum; nothing of nothing."""
    if not len(values):
        return {"mean": None, "p50": None, "p95": None, "max": None}
    half, most = np.percentile(values, (50, 95))
    found = {"mean": values.mean(), "p50": half, "p95": most, "max": values.max()}
    return {name: round(float(value), 3) for name, value in found.items()}


def spread(state: State) -> Data:
    """Mean and maximum of every figure over the gangs of several pods that started."""
    known = state.figures[~np.isnan(state.figures[:, 0])]
    return {"gangs": len(known), **{name: _ends(known[:, i]) for i, name in enumerate(FIGURES)}}


def spread_by_size(engine: Engine | Lived) -> list[Data]:
    """Leaves of gangs by their pods, in classes that double; and how many times the fewest possible that is."""
    state, per_host = engine.state, engine.fabric.gpus_per_host
    started = np.flatnonzero(~np.isnan(state.figures[:, 0]))
    pods = np.array([len(split(int(gpus), per_host)) for gpus in engine.trace.gpus[started]], dtype=np.int64)
    leaves = state.figures[started, 0]
    spreads = Spreads.over(engine.fabric)
    fewest = np.array([spreads.fewest(number) for number in pods.tolist()], dtype=float)
    classes = np.ceil(np.log2(np.maximum(pods, 1))).astype(np.int64)
    found: list[Data] = []
    for size in np.unique(classes).tolist():
        own = classes == size
        low, high = 2 ** (size - 1) + 1, 2**size
        name = str(high) if low >= high else f"{low}-{high}"
        stretch = _ends(leaves[own] / fewest[own])
        found.append({"pods": name, "gangs": int(own.sum()), "leaves": _ends(leaves[own]), "stretch": stretch})
    return found


def _ends(values: Floats) -> Data:
    if not len(values):
        return {"mean": None, "max": None}
    return {"mean": round(float(values.mean()), 6), "max": round(float(values.max()), 6)}


def of_queue(engine: Engine | Lived, number: int) -> Data:
    """What came of the jobs of one queue."""
    state, trace = engine.state, engine.trace
    own = trace.queue == number
    ended = own & (state.end >= 0)
    return {
        "queue": trace.queues[number],
        "jobs": int(own.sum()),
        "finished": int(ended.sum()),
        "wait_seconds": figures(state.waited[ended]),
        "evictions": int(state.evictions[own].sum()),
        "gpu_hours": round(float((trace.gpus * trace.duration)[ended].sum()) / HOUR, 3),
        "gpu_hours_lost": round(float(state.lost[own].sum()) / HOUR, 3),
    }
