"""Intern pods into shapes: pods that scheduling cannot tell apart share one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Pod, PodSpec, PriorityClass
from tierwise.api.quantity import milli
from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.elastic_quota import firm
from tierwise.dialects.kubernetes.requests import effective_request, firm_request, guesses
from tierwise.dialects.kubernetes.volumes import ReadVolumes
from tierwise.dialects.languages import whose
from tierwise.dialects.network_aware.services import GROUP_LABEL, Homes, service_of
from tierwise.dialects.pod_marks import queue_of
from tierwise.model.arrays import POD_SLOTS, UNOFFERED, Axis, Ints
from tierwise.model.job import Shape, plain_shape
from tierwise.model.services import Service
from tierwise.model.volumes import ATTACH_PREFIX, PodVolumes
from tierwise.snapshot.budgets import Covering
from tierwise.snapshot.devices import NOTHING_ASKED, Asked
from tierwise.snapshot.templates import Common, Template

__all__ = ["BEST_EFFORT", "BUILT_IN", "BURSTABLE", "GUARANTEED", "Priorities", "ReadBy", "Shapes", "qos_class"]


# The quality-of-service class of a pod, by Kubernetes' rules: how firmly it asks for cpu and memory.


GUARANTEED: Final = 0
BURSTABLE: Final = 1
BEST_EFFORT: Final = 2

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: PodSpec) -> int:
    """Guaranteed where every container limits cpu and memory and asks for just that; best effort where none asks."""
    everyone = (*spec.containers, *spec.init_containers)
    if not any(container.resources.limits for container in everyone):  # it cannot be guaranteed
        asks = any(milli(c.resources.requests.get(name, 0)) for c in everyone for name in _COUNTED)
        return BURSTABLE if asks else BEST_EFFORT
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for container in everyone:
        resources = container.resources
        for name in _COUNTED:
            limit = milli(resources.limits.get(name, 0))
            limits[name] = limits.get(name, 0) + limit
            requests[name] = requests.get(name, 0) + milli(resources.requests.get(name, resources.limits.get(name, 0)))
            all_limited = all_limited and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    if all_limited and requests == limits:
        return GUARANTEED
    return BURSTABLE


class _Key(msgspec.Struct, frozen=True):
    """Properties of pods that scheduling can see; pods with equal keys are interchangeable."""

    body: bytes  # of their template
    priority: int
    never_preempts: bool
    scheduler: str
    labels: tuple[tuple[str, str], ...]
    service: Service | None
    firm: bool
    group: str  # whose pods they are, where the profile ties queues to nodes; else ""
    devices: bytes  # what they ask of devices, comparable
    volumes: bytes  # what their volumes allow


_FEW = 64
_LEAST = -(2**31)
"""The API counts priorities in 32 bits; what a file says beyond that counts as the limit."""

BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every API server has; a file need not."""


