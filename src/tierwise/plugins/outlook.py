"""Where the pods of an application that still wait would best go, all of them together: what `lookAhead` goes by.

Starts from several centres fill nodes outwards; the cheapest few are improved by moving one pod or trading two as
long as that helps. The result is a good plan, not a proven one; nothing is placed by it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints

__all__ = ["Outlook", "plan"]

_CENTRES = 24  # from which starts are made, spread over the nodes
_STARTS = 4  # that are improved
_STEPS = 200  # of improvement, at most
_NEVER = 2**60


class Outlook(msgspec.Struct, frozen=True):
    """Pods that wait (p), and the nodes that they may go to (n)."""

    calls: Ints  # (p x p): how often the one calls the other
    fixed: Ints  # (p x n): what a pod there costs with those that stand already
    cost: Ints  # (n x n): from node to node
    request: Ints  # (p x resources)
    free: Ints  # (n x resources)


def plan(outlook: Outlook) -> Ints | None:
    """A node for every pod; None where no start holds them all."""
    count = len(outlook.cost)
    centres = range(count) if count <= _CENTRES else np.linspace(0, count - 1, _CENTRES).astype(int).tolist()
    starts = [start for centre in centres if (start := _start(outlook, centre)) is not None]
    ranked = sorted(starts, key=lambda nodes: _total(outlook, nodes))
    improved = [_improved(outlook, nodes) for nodes in ranked[:_STARTS]]
    return min(improved, key=lambda nodes: _total(outlook, nodes), default=None)


def _total(outlook: Outlook, nodes: Ints) -> int:
    pods = np.arange(len(nodes))
    between = outlook.calls * outlook.cost[nodes[:, None], nodes]
    return int(between.sum() + outlook.fixed[pods, nodes].sum())


def _start(outlook: Outlook, centre: int) -> Ints | None:
    """The most connected pods first, each on the nearest node to the centre that has room."""
    near = outlook.cost[centre] + outlook.cost[:, centre]
    degree = outlook.calls.sum(axis=0) + outlook.calls.sum(axis=1)
    free = outlook.free.copy()
    nodes = np.zeros(len(degree), dtype=np.int64)
    for pod in np.argsort(-degree, kind="stable").tolist():
        holds = (free >= outlook.request[pod]).all(axis=1)
        if not holds.any():
            return None
        nodes[pod] = int(np.argmin(np.where(holds, near, _NEVER)))
        free[nodes[pod]] -= outlook.request[pod]
    return nodes


def _improved(outlook: Outlook, nodes: Ints) -> Ints:
    """Move or trade as long as that makes the whole cheaper."""
    nodes = nodes.copy()
    pods = np.arange(len(nodes))
    free = outlook.free.copy()
    np.subtract.at(free, nodes, outlook.request)
    for _ in range(_STEPS):
        each = _each(outlook, nodes)
        now = each[pods, nodes]
        moves = np.where((free[None] >= outlook.request[:, None]).all(axis=2), each - now[:, None], _NEVER)
        trades = np.where(_tradable(outlook, nodes, free), _trades(outlook, nodes, each), _NEVER)
        if min(moves.min(), trades.min()) >= 0:
            break
        if moves.min() <= trades.min():
            pod, node = divmod(int(np.argmin(moves)), moves.shape[1])
            changed = {pod: node}
        else:
            one, other = divmod(int(np.argmin(trades)), len(nodes))
            changed = {one: int(nodes[other]), other: int(nodes[one])}
        for pod, node in changed.items():
            free[nodes[pod]] += outlook.request[pod]
            free[node] -= outlook.request[pod]
            nodes[pod] = node
    return nodes


def _each(outlook: Outlook, nodes: Ints) -> Ints:
    """(p x n): what each pod would cost on each node, the others where they are."""
    out = outlook.calls @ outlook.cost[:, nodes].T
    back = outlook.calls.T @ outlook.cost[nodes]
    result: Ints = outlook.fixed + out + back
    return result


def _trades(outlook: Outlook, nodes: Ints, each: Ints) -> Ints:
    """(p x p): what trading places changes."""
    there = each[:, nodes]  # pod i where pod j is
    gain = there - there.diagonal()[:, None]
    pair = outlook.cost[nodes[:, None], nodes]
    # Both terms took the other pod to stay where it is: put right what lies between the two of them.
    between = outlook.calls * pair + outlook.calls * pair.T
    result: Ints = gain + gain.T + between + between.T
    return result


def _tradable(outlook: Outlook, nodes: Ints, free: Ints) -> Bools:
    room = free[nodes] + outlook.request  # what is left where each pod stands, without it
    fits = (room[None] >= outlook.request[:, None]).all(axis=2)
    result: Bools = fits & fits.T & (nodes[:, None] != nodes)
    return result
