"""The report of a replay: plots over time, by size and by queue, of spread and traffic, heat maps, and all numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from tierwise.replay.engine.cluster import SLOT_SIZES
from tierwise.replay.report.plots import WHOLE, Series, bars, heat, lines
from tierwise.replay.report.table import ROWS, duration

__all__ = ["pair", "report", "section", "sheet", "table"]


# The page that a report is: one HTML file with everything in it, light or dark as the reader's system is.


_STYLE = """
:root{color-scheme:light dark;--ink:#1d2433;--soft:#667085;--page:#f6f7f9;--card:#fff;--rule:#e4e7ec;
--c0:#2563eb;--c1:#d97706;--c2:#059669;--c3:#dc2626;--c4:#7c3aed;--c5:#0891b2}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--page:#0f1218;--card:#171b23;--rule:#2a303b;
--c0:#6ea8fe;--c1:#fbbf24;--c2:#34d399;--c3:#f87171;--c4:#b794f6;--c5:#22d3ee}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1160px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:16px;margin:0}
p{color:var(--soft);margin:2px 0 12px}section{background:var(--card);border:1px solid var(--rule);border-radius:12px;
padding:18px 20px;margin-top:16px}.two{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(440px,1fr))}
.two section{margin-top:0}.two{margin-top:16px}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--rule)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.heat{fill:var(--c0)}.key{display:flex;gap:16px;flex-wrap:wrap;margin-top:14px}
.key b{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:5px 10px;text-align:right;border-top:1px solid var(--rule)}th{border:0}
td:first-child,th:first-child{text-align:left;color:var(--soft)}
""" + "".join(
    f".line.c{i}{{stroke:var(--c{i})}}.bar.c{i}{{fill:var(--c{i})}}.key .c{i}{{background:var(--c{i})}}"
    for i in range(6)
)


def sheet(title: str, intro: str, names: Sequence[str], body: Sequence[str]) -> str:
    """The whole file: a title, a line about what was done, whose colour is which, and the sections."""
    key = "".join(f'<span><b class="c{n % 6}"></b>{escape(name)}</span>' for n, name in enumerate(names))
    head = f"<h1>{escape(title)}</h1><p>{escape(intro)}</p><div class='key'>{key}</div>"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)} - tierwise simulate</title><style>{_STYLE}</style></head>"
        f"<body><main>{head}{''.join(body)}</main></body></html>\n"
    )


def section(title: str, text: str, plot: str) -> str:
    """A plot with a title and a line on what it shows."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{plot}</section>"


def pair(*sections: str) -> str:
    """Sections side by side where there is room."""
    return f"<div class='two'>{''.join(sections)}</div>"


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers, one column for each contender."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    body = f"<div class='scroll'><table><tr><th></th>{head}</tr>{lines}</table></div>"
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


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
