"""The topology as people see it: a tree of hyperNodes, folded so that what matters stays on one screen.

A hyperNode where nothing happened is summed up with its siblings; where too much happened to show it all, the first
few are shown and the others summed up as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from rich.text import Text

from tierwise.explain.landed import Landings, tell
from tierwise.explain.naming import Names, tier_label
from tierwise.explain.page import Page, count
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["Twig", "grown"]

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


class Twig(msgspec.Struct, frozen=True):
    """One line of the tree, what is noted below it, and the lines that hang on it."""

    name: Text
    tier: str
    rows: Ints
    notes: tuple[Text, ...] = ()
    below: tuple[Twig, ...] = ()
    node: bool = False  # a node, not a hyperNode

    def lines(self) -> int:
        return 1 + len(self.notes) + sum(twig.lines() for twig in self.below)


def grown(page: Page, snapshot: Snapshot, *, landings: Landings | None = None, names: Names | None = None) -> Twig:
    """The tree of a snapshot; with landings, folded down to where pods landed."""
    nodes = page.everything or len(snapshot.nodes) <= _FEW_NODES
    folding = _Folding(snapshot, landings, names or Names(snapshot.jobs), nodes=nodes, everything=page.everything)
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
        self, snapshot: Snapshot, landings: Landings | None, names: Names, *, nodes: bool, everything: bool
    ) -> None:
        self._snapshot = snapshot
        self._topology = snapshot.topology
        self._landings = landings
        self._names = names
        self._nodes = nodes
        self._everything = everything
        self._detail = _Detail()

    def grow(self, detail: _Detail) -> Twig:
        self._detail = detail
        return self._domain(ROOT, 0)

    def _domain(self, d: int, depth: int) -> Twig:
        topology = self._topology
        span, children = topology.span(d), topology.children[d]
        name = Text("cluster") if d == ROOT else Text(topology.name[d])
        tier = "" if d == ROOT else tier_label(topology, int(topology.tier[d]))
        rows = np.arange(span.start, span.stop)
        if not self._news(span) and not self._all_wanted():
            return Twig(name, tier, rows)
        if self._detail.closed and d != ROOT and self._one_job(span):
            return Twig(name, tier, rows, self._notes(span))
        if depth >= self._detail.depth:
            return Twig(name.append(f" +{topology.last[d] - d - 1}", style="dim") if children else name, tier, rows)
        own = slice(max((int(topology.end[c]) for c in children), default=span.start), span.stop)
        below = self._domains(children, depth + 1)
        if self._nodes:
            below += self._node_twigs(own)
        elif children and own.stop > own.start:
            where = "in no hyperNode" if d == ROOT else "in no hyperNode below"
            title = Text(f"{count(own.stop - own.start, 'node')} {where}", style="dim")
            below.append(Twig(title, "", np.arange(own.start, own.stop), self._notes(own)))
        notes = self._notes(own) if not children and not self._nodes else ()
        return Twig(name, tier, rows, notes, tuple(below))

    def _domains(self, children: Sequence[int], depth: int) -> list[Twig]:
        spans = [self._topology.span(c) for c in children]
        shown = [c for c, span in zip(children, spans, strict=True) if self._all_wanted() or self._news(span)]
        quiet = [c for c in children if c not in set(shown)]
        first, more = self._capped(shown)
        alone = quiet if len(quiet) == 1 else []
        twigs = [self._domain(c, depth) for c in sorted([*first, *alone])]
        if more:
            twigs.append(self._rest(more, "more"))
        if len(quiet) > 1:
            twigs.append(self._rest(quiet, "others"))
        return twigs

    def _rest(self, domains: Sequence[int], word: str) -> Twig:
        """Several siblings on one line."""
        tiers = {tier_label(self._topology, int(self._topology.tier[d])) for d in domains}
        spans = [self._topology.span(d) for d in domains]
        rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        return Twig(
            Text(f"{len(domains)} {word}", style="dim"),
            tiers.pop() if len(tiers) == 1 else "",
            rows,
            self._notes(*spans),
        )

    def _node_twigs(self, span: slice) -> list[Twig]:
        rows = range(span.start, span.stop)
        shown = [row for row in rows if self._all_wanted() or self._news(slice(row, row + 1))]
        quiet = np.array([row for row in rows if row not in set(shown)], dtype=np.int64)
        first, more = self._capped(shown)
        alone = quiet if len(quiet) == 1 else quiet[:0]
        twigs = [self._node(row) for row in sorted([*first, *alone.tolist()])]
        if more:
            notes = self._notes(*(slice(row, row + 1) for row in more))
            twigs.append(Twig(Text(f"{len(more)} more nodes", style="dim"), "", np.array(more), notes))
        if len(quiet) > 1:
            title = f"{len(quiet)} other nodes" if shown else f"{len(quiet)} nodes"
            twigs.append(Twig(Text(title, style="dim"), "", quiet))
        return twigs

    def _node(self, row: int) -> Twig:
        name = Text(self._snapshot.nodes.names[row], style="italic")
        return Twig(name, "", np.array([row]), self._notes(slice(row, row + 1)), node=True)

    def _capped(self, shown: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The first few and the others, of which there are never just one."""
        cut = len(shown) if len(shown) <= self._detail.siblings + 1 else self._detail.siblings
        return shown[:cut], shown[cut:]

    def _all_wanted(self) -> bool:
        return self._everything or self._landings is None

    def _news(self, span: slice) -> bool:
        return self._landings is not None and bool(self._landings.within(span))

    def _one_job(self, span: slice) -> bool:
        """Whether all that landed here is of one job: then its domain says as much as the domains below it."""
        found = self._landings.within(span) if self._landings is not None else ()
        return len({"" if entry.job.lone else entry.job.key for entry in found}) == 1

    def _notes(self, *spans: slice) -> tuple[Text, ...]:
        if self._landings is None:
            return ()
        found = [entry for span in spans for entry in self._landings.within(span)]
        return tuple(tell(self._names, found)) if found else ()
