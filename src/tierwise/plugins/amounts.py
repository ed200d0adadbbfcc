"""amounts: pods of a domain share an amount of it, such as power or cooling, and take no more than there is.

    taken(domain) = sum over its pods of units asked for · each, by the first charge of the resource for their node
    closed        = taken + what the pod is charged > amount

A hyperNode of any tree gives its own amounts (`tierwise.io/amounts`); `amounts` of a profile gives those of each other
domain of a tier, and the charges of amounts that have none of their own. A tier that no tree has is a label of nodes:
then its values are the domains. Pods that are leaving take until they have left. The scheduler adds the plugin itself
where some hyperNode gives an amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.domain_amounts import Amount, AmountEntry, Charge, read_amounts, shown
from tierwise.api.quantity import milli
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Filter
from tierwise.framework.ledger import Ledger, Tally
from tierwise.framework.pod_rules import Charged, PodRules, RuleKind, WrittenRule, joined
from tierwise.model.arrays import CPU, Bools, Ints, Why, distinct
from tierwise.model.job import Reason, Shape
from tierwise.model.node import LabelTable
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology

__all__ = ["Amounts", "SharedAmount", "shared_amounts", "taken_now", "unused_tiers"]

_NAME = "amounts"
_ENDLESS = 2**61
_LARGEST = 2**53
"""Charges and amounts beyond are cut down to it, so that sums of them can be counted."""


class SharedAmount(msgspec.Struct, frozen=True):
    """An amount of the domains of one tier: how much each has, and what pods there are charged."""

    name: str
    tier: str  # as people call it
    tree: str  # domains of one tree lie in each other, or beside each other
    domains: tuple[str, ...]
    homes: Ints  # of each row, the position of its domain; -1 for none
    limits: Ints  # by domain, in thousandths
    charged_by: Ints  # of each row, which of the charges are for its domain
    charges: tuple[tuple[Charge, ...], ...]


class _Column(msgspec.Struct, frozen=True):
    """An amount with what pods take of it now."""

    shared: SharedAmount
    by_shape: dict[int, Ints]  # of each row, what a task is charged; without shapes that are charged nowhere
    used: Ints  # by domain, kept by the ledger


@takes_part(Filter)
class Amounts:
    """Closes nodes whose domain has too little left of an amount."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view = view
        every = shared_amounts(view.snapshot, read_amounts(arguments.get(_NAME)))
        self._columns = [self._column(shared) for shared in every]
        self._of_shape: dict[int, tuple[_Column, ...]] = {}

    def _column(self, shared: SharedAmount) -> _Column:
        """Register what pods take of an amount with the ledger: one tally for each set of equal charges."""
        by_shape: dict[int, Ints] = {}
        for shape in self._view.snapshot.shapes:
            charged = charged_by_row(shared, shape, self._view.snapshot)
            if charged.any():
                by_shape[shape.number] = charged
        used = np.zeros(len(shared.limits), dtype=np.int64)
        for rows, weights in _alike(by_shape, len(shared.homes)):
            self._view.ledger.tally(Tally(used, np.where(rows, shared.homes, -1), weights))
        return _Column(shared, by_shape, used)

    def _own(self, shape: Shape) -> tuple[_Column, ...]:
        """The amounts that tasks of a shape take of somewhere."""
        if shape.number not in self._of_shape:
            own = tuple(column for column in self._columns if shape.number in column.by_shape)
            self._of_shape[shape.number] = own
        return self._of_shape[shape.number]

    # -- filter

    def why_not(self, shape: Shape) -> Why:
        """Domains of which all would not do for one task."""
        why = np.zeros(len(self._view.nodes), dtype=np.uint16)
        for column in self._own(shape):
            self._object(why, column, column.by_shape[shape.number], column.shared.limits, slice(None), "in all")
        return why

    def concerns(self, shape: Shape) -> bool:
        """Whether its tasks take of some amount."""
        return bool(self._own(shape))

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        for column in self._own(shape):
            charges = column.by_shape[shape.number][span]
            self._object(why, column, charges, column.shared.limits - column.used, span, "left")
        return why

    def _object(self, why: Why, column: _Column, charges: Ints, there: Ints, span: slice, how: str) -> None:
        """Object to the rows whose domain has less there than a task is charged."""
        shared = column.shared
        homes = shared.homes[span]
        short = (charges > 0) & (charges > there[homes]) & (why == 0)
        for charge in distinct(charges[short]).tolist():
            text = f"had less than the {shown(charge)} of {shared.name} {how} in their {shared.tier} that a pod takes"
            number = self._view.reasons.number(Reason("AmountSpent", _NAME, text))
            np.copyto(why, np.uint16(number), where=short & (charges == charge))

    def order_free(self, shape: Shape) -> bool:
        """Whether all tasks of a domain are charged alike, and all domains lie in each other or beside each other."""
        own = self._own(shape)
        if len({column.shared.tree for column in own}) > 1:
            return False
        return all(_even(column.by_shape[shape.number], column.shared) for column in own)

    def pod_rules(self, shapes: tuple[Shape, ...]) -> PodRules:
        """A record for the rest of each amount, and one for all of it, which holds whoever leaves."""
        parts: list[tuple[WrittenRule | None, PodRules]] = []
        for column in self._columns:
            charges = {s.number: column.by_shape[s.number] for s in shapes if s.number in column.by_shape}
            if charges:
                shared = column.shared
                rest_now = Charged(charges, shared.homes, np.maximum(shared.limits - column.used, 0), others=True)
                written = WrittenRule(RuleKind.AMOUNT, (shared.name, shared.tier), frozenset(charges))
                parts.append((written, PodRules(records=(rest_now, Charged(charges, shared.homes, shared.limits)))))
        return PodRules(records=joined(rules for _, rules in parts).records, parts=tuple(parts))


