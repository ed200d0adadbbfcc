"""Rules between pods: required affinity and anti-affinity in both directions, and topology spread.

Used by `predicates`. Answers change as tasks are placed, so every rule reads counts that the ledger keeps
(`pod_counts`). The rules of a shape are put together once, while the plugin is constructed.

As in Kubernetes: affinity looks for pods that match all its terms at once, and a pod that matches its own affinity
may be the first where no such pod stands anywhere; anti-affinity does not bar a node without the topology label,
affinity and spread do. Spread counts per value of the label over the nodes that carry every label of the shape's
constraints and that the inclusion policies let in, and leaves out pods on their way out.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.api.core import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Bools, Ints, Why
from tierwise.model.pod_terms import PodSelector, affinity_pods, spread_pods
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape
from tierwise.plugins.node_terms import eligible
from tierwise.plugins.pod_counts import Count, PodCounts, counted_by_spread, placeable

__all__ = ["PodRules"]

_HARD = "DoNotSchedule"


class _Even(msgspec.Struct, frozen=True):
    """One spread constraint of a shape."""

    count: Count
    domains: Ints | slice  # the label values that are counted
    number: int  # of these
    few: bool  # fewer than the constraint's minimum: the emptiest counts as empty
    allowed: int  # how far above the emptiest a value may stand before one more task

    def crowded(self, span: slice) -> Bools:
        lowest = 0
        if self.number and not self.few:
            lowest = int(self.count.values[self.domains].min())
        return self.count.at(span) > self.allowed + lowest


class _Rules(msgspec.Struct, frozen=True):
    """What binds one shape."""

    near: tuple[Count, ...]
    founder: bool  # matches its own affinity
    away: tuple[Count, ...]
    shunned: tuple[Count, ...]  # pods whose anti-affinity excludes the shape
    even: tuple[_Even, ...]

    def __bool__(self) -> bool:
        return bool(self.near or self.away or self.shunned or self.even)


class PodRules:
    """Says which nodes the rules between pods keep from a shape at this moment."""

    def __init__(self, view: CycleView, *, plugin: str, affinity: bool, spread: bool, by_name: bool = True) -> None:
        self._nodes = view.nodes
        self._affinity = affinity
        self._spread = spread
        number = view.reasons.number
        text = "did not satisfy the pod affinity"
        self._lonely = number(Reason("PodAffinityUnsatisfied", plugin, text))
        text = "had pods nearby which the pod anti-affinity excludes"
        self._conflict = number(Reason("PodAntiAffinityConflict", plugin, text, curable=True))
        text = "had pods nearby whose anti-affinity excludes this one"
        self._unwelcome = number(Reason("ExistingPodAntiAffinity", plugin, text, curable=True))
        text = "would exceed the allowed skew of the topology spread"
        self._uneven = number(Reason("TopologySpreadViolated", plugin, text, curable=True))
        text = "lacked a label of the topology spread"
        self._off_map = number(Reason("TopologySpreadViolated", plugin, text))
        self._rules: dict[int, _Rules] = {}
        self._shunning: dict[int, list[Count]] = {}
        if not any(self._has_rules(shape) for shape in view.snapshot.shapes):
            return
        self._counts = PodCounts(view, by_name=by_name)
        shapes = placeable(view)
        if affinity:
            self._count_shunning(view.snapshot.shapes, {shape.number for shape in shapes})
        for shape in shapes:
            rules = self._rules_of(shape)
            if rules:
                self._rules[shape.number] = rules

    def concerns(self, shape: Shape) -> bool:
        """Whether the shape has rules, or a pod that stands or may be placed has anti-affinity against it."""
        return shape.number in self._rules

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The first objection per row, in the order affinity, anti-affinity, others' anti-affinity, spread."""
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        rules = self._rules.get(shape.number)
        if rules is None:
            return why
        for even in rules.even:  # what is written later overrules, so the first objection comes last
            why[even.crowded(span)] = self._uneven
        for even in rules.even:
            why[even.count.place[span] < 0] = self._off_map
        for count in rules.shunned:
            why[count.at(span) > 0] = self._unwelcome
        for count in rules.away:
            why[count.at(span) > 0] = self._conflict
        if rules.near:
            first = rules.founder and not any(count.values.any() for count in rules.near)
            for count in rules.near:
                why[count.place[span] < 0 if first else count.at(span) <= 0] = self._lonely
        return why

    # -- putting the rules together

    def _has_rules(self, shape: Shape) -> bool:
        return bool(self._near_terms(shape) or self._away_terms(shape) or self._constraints(shape))

    def _near_terms(self, shape: Shape) -> tuple[PodAffinityTerm, ...]:
        return _required(shape.affinity.pod_affinity) if self._affinity and shape.affinity is not None else ()

    def _away_terms(self, shape: Shape) -> tuple[PodAffinityTerm, ...]:
        return _required(shape.affinity.pod_anti_affinity) if self._affinity and shape.affinity is not None else ()

    def _constraints(self, shape: Shape) -> tuple[TopologySpreadConstraint, ...]:
        return tuple(c for c in shape.spread if c.when_unsatisfiable == _HARD) if self._spread else ()

    def _count_shunning(self, shapes: tuple[Shape, ...], wanted: set[int]) -> None:
        """Count, for every anti-affinity term that means a shape to be placed, the pods that carry it."""
        carriers: dict[tuple[PodSelector, str], dict[int, int]] = {}
        for shape in shapes:
            for term in self._away_terms(shape):
                what = (affinity_pods(term, shape.namespace, shape.labels), term.topology_key)
                carriers.setdefault(what, {})[shape.number] = 1
        for (selector, key), weights in carriers.items():
            met = wanted.intersection(self._counts.shapes_matching(selector))
            if met:
                count = self._counts.carrying(weights, key)
                for number in met:
                    self._shunning.setdefault(number, []).append(count)

    def _rules_of(self, shape: Shape) -> _Rules:
        near = self._near_terms(shape)
        meant = [affinity_pods(term, shape.namespace, shape.labels) for term in near]
        away = [(affinity_pods(t, shape.namespace, shape.labels), t.topology_key) for t in self._away_terms(shape)]
        return _Rules(
            near=tuple(self._counts.matching(meant, term.topology_key) for term in near),
            founder=all(s.matches(shape.namespace, shape.labels, shape.namespace_labels) for s in meant),
            away=tuple(self._counts.matching((selector,), key) for selector, key in away),
            shunned=tuple(self._shunning.get(shape.number, ())),
            even=self._evens(shape),
        )

    def _evens(self, shape: Shape) -> tuple[_Even, ...]:
        constraints = self._constraints(shape)
        if not constraints:
            return ()
        labelled = np.ones(len(self._nodes), dtype=bool)
        for constraint in constraints:
            labelled &= self._counts.place(constraint.topology_key) >= 0
        return tuple(self._even(shape, constraint, labelled) for constraint in constraints)

    def _even(self, shape: Shape, constraint: TopologySpreadConstraint, labelled: Bools) -> _Even:
        honours_affinity = constraint.node_affinity_policy != "Ignore"
        honours_taints = constraint.node_taints_policy == "Honor"
        among = labelled & eligible(self._nodes, shape, affinity=honours_affinity, taints=honours_taints)
        selector = spread_pods(constraint, shape.namespace, shape.labels)
        counted = counted_by_spread(constraint, shape)
        count = self._counts.matching((counted,), constraint.topology_key, among=among, leaving=False)
        domains = np.flatnonzero(np.bincount(count.place[among], minlength=len(count.values)))
        number = len(domains)
        itself = int(selector.matches(shape.namespace, shape.labels))
        return _Even(
            count=count,
            domains=slice(0, number) if number == len(count.values) - 1 else domains,
            number=number,
            few=constraint.min_domains is not None and number < constraint.min_domains,
            allowed=constraint.max_skew - itself,
        )


def _required(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return side.required if side is not None else ()
