"""Intern pods into shapes: pods that scheduling cannot tell apart share one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from tierwise.api.core import Pod, PodSpec, PriorityClass
from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.elastic_quota import firm
from tierwise.dialects.qos import qos_class
from tierwise.dialects.requests import Ports, effective_request, firm_request
from tierwise.dialects.services import service_of
from tierwise.model.pod_terms import label_keys
from tierwise.model.resources import POD_SLOTS, Axis, ceiling
from tierwise.model.shape import Shape

__all__ = ["Priorities", "Shapes", "resource_names"]

_encode = msgspec.msgpack.Encoder().encode


class Priorities:
    """The value of a pod's priority: its own, its class's, or the global default's."""

    def __init__(self, classes: Mapping[str, PriorityClass]) -> None:
        self._classes = classes
        self._default = next((c.value for c in classes.values() if c.global_default), 0)

    def of_class(self, name: str) -> int:
        found = self._classes.get(name)
        return found.value if found is not None else self._default

    def of(self, spec: PodSpec) -> int:
        return spec.priority if spec.priority is not None else self.of_class(spec.priority_class_name)

    def never(self, spec: PodSpec) -> bool:
        """Whether a pod must not cause evictions."""
        named = self._classes.get(spec.priority_class_name)
        policy = spec.preemption_policy or (named.preemption_policy if named is not None else "")
        return policy == "Never"


def resource_names(pods: Iterable[Pod]) -> set[str]:
    """Every resource that some container names."""
    names: set[str] = set()
    for pod in pods:
        spec = pod.spec
        names.update(spec.overhead)
        if spec.resources is not None:
            names.update(spec.resources.requests)
        for container in (*spec.containers, *spec.init_containers):
            names.update(container.resources.requests, container.resources.limits)
    return names


class Shapes:
    """The shapes of a cycle, in the order in which they were first met.

    `firmness` says that what non-preemptible pods ask for is counted apart as well.
    """

    def __init__(
        self,
        axis: Axis,
        ports: Ports,
        priorities: Priorities,
        pods: Iterable[Pod],
        *,
        nodes: int,
        profile: Profile = DEFAULT,
        firmness: bool = False,
    ) -> None:
        self._axis = axis
        self._firmness = firmness
        self._own_plugins = frozenset(profile.schedulers[1:])
        self._backfills = profile.backfills
        self._ports = ports
        self._priorities = priorities
        self._most = ceiling(nodes)
        self._watched = sorted(_watched(pods))
        self._known: dict[bytes, Shape] = {}
        self.all: list[Shape] = []

    def of(self, pod: Pod) -> Shape:
        spec, labels = pod.spec, pod.metadata.labels
        seen = {key: labels[key] for key in self._watched if key in labels} if self._watched else {}
        identity = _encode(
            (
                pod.metadata.namespace,
                seen,
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                self._priorities.of(spec),
                self._priorities.never(spec),
                self._scheduler(spec),
                service_of(labels),
                self._firm(pod),
            )
        )
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = self._make(pod, seen)
            self.all.append(found)
        return found

    def _firm(self, pod: Pod) -> bool:
        return self._firmness and firm(pod.metadata)

    def _scheduler(self, spec: PodSpec) -> str:
        return spec.scheduler_name if spec.scheduler_name in self._own_plugins else ""

    def _make(self, pod: Pod, labels: dict[str, str]) -> Shape:
        spec = pod.spec
        asked = effective_request(spec)
        apart = firm_request(asked) if self._firm(pod) else {}
        everything = {**asked, **apart, **self._ports.request(spec), POD_SLOTS: 1}
        request = np.minimum(self._axis.vector(everything), self._most)
        return Shape(
            number=len(self.all),
            request=request,
            asked=np.flatnonzero(request),
            namespace=pod.metadata.namespace or "default",
            labels=labels,
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            spread=spec.topology_spread_constraints,
            images=tuple(c.image for c in spec.containers),
            priority=self._priorities.of(spec),
            best_effort=not asked and self._backfills,
            never_preempts=self._priorities.never(spec),
            qos=qos_class(spec),
            service=service_of(pod.metadata.labels),
            scheduler=self._scheduler(spec),
        )


def _watched(pods: Iterable[Pod]) -> set[str]:
    keys: set[str] = set()
    for pod in pods:
        if pod.spec.affinity is not None or pod.spec.topology_spread_constraints:
            keys |= label_keys(pod.spec.affinity, pod.spec.topology_spread_constraints)
    return keys