def _alike(by_shape: Mapping[int, Ints], rows: int) -> Iterator[tuple[Bools, dict[int, int]]]:
    """Rows on which every shape is charged alike, and what each of them is charged there."""
    if not by_shape:
        return
    numbers = [*by_shape]
    table, of_row = np.unique(np.stack([by_shape[number] for number in numbers]), axis=1, return_inverse=True)
    for i, charges in enumerate(table.T.tolist()):
        weights = {number: charge for number, charge in zip(numbers, charges, strict=True) if charge}
        if weights:
            yield of_row.reshape(rows) == i, weights


def _even(charges: Ints, shared: SharedAmount) -> bool:
    """Whether the rows of each domain have one charge."""
    inside = shared.homes >= 0
    low = np.full(len(shared.limits), _ENDLESS)
    high = np.zeros(len(shared.limits), dtype=np.int64)
    np.minimum.at(low, shared.homes[inside], charges[inside])
    np.maximum.at(high, shared.homes[inside], charges[inside])
    return bool((low >= high).all())


def _labelled(labels: LabelTable, nodes: Mapping[str, str]) -> Bools | np.bool_:
    """The rows of nodes with all of these labels."""
    rows: Bools | np.bool_ = np.True_
    for key, value in nodes.items():
        column = labels.column(key)
        rows = rows & column.where([value == name for name in column.values], missing=False)
    return rows


# Amounts by tree and tier, from hyperNodes and from the profile.


def charged_by_row(shared: SharedAmount, shape: Shape, snapshot: Snapshot) -> Ints:
    """By row, what a task of a shape is charged of an amount, in thousandths."""
    total = np.zeros(len(shared.homes), dtype=np.int64)
    for number, charges in enumerate(shared.charges):
        rows = (shared.homes >= 0) & (shared.charged_by == number)
        uncharged: dict[str, Bools] = {}
        for charge in charges:
            column = snapshot.axis.index.get(charge.resource)
            units = int(shape.request[column]) if column is not None else 0
            if units:
                matching = uncharged.get(charge.resource, rows) & _labelled(snapshot.nodes.labels, charge.nodes)
                total[matching] += min(charge.of(units, 1000 if charge.resource == CPU else 1), _LARGEST)
                uncharged[charge.resource] = uncharged.get(charge.resource, rows) & ~matching
    return np.minimum(total, _LARGEST)


def taken_now(shared: SharedAmount, snapshot: Snapshot) -> Ints:
    """By domain, how much of an amount the pods take that hold nodes."""
    total = np.zeros(len(shared.limits), dtype=np.int64)
    for number, rows in Ledger(snapshot).held.items():
        homes = shared.homes[rows]
        charges = charged_by_row(shared, snapshot.shapes[number], snapshot)[rows]
        np.add.at(total, homes[homes >= 0], charges[homes >= 0])
    return total


