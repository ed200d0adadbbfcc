"""The report of a replay: a verdict, plots over time, by size and by queue, of spread and traffic, and all numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import inf
from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Any

import msgspec

from tierwise import __version__
from tierwise_lab.replay.engine.cluster import SLOT_SIZES
from tierwise_lab.replay.report.plots import WHOLE, Series, bars, coincidences, heat, key, lines
from tierwise_lab.replay.report.table import DECISIVE, FIGURES, Figure, duration, shown_figures, verdict

__all__ = ["Head", "pair", "report", "section", "sheet", "table"]


# The page that a report is: one HTML file with everything in it, light or dark as the reader's system is.


_STYLE = (get_data(__package__, "report.css") or b"").decode()


class Head(msgspec.Struct, frozen=True):
    """The head of a report, above its sections."""

    title: str
    verdict: Sequence[str]  # sentences
    intro: str  # what was done
    names: Sequence[str]  # of the contenders
    command: str = ""  # that repeats it


def sheet(head: Head, body: Sequence[str]) -> str:
    """The whole file: the verdict first, how to repeat it, whose line is which, and the sections."""
    title = head.title
    verdicts = "".join(f"<p class='verdict'>{escape(sentence)}</p>" for sentence in head.verdict)
    code = f"<code>{escape(head.command)}</code> (tierwise {__version__})"
    repeat = f"<p>Repeat it with {code}</p>" if head.command else ""
    above = f"<h1>{escape(title)}</h1>{verdicts}<p>{escape(head.intro)}</p>{repeat}{key(head.names)}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)} - tierwise simulate</title><style>{_STYLE}</style></head>"
        f"<body><main>{above}{''.join(body)}</main></body></html>\n"
    )


def section(title: str, text: str, plot: str) -> str:
    """A plot with a title and a line on what it shows."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{plot}</section>"


