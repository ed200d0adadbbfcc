"""Draw the tree: guides, figures in columns, a bar of the scarce resource, and what landed where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from tierwise.dialects.requests import nominal
from tierwise.explain.bars import bar
from tierwise.explain.landed import Landings
from tierwise.explain.naming import Names
from tierwise.explain.page import Page, shortened, wrapped
from tierwise.explain.twigs import Twig, grown
from tierwise.explain.usage import Usage, short, usage
from tierwise.model.snapshot import Snapshot

__all__ = ["schedule_tree", "topology_tree"]

_GAP = "  "
_TITLE = "hyperNode"
_BAR = (8, 40)
_WIDE = 110
"""From this width on bars are short, and what landed in a hyperNode stands beside it."""

_SHORT_BAR = 24
_NAME = 16


class _Figure(msgspec.Struct, frozen=True):
    """A column of the tree; the first ones stay longest where there is little room."""

    title: str
    cell: Callable[[Twig], str]
    right: bool = True


def schedule_tree(page: Page, before: Snapshot, after: Snapshot, landings: Landings, names: Names) -> list[Text]:
    """The cluster before and after, with the pods that landed."""
    used = usage(before, after)
    tree = grown(page, after, landings=landings if len(landings) else None, names=names)
    return _Drawing(page, used, [_tier(), _nodes()]).lines(tree)


def topology_tree(page: Page, snapshot: Snapshot) -> list[Text]:
    """The cluster as it is, with what its nodes have in sum."""
    used = usage(snapshot, snapshot)
    figures = [_tier(), _nodes(), *_totals(snapshot, besides=used.resource)]
    return _Drawing(page, used, figures).lines(grown(page, snapshot))


def _tier() -> _Figure:
    return _Figure("tier", lambda twig: twig.tier, right=False)


def _nodes() -> _Figure:
    return _Figure("nodes", lambda twig: "" if twig.node else str(len(twig.rows)))


def _totals(snapshot: Snapshot, *, besides: str) -> list[_Figure]:
    """Allocatable sums: cpu and memory, then whatever else the nodes have."""
    skipped = {besides, "pods", "ephemeral-storage", "storage"}
    figures = []
    for index, name in enumerate(snapshot.axis.names):
        amounts = snapshot.nodes.allocatable[index]
        if name not in skipped and nominal(name) and not name.startswith("hugepages-") and amounts.any():

            def total(twig: Twig, name: str = name, index: int = index) -> str:
                return short(name, int(snapshot.nodes.allocatable[index, twig.rows].sum()))

            figures.append(_Figure(name.rpartition("/")[2], total))
    return figures


class _Drawing:
    def __init__(self, page: Page, used: Usage, figures: Sequence[_Figure]) -> None:
        self._page = page
        self._used = used
        self._figures = list(figures)

    def lines(self, root: Twig) -> list[Text]:
        flat = list(self._walk(root, "", ""))
        gauges = [self._numbers(twig) for _, _, twig in flat]
        numbers = max(cell_len(text) for text in gauges)
        need = max(cell_len(_TITLE), *(cell_len(lead) + twig.name.cell_len for lead, _, twig in flat))
        widths = self._choose([twig for _, _, twig in flat], need, numbers)
        taken = sum(widths) + len(_GAP) * (len(widths) + 2) + numbers
        left = min(need, max(_NAME, self._page.width - taken - _BAR[0]))
        most = _SHORT_BAR if self._page.width >= _WIDE else _BAR[1]
        gauge = min(most, max(_BAR[0], self._page.width - taken - left))
        lines = [self._header(left, widths, gauge, numbers)]
        for (lead, follow, twig), text in zip(flat, gauges, strict=True):
            lines.append(self._line(twig, lead, left, widths, gauge, text.rjust(numbers)))
            lines += self._notes(twig, lines[-1], follow)
        return [_tidied(line) for line in lines]

    def _notes(self, twig: Twig, line: Text, follow: str) -> list[Text]:
        """The lines below a twig; a single note goes to the end of the twig's own line where that is wide enough."""
        width, bullet = self._page.width, self._page.glyphs.bullet
        if width >= _WIDE and len(twig.notes) == 1 and line.cell_len + twig.notes[0].cell_len + len(_GAP) <= width:
            line.append(_GAP).append_text(twig.notes[0])
            return []
        first, rest = _dim(f"{follow}{bullet} "), _dim(f"{follow}  ")
        return [text for note in twig.notes for text in wrapped(note, width, first=first, rest=rest)]

    def _choose(self, twigs: Sequence[Twig], need: int, numbers: int) -> list[int]:
        """The widths of the figures; those that would squeeze names and bar are dropped, the last ones first."""
        while True:
            cells = [[figure.title, *(figure.cell(twig) for twig in twigs)] for figure in self._figures]
            widths = [max(map(cell_len, column)) for column in cells]
            taken = sum(widths) + len(_GAP) * (len(widths) + 2) + numbers + _BAR[0]
            if not self._figures or taken + min(need, 30) <= self._page.width:
                return widths
            self._figures.pop()

    def _walk(self, twig: Twig, lead: str, follow: str) -> Iterator[tuple[str, str, Twig]]:
        """Every twig with what stands before its name, and before the notes below it."""
        glyphs = self._page.glyphs
        yield lead, follow + (glyphs.pipe if twig.below else ""), twig
        for number, child in enumerate(twig.below, start=1):
            last = number == len(twig.below)
            branch, guide = (glyphs.corner, glyphs.blank) if last else (glyphs.tee, glyphs.pipe)
            yield from self._walk(child, follow + branch, follow + guide)

    def _numbers(self, twig: Twig) -> str:
        used, rows = self._used, twig.rows
        before, after, total = (short(used.resource, int(a[rows].sum())) for a in (used.before, used.after, used.total))
        change = after if before == after else f"{before} {self._page.glyphs.arrow} {after}"
        return f"{change} / {total}"

    def _header(self, left: int, widths: Sequence[int], gauge: int, numbers: int) -> Text:
        line = _TITLE.ljust(left)
        for figure, width in zip(self._figures, widths, strict=True):
            line += _GAP + (figure.title.rjust(width) if figure.right else figure.title.ljust(width))
        glyphs, title = self._page.glyphs, f"{self._used.resource} in use"
        titles = [title, self._used.resource]
        if (self._used.before != self._used.after).any():
            titles.insert(0, f"{title}: {glyphs.used} before, {glyphs.new} new")
        room = gauge + len(_GAP) + numbers
        line += _GAP + next((t for t in titles if cell_len(t) <= room), titles[-1])
        return Text(line, style="bright_black")

    def _line(self, twig: Twig, lead: str, left: int, widths: Sequence[int], gauge: int, numbers: str) -> Text:
        name = shortened(twig.name.plain, max(4, left - cell_len(lead)), self._page.glyphs.dots)
        line = Text.assemble(_dim(lead), (name, twig.name.style))
        line.append(" " * (left - line.cell_len))
        for figure, width in zip(self._figures, widths, strict=True):
            cell = figure.cell(twig)
            line.append(_GAP + (cell.rjust(width) if figure.right else cell.ljust(width)), style="bright_black")
        used = self._used
        amounts = {"before": used.before, "after": used.after, "total": used.total}
        sums = {key: int(values[twig.rows].sum()) for key, values in amounts.items()}
        line.append(_GAP).append_text(bar(self._page.glyphs, gauge, **sums))
        style = "red" if sums["after"] > sums["total"] else "green" if sums["after"] > sums["before"] else ""
        return line.append(_GAP).append(numbers, style=style)


def _dim(text: str) -> Text:
    return Text(text, style="bright_black")


def _tidied(line: Text) -> Text:
    line.rstrip()
    return line
