"""What a pod asks of its node: the effective request of its containers, and host ports as resources.

A host port is a resource of which every node has one: `port/TCP/8080/0.0.0.0`. A pod that binds all addresses
takes the port of every address that any pod of the cycle names, so that one comparison finds each conflict.

What a non-preemptible pod asks for is counted twice: as it is, and as `firm/nvidia.com/gpu`, of which nodes have an
unlimited amount. So a sum over a queue's use also says how much of it cannot be preempted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from tierwise.api.core import Container, Pod, PodSpec, ResourceList, ResourceRequirements
from tierwise.api.limits import HOST_PORTS
from tierwise.api.pod_defaults import container_requests, filled, whole_pod_resource
from tierwise.api.quantity import LARGEST, amount
from tierwise.model.arrays import UNOFFERED
from tierwise.model.volumes import ATTACH_PREFIX

__all__ = [
    "FIRM_PREFIX",
    "PORT_PREFIX",
    "HostPort",
    "Ports",
    "counted",
    "effective_request",
    "firm_request",
    "guesses",
    "host_ports",
    "nominal",
]

PORT_PREFIX = "port/"
FIRM_PREFIX = "firm/"
_EVERYWHERE = "0.0.0.0"  # no other address means all: to Kubernetes "::" is one like any other
_NOTHING: Mapping[str, int] = {}
_GUESSED: Mapping[str, int] = {"cpu": 100, "memory": 200 * 2**20}
"""What Kubernetes' scores take a container to use that does not say so."""


def effective_request(spec: PodSpec, missing: Mapping[str, int] = _NOTHING) -> dict[str, int]:
    """Requests of the containers together, or of the pod as a whole if it states them, plus overhead; no zero amounts.
    A sum of more than can be counted counts as the largest amount, and a negative one, which the API server refuses in
    pods, as none. `missing` replaces what a container does not ask for.
    """
    totals = _added_up(filled(spec), missing)
    return {name: min(number, LARGEST) for name, number in totals.items() if number > 0}


def _added_up(spec: PodSpec, missing: Mapping[str, int]) -> dict[str, int]:
    """By every resource that is named, also with an amount of zero."""
    totals = container_requests(spec, missing=missing) | _of_whole_pod(spec)
    for name, quantity in spec.overhead.items():
        totals[name] = totals.get(name, 0) + amount(name, quantity)
    return totals


def _of_whole_pod(spec: PodSpec) -> dict[str, int]:
    pod_requests = spec.resources.requests if spec.resources is not None else {}
    return {name: amount(name, quantity) for name, quantity in pod_requests.items() if whole_pod_resource(name)}


