"""Rules between pods: affinity, anti-affinity and topology spread, as filters and as scores.

Used by `predicates` (required terms) and `nodeorder` (preferred ones); both count on the same tallies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import combinations

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import PodAffinity, PodAffinityTerm, Requirement, TopologySpreadConstraint
from tierwise.framework.extension import CycleView, Tie
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Tally
from tierwise.framework.pod_rules import (
    Apart,
    AtMost,
    Even,
    Near,
    PodRule,
    PodRules,
    RuleKind,
    WrittenRule,
    joined,
)
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Reason, Shape
from tierwise.model.pod_terms import NAMESPACE_NAME, Conditions, PodSelector, affinity_pods, spread_pods
from tierwise.plugins.kubernetes.node_affinity import eligible, open_rows, places

__all__ = ["Count", "PodCounts", "PodPreferences", "PodRequirements", "placeable", "soft"]


# Counts of pods per value of a node label, for the rules between pods.
#
# A count is a ledger tally, so it follows every placement of the cycle and every rewind. One tally serves all rules
# that count the same pods over the same label. Tallies start with the pods at the beginning of the cycle, so they
# are registered while the plugins are constructed.


class Count(msgspec.Struct, frozen=True):
    """Pods per label value: those that some tallies count, less those that others count.

    Where each of a thousand gangs keeps away from all others, they share the tally of all, and each takes off its own.
    Where pods are left out for two reasons, those that meet both were taken off twice, and are added again.
    """

    place: Ints  # which value a row has, -1 for none
    more: tuple[Tally, ...]
    less: tuple[Tally, ...] = ()
    among: Bools | None = None  # the rows on which pods count; None: on all

    @property
    def values(self) -> Ints:
        """So many pods for each value, and one entry more, always 0: what index -1 finds."""
        added = reduce(np.add, (tally.values for tally in self.more))
        return reduce(np.subtract, (tally.values for tally in self.less), added)

    @property
    def evicted(self) -> Ints:
        """Likewise, pods that go since this cycle; for counts that they are not among."""
        added = reduce(np.add, map(_evicted, self.more))
        return reduce(np.subtract, map(_evicted, self.less), added)

    @property
    def tallies(self) -> int:
        """How many are read."""
        return len(self.more) + len(self.less)

    def at(self, span: slice) -> Ints:
        """How many pods stand where each row of the span is; 0 for rows without the label."""
        return self.values[self.place[span]]

    def of(self, shapes: frozenset[int]) -> frozenset[int]:
        """The numbers of those of some shapes whose pods count."""
        return frozenset(number for number in shapes if self._weight(number) > 0)

    def counts_beyond(self, shapes: frozenset[int]) -> bool:
        """Whether pods of further shapes count."""
        return any(self._weight(number) > 0 for tally in self.more for number in tally.weights if number not in shapes)

    def _weight(self, number: int) -> int:
        added = sum(tally.weights.get(number, 0) for tally in self.more)
        return added - sum(tally.weights.get(number, 0) for tally in self.less)


def _evicted(tally: Tally) -> Ints:
    assert tally.evicted is not None
    return tally.evicted


def placeable(view: CycleView) -> tuple[Shape, ...]:
    """The shapes that this cycle may place: all but those whose every task is placed already."""
    waiting = view.snapshot.waiting
    pending = {pod_set.shape.number for job in waiting for pod_set in job.pod_sets()}
    pending.update(pod_set.shape.number for job in waiting for _, pod_set in job.best_effort_pod_sets)
    placed = view.ledger.held
    return tuple(s for s in view.snapshot.shapes if s.number in pending or s.number not in placed)


def _steps_of(counts: int, rows: int) -> int:
    """The steps of looking at so many counts on so many rows."""
    return 1 + counts * (1024 + rows) // 8192


def soft(shape: Shape) -> tuple[TopologySpreadConstraint, ...]:
    """The spread constraints that nodes are only ranked by."""
    return tuple(c for c in shape.spread if c.when_unsatisfiable == "ScheduleAnyway")


def _counted_by_spread(constraint: TopologySpreadConstraint, shape: Shape) -> PodSelector:
    """The pods that a spread constraint of a shape counts: an empty selector counts no pod, as in Kubernetes."""
    selector = spread_pods(constraint, shape.namespace, shape.labels)
    return selector if selector.labels else replace(selector, labels=None)


class PodCounts:
    """The counts that one plugin registered, by what they count.

    `by_name` says that nodes go by their names where none has the label with the host's name.
    """

    def __init__(self, view: CycleView, *, by_name: bool = True) -> None:
        self._view = view
        self._by_name = by_name
        self._classes = _Classes(view.snapshot.shapes)
        self._places: dict[str, tuple[Ints, int]] = {}
        self._matching: dict[tuple[frozenset[PodSelector], str, bytes, bool], Count] = {}
        self._outside: dict[tuple[PodSelector, Conditions, str, bytes, bool], Tally] = {}  # what selectors leave out

    def place(self, key: str) -> Ints:
        """Per row, which value of a topology key it has; -1 for none."""
        return self._place(key)[0]

    def label(self, places: Ints) -> str:
        """The topology key whose values these places are."""
        return next(key for key, (known_places, _) in self._places.items() if known_places is places)

    def matching(
        self, selectors: Iterable[PodSelector], key: str, *, among: Bools | None = None, leaving: bool = True
    ) -> Count:
        """The pods that match every selector, on the rows `among` only; without `leaving`, none on its way out."""
        selector_set = frozenset(selectors)
        what = (selector_set, key, b"" if among is None else np.packbits(among).tobytes(), leaving)
        count = self._matching.get(what)
        if count is None:
            count = self._matching[what] = self._count(selector_set, key, among, leaving=leaving)
        return count

    def _count(self, selectors: frozenset[PodSelector], key: str, among: Bools | None, *, leaving: bool) -> Count:
        selector = _all_of(selectors)
        meant = self._classes.meant(selector) if selector is not None else None
        if selector is None or meant is None or not meant.without:
            numbers = self._classes.shapes(selectors if selector is None else (selector,))
            return Count(self.place(key), (self._register(numbers, key, among, leaving=leaving),), (), among)
        every = self.matching((meant.base,), key, among=among, leaving=leaving)
        added_tallies = list(every.more)
        less = list[Tally]()
        for choice in _some_of(meant.without)[1:]:
            classes = self._classes.outside(meant.base, choice)
            if classes:
                key_of_tally = meant.base, choice, key, b"" if among is None else np.packbits(among).tobytes(), leaving
                if key_of_tally not in self._outside:
                    numbers = self._classes.members(classes)
                    self._outside[key_of_tally] = self._register(numbers, key, among, leaving=leaving)
                (less if len(choice) % 2 else added_tallies).append(self._outside[key_of_tally])
        return replace(every, more=tuple(added_tallies), less=tuple(less))

    def carrying(
        self, terms: Iterable[tuple[int, PodSelector, str, int]], wanted_shapes: set[int]
    ) -> dict[int, list[Count]]:
        """By shape of `wanted_shapes`, the pods that carry terms which select it: one count for each label.

        A term is the number of the carrier's shape, which pods it means, how near, and how much it weighs. Terms that
        differ only in which pods they leave out share a tally, and such pods take off what leaves them out.
        """
        carriers: dict[str, dict[PodSelector, dict[Conditions, _Carriers]]] = {}
        for number, selector, key, weight in terms:
            meant = self._classes.meant(selector)
            alike = carriers.setdefault(key, {}).setdefault(meant.base, {})
            for choice in _some_of(meant.without):
                alike.setdefault(choice, _Carriers()).add(number, weight)
        counts_by_shape: dict[int, list[Count]] = {}
        for key, by_base in carriers.items():
            for number, count in self._carrying_at(key, by_base, wanted_shapes):
                counts_by_shape.setdefault(number, []).append(count)
        return counts_by_shape

    def _carrying_at(
        self, key: str, by_base: Mapping[PodSelector, Mapping[Conditions, _Carriers]], wanted_shapes: set[int]
    ) -> Iterator[tuple[int, Count]]:
        added_tallies: dict[int, list[Tally]] = {}
        less: dict[int, list[Tally]] = {}
        terms: dict[int, int] = {}  # how many mean each shape
        for base, alike in by_base.items():
            met = wanted_shapes.intersection(self._classes.shapes((base,)))
            for choice, carriers in alike.items():
                if met and choice:
                    shapes = met.intersection(self._classes.members(self._classes.outside(base, choice)))
                else:
                    shapes = met
                odd = len(choice) % 2
                self._share(less if odd else added_tallies, shapes, carriers.weights, key)
                for number in shapes:
                    terms[number] = terms.get(number, 0) + (-carriers.terms if odd else carriers.terms)
        count_by_parts: dict[tuple[int, ...], Count] = {}
        for number, tallies in added_tallies.items():
            left_out = less.get(number, [])
            parts = (*map(id, tallies), 0, *map(id, left_out))
            if parts not in count_by_parts:
                count_by_parts[parts] = Count(self.place(key), tuple(tallies), tuple(left_out))
            if terms[number]:
                yield number, count_by_parts[parts]

    def _share(self, tallies: dict[int, list[Tally]], shapes: set[int], weights: dict[int, int], key: str) -> None:
        """Register a tally, if any of the shapes needs it, and note it for each."""
        if shapes:
            carried = {number: weight for number, weight in weights.items() if weight}
            tally = self._register(carried, key, None, leaving=True)
            for number in shapes:
                tallies.setdefault(number, []).append(tally)

    def liked(self, *, hard: int = 0, ignores: bool = False) -> dict[int, list[tuple[Count, int]]]:
        """By shape that may be placed, what ranks nodes for it, with weights; shapes that nothing does are left out.

        That are pods which its preferred terms mean, and pods whose preferred terms mean it, as in Kubernetes. Required
        affinity of these weighs `hard`. With `ignores`, their terms count for shapes alone that have terms themselves.
        """
        placeable_shapes = placeable(self._view)
        shapes = self._view.snapshot.shapes
        liked_by_shape: dict[int, dict[int, tuple[Count, int]]] = {}  # by shape, by count
        shape_numbers = set[int]()
        for shape in placeable_shapes:
            wishes = tuple(_wishes(shape))
            if wishes or not ignores:
                shape_numbers.add(shape.number)
            for selector, key, weight in wishes:
                if self.means_any(selector):
                    self._like(liked_by_shape, shape.number, self.matching((selector,), key), weight)
        terms = ((shape.number, *term) for shape in shapes for term in (*_wishes(shape), *_needs(shape, hard)))
        for number, counts in self.carrying(terms, shape_numbers).items():
            for count in counts:
                self._like(liked_by_shape, number, count, 1)
        return {number: list(by_count.values()) for number, by_count in liked_by_shape.items()}

    @staticmethod
    def _like(liked_by_shape: dict[int, dict[int, tuple[Count, int]]], number: int, count: Count, weight: int) -> None:
        """Note what ranks nodes for a shape; where a count does so several times, its weights are added."""
        by_count = liked_by_shape.setdefault(number, {})
        count_and_weight = by_count.get(id(count), (count, 0))
        by_count[id(count)] = count, count_and_weight[1] + weight

    def labelled(self, constraints: Iterable[TopologySpreadConstraint]) -> Bools:
        """The rows with the label of each of these constraints."""
        rows = np.ones(len(self._view.nodes), dtype=bool)
        for constraint in constraints:
            rows &= self.place(constraint.topology_key) >= 0
        return rows

    def among(self, shape: Shape, constraint: TopologySpreadConstraint, rows: Bools) -> Bools:
        """Those of some rows on which a constraint counts pods."""
        affinity = constraint.node_affinity_policy != "Ignore"
        taints = constraint.node_taints_policy == "Honor"
        return rows & eligible(self._view.nodes, shape, affinity=affinity, taints=taints)

    def spread(self, shape: Shape, constraint: TopologySpreadConstraint, among: Bools | None) -> Count:
        """The pods that a constraint of a shape counts, on these rows."""
        counted = _counted_by_spread(constraint, shape)
        return self.matching((counted,), constraint.topology_key, among=among, leaving=False)

    def means_any(self, selector: PodSelector) -> bool:
        """Whether a selector means any shape."""
        return self._classes.means_any(selector)

    def shapes_matching(self, *selectors: PodSelector) -> list[int]:
        """The numbers of the shapes whose tasks every selector means."""
        return self._classes.shapes(selectors)

    def _place(self, key: str) -> tuple[Ints, int]:
        places_of_key = self._places.get(key)
        if places_of_key is None:
            places_of_key = self._places[key] = places(self._view.nodes, key, by_name=self._by_name)
        return places_of_key

    def _register(
        self, weights: Iterable[int] | dict[int, int], key: str, among: Bools | None, *, leaving: bool
    ) -> Tally:
        """Have shapes tallied from now on, each pod by its weight, or as one."""
        place, size = self._place(key)
        carried = weights if isinstance(weights, dict) else dict.fromkeys(weights, 1)
        values = np.zeros(size + 1, dtype=np.int64)
        evicted = None
        bucket = place if among is None else np.where(among, place, -1)
        if not leaving:
            evicted = np.zeros(size + 1, dtype=np.int64)
            self._leave_out(values, bucket, carried)
        tally = Tally(values, bucket, carried, evicted)
        self._view.ledger.tally(tally)
        return tally

    def _leave_out(self, values: Ints, bucket: Ints, weights: dict[int, int]) -> None:
        """Subtract beforehand what the ledger is about to add for pods that are on their way out."""
        leaving = self._view.ledger.leaving
        for number, weight in weights.items() if leaving else ():
            if number in leaving:
                buckets = bucket[leaving[number]]
                np.subtract.at(values, buckets[buckets >= 0], weight)


def _all_of(selectors: Collection[PodSelector]) -> PodSelector | None:
    """One selector for the pods that all of these mean; None where their namespaces are known by labels alone."""
    if len(selectors) == 1:
        return next(iter(selectors))
    if any(selector.also is not None for selector in selectors):
        return None
    namespaces = frozenset.intersection(*(selector.namespaces for selector in selectors))
    if any(selector.labels is None for selector in selectors):
        return PodSelector(None, namespaces, None)
    every = {
        (condition.key, condition.operator, condition.values): condition
        for selector in selectors
        for condition in selector.labels or ()
    }
    return PodSelector(tuple(every[what] for what in sorted(every)), namespaces, None)


def _some_of(conditions: Conditions) -> list[Conditions]:
    """Every choice among some conditions, none of them first."""
    return [choice for size in range(len(conditions) + 1) for choice in combinations(conditions, size)]


class _Carriers:
    """The pods with terms about the same pods that leave out others by certain conditions, and perhaps by more."""

    def __init__(self) -> None:
        self.weights: dict[int, int] = {}  # by shape of the carrier
        self.terms = 0

    def add(self, number: int, weight: int) -> None:
        """One more term, which pods of a shape carry."""
        self.weights[number] = self.weights.get(number, 0) + weight
        self.terms += 1


class _Meant(msgspec.Struct, frozen=True):
    """Which classes a selector means: those of another one that meet some conditions besides."""

    base: PodSelector
    without: Conditions = ()  # each lists values of a label that keep a class out


_LIFTED = 3
"""Conditions of a selector that leave classes out by values, up to which it is counted as all without these. Each
doubles the number of tallies: who meets two of them is taken off twice.
"""


class _Classes:
    """Shapes by namespace and labels: a selector is asked once per class, and only where its labels occur in the
    namespaces that it covers. What it leaves out by values of labels is looked up as well: a thousand selectors, each
    of which leaves out its own gang, are one with exceptions.
    """

    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes = shapes
        self._meant: dict[PodSelector, _Meant] = {}
        self._every: dict[PodSelector, list[int]] = {}
        self._kept: dict[Requirement, frozenset[int]] = {}  # by condition, the classes that it keeps out
        self._outside: dict[tuple[PodSelector, Conditions], tuple[int, ...]] = {}
        self._members: list[list[int]] = []
        self._by_key: dict[str, list[int]] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._by_namespace: dict[str, list[int]] = {}
        self._by_both: dict[tuple[str, str, str], list[int]] = {}
        numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        for shape in shapes:
            labels = tuple(sorted(shape.labels.items()))
            number = numbers.setdefault((shape.namespace, labels), len(numbers))
            if number == len(self._members):
                self._members.append([])
                self._by_namespace.setdefault(shape.namespace, []).append(number)
                for key, value in labels:
                    self._by_key.setdefault(key, []).append(number)
                    self._by_label.setdefault((key, value), []).append(number)
                    self._by_both.setdefault((shape.namespace, key, value), []).append(number)
            self._members[number].append(shape.number)

    def shapes(self, selectors: Iterable[PodSelector]) -> list[int]:
        """The numbers of the shapes that all selectors match, of which there is one at least; ascending."""
        first_selector, *further_selectors = selectors
        common = set(self.members(self._hits(first_selector)))
        for selector in further_selectors:
            common.intersection_update(self.members(self._hits(selector)))
        return sorted(common)

    def members(self, classes: Iterable[int]) -> list[int]:
        """The numbers of the shapes of these classes."""
        return [number for class_number in classes for number in self._members[class_number]]

    def meant(self, selector: PodSelector) -> _Meant:
        """The classes that a selector means, by one that leaves out fewer of them."""
        meant = self._meant.get(selector)
        if meant is None:
            meant = self._meant[selector] = self._find_meant(selector)
        return meant

    def _find_meant(self, selector: PodSelector) -> _Meant:
        named = [c for c in selector.labels or () if c.operator == "NotIn" and c.values]
        if len(named) > _LIFTED:
            named = self._needed(named)[:_LIFTED]
        if not named:
            return _Meant(selector)
        other_conditions = tuple(condition for condition in selector.labels or () if condition not in named)
        return _Meant(replace(selector, labels=other_conditions), tuple(c for c in named if self._kept_out(c)))

    def _needed(self, conditions: Sequence[Requirement]) -> list[Requirement]:
        """Those of some conditions that keep out classes which no wider keeps out, the widest first."""
        needed: list[Requirement] = []
        for condition in sorted(conditions, key=lambda condition_to_rank: -len(self._kept_out(condition_to_rank))):
            if not any(self._kept_out(condition) <= self._kept_out(wider) for wider in needed):
                needed.append(condition)
        return needed

    def _kept_out(self, condition: Requirement) -> frozenset[int]:
        """The classes that a condition keeps out, by the values that it lists."""
        classes = self._kept.get(condition)
        if classes is None:
            by_value = (self._by_label.get((condition.key, value), ()) for value in condition.values)
            classes = self._kept[condition] = frozenset().union(*by_value)
        return classes

    def outside(self, base: PodSelector, conditions: Conditions) -> tuple[int, ...]:
        """The classes which a selector means, and which each of some conditions keeps out; ascending."""
        classes = self._outside.get((base, conditions))
        if classes is None:
            fewest, *wider = sorted(map(self._kept_out, conditions), key=len)
            common = fewest.intersection(*wider) if wider else fewest
            inside = (
                class_number for class_number in sorted(common) if self._matches(base, self._members[class_number])
            )
            classes = self._outside[base, conditions] = tuple(inside)
        return classes

    def _left_out(self, meant: _Meant) -> set[int]:
        """The classes of its base that a selector does not mean."""
        return {class_number for condition in meant.without for class_number in self.outside(meant.base, (condition,))}

    def _hits(self, selector: PodSelector) -> list[int]:
        """The classes that a selector means."""
        meant = self.meant(selector)
        if meant.base not in self._every:
            candidates = self._candidates(meant.base)
            self._every[meant.base] = [
                class_number for class_number in candidates if self._matches(meant.base, self._members[class_number])
            ]
        every = self._every[meant.base]
        left_out = self._left_out(meant)
        return [class_number for class_number in every if class_number not in left_out] if left_out else every

    def means_any(self, selector: PodSelector) -> bool:
        """Whether a selector means any shape."""
        meant = self.meant(selector)
        return len(self._hits(meant.base)) > len(self._left_out(meant))

    def _candidates(self, selector: PodSelector) -> Sequence[int]:
        """The classes that a selector may mean: by its labels, by its namespaces, or by both."""
        names = self._namespaces(selector)
        candidate_lists: list[list[Sequence[int]]] = [[range(len(self._members))]]
        if names is not None:
            candidate_lists.append([self._by_namespace.get(name, ()) for name in names])
        for condition in selector.labels or ():
            if condition.operator == "Exists":
                candidate_lists.append([self._by_key.get(condition.key, ())])
            elif condition.operator == "In":
                candidate_lists.append(self._with_a_value(condition, names))
        fewest = min(candidate_lists, key=lambda candidate_list: sum(map(len, candidate_list)))
        return [class_number for class_list in fewest for class_number in class_list]

    def _with_a_value(self, condition: Requirement, names: Collection[str] | None) -> list[Sequence[int]]:
        """The classes with one of the values that a condition lists, in these namespaces where that is shorter."""
        key = condition.key
        values = condition.values
        everywhere: list[Sequence[int]] = [self._by_label.get((key, value), ()) for value in values]
        if names is None or len(names) * len(values) >= sum(map(len, everywhere)):
            return everywhere
        return [self._by_both.get((name, key, value), ()) for name in names for value in values]

    def _namespaces(self, selector: PodSelector) -> Collection[str] | None:
        """Namespaces among which are all that a selector covers; None where these are not known by their names."""
        if selector.also is None:
            return selector.namespaces
        anchor = next((r for r in selector.also if r.operator == "In"), None)
        if anchor is None:
            return None
        labelled = (name for value in anchor.values for name in self._labelled.get((anchor.key, value), ()))
        return {*selector.namespaces, *labelled}

    @cached_property
    def _labelled(self) -> dict[tuple[str, str], list[str]]:
        """Namespaces by label, that of the name included."""
        namespaces_by_label: dict[tuple[str, str], list[str]] = {}
        for name, classes in self._by_namespace.items():
            labels = {**self._shapes[self._members[classes[0]][0]].namespace_labels, NAMESPACE_NAME: name}
            for label in labels.items():
                namespaces_by_label.setdefault(label, []).append(name)
        return namespaces_by_label

    def _matches(self, selector: PodSelector, members: list[int]) -> bool:
        sample = self._shapes[members[0]]
        return selector.matches(sample.namespace, sample.labels, sample.namespace_labels)


_STATED = 5
"""Steps of saying what one rule is for the tasks of a gang."""

_HARD = "DoNotSchedule"
_NEAR = "near"
_EVEN = "even"
"""Rules that need a label even where they are static: affinity and topology spread."""


class _SpreadLimit(msgspec.Struct, frozen=True):
    """One spread constraint of a shape."""

    count: Count
    domains: Ints | slice  # the label values that are counted
    number: int  # of these
    few: bool  # fewer than the constraint's minimum: the emptiest counts as empty
    allowed: int  # how far above the emptiest a value may stand before one more task

    def crowded(self, span: slice) -> Bools:
        """Where one more task is too many, with those who go since this cycle, or without them."""
        values = self.count.values
        evicted = self.count.evicted
        crowded = self._crowded(values, span)
        return crowded | self._crowded(values + evicted, span) if evicted.any() else crowded

    def _crowded(self, values: Ints, span: slice) -> Bools:
        lowest = 0
        if self.number and not self.few:
            lowest = int(values[self.domains].min())
        crowded: Bools = values[self.count.place[span]] > self.allowed + lowest
        return crowded


class _Rules(msgspec.Struct, frozen=True):
    """What binds one shape."""

    near: tuple[Count, ...]
    sought: tuple[PodSelector, ...]  # the pods that its affinity looks for, which all of these mean
    founder: bool  # matches its own affinity
    away: tuple[Count, ...]
    shunned: tuple[Count, ...]  # pods whose anti-affinity excludes the shape
    even: tuple[_SpreadLimit, ...]
    own: int  # how many of them its own tasks change beyond the row that each of them is on

    def __bool__(self) -> bool:
        return bool(self.near or self.away or self.shunned or self.even)

    def each(self, kind: RuleKind) -> Iterator[tuple[tuple[Count, ...], _Rules]]:
        """The rules of a kind, each by itself, and the pods that it counts. Affinity is met by all terms together."""
        alone = _Rules((), self.sought, self.founder, (), (), (), 0)
        if kind is RuleKind.AFFINITY and self.near:
            yield self.near, replace(alone, near=self.near)
        elif kind is RuleKind.ANTI_AFFINITY:
            yield from (((count,), replace(alone, away=(count,))) for count in self.away)
        elif kind is RuleKind.OTHERS:
            yield from (((count,), replace(alone, shunned=(count,))) for count in self.shunned)
        elif kind is RuleKind.SPREAD:
            limits_by_count: dict[int, list[_SpreadLimit]] = {}
            for even in self.even:
                limits_by_count.setdefault(id(even.count), []).append(even)
            yield from (((limits[0].count,), replace(alone, even=tuple(limits))) for limits in limits_by_count.values())

    @property
    def counted(self) -> int:
        """How many counts say which rows are closed."""
        once = sum(count.tallies for count in (*self.near, *self.away, *self.shunned))
        return once + 3 * sum(even.count.tallies for even in self.even)


class PodRequirements:
    """Says which nodes the rules between pods keep from a shape at this moment.

    A rule whose answer no pod can change is static: one that selects no pod of the cluster, or whose label has the same
    value on all nodes that have it. The rows that static rules close are a mask, and filters do not move for them.
    """

    def __init__(self, view: CycleView, *, plugin: str, affinity: bool, spread: bool, by_name: bool = True) -> None:
        self._nodes = view.nodes
        self._ledger = view.ledger
        self._affinity = affinity
        self._spread = spread
        self._rules: dict[int, _Rules] = {}
        self._closed: dict[int, list[tuple[Ints, str]]] = {}  # by shape: labels that its static rules need
        self._amid = KeptOfLedger(view.ledger.moved, PodRequirements._of_shapes)
        self._shunning: dict[int, list[Count]] = {}  # by shape: those whose anti-affinity excludes it
        if not any(self._has_rules(shape) for shape in view.snapshot.shapes if shape.affinity or shape.spread):
            return
        number = view.reasons.number
        text = "did not satisfy the pod affinity"
        self._lonely = number(Reason("PodAffinityUnsatisfied", plugin, text))
        text = "had pods nearby which the pod anti-affinity excludes"
        self._conflict = number(Reason("PodAntiAffinityConflict", plugin, text))
        text = "had pods nearby whose anti-affinity excludes this one"
        self._unwelcome = number(Reason("ExistingPodAntiAffinity", plugin, text))
        text = "would exceed the allowed skew of the topology spread"
        self._uneven = number(Reason("TopologySpreadViolated", plugin, text))
        text = "lacked a label of the topology spread"
        self._off_map = number(Reason("TopologySpreadViolated", plugin, text))
        self._counts = PodCounts(view, by_name=by_name)
        shapes = placeable(view)
        if affinity:
            self._count_shunning(view.snapshot.shapes, {shape.number for shape in shapes})
        for shape in shapes:
            rules = self._rules_of(shape)
            if rules:
                self._rules[shape.number] = rules

    def object_statically(self, shape: Shape, why: Why) -> None:
        """Write into `why` the objection of static rules to the rows that they close, whichever pods are placed."""
        for place, rule in self._closed.get(shape.number, ()):
            why[place < 0] = self._lonely if rule == _NEAR else self._off_map

    def concerns(self, shape: Shape) -> bool:
        """Whether the shape has rules that are not static, or is excluded by anti-affinity of pods that are there."""
        return shape.number in self._rules

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The first objection per row, in the order affinity, anti-affinity, others' anti-affinity, spread."""
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        rules = self._rules.get(shape.number)
        if rules is None:
            return why
        self._ledger.steps.charge(_steps_of(rules.counted, span.stop - span.start))
        for even in rules.even:  # what is written later overrules, so the first objection comes last
            why[even.crowded(span)] = self._uneven
        for even in rules.even:
            why[even.count.place[span] < 0] = self._off_map
        for count in rules.shunned:
            why[count.at(span) > 0] = self._unwelcome
        for count in rules.away:
            why[count.at(span) > 0] = self._conflict
        if rules.near:
            is_first_of_gang = rules.founder and not any(count.values.any() for count in rules.near)
            for count in rules.near:
                why[count.place[span] < 0 if is_first_of_gang else count.at(span) <= 0] = self._lonely
        return why

    def own(self, shape: Shape) -> int:
        """How many rules tasks of the shape change for others of it, beyond the rows that they are on."""
        rules = self._rules.get(shape.number)
        return rules.own if rules is not None else 0

    def among(self, shapes: tuple[Shape, ...]) -> PodRules:
        """What placing tasks of these shapes changes for others of them, and the rows that no such task opens."""
        return self._amid.of(tuple(shape.number for shape in shapes), self, shapes)

    def _of_shapes(self, shapes: tuple[Shape, ...]) -> PodRules:
        bound = {shape.number: self._rules[shape.number] for shape in shapes if shape.number in self._rules}
        shape_numbers = frozenset(shape.number for shape in shapes)
        rules_by_language = (
            (written, self._of_gang(carriers, shape_numbers)) for written, carriers in self._each_written(bound)
        )
        return joined(replace(rules, parts=((written, rules),)) for written, rules in rules_by_language)

    def _of_gang(self, bound: Mapping[int, _Rules], gang_shapes: frozenset[int]) -> PodRules:
        self._ledger.steps.charge(_STATED)
        closed = {number: self._closed_now(rules, gang_shapes) for number, rules in bound.items()}
        lonely = {number: self._lonely_now(rules, gang_shapes) for number, rules in bound.items() if rules.near}
        records: list[PodRule] = [
            *_aparts(bound, gang_shapes),
            *_shunned(bound, gang_shapes),
            *_nears(bound, gang_shapes),
            *_evens(bound, gang_shapes),
        ]
        return PodRules(closed, tuple(records), lonely=lonely)

    def _each_written(self, bound: Mapping[int, _Rules]) -> Iterator[tuple[WrittenRule, dict[int, _Rules]]]:
        """Each rule by itself, with the shapes that have it. Those that count the same pods over a label are one."""
        carriers: dict[tuple[RuleKind, tuple[int, ...]], dict[int, _Rules]] = {}
        labels: dict[tuple[RuleKind, tuple[int, ...]], tuple[str, ...]] = {}
        for kind in RuleKind:
            for number, rules in bound.items():
                for counts, alone in rules.each(kind):
                    rule = kind, tuple(map(id, counts))
                    carriers.setdefault(rule, {})[number] = alone
                    labels[rule] = tuple(dict.fromkeys(self._counts.label(count.place) for count in counts))
        for rule, having in carriers.items():
            yield WrittenRule(rule[0], labels[rule], frozenset(having)), having

    def _lonely_now(self, rules: _Rules, gang_shapes: frozenset[int]) -> Bools:
        """The rows where none stands of the pods that a shape looks for, if no task of its gang is one."""
        lonely = np.zeros(len(self._nodes), dtype=bool)
        for count in rules.near:
            if not count.of(gang_shapes):
                lonely |= count.at(slice(None)) <= 0
        return lonely

    def _closed_now(self, rules: _Rules, gang_shapes: frozenset[int]) -> Bools:
        """The rows that a shape cannot use, whichever tasks of its gang are placed."""
        closed = np.zeros(len(self._nodes), dtype=bool)
        self._ledger.steps.charge(_steps_of(rules.counted, len(self._nodes)))
        for count in (*rules.away, *rules.shunned):
            closed |= count.at(slice(None)) > 0
        for count in rules.near:
            closed |= count.place < 0
        for even in rules.even:
            closed |= even.count.place < 0
            if not even.count.of(gang_shapes):
                closed |= even.crowded(slice(0, len(closed)))
        return closed

    def tie(self, shape: Shape) -> Tie | None:
        """Rows that the affinity of the shape takes for one place, while no pod that it looks for runs anywhere."""
        rules = self._rules.get(shape.number)
        if rules is None or not rules.near or any(count.values.any() for count in rules.near):
            return None
        labels = np.stack([count.place for count in rules.near])
        places = np.unique(labels, axis=1, return_inverse=True)[1].ravel()
        places[(labels < 0).any(axis=0)] = -1
        return Tie(places, frozenset(self._counts.shapes_matching(*rules.sought)))

    # -- putting the rules together

    def _has_rules(self, shape: Shape) -> bool:
        return bool(self._near_terms(shape) or self._away_terms(shape) or self._constraints(shape))

    def _near_terms(self, shape: Shape) -> tuple[PodAffinityTerm, ...]:
        return _required(shape.affinity.pod_affinity) if self._affinity and shape.affinity is not None else ()

    def _away_terms(self, shape: Shape) -> tuple[PodAffinityTerm, ...]:
        return _required(shape.affinity.pod_anti_affinity) if self._affinity and shape.affinity is not None else ()

    def _constraints(self, shape: Shape) -> tuple[TopologySpreadConstraint, ...]:
        return tuple(c for c in shape.spread if c.when_unsatisfiable == _HARD) if self._spread else ()

    def _count_shunning(self, shapes: tuple[Shape, ...], wanted_shapes: set[int]) -> None:
        """Count, for every anti-affinity term that means a shape to be placed, the pods that carry it."""
        labels_of_wanted = {label for number in wanted_shapes for label in shapes[number].labels.items()}
        terms = (
            (shape.number, affinity_pods(term, shape.namespace, shape.labels), term.topology_key, 1)
            for shape in shapes
            for term in self._away_terms(shape)
            if term.label_selector is None
            or term.label_selector.match_labels.items() <= labels_of_wanted  # or it means none
        )
        self._shunning = self._counts.carrying(terms, wanted_shapes)

    def _rules_of(self, shape: Shape) -> _Rules:
        """The rules of a shape that are not static; the rows that static ones close are noted."""
        near = self._near_terms(shape)
        meant = [affinity_pods(term, shape.namespace, shape.labels) for term in near]
        founder = all(s.matches(shape.namespace, shape.labels, shape.namespace_labels) for s in meant)
        if near and founder and self._one_place([term.topology_key for term in near]):
            self._close(shape, near[0].topology_key, _NEAR)
            near = ()
            meant = []
            founder = True
        away = [(affinity_pods(t, shape.namespace, shape.labels), t.topology_key) for t in self._away_terms(shape)]
        away = [(selector, key) for selector, key in away if self._counts.means_any(selector)]
        even, uneven = self._evens(shape)
        sought = (self._counts.matching(meant, term.topology_key) for term in near)
        return _Rules(
            near=tuple({id(count): count for count in sought}.values()),  # once, however often it is stated
            sought=tuple(meant),
            founder=founder,
            away=tuple(self._counts.matching((selector,), key) for selector, key in away),
            shunned=tuple(self._shunning.get(shape.number, ())),
            even=even,
            own=self._changed_by_own(shape, meant, away, uneven),
        )

    def _one_place(self, keys: list[str]) -> bool:
        """Whether all nodes with any of these labels have all of them, each with one value."""
        labelled = [self._counts.place(key) for key in keys]
        return all((place <= 0).all() and ((place < 0) == (labelled[0] < 0)).all() for place in labelled)

    def _close(self, shape: Shape, key: str, rule: str) -> None:
        place = self._counts.place(key)
        if (place < 0).any():
            self._closed.setdefault(shape.number, []).append((place, rule))

    def _changed_by_own(
        self,
        shape: Shape,
        near: list[PodSelector],
        away: list[tuple[PodSelector, str]],
        uneven: list[TopologySpreadConstraint],
    ) -> int:
        def itself(selector: PodSelector) -> bool:
            return selector.matches(shape.namespace, shape.labels, shape.namespace_labels)

        def wide(key: str) -> bool:
            places = self._counts.place(key)
            return bool((np.bincount(places[places >= 0]) > 1).any())

        rule_count = int(bool(near) and all(map(itself, near)))
        rule_count += sum(itself(selector) and wide(key) for selector, key in away)
        return rule_count + sum(itself(_counted_by_spread(c, shape)) for c in uneven)

    def _evens(self, shape: Shape) -> tuple[tuple[_SpreadLimit, ...], list[TopologySpreadConstraint]]:
        """The spread constraints of a shape that are not static, and what they were read from."""
        constraints = self._constraints(shape)
        labelled = self._counts.labelled(constraints) if constraints else np.zeros(0, dtype=bool)
        limits = []
        uneven = []
        for constraint in constraints:
            limit = self._even(shape, constraint, labelled)
            if limit is None:
                self._close(shape, constraint.topology_key, _EVEN)
            else:
                limits.append(limit)
                uneven.append(constraint)
        return tuple(limits), uneven

    def _even(self, shape: Shape, constraint: TopologySpreadConstraint, labelled: Bools) -> _SpreadLimit | None:
        """One spread constraint; None where it only asks for its label, as it counts no pod or has one place."""
        among = self._counts.among(shape, constraint, labelled)
        selector = spread_pods(constraint, shape.namespace, shape.labels)
        place = self._counts.place(constraint.topology_key)
        domains = np.flatnonzero(np.bincount(place[among]))
        number = len(domains)
        few = constraint.min_domains is not None and number < constraint.min_domains
        counted = self._counts.means_any(_counted_by_spread(constraint, shape))
        if constraint.max_skew > 0 and (not counted or (number <= 1 and not few)):
            return None
        itself = int(selector.matches(shape.namespace, shape.labels))
        count = self._counts.spread(shape, constraint, among)
        return _SpreadLimit(
            count=count,
            domains=slice(0, number) if number == len(count.values) - 1 else domains,
            number=number,
            few=few,
            allowed=constraint.max_skew - itself,
        )


