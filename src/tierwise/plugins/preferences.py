"""What a shape would rather have of a node, whatever is placed: preferred affinity, soft taints, images at hand.

Used by `nodeorder`. Every answer is a score from 0 to 100 over all rows, kept per cause, so shapes that wish the
same share it; None where the wish cannot tell nodes apart.

Kubernetes scales over the nodes that passed the filters for this pod. Plugins do not call plugins, and a scale that
moves while a gang lands would make scores incomparable; so the scale is taken over all nodes that are neither
cordoned nor unready, once per cycle.
"""

from __future__ import annotations

import numpy as np

from tierwise.api.core import PreferredNodeTerm, Taint, Toleration
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.node import NodeTable
from tierwise.model.shape import Shape
from tierwise.plugins.node_terms import in_term, tolerates

__all__ = ["Preferences", "open_rows"]

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
        self._open = open_rows(nodes)
        self._soft = any(_is_soft(taint) for taints in nodes.taints for taint in taints)
        self._affinities: dict[tuple[PreferredNodeTerm, ...], Floats | None] = {}
        self._taints: dict[tuple[Toleration, ...], Floats | None] = {}
        self._images: dict[tuple[str, ...], Floats | None] = {}
        self._sizes: dict[str, Ints] = {}

    def affinity(self, shape: Shape) -> Floats | None:
        """The weights of the preferred terms that a node matches, against the best node's."""
        wanted = shape.affinity.node_affinity if shape.affinity is not None else None
        terms = wanted.preferred if wanted is not None else ()
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

    def _affinity(self, terms: tuple[PreferredNodeTerm, ...]) -> Floats | None:
        total = np.zeros(len(self._nodes))
        for term in terms:
            if term.weight:
                total += term.weight * in_term(self._nodes, term.preference)
        best = total.max(initial=0.0, where=self._open)
        return total * (100.0 / best) if best > 0 else None

    def _taint(self, tolerations: tuple[Toleration, ...]) -> Floats | None:
        soft = [
            tuple(t for t in taints if _is_soft(t) and not tolerates(tolerations, t)) for taints in self._nodes.taints
        ]
        count: Floats = np.array([len(taints) for taints in soft], dtype=np.float64)[self._nodes.taint_set]
        worst = count.max(initial=0.0, where=self._open)
        return 100.0 - count * (100.0 / worst) if worst > 0 else None

    def _image(self, images: tuple[str, ...]) -> Floats | None:
        total = np.zeros(len(self._nodes))
        for image in images:
            size = self._size(image)
            total += size * (np.count_nonzero(size) / max(1, len(self._nodes)))
        most = _LARGE_IMAGE * len(images)
        score: Floats = (np.clip(total, _SMALL_IMAGES, most) - _SMALL_IMAGES) * (100.0 / (most - _SMALL_IMAGES))
        return score if score.any() else None

    def _size(self, image: str) -> Ints:
        """The image's size per row, 0 where a node lacks it: a column made on first use, like those of labels."""
        full = image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
        found = self._sizes.get(full)
        if found is None:
            sizes = (listed.get(full, 0) for listed in self._nodes.images)
            found = self._sizes[full] = np.fromiter(sizes, dtype=np.int64, count=len(self._nodes))
        return found


def _is_soft(taint: Taint) -> bool:
    return taint.effect == "PreferNoSchedule"