def pair(*sections: str) -> str:
    """Sections side by side where there is room."""
    return f"<div class='two'>{''.join(sections)}</div>"


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], text: str = "") -> str:
    """Numbers, one column for each contender; cells are markup."""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in names)
    lines = "".join(
        f"<tr><th scope='row'>{escape(row[0])}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    body = (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{escape(title)}'>"
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
    return f"<section><h2>{escape(title)}</h2>{f'<p>{escape(text)}</p>' if text else ''}{body}</section>"


_STEP = 3
"""Every so many samples are drawn in a heat map: a page of several profiles stays small."""


_TRAFFIC = (
    ("ring, leaves", "ring_leaf"),
    ("ring, spines", "ring_spine"),
    ("all-to-all, leaves", "all_leaf"),
    ("all-to-all, spines", "all_spine"),
)


def report(results: dict[str, Any], command: str = "") -> str:
    """The page for the results of a comparison; `command` repeats it."""
    inputs = results["inputs"]
    outcomes = results["outcomes"]
    intro = (
        f"{inputs['jobs']:,} jobs within {duration(inputs['span_seconds'])} on {inputs['hosts']:,} hosts with "
        f"{inputs['gpus']:,} GPUs; seed {inputs['seed']}, cycles every {inputs['period_seconds']:g} s at most"
    )
    names = [outcome["profile"] for outcome in outcomes]
    apart = f"In brackets: the difference to {names[0]}." if len(names) > 1 else ""
    short = [figure for figure in FIGURES if figure in DECISIVE or figure.key == "spread.leaves.max"]
    body = (
        table("In short", names, [_row(figure, outcomes) for figure in short], apart),
        _over_time(inputs, outcomes),
        _by_size(outcomes),
        _traffic(outcomes),
        _by_queue(outcomes),
        pair(*(_heat(inputs, outcome) for outcome in outcomes)),
        table("All numbers", names, [_row(figure, outcomes) for figure in shown_figures(outcomes)], apart),
    )
    title = f"Simulation of {inputs['trace']}: {_and(names)}"
    return sheet(Head(title, verdict(outcomes), intro, names, command), body)


def _and(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


_JUDGEMENTS = {None: ("", ""), True: (" class='good'", ", better"), False: (" class='bad'", ", worse")}
"""By whether an outcome is better than the first, the class of its cell and a word."""


def _row(figure: Figure, outcomes: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """A number of every outcome, with the difference to the first where there is one: better and worse in words."""
    cells = [escape(figure.text(outcomes[0]))]
    for outcome in outcomes[1:]:
        apart = figure.difference(outcome, outcomes[0])
        better = figure.is_better(outcome, outcomes[0])
        kind, word = _JUDGEMENTS[better]
        cells.append(escape(figure.text(outcome)) + (f" <small{kind}>({escape(apart)}{word})</small>" if apart else ""))
    return figure.title, *cells


def _over_time(inputs: dict[str, Any], outcomes: Sequence[dict[str, Any]]) -> str:
    def series(value_of: Callable[[dict[str, Any]], float]) -> list[Series]:
        return [
            Series(
                o["profile"], [value_of(sample) for sample in o["samples"]], [sample["time"] for sample in o["samples"]]
            )
            for o in outcomes
        ]

    def drawn(title: str, text: str, drawn_series: list[Series], **how: Any) -> str:
        return section(title, f"{text} {coincidences(drawn_series)}".strip(), lines(drawn_series, label=title, **how))

    size = _largest(inputs)
    gangs = f"gangs of {SLOT_SIZES[size]} GPUs"
    used = series(lambda s: 100 * s["held"] / inputs["gpus"])
    waiting = series(lambda s: float(s["waiting"]))
    broken = series(lambda s: 100 * s["fragmentation"][size] if s["fragmentation"] else 0.0)
    share = "Share of all GPUs that gangs hold, up to the last arrival."
    return drawn("GPUs in use", share, used, unit="%", top=100, width=WHOLE) + pair(
        drawn("Waiting gangs", "How many wait.", waiting, unit="gangs"),
        drawn("Fragmentation", f"Share of the free GPUs that {gangs} in a leaf cannot use.", broken, unit="%", top=100),
    )


def _largest(inputs: dict[str, Any]) -> int:
    """Which of the sizes that fragmentation is counted for is drawn: the largest that a leaf can hold."""
    largest = max(inputs["leaf_gpus"], default=0)
    return max((i for i, size in enumerate(SLOT_SIZES) if size <= largest), default=0)


_UNITS = (("s", 1, 120), ("min", 60, 2 * 3600), ("h", 3600, inf))
"""Units of a time axis, their seconds, and the longest time that each is used for."""


def _times(title: str, text: str, groups: Sequence[str], series: Sequence[Series]) -> str:
    """Bars of times in seconds, in the unit that suits them."""
    highest = max((value for series_drawn in series for value in series_drawn.values), default=0.0)
    unit, size = next((unit, size) for unit, size, longest in _UNITS if highest <= longest)
    scaled = [Series(series_drawn.name, [value / size for value in series_drawn.values]) for series_drawn in series]
    shown = bars(groups, scaled, label=title, unit=unit, show=lambda value: duration(value * size))
    return section(title, text, shown)


def _by_size(outcomes: Sequence[dict[str, Any]]) -> str:
    groups = [f"{c['gpus']} GPU{'' if c['gpus'] == '1' else 's'}" for c in outcomes[0]["times_by_size"]]

    def plot(title: str, text: str, what: str) -> str:
        mean_series = [Series(o["profile"], [c[what]["mean"] or 0.0 for c in o["times_by_size"]]) for o in outcomes]
        return _times(title, text, groups, mean_series)

    return pair(
        plot("Wait by size", "Mean time that a job waited, by the GPUs that it asks for.", "wait_seconds"),
        plot("Completion by size", "Mean time from arrival to end, by GPUs.", "completion_seconds"),
    )


def _traffic(outcomes: Sequence[dict[str, Any]]) -> str:
    sizes = [size_row["pods"] for size_row in outcomes[0]["spread_by_size"]] if outcomes else []

    def leaves(title: str, text: str, how: str) -> str:
        leaf_series = [Series(o["profile"], [_leaves(o, size, how) for size in sizes]) for o in outcomes]
        return section(title, text, bars([f"{size} pods" for size in sizes], leaf_series, label=title, unit="leaves"))

    carried = [Series(o["profile"], [o["spread"][name]["mean"] or 0.0 for _, name in _TRAFFIC]) for o in outcomes]
    shown = bars([title for title, _ in _TRAFFIC], carried, label="Traffic", unit="buffers", width=WHOLE)
    text = "Modelled buffers per step and gang that cross leaves or spines, in a ring and all-to-all."
    return pair(
        leaves("Spread", "Mean number of leaves that a gang stands on, by its pods.", "mean"),
        leaves("Widest gangs", "The most leaves that a gang stands on, by its pods.", "max"),
    ) + section("Traffic", text, shown)


def _leaves(outcome: dict[str, Any], size: str, how: str) -> float:
    leaf_number = next(
        (size_row["leaves"][how] for size_row in outcome["spread_by_size"] if size_row["pods"] == size), None
    )
    return leaf_number or 0.0


def _heat(inputs: dict[str, Any], outcome: dict[str, Any]) -> str:
    samples = outcome["samples"]
    rows = [
        (name, [sample["leaves"][i] / gpus for sample in samples[::_STEP]])
        for i, (name, gpus) in enumerate(zip(inputs["leaves"], inputs["leaf_gpus"], strict=True))
    ]
    title = f"Leaves, {outcome['profile']}"
    label = f"{title}: how full each of {len(rows)} leaves is over time"
    plot = heat(rows, label=label, last_time=inputs["span_seconds"])
    return section(title, "One line per leaf in the order of the tree; fuller is stronger.", plot)


def _by_queue(outcomes: Sequence[dict[str, Any]]) -> str:
    """Nothing where there is one queue."""
    queues = [str(queue_row["queue"]) for queue_row in outcomes[0]["queues"]] if outcomes else []
    if len(queues) < 2:
        return ""
    waits = [Series(o["profile"], [q["wait_seconds"]["mean"] or 0.0 for q in o["queues"]]) for o in outcomes]
    lost = [Series(o["profile"], [q["gpu_hours_lost"] for q in o["queues"]]) for o in outcomes]
    lost_chart = bars(queues, lost, label="Lost by queue", unit="GPU h", show=lambda value: f"{value:,.1f} h")
    return pair(
        _times("Wait by queue", "Mean time that a job waited.", queues, waits),
        section("Lost by queue", "GPU time of work that had to be repeated.", lost_chart),
    )
