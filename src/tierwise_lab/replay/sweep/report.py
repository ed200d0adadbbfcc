"""The report of a sweep: verdicts, ratios with intervals, heat maps, fronts and the worst cells; as HTML and CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TextIO

import msgspec
import numpy as np

from tierwise.api.plurals import count
from tierwise_lab.replay.engine.contenders import SIMPLE
from tierwise_lab.replay.report.html import Head, section, sheet, table
from tierwise_lab.replay.report.plots import Series, scatter
from tierwise_lab.replay.report.table import CLOSENESS, FIGURE, WAIT, Figure
from tierwise_lab.replay.spec import command
from tierwise_lab.replay.sweep import statistics
from tierwise_lab.replay.sweep.grid import PROFILE, SEED, Cell, Grid
from tierwise_lab.replay.sweep.results import CellResult, ResultFile

__all__ = ["by_setting_text", "comparison_rows", "fronts", "heat_maps", "html_text", "unbeaten", "write_csv"]

_WORST = 10
_PAID = (FIGURE["gpus.occupancy"], WAIT)
"""What closeness may cost, so it is told setting by setting."""


def comparison_rows(found: Sequence[statistics.Difference]) -> Iterator[tuple[str, str, str, str]]:
    """Figure, what the baseline has, the profile beside it with the interval, and the verdict."""
    for one in found:
        figure, told = FIGURE[one.figure], "-"
        if one.value is not None and one.low is not None and one.high is not None:
            told = f"×{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"
            if one.points:
                told = f"{100 * one.value:+.2f} points [{100 * one.low:+.2f}, {100 * one.high:+.2f}]"
        yield figure.title, figure.show(one.there), told, one.verdict


def by_setting_text(grid: Grid, results: Mapping[int, CellResult], own: Sequence[statistics.Difference]) -> list[str]:
    """How one profile does, setting by setting: means over them, and where it is behind the best simple rule."""
    rules = [name for name in grid.axes.get(PROFILE, ()) if name in SIMPLE] or [grid.baseline]
    side = next((side for side in statistics.pairs(grid, results, rules) if side.profile == own[0].profile), None)
    if side is None or side.seeds < statistics.SEEDS or len(set(side.settings)) < 2:
        return []
    means = "; ".join(
        f"{FIGURE[one.figure].title} {f'{100 * one.mean:+.2f} points' if one.points else f'×{one.mean:.2f}'}"
        for one in own
        if one.mean is not None
    )
    found = Counter((one.figure, one.verdict) for one in statistics.compared_by_setting(grid, side))
    told = [
        f"{figure.title}: {figure.words[0]} in {found[figure.key, figure.words[0]]}, "
        f"{figure.words[1]} in {found[figure.key, figure.words[1]]}"
        for figure in _PAID
    ]
    settings, best = len(set(side.settings)), f"the best of {', '.join(rules)}" if len(rules) > 1 else rules[0]
    return [f"Mean of {settings} settings: {means}.", f"By setting, beside {best}: {'; '.join(told)} of {settings}."]


def write_csv(file: TextIO, grid: Grid, results: ResultFile) -> None:
    """All figures of all cells, a line each, read one by one."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*grid.axes, *FIGURE, "error"])
    for cell in grid:
        result = results.whole(cell.number)
        if result is not None:
            writer.writerow([*cell.names.values(), *(result.figures.get(key) for key in FIGURE), result.error])


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
            (results[c.number].figures.get(figure.key) if c.number in results else None) for c in (cell, other)
        )
        if mine is not None and theirs is not None and figure.better * (mine - theirs) < 0:
            found.append((cell, figure.better * (mine - theirs)))
    return sorted(found, key=lambda entry: (entry[1], entry[0].number))[:_WORST]


def html_text(grid: Grid, results: Mapping[int, CellResult], repeat: str) -> str:
    """The whole page."""
    sides = statistics.pairs(grid, results)
    failed = sum(bool(result.error) for result in results.values())
    verdicts, body = [], []
    for one in sides:
        found = statistics.compared(one)
        told = list(dict.fromkeys(d.verdict for d in found if d.verdict != statistics.NO_DIFFERENCE)) or [
            statistics.NO_DIFFERENCE
        ]
        verdicts.append(f"{one.profile} beside {grid.baseline}: {', '.join(told)}.")
        rows = [[escape(cell) for cell in row] for row in comparison_rows(found)]
        names = [grid.baseline, f"{one.profile}, 95 % interval", "verdict"]
        text = f"{count(len(one.here), 'pair')} of cells with the same trace and seed, corrected by Holm's method."
        text = " ".join([text, *by_setting_text(grid, results, found)])
        body.append(table(f"{one.profile} beside {grid.baseline}", names, rows, text))
    body += [_heat_map(grid, one) for one in heat_maps(grid, results)]
    body += _fronts(grid, results)
    for one in sides:
        body += _settings(grid, statistics.compared_by_setting(grid, one), one.profile)
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


