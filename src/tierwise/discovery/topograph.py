"""The node labels that NVIDIA's topograph writes: the levels that `presets` reads, and a tree written as labels.

Three generations of keys are understood, and may be mixed: `network.topology.nvidia.com/leaf`, `/spine`, `/core` with
`/accelerator`; the older `/block` and `/datacenter` for the first and last of them; and the newer
`fabric.topograph.run/tier-N` with `accelerator.topograph.run/domain` and `/sub-domain`. Where topograph leaves the
accelerator to the GPU operator, `nvidia.com/gpu.clique` is it. A level that a node lacks is passed over.
"""

from __future__ import annotations

import re
from typing import Final

from tierwise.api.natural import natural
from tierwise.discovery.tree import Tree

__all__ = ["CLIQUE", "LEVELS", "labels"]

CLIQUE: Final = "nvidia.com/gpu.clique"
"""What the GPU operator writes on nodes with NVLink between them."""

_NVIDIA: Final = "network.topology.nvidia.com/"
_FABRIC: Final = "fabric.topograph.run/tier-"
_ACCELERATOR: Final = "accelerator.topograph.run/"

LEVELS: Final = (
    ("sub-domain", (f"{_ACCELERATOR}sub-domain",)),
    ("accelerator", (f"{_ACCELERATOR}domain", f"{_NVIDIA}accelerator", CLIQUE)),
    ("leaf", (f"{_FABRIC}0", f"{_NVIDIA}leaf", f"{_NVIDIA}block")),
    ("spine", (f"{_FABRIC}1", f"{_NVIDIA}spine")),
    ("core", (f"{_FABRIC}2", f"{_NVIDIA}core", f"{_NVIDIA}datacenter")),
    *((f"tier-{number}", (f"{_FABRIC}{number}",)) for number in range(3, 100)),
)
"""Innermost first: what the level is called, and its keys, the newest first."""

_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

_SWITCHES: Final = ("leaf", "spine", "core")
_OUTPUT: Final = {level: f"{_NVIDIA}{level}" for level in ("accelerator", *_SWITCHES)}


def labels(tree: Tree) -> dict[str, dict[str, str]]:
    """The labels of each node, by which `presets.read` finds the same tree."""
    keys = _keys(tree)
    written: dict[str, dict[str, str]] = {}
    for node in sorted(tree.places, key=natural):
        written[node] = {keys[step.tier]: _value(step.name) for step in reversed(tree.places[node])}
    return written


def _keys(tree: Tree) -> dict[int, str]:
    """The key of each tier: by the tier's name where topograph knows it, else switches from the leaf outwards."""
    tiers = tree.tiers
    called = [tree.tier_names.get(tier, "") for tier in tiers]
    output_keys = [name for name in _OUTPUT if name in called]
    if output_keys == called:
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
