"""What a pod asks of its node: the effective request of its containers, and host ports as resources.

A host port is a resource of which every node has one: `port/TCP/8080/0.0.0.0`. A pod that binds all addresses
takes the port of every address that any pod of the cycle names, so that one comparison finds each conflict.

What a non-preemptible pod asks for is counted twice: as it is, and as `firm/nvidia.com/gpu`, of which nodes have no
end. So whoever tallies what queues use also knows how much of it cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.api.core import Container, PodSpec
from tierwise.api.quantity import amount

__all__ = ["FIRM_PREFIX", "PORT_PREFIX", "Ports", "effective_request", "firm_request", "nominal"]

PORT_PREFIX = "port/"
FIRM_PREFIX = "firm/"
_EVERYWHERE = "0.0.0.0"


def effective_request(spec: PodSpec) -> dict[str, int]:
    """Containers in sum, or the largest init container where that is more, plus overhead; zero amounts left out.

    Init containers with restartPolicy Always run beside the others from their turn on, as Kubernetes counts them.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        own = _requests(container)
        if container.restart_policy == "Always":
            _add(running, own)
            _raise(peak, running)
        else:
            _raise(peak, {name: own.get(name, 0) + running.get(name, 0) for name in {*own, *running}})
    for container in spec.containers:
        _add(running, _requests(container))
    _raise(peak, running)
    if spec.resources is not None:
        peak |= {name: amount(name, q) for name, q in spec.resources.requests.items()}
    _add(peak, {name: amount(name, q) for name, q in spec.overhead.items()})
    return {name: number for name, number in peak.items() if number}


def firm_request(asked: Mapping[str, int]) -> dict[str, int]:
    """What a non-preemptible pod asks for besides."""
    return {f"{FIRM_PREFIX}{name}": number for name, number in asked.items()}


def nominal(name: str) -> bool:
    """Whether it is a resource that people know by that name, and not one that only serves to count."""
    return not name.startswith((PORT_PREFIX, FIRM_PREFIX))


def _requests(container: Container) -> dict[str, int]:
    """A limit without a request is a request."""
    asked = {**container.resources.limits, **container.resources.requests}
    return {name: amount(name, q) for name, q in asked.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _raise(peak: dict[str, int], other: Mapping[str, int]) -> None:
    for name, number in other.items():
        peak[name] = max(peak.get(name, 0), number)


class Ports:
    """The host ports that pods of a cycle name, as resources."""

    def __init__(self, specs: Iterable[PodSpec]) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = {}
        for spec in specs:
            for protocol, port, address in _host_ports(spec):
                self._addresses.setdefault((protocol, port), {_EVERYWHERE}).add(address)

    def names(self) -> list[str]:
        """Every port resource of the cycle."""
        return [
            _name(protocol, port, address)
            for (protocol, port), addresses in self._addresses.items()
            for address in addresses
        ]

    def request(self, spec: PodSpec) -> dict[str, int]:
        """The port resources that a pod takes."""
        asked: dict[str, int] = {}
        for protocol, port, address in _host_ports(spec):
            everywhere = address == _EVERYWHERE
            for one in self._addresses[protocol, port] if everywhere else (address,):
                asked[_name(protocol, port, one)] = 1
        return asked


def _host_ports(spec: PodSpec) -> list[tuple[str, int, str]]:
    containers = (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip if port.host_ip not in ("", "::") else _EVERYWHERE)
        for container in containers
        for port in container.ports
        if port.host_port
    ]


def _name(protocol: str, port: int, address: str) -> str:
    return f"{PORT_PREFIX}{protocol}/{port}/{address}"
