"""Plots as SVG text: lines over time, grouped bars, a heat map.

Colours are classes, so that a page may be light or dark. Pure functions from numbers to markup;
coordinates are rounded, so that equal numbers give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, inf, log10

__all__ = ["Series", "bars", "heat", "lines"]

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 34
_TIMES: Sequence[tuple[str, float, float]] = (("min", 60, 3 * 3600), ("h", 3600, 4 * 86_400), ("days", 86_400, inf))
"""Units of time, their seconds, and the longest span that each is used for."""


@dataclass(frozen=True, slots=True)
class Series:
    """One contender's values."""

    name: str
    values: Sequence[float]
    places: Sequence[float] = ()  # of a line: where on the axis each value stands


def lines(series: Sequence[Series], *, unit: str, top: float | None = None, across: str = "") -> str:
    """Values over time in seconds, or over numbers of another unit, one line each."""
    highest = top or _round_up(max((v for s in series for v in s.values), default=1.0))
    last = max((p for s in series for p in s.places), default=1.0) or 1.0
    body = [_grid(highest, unit), _across(last, units=((across, 1, inf),) if across else _TIMES)]
    for number, one in enumerate(series):
        points = " ".join(f"{_x(p, last)},{_y(v, highest)}" for p, v in zip(one.places, one.values, strict=True))
        body.append(
            f'<polyline class="line c{number % 6}" points="{points}"><title>{escape(one.name)}</title></polyline>'
        )
    return _svg(_HEIGHT, body)


def bars(groups: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Groups of bars, one bar for each contender; pointing at one tells its value."""
    highest = _round_up(max((v for s in series for v in s.values), default=1.0))
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = room * 0.72 / max(1, len(series))
    body = [_grid(highest, unit)]
    for place, group in enumerate(groups):
        start = _LEFT + place * room + room * 0.14
        body.append(_text(_LEFT + (place + 0.5) * room, _HEIGHT - 12, escape(group), "middle"))
        for number, one in enumerate(series):
            y = _y(one.values[place], highest)
            told = f"{escape(one.name)}, {escape(group)}: {one.values[place]:,.2f} {escape(unit)}"
            body.append(
                f'<rect class="bar c{number % 6}" x="{start + number * width:.1f}" y="{y}" width="{width * 0.92:.1f}" '
                f'height="{_HEIGHT - _BOTTOM - y:.1f}" rx="2"><title>{told}</title></rect>'
            )
    return _svg(_HEIGHT, body)


def heat(rows: Sequence[tuple[str, Sequence[float]]], *, last: float) -> str:
    """One line for each domain, time from left to right up to the last second, fuller is stronger."""
    columns = max((len(values) for _, values in rows), default=1)
    high = max(2.0, min(12.0, 420 / max(1, len(rows))))
    wide = (_WIDTH - _LEFT - _RIGHT) / columns
    body = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * high
        body.append(f"<g><title>{escape(name)}</title>")
        for start, end, share in _runs(values):
            x, width = _LEFT + start * wide, (end - start) * wide + 0.3  # a little over, so that no seam shows
            body.append(
                f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{high:.1f}" fill-opacity="{share:.1f}"/>'
            )
        body.append("</g>")
    height = round(_TOP + len(rows) * high + _BOTTOM)
    return _svg(height, [*body, _across(last, height)])


def _runs(values: Sequence[float]) -> list[tuple[int, int, float]]:
    """Stretches of one share, in steps of a tenth; empty ones are not drawn."""
    found: list[tuple[int, int, float]] = []
    for place, value in enumerate(values):
        share = round(value * 10) / 10
        if found and found[-1][2] == share:
            found[-1] = (found[-1][0], place + 1, share)
        else:
            found.append((place, place + 1, share))
    return [run for run in found if run[2] > 0]


def _svg(height: int, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(body)}</svg>'


def _grid(highest: float, unit: str) -> str:
    parts = []
    for step in range(5):
        value = highest * step / 4
        y = _y(value, highest)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{value:,.6g}{' ' + escape(unit) if unit and step == 4 else ''}", "end"))
    return "".join(parts)


def _across(last: float, height: int = _HEIGHT, units: Sequence[tuple[str, float, float]] = _TIMES) -> str:
    """Places at round numbers, in the unit that suits their span; the last one names it."""
    unit, size = next((unit, size) for unit, size, most in units if last <= most)
    step = _round(last / size / 5)
    places = [number * step for number in range(floor(last / size / step + 1e-9) + 1)]
    labels = [f"{place:,.6g}" for place in places]
    labels[-1] += f" {unit}"
    return "".join(
        _text(_x(place * size, last), height - 12, label, "middle" if _x(place * size, last) < _WIDTH - 40 else "end")
        for place, label in zip(places, labels, strict=True)
    )


def _round(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ..."""
    unit = 10.0 ** floor(log10(value))
    return next(unit * digit for digit in (1, 2, 5, 10) if unit * digit >= value - 1e-9)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _x(value: float, last: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / last, 1)


def _y(value: float, highest: float) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(1.0, value / highest), 1)


def _round_up(value: float) -> float:
    """The next number that starts with one digit and goes on with zeros."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(value))
    return ceil(value / unit) * unit
