"""What a replay came to: every number that docs/reference/simulation-metrics.md defines, as JSON data.

Numbers are rounded once, here, so that the page, the JSON and the report show the same ones.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats
from tierwise.replay.books import SLOT_SIZES
from tierwise.replay.engine import Engine
from tierwise.replay.figures import HOUR, Data, figures, of_queue, spread, spread_by_size
from tierwise.replay.lived import Lived
from tierwise.replay.state import Sample, State
from tierwise.replay.trace import Trace

__all__ = ["CLASSES", "outcome"]

CLASSES = ((1, 1), (2, 7), (8, 8), (9, 31), (32, None))
"""Classes of jobs by GPUs, both ends included."""


class _Times(msgspec.Struct, frozen=True):
    """Waiting and completion times of the jobs that ended."""

    gpus: Floats
    wait: Floats
    completion: Floats

    def of(self, chosen: Bools) -> Data:
        return {
            "jobs": int(chosen.sum()),
            "wait_seconds": figures(self.wait[chosen]),
            "completion_seconds": figures(self.completion[chosen]),
        }


def outcome(engine: Engine | Lived) -> Data:
    """The numbers of one contender."""
    state, trace = engine.state, engine.trace
    ended = state.finished()
    times = _Times(trace.gpus[ended].astype(float), state.waited[ended], state.end[ended] - trace.arrival[ended])
    return {
        "profile": engine.contender.name,
        "jobs": {
            "arrived": state.arrived,
            "finished": len(ended),
            "running": len(state.running),
            "waiting": len(state.waiting),
            "refused": len(state.refused),
        },
        "gpus": {
            "allocation": _ratio(state.window_held, state.window_service),
            "occupancy": _ratio(state.window_held, state.window_wanted),
        },
        "gpu_hours": {
            "held": round(state.held / HOUR, 3),
            "useful": round((state.useful + _unfinished(state, trace)) / HOUR, 3),
            "lost": round(float(state.lost.sum()) / HOUR, 3),
        },
        "times": times.of(np.ones(len(ended), dtype=bool)),
        "times_by_size": [_class(times, low, high) for low, high in CLASSES],
        "queues": [of_queue(engine, number) for number in range(len(trace.queues))],
        "spread": spread(state),
        "spread_by_size": spread_by_size(engine),
        "fragmentation": {
            str(size): round(float(np.mean([s.fragmentation[i] for s in state.samples])), 6)
            for i, size in enumerate(SLOT_SIZES)
            if state.samples and state.samples[0].fragmentation
        },
        "stops": {"evictions": int(state.evictions.sum()), "failures": state.failures},
        "cycles": state.cycles,
        "events": state.events,
        "samples": [_sample(sample) for sample in state.samples],
    }


def _unfinished(state: State, trace: Trace) -> float:
    """GPU-seconds that running gangs have worked since they started."""
    return sum((state.clock - start) * int(trace.gpus[job]) for job, (start, _) in state.running.items())


def _class(times: _Times, low: int, high: int | None) -> Data:
    chosen = (times.gpus >= low) & (times.gpus <= (high or np.inf))
    name = str(low) if low == high else f"{low}-{high}" if high else f"{low}+"
    return {"gpus": name, **times.of(chosen)}


def _sample(sample: Sample) -> Data:
    return {
        "time": round(sample.time, 3),
        "held": sample.held,
        "asked": sample.asked,
        "running": sample.running,
        "waiting": sample.waiting,
        "fragmentation": [round(value, 6) for value in sample.fragmentation],
        "leaves": list(sample.leaves),
    }


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None
