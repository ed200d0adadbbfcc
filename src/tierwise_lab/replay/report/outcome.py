"""What a replay came to: every number that docs/reference/simulation-metrics.md defines, as JSON data.

Numbers are rounded once, here, so that the page, the JSON and the report show the same ones.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats, Ints, distinct
from tierwise.sim.cluster.agenda import NodeLost
from tierwise_lab.replay.engine.cluster import SLOT_SIZES
from tierwise_lab.replay.engine.embedded import EmbeddedReplay
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.state import Sample
from tierwise_lab.replay.report.spread import FIGURES

__all__ = ["CLASSES", "Data", "outcome"]


# Parts of an outcome: figures of many values, of spread as a whole and by size, and of each queue.


Data = dict[str, object]
HOUR = 3600.0


def figures(values: Floats) -> Data:
    """Mean, median, 95th and 99th percentiles and maximum; nothing of nothing."""
    if not len(values):
        return {"mean": None, "p50": None, "p95": None, "p99": None, "max": None}
    half, p95, nearly_all = np.percentile(values, (50, 95, 99))
    shares = {"mean": values.mean(), "p50": half, "p95": p95, "p99": nearly_all, "max": values.max()}
    return {name: round(float(value), 3) for name, value in shares.items()}


def spread(engine: Engine | EmbeddedReplay) -> Data:
    """Mean and maximum of every figure over the gangs of several pods that started, and leaves beyond the fewest."""
    _, fewest, numbers_of_gangs = _of_gangs(engine)
    excess = round(float((numbers_of_gangs[:, 0] - fewest).sum()))
    return {
        "gangs": len(numbers_of_gangs),
        "excess": excess,
        **{name: _ends(numbers_of_gangs[:, i]) for i, name in enumerate(FIGURES)},
    }


def _of_gangs(engine: Engine | EmbeddedReplay) -> tuple[Ints, Floats, Floats]:
    """Pods of the gangs that started, the fewest leaves that could hold them, and the figures of each."""
    state = engine.state
    started = np.flatnonzero(~np.isnan(state.figures[:, 0]))
    pods = np.array([len(engine.gangs.sizes(job)) for job in started.tolist()], dtype=np.int64)
    return pods, state.fewest[started], state.figures[started]


def spread_by_size(engine: Engine | EmbeddedReplay) -> list[Data]:
    """Leaves of gangs by their pods, in classes that double; and how many times the fewest possible that is."""
    pods, fewest, numbers_of_gangs = _of_gangs(engine)
    leaves = numbers_of_gangs[:, 0]
    classes = np.ceil(np.log2(np.maximum(pods, 1))).astype(np.int64)
    rows: list[Data] = []
    for size in distinct(classes).tolist():
        of_size = classes == size
        low, high = 2 ** (size - 1) + 1, 2**size
        name = str(high) if low >= high else f"{low}-{high}"
        stretch = _ends(leaves[of_size] / fewest[of_size])
        rows.append({"pods": name, "gangs": int(of_size.sum()), "leaves": _ends(leaves[of_size]), "stretch": stretch})
    return rows


def _ends(values: Floats) -> Data:
    if not len(values):
        return {"mean": None, "max": None}
    return {"mean": round(float(values.mean()), 6), "max": round(float(values.max()), 6)}


def of_queue(engine: Engine | EmbeddedReplay, number: int) -> Data:
    """Figures of the jobs of one queue."""
    state, trace = engine.state, engine.trace
    of_this = trace.queue == number
    ended = of_this & (state.end >= 0)
    return {
        "queue": trace.queues[number],
        "jobs": int(of_this.sum()),
        "finished": int(ended.sum()),
        "wait_seconds": figures(state.waited[ended]),
        "evictions": int(state.evictions[of_this].sum()),
        "gpu_hours": round(float((trace.gpus * trace.duration)[ended].sum()) / HOUR, 3),
        "gpu_hours_lost": round(float(state.lost[of_this].sum()) / HOUR, 3),
    }


CLASSES = ((1, 1), (2, 7), (8, 8), (9, 31), (32, None))
"""Classes of jobs by GPUs, both ends included."""


class _Times(msgspec.Struct, frozen=True):
    """Waiting and completion times of the jobs that ended."""

    gpus: Floats
    wait: Floats
    completion: Floats

    def of(self, selected: Bools) -> Data:
        return {
            "jobs": int(selected.sum()),
            "wait_seconds": figures(self.wait[selected]),
            "completion_seconds": figures(self.completion[selected]),
        }


def outcome(engine: Engine | EmbeddedReplay) -> Data:
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
            "waiting": len(state.waiting) + len(state.repairing),
            "refused": len(state.refused),
        },
        "gpus": {
            "allocation": _ratio(state.window_held, state.window_service),
            "occupancy": _ratio(state.window_held, state.window_wanted),
            "goodput": _ratio(state.window_worked - state.window_lost, state.window_service),
        },
        "gpu_hours": {
            "held": round(state.held / HOUR, 3),
            "useful": round((state.useful + _unfinished(engine)) / HOUR, 3),
            "lost": round(float(state.lost.sum()) / HOUR, 3),
        },
        "times": times.of(np.ones(len(ended), dtype=bool)),
        "times_of_gangs": times.of(times.gpus > engine.fabric.gpus_per_host),
        "times_by_size": [_class(times, low, high) for low, high in CLASSES],
        "queues": [of_queue(engine, number) for number in range(len(trace.queues))],
        "spread": spread(engine),
        "spread_by_size": spread_by_size(engine),
        "fragmentation": {
            str(size): round(float(np.mean([s.fragmentation[i] for s in state.samples])), 6)
            for i, size in enumerate(SLOT_SIZES)
            if state.samples and state.samples[0].fragmentation
        },
        "parted": {
            "hosts": _mean([s.parted_hosts for s in state.samples]),
            "leaves": _mean([s.parted_leaves for s in state.samples]),
        },
        "rings": _rings(engine),
        "stops": {"evictions": int(state.evictions.sum()), "failures": state.failures},
        **(_of_failures(engine) if engine.rules.incidents else {}),
        **(_of_starts(engine) if engine.rules.lemons.hosts else {}),
        "cycles": state.cycles,
        "events": state.events,
        "samples": [_sample(sample) for sample in state.samples],
    }


def _rings(engine: Engine | EmbeddedReplay) -> Data:
    """Rings on uplinks of leaves up to the last arrival: on the worst leaf, and beyond two, by time."""
    state, span = engine.state, float(engine.trace.arrival[-1])
    return {
        "worst": _ratio(state.ring_seconds, span),
        "crowded": _ratio(state.crowded_seconds, span),
        "excess": _ratio(state.excess_seconds, span),
    }


def _of_failures(engine: Engine | EmbeddedReplay) -> Data:
    """How long gangs take to go on after a host has failed, what waiting for others costs, and what is lost."""
    state, total, span = engine.state, engine.fabric.gpus, float(engine.trace.arrival[-1])
    lost = float(state.lost.sum())
    return {
        "failures": {
            "goodput_of_all_hosts": _ratio(state.window_worked - state.window_lost, total * span),
            "lost_share": _ratio(lost, lost + state.useful + _unfinished(engine)),
            "lost_share_expected": _lost_by_formula(engine, span),
            "recovery_seconds": figures(np.array(state.recoveries)),
            "pods_replaced": state.replaced,
            "gpu_hours_halted": round(state.halted / HOUR, 3),
        }
    }


def _of_starts(engine: Engine | EmbeddedReplay) -> Data:
    """How many starts failed, how long jobs took to run with every pod, and what was held meanwhile."""
    state, trace = engine.state, engine.trace
    several = trace.gpus > engine.fabric.gpus_per_host
    up = (state.came_up >= 0) & several
    return {
        "starts": {
            "failed": int(state.failed_starts.sum()),
            "jobs": int((state.failed_starts > 0).sum()),
            "beyond_three": int((state.failed_starts > _RETRIES).sum()),
            "running_seconds": figures((state.came_up - trace.arrival)[up]),
            "retrying_seconds": figures((state.came_up - state.first_start)[up]),
            "gpu_hours_in_vain": round(state.in_vain / HOUR, 3),
        }
    }


_RETRIES = 3
"""Retries of a Volcano Job that says nothing of them."""


def _lost_by_formula(engine: Engine | EmbeddedReplay, span: float) -> float | None:
    """The share of work that is repeated, by the closed formula.

    A gang on n hosts is stopped n times as often as a host fails, and repeats half an interval between checkpoints, or
    half of its run where that is shorter, and the restart cost; gangs count by their work. Services, which run on, do
    not count.
    """
    trace, rules, hosts = engine.trace, engine.rules, len(engine.fabric.nodes)
    failed = sum(isinstance(incident, NodeLost) and incident.after <= span for incident in rules.incidents)
    duration = np.where(np.isfinite(trace.duration), trace.duration, 0.0)
    work = trace.gpus * duration
    if not span or not work.sum():
        return None
    on = np.maximum(1, -(-trace.gpus // engine.fabric.gpus_per_host))
    repeated = np.minimum(rules.checkpoint_interval, duration) / 2 + rules.restart_cost
    return _ratio(float((work * on * repeated).sum()) * failed / (hosts * span), float(work.sum()))


def _unfinished(engine: Engine | EmbeddedReplay) -> float:
    """GPU-seconds that running gangs have worked since they started."""
    clock, gpus, running = engine.state.clock, engine.trace.gpus, engine.state.running.items()
    return sum((clock - start) * engine.pace(job) * int(gpus[job]) for job, (start, _) in running)


def _class(times: _Times, low: int, high: int | None) -> Data:
    selected = (times.gpus >= low) & (times.gpus <= (high or np.inf))
    name = f"{low}-{high}" if high else f"{low}+"
    return {"gpus": str(low) if low == high else name, **times.of(selected)}


def _sample(sample: Sample) -> Data:
    return {
        "time": round(sample.time, 3),
        "held": sample.held,
        "asked": sample.asked,
        "running": sample.running,
        "waiting": sample.waiting,
        "fragmentation": [round(value, 6) for value in sample.fragmentation],
        "leaves": sample.leaves.tolist(),
    }


def _mean(values: list[int]) -> float | None:
    return round(float(np.mean(values)), 6) if values else None


def _ratio(part: float, total: float) -> float | None:
    return round(part / total, 6) if total else None