def shared_amounts(snapshot: Snapshot, entries: Iterable[AmountEntry]) -> list[SharedAmount]:
    """Every amount by tree and tier, in the order of trees, then from below; those of labels behind them."""
    by_name = {entry.name: entry for entry in entries}
    trees = [_Tree(snapshot.kind, snapshot.topology, None)]
    trees += (_Tree(kind, tree.topology, tree.positions) for kind, tree in snapshot.alternate_topologies.items())
    charges: dict[str, tuple[Charge, ...]] = {}
    for tree in trees:
        for amount in chain.from_iterable(tree.topology.amounts.values()):
            charges[amount.name] = charges.get(amount.name, ()) or amount.charges
    amounts: list[SharedAmount] = []
    for name in sorted((charges.keys() | by_name.keys()) - {""}):
        entry = by_name.get(name, AmountEntry(name=name))
        for tree in trees:
            amounts += tree.amounts(entry, charges.get(name, ()))
    for entry in by_name.values():
        amounts += _of_labels(snapshot, entry)
    return amounts


def unused_tiers(snapshot: Snapshot, entries: Iterable[AmountEntry]) -> list[tuple[str, str]]:
    """The amounts of a profile whose tier is neither a tier of some tree nor a label that some node has."""
    tiers = _tiers_of_trees(snapshot)
    pairs = ((entry.name, tier) for entry in entries for tier in entry.tiers if tier not in tiers)
    return [(name, tier) for name, tier in pairs if not snapshot.nodes.labels.column(tier).values]


def _tiers_of_trees(snapshot: Snapshot) -> set[str]:
    """The names and numbers of the tiers of all trees."""
    tiers: set[str] = set()
    for tree in snapshot.trees():
        tiers |= {*tree.tier_names, *map(str, tree.at_tier)}
    return tiers


class _Tree(msgspec.Struct, frozen=True):
    """A tree, and the positions of the cluster's rows in it; None: rows follow it."""

    kind: str
    topology: Topology
    positions: Ints | None

    def amounts(self, entry: AmountEntry, elsewhere: tuple[Charge, ...]) -> Iterator[SharedAmount]:
        """The amounts of a name by tier, where a profile says this of it; without tiers in which no domain has any.

        Domains whose amounts cannot be read are charged as those `elsewhere`.
        """
        for tier in self.topology.at_tier:
            title = next((name for name, number in self.topology.tier_names.items() if number == tier), "")
            usual = entry.tiers.get(title, entry.tiers.get(str(tier)))
            domains: dict[int, Amount] = {}
            for domain in self.topology.at_tier[tier].tolist():
                stated = _stated(self.topology.amounts.get(domain, ()), entry, elsewhere)
                if stated is not None:
                    domains[domain] = stated
                elif usual is not None and domain != ROOT:
                    domains[domain] = Amount(entry.name, milli(usual), entry.charges)
            if domains:
                yield self._shared(entry.name, title or f"hyperNode of tier {tier}", domains)

    def _shared(self, name: str, tier: str, domains: dict[int, Amount]) -> SharedAmount:
        homes = np.full(len(self.topology.leaf), -1, dtype=np.int64)
        charged_by = np.zeros(len(homes), dtype=np.int64)
        charges: list[tuple[Charge, ...]] = []
        for amount in domains.values():
            if amount.charges not in charges:
                charges.append(amount.charges)
        for position, (domain, amount) in enumerate(domains.items()):
            homes[self.topology.span(domain)] = position
            charged_by[self.topology.span(domain)] = charges.index(amount.charges)
        if self.positions is not None:
            homes, charged_by = homes[self.positions], charged_by[self.positions]
        names = tuple(self.topology.name[domain] for domain in domains)
        limits = np.array([min(amount.limit, _LARGEST) for amount in domains.values()])
        return SharedAmount(name, tier, self.kind, names, homes, limits, charged_by, tuple(charges))


def _stated(amounts: Sequence[Amount], entry: AmountEntry, elsewhere: tuple[Charge, ...]) -> Amount | None:
    """The amount of this name that a domain gives of itself, or one that cannot be read; None where there is none."""
    for amount in amounts:
        if amount.name == entry.name:
            return replace(amount, charges=amount.charges or entry.charges)
        if not amount.name:
            return replace(amount, charges=entry.charges or elsewhere)
    return None


def _of_labels(snapshot: Snapshot, entry: AmountEntry) -> Iterator[SharedAmount]:
    """An amount of the nodes that share a value of a label, for each tier of a profile that no tree has."""
    tiers = _tiers_of_trees(snapshot)
    for key, quantity in entry.tiers.items():
        column = snapshot.nodes.labels.column(key)
        if key not in tiers and column.values:
            homes = column.codes.astype(np.int64)
            limits = np.full(len(column.values), min(milli(quantity), _LARGEST), dtype=np.int64)
            charged_by = np.zeros(len(homes), dtype=np.int64)
            yield SharedAmount(
                entry.name, key, f"label {key}", tuple(column.values), homes, limits, charged_by, (entry.charges,)
            )
