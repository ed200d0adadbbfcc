"""What placed services reserve on the links between zones and regions: the sum over pairs of pods, from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.api.core import Node, Pod
from tierwise.api.network_aware import AppGroup
from tierwise.dialects.services import dependencies, group_homes, placed_by_spot
from tierwise.model.services import Link, link_between

__all__ = ["reserved"]


def reserved(groups: Mapping[str, AppGroup], pods: Iterable[Pod], nodes: Mapping[str, Node]) -> dict[Link, int]:
    """Bandwidth by link; each pair of a placed caller and a placed callee reserves its dependency's minimum.

    Pods name their group without its namespace, so of two groups of one name one counts, for the pods beside it.
    """
    homes = group_homes(groups)
    placed = placed_by_spot(pods, nodes, homes)
    total: dict[Link, int] = {}
    for group in groups.values():
        name = group.metadata.name
        if homes[name] != (group.metadata.namespace or "default"):
            continue
        for dependency in dependencies(group):
            if not dependency.bandwidth:
                continue
            for one, callers in placed.get((name, dependency.caller), {}).items():
                for other, callees in placed.get((name, dependency.callee), {}).items():
                    link = link_between(one, other)
                    if link is not None:
                        total[link] = total.get(link, 0) + dependency.bandwidth * callers * callees
    return total