class Priorities:
    """The value of a pod's priority: its own, its class's, or the global default's (of several, the lowest)."""

    def __init__(self, classes: Mapping[str, PriorityClass]) -> None:
        self._classes = classes
        self._values = {**BUILT_IN, **{name: _bounded(record.value) for name, record in classes.items()}}
        self._default = min(
            (self._values[name] for name, record in classes.items() if record.global_default), default=0
        )

    def knows(self, name: str) -> bool:
        """Whether there is a class of this name; none is meant by an empty one."""
        return not name or name in self._values

    def of_class(self, name: str) -> int:
        return self._values.get(name, self._default)

    def meant(self, name: str) -> tuple[int, str]:
        """All that follows from naming a class: the priority, and whether one may preempt."""
        named = self._classes.get(name)
        return self.of_class(name), named.preemption_policy if named is not None else ""

    def of(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return _bounded(spec.priority)
        return self.of_class(spec.priority_class_name)

    def never(self, spec: PodSpec) -> bool:
        """Whether a pod must not cause evictions."""
        named = self._classes.get(spec.priority_class_name)
        policy = spec.preemption_policy or (named.preemption_policy if named is not None else "")
        return policy == "Never"


def _bounded(priority: int) -> int:
    return max(_LEAST, min(priority, -_LEAST))


class ReadBy(msgspec.Struct, frozen=True, eq=False):
    """Inputs that all tasks of a cluster are read with."""

    axis: Axis
    most: Ints  # by resource: who asks for more, which no node has, counts as asking for so much, and fits nowhere
    common: Common
    priorities: Priorities
    nodes: Mapping[str, int]  # the numbers of nodes by name
    budgets: Covering
    namespaces: Mapping[str, dict[str, str]]  # the labels of namespaces that selectors look at
    apps: Mapping[str, Homes]  # where applications are
    firmness: bool  # what non-preemptible pods ask for is counted apart as well


class _Known(msgspec.Struct, eq=False):
    """A shape with what it is made from, and how many pods have it."""

    key: _Key
    template: Template
    devices: Asked
    volumes: PodVolumes | None
    number: int
    pods: int = 0


class Shapes:
    """The shapes of the pods that are here, numbered in the order in which they were first met.

    The number of a shape that no pod has any more goes to the next new one; until then it is that of a blank.
    """

    def __init__(self, by: ReadBy, profile: Profile = DEFAULT) -> None:
        self._by = by
        self._own_plugins = frozenset(profile.schedulers[1:])
        self._backfills = profile.backfills
        self._by_group = any(plugin.name == "nodegroup" for plugin in profile.plugins())
        self._known: dict[_Key, _Known] = {}
        self._here: list[_Known | None] = []  # by number; None for a blank
        self._all: list[Shape] = []  # the same
        self._blanks: list[int] = []
        self._of_template: dict[tuple[Template, tuple[tuple[str, str], ...]], _Known] = {}

    def adapt(self, by: ReadBy) -> None:
        """Read pods that come by these; of those that are here, whoever is another by them comes again."""
        self._by = by
        self._of_template.clear()

    def resize(self, by: ReadBy) -> None:
        """There are other resources or ports, or other limits of them: every shape is made again, under its number."""
        self.adapt(by)
        for number, entry in enumerate(self._here):
            self._all[number] = self._make(entry) if entry is not None else self._blank(number)

    @property
    def axis(self) -> Axis:
        """The resources that shapes count."""
        return self._by.axis

    def all(self) -> tuple[Shape, ...]:
        """Every shape at its number."""
        return tuple(self._all)

    def join(
        self, pod: Pod, template: Template, devices: Asked = NOTHING_ASKED, volumes: ReadVolumes | None = None
    ) -> Shape:
        """The shape of a pod that comes, with what it asks of devices and what its volumes allow."""
        labels = pod.metadata.labels
        spec = template.spec
        by = self._by
        # What else tells pods of one template apart few clusters have; where none is, most pods are known by it.
        alike = not (volumes or devices.key or self._by_group or by.firmness or GROUP_LABEL in labels)
        seen = self._seen(labels)
        if alike:
            shape_entry = self._of_template.get((template, seen))
            if shape_entry is not None and shape_entry.pods:
                shape_entry.pods += 1
                return self._all[shape_entry.number]
        key = _Key(
            body=template.body,
            priority=by.priorities.of(spec),
            never_preempts=by.priorities.never(spec),
            scheduler=spec.scheduler_name if spec.scheduler_name in self._own_plugins else "",
            labels=seen,
            service=service_of(labels, pod.metadata.namespace or "default", by.apps),
            firm=by.firmness and firm(pod.metadata),
            group=(whose(pod) or f"queue {queue_of(pod)}") if self._by_group else "",
            devices=devices.key,
            volumes=volumes.body if volumes is not None else b"",
        )
        shape = self._join(key, template, devices, volumes.terms if volumes is not None else None)
        if alike:
            if len(self._of_template) > 2 * len(self._all) + _FEW:
                self._of_template.clear()  # it holds templates that nobody follows any more
            self._of_template[template, seen] = self._of(shape)
        return shape

    def _join(self, key: _Key, template: Template, devices: Asked, volumes: PodVolumes | None) -> Shape:
        entry = self._known.get(key)
        if entry is None:
            if not self._blanks:
                self._blanks.append(len(self._all))
                self._all.append(self._blank(len(self._all)))
                self._here.append(None)
            number = self._blanks.pop()
            entry = self._known[key] = self._here[number] = _Known(key, template, devices, volumes, number)
            self._all[number] = self._make(entry)
        entry.pods += 1
        return self._all[entry.number]

    def _of(self, shape: Shape) -> _Known:
        entry = self._here[shape.number]
        assert entry is not None
        return entry

    def join_known(self, shape: Shape) -> Shape:
        """Count one more pod of a shape that other pods have already."""
        self._of(shape).pods += 1
        return shape

    def place(self, shape: Shape, template: Template) -> Shape:
        """The shape of a pod that had another one until it got its node, and follows this template with it."""
        entry = self._of(shape)
        if entry.key.body == template.body:
            return shape
        found = self._join(replace(entry.key, body=template.body), template, entry.devices, entry.volumes)
        self.leave(shape)
        return found

    def relabel(self, shape: Shape, labels: Mapping[str, str]) -> Shape:
        """New shape of a pod with these labels after the watched labels have changed; the pod is counted in it."""
        entry = self._of(shape)
        return self._join(replace(entry.key, labels=self._seen(labels)), entry.template, entry.devices, entry.volumes)

    def _seen(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Those of a pod's labels that are watched."""
        watched = self._by.common.watched
        if watched:
            return tuple((key, labels[key]) for key in watched if key in labels)
        return ()

    def leave(self, shape: Shape) -> None:
        """A pod that had it goes."""
        entry = self._of(shape)
        entry.pods -= 1
        if not entry.pods:
            del self._known[entry.key]
            self._here[entry.number], self._all[entry.number] = None, self._blank(entry.number)
            self._blanks.append(entry.number)

    def _make(self, entry: _Known) -> Shape:
        by = self._by
        key = entry.key
        template = entry.template
        devices = entry.devices
        volumes = entry.volumes
        spec = template.spec
        axis = by.axis
        asked = effective_request(spec)
        unasked, guessed = guesses(spec, asked)
        apart = firm_request(asked) if key.firm else {}
        unoffered = tuple(sorted(name for name in asked if name not in axis.index))
        offered = {name: number for name, number in {**asked, **apart}.items() if name in axis.index}
        everything = {**offered, **by.common.ports.request(spec), **devices.counts, POD_SLOTS: 1}
        if unoffered:
            everything[UNOFFERED] = 1
        for driver, attached in volumes.attached if volumes is not None else ():
            everything[f"{ATTACH_PREFIX}{driver}"] = attached
        vector = axis.vector(everything)
        request = np.minimum(vector, by.most)
        return Shape(
            number=entry.number,
            request=request,
            asked=np.flatnonzero(request),
            namespace=template.namespace or "default",
            labels=dict(key.labels),
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            spread=spec.topology_spread_constraints,
            images=tuple(c.image for c in (*spec.containers, *spec.init_containers)),
            priority=key.priority,
            best_effort=not asked and not devices.key and self._backfills,
            never_preempts=key.never_preempts,
            qos=qos_class(spec),
            service=key.service,
            scheduler=key.scheduler,
            unasked=unasked,
            guessed=guessed,
            namespace_labels=by.namespaces.get(template.namespace or "default", {}),
            unoffered=unoffered,
            devices=devices.ask,
            volumes=volumes,
            written={axis.names[r]: int(vector[r]) for r in np.flatnonzero(vector > request).tolist()},
        )

    def _blank(self, number: int) -> Shape:
        """A shape without wishes or labels, which nothing counts or places."""
        return plain_shape(number, self._by.axis.vector({POD_SLOTS: 1}), namespace="")