def guesses(spec: PodSpec, stated: Mapping[str, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Cpu and memory that Kubernetes' scores take a pod to use, whose effective request this is.

    First, what it is taken to use besides what it asks for once it runs: where the pod asks for something as a whole,
    nothing of what is named anywhere. Then what NodeResourcesFit of Kubernetes 1.36 takes it to ask for as it comes:
    there it looks at containers alone, whatever the pod asks for as a whole.
    """
    if spec.resources is None:
        added = [_unsaid(spec, name) for name in _GUESSED]
        if None not in added:  # most pods: nothing need be added up again
            cpu, memory = (number or 0 for number in added)
            return (cpu, memory), (stated.get("cpu", 0) + cpu, stated.get("memory", 0) + memory)
    complete = filled(spec)
    named = _added_up(complete, _NOTHING) if _of_whole_pod(complete) else _NOTHING
    running = effective_request(spec, {name: guess for name, guess in _GUESSED.items() if name not in named})
    coming = running if not named else effective_request(replace(spec, resources=None), _GUESSED)
    cpu, memory = (running.get(name, 0) - stated.get(name, 0) for name in _GUESSED)
    return (cpu, memory), (coming.get("cpu", 0), coming.get("memory", 0))


def _unsaid(spec: PodSpec, name: str) -> int | None:
    """Assumed usage of all containers beyond their requests of a resource; None if only some of them state the
    resource, or if some run before the others.
    """
    everyone = (*spec.containers, *spec.init_containers)
    saying = sum(name in c.resources.requests or name in c.resources.limits for c in everyone)
    if saying == len(everyone):
        return 0
    if saying or spec.init_containers:
        return None
    return _GUESSED[name] * len(everyone)


def counted(pod: Pod) -> PodSpec:
    """The spec that a pod is counted by: its own, or with what its node gives it while it is resized in place.

    As Kubernetes counts: the most of what is asked for, what the node has set aside and what the containers have;
    where the node cannot ever give what is asked for, of the last two. The pod's own record where nothing differs.
    """
    status = pod.status
    spec = pod.spec
    if not status.container_statuses and not status.init_container_statuses and status.resources is None:
        return spec
    statuses = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses) if s.resources}
    if not statuses and status.resources is None:
        return spec
    pending = next((c for c in status.conditions if c.type == "PodResizePending"), None)
    infeasible = pending is not None and pending.reason == "Infeasible"

    def of(container: Container, *, sidecars: bool) -> Container:
        status = statuses.get(container.name)
        if status is None or status.resources is None or (sidecars and container.restart_policy != "Always"):
            return container
        declared = {} if infeasible else {**container.resources.limits, **container.resources.requests}
        larger = _most(declared, status.resources.requests, status.allocated_resources)
        if _amounts(larger) == _amounts({**container.resources.limits, **container.resources.requests}):
            return container
        return replace(container, resources=ResourceRequirements(requests=larger))

    containers = tuple(of(container, sidecars=False) for container in spec.containers)
    init_containers = tuple(of(container, sidecars=True) for container in spec.init_containers)
    if containers != spec.containers or init_containers != spec.init_containers:
        spec = replace(spec, containers=containers, init_containers=init_containers)
    return _with_pod_resources(pod, spec, infeasible=infeasible)


def _with_pod_resources(pod: Pod, spec: PodSpec, *, infeasible: bool) -> PodSpec:
    """The spec with what the node gives to the pod as a whole; `infeasible` says that it cannot give what is asked."""
    status = pod.status
    asked = spec.resources
    if asked is None or not asked.requests or status.resources is None:
        return spec
    larger = _most({} if infeasible else asked.requests, status.resources.requests, status.allocated_resources)
    requests = {name: larger.get(name, "0") for name in asked.requests}
    if _amounts(requests) == _amounts(asked.requests):
        return spec
    return replace(spec, resources=replace(asked, requests=requests))


def _most(*lists: ResourceList) -> ResourceList:
    """The largest amount of each resource."""
    largest: ResourceList = {}
    for amounts in lists:
        for name, quantity in amounts.items():
            if name not in largest or amount(name, quantity) > amount(name, largest[name]):
                largest[name] = quantity
    return largest


def _amounts(quantities: ResourceList) -> dict[str, int]:
    return {name: number for name, quantity in quantities.items() if (number := amount(name, quantity))}


def firm_request(totals: Mapping[str, int]) -> dict[str, int]:
    """Additional requests of a non-preemptible pod."""
    return {f"{FIRM_PREFIX}{name}": number for name, number in totals.items()}


def nominal(name: str) -> bool:
    """Whether it is a resource that people know by that name, and not one that only serves to count."""
    return not name.startswith((PORT_PREFIX, FIRM_PREFIX, ATTACH_PREFIX)) and name != UNOFFERED


HostPort = tuple[str, int, str]
"""Protocol, port and address."""


class Ports:
    """The host ports that pods of a cycle name, as resources."""

    def __init__(self, ports: Iterable[HostPort]) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = {}
        for protocol, port, address in ports:
            self._addresses.setdefault((protocol, port), {_EVERYWHERE}).add(address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ports) and self._addresses == other._addresses

    __hash__ = None  # type: ignore[assignment]  # they are compared, and never looked up

    def names(self) -> list[str]:
        """Every port resource of the cycle."""
        return [
            _name(protocol, port, address)
            for (protocol, port), addresses in self._addresses.items()
            for address in addresses
        ]

    def request(self, spec: PodSpec) -> dict[str, int]:
        """The port resources that a pod takes."""
        amounts: dict[str, int] = {}
        for protocol, port, address in host_ports(spec):
            everywhere = address == _EVERYWHERE
            for host_address in self._addresses[protocol, port] if everywhere else (address,):
                amounts[_name(protocol, port, host_address)] = 1
        return amounts


def host_ports(spec: PodSpec) -> list[HostPort]:
    """Those of a pod; none of a pod with more of them than are counted, which waits."""
    containers = (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
    ports = [
        (port.protocol or "TCP", port.host_port, port.host_ip or _EVERYWHERE)
        for container in containers
        for port in container.ports
        if port.host_port
    ]
    return ports if len(ports) <= HOST_PORTS else []


def _name(protocol: str, port: int, address: str) -> str:
    return f"{PORT_PREFIX}{protocol}/{port}/{address}"
