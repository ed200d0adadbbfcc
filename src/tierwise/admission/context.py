"""What a check may know about other objects: queues, tier names, priority classes, capacities of domains.

Built once by `validate` and passed to every check. A file may describe only a part of a cluster, so a missing name is
an error only if other objects of its kind are given, and a warning otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.admission.capacity import TreeCapacity
from tierwise.admission.findings import Issue, error, warning
from tierwise.api.core import ConfigMap, ObjectMeta, Pod, PriorityClass
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.fabric import fabric_of
from tierwise.api.volcano import HyperNode, Queue
from tierwise.dialects.koordinator.network_topology import Layers
from tierwise.dialects.languages import tree_aliases
from tierwise.dialects.volcano.discovery import label_source
from tierwise.dialects.volcano.hypernodes import by_fabric
from tierwise.dialects.volcano.job import DEFAULT_QUEUE
from tierwise.model.topology import fabric_title
from tierwise.port import Objects

__all__ = ["ROOT_QUEUE", "ClusterContext", "Surroundings", "cluster_context"]

ROOT_QUEUE: Final = "root"
_BUILT_IN: Final = frozenset({"system-node-critical", "system-cluster-critical"})


class ClusterContext(msgspec.Struct, frozen=True):
    """The other objects, as far as they matter to one."""

    queues: Mapping[str, Queue]
    queues_below: Mapping[str, Sequence[Queue]]  # by the name of their parent
    quotas: frozenset[str]  # names of elastic quotas, which are queues as well
    priority_classes: Mapping[str, int]  # their values
    tiers: Mapping[str, int]  # that have names
    capacity: TreeCapacity | None  # None where no nodes are given
    fabrics: Mapping[str, Mapping[str, int]] = {}  # named tiers of each fabric that hyperNodes name
    numbers: Mapping[str, range] = {}  # from the lowest to the highest tier of each of them
    aliases: frozenset[str] = frozenset()  # fabrics that other trees are
    highest: int | None = None  # the highest tier of the hyperNodes that name no fabric; None where there are none

    def on_fabric_of(self, meta: ObjectMeta) -> ClusterContext:
        """The surroundings of an object whose constraints are about the fabric that it names."""
        return self.on_fabric(fabric_of(meta))

    def on_fabric(self, name: str) -> ClusterContext:
        """The surroundings on one of the fabrics; "" for the tree of the hyperNodes that name none."""
        if not name:
            return self
        highest = self.numbers[name][-1] if name in self.numbers else None
        return replace(self, tiers=self.fabrics.get(name, {}), capacity=None, highest=highest)

    def queue(self, path: str, name: str) -> Iterator[Issue]:
        """Issues of a reference to a queue; an empty one means the default queue, which always exists."""
        queue = self.queues.get(name or DEFAULT_QUEUE)
        if queue is not None and queue.status.state not in ("", "Open"):
            yield error(path, f'queue "{queue.metadata.name}" is {queue.status.state}, not Open')
        elif queue is not None or name in ("", DEFAULT_QUEUE) or name in self.quotas:
            return
        elif self.queues:
            yield error(path, f'queue "{name}" does not exist')
        else:
            yield warning(path, f'queue "{name}" is not among these objects: jobs wait while their queue is missing')

    def priority_class(self, path: str, name: str) -> Iterator[Issue]:
        """A warning for a reference to a priority class that is missing among those given."""
        if name and name not in self.priority_classes and name not in _BUILT_IN:
            missing = "does not exist" if self.priority_classes else "is not among these objects"
            yield warning(path, f'priority class "{name}" {missing}: Kubernetes refuses pods that name one like that')


class Surroundings(msgspec.Struct, frozen=True):
    """The objects and limits that the check of an object which declares a gang may look at."""

    objects: Objects
    cluster: ClusterContext
    layers: Layers | None  # of the network, where there is a usable tree of them
    members: Mapping[str, Sequence[Pod]]  # the pods of Volcano's podGroups


def cluster_context(objects: Objects, capacity: TreeCapacity | None) -> ClusterContext:
    """The surroundings of every object in a collection."""
    queues = objects.every(Queue)
    tiers: dict[str, int] = {}
    source = label_source(objects.every(ConfigMap).values())
    for type_ in source.types if source else ():
        # HyperNodes that discovery is going to make are as good as those that are there.
        tiers.update((key, tier) for tier, key in enumerate(type_.keys, start=1))
    hypernodes = by_fabric(objects.every(HyperNode).values())
    heights = [*tiers.values(), *(member.spec.tier for member in hypernodes.get("", ()))]
    fabrics = {name: _named_tiers(members) for name, members in hypernodes.items()}
    numbers = {name: [member.spec.tier for member in members] for name, members in hypernodes.items() if name}
    for name, tier in fabrics.pop("", {}).items():
        tiers[name] = min(tier, tiers.get(name, tier))
    return ClusterContext(
        queues=queues,
        queues_below=_by_parent(queues.values()),
        quotas=frozenset(quota.metadata.name for quota in objects.every(ElasticQuota).values()),
        priority_classes={name: record.value for name, record in objects.every(PriorityClass).items()},
        tiers=tiers,
        capacity=capacity,
        fabrics=fabrics,
        numbers={name: range(min(numbers_seen), max(numbers_seen) + 1) for name, numbers_seen in numbers.items()},
        highest=max(heights, default=None),
        aliases=frozenset(fabric_title(kind) for kind in tree_aliases(objects)),
    )


def _by_parent(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    below: dict[str, list[Queue]] = {}
    for queue in queues:
        if queue.spec.parent:
            below.setdefault(queue.spec.parent, []).append(queue)
    return below


def _named_tiers(hypernodes: Iterable[HyperNode]) -> dict[str, int]:
    """Where one name means several tiers the tightest reading holds, as in the scheduler."""
    tiers: dict[str, int] = {}
    for hypernode in hypernodes:
        name = hypernode.spec.tier_name
        tier = hypernode.spec.tier
        if name:
            tiers[name] = min(tier, tiers.get(name, tier))
    return tiers
