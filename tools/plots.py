"""Draw what the docs measure: every row of docs/reference/benchmark-rows.md against its gate, the pods per second
beside kube-scheduler, and rules of placement by closeness and waiting (docs/guides/sweeps.md).

`python tools/plots.py` writes docs/images/*.svg from the tables of the pages, and `--check` says whether they are as
the tables are. Nothing is measured here, and no number stands in a picture that is not in a table.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
ROWS = ROOT / "docs" / "reference" / "benchmark-rows.md"
SWEEPS = ROOT / "docs" / "guides" / "sweeps.md"
IMAGES = ROOT / "docs" / "images"

WIDTH, LEFT, LINE = 860, 330, 19
MET, MISSED, INK, SOFT, RULE = "#2563eb", "#b45309", "#1d2433", "#5b6577", "#d5dae3"


def _tables(text: str) -> Iterator[list[dict[str, str]]]:
    """The tables of a page, as rows by title."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        titles, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines())
        yield [dict(zip(titles, row, strict=False)) for row in rows]


def _number(text: str) -> float:
    return float(re.search(r"[\d.,]+", text)[0].replace(",", ""))  # type: ignore[index]  # tables of measurements


def _margins(text: str) -> list[tuple[str, float, float | None]]:
    """Every measured row: how many times it is better than its gate, and than its stretch goal."""
    found = []
    for row in (row for table in _tables(text) for row in table if row.get("Measured") and "Gate" in row):
        measured = _number(row["Measured"])
        better: Callable[[str], float] = lambda goal, m=measured: (  # noqa: E731  # used twice, here
            _number(goal) / m if "≤" in goal else m / _number(goal)
        )
        stretch = better(row["Stretch"]) if row.get("Stretch") else None
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row["What"])
        found.append((f"{row['Row']}  {re.sub(r' ?[(:.].*', '', words)}", better(row["Gate"]), stretch))
    return found


def _throughput(text: str) -> list[tuple[str, float]]:
    """Pods per second of those who bind on one API server."""
    table = next(table for table in _tables(text) if "tierwise is faster by" in table[0])
    return [(re.sub(r"[`]| \(.*|: its .*", "", row["Who"]), _number(row["Pods/s"])) for row in table]


def _front(text: str) -> list[tuple[str, float, float]]:
    """Rules of placement: the wait and the leaves beyond the fewest, as ratios to the same rule."""
    table = next(table for table in _tables(text) if "beaten in both by" in table[0])
    return [
        (row["rule"].strip("`"), _number(row["wait, mean"]), _number(row["leaves beyond the fewest"])) for row in table
    ]


def _clipped(label: str, most: int = 54) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _svg(title: str, height: int, inside: Sequence[str]) -> str:
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="11">'
    )
    lines = (
        opening,
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="14" font-weight="600" fill="{INK}">{escape(title)}</text>',
        *inside,
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _text_at(x: float, y: float, text: str, *, end: bool = False, colour: str = INK) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchor} fill="{colour}">{escape(text)}</text>'


def _draw_margins(rows: list[tuple[str, float, float | None]]) -> str:
    """A bar for each row on a scale of powers of ten; a line where its stretch goal would be."""
    top = math.log10(max(margin for _, margin, _ in rows))
    scale = (WIDTH - LEFT - 60) / top
    x: Callable[[float], float] = lambda margin: LEFT + max(0.0, math.log10(margin)) * scale  # noqa: E731  # a formula
    bottom = 46 + LINE * len(rows)
    inside = []
    for power in range(math.ceil(top)):
        at = x(10**power)
        inside.append(f'<path d="M{at:.1f} 36V{bottom}" stroke="{RULE}"/>')
        inside.append(_text_at(at + 3, 40, f"{10**power:,}×", colour=SOFT))
    for i, (label, margin, stretch) in enumerate(rows):
        y = 48 + LINE * i
        reached = stretch is None or stretch >= 1
        inside.append(_text_at(LEFT - 8, y + 11, _clipped(label), end=True))
        inside.append(
            f'<rect x="{LEFT}" y="{y}" width="{max(1.0, x(margin) - LEFT):.1f}" height="13" rx="2" '
            f'fill="{MET if reached else MISSED}"/>'
        )
        if stretch is not None and stretch > 0:
            goal = x(max(1.0, margin / stretch))
            inside.append(f'<path d="M{goal:.1f} {y - 2}v17" stroke="{INK}" stroke-width="1.5"/>')
        inside.append(
            _text_at(x(margin) + 5, y + 11, f"{margin:,.1f}×" if margin < 100 else f"{margin:,.0f}×", colour=SOFT)
        )
    inside.append(
        _text_at(
            12, bottom + 20, "Blue: the stretch goal, which the line marks, is reached, or there is none.", colour=SOFT
        )
    )
    return _svg("How many times better than its gate each row is", bottom + 32, inside)


