"""What placing tasks of a gang changes for other tasks of it, as records that a search can count with.

A filter that moves answers otherwise once a task is placed. For one gang at one moment that matters only as far as
placing one of its tasks changes the answer for another. `Filter.pod_rules` says so much with the records here; all else
is a mask of rows that are closed. The records describe the final state: which tasks may stand together, whatever order
they are placed in. `placement.program` turns them into constraints.

By row, `places` is the number of the place of a row, -1 for none. Shapes are known by their numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Iterator

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints

__all__ = [
    "Apart",
    "AtMost",
    "Charged",
    "Even",
    "Near",
    "PodRule",
    "PodRules",
    "RuleKind",
    "WrittenRule",
    "joined",
    "together",
]


class AtMost(msgspec.Struct, frozen=True, eq=False):
    """A place takes so many tasks of these shapes; rows without a place take any number."""

    shapes: frozenset[int]
    places: Ints
    left: int | Ints  # by place, where these differ
    others: bool = False  # there may be more once pods of others go

    def at(self, places: Ints) -> Ints:
        """How many tasks each of some places takes."""
        return np.full(len(places), self.left) if isinstance(self.left, int) else self.left[places]

    def by_row(self, elsewhere: int) -> Ints:
        """How many tasks each row takes, as far as its place goes."""
        allowance = np.full(len(self.places), elsewhere)
        inside = self.places >= 0
        allowance[inside] = self.at(self.places[inside])
        return allowance


class Charged(msgspec.Struct, frozen=True, eq=False):
    """A place has so much left of an amount, of which a task takes as its shape and its row say."""

    charges: dict[int, Ints]  # by shape, of each row
    places: Ints
    remaining: Ints  # by place
    others: bool = False  # there may be more once pods of others go

    @property
    def shapes(self) -> frozenset[int]:
        """The shapes whose tasks are charged."""
        return frozenset(self.charges)


class Apart(msgspec.Struct, frozen=True, eq=False):
    """No place has tasks of one of these sets of shapes and of the other."""

    shapes: frozenset[int]
    others: frozenset[int]
    places: Ints


class Near(msgspec.Struct, frozen=True, eq=False):
    """Tasks of these shapes stand only in places with pods they look for: some that are `there`, or tasks `by` shape.

    Where they `found`, the first of them may stand in a place without any, and the others follow it there.
    """

    shapes: frozenset[int]
    by: frozenset[int]
    places: Ints
    there: Bools  # by place
    found: bool
    others: bool = False  # pods of other shapes would do as well


class Even(msgspec.Struct, frozen=True, eq=False):
    """A place that takes tasks of these shapes ends with at most so many more pods than the emptiest has.

    Pods of the `counted` shapes count, on some rows, beside those that are `there`.
    """

    shapes: frozenset[int]
    counted: frozenset[int]
    places: Ints
    among: Bools  # the rows on which pods count
    there: Ints  # by place
    compared: Ints  # the places of which the emptiest counts
    above: int
    few: bool  # there are fewer places than asked for: the emptiest counts as empty
    others: bool = False  # pods of other shapes count, too


PodRule = AtMost | Charged | Apart | Near | Even


class RuleKind(enum.Enum):
    """What somebody wrote who asks for a rule between pods."""

    ANTI_AFFINITY = "anti-affinity"
    AFFINITY = "affinity"
    SPREAD = "spread"
    OTHERS = "anti-affinity of other pods"
    AMOUNT = "amount"  # of domains, which an administrator gave: its name and the tier stand for labels


class WrittenRule(msgspec.Struct, frozen=True, eq=False):
    """One rule as it was written: its kind, the labels of nodes that it is about, and who has it."""

    kind: RuleKind
    labels: tuple[str, ...]
    shapes: frozenset[int]


class PodRules(msgspec.Struct, frozen=True, eq=False):
    """The rules that bind tasks of some shapes among each other."""

    closed: dict[int, Bools] = {}  # by shape, rows that take none of it, whichever other tasks of the gang are placed
    records: tuple[PodRule, ...] = ()
    unstated: frozenset[int] = frozenset()  # shapes with rules of which the records tell nothing
    lonely: dict[int, Bools] = {}  # by shape, rows that take none of it while other pods stand where they do
    parts: tuple[tuple[WrittenRule | None, PodRules], ...] = ()  # what these are joined of, None for what has no name

    def whatever_comes(self) -> PodRules:
        """Only what holds whichever other pods come and go, where none stands now."""
        lasting = (rule for rule in self.records if isinstance(rule, Apart) or not rule.others)
        parts = tuple((written, rules.whatever_comes()) for written, rules in self.parts)
        return PodRules(self.closed, tuple(lasting), self.unstated, parts=parts)

    def digest(self, order: tuple[int, ...]) -> bytes:
        """Some bytes that are the same for the same rules with the same counts, and for no others.

        Shapes are known by their place in `order`, so that rules of other shapes may be the same.
        """
        from hashlib import blake2b  # slow to import, and few cycles refuse gangs with rules

        place = {number: i for i, number in enumerate(order)}
        digest = blake2b(digest_size=16)
        for rows_by_shape in (self.closed, self.lonely):
            for shape in sorted(rows_by_shape, key=place.__getitem__):
                digest.update(b"%d:%s;" % (place[shape], np.packbits(rows_by_shape[shape]).tobytes()))
            digest.update(b".")
        for rule in self.records:
            digest.update(type(rule).__name__.encode())
            for field in rule.__struct_fields__:
                value = getattr(rule, field)
                if isinstance(value, frozenset):
                    value = sorted(place[number] for number in value)
                if isinstance(value, dict):
                    numbers = sorted(value, key=place.__getitem__)
                    value = [(place[number], value[number].tobytes()) for number in numbers]
                encoded = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                digest.update(b"%s=%d:%s;" % (field.encode(), len(encoded), encoded))
        return digest.digest()

    def written(self) -> Iterator[WrittenRule]:
        """The rules that can be left out, each by itself, and that bind somebody or close something."""
        for written, rules in self.parts:
            closed = (*rules.closed.values(), *rules.lonely.values())
            if written is not None and (rules.records or any(rows.any() for rows in closed)):
                yield written

    def without(self, left_out: Container[object]) -> PodRules:
        """As if nobody had written some of the rules."""
        return joined(rules for written, rules in self.parts if written is None or written not in left_out)


def together(shapes: frozenset[int], places: Ints) -> PodRules:
    """All tasks of these shapes stand in one place: the first of them wherever it likes, and the others follow."""
    nobody = np.zeros(int(places.max(initial=-1)) + 1, dtype=bool)
    outside = places < 0
    return PodRules(dict.fromkeys(shapes, outside), (Near(shapes, frozenset(), places, nobody, found=True),))


def joined(every: Iterable[PodRules]) -> PodRules:
    """The rules of several filters together."""
    closed: dict[int, Bools] = {}
    lonely: dict[int, Bools] = {}
    records: tuple[PodRule, ...] = ()
    unstated: frozenset[int] = frozenset()
    parts: tuple[tuple[WrittenRule | None, PodRules], ...] = ()
    for pod_rules in every:
        parts += pod_rules.parts or ((None, pod_rules),)
        for rows_by_shape, added_rows in ((closed, pod_rules.closed), (lonely, pod_rules.lonely)):
            for shape, rows in added_rows.items():
                rows_by_shape[shape] = np.logical_or(rows_by_shape[shape], rows) if shape in rows_by_shape else rows
        records += pod_rules.records
        unstated |= pod_rules.unstated
    return PodRules(closed, records, unstated, lonely, parts)
