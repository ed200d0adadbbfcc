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


class Figures:
    """One snapshot's figures, by the names of these."""

    def __init__(self, tree: QuotaTree, snapshot: Snapshot, ledger: Ledger) -> None:
        self._axis = snapshot.axis.index
        self._column = ledger.queue_index
        columns = range(len(tree.names))
        waiting = pending(snapshot, ledger)
        used = np.stack([tree.held(ledger.queue_used, column) for column in columns], axis=1)
        everything = used + np.stack([tree.held(waiting, column) for column in columns], axis=1)
        guaranteed, allocated = _guarantees(tree, ledger.queue_used)
        firm = tree.firm[:, None] >= 0  # what is counted for non-preemptible pods
        self._amounts = {
            "runtime": tree.runtime,
            "asked": tree.asked,  # by its pods and the quotas below it
            "request": np.maximum(tree.asked, np.where(tree.lends, 0, tree.minimum)),
            "used": used,
            "guaranteed": guaranteed,
            "allocated": allocated,
            "firm used": np.where(firm, used[tree.firm], 0),
            "firm request": np.where(firm, everything[tree.firm], 0),  # pending pods included
        }

    def of(self, figure: str, name: str, keys: Sequence[str]) -> dict[str, int]:
        """A figure of a quota, for these resources."""
        rows = {key: self._axis.get(key) for key in keys}
        amounts = self._amounts[figure][:, self._column[name]]
        return {key: int(amounts[r]) if r is not None else 0 for key, r in rows.items()}


def _guarantees(tree: QuotaTree, used: Ints) -> tuple[Ints, Ints]:
    """What must be kept for each quota: its min, or what it uses and what must be kept for those below it."""
    allocated = used.copy()
    guaranteed = np.maximum(allocated, tree.minimum)
    for column in sorted(range(len(tree.names)), key=lambda column: -len(tree.chains[column])):  # inner ones first
        guaranteed[:, column] = np.maximum(allocated[:, column], tree.minimum[:, column])
        if len(tree.chains[column]) > 1:
            above = tree.chains[column][1]
            allocated[:, above] = np.minimum(allocated[:, above] + guaranteed[:, column], UNLIMITED)
    return guaranteed, allocated
