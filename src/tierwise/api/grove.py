"""Grove's PodGang: what its operator asks of a scheduler for a PodCliqueSet.

Built by the codec; `dialects.grove` gives it its meaning.
"""

from tierwise.api.core import Condition, Int, ObjectMeta, Record

__all__ = ["GROUP", "PodGang", "PodGangSpec", "TopologyConstraint"]

GROUP = "scheduler.grove.io"


class PackConstraint(Record, frozen=True):
    """Keys of node labels: one domain of the first must hold the pods, one of the second should."""

    required: str = ""
    preferred: str = ""


class TopologyConstraint(Record, frozen=True):
    """How close pods must be."""

    pack_constraint: PackConstraint = PackConstraint()


class PodGangGroup(Record, frozen=True):
    """Pods of one PodClique."""

    name: str = ""
    min_replicas: Int = 0
    topology_constraint: TopologyConstraint | None = None


class ConstraintGroup(Record, frozen=True):
    """A constraint for some of the groups together."""

    name: str = ""
    pod_group_names: tuple[str, ...] = ()
    topology_constraint: TopologyConstraint | None = None


class GangReference(Record, frozen=True):
    """Another PodGang."""

    name: str = ""
    namespace: str = ""


class PodGangSpec(Record, frozen=True):
    """Conditions under which a gang may start."""

    podgroups: tuple[PodGangGroup, ...] = ()
    topology_constraint: TopologyConstraint | None = None
    topology_constraint_group_configs: tuple[ConstraintGroup, ...] = ()
    priority_class_name: str = ""
    reuse_reservation_ref: GangReference | None = None  # whose place it takes over


class PodGangStatus(Record, frozen=True):
    """Reported state of a gang."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class PodGang(Record, frozen=True):
    """Groups of pods that start together or not at all."""

    metadata: ObjectMeta
    spec: PodGangSpec = PodGangSpec()
    status: PodGangStatus = PodGangStatus()
