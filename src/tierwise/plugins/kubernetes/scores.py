"""The score plugins of Kubernetes' scheduler 1.36, each under its own name, as whole numbers from 0 to 100.

A KubeSchedulerConfiguration chooses them (`config.kube`); Volcano's `nodeorder` has the same ideas without rounding,
and scales that do not depend on the pod. Here scales are taken over the nodes that fit, as Kubernetes takes them over
the nodes that passed its filters, and numbers are cut to whole ones where Kubernetes does so. Pipelined tasks count as
present.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.core import PreferredNodeTerm, TopologySpreadConstraint
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, ScoreEffect, Scorer
from tierwise.framework.ledger import Tally
from tierwise.framework.node_scores import ComparedScores, OwnScores
from tierwise.model.arrays import Bools, Floats, Ints, Rows, distinct, length
from tierwise.model.job import Shape
from tierwise.plugins.kubernetes import node_affinity
from tierwise.plugins.kubernetes.pod_affinity import Count, PodCounts, placeable, soft

__all__ = [
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinityScore",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
]

_HOSTNAME = "kubernetes.io/hostname"
_UNCOUNTED = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that are scored even where a pod does not ask for them; all others only where it does."""


class _Weighed(msgspec.Struct, frozen=True):
    """A resource that is scored."""

    index: int
    weight: int
    always: bool  # also where a pod does not ask for it


def _weighed(raw: object, view: CycleView) -> tuple[_Weighed, ...]:
    """The resources that arguments list, with weights of 1 where none is given; those that no node has are left out."""
    listed = (
        raw if isinstance(raw, Sequence) and raw and not isinstance(raw, str) else ({"name": "cpu"}, {"name": "memory"})
    )
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    return tuple(
        _Weighed(view.axis.index[str(entry["name"])], int(entry.get("weight") or 1), str(entry["name"]) in _UNCOUNTED)
        for entry in entries
        if str(entry.get("name")) in view.axis.index
    )


class _Load:
    """What nodes hold and what they have, resource by resource."""

    def __init__(self, view: CycleView, resources: Sequence[_Weighed], *, guessed: bool) -> None:
        self._ledger = view.ledger
        self._allocatable = view.nodes.allocatable
        self._guessed = guessed
        self._guesses: dict[int, Ints] = {}
        if guessed:
            for resource in resources:
                if resource.index < 2 and any(shape.unasked[resource.index] for shape in view.snapshot.shapes):
                    self._guesses[resource.index] = self._tally(view, resource.index)

    def _tally(self, view: CycleView, resource: int) -> Ints:
        """What Kubernetes takes pods to use without having asked for it, node by node."""
        rows = len(view.nodes)
        values = np.zeros(rows, dtype=np.int64)
        guesses = {shape.number: shape.unasked[resource] for shape in view.snapshot.shapes if shape.unasked[resource]}
        view.ledger.tally(Tally(values, np.arange(rows), guesses))
        return values

    def asked(self, shape: Shape, resource: int) -> int:
        """What one more task of a shape is taken to use."""
        if self._guessed and resource < 2:
            return shape.guessed[resource]
        return int(shape.request[resource])

    def used(self, resource: int, rows: Rows) -> Floats:
        """What the tasks of each node are taken to use."""
        used = (self._allocatable[resource, rows] - self._ledger.idle[resource, rows]).astype(np.float64)
        if self._ledger.any_releasing:
            used += self._ledger.pipelined[resource, rows]
        if resource in self._guesses:
            used += self._guesses[resource][rows]
        return used

    def has(self, resource: int, rows: Rows) -> Floats:
        return self._allocatable[resource, rows].astype(np.float64)


