"""Where a pod wants to stand: affinity to nodes and to other pods, and spreading over topologies.

Part of `core`'s pod specification and built by the codec. Terms within a list of node selector terms are
alternatives; the conditions within one term must all hold.
"""

from typing import Final

from msgspec import field

from tierwise.api.meta import Int, LabelSelector, Record, Requirement

__all__ = [
    "Affinity",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "PodAffinity",
    "PodAffinityTerm",
    "PreferredNodeTerm",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelectorTerm(Record, frozen=True):
    """Conditions on a node's labels and on its fields (`metadata.name`); an empty term matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Record, frozen=True):
    """Alternatives, one of which must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Record, frozen=True):
    """A wish with a weight."""

    weight: Int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Record, frozen=True):
    """Which nodes a pod may stand on, and which it would rather."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredNodeTerm, ...] = field(default=(), name=_PREFERRED)


class PodAffinityTerm(Record, frozen=True):
    """Other pods, chosen by label and namespace, and how near is near.

    A `label_selector` of None matches no pod; a `namespace_selector` of None adds no namespace, an empty one all.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Record, frozen=True):
    """A wish with a weight."""

    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Record, frozen=True):
    """Pods to be near to; the same record serves as anti-affinity, for pods to be away from."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name=_REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(default=(), name=_PREFERRED)


class Affinity(Record, frozen=True):
    """All of a pod's affinities."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """How evenly matching pods are spread over the values of a node label."""

    max_skew: Int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
