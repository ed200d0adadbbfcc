"""The topology as people see it: a tree of hyperNodes, folded so that what matters stays on one screen.

A hyperNode where nothing happened is summed up with its siblings; where too much happened to show it all, the first
few are shown and the others summed up as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from tierwise.explain.landed import Landings, tell
from tierwise.explain.naming import Names, tier_label
from tierwise.explain.page import Page, count
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["Twig", "grown"]

_BUDGET = 60
"""Lines of a tree, unless everything is asked for."""

_CAPS = (10**9, 16, 8, 4, 2, 1)
_FEW_NODES = 16
"""A cluster of up to so many nodes is shown node by node."""


@dataclass(frozen=True, slots=True)
class Twig:
    """One line of the tree, what is noted below it, and the lines that hang on it."""

    name: Text
    tier: str
    rows: Ints
    notes: tuple[Text, ...] = ()
    below: tuple[Twig, ...] = ()

    def lines(self) -> int:
        return 1 + len(self.notes) + sum(twig.lines() for twig in self.below)


def grown(page: Page, snapshot: Snapshot, *, landings: Landings | None = None, names: Names | None = None) -> Twig:
    """The tree of a snapshot; with landings, folded down to where pods landed."""
    nodes = page.everything or len(snapshot.nodes) <= _FEW_NODES
    folding = _Folding(snapshot, landings, names or Names(snapshot.jobs), nodes=nodes, everything=page.everything)
    tree = folding.grow(_CAPS[0])
    for cap in () if page.everything else _CAPS[1:]:
        if tree.lines() <= _BUDGET:
            break
        tree = folding.grow(cap)
    return tree


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
        self._cap = 0

    def grow(self, cap: int) -> Twig:
        self._cap = cap
        return self._domain(ROOT)

    def _domain(self, d: int) -> Twig:
        topology = self._topology
        span, children = topology.span(d), topology.children[d]
        name = Text("cluster") if d == ROOT else Text(topology.name[d])
        tier = "" if d == ROOT else tier_label(topology, int(topology.tier[d]))
        rows = np.arange(span.start, span.stop)
        if not self._news(span) and not self._all_wanted():
            return Twig(name, tier, rows)
        own = slice(max((int(topology.end[c]) for c in children), default=span.start), span.stop)
        below = self._domains(children)
        if self._nodes:
            below += self._node_twigs(own)
        elif children and own.stop > own.start:
            where = "in no hyperNode" if d == ROOT else "in no hyperNode below"
            title = Text(f"{count(own.stop - own.start, 'node')} {where}", style="dim")
            below.append(Twig(title, "", np.arange(own.start, own.stop), self._notes(own)))
        notes = self._notes(own) if not children and not self._nodes else ()
        return Twig(name, tier, rows, notes, tuple(below))

    def _domains(self, children: Sequence[int]) -> list[Twig]:
        spans = [self._topology.span(c) for c in children]
        shown = [c for c, span in zip(children, spans, strict=True) if self._all_wanted() or self._news(span)]
        quiet = [c for c in children if c not in set(shown)]
        first, more = self._capped(shown)
        alone = quiet if len(quiet) == 1 else []
        twigs = [self._domain(c) for c in sorted([*first, *alone])]
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
        return Twig(name, "", np.array([row]), self._notes(slice(row, row + 1)))

    def _capped(self, shown: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The first few and the others, of which there are never just one."""
        cut = len(shown) if len(shown) <= self._cap + 1 else self._cap
        return shown[:cut], shown[cut:]

    def _all_wanted(self) -> bool:
        return self._everything or self._landings is None

    def _news(self, span: slice) -> bool:
        return self._landings is not None and bool(self._landings.within(span))

    def _notes(self, *spans: slice) -> tuple[Text, ...]:
        if self._landings is None:
            return ()
        found = [entry for span in spans for entry in self._landings.within(span)]
        return tuple(tell(self._names, found)) if found else ()