@takes_part(Scorer, scores_by_shape=True)
class NodeResourcesFit(OwnScores):
    """Least allocated, most allocated, or a broken line over how much of a node is used."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        strategy = arguments.get("scoringStrategy")
        strategy_arguments: Mapping[str, object] = strategy if isinstance(strategy, Mapping) else {}
        self._kind = str(strategy_arguments.get("type") or "LeastAllocated")
        self._resources = _weighed(strategy_arguments.get("resources"), view)
        ratio = strategy_arguments.get("requestedToCapacityRatio")
        self._line = _line(ratio.get("shape") if isinstance(ratio, Mapping) else None)
        self._load = _Load(view, self._resources, guessed=True)

    def effect(self, ask: Ask) -> ScoreEffect:
        if self._kind == "MostAllocated":
            return ScoreEffect.ROW
        return ScoreEffect.FREE

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        """The weighted mean over the resources that a node has, rounded down."""
        total = np.zeros(length(rows))
        weights = np.zeros(length(rows))
        for resource in self._resources:
            requested = self._load.asked(ask.shape, resource.index)
            if not requested and not resource.always:
                continue
            has = self._load.has(resource.index, rows)
            share = self._share(self._load.used(resource.index, rows) + requested, has)
            counts = (has > 0) & (share > 0) if self._kind == "RequestedToCapacityRatio" else has > 0
            total += np.where(counts, share * resource.weight, 0.0)
            weights += np.where(counts, resource.weight, 0)
        mean = total / np.maximum(weights, 1)
        if self._kind == "RequestedToCapacityRatio":
            return _rounded(mean)
        return np.floor(mean)

    def _share(self, used: Floats, has: Floats) -> Floats:
        """The score of one resource; nodes that have none of it are passed over by the caller."""
        divisor = np.maximum(has, 1.0)
        if self._kind == "LeastAllocated":
            return np.floor(np.maximum(has - used, 0.0) * 100.0 / divisor)
        share = np.floor(np.minimum(used, has) * 100.0 / divisor)
        if self._kind == "RequestedToCapacityRatio":
            return self._on_line(share)
        return share

    def _on_line(self, share: Floats) -> Floats:
        """The broken line at whole per cents, in whole numbers as Kubernetes divides them."""
        xs, ys = self._line
        result = np.full(len(share), float(ys[-1]))
        for i in range(len(xs) - 1, 0, -1):
            step = (ys[i] - ys[i - 1]) * (share - xs[i - 1]) / (xs[i] - xs[i - 1])
            result = np.where(share <= xs[i], ys[i - 1] + np.trunc(step), result)
        return np.where(share <= xs[0], float(ys[0]), result)


def _line(raw: object) -> tuple[list[int], list[int]]:
    """Points of a shape by utilization, with scores from 0 to 100."""
    points = (
        raw if isinstance(raw, Sequence) and raw and not isinstance(raw, str) else ({"utilization": 0, "score": 0},)
    )
    found = []
    for p in points:
        if isinstance(p, Mapping):
            found.append((int(p.get("utilization") or 0), 10 * int(p.get("score") or 0)))
    return [x for x, _ in found], [y for _, y in found]


def _rounded(values: Floats) -> Floats:
    """To the nearest whole number, halves up: no score is negative."""
    rounded: Floats = np.floor(values + 0.5)
    return rounded


@takes_part(Scorer, scores_by_shape=True)
class NodeResourcesBalancedAllocation(OwnScores):
    """How much more or less evenly the resources of a node are used with the pod than without it."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._resources = _weighed(arguments.get("resources"), view)
        self._load = _Load(view, self._resources, guessed=False)

    def effect(self, ask: Ask) -> ScoreEffect:
        if self._asks(ask.shape):
            return ScoreEffect.FREE
        return ScoreEffect.FIXED

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        """75 where nothing changes, up to 100 where use becomes more even; 0 for pods that ask for nothing of it."""
        if not self._asks(ask.shape):
            return np.zeros(length(rows))
        before = []
        after = []
        has = []
        for resource in self._resources:
            requested = int(ask.shape.request[resource.index])
            if requested or resource.always:
                has.append(self._load.has(resource.index, rows))
                before.append(self._load.used(resource.index, rows))
                after.append(before[-1] + requested)
        amounts = np.array(has)
        change = _evenness(np.array(after), amounts) - _evenness(np.array(before), amounts)
        score: Floats = 50.0 + np.floor((50.0 + change) / 2.0)
        return score

    def _asks(self, shape: Shape) -> bool:
        return any(shape.request[resource.index] for resource in self._resources)


def _evenness(used: Floats, has: Floats) -> Floats:
    """100 less the standard deviation of the used shares of what a node has, in whole per cents."""
    has_any = has > 0
    number = has_any.sum(axis=0)
    share = np.where(has_any, np.minimum(used / np.maximum(has, 1.0), 1.0), 0.0)
    mean = np.add.reduce(share, axis=0) / np.maximum(number, 1)
    spread = np.sqrt(np.add.reduce(np.where(has_any, (share - mean) ** 2, 0.0), axis=0) / np.maximum(number, 1))
    # Two shares differ from their mean by half of how far they are apart, and rounding must not tell otherwise.
    apart = np.max(share, axis=0, where=has_any, initial=0.0) - np.min(share, axis=0, where=has_any, initial=1.0)
    deviation = np.where(number == 2, apart / 2.0, np.where(number > 2, spread, 0.0))
    evenness: Floats = np.trunc((1.0 - deviation) * 100.0)
    return evenness


