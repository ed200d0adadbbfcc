"""Draw the tree: guides, figures in columns, a bar of the scarce resource, and what landed where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tierwise.dialects.kubernetes.requests import nominal
from tierwise.explain.naming import ObjectNames, tier_label
from tierwise.explain.new_placements import NewPlacements, placement_texts
from tierwise.explain.page import Page, Text, cell_len, count, shortened, wrapped
from tierwise.explain.tables import bar
from tierwise.explain.usage import Usage, short, usage
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["schedule_tree", "topology_tree"]


# The topology as people see it: a tree of hyperNodes, folded so that what matters stays on one screen.
#
# A hyperNode where nothing happened is summed up with its siblings; where too much happened to show it all, the first
# few are shown and the others summed up as well.


_BUDGET = 48
"""Lines of a tree, unless everything is asked for."""

_ANY = 10**9
_CAPS = (16, 8, 4, 2, 1)
_FEW_NODES = 16
"""A cluster of up to so many nodes is shown node by node."""


class _Detail(msgspec.Struct, frozen=True):
    """How much is shown: siblings, tiers from the root on; and whether a domain with pods of one job stays closed."""

    siblings: int = _ANY
    depth: int = _ANY
    closed: bool = False


class TreeLine(msgspec.Struct, frozen=True):
    """One line of the tree, what is noted below it, and the lines that hang on it."""

    name: Text
    tier: str
    rows: Ints
    notes: tuple[Text, ...] = ()
    below: tuple[TreeLine, ...] = ()
    node: bool = False  # a node, not a hyperNode

    def lines(self) -> int:
        return 1 + len(self.notes) + sum(item.lines() for item in self.below)


def tree_lines(
    page: Page, snapshot: Snapshot, *, landings: NewPlacements | None = None, names: ObjectNames | None = None
) -> TreeLine:
    """The tree of a snapshot; with landings, folded down to where pods landed."""
    nodes = page.everything or len(snapshot.nodes) <= _FEW_NODES
    folding = _Folding(snapshot, landings, names or ObjectNames(snapshot.jobs), nodes=nodes, everything=page.everything)
    tree = folding.grow(_Detail())
    coarser: list[_Detail] = []
    if not page.everything:
        if landings is None:
            coarser += [_Detail(depth=depth) for depth in range(_depth(snapshot.topology) - 1, 0, -1)]
        coarser += [_Detail(_ANY, closed=True), *(_Detail(cap, closed=True) for cap in _CAPS)]
    for detail in coarser:
        if tree.lines() <= _BUDGET:
            break
        tree = folding.grow(detail)
    return tree


def _depth(topology: Topology) -> int:
    """How many domains stand above each other, the root left out."""
    return max((sum(1 for _ in topology.ancestors(int(d))) - 1 for d in set(topology.leaf.tolist())), default=0)


class _Folding:
    def __init__(
        self, snapshot: Snapshot, landings: NewPlacements | None, names: ObjectNames, *, nodes: bool, everything: bool
    ) -> None:
        self._snapshot = snapshot
        self._topology = snapshot.topology
        self._landings = landings
        self._names = names
        self._nodes = nodes
        self._everything = everything
        self._detail = _Detail()

    def grow(self, detail: _Detail) -> TreeLine:
        self._detail = detail
        return self._domain(ROOT, 0)

    def _own_nodes(self, domain: int, span: slice) -> TreeLine:
        """The nodes of a domain that are in none of its children, on one line."""
        where = "in no hyperNode" if domain == ROOT else "in no hyperNode below"
        title = Text(f"{count(span.stop - span.start, 'node')} {where}", style="dim")
        return TreeLine(title, "", np.arange(span.start, span.stop), self._notes(span))

    def _domain(self, d: int, depth: int) -> TreeLine:
        topology = self._topology
        span, children = topology.span(d), topology.children[d]
        name = Text("cluster") if d == ROOT else Text(topology.name[d])
        tier = "" if d == ROOT else tier_label(topology, int(topology.tier[d]))
        rows = np.arange(span.start, span.stop)
        if not self._news(span) and not self._all_wanted():
            return TreeLine(name, tier, rows)
        if self._detail.closed and d != ROOT and self._one_job(span):
            return TreeLine(name, tier, rows, self._notes(span))
        if depth >= self._detail.depth:
            return TreeLine(name.append(f" +{topology.last[d] - d - 1}", style="dim") if children else name, tier, rows)
        own_span = slice(max((int(topology.end[c]) for c in children), default=span.start), span.stop)
        below = self._domains(children, depth + 1)
        if self._nodes:
            below += self._node_lines(own_span)
        elif children and own_span.stop > own_span.start:
            below.append(self._own_nodes(d, own_span))
        notes = self._notes(own_span) if not children and not self._nodes else ()
        return TreeLine(name, tier, rows, notes, tuple(below))

    def _siblings(
        self,
        spans: Mapping[int, slice],
        line_of_one: Callable[[int], TreeLine],
        line_of_rest: Callable[[Sequence[int], str], TreeLine],
    ) -> list[TreeLine]:
        """The first of those where something happened, then what is left on a line or two, never just one of them."""
        shown = [item for item, span in spans.items() if self._all_wanted() or self._news(span)]
        quiet = sorted(spans.keys() - set(shown))
        cut = len(shown) if len(shown) <= self._detail.siblings + 1 else self._detail.siblings
        alone = quiet if len(quiet) == 1 else []
        items = [line_of_one(item) for item in sorted([*shown[:cut], *alone])]
        items += [line_of_rest(shown[cut:], "more")] if shown[cut:] else []
        return items + ([line_of_rest(quiet, "other" if shown else "")] if len(quiet) > 1 else [])

    def _domains(self, children: Sequence[int], depth: int) -> list[TreeLine]:
        spans = {child: self._topology.span(child) for child in children}
        return self._siblings(spans, lambda child: self._domain(child, depth), self._rest)

    def _rest(self, domains: Sequence[int], which: str) -> TreeLine:
        tiers = {tier_label(self._topology, int(self._topology.tier[d])) for d in domains}
        spans = [self._topology.span(d) for d in domains]
        rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        title = Text(f"{len(domains)} {'more' if which == 'more' else 'others'}", style="dim")
        return TreeLine(title, tiers.pop() if len(tiers) == 1 else "", rows, self._notes(*spans))

    def _node_lines(self, span: slice) -> list[TreeLine]:
        spans = {row: slice(row, row + 1) for row in range(span.start, span.stop)}
        return self._siblings(spans, self._node, self._other_nodes)

    def _other_nodes(self, rows: Sequence[int], which: str) -> TreeLine:
        notes = self._notes(*(slice(row, row + 1) for row in rows))
        title = Text(f"{len(rows)} {which} nodes".replace("  ", " "), style="dim")
        return TreeLine(title, "", np.array(rows), notes)

    def _node(self, row: int) -> TreeLine:
        name = Text(self._snapshot.nodes.names[row], style="italic")
        return TreeLine(name, "", np.array([row]), self._notes(slice(row, row + 1)), node=True)

    def _all_wanted(self) -> bool:
        return self._everything or self._landings is None

    def _news(self, span: slice) -> bool:
        return self._landings is not None and bool(self._landings.within(span))

    def _one_job(self, span: slice) -> bool:
        """Whether all that landed here is of one job: then its domain says as much as the domains below it."""
        entries = self._landings.within(span) if self._landings is not None else ()
        return len({"" if entry.job.lone else entry.job.key for entry in entries}) == 1

    def _notes(self, *spans: slice) -> tuple[Text, ...]:
        if self._landings is None:
            return ()
        entries = [entry for span in spans for entry in self._landings.within(span)]
        return tuple(placement_texts(self._names, entries)) if entries else ()


_GAP = "  "
_TITLE = "hyperNode"
_BAR = (8, 40)
_WIDE = 110
"""From this width on what landed in a hyperNode is told beside it, where that is one thing and has room there."""

_NAME = 16


class _Figure(msgspec.Struct, frozen=True):
    """A column of the tree; the first ones stay longest where there is little room."""

    title: str
    cell: Callable[[TreeLine], str]
    right: bool = True


def schedule_tree(
    page: Page, before: Snapshot, after: Snapshot, landings: NewPlacements, names: ObjectNames
) -> list[Text]:
    """The cluster before and after, with the pods that landed."""
    used = usage(before, after)
    tree = tree_lines(page, after, landings=landings if len(landings) else None, names=names)
    return _Drawing(page, used, [_tier(), _nodes()]).lines(tree)


def topology_tree(page: Page, snapshot: Snapshot) -> list[Text]:
    """The cluster as it is, with what its nodes have in sum."""
    used = usage(snapshot, snapshot)
    figures = [_tier(), _nodes(), *_totals(snapshot, besides=used.resource)]
    return _Drawing(page, used, figures).lines(tree_lines(page, snapshot))


def _tier() -> _Figure:
    return _Figure("tier", lambda item: item.tier, right=False)


def _nodes() -> _Figure:
    return _Figure("nodes", lambda item: "" if item.node else str(len(item.rows)))


def _totals(snapshot: Snapshot, *, besides: str) -> list[_Figure]:
    """Allocatable sums: cpu and memory, then whatever else the nodes have."""
    skipped = {besides, "pods", "ephemeral-storage", "storage"}
    figures = []
    for index, name in enumerate(snapshot.axis.names):
        amounts = snapshot.nodes.allocatable[index]
        if name not in skipped and nominal(name) and not name.startswith("hugepages-") and amounts.any():

            def total(item: TreeLine, name: str = name, index: int = index) -> str:
                return short(name, int(snapshot.nodes.allocatable[index, item.rows].sum()))

            figures.append(_Figure(name.rpartition("/")[2], total))
    return figures


class _Drawing:
    def __init__(self, page: Page, used: Usage, figures: Sequence[_Figure]) -> None:
        self._page = page
        self._used = used
        self._figures = list(figures)

    def lines(self, root: TreeLine) -> list[Text]:
        flat = list(self._walk(root, "", ""))
        gauges = [self._numbers(item) for _, _, item in flat]
        numbers = max(cell_len(text) for text in gauges)
        need = max(cell_len(_TITLE), *(cell_len(lead) + item.name.cell_len for lead, _, item in flat))
        widths = self._choose([item for _, _, item in flat], need, numbers)
        width_taken = sum(widths) + len(_GAP) * (len(widths) + 2) + numbers
        name_width = min(need, max(_NAME, self._page.width - width_taken - _BAR[0]))
        gauge = min(_BAR[1], max(_BAR[0], self._page.width - width_taken - name_width))
        lines = [self._header(name_width, widths, gauge, numbers)]
        for (lead, follow, item), text in zip(flat, gauges, strict=True):
            lines.append(self._line(item, lead, name_width, widths, gauge, text.rjust(numbers)))
            lines += self._notes(item, lines[-1], follow)
        return [line.rstrip() for line in lines]

    def _notes(self, item: TreeLine, line: Text, follow: str) -> list[Text]:
        """The lines below a twig; a single note goes to the end of the twig's own line where that is wide enough."""
        width, bullet = self._page.width, self._page.glyphs.bullet
        if width >= _WIDE and len(item.notes) == 1 and line.cell_len + item.notes[0].cell_len + len(_GAP) <= width:
            line.append(_GAP).append(item.notes[0])
            return []
        first_lead, further_lead = _dim(f"{follow}{bullet} "), _dim(f"{follow}  ")
        return [text for note in item.notes for text in wrapped(note, width, first=first_lead, rest=further_lead)]

    def _choose(self, items: Sequence[TreeLine], need: int, numbers: int) -> list[int]:
        """The widths of the figures; those that would squeeze names and bar are dropped, the last ones first."""
        while True:
            cells = [[figure.title, *(figure.cell(item) for item in items)] for figure in self._figures]
            widths = [max(map(cell_len, column)) for column in cells]
            width_taken = sum(widths) + len(_GAP) * (len(widths) + 2) + numbers + _BAR[0]
            if not self._figures or width_taken + min(need, 30) <= self._page.width:
                return widths
            self._figures.pop()

    def _walk(self, item: TreeLine, lead: str, follow: str) -> Iterator[tuple[str, str, TreeLine]]:
        """Every twig with what leads its name, and the notes below it."""
        glyphs = self._page.glyphs
        yield lead, follow + (glyphs.pipe if item.below else ""), item
        for number, child in enumerate(item.below, start=1):
            is_last = number == len(item.below)
            branch, guide = (glyphs.corner, glyphs.blank) if is_last else (glyphs.tee, glyphs.pipe)
            yield from self._walk(child, follow + branch, follow + guide)

    def _numbers(self, item: TreeLine) -> str:
        used, rows = self._used, item.rows
        before, after, total = (short(used.resource, int(a[rows].sum())) for a in (used.before, used.after, used.total))
        change = after if before == after else f"{before} {self._page.glyphs.arrow} {after}"
        return f"{change} / {total}"

    def _header(self, name_width: int, widths: Sequence[int], gauge: int, numbers: int) -> Text:
        line = _TITLE.ljust(name_width)
        for figure, width in zip(self._figures, widths, strict=True):
            line += _GAP + (figure.title.rjust(width) if figure.right else figure.title.ljust(width))
        glyphs, title = self._page.glyphs, f"{self._used.resource} in use"
        titles = [title, self._used.resource]
        if (self._used.before != self._used.after).any():
            titles.insert(0, f"{title}: {glyphs.used} before, {glyphs.new} new")
        room = gauge + len(_GAP) + numbers
        line += _GAP + next((t for t in titles if cell_len(t) <= room), titles[-1])
        return Text(line, style="bright_black")

    def _line(
        self, item: TreeLine, lead: str, name_width: int, widths: Sequence[int], gauge: int, numbers: str
    ) -> Text:
        name = shortened(item.name.plain, max(4, name_width - cell_len(lead)), self._page.glyphs.dots)
        line = Text.assemble(_dim(lead), (name, item.name.style))
        line.append(" " * (name_width - line.cell_len))
        for figure, width in zip(self._figures, widths, strict=True):
            cell = figure.cell(item)
            line.append(_GAP + (cell.rjust(width) if figure.right else cell.ljust(width)), style="bright_black")
        used = self._used
        amounts = {"before": used.before, "after": used.after, "total": used.total}
        sums = {key: int(values[item.rows].sum()) for key, values in amounts.items()}
        line.append(_GAP).append(bar(self._page.glyphs, gauge, **sums))
        style = "green" if sums["after"] > sums["before"] else ""
        style = "red" if sums["after"] > sums["total"] else style
        return line.append(_GAP).append(numbers, style=style)


def _dim(text: str) -> Text:
    return Text(text, style="bright_black")
