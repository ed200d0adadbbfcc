"""elasticquota: Koordinator's quotas, which lend what they do not use.

Per resource that a quota's max lists, the runtime (`tree`) is computed once per cycle from what the pods of
every quota ask for. A job is given more while, for each quota that is asked,

    held + asked           <= runtime, or max where runtime quotas are off
    firm held + firm asked <= min      what non-preemptible pods hold; as far as min lists the resource

The job's own quota is asked, and those above it where parents are checked. The default and the system quota have no
runtime, only a max. Quotas do not order jobs: jobs of all quotas are served in one order.

Preemption within a quota: a pod of the default quota evicts no pods unless the profile allows it; priorities and
annotations decide about other victims. Give-back: what a quota holds beyond its runtime is returned by evicting its
least important pods; pods that are not needed for that are kept, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tierwise.api.duration import seconds
from tierwise.api.elastic_quota import DEFAULT_QUOTA, SYSTEM_QUOTA
from tierwise.api.quantity import amount, show
from tierwise.config.arguments import flag
from tierwise.framework import extension as points
from tierwise.framework.declaration import Idle, chooses, takes_part
from tierwise.model.arrays import MOST, Bools, Ints
from tierwise.model.job import Job, Reason
from tierwise.model.running import RunningTable

__all__ = ["elastic_quota"]

_DELAY = 120.0
"""Seconds for which a quota may hold more than its runtime where the profile names no other time; Koordinator's."""


