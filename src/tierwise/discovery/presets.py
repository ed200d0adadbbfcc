"""The node labels by which clouds and NVIDIA's tools tell the place of a node in the network, read as a tree.

A preset is the labels of one of them, the innermost level first. `read` makes the tree, and `carried` tells which
presets the nodes of a cluster carry. A level that a node lacks is passed over, and one that no node has is no tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from tierwise.api.core import Node
from tierwise.api.natural import natural
from tierwise.discovery import topograph
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree

__all__ = ["PRESETS", "carried", "preset_named", "read"]


class Level(NamedTuple):
    """One level of a network: what its tier is called, and its label keys; the first that a node has counts."""

    name: str
    keys: tuple[str, ...]


class Preset(msgspec.Struct, frozen=True):
    """The labels of one cloud or tool; levels run from the innermost outwards.

    Where `unique` holds, a value names one thing in all the cluster; otherwise it counts within the level around it.
    """

    name: str
    levels: tuple[Level, ...]
    unique: bool = True


_CLIQUE: Final = Level("clique", (topograph.CLIQUE,))  # a part of an NVLink domain that the GPU operator found

_AWS: Final = "topology.k8s.aws/"
_GKE: Final = "cloud.google.com/gce-topology-"
_OKE: Final = "oci.oraclecloud.com/rdma."
_NEBIUS: Final = "topology.nebius.com/"


def _coreweave(level: str) -> Level:
    """A level of CoreWeave's fabrics: the keys for all of them, then the older ones for InfiniBand."""
    return Level(level, (f"backend.coreweave.cloud/{level}", f"ib.coreweave.cloud/{level}"))


_ALL: Final = (
    Preset(
        "aws",
        (
            _CLIQUE,
            Level("ultraserver", (f"{_AWS}ultraserver-id",)),
            # Layer 1 is the outermost, and an instance is connected to the layer with the highest number it has.
            *(Level(f"network-node-layer-{n}", (f"{_AWS}network-node-layer-{n}",)) for n in range(9, 0, -1)),
        ),
    ),
    Preset("azure", (_CLIQUE, Level("ppg", ("kubernetes.azure.com/ppg",)))),
    Preset(
        "coreweave",
        (
            _CLIQUE,
            Level("nvlink-domain", ("ds.coreweave.com/nvlink.domain",)),
            *map(_coreweave, ("leafgroup", "superpod", "fabric")),
        ),
        unique=False,
    ),
    Preset(
        "gke",
        (
            Level("host", (f"{_GKE}host",)),
            _CLIQUE,
            Level("subblock", (f"{_GKE}subblock",)),
            Level("block", (f"{_GKE}block",)),
        ),
    ),
    Preset(
        "nebius",
        (
            _CLIQUE,
            *(Level(f"tier-{n}", (f"{_NEBIUS}tier-{n}",)) for n in range(10)),
            Level("gpu-cluster", (f"{_NEBIUS}gpu-cluster-id",)),
        ),
    ),
    Preset(
        "oke",
        (
            _CLIQUE,
            Level("local-block", (f"{_OKE}local_block_id",)),
            Level("network-block", (f"{_OKE}network_block_id",)),
            Level("hpc-island", (f"{_OKE}hpc_island_id",)),
        ),
    ),
    Preset("topograph", tuple(Level(name, keys) for name, keys in topograph.LEVELS)),
)  # fmt: skip
PRESETS: Final = {preset.name: preset for preset in _ALL}

_OTHER_NAMES: Final = {"nvidia": "topograph", "eks": "aws", "oci": "oke", "aks": "azure"}


def preset_named(name: str) -> Preset | None:
    """The preset that people mean by a name; None where there is no such."""
    return PRESETS.get(_OTHER_NAMES.get(name, name))


def carried(nodes: Iterable[Node]) -> dict[str, int]:
    """The presets whose labels nodes carry, each with the number of nodes, in the order of names.

    The GPU operator writes the clique wherever there is NVLink between nodes, in any cloud, so it tells of a preset
    only where there is nothing else.
    """
    owners = {}
    for preset in _ALL:
        for level in preset.levels:
            for key in level.keys:
                owners[key] = preset.name
    del owners[topograph.CLIQUE]
    counts: dict[str, int] = {}
    cliques = 0
    for node in nodes:
        labels = node.metadata.labels
        for name in {owners[key] for key in labels.keys() & owners.keys() if labels[key]}:
            counts[name] = counts.get(name, 0) + 1
        cliques += bool(labels.get(topograph.CLIQUE))
    if not counts and cliques:
        counts = {"topograph": cliques}
    return dict(sorted(counts.items()))


def read(preset: Preset, nodes: Iterable[Node]) -> Discovered:
    """The tree of all nodes that carry the labels of a preset."""
    ordered = sorted(nodes, key=lambda node: natural(node.metadata.name))
    present_keys = {key for node in ordered for key, value in node.metadata.labels.items() if value}
    levels = [level for level in preset.levels if not present_keys.isdisjoint(level.keys)]
    tiers = {level.name: tier for tier, level in enumerate(levels, start=1)}
    places: dict[str, Path] = {}
    for node in ordered:
        labels = node.metadata.labels
        steps = []
        for level in reversed(levels):
            value = next((labels[key] for key in level.keys if labels.get(key)), "")
            if value:
                steps.append(PathElement(tiers[level.name], value))
        if steps:
            places[node.metadata.name] = tuple(steps)
    if not places:
        return Discovered.failed(SourceRemark("", f"no node carries a label of {preset.name}"))
    tree = Tree(places, {tier: name for name, tier in tiers.items()})
    return Discovered.of(tree, _repeated(tree) if preset.unique else ())


def _repeated(tree: Tree) -> Iterator[SourceRemark]:
    """Values that name one thing in all the cluster, and are found in two places: that deserves a word."""
    seen: dict[PathElement, list[Path]] = {}
    for path in tree:
        seen.setdefault(path[-1], []).append(path)
    repeated: dict[int, list[str]] = {}
    for step, paths in seen.items():
        if len(paths) > 1:
            repeated.setdefault(step.tier, []).append(step.name)
    for tier, values in sorted(repeated.items()):
        shown = ", ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")
        verb_phrase = "is found" if len(values) == 1 else "are each found"
        text = f"{tree.tier_names[tier]} {shown} {verb_phrase} in several places: every place is a domain of its own"
        yield SourceRemark("", text, error=False)
