"""Manifests of a made-up cluster: nodes with 8 GPUs in racks of four, the racks in spines of four.

For `tierwise up` without manifests, and for verbs whose manifests hold jobs but no nodes (`--nodes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.manifest import manifest, members

__all__ = ["NODES_OF_A_RACK", "racks_and_spines", "sample_nodes"]

NODES_OF_A_RACK: Final = 4
_RACKS_OF_A_SPINE: Final = 4
_AMOUNTS: Final = {"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": "8", "pods": "110"}


def sample_nodes(count: int) -> list[Raw]:
    """Ready Nodes with the names node-0, node-1 and so on."""
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": _AMOUNTS, "allocatable": _AMOUNTS, "conditions": ready}
    usual = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    names = [f"node-{number}" for number in range(count)]
    return [
        manifest("v1", "Node", name, labels={"kubernetes.io/hostname": name, **usual}, status=status) for name in names
    ]


def racks_and_spines(nodes: Sequence[str]) -> Iterator[Raw]:
    """HyperNodes of two tiers over nodes, in their order; the last rack and the last spine may be smaller."""
    racks = []
    for number, inside in enumerate(_parts(nodes, NODES_OF_A_RACK)):
        racks.append(f"rack-{number}")
        yield _hypernode(racks[-1], 1, "Node", inside)
    for number, below in enumerate(_parts(racks, _RACKS_OF_A_SPINE)):
        yield _hypernode(f"spine-{number}", 2, "HyperNode", below)


def _parts(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[begin : begin + size] for begin in range(0, len(names), size))


def _hypernode(name: str, tier: int, kind: str, inside: Sequence[str]) -> Raw:
    spec = {"tier": tier, "members": members(kind, inside)}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec)
