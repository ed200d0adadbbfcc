"""A discovered tree as hyperNodes: exact members in natural order, marked with the source that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.fabric import FABRIC
from tierwise.api.manifest import members
from tierwise.dialects.volcano.discovery import SOURCE_LABEL
from tierwise.discovery.tree import Path, Tree

__all__ = ["hypernode", "hypernodes"]

_API_VERSION: Final = "topology.volcano.sh/v1alpha1"


def hypernodes(tree: Tree, names: Mapping[Path, str], source: str, fabric: str = "") -> list[Raw]:
    """The hyperNode of each domain under these names, tier after tier from the innermost."""
    labels = {SOURCE_LABEL: source, **({FABRIC: fabric} if fabric else {})}
    return [hypernode(tree, path, names, labels) for path in tree]


def hypernode(tree: Tree, path: Path, names: Mapping[Path, str], labels: Mapping[str, str]) -> Raw:
    """The hyperNode of one domain."""
    tier = path[-1].tier
    inside = tree.domains[path]
    spec: Raw = {"tier": tier}
    if tree.tier_names.get(tier):
        spec["tierName"] = tree.tier_names[tier]
    domains = (names[domain] for domain in inside.domains)
    spec["members"] = [*members("HyperNode", domains), *members("Node", inside.nodes)]
    metadata = {"name": names[path], "labels": dict(labels)}
    return {"apiVersion": _API_VERSION, "kind": "HyperNode", "metadata": metadata, "spec": spec}
