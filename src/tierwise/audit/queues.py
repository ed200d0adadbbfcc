"""No queue, and none above it, uses more than its capability.

Pods count in the queue that their group names, or they themselves where they have none. A queue that names no parent
is below the queue "root", where there is one. A capability of no cpu or no memory is none, as in Volcano. A pod
whose node is gone uses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierwise.api.core import Node, Pod
from tierwise.api.quantity import amount, show
from tierwise.api.volcano import PodGroup, Queue
from tierwise.audit.pods import Finding, asked, group, holds
from tierwise.port import Objects

__all__ = ["queues"]

_QUEUE = "scheduling.volcano.sh/queue-name"


def queues(objects: Objects) -> Iterator[Finding]:
    """Queues above their capability."""
    known = objects.every(Queue)
    groups = objects.every(PodGroup)
    used: dict[str, Counter[str]] = {}
    nodes = objects.every(Node)
    for pod in objects.every(Pod).values():
        if not holds(pod) or pod.metadata.deletion_timestamp or pod.spec.node_name not in nodes:
            continue
        record, seen = groups.get(group(pod)), set[str]()
        name = pod.metadata.annotations.get(_QUEUE, "") if record is None else record.spec.queue or "default"
        while name in known and name not in seen:
            seen.add(name)
            used.setdefault(name, Counter()).update(asked(pod))
            name = known[name].spec.parent or "root"
    for name, queue in known.items():
        for resource, quantity in sorted(queue.spec.capability.items()):
            most, number = amount(resource, quantity), used.get(name, Counter())[resource]
            if number > most and (most or resource not in ("cpu", "memory")):
                text = f"uses {show(resource, number)} of {resource}, and its capability is {show(resource, most)}"
                yield Finding("over-capability", f"Queue {name}", text)
