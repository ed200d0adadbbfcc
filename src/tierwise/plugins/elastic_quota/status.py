"""The figures of elastic quotas by name, as `controllers.elastic_quota` writes them.

Every figure is per resource, for the resources asked about; resources that the cluster does not have count as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Ints
from tierwise.model.snapshot import Snapshot
from tierwise.plugins.elastic_quota.tree import QuotaTree
from tierwise.plugins.queues.table import UNLIMITED, pending

__all__ = ["Figures"]

Amounts = dict[str, int]


class Figures:
    """One snapshot's figures."""

    def __init__(self, tree: QuotaTree, snapshot: Snapshot, ledger: Ledger) -> None:
        self._tree = tree
        self._axis = snapshot.axis.index
        self._column = ledger.queue_index
        columns = range(len(tree.names))
        waiting = pending(snapshot, ledger)
        self._used = np.stack([tree.held(ledger.queue_used, column) for column in columns], axis=1)
        self._all = self._used + np.stack([tree.held(waiting, column) for column in columns], axis=1)
        self._guaranteed, self._allocated = self._guarantees(ledger.queue_used)

    def _guarantees(self, own: Ints) -> tuple[Ints, Ints]:
        """What must be kept for each quota: its min, or what it uses and what must be kept for those below it."""
        allocated = own.copy()
        guaranteed = np.maximum(allocated, self._tree.minimum)
        inner_first = sorted(range(len(self._tree.names)), key=lambda column: -len(self._tree.chains[column]))
        for column in inner_first:
            guaranteed[:, column] = np.maximum(allocated[:, column], self._tree.minimum[:, column])
            if len(self._tree.chains[column]) > 1:
                above = self._tree.chains[column][1]
                allocated[:, above] = np.minimum(allocated[:, above] + guaranteed[:, column], UNLIMITED)
        return guaranteed, allocated

    def runtime(self, name: str, keys: Sequence[str]) -> Amounts:
        return self._shown(self._tree.runtime, name, keys)

    def asked(self, name: str, keys: Sequence[str]) -> Amounts:
        """What its pods and the quotas below it ask for."""
        return self._shown(self._tree.asked, name, keys)

    def request(self, name: str, keys: Sequence[str]) -> Amounts:
        """The same, and at least min where it does not lend."""
        least = np.where(self._tree.lends, 0, self._tree.minimum)
        return self._shown(np.maximum(self._tree.asked, least), name, keys)

    def used(self, name: str, keys: Sequence[str]) -> Amounts:
        return self._shown(self._used, name, keys)

    def guaranteed(self, name: str, keys: Sequence[str]) -> Amounts:
        return self._shown(self._guaranteed, name, keys)

    def allocated(self, name: str, keys: Sequence[str]) -> Amounts:
        return self._shown(self._allocated, name, keys)

    def firm_used(self, name: str, keys: Sequence[str]) -> Amounts:
        """What its non-preemptible pods hold."""
        return self._firm(self._used, name, keys)

    def firm_request(self, name: str, keys: Sequence[str]) -> Amounts:
        """What its non-preemptible pods ask for, pending ones included."""
        return self._firm(self._all, name, keys)

    def _shown(self, amounts: Ints, name: str, keys: Sequence[str]) -> Amounts:
        rows = {key: self._axis.get(key) for key in keys}
        return {key: int(amounts[r, self._column[name]]) if r is not None else 0 for key, r in rows.items()}

    def _firm(self, amounts: Ints, name: str, keys: Sequence[str]) -> Amounts:
        counted = {key: int(self._tree.firm[self._axis[key]]) if key in self._axis else -1 for key in keys}
        return {key: int(amounts[r, self._column[name]]) if r >= 0 else 0 for key, r in counted.items()}
