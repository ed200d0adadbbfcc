"""ComputeDomains: pods that share memory over NVLink are placed in one clique.

NVIDIA's driver creates the channels but does not place pods: without support in the scheduler the pods of a domain end
up in several racks. A clique is the set of nodes with one value of the label `nvidia.com/gpu.clique`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tierwise.api.core import Pod
from tierwise.api.nvidia import ComputeDomain
from tierwise.dialects.label_trees import LabelTree
from tierwise.model.job import Constraint
from tierwise.port import Objects

__all__ = ["CLIQUE", "KIND", "ONE_CLIQUE", "READS", "domains", "joined", "template_names", "trees"]

CLIQUE: Final = "nvidia.com/gpu.clique"
KIND: Final = "NVLink cliques"
"""How constraints name the tree of the label."""

READS = (ComputeDomain,)


def domains(objects: Objects) -> dict[str, str]:
    """By template of claims, as namespace/name, the domain that it makes pods join."""
    path_by_template: dict[str, str] = {}
    for path, domain in objects.every(ComputeDomain).items():
        name = domain.spec.channel.resource_claim_template.name
        if name:
            path_by_template[f"{domain.metadata.namespace or 'default'}/{name}"] = path
    return path_by_template


def trees(objects: Objects) -> Iterator[LabelTree]:
    """The cliques, where a pod asks for a domain."""
    if objects.every(ComputeDomain):
        yield LabelTree(KIND, (CLIQUE,))


ONE_CLIQUE: Final = Constraint(hard=True, tier_name=CLIQUE, kind=KIND)
"""What keeps the pods of a domain together."""


def joined(pod: Pod, domain_by_template: Mapping[str, str]) -> str:
    """The domain that a pod joins, as namespace/name; "" for none. Of several the first counts."""
    return next((domain_by_template[name] for name in template_names(pod) if name in domain_by_template), "")


def template_names(pod: Pod) -> Iterator[str]:
    """The templates of claims that a pod names, as namespace/name."""
    namespace = pod.metadata.namespace or "default"
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name:
            yield f"{namespace}/{entry.resource_claim_template_name}"
