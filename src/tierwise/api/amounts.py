"""Which fields of which objects hold quantities, and the check that all of them can be counted.

Called by the codec on every object it decodes; kinds registered elsewhere bring a function of the same form. Finds
the fields, judges each amount once (memoised: a cluster repeats few amounts many times), changes nothing.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tierwise.api.core import Node, Pod, PodSpec, ResourceList, ResourceQuota
from tierwise.api.errors import InputError
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.quantity import Quantity, amount
from tierwise.api.volcano import Job, PodGroup, Queue

__all__ = ["Field", "check", "of_gang", "of_job", "of_node", "of_pod", "of_pod_group", "of_queue", "of_resource_quota"]

_NEGATIVE = "is negative"

Field = tuple[str, ResourceList]
"""The path of a field and the amounts in it."""


def check(fields: Iterable[Field], *, signed: bool = False) -> None:
    """InputError names the first amount that is not a quantity or, unless signed, negative."""
    for path, amounts in fields:
        for resource, quantity in amounts.items():
            fault = _fault(resource, quantity)
            if fault is not None and not (signed and fault.endswith(_NEGATIVE)):
                raise InputError(fault, field=f"{path}.{resource}".removeprefix("."))


def of_node(node: Node) -> Iterator[Field]:
    """The amounts of a node."""
    yield "status.allocatable", node.status.allocatable
    yield "status.capacity", node.status.capacity


def of_pod(pod: Pod) -> Iterator[Field]:
    """The amounts of a pod, as asked for and as given."""
    yield from _of_pod_spec(pod.spec, "spec")
    status = pod.status
    for name, given in (("container", status.container_statuses), ("initContainer", status.init_container_statuses)):
        for index, one in enumerate(given):
            if one.resources is not None:
                yield f"status.{name}Statuses[{index}].resources.requests", one.resources.requests
                yield f"status.{name}Statuses[{index}].allocatedResources", one.allocated_resources
    if status.resources is not None:
        yield "status.resources.requests", status.resources.requests
        yield "status.allocatedResources", status.allocated_resources


def of_job(job: Job) -> Iterator[Field]:
    """The amounts in the templates of a job."""
    for index, task in enumerate(job.spec.tasks):
        yield from _of_pod_spec(task.template.spec, f"spec.tasks[{index}].template.spec")


def of_pod_group(group: PodGroup) -> Iterator[Field]:
    """The amounts of a pod group."""
    if group.spec.min_resources is not None:
        yield "spec.minResources", group.spec.min_resources


def of_gang(gang: Gang) -> Iterator[Field]:
    """The amounts of one of Koordinator's pod groups."""
    if gang.spec.min_resources is not None:
        yield "spec.minResources", gang.spec.min_resources


def of_queue(queue: Queue) -> Iterator[Field]:
    """The amounts of a queue."""
    yield "spec.capability", queue.spec.capability
    yield "spec.deserved", queue.spec.deserved
    yield "spec.guarantee.resource", queue.spec.guarantee.resource
    yield "status.allocated", queue.status.allocated


def of_resource_quota(quota: ResourceQuota) -> Iterator[Field]:
    """The amounts of a namespace's quota."""
    yield "spec.hard", quota.spec.hard
    yield "status.hard", quota.status.hard
    yield "status.used", quota.status.used


def _of_pod_spec(spec: PodSpec, path: str) -> Iterator[Field]:
    for index, container in enumerate(spec.containers):
        yield f"{path}.containers[{index}].resources.requests", container.resources.requests
        yield f"{path}.containers[{index}].resources.limits", container.resources.limits
    for index, container in enumerate(spec.init_containers):
        yield f"{path}.initContainers[{index}].resources.requests", container.resources.requests
        yield f"{path}.initContainers[{index}].resources.limits", container.resources.limits
    yield f"{path}.overhead", spec.overhead
    if spec.resources is not None:
        yield f"{path}.resources.requests", spec.resources.requests
        yield f"{path}.resources.limits", spec.resources.limits


@lru_cache(maxsize=65536, typed=True)
def _fault(resource: str, quantity: Quantity) -> str | None:
    """What is wrong with an amount, None where it can be counted."""
    try:
        count = amount(resource, quantity)
    except ValueError as error:
        return str(error)
    return f'"{quantity}" {_NEGATIVE}' if count < 0 else None
