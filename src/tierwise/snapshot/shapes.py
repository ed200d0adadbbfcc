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
from tierwise.dialects.koordinator.elastic_quota import firm
from tierwise.dialects.kubernetes.requests import effective_request, firm_request, guesses
from tierwise.dialects.kubernetes.volumes import ReadVolumes
from tierwise.dialects.languages import whose
from tierwise.dialects.network_aware.services import Homes, service_of
from tierwise.dialects.volcano.annotations import queue_of
from tierwise.model.arrays import Ints
from tierwise.model.resources import MOST, POD_SLOTS, UNOFFERED, Axis
from tierwise.model.services import Service
from tierwise.model.shape import Shape, plain_shape
from tierwise.model.volumes import ATTACH_PREFIX, PodVolumes
from tierwise.snapshot.devices import NOTHING_ASKED, Asked
from tierwise.snapshot.templates import Common, Template

__all__ = ["BEST_EFFORT", "BURSTABLE", "GUARANTEED", "Priorities", "Shapes", "qos_class"]


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
        given = container.resources
        for name in _COUNTED:
            limit = milli(given.limits.get(name, 0))
            limits[name] = limits.get(name, 0) + limit
            requests[name] = requests.get(name, 0) + milli(given.requests.get(name, given.limits.get(name, 0)))
            all_limited = all_limited and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE


_NO_LABELS: Mapping[str, dict[str, str]] = {}
_NO_APPS: Mapping[str, Homes] = {}


class _Key(msgspec.Struct, frozen=True):
    """What two pods have in common exactly where scheduling cannot tell them apart."""

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


_Source = tuple[Template, Asked, PodVolumes | None]
"""What a shape is made from."""

_LEAST = -(2**31)
"""The API counts priorities in 32 bits; what a file says beyond that counts as the limit."""

_BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every API server has; a file need not."""


_KEPT = 256
"""Shapes that are remembered though no pod has them."""


class Priorities:
    """The value of a pod's priority: its own, its class's, or the global default's (of several, the lowest)."""

    def __init__(self, classes: Mapping[str, PriorityClass]) -> None:
        self._classes = classes
        self._values = {**_BUILT_IN, **{name: _bounded(record.value) for name, record in classes.items()}}
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
        return _bounded(spec.priority) if spec.priority is not None else self.of_class(spec.priority_class_name)

    def never(self, spec: PodSpec) -> bool:
        """Whether a pod must not cause evictions."""
        named = self._classes.get(spec.priority_class_name)
        policy = spec.preemption_policy or (named.preemption_policy if named is not None else "")
        return policy == "Never"


def _bounded(priority: int) -> int:
    return max(_LEAST, min(priority, -_LEAST))


