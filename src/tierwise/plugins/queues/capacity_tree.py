"""The tree of queues for capacity: the parent of each queue, and what each could ever use.

Queues form a tree if some queue names a parent other than "root"; otherwise they are flat, and every chain is the queue
alone. "root" and no parent both mean directly below the cluster. In a tree, a declared queue "root" represents the
cluster: its capability bounds everything, and no job may be in it. A queue whose parents do not exist or form a cycle
is broken: it is reported and not used.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.plugins.queues.table import QueueTable, chain, circles, members, real_capability

__all__ = ["Hierarchy"]

_ROOT = "root"


class Hierarchy(msgspec.Struct, frozen=True):
    """Chains and members by column of the queue table."""

    chains: tuple[tuple[int, ...], ...]  # the queue itself first, the outermost queue last
    members: tuple[Ints, ...]  # the queue and all below it
    real: Ints  # real capability, (resources x queues)
    depth: int  # length of the longest chain
    unfit: dict[int, str]  # queues that no job may be in -> why

    @classmethod
    def of(cls, table: QueueTable) -> Hierarchy:
        parents = _parents(table)
        chains = tuple(chain(parents, column) for column in range(len(parents)))
        return cls(
            chains=chains,
            members=members(chains),
            real=_real(table, parents, chains),
            depth=max(map(len, chains), default=1),
            unfit=_unfit(table, parents, chains),
        )

    def unshared(self, column: int, other: int) -> tuple[int, ...]:
        """The part of a queue's chain that is not part of the other's, itself always included."""
        shared = set(self.chains[other]) if other >= 0 else set()
        return tuple(c for i, c in enumerate(self.chains[column]) if not i or c not in shared)


def _is_tree(table: QueueTable) -> bool:
    return any(queue.parent not in ("", _ROOT) for queue in table.queues)


def _parents(table: QueueTable) -> list[int]:
    """The column of each queue's parent; -1 directly below the cluster, and where the parents go wrong."""
    parents = [-1 if queue.parent in ("", _ROOT) else table.index.get(queue.parent, -1) for queue in table.queues]
    return [-1 if circles(parents, column) else parent for column, parent in enumerate(parents)]


def _real(table: QueueTable, parents: list[int], chains: tuple[tuple[int, ...], ...]) -> Ints:
    """Real capabilities from the outermost queues inwards: siblings share what their parent could ever use."""
    everything = table.total
    stands_for_all = table.index.get(_ROOT, -1) if _is_tree(table) else -1
    if stands_for_all >= 0:
        everything = np.minimum(everything, table.capability[:, stands_for_all])
    result = np.empty_like(table.capability)
    children: dict[int, list[int]] = {}
    for column in sorted(range(len(parents)), key=lambda column: len(chains[column])):
        if column != stands_for_all:
            children.setdefault(parents[column], []).append(column)
    for parent, below in children.items():  # outer queues were met first
        above = everything if parent < 0 else result[:, parent]
        result[:, below] = real_capability(above, table.guarantee[:, below], table.capability[:, below])
    if stands_for_all >= 0:
        result[:, stands_for_all] = everything
    return result


def _unfit(table: QueueTable, parents: list[int], chains: tuple[tuple[int, ...], ...]) -> dict[int, str]:
    """Queues whose parents go wrong, those below such queues, and queues with others below them."""
    if not _is_tree(table):
        return {}
    broken = {}
    for column, queue in enumerate(table.queues):
        if queue.parent in ("", _ROOT) or parents[column] >= 0:
            continue
        missing = f"the parent {queue.parent} of queue {queue.name} does not exist"
        broken[column] = missing if queue.parent not in table.index else f"queue {queue.name} is its own ancestor"
    result, above = {}, set(parents)
    for column, queue in enumerate(table.queues):
        wrong = next((broken[c] for c in chains[column] if c in broken), None)
        if wrong is not None:
            result[column] = wrong
        elif queue.name == _ROOT or column in above:
            result[column] = f"queue {queue.name} has queues below it"
    return result
