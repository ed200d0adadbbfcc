"""Checks of Queues: each on its own, the tree that they form, and which may be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tierwise.admission.context import ROOT_QUEUE
from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.admission.names import check_terms, dns_subdomain
from tierwise.api import plurals
from tierwise.api.core import ResourceList
from tierwise.api.cycles import cycle_text
from tierwise.api.limits import DEPTH
from tierwise.api.quantity import amount, show
from tierwise.api.volcano import Job, PodGroup, Queue
from tierwise.dialects.volcano.job import DEFAULT_QUEUE, pod_group_name
from tierwise.port import Objects

__all__ = ["check", "check_deletion"]

_ENDED: Final = frozenset({"Completed", "Failed", "Terminated"})
_SHOWN: Final = 3
_STATES: Final = frozenset({"", "Open", "Closed", "Closing", "Unknown"})


def check(queue: Queue, queues: Mapping[str, Queue], below: Sequence[Queue]) -> Iterator[Issue]:
    """Issues of a queue among all queues; `below` are those that name it as their parent."""
    spec = queue.spec
    yield from dns_subdomain("metadata.name", queue.metadata.name)
    yield from check_terms(queue.metadata)
    yield from at_least("spec.weight", spec.weight, 1)
    yield from at_least("spec.priority", spec.priority, 0)
    yield from one_of("status.state", queue.status.state, _STATES)
    yield from _within("spec.deserved", spec.deserved, "capability", spec.capability)
    yield from _within("spec.guarantee.resource", spec.guarantee.resource, "deserved", spec.deserved)
    yield from _within("spec.guarantee.resource", spec.guarantee.resource, "capability", spec.capability)
    yield from _check_parent(queue, queues)
    yield from _check_children(queue, [child for child in below if child is not queue])


def check_deletion(queue: Queue, objects: Objects) -> Iterator[Issue]:
    """Issues of deleting a queue: what everybody falls back on stays, and so does what jobs or other queues name."""
    name = queue.metadata.name
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        yield error("metadata.name", f'queue "{name}" cannot be deleted: the scheduler relies on it')
        return
    below = sorted(
        queue_name for queue_name, child in objects.every(Queue).items() if child.spec.parent == name != queue_name
    )
    if below:
        what = plurals.count(len(below), "queue")
        yield error("metadata.name", f'queue "{name}" has {what} below it ({_some(below)}): delete or move them first')
    jobs = sorted(_jobs_in(name, objects))
    if jobs:
        what = plurals.count(len(jobs), "job")
        yield error("metadata.name", f'queue "{name}" has {what} in it ({_some(jobs)}): delete or finish them first')


def _jobs_in(name: str, objects: Objects) -> Iterator[str]:
    """Yield "namespace/name" of each Job and then of each PodGroup in the queue that has not ended.

    A PodGroup that belongs to a Job is skipped, whatever queue that Job is in.
    """
    groups_of_jobs: set[str] = set()
    for path, job in objects.every(Job).items():
        groups_of_jobs.add(f"{path.partition('/')[0]}/{pod_group_name(job)}")
        if job.spec.queue == name and job.status.state.phase not in _ENDED:
            yield path
    for path, group in objects.every(PodGroup).items():
        if group.spec.queue == name and path not in groups_of_jobs and group.status.phase not in _ENDED:
            yield path


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _check_parent(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[Issue]:
    name = queue.metadata.name
    parent = queue.spec.parent
    if name == ROOT_QUEUE and parent:
        yield error("spec.parent", "the root queue has no parent")
    elif parent and parent != ROOT_QUEUE and parent not in queues:
        yield error("spec.parent", f'parent queue "{parent}" does not exist')
    chain = [name]
    while chain[-1] in queues and queues[chain[-1]].spec.parent:
        above = queues[chain[-1]].spec.parent
        if above == name:
            yield error("spec.parent", f"cyclic dependency: {cycle_text(chain)}")
        if above in chain:
            return
        if len(chain) > DEPTH:
            yield error("spec.parent", f"more than {DEPTH} queues are above it, the most there may be")
            return
        chain.append(above)


def _check_children(queue: Queue, below: Sequence[Queue]) -> Iterator[Issue]:
    """A queue must be able to keep its word to the queues below it."""
    spec = queue.spec
    for child in below:
        yield from _within("spec.capability", child.spec.capability, "capability", spec.capability, child.metadata.name)
    guarantees = [child.spec.guarantee.resource for child in below]
    yield from _covers("spec.guarantee.resource", spec.guarantee.resource, guarantees, error)
    yield from _covers("spec.deserved", spec.deserved, [child.spec.deserved for child in below], warning)


def _covers(
    path: str, resources: ResourceList, below: Sequence[ResourceList], issue: Callable[[str, str], Issue]
) -> Iterator[Issue]:
    """Issues where what the queues below ask for adds up to more than their parent has."""
    for resource, quantity in resources.items():
        limit = amount(resource, quantity)
        sum_below = sum(amount(resource, b.get(resource, 0)) for b in below)
        if sum_below > limit:
            shown = (
                f"{show(resource, sum_below)} {resource} in all, more than the {show(resource, limit)} of this queue"
            )
            yield issue(f"{path}.{resource}", f"the queues below ask for {shown}")


def _within(path: str, small: ResourceList, field: str, large: ResourceList, child: str = "") -> Iterator[Issue]:
    """Errors where an amount exceeds the one that bounds it; what is not bounded may be anything."""
    whose = f' of queue "{child}" below' if child else ""
    for resource, quantity in small.items():
        if resource in large and amount(resource, quantity) > amount(resource, large[resource]):
            message = f"{quantity}{whose} is more than the {field} of {large[resource]}"
            yield error(f"{path}.{resource}", message)
