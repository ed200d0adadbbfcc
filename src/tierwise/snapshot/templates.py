"""Templates: what the pods made from one pattern have in common, whatever else a cluster holds.

Tens of thousands of pods come from a few hundred patterns. What concerns every pod of a cluster, such as the resources
that pods name, is read from templates, and shapes are made from them.

The nodes that a pod may run on are no part of its template once it has one: it is not placed again. A DaemonSet's
controller pins every pod to its node, so there would be as many templates as pods.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Affinity, Pod, PodSpec, Toleration
from tierwise.dialects.kubernetes.requests import HostPort, Ports, counted, host_ports
from tierwise.model.pod_terms import label_keys, namespace_keys

__all__ = ["Common", "Template", "Templates", "has_node_rules"]

_Key = tuple[bytes, int | None, str, str, str]
_encode = msgspec.msgpack.Encoder(order="deterministic").encode  # in whatever order a file names resources
_PLACED: tuple[dict[str, str], Affinity | None, tuple[Toleration, ...]] = ({}, None, ())
"""The node selector, affinity and tolerations of a pod whose node is settled."""


class _Named(msgspec.Struct, frozen=True):
    """Names in the pods of one template, see `Common`; most templates of a cluster name the same."""

    resources: frozenset[str]
    ports: tuple[HostPort, ...]
    watched: frozenset[str]
    namespace_keys: frozenset[str]
    priority_class: str
    has_priority: bool  # of its own


class Template(msgspec.Struct, eq=False):
    """One pattern, and how many pods follow it."""

    body: bytes  # what its pods ask of nodes and of other pods, comparable
    namespace: str
    spec: PodSpec  # of one of the pods; what differs between them is not to be read from here
    named: _Named  # what it adds to that of others, see `Common`
    pods: int = 0


class Common(msgspec.Struct, frozen=True):
    """Names in all pods of a cluster together."""

    resources: frozenset[str]
    ports: Ports
    watched: tuple[str, ...]  # the label keys that some selector among them looks at
    namespace_keys: tuple[str, ...] = ()  # the label keys of namespaces that some selector among them looks at
    classes: frozenset[str] = frozenset()  # priority classes of those without a priority of their own
    class_names: frozenset[str] = frozenset()  # those of all


class Templates:
    """The templates that pods follow at the moment."""

    def __init__(self) -> None:
        self._known: dict[_Key, Template] = {}
        self._naming: dict[_Named, int] = {}  # how many of them name the same
        self._common: Common | None = None

    def __iter__(self) -> Iterator[Template]:
        return iter(self._known.values())

    def join(self, pod: Pod) -> Template:
        """The template of a pod that comes."""
        spec = counted(pod)
        bound = bool(spec.node_name) and has_node_rules(spec)
        selector, affinity, tolerations = _PLACED if bound else (spec.node_selector, spec.affinity, spec.tolerations)
        if bound and spec.affinity is not None:
            affinity = _between_pods(spec.affinity)
        parts = (
            pod.metadata.namespace,
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            selector,
            affinity,
            tolerations,
            spec.topology_spread_constraints,
        )
        try:
            body = _encode(parts)
        except OverflowError:  # a bare number in a file, beyond 64 bits: as a text it is compared as well
            body = repr(parts).encode()
        key = _key(body, spec)
        template = self._known.get(key)
        if template is None:
            if bound:
                spec = replace(spec, node_selector=selector, affinity=affinity, tolerations=tolerations)
            template = self._known[key] = Template(body, pod.metadata.namespace, spec, _named(spec))
            if template.named not in self._naming:
                self._naming[template.named], self._common = 0, None
            self._naming[template.named] += 1
        template.pods += 1
        return template

    def leave(self, template: Template) -> None:
        """A pod that followed it goes."""
        template.pods -= 1
        if not template.pods:
            del self._known[_key(template.body, template.spec)]
            self._naming[template.named] -= 1
            if not self._naming[template.named]:
                del self._naming[template.named]
                self._common = None

    def common(self) -> Common:
        """Names in all present templates together."""
        if self._common is None:
            naming = [*self._naming]
            self._common = Common(
                frozenset[str]().union(*(named.resources for named in naming)),
                Ports(port for named in naming for port in named.ports),
                tuple(sorted({key for named in naming for key in named.watched})),
                tuple(sorted({key for named in naming for key in named.namespace_keys})),
                frozenset(named.priority_class for named in naming if not named.has_priority),
                frozenset(named.priority_class for named in naming),
            )
        return self._common


def has_node_rules(spec: PodSpec) -> bool:
    """Whether a pod says which nodes it may stand on."""
    pinned = spec.affinity is not None and spec.affinity.node_affinity is not None
    return pinned or bool(spec.node_selector) or bool(spec.tolerations)


def _between_pods(affinity: Affinity) -> Affinity | None:
    """Affinity without its rules about nodes: rules about pods apply for as long as a pod runs. None without any."""
    if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return None
    return replace(affinity, node_affinity=None)


def _key(body: bytes, spec: PodSpec) -> _Key:
    return body, spec.priority, spec.priority_class_name, spec.preemption_policy, spec.scheduler_name


def _named(spec: PodSpec) -> _Named:
    ruled = spec.affinity is not None or spec.topology_spread_constraints
    return _Named(
        frozenset(_resources(spec)),
        tuple(host_ports(spec)),
        frozenset(label_keys(spec.affinity, spec.topology_spread_constraints) if ruled else ()),
        frozenset(namespace_keys(spec.affinity) if spec.affinity is not None else ()),
        spec.priority_class_name,
        spec.priority is not None,
    )


def _resources(spec: PodSpec) -> set[str]:
    """Every resource that some container names."""
    names = {*spec.overhead}
    if spec.resources is not None:
        names.update(spec.resources.requests)
    for container in (*spec.containers, *spec.init_containers):
        names.update(container.resources.requests, container.resources.limits)
    return names
