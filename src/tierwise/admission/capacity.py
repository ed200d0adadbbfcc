"""Whether any domain of the cluster, if it were empty, could hold a gang's minimum.

Called by the checks of pod groups and jobs, to warn about gangs that would wait forever. It looks at allocatable
amounts only and errs on the side of "yes": a gang that is warned about can never be placed; the converse does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import msgspec
import numpy as np

from tierwise.api.core import Node
from tierwise.api.quantity import amount
from tierwise.model.arrays import Bools, Ints
from tierwise.model.topology import ROOT, Topology

__all__ = ["Amounts", "Share", "TreeCapacity", "smallest"]

Amounts = Mapping[str, int]
Share = tuple[Amounts, int]
"""What each pod of a kind asks for, and how many of them must be placed."""

_PLENTY = 10**6


class TreeCapacity(msgspec.Struct, frozen=True):
    """The nodes of a cluster by the domains they are in."""

    topology: Topology
    allocatable: Sequence[Amounts]  # of each row
    _counts: dict[frozenset[tuple[str, int]], Ints] = {}
    _sums: dict[str, list[int]] = {}

    @classmethod
    def of(cls, topology: Topology, nodes: Sequence[Node]) -> TreeCapacity:
        """The room of nodes in the order of the topology's rows."""
        return cls(topology, [_counted(node) for node in nodes])

    def holds(self, shares: Iterable[Share], limit: int | None, together: Amounts) -> bool:
        """Whether one domain up to a tier has room for all shares, each on its own, and for an amount in total."""
        every = np.arange(len(self.topology))
        allowed = every == ROOT if limit is None else self.topology.tier <= limit
        for request, count in shares:
            allowed &= self._pods(request) >= count
        for resource, total in together.items():
            if total > 0:
                allowed &= self._has(resource, total)
        return bool(allowed.any())

    def _pods(self, request: Amounts) -> Ints:
        """How many pods that ask for this fit into each domain."""
        amounts = frozenset((resource, count) for resource, count in request.items() if count > 0)
        if amounts not in self._counts:
            per_row = np.array([_fitting(amounts, node) for node in self.allocatable], dtype=np.int64)
            self._counts[amounts] = self.topology.totals(per_row)
        return self._counts[amounts]

    def _has(self, resource: str, total: int) -> Bools:
        """Which domains have that much of a resource; counted without arrays, where a sum of bytes might overflow."""
        if resource not in self._sums:
            upto = list(accumulate((node.get(resource, 0) for node in self.allocatable), initial=0))
            spans = zip(self.topology.start.tolist(), self.topology.end.tolist(), strict=True)
            self._sums[resource] = [upto[end] - upto[start] for start, end in spans]
        return np.array([sums >= total for sums in self._sums[resource]], dtype=np.bool_)


def smallest(requests: Iterable[Amounts]) -> dict[str, int]:
    """The least that any of these pods asks for, resource by resource."""
    minimum: dict[str, int] | None = None
    for request in requests:
        if minimum is None:
            minimum = dict(request)
        else:
            minimum = {
                resource: min(count, request[resource]) for resource, count in minimum.items() if resource in request
            }
    return minimum or {}


def _counted(node: Node) -> dict[str, int]:
    return {resource: amount(resource, quantity) for resource, quantity in node.status.allocatable.items()}


def _fitting(amounts: Iterable[tuple[str, int]], node: Amounts) -> int:
    rooms = [node.get(resource, 0) // count for resource, count in amounts]
    if "pods" in node:
        rooms.append(node["pods"])
    return min([*rooms, _PLENTY])
