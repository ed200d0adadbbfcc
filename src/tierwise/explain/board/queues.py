"""Queues: what each declares, what it deserves according to the plugins, what it uses, and how many jobs wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.board.jobs import Line
from tierwise.explain.text.schedule import Run
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Ints
from tierwise.model.queue import Queue
from tierwise.scheduler import open_cycle

__all__ = ["queues_wire"]

_ENDLESS: Final = 2**60
"""Amounts from here on stand for "no limit"."""


def queues_wire(run: Run, jobs: Sequence[Line], resources: Sequence[str]) -> list[Raw]:
    """Every queue in natural order; amounts are lists in the order of the resources, None where there is no limit."""
    current = open_cycle(run.after, run.profile)
    columns = [run.after.axis.index.get(name, -1) for name in resources]
    used, entitled = _used(run.after.queues, current.ledger), current.pipeline.entitled()
    waiting = Counter(job.queue for job in jobs if job.waiting or job.kept)
    found: list[Raw] = []
    for queue in sorted(run.after.queues.values(), key=lambda queue: queue.order):
        deserved = entitled[:, current.ledger.queue_index[queue.name]] if entitled is not None else None
        found.append(
            {
                "name": queue.name,
                "parent": queue.parent,
                "weight": queue.weight,
                "priority": queue.priority,
                "open": queue.open,
                "waiting": waiting[queue.name],
                "used": _amounts(used[queue.name], columns),
                "deserved": _declared(queue.deserved, resources) if deserved is None else _amounts(deserved, columns),
                "capability": _declared(queue.capability, resources),
                "guarantee": _declared(queue.guarantee, resources),
                "share": _share(used[queue.name], deserved),
            }
        )
    return found


def _used(queues: Mapping[str, Queue], ledger: Ledger) -> dict[str, Ints]:
    """What each queue and those below it use."""
    sums = {name: ledger.queue_used[:, column].copy() for name, column in ledger.queue_index.items()}
    for name, column in ledger.queue_index.items():
        seen, outer = {name}, queues[name].parent
        while outer in queues and outer not in seen:
            sums[outer] += ledger.queue_used[:, column]
            seen.add(outer)
            outer = queues[outer].parent
    return sums


def _amounts(values: Ints, columns: Sequence[int]) -> list[int | None]:
    found = [int(values[column]) if column >= 0 else 0 for column in columns]
    return [value if value < _ENDLESS else None for value in found]


def _declared(given: Mapping[str, int], resources: Sequence[str]) -> list[int | None]:
    return [given.get(name) for name in resources]


def _share(used: Ints, deserved: Ints | None) -> float | None:
    """The largest part of what it deserves that a queue uses; None where nobody says what it deserves."""
    if deserved is None:
        return None
    some = (deserved > 0) & (deserved < _ENDLESS)
    return round(float((used[some] / deserved[some]).max()), 6) if some.any() else None
