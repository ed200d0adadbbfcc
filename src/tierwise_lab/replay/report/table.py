"""The outcome of a replay in words and as a table: a verdict, then one line per number, one column per contender."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.tables import Cell, TableColumn, table

__all__ = [
    "DECISIVE",
    "FIGURE",
    "FIGURES",
    "Figure",
    "calibration_lines",
    "duration",
    "lines",
    "shown_figures",
    "verdict",
]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them, two units at most."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 86400 else f"{seconds / 86400:,.1f} d"


class Figure(msgspec.Struct, frozen=True):
    """A number of an outcome: where it is there, what it is called, and how it is written.

    More of it is better (1), less (-1) or neither; a difference in it has a word for either side.
    """

    key: str  # its path in the outcome
    title: str
    show: Callable[[float | None], str]
    better: int = 0
    words: tuple[str, str] = ("better", "worse")

    def read(self, outcome: dict[str, Any]) -> float | None:
        """Its value; None where the outcome has none."""
        value: Any = outcome
        for part in self.key.split("."):
            value = None if value is None else value.get(part)
        return None if value is None else float(value)

    @property
    def is_share(self) -> bool:
        """Whether differences are points."""
        return self.show is _share

    def text(self, outcome: dict[str, Any]) -> str:
        return self.show(self.read(outcome))

    def difference(self, outcome: dict[str, Any], base: dict[str, Any]) -> str:
        """How far an outcome is from another: points of a share, else a share of it; empty where they read the same."""
        new, old = self.read(outcome), self.read(base)
        if new is None or old is None or self.show(new) == self.show(old):
            return ""
        if self.is_share:
            return f"{100 * (new - old):+.2f} points"
        if old == 0:
            return f"+{self.show(new)}"
        if new >= _FAR * old:
            return f"×{new / old:,.0f}"
        share = 100 * (new - old) / old
        return f"{share:+.0f} %" if abs(share) >= 0.5 else f"{share:+.1g} %"

    def is_better(self, outcome: dict[str, Any], base: dict[str, Any]) -> bool | None:
        """Whether an outcome is better than another; None where they read the same, or neither is better."""
        new, old = self.read(outcome), self.read(base)
        if not self.better or new is None or old is None or self.show(new) == self.show(old):
            return None
        return (new > old) == (self.better > 0)


_FAR: Final = 10
"""From so many times as much on, people say how many times."""


def _count(value: float | None) -> str:
    if value is None:
        return "-"
    if 0 < value < 10 and value != round(value):
        return f"{value:.1g}" if value < 1 else f"{value:.1f}"  # a mean of counts
    return f"{value:,.0f}"


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} h"


_CLOSER, _LESS = ("closer", "wider"), ("waits less", "waits longer")

FIGURES: Sequence[Figure] = (
    Figure("jobs.finished", "jobs finished", _count, 1),
    Figure("jobs.running", "jobs still running", _count),
    Figure("jobs.waiting", "jobs still waiting", _count, -1),
    Figure("jobs.refused", "jobs refused", _count, -1),
    Figure("gpus.allocation", "GPU allocation", _share, 1),
    Figure("gpus.occupancy", "GPU occupancy", _share, 1),
    Figure("times.wait_seconds.mean", "wait, mean", duration, -1, _LESS),
    Figure("times.wait_seconds.p95", "wait, 95th percentile", duration, -1, _LESS),
    Figure("times.wait_seconds.p99", "wait, 99th percentile", duration, -1, _LESS),
    Figure("times_of_gangs.wait_seconds.mean", "wait of multi-host jobs", duration, -1, _LESS),
    Figure("times.completion_seconds.mean", "completion, mean", duration, -1),
    Figure("times.completion_seconds.p95", "completion, 95th percentile", duration, -1),
    Figure("spread.gangs", "gangs of several pods", _count),
    Figure("spread.leaves.mean", "leaves per gang, mean", _number, -1),
    Figure("spread.leaves.max", "leaves per gang, max", _number, -1, _CLOSER),
    Figure("spread.excess", "leaves beyond the fewest", _count, -1, _CLOSER),
    Figure("spread.tier.mean", "tiers crossed, mean", _number, -1),
    Figure("spread.tier.max", "tiers crossed, max", _number, -1),
    Figure("spread.ring_leaf.mean", "ring across leaves, buffers/step", _number, -1),
    Figure("spread.ring_spine.mean", "ring across spines, buffers/step", _number, -1),
    Figure("spread.all_leaf.mean", "all-to-all across leaves, buffers/step", _number, -1),
    Figure("spread.all_spine.mean", "all-to-all across spines, buffers/step", _number, -1),
    Figure("fragmentation.8", "fragmentation, gangs of 8 GPUs", _share, -1),
    Figure("fragmentation.64", "fragmentation, gangs of 64 GPUs", _share, -1),
    Figure("parted.hosts", "hosts no longer whole", _number, -1),
    Figure("parted.leaves", "leaves no longer whole", _number, -1),
    Figure("rings.worst", "rings on the worst leaf, mean", _number, -1),
    Figure("rings.crowded", "time above two rings on a leaf", _share, -1),
    Figure("rings.excess", "rings beyond two, all leaves", _number, -1),
    Figure("stops.evictions", "gangs evicted", _count, -1),
    Figure("stops.failures", "gangs stopped by failing hosts", _count),
    Figure("gpu_hours.held", "GPU time held", _hours),
    Figure("gpu_hours.lost", "GPU time lost", _hours, -1),
)
"""The numbers that are shown, in their order."""

_OF_FAILURES: Final[Sequence[Figure]] = (
    Figure("gpus.goodput", "goodput", _share, 1),
    Figure("failures.recovery_seconds.mean", "recovery of gangs, mean", duration, -1),
    Figure("failures.recovery_seconds.p95", "recovery of gangs, 95th percentile", duration, -1),
    Figure("failures.pods_replaced", "pods replaced", _count),
    Figure("failures.gpu_hours_halted", "GPU time held by halted gangs", _hours, -1),
)
"""The same where hosts fail."""

_OF_STARTS: Final[Sequence[Figure]] = (
    Figure("starts.failed", "starts that failed", _count, -1),
    Figure("starts.jobs", "jobs with a failed start", _count, -1),
    Figure("starts.beyond_three", "jobs with more than three", _count, -1),
    Figure("starts.running_seconds.mean", "arrival until all of a multi-host job runs, mean", duration, -1),
    Figure("starts.retrying_seconds.mean", "first start until all of it runs, mean", duration, -1),
    Figure("starts.retrying_seconds.p99", "first start until all of it runs, 99th percentile", duration, -1),
    Figure("starts.gpu_hours_in_vain", "GPU time held by starts that failed", _hours, -1),
)
"""The same where starts fail."""


def shown_figures(outcomes: Sequence[dict[str, Any]]) -> Sequence[Figure]:
    """The numbers that these outcomes have."""
    failures = _OF_FAILURES if all("failures" in outcome for outcome in outcomes) else ()
    starts = _OF_STARTS if all("starts" in outcome for outcome in outcomes) else ()
    return (*FIGURES, *failures, *starts)


FIGURE: Mapping[str, Figure] = {figure.key: figure for figure in (*FIGURES, *_OF_FAILURES, *_OF_STARTS)}
"""All of them by key."""
CLOSENESS, WAIT = FIGURE["spread.excess"], FIGURE["times.wait_seconds.mean"]
"""The two that matter most in a sweep: maps and worst cells are about them."""
COMPARED: Sequence[Figure] = (
    FIGURE["gpus.occupancy"],
    FIGURE["gpus.goodput"],
    WAIT,
    FIGURE["times.wait_seconds.p99"],
    FIGURE["times_of_gangs.wait_seconds.mean"],
    FIGURE["spread.leaves.max"],
    CLOSENESS,
    FIGURE["parted.hosts"],
    FIGURE["parted.leaves"],
)
"""Those that a sweep compares."""
DECISIVE: Sequence[Figure] = tuple(
    FIGURE[key] for key in ("gpus.occupancy", "times.wait_seconds.mean", "spread.leaves.mean", "gpu_hours.lost")
)
"""The numbers that a verdict is about."""


def verdict(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """The outcome in a sentence or two: who is best in what, by how much; or that nothing differs."""
    if len(outcomes) == 1:
        figures_text = ", ".join(f"{figure.title} {figure.text(outcomes[0])}" for figure in DECISIVE)
        jobs = outcomes[0]["jobs"]
        return [f"{outcomes[0]['profile']}: {jobs['finished']:,} of {jobs['arrived']:,} jobs finished; {figures_text}."]
    wins, differ = _wins(outcomes)
    if not differ:
        return [f"No difference: {', '.join(figure.title for figure in DECISIVE)} are the same under all profiles."]
    order = sorted(wins, key=lambda name: -len(wins[name]))
    sentences = [f"{order[0]} is best in {len(wins[order[0]])} of {differ} figures: {'; '.join(wins[order[0]])}."]
    better = [name for name in order[1:] if set(wins[name]) - set(wins[order[0]])]
    sentences += [
        f"{name} is best in {'; '.join(t for t in wins[name] if t not in wins[order[0]])}." for name in better
    ]
    return sentences


def _wins(outcomes: Sequence[dict[str, Any]]) -> tuple[dict[str, list[str]], int]:
    """By profile in which figures it is best, in words; and in how many figures profiles differ at all."""
    wins: dict[str, list[str]] = {outcome["profile"]: [] for outcome in outcomes}
    differ = 0
    for figure in DECISIVE:
        best = _best(figure, outcomes)
        if best is None:
            continue
        differ += 1
        others_text = ", ".join(f"{o['profile']} {figure.text(o)}" for o in outcomes if o["profile"] not in best)
        best_outcome = next(o for o in outcomes if o["profile"] in best)
        for name in wins.keys() & best:
            wins[name].append(f"{figure.title} {figure.text(best_outcome)} ({others_text})")
    return wins, differ


def _best(figure: Figure, outcomes: Sequence[dict[str, Any]]) -> set[str] | None:
    """The profiles whose number is best, or as good as that; None where all are, or none has one."""
    values = [(value, o["profile"]) for o in outcomes if (value := figure.read(o)) is not None]
    if not values:
        return None
    top = max(values)[0] if figure.better > 0 else min(values)[0]
    best = {name for value, name in values if abs(value - top) <= _AS_GOOD * abs(top)}
    return best if len(best) < len(outcomes) else None


_AS_GOOD: Final = 0.01
"""The share of a number within which another is as good: another seed would move it as far."""

_MOST_COMPARED: Final = 3
"""Profiles whose differences stand beside their numbers; with more there is no room on a screen."""


def lines(page: Page, results: dict[str, Any], command: str = "") -> list[Text]:
    """The page of a replay: verdict, trace, the numbers side by side, and the command that repeats it."""
    inputs = results["inputs"]
    load = _share(inputs["offered_load"])
    head = (
        f"{inputs['jobs']:,} jobs of {inputs['trace']} within {duration(inputs['span_seconds'])}, "
        f"offering {load} of {inputs['gpus']:,} GPUs on {inputs['hosts']:,} hosts"
    )
    outcomes = results["outcomes"]
    columns = (TableColumn("", least=16), *(TableColumn(o["profile"], right=True) for o in outcomes))
    rows: list[Sequence[Cell]] = [(figure.title, *_compared(figure, outcomes)) for figure in shown_figures(outcomes)]
    return [
        *(line for sentence in verdict(outcomes) for line in wrapped(Text(sentence, style="bold"), page.width)),
        Text(),
        *wrapped(Text(head), page.width),
        Text(),
        *table(page, columns, rows),
        *_by_size(page, outcomes),
        *_by_queue(page, outcomes),
        *([Text(), *wrapped(Text(f"repeat: {command}", style="dim"), page.width)] if command else []),
    ]


def _compared(figure: Figure, outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """A number of every outcome; of the later ones also how far it is from the first."""
    if len(outcomes) > _MOST_COMPARED:
        return [figure.text(outcome) for outcome in outcomes]
    apart = [figure.difference(outcome, outcomes[0]) for outcome in outcomes]
    return [f"{figure.text(o)} ({by})" if by else figure.text(o) for o, by in zip(outcomes, apart, strict=True)]


def _by_size(page: Page, outcomes: Sequence[dict[str, Any]]) -> list[Text]:
    """Leaves by size of gangs; nothing where no gang has several pods."""
    sizes = [size_row["pods"] for size_row in outcomes[0]["spread_by_size"]]
    if not sizes:
        return []
    title = Text("leaves per gang by its pods: mean, max, and times the fewest possible", style="bold")
    columns = (TableColumn("pods"), *(TableColumn(o["profile"], right=True) for o in outcomes))
    rows: list[Sequence[Cell]] = [(size, *(_leaves(o, size) for o in outcomes)) for size in sizes]
    return [Text(), *wrapped(title, page.width), Text(), *table(page, columns, rows)]


def _leaves(outcome: dict[str, Any], size: str) -> str:
    size_row = next((row for row in outcome["spread_by_size"] if row["pods"] == size), None)
    if size_row is None:
        return "-"
    return f"{size_row['leaves']['mean']:.2f} {size_row['leaves']['max']:.0f} ×{size_row['stretch']['mean']:.2f}"


def _by_queue(page: Page, outcomes: Sequence[dict[str, Any]]) -> list[Text]:
    """How long jobs of each queue waited, and what they lost; nothing where there is one."""
    queues = [queue_row["queue"] for queue_row in outcomes[0]["queues"]]
    if len(queues) < 2:
        return []
    title = Text("by queue: mean wait, and GPU time lost", style="bold")
    columns = (
        TableColumn("queue"),
        TableColumn("jobs", right=True),
        *(TableColumn(o["profile"], right=True) for o in outcomes),
    )
    rows: list[Sequence[Cell]] = [
        (name, f"{outcomes[0]['queues'][i]['jobs']:,}", *(_queue(o["queues"][i]) for o in outcomes))
        for i, name in enumerate(queues)
    ]
    return [Text(), *wrapped(title, page.width), Text(), *table(page, columns, rows)]


def _queue(queue_row: dict[str, Any]) -> str:
    return f"{duration(queue_row['wait_seconds']['mean'])}, {_hours(queue_row['gpu_hours_lost'])}"


# -- how many jobs started inside the ranges that were stated for them

_CALIBRATION = (
    TableColumn("profile", least=8),
    TableColumn("GPUs"),
    TableColumn("asked", right=True),
    TableColumn("unknown", right=True),
    TableColumn("in 50 %", right=True),
    TableColumn("in 90 %", right=True),
    TableColumn("uncorrected", right=True),
    TableColumn("waited", right=True),
    TableColumn("width", right=True),
    TableColumn("÷ wait", right=True),
)


def calibration_lines(page: Page, calibrations: Sequence[dict[str, Any]]) -> list[Text]:
    """One line for each profile, and one for each size of jobs below it."""
    rows: list[list[Cell]] = []
    for calibration in calibrations:
        rows.append([Text(str(calibration["name"]), style="bold"), "all", *_calibrated(calibration)])
        rows += [["", _sizes(part["gpus"]), *_calibrated(part)] for part in calibration["by_size"]]
    note = (
        "Each job was asked about when it began to wait, with what was known then; unknown: no start was expected, as "
        "ends were not known. Shares, of the others, of starts inside the stated ranges; uncorrected: those of runs "
        "ahead alone; waited and width: medians of the wait and of the 50 % range; ÷ wait: how wide the two ranges are "
        "beside the wait, in the median, the smaller the sharper."
    )
    return [*table(page, _CALIBRATION, rows, indent=0), Text(""), *wrapped(Text(note, style="dim"), page.width)]


def _sizes(gpus: Sequence[int]) -> str:
    low, high = gpus
    if low == high:
        return str(low)
    return f"{low}-{high}" if high < 1 << 30 else f"{low} and more"


def _calibrated(part: dict[str, Any]) -> list[Cell]:
    return [
        str(part["asked"]),
        str(part["unknown"]),
        _share(part["inside_50"]),
        _share(part["inside_90"]),
        f"{_share(part['runs_alone_50'])} {_share(part['runs_alone_90'])}",
        duration(part["waited_seconds_median"]),
        duration(part["width_50_seconds_median"]),
        " ".join("-" if part[key] is None else f"{part[key]:.1f}" for key in ("sharpness_50", "sharpness_90")),
    ]
