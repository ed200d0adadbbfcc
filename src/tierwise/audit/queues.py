"""No queue, and none above it, uses more than its capability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierwise.api.quantity import amount, show
from tierwise.api.volcano import PodGroup, Queue
from tierwise.audit.finding import Finding
from tierwise.audit.gangs import members
from tierwise.audit.pods import asked, holds
from tierwise.port import Objects

__all__ = ["queues"]


def queues(objects: Objects) -> Iterator[Finding]:
    """Queues above their capability."""
    known = objects.every(Queue)
    groups = objects.every(PodGroup)
    used: dict[str, Counter[str]] = {}
    for path, pods in members(objects).items():
        name, seen = groups[path].spec.queue or "default", set[str]()
        while name in known and name not in seen:
            seen.add(name)
            for pod in pods:
                if holds(pod) and not pod.metadata.deletion_timestamp:
                    used.setdefault(name, Counter()).update(asked(pod))
            name = known[name].spec.parent
    for name, queue in known.items():
        for resource, quantity in sorted(queue.spec.capability.items()):
            most, number = amount(resource, quantity), used.get(name, Counter())[resource]
            if number > most:
                text = f"uses {show(resource, number)} of {resource}, and its capability is {show(resource, most)}"
                yield Finding("over-capability", f"Queue {name}", text)
