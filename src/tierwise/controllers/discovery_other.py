"""HyperNodes from every other discovery source: topograph's labels on nodes, and what was fetched from outside.

Called by `controllers.run`. A source that cannot be read changes nothing: its old hyperNodes stay, and `hypernode`
says on each of them what is wrong. Fetching itself is `fetch.refresh`'s business, which leaves a record.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.volcano import HyperNode
from tierwise.controllers.bringing import bring
from tierwise.controllers.sources import standings
from tierwise.dialects.discovery import OtherSource
from tierwise.discovery.manifests import SOURCE_LABEL, hypernodes
from tierwise.discovery.naming import names
from tierwise.discovery.tree import Tree
from tierwise.port import Effect, Objects, key_of_raw

__all__ = ["READS", "reconcile"]

READS: Final = (ConfigMap, Node, HyperNode)


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the hyperNodes of each enabled source in line with its last tree."""
    effects: list[Effect] = []
    claimed: set[str] = set()
    for standing in standings(objects):
        if standing.tree is not None:
            wanted = _wanted(objects, standing.tree, standing.source, claimed)
            claimed |= {key_of_raw(manifest).name for manifest in wanted}
            effects += bring(objects, wanted, standing.source.kind)
    return effects


def _wanted(objects: Objects, tree: Tree, source: OtherSource, claimed: Set[str]) -> list[Raw]:
    """The hyperNodes of a tree; a name that another source or a person has given stays theirs."""
    theirs = {
        name for name, h in objects.every(HyperNode).items() if h.metadata.labels.get(SOURCE_LABEL) != source.kind
    }
    return hypernodes(tree, names(tree, source.text("namePrefix"), taken=theirs | claimed), source.kind)
