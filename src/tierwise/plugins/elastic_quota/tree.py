"""The tree of elastic quotas as columns: what each requests, what it may use now, and what it could use at most.

Used by the plugin `elasticquota` and by the controller that writes a quota's annotations. Columns are in the order of
the ledger's `queue_index`; queues that are no quotas have no limit here. Top-level quotas share what the cluster has
besides pods outside the tree (those of the default and system quotas, and those without a quota); quotas below share
the runtime of their parent. If quotas form several trees, each shares the total that its root states, and trees without
a total share the rest of the cluster. Quotas that a namespace declares for itself share only among themselves: they see
what all others leave of the cluster, and the others see their pods as outside the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tierwise.api.elastic_quota import DEFAULT_QUOTA, SYSTEM_QUOTA
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Bools, Ints
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Queue, Status
from tierwise.model.snapshot import Snapshot
from tierwise.plugins.queues.table import (
    UNLIMITED,
    by_weight,
    chain,
    circles,
    columns,
    counted,
    members,
    pending,
    total,
)

__all__ = ["Claim", "QuotaTree", "lend_out", "scaled"]


# Share one resource among quotas side by side: each its minimum first, and what is idle lent by weight.
#
# request <= min runtime is the request, or min where the quota does not lend request > min runtime is min, and a share
# of what is left, never more than the request
#
# The remainder is shared in rounds among quotas that still request more: by weight, in whole units, the largest
# fractions first and equal ones by name; a quota that gets more than it requests returns the rest for the next round.
# The rounds are Koordinator's, step by step: each one rounds, so the closed form (`water_fill`) may differ by a unit.


class Claim(msgspec.Struct, frozen=True):
    """What one quota brings to the table, in whole units of one resource."""

    request: int
    minimum: int
    weight: int
    lends: bool

    @property
    def first(self) -> int:
        """What it has before anything is shared."""
        if self.request > self.minimum or not self.lends:
            return self.minimum
        return self.request


def lend_out(total: int, claims: Sequence[Claim]) -> list[int]:
    """The runtime of each claim, which stand in the order of their names. More than the total where the minimums are.

    Exact for any size: products of amounts and weights exceed 64 bits, so these are Python's integers.
    """
    runtimes = [claim.first for claim in claims]
    unshared = total - sum(runtimes)
    short = [i for i, claim in enumerate(claims) if claim.request > claim.minimum and claim.weight > 0]
    while unshared > 0 and short:
        for i, part in zip(short, by_weight(unshared, [claims[i].weight for i in short]), strict=True):
            runtimes[i] += part
        unshared = sum(max(0, runtimes[i] - claims[i].request) for i in short)
        for i in short:
            runtimes[i] = min(runtimes[i], claims[i].request)
        short = [i for i in short if runtimes[i] < claims[i].request]
    return runtimes


def scaled(total: int, minimums: Sequence[int]) -> list[int]:
    """The minimums, all reduced in one proportion where together they are more than there is; fractions are dropped."""
    minimums_total = sum(minimums)
    if minimums_total <= total:
        return list(minimums)
    return [max(total, 0) * minimum // minimums_total for minimum in minimums]


_NO_QUOTA = Queue("")
_TOP = -1
"""Means the cluster, above the outermost quotas."""


class QuotaTree(msgspec.Struct, frozen=True):
    """Quotas of a cycle; amounts are (resources x queues)."""

    names: tuple[str, ...]  # of the queues
    inside: Bools  # quotas that take part in sharing
    chains: tuple[tuple[int, ...], ...]  # a quota itself first, the outermost last, then what encloses it
    around: Ints  # what encloses a quota that a namespace declares for itself, and is always asked; -1 for none
    members: tuple[Ints, ...]  # a quota and all below it
    named: Bools  # the resources that max lists: all that a quota counts
    lends: Bools
    maximum: Ints  # UNLIMITED where max does not list a resource
    minimum: Ints
    promised: Ints  # min, or UNLIMITED where min does not list a resource: what non-preemptible pods may use
    firm: Ints  # by resource: the index of what is counted of it for non-preemptible pods; -1 where there are none
    asked: Ints  # what the pods of a quota and the quotas below it ask for, pending pods included
    request: Ints  # the same at most as max, and at least as min where the quota does not lend
    runtime: Ints  # what a quota may use now

    @classmethod
    def of(cls, snapshot: Snapshot, ledger: Ledger, *, scale: bool = True) -> QuotaTree:
        """The tree at the start of a cycle; `scale` lets minimums shrink that are more than there is to share."""
        queues = tuple(snapshot.queues.values())
        axis = snapshot.axis
        inside = np.array([q.elastic and q.name not in (DEFAULT_QUOTA, SYSTEM_QUOTA) for q in queues], dtype=bool)
        parents = _parents(queues, inside)
        own_requests = ledger.queue_used + pending(snapshot, ledger)
        quotas = [queue if queue.elastic else _NO_QUOTA for queue in queues]  # queues declare no such amounts
        maximum = columns(axis, [quota.capability for quota in quotas], UNLIMITED)
        minimum = columns(axis, [quota.guarantee for quota in quotas])
        sharing = _Sharing(queues, parents, minimum, columns(axis, [q.weights for q in quotas]), scale=scale)
        requested, request = sharing.requests(own_requests, maximum)
        runtime = maximum.copy()
        totals = _totals(snapshot, ledger, inside)
        for parent, level in sharing.levels():
            first_queue = queues[level[0]]
            total = totals[first_queue.scope, first_queue.tree] if parent == _TOP else runtime[:, parent]
            for r in np.flatnonzero(counted(axis)).tolist():
                runtime[r, level] = sharing.share(r, int(total[r]), level, request)
        named = columns(axis, [quota.capability for quota in quotas], -1) >= 0
        chains = tuple(chain(parents, column) for column in range(len(queues)))
        around = _around(queues)
        chains = tuple(c if (a := int(around[c[0]])) < 0 or a in c else (*c, a) for c in chains)
        return cls(
            names=tuple(q.name for q in queues),
            inside=inside,
            chains=chains,
            around=around,
            members=members(chains),
            named=named,
            lends=np.array([q.lends for q in queues], dtype=bool),
            maximum=maximum,
            minimum=minimum,
            promised=columns(axis, [quota.guarantee for quota in quotas], UNLIMITED),
            firm=np.array([axis.index.get(f"{FIRM_PREFIX}{name}", -1) for name in axis.names], dtype=np.int64),
            asked=requested,
            request=request,
            runtime=np.where(named | ~inside, runtime, UNLIMITED),
        )

    def held(self, used: Ints, column: int) -> Ints:
        """What a quota and those below it hold, given what each holds by itself."""
        result: Ints = used[:, self.members[column]].sum(axis=1)
        return result


class _Sharing:
    """How quotas side by side share what there is above them."""

    def __init__(
        self, queues: tuple[Queue, ...], parents: list[int], minimum: Ints, weights: Ints, *, scale: bool
    ) -> None:
        self._queues = queues
        self._minimum = minimum
        self._weights = weights
        self._scale = scale
        self._children: dict[tuple[int, str, str], list[int]] = {}
        order = sorted(range(len(queues)), key=lambda column: queues[column].order)  # equal shares: by name
        for column in sorted(order, key=lambda column: len(chain(parents, column))):
            if queues[column].elastic and queues[column].name not in (DEFAULT_QUOTA, SYSTEM_QUOTA):
                outermost = parents[column] == _TOP  # below, the parent's runtime is shared
                apart = (queues[column].scope, queues[column].tree) if outermost else ("", "")
                self._children.setdefault((parents[column], *apart), []).append(column)

    def levels(self) -> Iterator[tuple[int, list[int]]]:
        """Each parent with the quotas directly below it, from the outermost inwards; the cluster once for each tree."""
        for (parent, *_), level in self._children.items():
            yield parent, level

    def requests(self, own_requests: Ints, maximum: Ints) -> tuple[Ints, Ints]:
        """What is asked of quotas, and what they ask of those above: at most max, at least min if they do not lend."""
        requested = own_requests.copy()
        limited = np.minimum(own_requests, maximum)
        for (parent, *_), level in reversed(self._children.items()):  # inner ones first
            for column in level:
                at_least = 0 if self._queues[column].lends else self._minimum[:, column]
                limited[:, column] = np.minimum(np.maximum(requested[:, column], at_least), maximum[:, column])
                if parent != _TOP:
                    requested[:, parent] = np.minimum(requested[:, parent] + limited[:, column], UNLIMITED)
        return requested, limited

    def share(self, r: int, total: int, level: list[int], request: Ints) -> list[int]:
        """The runtime of the quotas of one level in one resource."""
        minimums = [int(self._minimum[r, column]) for column in level]
        if self._scale:
            minimums = scaled(total, minimums)
        return lend_out(
            total,
            [
                Claim(int(request[r, column]), minimum, int(self._weights[r, column]), self._queues[column].lends)
                for column, minimum in zip(level, minimums, strict=True)
            ],
        )


def _totals(snapshot: Snapshot, ledger: Ledger, inside: Bools) -> dict[tuple[str, str], Ints]:
    """By scope and tree, what its outermost quotas share: what the root of the tree says, else the rest for the scope.

    The rest is the cluster without what pods outside the scope hold and without the totals of its trees.
    """
    axis = snapshot.axis
    queues = tuple(snapshot.queues.values())
    cluster = _to_share(snapshot, ledger, inside) - ledger.queue_used[:, inside].sum(axis=1)
    rest_by_scope = {scope: cluster.copy() for scope in {"", *(queue.scope for queue in queues)}}
    for column in np.flatnonzero(inside).tolist():
        rest_by_scope[queues[column].scope] += ledger.queue_used[:, column]
    totals: dict[tuple[str, str], Ints] = {}
    for queue in queues:
        if queue.total is not None:
            limits = {}
            for name, number in queue.total.items():
                if name in axis.index:
                    limits[name] = min(number, UNLIMITED)
            totals[queue.scope, queue.tree] = axis.vector(limits)
            remaining = rest_by_scope[queue.scope] - totals[queue.scope, queue.tree] * queue.aside
            rest_by_scope[queue.scope] = np.maximum(remaining, 0)
    totals.update(((scope, ""), np.maximum(remaining, 0)) for scope, remaining in rest_by_scope.items())
    return totals


def _to_share(snapshot: Snapshot, ledger: Ledger, inside: Bools) -> Ints:
    """By resource, what all nodes have less what pods outside of all quota trees hold."""
    to_share: Ints = total(snapshot.nodes) - ledger.queue_used[:, ~inside].sum(axis=1)
    pods_outside = rows_by_shape(snapshot.nodes, snapshot.others, Status.RUNNING)
    for number, rows in (*pods_outside.items(), *snapshot.standing.items()):
        to_share -= snapshot.shapes[number].request * len(rows)
    to_share += sum(snapshot.standing_in.values())  # of these, what queues hold was counted with the queues
    return to_share


def _parents(queues: tuple[Queue, ...], inside: Bools) -> list[int]:
    """The column of each quota's parent; a parent that does not exist, or leads back, counts as none."""
    index = {q.name: column for column, q in enumerate(queues) if inside[column]}
    parents = [index.get(q.parent, _TOP) if inside[column] else _TOP for column, q in enumerate(queues)]
    for column in range(len(queues)):
        if circles(parents, column):
            parents[column] = _TOP
    return parents


def _around(queues: tuple[Queue, ...]) -> Ints:
    """The column of the queue that encloses each; -1 for none."""
    index = {queue.name: column for column, queue in enumerate(queues)}
    return np.array([index.get(queue.enclosing, -1) if queue.enclosing else -1 for queue in queues], dtype=np.int64)
