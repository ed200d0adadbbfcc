"""The tree of domains over nodes in depth-first order, as a few arrays with query methods.

Domains are in preorder (0 is the virtual root), so the domains below d are the slice `d:last[d]`;
rows are in the order of the same walk, so the nodes below d are the slice `start[d]:end[d]`.
`model.tree` builds it from declarations; it is never changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tierwise.model.arrays import Floats, Ints, seal, summed

if TYPE_CHECKING:
    from tierwise.api.domain_amounts import Amount

__all__ = [
    "HYPERNODES",
    "LABELS",
    "LAYERS",
    "ROOT",
    "ROOT_NAME",
    "AlternateTopology",
    "Problem",
    "Topology",
    "fabric_kind",
    "fabric_title",
    "is_fabric",
]

ROOT = 0
ROOT_NAME = "<cluster-top-hypernode>"

HYPERNODES = "HyperNode"
LAYERS = "ClusterNetworkTopology"
LABELS = "node labels"
"""The kinds that declare trees; a constraint is judged on the tree of the kind that its language speaks of."""

_FABRIC = "fabric "
_TOPOLOGY = "Topology "


def fabric_kind(name: str) -> str:
    """How constraints name the tree of a fabric; the trees of other kinds may be named by their kind."""
    if name in (HYPERNODES, LAYERS, LABELS) or name.startswith(_TOPOLOGY):
        return name
    return f"{_FABRIC}{name}"


def is_fabric(kind: str) -> bool:
    """Whether a kind of tree is that of a fabric which hyperNodes name."""
    return kind.startswith(_FABRIC)


def fabric_title(kind: str) -> str:
    """What people call a tree: the name of its fabric, or the kind that declares it."""
    return kind.removeprefix(_FABRIC)


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with a declared domain: an error takes it out of the tree, a warning does not."""

    domain: str
    code: str  # stable, CamelCase: "Cycle", "TwoParents", "Overlap", "TierOrder", "MissingNode", ...
    text: str
    error: bool


