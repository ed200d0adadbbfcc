"""HyperNodes from node labels, by the label source of Volcano's controller configuration.

Called by `controllers.run`. Makes, changes and removes only hyperNodes that carry the mark of this source, and does
nothing at all where no configuration enables it. A name once given stays: it is found again by labels and members.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.natural import natural
from tierwise.api.volcano import HyperNode
from tierwise.controllers.discovery.hypernodes import reconcile_hypernodes
from tierwise.dialects.volcano.discovery import SOURCE_LABEL, label_source
from tierwise.discovery.labels import read
from tierwise.discovery.manifests import hypernode
from tierwise.discovery.tree import Path, Tree
from tierwise.port import Effect, Objects

__all__ = ["reconcile", "wanted"]

SOURCE: Final = "label"


class _NodePath(NamedTuple):
    """A domain of one of the networks that a configuration names."""

    network: str
    path: Path


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the discovered hyperNodes in line with the labels."""
    manifests = wanted(objects)
    if manifests is None:
        return []
    return reconcile_hypernodes(objects, manifests, SOURCE)


def wanted(objects: Objects) -> list[Raw] | None:
    """The hyperNodes that the labels ask for, innermost tier first; None where no source is enabled and sound."""
    source = label_source(objects.every(ConfigMap).values())
    if source is None:
        return None
    nodes = objects.every(Node).values()
    trees = {type_.name: read(type_, nodes) for type_ in source.types}
    names = _names(trees, objects.every(HyperNode))
    manifests = []
    for place in sorted(names, key=lambda place: (place.path[-1].tier, natural(names[place]))):
        tree = trees[place.network]
        step = place.path[-1]
        of_network = {
            path: names[_NodePath(place.network, path)] for path in (place.path, *tree.domains[place.path].domains)
        }
        labels = {SOURCE_LABEL: SOURCE, tree.tier_names[step.tier]: step.name}
        manifests.append(_sorted(hypernode(tree, place.path, of_network, labels)))
    return manifests


def _sorted(manifest: Raw) -> Raw:
    """Members in the order of their names, which need not be that of the paths behind them."""
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    members = sorted(spec["members"], key=lambda member: natural(member["selector"]["exactMatch"]["name"]))
    return {**manifest, "spec": {**spec, "members": members}}


def _names(trees: Mapping[str, Tree], existing: Mapping[str, HyperNode]) -> dict[_NodePath, str]:
    """The name of each domain: that of a hyperNode which stood for it before, else a new one."""
    mine = {name: h for name, h in existing.items() if h.metadata.labels.get(SOURCE_LABEL) == SOURCE}
    labelled: dict[tuple[str, str], list[str]] = {}
    for name, own_hypernode in mine.items():
        for label in own_hypernode.metadata.labels.items():
            labelled.setdefault(label, []).append(name)
    names: dict[_NodePath, str] = {}
    used: set[str] = set()
    # From tier 1 outwards, so that the names of the domains inside are known when those outside are compared.
    for (_, prefix, key, value), places in sorted(_alike(trees).items()):
        candidates = [name for name in labelled.get((key, value), ()) if name.startswith(prefix)]
        matches = sorted(
            (-_in_common(place, trees, mine[name], names), name != _fresh(place, prefix), place, natural(name))
            for place in places
            for name in candidates
        )
        for _, _, place, (_, name) in matches:
            if place not in names and name not in used:
                names[place] = name
                used.add(name)
        for place in sorted(place for place in places if place not in names):
            names[place] = next(n for n in _spellings(place, prefix) if n not in existing and n not in used)
            used.add(names[place])
    return names


def _alike(trees: Mapping[str, Tree]) -> dict[tuple[int, str, str, str], list[_NodePath]]:
    """Domains that only their surroundings tell apart: by tier, prefix of their names, label and value."""
    alike: dict[tuple[int, str, str, str], list[_NodePath]] = {}
    for network, tree in trees.items():
        stem = re.sub(r"[^a-z0-9-]", "-", network.lower())
        for path in tree:
            tier, value = path[-1]
            key = (tier, f"hypernode-{stem}-tier{tier}-", tree.tier_names[tier], value)
            alike.setdefault(key, []).append(_NodePath(network, path))
    return alike


def _in_common(
    place: _NodePath, trees: Mapping[str, Tree], hypernode: HyperNode, names: Mapping[_NodePath, str]
) -> int:
    """How many members of a hyperNode the labels still place in a domain."""
    members = trees[place.network].domains[place.path]
    inside = {*members.nodes, *(names[_NodePath(place.network, path)] for path in members.domains)}
    exact = (member.selector.exact_match for member in hypernode.spec.members)
    return len(inside & {match.name for match in exact if match is not None})


def _fresh(place: _NodePath, prefix: str) -> str:
    return next(_spellings(place, prefix))


def _spellings(place: _NodePath, prefix: str) -> Iterator[str]:
    """Names for a new domain in the order to try: five digits are few, so another domain may have had the first."""
    words = (place.network, str(place.path[-1].tier), *(step.name for step in place.path))
    for attempt in count():
        text = "\n".join((*words, *("again" for _ in range(attempt))))
        yield prefix + hashlib.sha256(text.encode()).hexdigest()[:5]