@takes_part(
    points.Reporter,
    points.Lending,
    points.Quota,
    points.QueueOrder,
    points.VictimFilter,
    rises_with_use=True,
    by_amounts=True,
)
class ElasticQuotaPlugin:
    """Holds quotas to their runtime, and what is firm in them to their min."""

    answers = frozenset[points.Purpose]()
    counts = False

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        from tierwise.plugins.elastic_quota.tree import QuotaTree  # for clusters that have quotas alone

        self._view = view
        self._used, self._kept = view.ledger.queue_used, view.ledger.queue_kept  # never written: always current
        self._index = view.ledger.queue_index
        self.tree = QuotaTree.of(view.snapshot, view.ledger, scale=flag(arguments, "enableMinQuotaScale", default=True))
        self._firm = np.flatnonzero(self.tree.firm >= 0)
        limit = self.tree.runtime if flag(arguments, "enableRuntimeQuota", default=True) else self.tree.maximum
        self._limit = limit.copy()
        self._word = "runtime" if limit is self.tree.runtime else "max"
        self._parents = flag(arguments, "enableCheckParentQuota", default=False)
        self._default_preempts = not flag(arguments, "disableDefaultQuotaPreemption", default=True)
        delay = seconds(str(arguments.get("delayEvictTime", "")))
        self._delay = _DELAY if delay is None else delay
        for name, argument in ((DEFAULT_QUOTA, "defaultQuotaGroupMax"), (SYSTEM_QUOTA, "systemQuotaGroupMax")):
            self._bound(name, arguments.get(argument))

    def _bound(self, name: str, amounts: object) -> None:
        """Set the max of a quota that always exists; what cannot be read sets none, as with any argument."""
        column = self._index.get(name)
        if column is None or not isinstance(amounts, Mapping):
            return
        for resource, quantity in amounts.items():
            if resource in self._view.axis.index and isinstance(quantity, str | int | float):
                try:
                    limit = max(0, min(amount(resource, quantity), MOST))
                except ValueError:
                    continue
                self._limit[self._view.axis.index[resource], column] = limit

    # -- order and quotas

    def entitled(self) -> Ints:
        return self.tree.runtime

    def global_queue(self) -> bool:
        """Where the quotas are the cluster's; a namespace's own quotas change no other queue's turn."""
        return any(queue.elastic and not queue.enclosing for queue in self._view.queues.values())

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        column = self._index.get(job.queue)
        if column is None:
            return None
        around = int(self.tree.around[column])
        own_columns = (column,) if around < 0 else (column, around)
        for quota in self.tree.chains[column] if self._parents else own_columns:
            reason = self._beyond_min(quota, amounts) or self._beyond(quota, amounts)  # what nothing cures comes first
            if reason is not None:
                return reason
        return None

    def _beyond(self, column: int, amounts: Ints) -> Reason | None:
        would = self.tree.held(self._used, column) + amounts
        short = (amounts > 0) & (would > self._limit[:, column])
        if not short.any():
            return None
        text = self._exceeds(column, short, would, self._limit[:, column], self._word)
        return Reason("QuotaExceeded", "elasticquota", text)

    def _beyond_min(self, column: int, amounts: Ints) -> Reason | None:
        firm_resources = self._firm
        if not len(firm_resources):
            return None
        firm = np.zeros_like(amounts)
        firm[firm_resources] = amounts[self.tree.firm[firm_resources]]
        used = self.tree.held(self._used, column)
        would = firm.copy()
        would[firm_resources] += used[self.tree.firm[firm_resources]]
        short = (firm > 0) & (would > self.tree.promised[:, column])
        if not short.any():
            return None
        text = self._exceeds(column, short, would, self.tree.promised[:, column], "min")
        return Reason("QuotaMinExceeded", "elasticquota", f"{text}, which is all that non-preemptible pods may use")

    def _exceeds(self, column: int, short: Bools, would: Ints, limit: Ints, word: str) -> str:
        names = self._view.axis.names
        figures = ", ".join(
            f"{show(names[r], int(would[r]))} {names[r]} with a {word} of {show(names[r], int(limit[r]))}"
            for r in np.flatnonzero(short).tolist()
        )
        reserved_amounts = self.tree.held(self._kept, column)
        reserved = [
            f"{show(names[r], int(reserved_amounts[r]))} {names[r]}"
            for r in np.flatnonzero(short & (reserved_amounts > 0)).tolist()
        ]
        reserved_text = f", of which {', '.join(reserved)} reserved" if reserved else ""
        return f"quota {self.tree.names[column]} would have {figures}{reserved_text}"

    # -- preemption and give-back

    def protects_up_to(self) -> Ints:
        """Up to the min of each quota; where min does not list a resource, and outside of quotas, without an end.

        A quota that a namespace writes for itself counts for itself alone, and protects nothing from others.
        """
        is_enclosed = np.array([bool(queue.enclosing) for queue in self._view.queues.values()], dtype=bool)
        result = np.where(self.tree.inside, self.tree.promised, MOST)
        return np.where(is_enclosed, 0, result)

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Protects all victims if the preemptor is in the default quota and would evict inside it; else none."""
        inside = preemptor.purpose is points.Purpose.PREEMPT and not preemptor.across
        column = self._index.get(preemptor.job.queue, -1)
        outside = column < 0 or not self.tree.inside[column]
        return np.full(len(victims), inside and outside and not self._default_preempts)

    def debts(self) -> Iterator[points.Debt]:
        """What each quota holds beyond its runtime; due once it has done so for long enough."""
        queues = tuple(self._view.queues.values())
        for column in np.flatnonzero(self.tree.inside).tolist():
            over = self._used[:, column] - self._kept[:, column] - self.tree.runtime[:, column]
            if not (over > 0).any():
                continue
            since = queues[column].over_since
            due = self._delay == 0 or (since is not None and self._view.snapshot.now - since >= self._delay)
            yield points.Debt(queues[column].name, over, self._owes(column, over), due)

    def _owes(self, column: int, over: Ints) -> str:
        names = self._view.axis.names
        figures = ", ".join(f"{show(names[r], int(over[r]))} {names[r]}" for r in np.flatnonzero(over > 0).tolist())
        return f"quota {self.tree.names[column]} holds {figures} more than its runtime"

    def paid_with(self, debt: points.Debt, running: RunningTable) -> Ints:
        """The least important until the quota is within its runtime, less those that are not needed for it.

        Of equal priority those go first that lose the least work, where that is known, and then the youngest.
        """
        is_of_queue = np.array([job.queue == debt.queue for job in self._view.jobs], dtype=bool)
        mine = np.flatnonzero(is_of_queue[running.job] & ~running.not_preemptable)
        over = debt.over
        losses = running.losses[mine] if running.losses is not None else np.zeros(len(mine))
        order = np.lexsort((running.rank[mine], -running.started[mine], losses, running.priority[mine]))
        mine = mine[order]
        freed = np.cumsum(running.request[:, mine], axis=1)
        enough = np.flatnonzero((freed >= over[:, None]).all(axis=0))
        going = mine[: int(enough[0]) + 1] if len(enough) else mine
        slack = running.request[:, going].sum(axis=1) - over
        stays = np.zeros(len(going), dtype=bool)
        for i in range(len(going) - 1, -1, -1):  # each one that stays leaves less for the next to stay by
            request = running.request[:, going[i]]
            if (request <= slack).all():
                stays[i] = True
                slack = slack - request
        return going[~stays]


@chooses(ElasticQuotaPlugin)
def elastic_quota(arguments: points.Arguments, view: points.CycleView) -> ElasticQuotaPlugin | Idle:
    """The plugin where there are quotas; else something that takes part in nothing, and so costs nothing."""
    if any(queue.elastic for queue in view.queues.values()):
        return ElasticQuotaPlugin(arguments, view)
    return Idle()
