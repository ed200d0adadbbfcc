"""The report of a sweep: verdicts, ratios with intervals, heat maps, fronts and the worst cells; as HTML and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import StringIO

import numpy as np

from tierwise.api.plurals import count
from tierwise.replay.report.html import Head, section, sheet, table
from tierwise.replay.report.plots import Series, scatter
from tierwise.replay.report.table import Figure
from tierwise.replay.spec import command
from tierwise.replay.sweep.grid import PROFILE, SEED, Cell, Grid
from tierwise.replay.sweep.results import CellResult
from tierwise.replay.sweep.statistics import (
    CLOSENESS,
    NO_DIFFERENCE,
    SHOWN,
    WAIT,
    Difference,
    compared,
    compared_by_setting,
    pairs,
)

__all__ = ["comparison_rows", "csv_text", "html_text"]

_WORST = 10


def comparison_rows(found: Sequence[Difference]) -> Iterator[tuple[str, str, str, str]]:
    """Figure, what the baseline has, the profile beside it with the interval, and the verdict."""
    shown = {figure.title: figure.show for figure in SHOWN}
    for one in found:
        show = shown[one.figure]
        if one.value is None or one.low is None or one.high is None:
            yield one.figure, show(one.there), "-", one.verdict
        elif one.points:
            told = f"{100 * one.value:+.2f} points [{100 * one.low:+.2f}, {100 * one.high:+.2f}]"
            yield one.figure, show(one.there), told, one.verdict
        else:
            yield one.figure, show(one.there), f"×{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]", one.verdict


def csv_text(grid: Grid, results: Mapping[int, CellResult]) -> str:
    """All figures of all cells, a line each."""
    text = StringIO()
    titles = list(dict.fromkeys(title for result in results.values() for title in result.figures))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*grid.axes, *titles, "error"])
    for cell in grid:
        result = results.get(cell.number)
        if result is not None:
            writer.writerow([*cell.names.values(), *(result.figures.get(t) for t in titles), result.error])
    return text.getvalue()


def worst(grid: Grid, results: Mapping[int, CellResult], figure: Figure) -> list[tuple[Cell, float]]:
    """The cells in which a profile is furthest behind the baseline in one figure, the worst first."""
    cells = {tuple(cell.names.values()): cell for cell in grid}
    place = list(grid.axes).index(PROFILE) if PROFILE in grid.axes else None
    found = []
    for names, cell in cells.items():
        if place is None or names[place] == grid.baseline:
            continue
        other = cells[(*names[:place], grid.baseline, *names[place + 1 :])]
        mine, theirs = (
            (results[c.number].figures.get(figure.title) if c.number in results else None) for c in (cell, other)
        )
        if mine is not None and theirs is not None and figure.better * (mine - theirs) < 0:
            found.append((cell, figure.better * (mine - theirs)))
    return sorted(found, key=lambda entry: (entry[1], entry[0].number))[:_WORST]


def html_text(grid: Grid, results: Mapping[int, CellResult], repeat: str) -> str:
    """The whole page."""
    sides = pairs(grid, results)
    failed = sum(bool(result.error) for result in results.values())
    verdicts, body = [], []
    for one in sides:
        found = compared(one)
        told = list(dict.fromkeys(d.verdict for d in found if d.verdict != NO_DIFFERENCE)) or [NO_DIFFERENCE]
        verdicts.append(f"{one.profile} beside {grid.baseline}: {', '.join(told)}.")
        rows = [[escape(cell) for cell in row] for row in comparison_rows(found)]
        names = [grid.baseline, f"{one.profile}, 95 % interval", "verdict"]
        text = f"{count(len(one.here), 'pair')} of cells with the same trace and seed, corrected by Holm's method."
        body.append(table(f"{one.profile} beside {grid.baseline}", names, rows, text))
    body += _heat_maps(grid, results)
    body += _fronts(grid, results)
    for one in sides:
        body += _settings(grid, compared_by_setting(grid, one), one.profile)
    for figure in (CLOSENESS, WAIT):
        rows = [
            [", ".join(cell.names.values()), figure.show(abs(behind)), f"<code>{escape(command(cell.spec))}</code>"]
            for cell, behind in worst(grid, results, figure)
        ]
        body.append(table(f"Worst cells: {figure.title}", ["behind by", "alone"], rows))
    intro = f"{count(len(results), 'cell')} of {len(grid):,} over {', '.join(grid.axes)}" + (
        f"; {failed:,} failed" if failed else ""
    )
    profiles = list(grid.axes.get(PROFILE, {"": ""}))
    return sheet(Head("Sweep", verdicts, intro, profiles, repeat), body)


def _settings(grid: Grid, found: Sequence[Difference], profile: str) -> list[str]:
    """Differences over the seeds of each setting."""
    shown = {figure.title: figure.show for figure in SHOWN}
    rows = []
    for one in found:
        show = shown[one.figure]
        interval = f"{_signed(show, one.value)} [{_signed(show, one.low)}, {_signed(show, one.high)}]"
        where = ", ".join(one.setting.values()) or "all"
        rows.append([f"{where}: {one.figure}", show(one.there), show(one.here), interval, escape(one.verdict)])
    names = [grid.baseline, profile, "difference, 95 % interval over seeds", "verdict"]
    return (
        [f"<details><summary>{escape(profile)} by setting</summary>{table('', names, rows)}</details>"] if rows else []
    )


def _signed(show: object, value: float | None) -> str:
    assert callable(show)
    return "-" if value is None else f"{'−' if value < 0 else '+'}{show(abs(value))}"


def _means(grid: Grid, results: Mapping[int, CellResult], *axes: str) -> dict[tuple[str, ...], list[CellResult]]:
    """Results that share the values of some axes."""
    found: dict[tuple[str, ...], list[CellResult]] = {}
    for cell in grid:
        result = results.get(cell.number)
        if result is not None and not result.error:
            found.setdefault(tuple(cell.names.get(axis, "") for axis in axes), []).append(result)
    return found


def _mean(results: Sequence[CellResult], figure: Figure) -> float:
    values = [v for r in results if (v := r.figures.get(figure.title)) is not None]
    return float(np.mean(values)) if values else float("nan")


def _heat_maps(grid: Grid, results: Mapping[int, CellResult]) -> list[str]:
    """Means over the first two axes with several values, for each profile; stronger is worse."""
    axes = [axis for axis, values in grid.axes.items() if axis not in (PROFILE, SEED) and len(values) > 1][:2]
    if len(axes) < 2:
        return []
    down, across = axes
    made = []
    for figure in (CLOSENESS, WAIT):
        known = {key: _mean(some, figure) for key, some in _means(grid, results, PROFILE, down, across).items()}
        top = max((value for value in known.values() if np.isfinite(value)), default=0.0) or 1.0
        for profile in grid.axes.get(PROFILE, {"": ""}):
            rows = [
                [name, *(_shaded(known.get((profile, name, other)), top, figure) for other in grid.axes[across])]
                for name in grid.axes[down]
            ]
            text = f"mean over {down} (down) and {across} (across); stronger is more"
            made.append(table(f"{figure.title}: {profile}", list(grid.axes[across]), rows, text))
    return made


def _shaded(value: float | None, top: float, figure: Figure) -> str:
    if value is None or not np.isfinite(value):
        return "-"
    share = round(100 * min(value / top, 1.0))
    return (
        f"<span style='display:block;background:color-mix(in srgb,var(--c1) {share}%,transparent)'>"
        f"{escape(figure.show(value))}</span>"
    )


def _fronts(grid: Grid, results: Mapping[int, CellResult]) -> list[str]:
    """Which profiles no other beats in both of two figures: waiting beside closeness, and beside whole hosts."""
    made = []
    for other in SHOWN:
        if other.title not in (CLOSENESS.title, "hosts no longer whole, mean"):
            continue
        points = {
            profile: (_mean(some, WAIT), _mean(some, other))
            for (profile,), some in _means(grid, results, PROFILE).items()
        }
        front = [
            name
            for name, (x, y) in points.items()
            if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points.values())
        ]
        series = [Series(name, [y], [x]) for name, (x, y) in points.items() if np.isfinite(x) and np.isfinite(y)]
        text = f"Nothing is better in both than {', '.join(front)}."
        made.append(
            section(f"{WAIT.title} and {other.title}", text, scatter(series, label=f"{other.title} over {WAIT.title}"))
        )
    return made
