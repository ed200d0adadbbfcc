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
from tierwise_lab.replay.report.table import CLOSENESS, FIGURE, WAIT, Figure, duration
from tierwise_lab.replay.spec import command
from tierwise_lab.replay.sweep import statistics
from tierwise_lab.replay.sweep.grid import PROFILE, SEED, Cell, Grid
from tierwise_lab.replay.sweep.results import CellResult, ResultFile

__all__ = ["by_setting_text", "comparison_rows", "fronts", "heat_maps", "html_text", "unbeaten", "write_csv"]

_WORST = 10
_PAID = (FIGURE["gpus.occupancy"], WAIT)
"""What closeness may cost, so it is told setting by setting."""


def comparison_rows(differences: Sequence[statistics.Difference]) -> Iterator[tuple[str, str, str, str]]:
    """Figure, what the baseline has, the profile beside it with the interval, and the verdict."""
    for difference in differences:
        figure = FIGURE[difference.figure]
        shown = "-"
        if difference.value is not None and difference.low is not None and difference.high is not None:
            shown = f"×{_ratio(difference.value)} [{_ratio(difference.low)}, {_ratio(difference.high)}]"
            if difference.points:
                shown = (
                    f"{100 * difference.value:+.2f} points [{100 * difference.low:+.2f}, {100 * difference.high:+.2f}]"
                )
        yield figure.title, figure.show(difference.there), shown, difference.verdict


def _ratio(value: float) -> str:
    """A ratio with two digits behind the point, or as many as say that it is not nothing."""
    return f"{value:.2f}" if value >= 0.1 or not value else f"{value:.2g}"


def by_setting_text(
    grid: Grid, results: Mapping[int, CellResult], own_differences: Sequence[statistics.Difference]
) -> list[str]:
    """How one profile does, setting by setting: means over them, and where it is behind the best simple rule."""
    rules = [name for name in grid.axes.get(PROFILE, ()) if name in SIMPLE] or [grid.baseline]
    side = next(
        (side for side in statistics.pairs(grid, results, rules) if side.profile == own_differences[0].profile), None
    )
    if side is None or side.seeds < statistics.SEEDS or len(set(side.settings)) < 2:
        return []
    mean_texts = []
    for difference in own_differences:
        if difference.mean is None:
            continue
        mean = f"{100 * difference.mean:+.2f} points" if difference.points else f"×{difference.mean:.2f}"
        mean_texts.append(f"{FIGURE[difference.figure].title} {mean}")
    means = "; ".join(mean_texts)
    verdict_counts = Counter(
        (difference.figure, difference.verdict) for difference in statistics.compared_by_setting(grid, side)
    )
    verdicts = [
        f"{figure.title}: {figure.words[0]} in {verdict_counts[figure.key, figure.words[0]]}, "
        f"{figure.words[1]} in {verdict_counts[figure.key, figure.words[1]]}"
        for figure in _PAID
    ]
    settings = len(set(side.settings))
    best = f"the best of {', '.join(rules)}" if len(rules) > 1 else rules[0]
    return [
        f"Mean of {settings} settings: {means}.",
        f"By setting, beside {best}: {'; '.join(verdicts)} of {settings}.",
    ]


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
    losses = []
    for names, cell in cells.items():
        if place is None or names[place] == grid.baseline:
            continue
        baseline_cell = cells[(*names[:place], grid.baseline, *names[place + 1 :])]
        mine, theirs = (
            (results[c.number].figures.get(figure.key) if c.number in results else None) for c in (cell, baseline_cell)
        )
        if mine is not None and theirs is not None and figure.better * (mine - theirs) < 0:
            losses.append((cell, figure.better * (mine - theirs)))
    return sorted(losses, key=lambda entry: (entry[1], entry[0].number))[:_WORST]


def html_text(grid: Grid, results: Mapping[int, CellResult], repeat: str) -> str:
    """The whole page."""
    sides = statistics.pairs(grid, results)
    failed = sum(bool(result.error) for result in results.values())
    verdicts = []
    body = []
    for pair in sides:
        differences = statistics.compared(pair)
        verdicts_found = list(
            dict.fromkeys(d.verdict for d in differences if d.verdict != statistics.NO_DIFFERENCE)
        ) or [statistics.NO_DIFFERENCE]
        verdicts.append(f"{pair.profile} beside {grid.baseline}: {', '.join(verdicts_found)}.")
        rows = [[escape(cell) for cell in row] for row in comparison_rows(differences)]
        names = [grid.baseline, f"{pair.profile}, 95 % interval", "verdict"]
        text = f"{count(len(pair.here), 'pair')} of cells with the same trace and seed, corrected by Holm's method."
        text = " ".join([text, *by_setting_text(grid, results, differences)])
        body.append(table(f"{pair.profile} beside {grid.baseline}", names, rows, text))
    body += [_heat_map(grid, heat_map) for heat_map in heat_maps(grid, results)]
    body += _fronts(grid, results)
    for pair in sides:
        body += _settings(grid, statistics.compared_by_setting(grid, pair), pair.profile)
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