@takes_part(Scorer, scores_by_shape=True)
class NodeAffinityScore(ComparedScores):
    """The weights of preferred terms that a node matches, against the best node's; `addedAffinity` counts for all."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._added = node_affinity.added_affinity(arguments).preferred
        self._known: dict[tuple[PreferredNodeTerm, ...], Ints] = {}

    def _speaks(self, ask: Ask) -> bool:
        return bool(self._terms(ask.shape))

    def _terms(self, shape: Shape) -> tuple[PreferredNodeTerm, ...]:
        own_affinity = shape.affinity.node_affinity if shape.affinity is not None else None
        if own_affinity is not None:
            return (*self._added, *own_affinity.preferred)
        return self._added

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        terms = self._terms(ask.shape)
        if terms not in self._known:
            self._known[terms] = node_affinity.preferred_weights(self._nodes, terms)
        return _against_most(self._known[terms][span], fits)


def _against_most(counts: Ints, fits: Bools) -> Floats:
    """Per cents of the largest count among nodes that fit, rounded down; 0 where nothing counts."""
    largest = int(counts.max(initial=0, where=fits))
    if largest > 0:
        return np.minimum(counts * 100 // largest, 100).astype(np.float64)
    return np.zeros(len(counts))


@takes_part(Scorer, scores_by_shape=True)
class TaintToleration(ComparedScores):
    """100 less the share of PreferNoSchedule taints that are not tolerated, against the worst node's."""

    _otherwise = 100.0

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._soft = node_affinity.any_soft(view.nodes)

    def _speaks(self, ask: Ask) -> bool:
        return self._soft

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        return 100.0 - _against_most(node_affinity.soft_taints(self._nodes, ask.shape.tolerations)[span], fits)


@takes_part(Scorer, scores_by_shape=True)
class ImageLocality(OwnScores):
    """How much of a pod's images a node has already, images that many nodes have counting more."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._nodes = view.nodes
        self._known: dict[tuple[str, ...], Floats] = {}

    def effect(self, ask: Ask) -> ScoreEffect:
        return ScoreEffect.FIXED

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        images = ask.shape.images
        if not self._nodes.images or not images:
            return np.zeros(length(rows))
        if images not in self._known:
            bytes_present, max_bytes = node_affinity.image_bytes(self._nodes, images, whole_bytes=True)
            self._known[images] = np.floor(100.0 * bytes_present / max_bytes)
        return self._known[images][rows]


@takes_part(Scorer, scores_by_shape=True)
class InterPodAffinity(ComparedScores):
    """Nodes near pods that are preferred, and away from those that are not, in both directions.

    The required affinity of pods that stand counts with `hardPodAffinityWeight`; with
    `ignorePreferredTermsOfExistingPods` a pod without preferences of its own is not scored at all.
    """

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        weight = arguments.get("hardPodAffinityWeight")
        hard = weight if isinstance(weight, int) else 1
        ignores = arguments.get("ignorePreferredTermsOfExistingPods") is True
        self._liked: dict[int, list[tuple[Count, int]]] = {}
        if any(shape.affinity is not None for shape in view.snapshot.shapes):
            self._liked = PodCounts(view, by_name=False).liked(hard=hard, ignores=ignores)

    def _speaks(self, ask: Ask) -> bool:
        return ask.shape.number in self._liked

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """From 0 on the node that is liked least to 100 on the one that is liked most, rounded down."""
        total = np.zeros(span.stop - span.start, dtype=np.int64)
        for count, worth in self._liked[ask.shape.number]:
            total += worth * count.at(span)
        totals_of_fitting = total[fits]
        if not len(totals_of_fitting) or totals_of_fitting.min() == totals_of_fitting.max():
            return np.zeros(len(total))
        low = int(totals_of_fitting.min())
        high = int(totals_of_fitting.max())
        return np.clip(np.trunc(100.0 * ((total - low) / (high - low))), 0.0, 100.0)


class _Soft(msgspec.Struct, frozen=True):
    """One soft constraint of a shape."""

    count: Count
    skew: int
    per_node: bool  # counted node by node, whatever policies say


@takes_part(Scorer, scores_by_shape=True)
class PodTopologySpread(ComparedScores):
    """The fewer pods a soft constraint counts where a node is, the higher."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._softs: dict[int, tuple[tuple[_Soft, ...], Bools]] = {}
        shapes = [shape for shape in placeable(view) if soft(shape)]
        if shapes:
            counts = PodCounts(view, by_name=False)
            for shape in shapes:
                rows = counts.labelled(soft(shape))
                self._softs[shape.number] = (
                    tuple(self._one(counts, shape, constraint, rows) for constraint in soft(shape)),
                    rows,
                )

    def _one(self, counts: PodCounts, shape: Shape, constraint: TopologySpreadConstraint, rows: Bools) -> _Soft:
        per_node = constraint.topology_key == _HOSTNAME
        among = counts.among(shape, constraint, rows) if not per_node else None
        return _Soft(counts.spread(shape, constraint, among), constraint.max_skew, per_node)

    def _speaks(self, ask: Ask) -> bool:
        return ask.shape.number in self._softs

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        softs, labelled = self._softs[ask.shape.number]
        rows = labelled[span]
        scaled = rows & fits
        total = np.zeros(len(rows))
        for soft_limit in softs:
            places = soft_limit.count.place[span][scaled]
            size = len(places) if soft_limit.per_node else len(distinct(places))
            total += soft_limit.count.at(span) * np.log(size + 2.0) + (soft_limit.skew - 1)
        total = _rounded(total)
        high = total.max(initial=0.0, where=scaled)
        low = total.min(initial=np.inf, where=scaled)
        if high <= 0:
            return np.where(rows, 100.0, 0.0)
        return np.where(rows, np.maximum(np.floor(100.0 * (high + low - total) / high), 0.0), 0.0)