def _draw_throughput(rows: list[tuple[str, float]]) -> str:
    scale = (WIDTH - LEFT - 80) / max(pods for _, pods in rows)
    inside = []
    for i, (label, pods) in enumerate(rows):
        y = 40 + 26 * i
        colour = MET if label == "tierwise" else "#98a2b3"
        inside.append(_text_at(LEFT - 8, y + 14, _clipped(label), end=True))
        inside.append(f'<rect x="{LEFT}" y="{y}" width="{pods * scale:.1f}" height="18" rx="2" fill="{colour}"/>')
        inside.append(_text_at(LEFT + pods * scale + 6, y + 14, f"{pods:,.0f}", colour=SOFT))
    return _svg("Pods bound in a second on one kube-apiserver, 2,000 nodes", 52 + 26 * len(rows), inside)


def _draw_front(rows: list[tuple[str, float, float]]) -> str:
    """A point for each rule; blue where no other one waits less and is closer."""
    left, bottom, high, wide = 60, 300, 250, WIDTH - 200
    least, most = min(wait for _, wait, _ in rows) - 0.05, max(wait for _, wait, _ in rows) + 0.05
    widest = max(leaves for _, _, leaves in rows)
    x: Callable[[float], float] = lambda wait: left + (wait - least) * wide / (most - least)  # noqa: E731  # a formula
    y: Callable[[float], float] = lambda leaves: bottom - leaves * high / widest  # noqa: E731  # another
    inside = [f'<path d="M{left} {bottom - high}V{bottom}h{wide}" fill="none" stroke="{RULE}"/>']
    for i in range(5):
        wait, leaves = least + i * (most - least) / 4, i * widest / 4
        inside.append(_text_at(x(wait) - 10, bottom + 16, f"{wait:.2f}", colour=SOFT))
        inside.append(_text_at(left - 8, y(leaves) + 4, f"{leaves:.2f}", end=True, colour=SOFT))
    for label, wait, leaves in rows:
        beaten = any(w <= wait and m <= leaves and (w, m) != (wait, leaves) for _, w, m in rows)
        inside.append(f'<circle cx="{x(wait):.1f}" cy="{y(leaves):.1f}" r="5" fill="{MISSED if beaten else MET}"/>')
        inside.append(_text_at(x(wait) + 9, y(leaves) + 4, label))
    inside.append(_text_at(left, bottom + 36, "mean wait; up: leaves beyond the fewest; ÷ those of tree", colour=SOFT))
    return _svg("Closeness and waiting; blue: nothing is better in both", bottom + 48, inside)


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    text = PAGE.read_text(encoding="utf-8")
    return {
        "benchmarks-gates.svg": _draw_margins(_margins(ROWS.read_text(encoding="utf-8"))),
        "benchmarks-throughput.svg": _draw_throughput(_throughput(text)),
        "sweeps-front.svg": _draw_front(_front(SWEEPS.read_text(encoding="utf-8"))),
    }


def main() -> int:
    """Write the pictures, or with --check compare them."""
    stale = 0
    for name, drawn in pictures().items():
        file = IMAGES / name
        if "--check" in sys.argv:
            if not file.exists() or file.read_text(encoding="utf-8") != drawn:
                print(f"{file.relative_to(ROOT)} is not as the tables are: python tools/plots.py")
                stale = 1
        else:
            IMAGES.mkdir(exist_ok=True)
            file.write_text(drawn, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
