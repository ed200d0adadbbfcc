"""Node labels in the manner of Volcano's label source: a chain of label keys, one for each tier.

Called by the label discovery controller. A node's chain ends at its first missing label, counted from the node
outwards, as it does in Volcano; unlike there, one value below two others makes two domains.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.core import Node
from tierwise.dialects.volcano.discovery import TopologyType
from tierwise.discovery.tree import Path, PathElement, Tree

__all__ = ["read"]


def read(type_: TopologyType, nodes: Iterable[Node]) -> Tree:
    """The tree of one network; nodes without its innermost label are not in it."""
    places: dict[str, Path] = {}
    for node in nodes:
        labels = [node.metadata.labels.get(key, "") for key in type_.keys]
        missing_at = labels.index("") if "" in labels else len(labels)
        if missing_at:
            steps = [PathElement(tier, value) for tier, value in enumerate(labels[:missing_at], start=1)]
            places[node.metadata.name] = tuple(reversed(steps))
    return Tree(places, dict(enumerate(type_.keys, start=1)))