def _settings(grid: Grid, found: Sequence[statistics.Difference], profile: str) -> list[str]:
    """Differences over the seeds of each setting."""
    rows = []
    for one in found:
        figure = FIGURE[one.figure]
        show = figure.show
        interval = f"{_signed(show, one.value)} [{_signed(show, one.low)}, {_signed(show, one.high)}]"
        where = ", ".join(one.setting.values()) or "all"
        rows.append([f"{where}: {figure.title}", show(one.there), show(one.here), interval, escape(one.verdict)])
    names = [grid.baseline, profile, "difference, 95 % interval over seeds", "verdict"]
    return (
        [f"<details><summary>{escape(profile)} by setting</summary>{table('', names, rows)}</details>"] if rows else []
    )


def _signed(show: Callable[[float | None], str], value: float | None) -> str:
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
    values = [v for r in results if (v := r.figures.get(figure.key)) is not None]
    return float(np.mean(values)) if values else float("nan")


class HeatMap(msgspec.Struct, frozen=True):
    """Means of a figure over two axes for one profile; the largest of all profiles is the top of its scale."""

    figure: Figure
    profile: str
    down: str
    across: str
    values: list[list[float]]  # not a number where there is none
    top: float


def heat_maps(grid: Grid, results: Mapping[int, CellResult]) -> list[HeatMap]:
    """Of the figures that matter most, over the first two axes with several values, for each profile."""
    axes = [axis for axis, values in grid.axes.items() if axis not in (PROFILE, SEED) and len(values) > 1][:2]
    if len(axes) < 2:
        return []
    down, across = axes
    made = []
    for figure in (CLOSENESS, WAIT):
        known = {key: _mean(some, figure) for key, some in _means(grid, results, PROFILE, down, across).items()}
        top = max((value for value in known.values() if np.isfinite(value)), default=0.0) or 1.0
        for profile in grid.axes.get(PROFILE, {"": ""}):
            values = [
                [known.get((profile, name, other), np.nan) for other in grid.axes[across]] for name in grid.axes[down]
            ]
            made.append(HeatMap(figure, profile, down, across, values, top))
    return made


def _heat_map(grid: Grid, one: HeatMap) -> str:
    rows = [
        [name, *(_shaded(value, one.top, one.figure) for value in values)]
        for name, values in zip(grid.axes[one.down], one.values, strict=True)
    ]
    text = f"mean over {one.down} (down) and {one.across} (across); stronger is more"
    return table(f"{one.figure.title}: {one.profile}", list(grid.axes[one.across]), rows, text)


def _shaded(value: float, top: float, figure: Figure) -> str:
    if not np.isfinite(value):
        return "-"
    share = round(100 * min(value / top, 1.0))
    return (
        f"<span style='display:block;background:color-mix(in srgb,var(--c1) {share}%,transparent)'>"
        f"{escape(figure.show(value))}</span>"
    )


_FRONTS = (
    (WAIT, CLOSENESS),
    (WAIT, FIGURE["parted.hosts"]),
    (FIGURE["gpus.occupancy"], FIGURE["gpus.goodput"]),
)


class Front(msgspec.Struct, frozen=True):
    """Means of two figures for each profile, and the profiles that no other beats in both."""

    across: Figure
    up: Figure
    points: dict[str, tuple[float, float]]
    best: list[str]


def fronts(grid: Grid, results: Mapping[int, CellResult]) -> list[Front]:
    """Waiting beside closeness, and beside whole hosts; occupancy beside goodput."""
    return [
        Front(across, up, {name: (x, y) for name, (x, y) in points.items()}, unbeaten(points, (across, up)))
        for across, up in _FRONTS
        if (points := _points(grid, results, (across, up)))
    ]


def _points(grid: Grid, results: Mapping[int, CellResult], figures: Sequence[Figure]) -> dict[str, tuple[float, ...]]:
    """Means of figures for each profile that has them all."""
    means = _means(grid, results, PROFILE).items()
    found = {profile: tuple(_mean(some, figure) for figure in figures) for (profile,), some in means}
    return {profile: values for profile, values in found.items() if np.isfinite(values).all()}


def unbeaten(points: Mapping[str, Sequence[float]], figures: Sequence[Figure]) -> list[str]:
    """The profiles to which no other is at least equal in every figure, and better in one."""
    sign = np.array([figure.better for figure in figures])
    good = {name: sign * np.array(values) for name, values in points.items()}
    return [
        name
        for name, own in good.items()
        if not any((other >= own).all() and (other > own).any() for other in good.values())
    ]


def _fronts(grid: Grid, results: Mapping[int, CellResult]) -> list[str]:
    """Fronts as sections of the report, and which settings are unbeaten in all their figures together."""
    made = []
    for one in fronts(grid, results):
        series = [Series(name, [y], [x]) for name, (x, y) in one.points.items()]
        label = f"{one.up.title} over {one.across.title}"
        text = f"Nothing is better in both than {', '.join(one.best)}."
        made.append(section(f"{one.across.title} and {one.up.title}", text, scatter(series, label=label)))
    every = tuple(dict.fromkeys(figure for pair in _FRONTS for figure in pair))
    if points := _points(grid, results, every):
        rows = [[name, *(figure.show(v) for figure, v in zip(every, points[name], strict=True))] for name in points]
        text = f"Unbeaten in all of these together: {', '.join(unbeaten(points, every))}."
        made.append(table("All together", [figure.title for figure in every], rows, text))
    return made