def _settings(grid: Grid, differences: Sequence[statistics.Difference], profile: str) -> list[str]:
    """Differences over the seeds of each setting."""
    rows = []
    for difference in differences:
        figure = FIGURE[difference.figure]
        show = figure.show
        interval = (
            f"{_signed(show, difference.value)} [{_signed(show, difference.low)}, {_signed(show, difference.high)}]"
        )
        where = ", ".join(difference.setting.values()) or "all"
        rows.append(
            [
                f"{where}: {figure.title}",
                show(difference.there),
                show(difference.here),
                interval,
                escape(difference.verdict),
            ]
        )
    names = [grid.baseline, profile, "difference, 95 % interval over seeds", "verdict"]
    if rows:
        return [f"<details><summary>{escape(profile)} by setting</summary>{table('', names, rows)}</details>"]
    return []


def _signed(show: Callable[[float | None], str], value: float | None) -> str:
    if value is None:
        return "-"
    return f"{'−' if value < 0 else '+'}{show(abs(value))}"


def _means(grid: Grid, results: Mapping[int, CellResult], *axes: str) -> dict[tuple[str, ...], list[CellResult]]:
    """Results that share the values of some axes."""
    results_by_key: dict[tuple[str, ...], list[CellResult]] = {}
    for cell in grid:
        result = results.get(cell.number)
        if result is not None and not result.error:
            results_by_key.setdefault(tuple(cell.names.get(axis, "") for axis in axes), []).append(result)
    return results_by_key


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
    maps = []
    for figure in (CLOSENESS, WAIT):
        means = {
            key: _mean(cell_results, figure)
            for key, cell_results in _means(grid, results, PROFILE, down, across).items()
        }
        top = max((value for value in means.values() if np.isfinite(value)), default=0.0) or 1.0
        for profile in grid.axes.get(PROFILE, {"": ""}):
            values = [
                [means.get((profile, name, column_name), np.nan) for column_name in grid.axes[across]]
                for name in grid.axes[down]
            ]
            maps.append(HeatMap(figure, profile, down, across, values, top))
    return maps


def _heat_map(grid: Grid, heat_map: HeatMap) -> str:
    rows = [
        [name, *(_shaded(value, heat_map.top, heat_map.figure) for value in values)]
        for name, values in zip(grid.axes[heat_map.down], heat_map.values, strict=True)
    ]
    text = f"mean over {heat_map.down} (down) and {heat_map.across} (across); stronger is more"
    return table(f"{heat_map.figure.title}: {heat_map.profile}", list(grid.axes[heat_map.across]), rows, text)


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
    values_by_profile = {
        profile: tuple(_mean(cell_results, figure) for figure in figures) for (profile,), cell_results in means
    }
    return {profile: values for profile, values in values_by_profile.items() if np.isfinite(values).all()}


def unbeaten(points: Mapping[str, Sequence[float]], figures: Sequence[Figure]) -> list[str]:
    """The profiles to which no other is at least equal in every figure, and better in one."""
    sign = np.array([figure.better for figure in figures])
    good = {name: sign * np.array(values) for name, values in points.items()}
    return [
        name
        for name, point in good.items()
        if not any((rival >= point).all() and (rival > point).any() for rival in good.values())
    ]


def _fronts(grid: Grid, results: Mapping[int, CellResult]) -> list[str]:
    """Fronts as sections of the report, and which settings are unbeaten in all their figures together."""
    sections = []
    for front in fronts(grid, results):
        series = [Series(name, [y], [x]) for name, (x, y) in front.points.items()]
        label = f"{front.up.title} over {front.across.title}"
        text = f"Nothing is better in both than {', '.join(front.best)}."
        plot = scatter(
            series,
            label=label,
            show_across=None if front.across.show is duration else front.across.show,
            show_up=front.up.show,
        )
        sections.append(section(f"{front.across.title} and {front.up.title}", text, plot))
    every = tuple(dict.fromkeys(figure for pair in _FRONTS for figure in pair))
    if points := _points(grid, results, every):
        rows = [[name, *(figure.show(v) for figure, v in zip(every, points[name], strict=True))] for name in points]
        text = f"Unbeaten in all of these together: {', '.join(unbeaten(points, every))}."
        sections.append(table("All together", [figure.title for figure in every], rows, text))
    return sections
