"""The defaults that an API server writes into a pod before a scheduler sees it.

Called by the codec for every pod that is decoded, so that a pod from a file and the same pod from an API server are
read alike, and by the readers of pod templates. Never changes a value that is set.

- A limit without a request is a request, of a container and of the pod as a whole.
- Requests of the whole pod for cpu and memory default to what its containers ask for, then to its limits.
- Limits of the whole pod for huge pages default to the sum of its containers' limits.
- With hostNetwork every container port is a host port.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tierwise.api.core import Container, Pod, PodSpec, ResourceList, ResourceRequirements
from tierwise.api.quantity import LARGEST, amount, show

__all__ = ["container_requests", "filled", "filled_pod", "whole_pod_resource"]

_PAIR = ("cpu", "memory")
_HUGE = "hugepages-"
_NOTHING: Mapping[str, int] = {}


def whole_pod_resource(name: str) -> bool:
    """Whether a pod as a whole may ask for a resource, beside its containers."""
    return name in _PAIR or name.startswith(_HUGE)


def filled_pod(pod: Pod) -> Pod:
    """A pod with every default; the same record where none is missing."""
    spec = filled(pod.spec)
    return pod if spec is pod.spec else replace(pod, spec=spec)


def filled(spec: PodSpec) -> PodSpec:
    """A pod's spec with every default; the same record where none is missing."""
    containers = _filled(spec.containers, host=spec.host_network)
    init_containers = _filled(spec.init_containers, host=spec.host_network)
    if containers is not spec.containers or init_containers is not spec.init_containers:
        spec = replace(spec, containers=containers, init_containers=init_containers)
    if spec.resources is None or not (spec.resources.limits or spec.resources.requests):
        return spec
    resources = _filled_whole(spec, spec.resources)
    if resources is spec.resources:
        return spec
    return replace(spec, resources=resources)


def _filled(containers: tuple[Container, ...], *, host: bool) -> tuple[Container, ...]:
    changed = tuple(_container(container, host=host) for container in containers)
    if any(a is not b for a, b in zip(changed, containers, strict=True)):
        return changed
    return containers


def _container(container: Container, *, host: bool) -> Container:
    resources = container.resources
    if any(name not in resources.requests for name in resources.limits):
        container = replace(
            container, resources=replace(resources, requests={**resources.limits, **resources.requests})
        )
    if host and any(not port.host_port for port in container.ports):
        ports = tuple(replace(p, host_port=p.host_port or p.container_port) for p in container.ports)
        container = replace(container, ports=ports)
    return container


def _filled_whole(spec: PodSpec, resources: ResourceRequirements) -> ResourceRequirements:
    limits = dict(resources.limits)
    requests = dict(resources.requests)
    for name, number in container_requests(spec, limits=True).items():
        if name.startswith(_HUGE) and name not in requests and name not in limits:
            limits[name] = show(name, min(number, LARGEST))
    if limits:
        for name, number in container_requests(spec).items():
            if name in _PAIR and name not in requests:
                requests[name] = show(name, min(number, LARGEST))
        for name, quantity in limits.items():
            if whole_pod_resource(name) and name not in requests:
                requests[name] = quantity
    if limits == resources.limits and requests == resources.requests:
        return resources
    return replace(resources, limits=limits, requests=requests)


def container_requests(spec: PodSpec, *, limits: bool = False, missing: Mapping[str, int] = _NOTHING) -> dict[str, int]:
    """Sum of the containers' requests, or of their limits, and at least what the start of the pod needs.

    `missing` replaces what a container does not ask for.

    Init containers with restartPolicy Always run beside the others once they have started, as Kubernetes counts them.
    """

    def own(container: Container) -> dict[str, int]:
        quantities: ResourceList = container.resources.limits if limits else container.resources.requests
        if not limits and container.resources.limits:
            quantities = {**container.resources.limits, **quantities}
        return {**missing, **{name: amount(name, quantity) for name, quantity in quantities.items()}}

    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _add(running, own(container))
            _raise(peak, running)
        else:
            request = own(container)
            _add(request, running)
            _raise(peak, request)
    for container in spec.containers:
        _add(running, own(container))
    _raise(peak, running)
    return peak


def _add(total: dict[str, int], added: dict[str, int]) -> None:
    for name, number in added.items():
        total[name] = total.get(name, 0) + number


def _raise(peak: dict[str, int], minimum: dict[str, int]) -> None:
    for name, number in minimum.items():
        peak[name] = max(peak.get(name, 0), number)
