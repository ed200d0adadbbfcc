"""Plots as SVG text: lines over time, grouped bars, a heat map.

Colours are classes, so that a page may be light or dark. Pure functions from numbers to markup;
coordinates are rounded, so that equal numbers give equal bytes. A plot is drawn for the width that it is shown at,
a whole page's or half of one, so that letters have one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, inf, log10

import msgspec

__all__ = ["HALF", "WHOLE", "Series", "bars", "heat", "lines"]

WHOLE, HALF = 1076, 512
"""Widths of plots: over the page, and over half of it."""

_HEIGHT = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 34
_TIMES: Sequence[tuple[str, float, float]] = (
    ("min", 60, 3 * 3600),
    ("h", 3600, 4 * 86_400),
    ("days", 86_400, inf),
)
"""Units of time, their seconds, and the longest span that each is used for."""


class Series(msgspec.Struct, frozen=True):
    """One contender's values."""

    name: str
    values: Sequence[float]
    places: Sequence[float] = ()  # of a line: where on the axis each value stands


class _Frame(msgspec.Struct, frozen=True):
    """The box that a plot is drawn in, and how far its axes go."""

    width: int
    across: float
    up: float
    height: int = _HEIGHT

    def x(self, value: float) -> float:
        return round(_LEFT + (self.width - _LEFT - _RIGHT) * value / self.across, 1)

    def y(self, value: float) -> float:
        room = self.height - _TOP - _BOTTOM
        return round(self.height - _BOTTOM - room * min(1.0, value / self.up), 1)

    def svg(self, body: Sequence[str]) -> str:
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img">{"".join(body)}</svg>'

    def rules(self, step: float, unit: str) -> str:
        """Lines at round values; the highest one names the unit."""
        parts = []
        for number in range(round(self.up / step) + 1):
            value = number * step
            y, told = self.y(value), f" {escape(unit)}" if unit and value > self.up - step / 2 else ""
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{self.width - _RIGHT}" y1="{y}" y2="{y}"/>')
            parts.append(_text(_LEFT - 6, y + 4, f"{value:,.6g}{told}", "end"))
        return "".join(parts)

    def ticks(self, units: Sequence[tuple[str, float, float]]) -> str:
        """Places at round numbers, in the unit that suits their span; the last one names it."""
        unit, size = next((unit, size) for unit, size, most in units if self.across <= most)
        step = _round(self.across / size / (10 if self.width > HALF else 5))
        places = [number * step for number in range(floor(self.across / size / step + 1e-9) + 1)]
        labels = [f"{place:,.6g}" for place in places]
        labels[-1] += f" {unit}"
        at = [self.x(place * size) for place in places]
        return "".join(
            _text(x, self.height - 12, label, "middle" if x < self.width - 40 else "end")
            for x, label in zip(at, labels, strict=True)
        )


def lines(series: Sequence[Series], *, unit: str, top: float | None = None, across: str = "", width: int = HALF) -> str:
    """Values over time in seconds, or over numbers of another unit, one line each."""
    step, highest = _steps(top or max((v for s in series for v in s.values), default=1.0))
    frame = _Frame(width, max((p for s in series for p in s.places), default=1.0) or 1.0, highest)
    body = [frame.rules(step, unit), frame.ticks(((across, 1, inf),) if across else _TIMES)]
    for number, one in enumerate(series):
        points = " ".join(f"{frame.x(p)},{frame.y(v)}" for p, v in zip(one.places, one.values, strict=True))
        body.append(
            f'<polyline class="line c{number % 6}" points="{points}"><title>{escape(one.name)}</title></polyline>'
        )
    return frame.svg(body)


def bars(groups: Sequence[str], series: Sequence[Series], *, unit: str, width: int = HALF) -> str:
    """Groups of bars, one bar for each contender; pointing at one tells its value."""
    step, highest = _steps(max((v for s in series for v in s.values), default=1.0))
    frame = _Frame(width, max(1, len(groups)), highest)
    room = (width - _LEFT - _RIGHT) / max(1, len(groups))
    wide = room * 0.72 / max(1, len(series))
    body = [frame.rules(step, unit)]
    for place, group in enumerate(groups):
        start = frame.x(place + 0.14)
        body.append(_text(frame.x(place + 0.5), _HEIGHT - 12, escape(group), "middle"))
        for number, one in enumerate(series):
            y = frame.y(one.values[place])
            told = f"{escape(one.name)}, {escape(group)}: {one.values[place]:,.2f} {escape(unit)}"
            body.append(
                f'<rect class="bar c{number % 6}" x="{start + number * wide:.1f}" y="{y}" width="{wide * 0.92:.1f}" '
                f'height="{_HEIGHT - _BOTTOM - y:.1f}" rx="2"><title>{told}</title></rect>'
            )
    return frame.svg(body)


def heat(rows: Sequence[tuple[str, Sequence[float]]], *, last: float, width: int = HALF) -> str:
    """One line for each domain, time from left to right up to the last second, fuller is stronger."""
    columns = max((len(values) for _, values in rows), default=1)
    high = max(2.0, min(12.0, 300 / max(1, len(rows))))
    frame = _Frame(width, last or 1.0, 1.0, round(_TOP + len(rows) * high + _BOTTOM))
    wide = (width - _LEFT - _RIGHT) / columns
    body = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * high
        body.append(f"<g><title>{escape(name)}</title>")
        for start, end, share in _runs(values):
            x, length = _LEFT + start * wide, (end - start) * wide + 0.3  # a little over, so that no seam shows
            body.append(
                f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" '
                f'height="{high:.1f}" fill-opacity="{share:.1f}"/>'
            )
        body.append("</g>")
    return frame.svg([*body, frame.ticks(_TIMES)])


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


def _steps(highest: float) -> tuple[float, float]:
    """A round step, and the whole number of such steps that reaches the highest value: four or five, mostly."""
    if highest <= 0:
        return 0.25, 1.0
    step = _round(highest / 5)
    return step, step * ceil(highest / step - 1e-9)


def _round(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ..."""
    unit = 10.0 ** floor(log10(value))
    return next(unit * digit for digit in (1, 2, 5, 10) if unit * digit >= value - 1e-9 * unit)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
