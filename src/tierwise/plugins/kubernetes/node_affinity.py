"""What node selectors, node affinity and tolerations mean for all nodes at once.

Shared by the plugins that filter and rank nodes. Each question is answered per distinct label value or taint set
and spread over the rows; nothing here looks at a node by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np

from tierwise.api import core
from tierwise.api.selector import holds, stays_for, tolerates
from tierwise.framework.extension import Arguments
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Shape
from tierwise.model.node import LabelColumn, LabelTable, NodeTable

__all__ = [
    "Preferences",
    "added_affinity",
    "any_soft",
    "eligible",
    "image_bytes",
    "in_any_term",
    "open_rows",
    "places",
    "preferred_weights",
    "selected",
    "soft_taints",
    "tolerates",
    "untolerated",
]


KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})
"""The effects of a taint that bar new pods."""

_HOSTNAME = "kubernetes.io/hostname"
_FEW = 4


def added_affinity(arguments: Arguments) -> core.NodeAffinity:
    """What a configuration adds to the node affinity of every pod."""
    return msgspec.convert(arguments.get("addedAffinity") or {}, core.NodeAffinity)


def selected(nodes: NodeTable, selector: Mapping[str, str]) -> Bools:
    """Which nodes have all these labels."""
    mask = np.ones(len(nodes), dtype=bool)
    for key, value in selector.items():
        mask &= _has_any(nodes.labels.column(key), (value,))
    return mask


def in_any_term(nodes: NodeTable, selector: core.NodeSelector) -> Bools:
    """Which nodes match one of the alternatives; none where there are no alternatives."""
    mask = np.zeros(len(nodes), dtype=bool)
    for term in selector.node_selector_terms:
        mask |= in_term(nodes, term)
    return mask


def in_term(nodes: NodeTable, term: core.NodeSelectorTerm) -> Bools:
    """Which nodes meet all conditions of a term; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(nodes), dtype=bool)
    mask = np.ones(len(nodes), dtype=bool)
    for requirement in term.match_expressions:
        mask &= _meets(nodes.labels.column(requirement.key), requirement)
    for requirement in term.match_fields:
        mask &= _is_named(nodes, requirement)
    return mask


def _meets(column: LabelColumn, requirement: core.Requirement) -> Bools:
    values = requirement.values
    match requirement.operator:
        case "In":
            return _has_any(column, values)
        case "NotIn" if values:
            return ~_has_any(column, values)
        case "Exists" if not values:
            return column.codes >= 0
        case "DoesNotExist" if not values:
            return column.codes < 0
        case _:
            return column.where([holds(requirement, value) for value in column.values], missing=False)


def _has_any(column: LabelColumn, values: tuple[str, ...]) -> Bools:
    if len(values) > _FEW:
        value_set = frozenset(values)
        return column.where([value in value_set for value in column.values], missing=False)
    mask = np.zeros(len(column.codes), dtype=bool)
    for value in values:
        code = column.index.get(value)
        if code is not None:
            mask |= column.codes == code
    return mask


def _is_named(nodes: NodeTable, requirement: core.Requirement) -> Bools:
    """A condition on a field: the API knows only the node's name, In or NotIn, and one value."""
    mask = np.zeros(len(nodes), dtype=bool)
    is_supported = requirement.key == LabelTable.NAME and requirement.operator in ("In", "NotIn")
    if not is_supported or len(requirement.values) != 1:
        return mask
    row = nodes.row.get(requirement.values[0])
    if row is not None:
        mask[row] = True
    return mask if requirement.operator == "In" else ~mask


def untolerated(taints: tuple[core.Taint, ...], tolerations: tuple[core.Toleration, ...]) -> core.Taint | None:
    """The first taint that bars a pod with these tolerations; None where none does."""
    return next((t for t in taints if t.effect in KEEPS_OFF and _bars(t, tolerations)), None)


def _bars(taint: core.Taint, tolerations: tuple[core.Toleration, ...]) -> bool:
    """Whether a taint keeps a pod off, or would drive it away as soon as it has come."""
    if taint.effect == "NoExecute":
        return stays_for(tolerations, taint) <= 0
    return not tolerates(tolerations, taint)


def set_apart(nodes: NodeTable, tolerations: tuple[core.Toleration, ...]) -> Bools:
    """Which nodes' taints bar a pod with these tolerations."""
    per_set = np.array([untolerated(taints, tolerations) is not None for taints in nodes.taints], dtype=bool)
    return per_set[nodes.taint_set]


def eligible(nodes: NodeTable, shape: Shape, *, affinity: bool, taints: bool) -> Bools:
    """Which nodes a spread constraint of the shape counts on, as its two policies say."""
    mask = np.ones(len(nodes), dtype=bool)
    if affinity:
        mask &= selected(nodes, shape.node_selector)
        node_affinity = shape.affinity.node_affinity if shape.affinity is not None else None
        if node_affinity is not None and node_affinity.required is not None:
            mask &= in_any_term(nodes, node_affinity.required)
    if taints:
        mask &= ~set_apart(nodes, shape.tolerations)
    return mask


def places(nodes: NodeTable, key: str, *, by_name: bool = True) -> tuple[Ints, int]:
    """Per row the number of its value of a topology key (-1 where it lacks the label), and how many values there are.

    Where no node has the hostname label, nodes go by their names, unless `by_name` is false.
    """
    column = nodes.labels.column(key)
    if by_name and key == _HOSTNAME and not column.values:
        column = nodes.labels.column(LabelTable.NAME)
    return column.codes.astype(np.int64), len(column.values)