def _required(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return side.required if side is not None else ()


# The same rules as records, for the shapes of one gang. Rules that count the same pods over the same label share a
# count, so shapes with the same rule are found by its count.


def _aparts(bound: Mapping[int, _Rules], gang_shapes: frozenset[int]) -> Iterator[PodRule]:
    """Anti-affinity of shapes to themselves and to each other."""
    counts = {id(count): count for rules in bound.values() for count in rules.away}
    for count in counts.values():
        met = count.of(gang_shapes)
        carriers = frozenset(number for number, rules in bound.items() if any(c is count for c in rules.away))
        alone = carriers & met
        if alone:
            yield AtMost(alone, count.place, 1)
        for shapes, shapes_apart in ((alone, met - alone), (carriers - met, met)):
            if shapes and shapes_apart:
                yield Apart(shapes, shapes_apart, count.place)


def _shunned(bound: Mapping[int, _Rules], gang_shapes: frozenset[int]) -> Iterator[PodRule]:
    """Anti-affinity of pods that only stand beside these tasks, and have no further rules of their own here."""
    for number, rules in bound.items():
        for count in rules.shunned:
            shapes_apart = count.of(gang_shapes - bound.keys() - {number})
            if shapes_apart:
                yield Apart(frozenset((number,)), shapes_apart, count.place)


def _nears(bound: Mapping[int, _Rules], gang_shapes: frozenset[int]) -> Iterator[PodRule]:
    """Affinity to pods some of which the gang itself has."""
    shapes_by_rules: dict[tuple[int, ...], list[int]] = {}
    for number, rules in bound.items():
        if rules.near and rules.near[0].of(gang_shapes):
            shapes_by_rules.setdefault(tuple(map(id, rules.near)), []).append(number)
    for numbers in shapes_by_rules.values():
        counts = bound[numbers[0]].near
        carriers = frozenset(numbers)
        met = counts[0].of(gang_shapes)
        themselves = carriers & met  # only these can be the first in a place
        nobody = not any(count.values.any() for count in counts)
        for shapes, by, may_found in ((themselves, met - themselves, nobody), (carriers - met, met, False)):
            for count in counts if shapes else ():
                counts_others = count.counts_beyond(gang_shapes)
                yield Near(shapes, by, count.place, count.values[:-1] > 0, may_found, counts_others)


def _evens(bound: Mapping[int, _Rules], gang_shapes: frozenset[int]) -> Iterator[PodRule]:
    """Topology spread that counts pods of the gang itself; with pods that have just been evicted, and without."""
    carriers_by_rule: dict[tuple[int, int, bool], list[tuple[int, _SpreadLimit]]] = {}
    for number, rules in bound.items():
        for even in rules.even:
            if even.count.of(gang_shapes):
                carriers_by_rule.setdefault((id(even.count), even.allowed, even.few), []).append((number, even))
    for carriers in carriers_by_rule.values():
        even = carriers[0][1]
        count = even.count
        domains = even.domains
        compared = np.arange(domains.stop) if isinstance(domains, slice) else domains
        counted = count.of(gang_shapes)
        among = count.place >= 0 if count.among is None else count.among
        every = frozenset(number for number, _ in carriers)
        for shapes, itself in ((every & counted, 1), (every - counted, 0)):
            for evicted in ((0, count.evicted) if count.evicted.any() else (0,)) if shapes else ():
                pods_by_place = (count.values + evicted)[:-1]
                above = even.allowed + itself
                counts_others = count.counts_beyond(gang_shapes)
                yield Even(shapes, counted, count.place, among, pods_by_place, compared, above, even.few, counts_others)


# Where a shape would rather stand for the sake of other pods: preferred (anti-)affinity and soft spread.
#
# Used by `nodeorder`. Scores run from 0 to 100 and follow the ledger's counts (`pod_counts`), so they move with every
# placement. They are scaled over all nodes that are neither cordoned nor unready (see `preferences`), and kept until
# the ledger moves.
#
# Preferred affinity counts both ways, as in Kubernetes: the shape's own terms against the pods that stand, and the
# preferred terms of those pods against the shape.


class _Spread(msgspec.Struct, frozen=True):
    """The soft constraints of one shape: their counts, each with a factor, and what skews add to every node."""

    counts: tuple[tuple[Count, float], ...]
    base: float
    rows: Bools  # those with every label; the others score 0


class PodPreferences:
    """Scores of preferred pod affinity and of soft spread, for the shapes that a cycle may place."""

    def __init__(self, view: CycleView, *, affinity: bool, spread: bool) -> None:
        self._nodes = view.nodes
        self._ledger = view.ledger
        self._liked: dict[int, list[tuple[Count, int]]] = {}
        self._spreads: dict[int, _Spread] = {}
        self._liking = KeptOfLedger(view.ledger.moved, PodPreferences._affinity_scores)
        self._spreading = KeptOfLedger(view.ledger.moved, PodPreferences._spread_scores)
        shapes = view.snapshot.shapes
        affinity = affinity and any(True for shape in shapes if shape.affinity is not None for _ in _wishes(shape))
        spread = spread and any(soft(shape) for shape in shapes if shape.spread)
        if affinity or spread:
            self._counts = PodCounts(view)
            self._liked = self._counts.liked() if affinity else {}
            for shape in placeable(view) if spread else ():
                if soft(shape):
                    self._spreads[shape.number] = self._spread(shape)

    @cached_property
    def _open(self) -> Bools:
        return open_rows(self._nodes)

    def likes(self, shape: Shape) -> bool:
        """Whether preferred affinity, its own or others', ranks nodes for the shape."""
        return shape.number in self._liked

    def spreads(self, shape: Shape) -> bool:
        """Whether soft spread constraints rank nodes for the shape."""
        return shape.number in self._spreads

    def affinity(self, shape: Shape, span: slice) -> Floats:
        """From 0 on the node that is liked least to 100 on the one that is liked most."""
        return self._liking.of(shape.number, self, shape)[span]

    def spread(self, shape: Shape, span: slice) -> Floats:
        """The fewer matching pods stand where a node is, the higher."""
        return self._spreading.of(shape.number, self, shape)[span]

    def _affinity_scores(self, shape: Shape) -> Floats:
        liked = self._liked[shape.number]
        self._ledger.steps.charge(_steps_of(len(liked), len(self._nodes)))
        by_place: dict[int, tuple[Ints, Ints]] = {}  # what all counts over one label say: there may be hundreds
        for count, weight in liked:
            place, values = by_place.get(id(count.place), (count.place, 0))
            by_place[id(place)] = place, values + weight * count.values
        total = np.zeros(len(self._nodes))
        for place, values in by_place.values():
            total += values[place]
        scaled = total[self._open]
        low = scaled.min(initial=np.inf)
        high = scaled.max(initial=-np.inf)
        return (total - low) * (100.0 / (high - low)) if high > low else np.zeros(len(self._nodes))

    def _spread_scores(self, shape: Shape) -> Floats:
        spread = self._spreads[shape.number]
        self._ledger.steps.charge(_steps_of(len(spread.counts), len(self._nodes)))
        total = np.full(len(self._nodes), spread.base)
        for count, factor in spread.counts:
            total += factor * count.at(slice(None))
        scaled = total[self._open & spread.rows]
        low = scaled.min(initial=np.inf)
        high = scaled.max(initial=0.0)
        score = (high + low - total) * (100.0 / high) if high > 0 else np.full(len(self._nodes), 100.0)
        score[~spread.rows] = 0.0
        return score

    # -- registering the counts

    def _spread(self, shape: Shape) -> _Spread:
        constraints = soft(shape)
        rows = self._counts.labelled(constraints)
        return _Spread(
            counts=tuple(self._factor(shape, constraint, rows) for constraint in constraints),
            base=float(sum(constraint.max_skew - 1 for constraint in constraints)),
            rows=rows,
        )

    def _factor(self, shape: Shape, constraint: TopologySpreadConstraint, rows: Bools) -> tuple[Count, float]:
        """The count, and Kubernetes' factor that makes labels with few values and with many comparable."""
        among = self._counts.among(shape, constraint, rows)
        count = self._counts.spread(shape, constraint, among)
        size = np.count_nonzero(np.bincount(count.place[among & self._open]))  # np.unique sorts, for every shape
        return count, float(np.log(size + 2))


def _wishes(shape: Shape) -> Iterator[tuple[PodSelector, str, int]]:
    """The preferred terms of a shape: which pods, how near, and how much, negative for anti-affinity."""
    if shape.affinity is None:
        return
    for side, sign in ((shape.affinity.pod_affinity, 1), (shape.affinity.pod_anti_affinity, -1)):
        for wish in side.preferred if side is not None else ():
            term: PodAffinityTerm = wish.pod_affinity_term
            if wish.counted:
                selector = affinity_pods(term, shape.namespace, shape.labels)
                yield selector, term.topology_key, sign * wish.counted


def _needs(shape: Shape, weight: int) -> Iterator[tuple[PodSelector, str, int]]:
    """The required affinity of a shape, as if it were preferred."""
    for term in _required(shape.affinity.pod_affinity) if shape.affinity is not None and weight > 0 else ():
        yield affinity_pods(term, shape.namespace, shape.labels), term.topology_key, weight
