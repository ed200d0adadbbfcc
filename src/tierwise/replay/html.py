"""The report of a replay: plots over time, by size and by queue, of spread and traffic, heat maps, and all numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tierwise.replay.books import SLOT_SIZES
from tierwise.replay.page import ROWS, duration
from tierwise.replay.plots import WHOLE, Series, bars, heat, lines
from tierwise.replay.sheet import pair, section, sheet, table

__all__ = ["report"]

_SHORT = ("GPU occupancy", "wait, mean", "leaves per gang, mean", "leaves per gang, max", "GPU-hours lost")
"""The numbers that stand on top."""

_STEP = 3
"""Every so many samples are drawn in a heat map: a page of several profiles stays small."""


_TRAFFIC = (
    ("ring, leaves", "ring_leaf"),
    ("ring, spines", "ring_spine"),
    ("all-to-all, leaves", "all_leaf"),
    ("all-to-all, spines", "all_spine"),
)


def report(results: dict[str, Any]) -> str:
    """The page for the results of a comparison."""
    told, outcomes = results["inputs"], results["outcomes"]
    intro = (
        f"{told['jobs']:,} jobs within {duration(told['span_seconds'])} on {told['hosts']:,} hosts with "
        f"{told['gpus']:,} GPUs; seed {told['seed']}, cycles every {told['period_seconds']:g} s at most"
    )
    names = [outcome["profile"] for outcome in outcomes]
    body = (
        table("In short", names, [(name, *(read(o) for o in outcomes)) for name, read in ROWS if name in _SHORT]),
        _over_time(told, outcomes),
        _by_size(outcomes),
        _traffic(outcomes),
        _by_queue(outcomes),
        pair(*(_heat(told, outcome) for outcome in outcomes)),
        table("All numbers", names, [(name, *(read(o) for o in outcomes)) for name, read in ROWS]),
    )
    return sheet(told["trace"], intro, names, body)


def _over_time(told: dict[str, Any], outcomes: Sequence[dict[str, Any]]) -> str:
    def series(read: Callable[[dict[str, Any]], float]) -> list[Series]:
        return [
            Series(o["profile"], [read(sample) for sample in o["samples"]], [sample["time"] for sample in o["samples"]])
            for o in outcomes
        ]

    size = _largest(told)
    gangs = f"gangs of {SLOT_SIZES[size]} GPUs"
    used = lines(series(lambda s: 100 * s["held"] / told["gpus"]), unit="%", top=100, width=WHOLE)
    waiting = lines(series(lambda s: float(s["waiting"])), unit="")
    broken = lines(series(lambda s: 100 * s["fragmentation"][size] if s["fragmentation"] else 0.0), unit="%", top=100)
    return section("GPUs in use", "Share of all GPUs that gangs hold, up to the last arrival.", used) + pair(
        section("Waiting gangs", "How many wait.", waiting),
        section("Fragmentation", f"Share of the free GPUs that {gangs} in a leaf cannot use.", broken),
    )


def _largest(told: dict[str, Any]) -> int:
    """Which of the sizes that fragmentation is counted for is drawn: the largest that a leaf can hold."""
    most = max(told["leaf_gpus"], default=0)
    return max((i for i, size in enumerate(SLOT_SIZES) if size <= most), default=0)


def _by_size(outcomes: Sequence[dict[str, Any]]) -> str:
    groups = [str(c["gpus"]) for c in outcomes[0]["times_by_size"]] if outcomes else []

    def plot(what: str) -> str:
        found = [Series(o["profile"], [(c[what]["mean"] or 0) / 3600 for c in o["times_by_size"]]) for o in outcomes]
        return bars(groups, found, unit="h")

    return pair(
        section("Wait by size", "Mean hours that a job waited, by the GPUs that it asks for.", plot("wait_seconds")),
        section("Completion by size", "Mean hours from arrival to end, by GPUs.", plot("completion_seconds")),
    )


def _traffic(outcomes: Sequence[dict[str, Any]]) -> str:
    sizes = [one["pods"] for one in outcomes[0]["spread_by_size"]] if outcomes else []

    def leaves(how: str) -> str:
        found = [Series(o["profile"], [_leaves(o, size, how) for size in sizes]) for o in outcomes]
        return bars(sizes, found, unit="")

    carried = [Series(o["profile"], [o["spread"][name]["mean"] or 0.0 for _, name in _TRAFFIC]) for o in outcomes]
    return pair(
        section("Spread", "Mean number of leaves that a gang stands on, by its pods.", leaves("mean")),
        section("Widest gangs", "The most leaves that a gang stands on, by its pods.", leaves("max")),
    ) + section(
        "Traffic",
        "Modelled buffers per step and gang that cross leaves or spines, in a ring and all-to-all.",
        bars([title for title, _ in _TRAFFIC], carried, unit="", width=WHOLE),
    )


def _leaves(outcome: dict[str, Any], size: str, how: str) -> float:
    found = next((one["leaves"][how] for one in outcome["spread_by_size"] if one["pods"] == size), None)
    return found or 0.0


def _heat(told: dict[str, Any], outcome: dict[str, Any]) -> str:
    samples = outcome["samples"]
    rows = [
        (name, [sample["leaves"][i] / gpus for sample in samples[::_STEP]])
        for i, (name, gpus) in enumerate(zip(told["leaves"], told["leaf_gpus"], strict=True))
    ]
    plot = heat(rows, last=told["span_seconds"])
    return section(
        f"Leaves, {outcome['profile']}", "One line per leaf in the order of the tree; fuller is stronger.", plot
    )


def _by_queue(outcomes: Sequence[dict[str, Any]]) -> str:
    """Nothing where there is one queue."""
    queues = [str(one["queue"]) for one in outcomes[0]["queues"]] if outcomes else []
    if len(queues) < 2:
        return ""
    waits = [Series(o["profile"], [(q["wait_seconds"]["mean"] or 0) / 3600 for q in o["queues"]]) for o in outcomes]
    lost = [Series(o["profile"], [q["gpu_hours_lost"] for q in o["queues"]]) for o in outcomes]
    return pair(
        section("Wait by queue", "Mean hours that a job waited.", bars(queues, waits, unit="h")),
        section("Lost by queue", "GPU-hours of work that had to be repeated.", bars(queues, lost, unit="")),
    )