# What a shape would rather have of a node, whatever is placed: preferred affinity, soft taints, images at hand.
#
# Used by `nodeorder`. Every answer is a score from 0 to 100 over all rows, kept per cause, so shapes that wish the
# same share it; None where the wish cannot tell nodes apart.
#
# Kubernetes scales over the nodes that passed the filters for this pod. Plugins do not call plugins, and a scale that
# moves while a gang lands would make scores incomparable; so the scale is taken over all nodes that are neither
# cordoned nor unready, once per cycle.


_MEGABYTE = 2**20
_SMALL_IMAGES = 23 * _MEGABYTE
_LARGE_IMAGE = 1000 * _MEGABYTE
"""Kubernetes' bounds: images below the first (together) or above the second (each) make no difference."""


def open_rows(nodes: NodeTable) -> Bools:
    """The rows over which scores are scaled: neither cordoned nor unready."""
    rows: Bools = nodes.ready & ~nodes.cordoned
    return rows


class Preferences:
    """Scores that do not move within a cycle."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._affinities: dict[tuple[core.PreferredNodeTerm, ...], Floats | None] = {}
        self._taints: dict[tuple[core.Toleration, ...], Floats | None] = {}
        self._images: dict[tuple[str, ...], Floats | None] = {}

    @cached_property
    def _open(self) -> Bools:
        return open_rows(self._nodes)

    @cached_property
    def _soft(self) -> bool:
        return any_soft(self._nodes)

    def affinity(self, shape: Shape) -> Floats | None:
        """The weights of the preferred terms that a node matches, against the best node's."""
        node_affinity = shape.affinity.node_affinity if shape.affinity is not None else None
        terms = node_affinity.preferred if node_affinity is not None else ()
        if not terms:
            return None
        if terms not in self._affinities:
            self._affinities[terms] = self._affinity(terms)
        return self._affinities[terms]

    def taints(self, shape: Shape) -> Floats | None:
        """100 where every PreferNoSchedule taint is tolerated, 0 on the node with the most that are not."""
        if not self._soft:
            return None
        if shape.tolerations not in self._taints:
            self._taints[shape.tolerations] = self._taint(shape.tolerations)
        return self._taints[shape.tolerations]

    def images(self, shape: Shape) -> Floats | None:
        """How much of the shape's images a node has already, images that many nodes have counting more."""
        if not self._nodes.images or not shape.images:
            return None
        if shape.images not in self._images:
            self._images[shape.images] = self._image(shape.images)
        return self._images[shape.images]

    def _affinity(self, terms: tuple[core.PreferredNodeTerm, ...]) -> Floats | None:
        total = preferred_weights(self._nodes, terms)
        best = total.max(initial=0, where=self._open)
        return total * (100.0 / best) if best > 0 else None

    def _taint(self, tolerations: tuple[core.Toleration, ...]) -> Floats | None:
        count = soft_taints(self._nodes, tolerations)
        worst = count.max(initial=0, where=self._open)
        return 100.0 - count * (100.0 / worst) if worst > 0 else None

    def _image(self, images: tuple[str, ...]) -> Floats | None:
        bytes_present, max_bytes = image_bytes(self._nodes, images)
        return bytes_present * (100.0 / max_bytes) if bytes_present.any() else None


def preferred_weights(nodes: NodeTable, terms: tuple[core.PreferredNodeTerm, ...]) -> Ints:
    """By row, the sum of the weights of the preferred terms that a node matches."""
    total = np.zeros(len(nodes), dtype=np.int64)
    for term in terms:
        total += term.counted * in_term(nodes, term.preference)
    return total


def any_soft(nodes: NodeTable) -> bool:
    """Whether some node has a taint that pods had better tolerate."""
    return any(_is_soft(taint) for taints in nodes.taints for taint in taints)


def soft_taints(nodes: NodeTable, tolerations: tuple[core.Toleration, ...]) -> Ints:
    """By row, how many such taints are not tolerated."""
    counts = [sum(_is_soft(t) and not tolerates(tolerations, t) for t in taints) for taints in nodes.taints]
    return np.array(counts, dtype=np.int64)[nodes.taint_set]


def _is_soft(taint: core.Taint) -> bool:
    return taint.effect == "PreferNoSchedule"


def image_bytes(nodes: NodeTable, images: tuple[str, ...], *, whole_bytes: bool = False) -> tuple[Floats, int]:
    """By row, how much of some images a node has, images that many nodes have counting more; and the most there may be.

    With `whole_bytes`, what each image counts for is cut to whole bytes, as Kubernetes does.
    """
    total = np.zeros(len(nodes))
    for image in images:
        full = image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
        size = np.fromiter((listed.get(full, 0) for listed in nodes.images), dtype=np.int64, count=len(nodes))
        counts = size * (np.count_nonzero(size) / max(1, len(nodes)))
        total += np.floor(counts) if whole_bytes else counts
    max_bytes = _LARGE_IMAGE * len(images)
    return np.clip(total, _SMALL_IMAGES, max_bytes) - _SMALL_IMAGES, max_bytes - _SMALL_IMAGES
