"""Counts of pods per value of a node label, for the rules between pods.

A count is a ledger tally, so it follows every placement of the cycle and every rewind. One tally serves all rules
that count the same pods over the same label. Tallies start from what stood at the beginning of the cycle: whoever
needs one asks for it while the plugins are constructed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import TopologySpreadConstraint
from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Tally
from tierwise.model.arrays import Bools, Ints
from tierwise.model.pod_terms import PodSelector, spread_pods
from tierwise.model.shape import Shape
from tierwise.plugins.node_terms import places

__all__ = ["Count", "PodCounts", "counted_by_spread", "placeable"]


class Count(msgspec.Struct, frozen=True):
    """Pods per label value; `place` says which value a row has, -1 for none."""

    values: Ints  # and one entry more, always 0: what index -1 finds
    place: Ints

    def at(self, span: slice) -> Ints:
        """How many pods stand where each row of the span is; 0 for rows without the label."""
        return self.values[self.place[span]]


def placeable(view: CycleView) -> tuple[Shape, ...]:
    """The shapes that this cycle may place: all but those whose every task stands already."""
    pending = {part.shape.number for job in view.jobs for part in job.parts()}
    pending.update(part.shape.number for job in view.jobs for _, part in job.effortless)
    held = view.ledger.held
    return tuple(s for s in view.snapshot.shapes if s.number in pending or s.number not in held)


def counted_by_spread(constraint: TopologySpreadConstraint, shape: Shape) -> PodSelector:
    """The pods that a spread constraint of a shape counts: an empty selector counts nobody, as in Kubernetes."""
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

    def place(self, key: str) -> Ints:
        """Per row, which value of a topology key it has; -1 for none."""
        return self._place(key)[0]

    def matching(
        self, selectors: Iterable[PodSelector], key: str, *, among: Bools | None = None, leaving: bool = True
    ) -> Count:
        """The pods that match every selector, on the rows `among` only; without `leaving`, none on its way out."""
        wanted = frozenset(selectors)
        what = (wanted, key, b"" if among is None else np.packbits(among).tobytes(), leaving)
        found = self._matching.get(what)
        if found is None:
            weights = self._classes.weights(wanted)
            found = self._matching[what] = self._register(weights, key, among=among, leaving=leaving)
        return found

    def carrying(self, weights: Mapping[int, int], key: str) -> Count:
        """The sum of `weights`, given by shape number, over the pods that stand there."""
        listed = [0] * len(self._view.snapshot.shapes)
        for number, weight in weights.items():
            listed[number] = weight
        return self._register(listed, key, among=None, leaving=True)

    def shapes_matching(self, selector: PodSelector) -> list[int]:
        """The numbers of the shapes whose tasks the selector means."""
        return self._classes.shapes(selector)

    def _place(self, key: str) -> tuple[Ints, int]:
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = places(self._view.nodes, key, by_name=self._by_name)
        return found

    def _register(self, weights: list[int], key: str, *, among: Bools | None, leaving: bool) -> Count:
        place, size = self._place(key)
        values = np.zeros(size + 1, dtype=np.int64)
        bucket = place if among is None else np.where(among, place, -1)
        if not leaving:
            self._leave_out(values, bucket, weights)
        tally = Tally(values, bucket, lambda shape: weights[shape.number])
        self._view.ledger.tally(tally, self._view.snapshot.shapes)
        return Count(values, place)

    def _leave_out(self, values: Ints, bucket: Ints, weights: list[int]) -> None:
        """Subtract beforehand what the ledger is about to add for pods that are on their way out."""
        for number, rows in self._view.ledger.leaving.items():
            buckets = bucket[rows]
            np.subtract.at(values, buckets[buckets >= 0], weights[number])


class _Classes:
    """Shapes by namespace and labels: a selector is asked once per class, and only where its labels occur."""

    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes = shapes
        self._members: list[list[int]] = []
        self._by_label: dict[tuple[str, str], list[int]] = {}
        numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        for shape in shapes:
            labels = tuple(sorted(shape.labels.items()))
            number = numbers.setdefault((shape.namespace, labels), len(numbers))
            if number == len(self._members):
                self._members.append([])
                for label in labels:
                    self._by_label.setdefault(label, []).append(number)
            self._members[number].append(shape.number)

    def shapes(self, selector: PodSelector) -> list[int]:
        return [number for members in self._hits(selector) for number in members]

    def weights(self, selectors: frozenset[PodSelector]) -> list[int]:
        """By shape number, 1 where all selectors match."""
        common = set(range(len(self._shapes)))
        for selector in selectors:
            common.intersection_update(self.shapes(selector))
        return [int(number in common) for number in range(len(self._shapes))]

    def _hits(self, selector: PodSelector) -> list[list[int]]:
        anchor = selector.anchor()
        if anchor is None:
            candidates: Iterable[int] = range(len(self._members))
        else:
            candidates = [c for value in anchor.values for c in self._by_label.get((anchor.key, value), ())]
        return [members for members in map(self._members.__getitem__, candidates) if self._matches(selector, members)]

    def _matches(self, selector: PodSelector, members: list[int]) -> bool:
        sample = self._shapes[members[0]]
        return selector.matches(sample.namespace, sample.labels, sample.namespace_labels)
