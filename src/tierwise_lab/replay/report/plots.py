"""Plots as SVG text: lines over time, grouped bars, a heat map.

Colours are classes, so that a page may be light or dark; contenders are told apart by dashes and numbers as well, and
the first line is the widest, so that those drawn over it do not hide it. Every plot says in words what it shows, for
those who do not see it. Pure functions from numbers to markup; coordinates are rounded, so that equal numbers give
equal bytes. A plot is drawn for the width that it is shown at, a whole page's or half, so that letters have one size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, inf, log10

import msgspec

__all__ = ["HALF", "WHOLE", "Series", "bars", "coincidences", "heat", "key", "lines", "scatter"]

WHOLE, HALF = 1076, 512
"""Widths of plots: over the page, and over half of it."""

_HEIGHT = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
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
    places: Sequence[float] = ()  # of a line: the place of each value on the axis


def _plain(value: float) -> str:
    return f"{value:,.6g}"


class _Frame(msgspec.Struct, frozen=True):
    """The box that a plot is drawn in, and how far its axes go."""

    width: int
    across: float
    up: float
    height: int = _HEIGHT
    left: float = _LEFT

    def x(self, value: float) -> float:
        return round(self.left + (self.width - self.left - _RIGHT) * value / self.across, 1)

    def y(self, value: float) -> float:
        room = self.height - _TOP - _BOTTOM
        return round(self.height - _BOTTOM - room * min(1.0, value / self.up), 1)

    def svg(self, body: Sequence[str], label: str) -> str:
        """The drawing with its words; wide ones are scrolled on a narrow screen rather than shrunk beyond reading."""
        kind = "wide" if self.width > HALF else "half"
        drawing = "".join(body)
        return (
            f'<div class="plot" tabindex="0" role="region" aria-label="{escape(label)}">'
            f'<svg class="{kind}" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(label)}">'
            f"{drawing}</svg></div>"
        )

    def rules(self, step: float, unit: str, show: Callable[[float], str] = _plain) -> str:
        """Lines at round values, written as `show` does; the highest one names the unit."""
        parts = []
        for number in range(round(self.up / step) + 1):
            value = number * step
            y = self.y(value)
            suffix = f" {escape(unit)}" if unit and value > self.up - step / 2 else ""
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{self.width - _RIGHT}" y1="{y}" y2="{y}"/>')
            parts.append(_text(_LEFT - 6, y + 4, f"{escape(show(value))}{suffix}", "end"))
        return "".join(parts)

    def ticks(self, units: Sequence[tuple[str, float, float]], below: float = 12) -> str:
        """Places at round numbers, in the unit that suits their span; the last one names it."""
        unit, size = next((unit, size) for unit, size, limit in units if self.across <= limit)
        step = _round(self.across / size / (10 if self.width > HALF else 5))
        places = [number * step for number in range(floor(self.across / size / step + 1e-9) + 1)]
        labels = [f"{place:,.6g}" for place in places]
        labels[-1] += f" {unit}"
        at = [self.x(place * size) for place in places]
        return "".join(
            _text(x, self.height - below, label, "middle" if x < self.width - 40 else "end")
            for x, label in zip(at, labels, strict=True)
        )

    def shown_ticks(self, show: Callable[[float], str]) -> str:
        """Places at round numbers of the axis itself, each written as `show` does."""
        step = _round(self.across / 5)
        places = [number * step for number in range(floor(self.across / step + 1e-9) + 1)]
        return "".join(
            _text(self.x(place), self.height - 12, escape(show(place)), "middle" if place < self.across else "end")
            for place in places
        )


def lines(
    series: Sequence[Series], *, label: str, unit: str, top: float | None = None, across: str = "", width: int = HALF
) -> str:
    """Values over time in seconds, or over numbers of another unit, one line each."""
    step, highest = _steps(top or max((v for s in series for v in s.values), default=1.0))
    frame = _Frame(width, max((p for s in series for p in s.places), default=1.0) or 1.0, highest)
    body = [frame.rules(step, unit), frame.ticks(((across, 1, inf),) if across else _TIMES)]
    for number, curve in enumerate(series):
        points = " ".join(f"{frame.x(p)},{frame.y(v)}" for p, v in zip(curve.places, curve.values, strict=True))
        kind = f"line c{number % 6} d{number % 6}"
        body.append(f'<polyline class="{kind}" points="{points}"><title>{escape(curve.name)}</title></polyline>')
    ends = "; ".join(f"{s.name} from {s.values[0]:,.4g} to {s.values[-1]:,.4g}" for s in series if s.values)
    return frame.svg(body, f"{label}{f', in {unit}' if unit else ''}: {ends}")


def scatter(
    series: Sequence[Series],
    *,
    label: str,
    width: int = HALF,
    show_across: Callable[[float], str] | None = None,
    show_up: Callable[[float], str] = _plain,
) -> str:
    """Points, each with its name beside it, over numbers that are written by `show_across`; without it over seconds."""
    step, highest = _steps(max((v for s in series for v in s.values), default=1.0))
    frame = _Frame(width, max((p for s in series for p in s.places), default=1.0) * 1.1 or 1.0, highest)
    ticks = frame.ticks(_TIMES) if show_across is None else frame.shown_ticks(show_across)
    body = [frame.rules(step, "", show_up), ticks]
    names: list[tuple[float, float, float]] = []  # where names begin and end, and how high they stand
    for number, curve in enumerate(series):
        for place, value in zip(curve.places, curve.values, strict=True):
            x = frame.x(place)
            y = frame.y(value)
            name = escape(curve.name)
            body.append(f'<circle class="bar c{number % 6}" cx="{x}" cy="{y}" r="5"><title>{name}</title></circle>')
            anchor = "end" if x > width / 2 else "start"
            long = _LETTER * len(curve.name)
            begin = x - 8 - (long if anchor == "end" else 0)
            height = _free_line(names, begin, begin + long, y - 6)
            names.append((begin, begin + long, height))
            body.append(_text(x - 8, height, name, anchor))
    description = "; ".join(f"{s.name} at {s.places[0]:,.4g} and {s.values[0]:,.4g}" for s in series if s.values)
    return frame.svg(body, f"{label}: {description}")


def _free_line(names: Sequence[tuple[float, float, float]], begin: float, end: float, height: float) -> float:
    """The height for a name that covers no other: where it would stand, else as many lines lower as it takes."""
    for _ in names:
        if not any(begin < right and left < end and abs(height - line) < _LINE for left, right, line in names):
            break
        height += _LINE
    return height


def coincidences(series: Sequence[Series]) -> str:
    """Which lines cover each other nearly everywhere, in a sentence; nothing where none do."""
    sentences = []
    for number, curve in enumerate(series):
        for second_curve in series[number + 1 :]:
            pairs = list(zip(curve.values, second_curve.values, strict=False))
            equal_values = sum(abs(a - b) <= _ALIKE * max(abs(a), abs(b), 1e-9) for a, b in pairs)
            if pairs and equal_values >= _MOSTLY * len(pairs):
                share = "" if equal_values == len(pairs) else f" {100 * equal_values / len(pairs):.0f} % of the time"
                sentences.append(f"{curve.name} and {second_curve.name} coincide{share}.")
    return " ".join(sentences)


_ALIKE, _MOSTLY = 0.005, 0.8
"""Values that are drawn as one line, and the share of them from which it is told."""


def bars(
    groups: Sequence[str],
    series: Sequence[Series],
    *,
    label: str,
    unit: str,
    show: Callable[[float], str] = lambda value: f"{value:,.2f}",
    width: int = HALF,
) -> str:
    """Groups of bars, one bar for each contender with its number below it, and a table of the values to open."""
    step, highest = _steps(max((v for s in series for v in s.values), default=1.0))
    frame = _Frame(width, max(1, len(groups)), highest)
    room = (width - _LEFT - _RIGHT) / max(1, len(groups))
    wide = room * 0.72 / max(1, len(series))
    body = [frame.rules(step, unit)]
    for place, group in enumerate(groups):
        start = frame.x(place + 0.14)
        body.append(_text(frame.x(place + 0.5), _HEIGHT - 6, escape(group), "middle"))
        for number, curve in enumerate(series):
            y = frame.y(curve.values[place])
            x = start + number * wide
            bar_text = f"{escape(curve.name)}, {escape(group)}: {show(curve.values[place])}"
            body.append(
                f'<rect class="bar c{number % 6}" x="{x:.1f}" y="{y}" width="{wide * 0.92:.1f}" '
                f'height="{_HEIGHT - _BOTTOM - y:.1f}" rx="2"><title>{bar_text}</title></rect>'
            )
            if len(series) > 1 and wide >= _DIGIT:
                body.append(_text(x + wide * 0.46, _HEIGHT - _BOTTOM + 12, str(number + 1), "middle"))
    head = "".join(f"<th scope='col'>{escape(curve.name)}</th>" for curve in series)
    rows = ""
    for n, group in enumerate(groups):
        cells = "".join(f"<td>{show(curve.values[n])}</td>" for curve in series)
        rows += f"<tr><th scope='row'>{escape(group)}</th>{cells}</tr>"
    title = f"{label}{f', in {unit}' if unit else ''}, by {', '.join(groups)}; the numbers follow"
    return (
        f"{frame.svg(body, title)}<details><summary>Numbers</summary><table><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></details>"
    )


_DIGIT = 9
"""Width of a bar, in units of the drawing, that has room for a number below it."""


def heat(rows: Sequence[tuple[str, Sequence[float]]], *, label: str, last_time: float, width: int = HALF) -> str:
    """One line for each domain, time from left to right up to the last second, fuller is stronger; with its scale."""
    columns = max((len(values) for _, values in rows), default=1)
    high = max(2.0, min(14.0, 300 / max(1, len(rows))))
    left_edge = (
        min(_NAMES, max((_LETTER * len(name) for name, _ in rows), default=0.0) + 10) if high >= _READABLE else _LEFT
    )
    frame = _Frame(width, last_time or 1.0, 1.0, round(_TOP + len(rows) * high + _BOTTOM + 22), left_edge)
    wide = (width - left_edge - _RIGHT) / columns
    body = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * high
        if high >= _READABLE:
            body.append(_text(left_edge - 6, y + high - 2, escape(_end(name, left_edge)), "end"))
        body.append(f"<g><title>{escape(name)}</title>")
        for start, end, share in _runs(values):
            x, length = left_edge + start * wide, (end - start) * wide + 0.3  # a little over, so that no seam shows
            body.append(
                f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" '
                f'height="{high:.1f}" fill-opacity="{share:.1f}"/>'
            )
        body.append("</g>")
    body.append(_frame(left_edge, _TOP, width - left_edge - _RIGHT, len(rows) * high))
    return frame.svg([*body, frame.ticks(_TIMES, 34), *_scale(left_edge, frame.height - 12)], label)


_READABLE, _LETTER, _NAMES, _LINE = 10.0, 6.2, 130.0, 12.0
"""Height of a line that a name fits beside, width of a letter, the most that names may take, height of their lines."""


def _end(name: str, room: float) -> str:
    """The end of a name that is too long: what tells it from its neighbours."""
    letters = int((room - 10) / _LETTER)
    if len(name) <= letters:
        return name
    return f"…{name[1 - letters :]}"


def _scale(left_edge: float, y: float) -> list[str]:
    """How strong is how full."""
    boxes = [
        f'<rect class="heat" x="{left_edge + 46 + 14 * n:.1f}" y="{y - 9:.1f}" width="14" height="10" '
        f'fill-opacity="{n / 10:.1f}"/>'
        for n in range(11)
    ]
    text = _text(left_edge + 206, y, "100 % of its GPUs in use", "start")
    return [_text(left_edge + 40, y, "0 %", "end"), *boxes, _frame(left_edge + 46, y - 9, 154, 10), text]


def _frame(x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def key(names: Sequence[str]) -> str:
    """Who is which: number, line and colour of each contender."""
    shown = []
    for number, name in enumerate(names):
        kind = number % 6
        swatch = (
            '<svg width="34" height="14" aria-hidden="true">'
            f'<rect class="bar c{kind}" x="0" y="2" width="10" height="10" rx="2"/>'
            f'<path class="line c{kind} d{kind}" d="M13 7H34"/></svg>'
        )
        shown.append(f"<li>{swatch} {f'{number + 1} ' if len(names) > 1 else ''}{escape(name)}</li>")
    return f"<ul class='key'>{''.join(shown)}</ul>"


def _runs(values: Sequence[float]) -> list[tuple[int, int, float]]:
    """Stretches of one share, in steps of a tenth; empty ones are not drawn."""
    runs: list[tuple[int, int, float]] = []
    for place, value in enumerate(values):
        share = round(value * 10) / 10
        if runs and runs[-1][2] == share:
            runs[-1] = (runs[-1][0], place + 1, share)
        else:
            runs.append((place, place + 1, share))
    return [run for run in runs if run[2] > 0]


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
