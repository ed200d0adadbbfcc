"""HyperNodes from every other discovery source: topograph's labels on nodes, and what was fetched from outside.

Called by `controllers.run`. A source that cannot be read changes nothing: its old hyperNodes stay, and `hypernode`
says on each of them what is wrong. Fetching itself is `fetch.refresh`'s business, which leaves a record.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.core import ConfigMap, Node
from tierwise.api.volcano import HyperNode
from tierwise.controllers.bringing import bring
from tierwise.controllers.sources import Standing, standings
from tierwise.discovery.manifests import SOURCE_LABEL, hypernodes
from tierwise.discovery.naming import names
from tierwise.port import Effect, Objects

__all__ = ["READS", "reconcile"]

READS: Final = (ConfigMap, Node, HyperNode)


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the hyperNodes of each enabled source in line with its last tree."""
    return [effect for standing in standings(objects) for effect in _of_source(objects, standing)]


def _of_source(objects: Objects, standing: Standing) -> list[Effect]:
    if standing.tree is None:
        return []
    kind = standing.source.kind
    others = {name for name, h in objects.every(HyperNode).items() if h.metadata.labels.get(SOURCE_LABEL) != kind}
    chosen = names(standing.tree, standing.source.text("namePrefix"), taken=others)
    return bring(objects, hypernodes(standing.tree, chosen, kind), kind)