class Topology(msgspec.Struct, frozen=True, dict=True):
    """Domains of one tree; domain d covers rows start[d]:end[d] and contains the domains d:last[d]."""

    name: tuple[str, ...]
    tier: Ints
    parent: Ints  # -1 above the root
    start: Ints
    end: Ints
    last: Ints
    leaf: Ints  # innermost domain of each row
    rank: Ints  # natural order of the domains' names, for ties
    children: tuple[tuple[int, ...], ...]
    chains: tuple[Ints, ...]  # of each domain: itself and the domains around it, innermost first
    at_tier: dict[int, Ints]  # the domains of each tier, ascending; tiers ascending
    tier_names: dict[str, int]
    index: dict[str, int]
    problems: tuple[Problem, ...]
    set_aside: tuple[str, ...]  # declared domains that an error took out of the tree
    amounts: dict[int, tuple[Amount, ...]] = {}  # by domain, what its pods share; one without a name cannot be read

    def __post_init__(self) -> None:
        seal(self.tier, self.parent, self.start, self.end, self.last, self.leaf, self.rank, *self.chains)

    def __len__(self) -> int:
        return len(self.name)

    def span(self, d: int) -> slice:
        return slice(int(self.start[d]), int(self.end[d]))

    def own_span(self, d: int) -> slice:
        """The rows of d that are in no domain below it: they follow its children, and are all of an innermost one."""
        return slice(int(self.own_start[d]), int(self.end[d]))

    @cached_property
    def own_start(self) -> Ints:
        """By domain, the first of these rows."""
        found = self.start.copy()
        np.maximum.at(found, self.parent[1:], self.end[1:])
        return found

    def own(self, per_domain: Ints) -> Ints:
        """Of a sum over each domain's rows, the part of the rows that are in no domain below it."""
        own: Ints = per_domain - summed(self.parent[1:], per_domain[1:], len(self.name))
        return own

    def below(self, d: int) -> slice:
        """The domains of d's subtree, d itself first."""
        return slice(d, int(self.last[d]))

    def totals(self, per_row: Ints) -> Ints:
        """Sum a per-node quantity for every domain at once."""
        upto = np.zeros(len(per_row) + 1, dtype=np.int64)
        per_row.cumsum(out=upto[1:])
        return upto[self.end] - upto[self.start]

    def all_totals(self, per_row: Ints) -> Ints:
        """Sum several per-node quantities, each a row of the matrix, for every domain at once."""
        upto = np.zeros((per_row.shape[0], per_row.shape[1] + 1), dtype=np.int64)
        per_row.cumsum(axis=1, out=upto[:, 1:])
        return upto.take(self.end, axis=1) - upto.take(self.start, axis=1)

    def roll_up(self, per_domain: Ints) -> Ints:
        """Add to each domain the values of the domains below it."""
        upto = np.zeros(len(per_domain) + 1, dtype=np.int64)
        per_domain.cumsum(out=upto[1:])
        return upto[self.last] - upto[:-1]

    def least(self, per_domain: Floats) -> Floats:
        """For each domain the least of its own value and those of the domains below it."""
        ended = np.full(len(per_domain) + 1, np.inf)
        ended[:-1] = per_domain
        found: Floats = np.minimum.reduceat(ended, self._subtrees)[::2]
        return found

    @cached_property
    def _subtrees(self) -> Ints:
        """Each domain, followed by the one behind its subtree."""
        return np.stack((np.arange(len(self.name)), self.last), axis=1).ravel()

    def spread(self, rows: Ints, counts: Ints) -> Ints:
        """How many of `counts` tasks on `rows` are below each domain."""
        return self.roll_up(summed(self.leaf[rows], counts, len(self.name)))

    def touched(self, rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Which domains hold some of the tasks, and how many. Rows ascend."""
        first = int(self.leaf[rows[0]])
        if first == self.leaf[rows[-1]] and rows[-1] < self.end[first]:
            chain = self.chains[first]
            return chain, np.add.reduce(counts).repeat(len(chain))
        spread = self.spread(rows, counts)
        domains = spread.nonzero()[0]
        return domains, spread[domains]

    def by_tier(self, within: int, limit: int) -> Iterator[Ints]:
        """The domains below one, itself included, up to a tier: one group per tier, tightest first."""
        last = int(self.last[within])
        for tier, domains in self.at_tier.items():
            if tier > limit:
                return
            inside = domains[domains.searchsorted(within) : domains.searchsorted(last)]
            if len(inside):
                yield inside

    def outermost(self, limit: int, within: int = ROOT) -> Ints:
        """The domains below one, itself included, that are within a tier while the domain around them is not."""
        allowed = np.zeros(len(self.name) + 1, dtype=bool)  # the last is the parent of the root
        allowed[self.below(within)] = self.tier[self.below(within)] <= limit
        return np.flatnonzero(allowed[:-1] & ~allowed[self.parent])

    @cached_property
    def loosest(self) -> Floats:
        """By domain, the highest tier among the innermost domains of its rows: within that, no row is left out."""
        own = np.bincount(self.leaf, minlength=len(self.name)) > 0
        found: Floats = -self.least(np.where(own, -self.tier, np.inf))
        return found

    def ancestors(self, d: int) -> Iterator[int]:
        """d, its parent, and so on up to the root."""
        while d >= 0:
            yield d
            d = int(self.parent[d])

    def contains(self, outer: int, inner: int) -> bool:
        return bool(outer <= inner < self.last[outer])

    def meet(self, a: int, b: int) -> int:
        """The innermost domain that contains both."""
        while not self.contains(a, b):
            a = int(self.parent[a])
        return a

    def meet_rows(self, rows: Ints) -> int:
        """The innermost domain that contains all these rows (at least one)."""
        return self.meet_span(int(rows.min()), int(rows.max()))

    def meet_span(self, first: int, final: int) -> int:
        """The innermost domain that contains these two rows, and so all between them."""
        d = int(self.leaf[first])
        while not self.start[d] <= first or not final < self.end[d]:
            d = int(self.parent[d])
        return d

    def highest(self, d: int, limit: int) -> int | None:
        """The outermost ancestor of d (or d) whose tier is within the limit; None where d itself is above it."""
        found = None
        for outer in self.ancestors(d):
            if self.tier[outer] > limit:
                break
            found = outer
        return found

    def around(self, domains: Ints) -> dict[int, Ints]:
        """Per tier, the widest domain around each of these, or itself, that the tier still allows."""
        found: dict[int, Ints] = {}
        for tier in self.at_tier:
            outer = self.parent[domains]
            domains = np.where((outer >= 0) & (self.tier[outer] <= tier), outer, domains)
            found[tier] = domains
        return found

    def meeting_tiers(self, d: int) -> Ints:
        """For every domain, the tier at which it meets d: `depth` slice writes."""
        tiers = np.empty(len(self.name), dtype=np.int64)
        for outer in reversed(tuple(self.ancestors(d))):
            tiers[self.below(outer)] = self.tier[outer]
        return tiers


class AlternateTopology(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A further tree over the nodes of a cluster, whose rows have another order than the cluster's."""

    topology: Topology
    rows: Ints  # of the cluster, in the order of this tree

    @cached_property
    def positions(self) -> Ints:
        """The positions of the cluster's rows in this tree."""
        positions = np.empty_like(self.rows)
        positions[self.rows] = np.arange(len(self.rows))
        return positions
