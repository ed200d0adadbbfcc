"""The report of a replay: one HTML file with everything in it, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from tierwise.replay.page import ROWS, duration
from tierwise.replay.plots import Series, bars, heat, lines

__all__ = ["report"]

_STEP = 3
"""Every so many samples are drawn in a heat map: a page of several profiles stays small."""

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


def report(results: dict[str, Any]) -> str:
    """The page for the results of a comparison."""
    told, outcomes = results["inputs"], results["outcomes"]
    intro = (
        f"{told['jobs']:,} jobs within {duration(told['span_seconds'])} on {told['hosts']:,} hosts with "
        f"{told['gpus']:,} GPUs; seed {told['seed']}, cycles every {told['period_seconds']:g} s at most"
    )
    key = "".join(f'<span><b class="c{n % 6}"></b>{escape(o["profile"])}</span>' for n, o in enumerate(outcomes))
    body = (
        f"<h1>{escape(told['trace'])}</h1><p>{intro}</p><div class='key'>{key}</div>",
        _over_time(told, outcomes),
        _by_size(outcomes),
        _traffic(outcomes),
        *(_heat(told, outcome) for outcome in outcomes),
        _table(outcomes),
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(told['trace'])} - tierwise simulate</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _section(title: str, text: str, plot: str) -> str:
    return f"<section><h2>{title}</h2><p>{text}</p>{plot}</section>"


def _over_time(told: dict[str, Any], outcomes: Sequence[dict[str, Any]]) -> str:
    times = [sample["time"] for sample in outcomes[0]["samples"]] if outcomes else []

    def series(read: Callable[[dict[str, Any]], float]) -> list[Series]:
        return [Series(o["profile"], [read(sample) for sample in o["samples"]]) for o in outcomes]

    used = lines(times, series(lambda s: 100 * s["held"] / told["gpus"]), unit="%", top=100)
    waiting = lines(times, series(lambda s: float(s["waiting"])), unit="")
    broken = lines(times, series(lambda s: 100 * (s["fragmentation"] or [0.0])[-1]), unit="%", top=100)
    return (
        _section("GPUs in use", "Share of all GPUs that gangs hold, up to the last arrival.", used)
        + "<div class='two'>"
        + _section("Waiting gangs", "How many wait.", waiting)
        + _section("Fragmentation", "Share of the free GPUs below leaves that gangs of 64 GPUs cannot use.", broken)
        + "</div>"
    )


def _by_size(outcomes: Sequence[dict[str, Any]]) -> str:
    groups = [str(c["gpus"]) for c in outcomes[0]["times_by_size"]] if outcomes else []

    def plot(what: str) -> str:
        found = [Series(o["profile"], [(c[what]["mean"] or 0) / 3600 for c in o["times_by_size"]]) for o in outcomes]
        return bars(groups, found, unit="h")

    return (
        "<div class='two'>"
        + _section("Wait by size", "Mean hours that a job waited, by the GPUs that it asks for.", plot("wait_seconds"))
        + _section("Completion by size", "Mean hours from arrival to end, by GPUs.", plot("completion_seconds"))
        + "</div>"
    )


def _traffic(outcomes: Sequence[dict[str, Any]]) -> str:
    def plot(names: Sequence[tuple[str, str, str]], unit: str) -> str:
        found = [Series(o["profile"], [o["spread"][f][how] or 0.0 for _, f, how in names]) for o in outcomes]
        return bars([title for title, _, _ in names], found, unit=unit)

    spread = (("leaves, mean", "leaves", "mean"), ("leaves, max", "leaves", "max"), ("tiers, mean", "tier", "mean"))
    traffic = (
        ("ring, leaves", "ring_leaf", "mean"),
        ("ring, spines", "ring_spine", "mean"),
        ("all-to-all, leaves", "all_leaf", "mean"),
        ("all-to-all, spines", "all_spine", "mean"),
    )
    return (
        "<div class='two'>"
        + _section(
            "Spread", "Leaves that a gang of several pods stands on, and tiers that it crosses.", plot(spread, "")
        )
        + _section("Traffic", "Modelled buffers per step and gang that cross leaves or spines.", plot(traffic, ""))
        + "</div>"
    )


def _heat(told: dict[str, Any], outcome: dict[str, Any]) -> str:
    samples = outcome["samples"]
    rows = [
        (name, [sample["leaves"][i] / gpus for sample in samples[::_STEP]])
        for i, (name, gpus) in enumerate(zip(told["leaves"], told["leaf_gpus"], strict=True))
    ]
    plot = heat(rows, last=told["span_seconds"])
    return _section(
        f"Leaves, {escape(outcome['profile'])}", "One line per leaf in the order of the tree; fuller is stronger.", plot
    )


def _table(outcomes: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(o['profile'])}</th>" for o in outcomes)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td>{escape(read(o))}</td>' for o in outcomes)}</tr>"
        for name, read in ROWS
    )
    table = f"<div class='scroll'><table><tr><th></th>{head}</tr>{rows}</table></div>"
    return f"<section><h2>All numbers</h2>{table}</section>"
