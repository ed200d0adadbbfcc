"""The node labels that NVIDIA's topograph writes, read as a tree and written from one.

Three generations of keys are understood, and may be mixed: `network.topology.nvidia.com/leaf`, `/spine`, `/core` with
`/accelerator`; the older `/block` and `/datacenter` for the first and last of them; and the newer
`fabric.topograph.run/tier-N` with `accelerator.topograph.run/domain` and `/sub-domain`. Where topograph leaves the
accelerator to the GPU operator, `nvidia.com/gpu.clique` is it. A level that a node lacks is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tierwise.api.core import Node
from tierwise.api.natural import natural
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree

__all__ = ["labels", "read"]

_NVIDIA: Final = "network.topology.nvidia.com/"
_FABRIC: Final = "fabric.topograph.run/tier-"
_ACCELERATOR: Final = "accelerator.topograph.run/"

# Innermost first: what the level is called, and its keys, the newest first.
_LEVELS: Final = (
    ("sub-domain", (f"{_ACCELERATOR}sub-domain",)),
    ("accelerator", (f"{_ACCELERATOR}domain", f"{_NVIDIA}accelerator", "nvidia.com/gpu.clique")),
    ("leaf", (f"{_FABRIC}0", f"{_NVIDIA}leaf", f"{_NVIDIA}block")),
    ("spine", (f"{_FABRIC}1", f"{_NVIDIA}spine")),
    ("core", (f"{_FABRIC}2", f"{_NVIDIA}core", f"{_NVIDIA}datacenter")),
)
_FARTHER: Final = re.compile(re.escape(_FABRIC) + r"([3-9]|[1-9][0-9])")
_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

_SWITCHES: Final = ("leaf", "spine", "core")
_OUTPUT: Final = {level: f"{_NVIDIA}{level}" for level in ("accelerator", *_SWITCHES)}


def read(nodes: Iterable[Node]) -> Discovered:
    """The tree of all nodes that carry such labels."""
    given = sorted(nodes, key=lambda node: natural(node.metadata.name))
    levels = [*_LEVELS, *_farther(given)]
    values = {node.metadata.name: _values(node.metadata.labels, levels) for node in given}
    present = [name for name, _ in levels if any(name in found for found in values.values())]
    tiers = {name: tier for tier, name in enumerate(present, start=1)}
    places: dict[str, Path] = {}
    for node, found in values.items():
        if found:
            places[node] = tuple(PathElement(tiers[name], found[name]) for name in reversed(present) if name in found)
    tree = Tree(places, {tier: name for name, tier in tiers.items()})
    if not places:
        return Discovered.failed(SourceRemark("", "no node carries a label of topograph"))
    return Discovered.of(tree, _astray(tree))


def _farther(nodes: Iterable[Node]) -> list[tuple[str, tuple[str, ...]]]:
    """Levels beyond the core, of which there may be any number."""
    found = {int(form[1]) for node in nodes for key in node.metadata.labels if (form := _FARTHER.fullmatch(key))}
    return [(f"tier-{number}", (f"{_FABRIC}{number}",)) for number in sorted(found)]


def _values(labels_: Mapping[str, str], levels: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    found = {}
    for name, keys in levels:
        value = next((labels_[key] for key in keys if labels_.get(key)), "")
        if value:
            found[name] = value
    return found


def _astray(tree: Tree) -> Iterator[SourceRemark]:
    """Its values name one switch or NVLink domain in all the cluster: one in two places deserves a word."""
    seen: dict[PathElement, list[Path]] = {}
    for path in tree:
        seen.setdefault(path[-1], []).append(path)
    twice: dict[int, list[str]] = {}
    for step, paths in seen.items():
        if len(paths) > 1:
            twice.setdefault(step.tier, []).append(step.name)
    for tier, astray in sorted(twice.items()):
        shown = ", ".join(astray[:3]) + (f" and {len(astray) - 3} more" if len(astray) > 3 else "")
        found = "is found" if len(astray) == 1 else "are each found"
        text = f"{tree.tier_names[tier]} {shown} {found} in several places: every place is a domain of its own"
        yield SourceRemark("", text, error=False)


def labels(tree: Tree) -> dict[str, dict[str, str]]:
    """The labels of each node, by which `read` finds the same tree."""
    keys = _keys(tree)
    written: dict[str, dict[str, str]] = {}
    for node in sorted(tree.places, key=natural):
        written[node] = {keys[step.tier]: _value(step.name) for step in reversed(tree.places[node])}
    return written


def _keys(tree: Tree) -> dict[int, str]:
    """The key of each tier: by the tier's name where topograph knows it, else switches from the leaf outwards."""
    tiers = tree.tiers
    called = [tree.tier_names.get(tier, "") for tier in tiers]
    known = [name for name in _OUTPUT if name in called]
    if known == called:
        return {tier: _OUTPUT[name] for tier, name in zip(tiers, called, strict=True)}
    if len(tiers) <= len(_SWITCHES):
        return {tier: _OUTPUT[name] for tier, name in zip(tiers, _SWITCHES, strict=False)}
    return {tier: f"{_FABRIC}{number}" for number, tier in enumerate(tiers)}


def _value(name: str) -> str:
    """A name as a label's value; topograph writes the FNV-1a hash of one that is too long, and so do we."""
    if _VALUE.fullmatch(name):
        return name
    digest = 0xCBF29CE484222325
    for byte in name.encode("utf-8", "surrogatepass"):
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"x{digest:016x}"
