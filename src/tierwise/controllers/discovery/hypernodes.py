"""How the hyperNodes of a discovery source are brought in line with what the source wants.

Called by the discovery controllers. A source touches only hyperNodes that carry its mark.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.codec import Raw
from tierwise.api.volcano import HyperNode
from tierwise.dialects.volcano.discovery import SOURCE_LABEL
from tierwise.port import Create, Delete, Effect, Objects, Update, key_of, key_of_raw

__all__ = ["reconcile_hypernodes"]


def reconcile_hypernodes(objects: Objects, manifests: Iterable[Raw], source: str) -> list[Effect]:
    """Create what is missing, change what differs, delete what the source no longer wants.

    Of an existing hyperNode only the spec is replaced; the rest of its manifest stays.
    """
    mine = {}
    for hypernode in objects.every(HyperNode).values():
        if hypernode.metadata.labels.get(SOURCE_LABEL) == source:
            mine[key_of(hypernode)] = hypernode
    effects: list[Effect] = []
    present = set()
    for manifest in manifests:
        key = key_of_raw(manifest)
        present.add(key)
        raw = objects.raw(key) if key in mine else None
        if raw is None:
            effects.append(Create(manifest))
        elif raw.get("spec") != manifest["spec"]:
            effects.append(Update(key, {**raw, "spec": manifest["spec"]}))
    return effects + [Delete(key) for key in mine if key not in present]