class Shapes:
    """The shapes of the pods that are here, numbered in the order in which they were first met.

    The number of a shape that no pod has any more goes to the next new one; until then a blank stands in its place.
    `firmness` says that what non-preemptible pods ask for is counted apart as well; `namespaces` are the labels of
    namespaces that selectors look at, `apps` where applications are. A pod that asks for more than `most` of a
    resource, which is more than any node has, counts as asking for so much: it fits nowhere either way.
    """

    def __init__(
        self,
        axis: Axis,
        common: Common,
        priorities: Priorities,
        *,
        most: Ints,
        profile: Profile = DEFAULT,
        firmness: bool = False,
        namespaces: Mapping[str, dict[str, str]] = _NO_LABELS,
        apps: Mapping[str, Homes] = _NO_APPS,
    ) -> None:
        self._axis = axis
        self._namespaces = namespaces
        self._apps = apps
        self._firmness = firmness
        self._own_plugins = frozenset(profile.schedulers[1:])
        self._backfills = profile.backfills
        self._by_group = any(plugin.name == "nodegroup" for plugin in profile.plugins())
        self._ports = common.ports
        self._watched = common.watched
        self._priorities = priorities
        self._most = most
        self._known: dict[_Key, Shape] = {}
        self._keys: list[_Key | None] = []  # by number; None where a blank stands
        self._sources: list[_Source | None] = []  # what each was made from
        self._pods: list[int] = []
        self._all: list[Shape] = []
        self._blanks: list[int] = []
        self._nothing = self._blank(0)
        self._former: dict[_Key, Shape] = {}  # that no pod has any more: jobs of one kind come again and again

    def adapt(
        self,
        common: Common,
        priorities: Priorities,
        namespaces: Mapping[str, dict[str, str]],
        apps: Mapping[str, Homes],
    ) -> None:
        """Read pods that come by these; of those that are here, whoever is another by them comes again."""
        self._watched, self._priorities = common.watched, priorities
        self._namespaces, self._apps = namespaces, apps
        self._former.clear()

    def resize(self, axis: Axis, common: Common, most: Ints) -> None:
        """There are other resources or ports, or other limits of them: every shape is made anew, under its number."""
        self._axis, self._ports, self._most = axis, common.ports, most
        self._former.clear()
        for number, (key, source) in enumerate(zip(self._keys, self._sources, strict=True)):
            if key is not None and source is not None:
                self._all[number] = self._known[key] = self._make(number, key, *source)
            else:
                self._all[number] = self._blank(number)

    @property
    def axis(self) -> Axis:
        """The resources that shapes count."""
        return self._axis

    def countable(self) -> bool:
        """Whether what all pods ask for together stays below `MOST`, and so every sum of some of them."""
        here = [(shape.request, count) for shape, count in zip(self._all, self._pods, strict=True) if count]
        if not here:
            return True
        asked = np.stack([request for request, _ in here], axis=1)
        counts = np.array([count for _, count in here])
        return bool(((asked * counts.astype(np.float64)).sum(axis=1) < MOST).all())

    def all(self) -> tuple[Shape, ...]:
        """Every shape at its number."""
        return tuple(self._all)

    def join(
        self, pod: Pod, template: Template, devices: Asked = NOTHING_ASKED, volumes: ReadVolumes | None = None
    ) -> Shape:
        """The shape of a pod that comes, with what it asks of devices and what its volumes allow."""
        labels, spec = pod.metadata.labels, template.spec
        key = _Key(
            body=template.body,
            priority=self._priorities.of(spec),
            never_preempts=self._priorities.never(spec),
            scheduler=spec.scheduler_name if spec.scheduler_name in self._own_plugins else "",
            labels=self._seen(labels),
            service=service_of(labels, pod.metadata.namespace or "default", self._apps),
            firm=self._firmness and firm(pod.metadata),
            group=(whose(pod) or f"queue {queue_of(pod)}") if self._by_group else "",
            devices=devices.key,
            volumes=volumes.body if volumes is not None else b"",
        )
        found = self._known.get(key)
        if found is None:
            found = self._enter(key, template, devices, volumes.terms if volumes is not None else None)
        return self.join_known(found)

    def join_known(self, shape: Shape) -> Shape:
        """The same where the shape of a pod that comes is known: it is one of those that are here."""
        self._pods[shape.number] += 1
        return shape

    def place(self, shape: Shape, template: Template) -> Shape:
        """The shape of a pod that had another one until it got its node, and follows this template with it."""
        former, source = self._keys[shape.number], self._sources[shape.number]
        assert former is not None
        assert source is not None
        if former.body == template.body:
            return shape
        key = replace(former, body=template.body)
        found = self._known.get(key)
        if found is None:
            found = self._enter(key, template, *source[1:])
        self.leave(shape)
        return self.join_known(found)

    def relabel(self, shape: Shape, labels: Mapping[str, str]) -> Shape:
        """What has become of the shape of a pod with these labels since others are watched; the pod comes once more."""
        former = self._keys[shape.number]
        assert former is not None
        key = replace(former, labels=self._seen(labels))
        found = self._known.get(key)
        if found is None:
            number = self._next_number()
            found = replace(shape, number=number, labels=dict(key.labels))
            self._note(found, key, self._sources[shape.number])
        return self.join_known(found)

    def _seen(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Those of a pod's labels that are watched."""
        return tuple((key, labels[key]) for key in self._watched if key in labels) if self._watched else ()

    def leave(self, shape: Shape) -> None:
        """A pod that had it goes."""
        number = shape.number
        self._pods[number] -= 1
        if not self._pods[number]:
            key = self._keys[number]
            assert key is not None
            del self._known[key]
            if not key.devices and not key.volumes:  # or it depends on more than its key
                self._former[key] = shape
                if len(self._former) > _KEPT:
                    del self._former[next(iter(self._former))]
            self._keys[number] = self._sources[number] = None
            self._all[number] = self._blank(number)
            self._blanks.append(number)

    def _enter(self, key: _Key, template: Template, devices: Asked, volumes: PodVolumes | None) -> Shape:
        number, former = self._next_number(), self._former.pop(key, None)
        if former is not None:
            made = replace(former, number=number)
        else:
            made = self._make(number, key, template, devices, volumes)
        self._note(made, key, (template, devices, volumes))
        return made

    def _next_number(self) -> int:
        if self._blanks:
            return self._blanks.pop()
        number = len(self._all)
        self._all.append(self._nothing)  # until it is made
        self._keys.append(None)
        self._sources.append(None)
        self._pods.append(0)
        return number

    def _note(self, made: Shape, key: _Key, source: _Source | None) -> None:
        self._all[made.number], self._known[key] = made, made
        self._keys[made.number], self._sources[made.number] = key, source

    def _make(self, number: int, key: _Key, template: Template, devices: Asked, volumes: PodVolumes | None) -> Shape:
        spec = template.spec
        asked = effective_request(spec)
        unasked, guessed = guesses(spec, asked)
        apart = firm_request(asked) if key.firm else {}
        unoffered = tuple(sorted(name for name in asked if name not in self._axis.index))
        known = {name: number for name, number in {**asked, **apart}.items() if name in self._axis.index}
        everything = {**known, **self._ports.request(spec), **devices.counts, POD_SLOTS: 1}
        if unoffered:
            everything[UNOFFERED] = 1
        for driver, attached in volumes.attached if volumes is not None else ():
            everything[f"{ATTACH_PREFIX}{driver}"] = attached
        vector = self._axis.vector(everything)
        request = np.minimum(vector, self._most)
        return Shape(
            number=number,
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
            namespace_labels=self._namespaces.get(template.namespace or "default", {}),
            unoffered=unoffered,
            devices=devices.ask,
            volumes=volumes,
            written={self._axis.names[r]: int(vector[r]) for r in np.flatnonzero(vector > request).tolist()},
        )

    def _blank(self, number: int) -> Shape:
        """A shape without wishes or labels, which nothing counts or places."""
        return plain_shape(number, self._axis.vector({POD_SLOTS: 1}), namespace="")
