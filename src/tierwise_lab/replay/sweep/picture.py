"""The heat maps and fronts of a sweep as one picture, drawn with matplotlib (the extra `plots`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

from tierwise.api.extras import imported
from tierwise_lab.replay.sweep.grid import PROFILE, Grid
from tierwise_lab.replay.sweep.report import Front, HeatMap, fronts, heat_maps
from tierwise_lab.replay.sweep.results import CellResult

__all__ = ["drawing"]

Drawing = Callable[[Grid, Mapping[int, CellResult], Path], None]
_ACROSS, _INCHES = 3, (5.0, 3.6)


def drawing() -> Drawing:
    """Function that draws into a file. Raises InputError if matplotlib is missing."""
    sheet = imported("matplotlib.figure", "plots", "--png").Figure

    def draw(grid: Grid, results: Mapping[int, CellResult], file: Path) -> None:
        shown: list[HeatMap | Front] = [*heat_maps(grid, results), *fronts(grid, results)]
        lines = max(ceil(len(shown) / _ACROSS), 1)
        page = sheet(figsize=(_ACROSS * _INCHES[0], lines * _INCHES[1]), layout="constrained")
        places = list(page.subplots(lines, _ACROSS, squeeze=False).flat)
        for place in places:
            place.set_axis_off()
        for place, drawing in zip(places, shown, strict=False):
            place.set_axis_on()
            _heat(place, drawing, grid) if isinstance(drawing, HeatMap) else _front(place, drawing, grid)
        page.savefig(file, format="png", dpi=110)

    return draw


def _heat(place: Any, heat_map: HeatMap, grid: Grid) -> None:
    """Stronger is more; every field has its number."""
    place.imshow(heat_map.values, cmap="Blues", vmin=0, vmax=heat_map.top, aspect="auto")
    place.set_title(f"{heat_map.figure.title}: {heat_map.profile}", fontsize=10)
    place.set_xticks(range(len(grid.axes[heat_map.across])), list(grid.axes[heat_map.across]))
    place.set_yticks(range(len(grid.axes[heat_map.down])), list(grid.axes[heat_map.down]))
    place.set_xlabel(heat_map.across)
    for row, values in enumerate(heat_map.values):
        for column, value in enumerate(values):
            if value == value:  # a number
                colour = "white" if value > 0.6 * heat_map.top else "black"
                place.text(column, row, heat_map.figure.show(value), ha="center", va="center", color=colour, fontsize=9)


def _front(place: Any, front: Front, grid: Grid) -> None:
    """A point for each profile, filled where no other beats it in both."""
    for name, (x, y) in front.points.items():
        colour = f"C{list(grid.axes.get(PROFILE, [name])).index(name) % 10}"
        place.scatter([x], [y], s=60, edgecolors=colour, facecolors=colour if name in front.best else "none")
        place.annotate(name, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=9)
    place.margins(0.25)
    place.set_title("filled: nothing is better in both", fontsize=10)
    place.set_xlabel(front.across.title)
    place.set_ylabel(front.up.title)
