"""HyperNodes from node labels, by the label source of Volcano's controller configuration.

Called by `controllers.run`. Makes, changes and removes only hyperNodes that carry the mark of this source, and does
nothing at all where no configuration enables it. A name once given stays: it is found again by labels and members.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.natural import natural
from tierwise.api.volcano import HyperNode
from tierwise.dialects.discovery import TopologyType, label_source
from tierwise.port import Create, Delete, Effect, Objects, Update, key_of

__all__ = ["READS", "reconcile"]

READS: Final = (ConfigMap, Node, HyperNode)

SOURCE_LABEL: Final = "volcano.sh/network-topology-source"
_API_VERSION: Final = "topology.volcano.sh/v1alpha1"

Path = tuple[str, int, tuple[str, ...]]
"""Network, tier, and the label values from the outermost tier known down to this one: what tells domains apart."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A domain as the labels tell it: nodes stand in it at tier 1, other domains above that."""

    prefix: str
    key: str
    value: str
    nodes: frozenset[str]
    inner: frozenset[Path]


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the discovered hyperNodes in line with the labels."""
    source = label_source(objects.every(ConfigMap).values())
    if source is None:
        return []
    existing = objects.every(HyperNode)
    mine = {name: h for name, h in existing.items() if h.metadata.labels.get(SOURCE_LABEL) == "label"}
    found: dict[Path, _Found] = {}
    for type_ in source.types:
        found.update(_discover(type_, objects.every(Node).values()))
    names = _names(found, mine, set(existing))
    effects: list[Effect] = []
    for path in sorted(found, key=lambda path: (path[1], natural(names[path]))):
        wanted = _manifest(path, found[path], names)
        effects += _bring(objects, mine.get(names[path]), wanted)
    kept = set(names.values())
    return effects + [Delete(key_of(h)) for name, h in mine.items() if name not in kept]


def _discover(type_: TopologyType, nodes: Iterable[Node]) -> dict[Path, _Found]:
    """The domains of one network. A node's chain ends at its first missing label, counted from the node outwards."""
    inside: dict[Path, set[str]] = {}
    inner: dict[Path, set[Path]] = {}
    for node in nodes:
        labels = [node.metadata.labels.get(key, "") for key in type_.keys]
        known = labels.index("") if "" in labels else len(labels)
        chain: list[Path] = [(type_.name, tier + 1, tuple(reversed(labels[tier:known]))) for tier in range(known)]
        for path in chain[:1]:
            inside.setdefault(path, set()).add(node.metadata.name)
        for lower, upper in pairwise(chain):
            inner.setdefault(upper, set()).add(lower)
    stem = re.sub(r"[^a-z0-9-]", "-", type_.name.lower())
    return {
        path: _Found(
            prefix=f"hypernode-{stem}-tier{path[1]}-",
            key=type_.keys[path[1] - 1],
            value=path[2][-1],
            nodes=frozenset(inside.get(path, ())),
            inner=frozenset(inner.get(path, ())),
        )
        for path in [*inside, *inner]
    }


def _names(found: Mapping[Path, _Found], mine: Mapping[str, HyperNode], taken: set[str]) -> dict[Path, str]:
    """The name of each domain: that of a hyperNode which stood for it before, else a new one."""
    names: dict[Path, str] = {}
    used: set[str] = set()
    alike: dict[tuple[int, str, str, str], list[Path]] = {}
    for path, domain in found.items():
        alike.setdefault((path[1], domain.prefix, domain.key, domain.value), []).append(path)
    labelled: dict[tuple[str, str], list[str]] = {}
    for name, hypernode in mine.items():
        for label in hypernode.metadata.labels.items():
            labelled.setdefault(label, []).append(name)
    # From tier 1 outwards, so that the names of the domains inside are known when those outside are compared.
    for (_, prefix, key, value), paths in sorted(alike.items()):
        candidates = [name for name in labelled.get((key, value), ()) if name.startswith(prefix)]
        matches = sorted(
            (-_in_common(found[path], mine[name], names), name != _fresh(path, prefix), path, natural(name))
            for path in paths
            for name in candidates
        )
        for _, _, path, (_, name) in matches:
            if path not in names and name not in used:
                names[path] = name
                used.add(name)
        for path in sorted(path for path in paths if path not in names):
            names[path] = next(name for name in _spellings(path, prefix) if name not in taken and name not in used)
            used.add(names[path])
    return names


def _in_common(domain: _Found, hypernode: HyperNode, names: Mapping[Path, str]) -> int:
    """How many members of a hyperNode the labels still place in a domain."""
    exact = (member.selector.exact_match for member in hypernode.spec.members)
    return len(_members(domain, names) & {match.name for match in exact if match is not None})


def _members(domain: _Found, names: Mapping[Path, str]) -> frozenset[str]:
    return domain.nodes | {names[path] for path in domain.inner}


def _fresh(path: Path, prefix: str) -> str:
    return next(_spellings(path, prefix))


def _spellings(path: Path, prefix: str) -> Iterator[str]:
    """Names for a new domain in the order to try: five digits are few, so another domain may have had the first."""
    network, tier, values = path
    for attempt in count():
        text = "\n".join((network, str(tier), *values, *("again" for _ in range(attempt))))
        yield prefix + hashlib.sha256(text.encode()).hexdigest()[:5]


def _manifest(path: Path, domain: _Found, names: Mapping[Path, str]) -> Raw:
    kind = "HyperNode" if domain.inner else "Node"
    members = sorted(_members(domain, names), key=natural)
    return {
        "apiVersion": _API_VERSION,
        "kind": "HyperNode",
        "metadata": {"name": names[path], "labels": {SOURCE_LABEL: "label", domain.key: domain.value}},
        "spec": {
            "tier": path[1],
            "tierName": domain.key,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in members],
        },
    }


def _bring(objects: Objects, existing: HyperNode | None, wanted: Raw) -> list[Effect]:
    """Create a hyperNode, or give it the spec it should have; whatever else stands in its manifest stays there."""
    raw = objects.raw(key_of(existing)) if existing is not None else None
    if existing is None or raw is None:
        return [Create(wanted)]
    changed = {**raw, "spec": wanted["spec"]}
    return [] if changed == raw else [Update(key_of(existing), changed)]
