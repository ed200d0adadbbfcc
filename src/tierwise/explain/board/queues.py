"""Queues and quotas as trees: what each declares, what it deserves according to the plugins, what it and those below it
use and have borrowed, and how many jobs wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.board.jobs import Line
from tierwise.explain.idle_room import idle_room_wire
from tierwise.explain.text.schedule import Run
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Ints
from tierwise.model.job import Queue
from tierwise.scheduler import open_cycle

__all__ = ["queues_wire"]

_ENDLESS: Final = 2**60
"""Amounts from here on stand for "no limit"."""


def queues_wire(run: Run, jobs: Sequence[Line], resources: Sequence[str]) -> list[Raw]:
    """Every queue, each followed by those below it; amounts are lists in the order of the resources.

    An amount is None where there is no limit. What a queue has borrowed is what it uses beyond its own: beyond what an
    elastic quota is guaranteed, and beyond what any other queue deserves.
    """
    current = open_cycle(run.after, run.profile)
    columns = [run.after.axis.index.get(name, -1) for name in resources]
    used = _used(run.after.queues, current.ledger)
    entitled = current.pipeline.entitled()
    waiting = Counter(job.queue for job in jobs if job.waiting or job.kept)
    parents = {queue.parent for queue in run.after.queues.values()}
    idle: dict[object, list[Raw]] = {}
    for account in idle_room_wire(run.last):
        idle.setdefault(account.pop("queue"), []).append(account)
    wires: list[Raw] = []
    for queue, depth in _in_trees(run.after.queues):
        deserved = entitled[:, current.ledger.queue_index[queue.name]] if entitled is not None else None
        holds = _amounts(used[queue.name], columns)
        share = _declared(queue.deserved, resources)
        if deserved is not None:  # a plugin may have no opinion of some queues
            share = [
                deserved_amount if deserved_amount is not None else guaranteed_amount
                for deserved_amount, guaranteed_amount in zip(_amounts(deserved, columns), share, strict=True)
            ]
        guarantee = _declared(queue.guarantee, resources)
        wires.append(
            {
                "name": queue.name,
                "parent": queue.parent,
                "depth": depth,
                "tree": queue.tree,
                "path": queue.hierarchy,
                "weight": queue.weight,
                "priority": queue.priority,
                "open": queue.open,
                "elastic": queue.elastic,
                "waiting": waiting[queue.name],
                "used": holds,
                "deserved": share,
                "borrowed": _borrowed(holds, guarantee if queue.elastic else share, inner=queue.name in parents),
                "capability": _declared(queue.capability, resources),
                "guarantee": guarantee,
                "share": _share(used[queue.name], deserved),
                "idle": idle.get(queue.name, []),
            }
        )
    return wires


def _in_trees(queues: Mapping[str, Queue]) -> Iterator[tuple[Queue, int]]:
    """Every queue once, each followed by those below it in natural order, with how deep it is.

    A queue without a parent that exists, or with one that is below it, begins a tree.
    """
    below: dict[str, list[Queue]] = {}
    for queue in sorted(queues.values(), key=lambda queue: queue.order):
        below.setdefault(queue.parent if queue.parent in queues and queue.parent != queue.name else "", []).append(
            queue
        )
    queues_left = dict(queues)
    while queues_left:
        roots = [queue for queue in below.get("", ()) if queue.name in queues_left] or [
            next(iter(queues_left.values()))
        ]
        stack = [(queue, 0) for queue in reversed(roots)]
        while stack:
            queue, depth = stack.pop()
            if queues_left.pop(queue.name, None) is not None:
                yield queue, depth
                stack += ((inner, depth + 1) for inner in reversed(below.get(queue.name, [])))


def _used(queues: Mapping[str, Queue], ledger: Ledger) -> dict[str, Ints]:
    """Amounts that each queue uses, together with the queues below it."""
    sums = {name: ledger.queue_used[:, column].copy() for name, column in ledger.queue_index.items()}
    for name, column in ledger.queue_index.items():
        seen = {name}
        outer = queues[name].parent
        while outer in queues and outer not in seen:
            sums[outer] += ledger.queue_used[:, column]
            seen.add(outer)
            outer = queues[outer].parent
    return sums


def _borrowed(used: Sequence[int | None], own_amounts: Sequence[int | None], *, inner: bool) -> list[int | None]:
    """Amount used beyond the own share, by resource.

    None where nothing states the share, as for a parent without one.
    """
    return [
        None if own_amount is None or (inner and not own_amount) else max(0, (has or 0) - own_amount)
        for has, own_amount in zip(used, own_amounts, strict=True)
    ]


def _amounts(values: Ints, columns: Sequence[int]) -> list[int | None]:
    amounts = [int(values[column]) if column >= 0 else 0 for column in columns]
    return [value if value < _ENDLESS else None for value in amounts]


def _declared(amount_by_name: Mapping[str, int], resources: Sequence[str]) -> list[int | None]:
    return [amount_by_name.get(name) for name in resources]


def _share(used: Ints, deserved: Ints | None) -> float | None:
    """The largest part of what it deserves that a queue uses; None where nothing says what it deserves."""
    if deserved is None:
        return None
    is_limited = (deserved > 0) & (deserved < _ENDLESS)
    if is_limited.any():
        return round(float((used[is_limited] / deserved[is_limited]).max()), 6)
    return None
