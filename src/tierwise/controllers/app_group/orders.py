"""The orders in which the workloads of an application can be placed, and the cycle that keeps it from having one.

Pure graph work on names. A graph lists every workload with those that it calls; ties are broken by the order of the
lists, so the same AppGroup gives the same order everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tierwise.api.network_aware import algorithm_of

__all__ = ["ALGORITHMS", "cycle", "order"]

Graph = Mapping[str, Sequence[str]]
"""Workloads in listed order, each with its dependencies in listed order; every dependency is a key too."""


def order(graph: Graph, algorithm: str) -> list[str]:
    """All workloads, the first to be placed first: those with edges as the algorithm says, then the others.

    A name that is not known means Kahn's algorithm. The graph has no cycle.
    """
    called = {name for callees in graph.values() for name in callees}
    linked = {name: callees for name, callees in graph.items() if callees or name in called}
    sort, arrange = ALGORITHMS[algorithm_of(algorithm) or "KahnSort"]
    return [*arrange(sort(linked)), *(name for name in graph if name not in linked)]


def cycle(graph: Graph) -> list[str] | None:
    """The first cycle that a walk in listed order meets, as "a b a"; None where there is none."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = [start] if start not in done else []
        ahead = [iter(graph[start])] if path else []
        while path:
            callee = next(ahead[-1], None)
            if callee is None:
                done.add(path.pop())
                ahead.pop()
            elif callee in path:
                return [*path[path.index(callee) :], callee]
            elif callee not in done:
                path.append(callee)
                ahead.append(iter(graph[callee]))
    return None


def _kahn(graph: Graph) -> list[str]:
    """Whoever is called by nobody who still waits; of several, the one that was freed last."""
    callers = dict.fromkeys(graph, 0)
    for callees in graph.values():
        for callee in callees:
            callers[callee] += 1
    free = [name for name, number in callers.items() if not number]
    found = []
    while free:
        name = free.pop()
        found.append(name)
        for callee in graph[name]:
            callers[callee] -= 1
            if not callers[callee]:
                free.append(callee)
    return found


def _tarjan(graph: Graph) -> list[str]:
    """Depth first; a workload goes in front of everything that was finished before it."""
    finished: dict[str, None] = {}
    for start in graph:
        path = [] if start in finished else [(start, iter(graph[start]))]
        entered = {start}
        while path:
            name, ahead = path[-1]
            callee = next((c for c in ahead if c not in finished and c not in entered), None)
            if callee is None:
                finished[name] = None
                path.pop()
            else:
                entered.add(callee)
                path.append((callee, iter(graph[callee])))
    return list(reversed(finished))


def _as_is(names: list[str]) -> Iterator[str]:
    return iter(names)


def _reversed(names: list[str]) -> Iterator[str]:
    return reversed(names)


def _alternate(names: list[str]) -> Iterator[str]:
    """First, last, second, last but one, ..."""
    for i in range(len(names)):
        yield names[i // 2] if i % 2 == 0 else names[-1 - i // 2]


ALGORITHMS: Final = {
    "KahnSort": (_kahn, _as_is),
    "TarjanSort": (_tarjan, _as_is),
    "ReverseKahn": (_kahn, _reversed),
    "ReverseTarjan": (_tarjan, _reversed),
    "AlternateKahn": (_kahn, _alternate),
    "AlternateTarjan": (_tarjan, _alternate),
}
"""By the name that an AppGroup gives: how to sort, and how to arrange what was sorted."""
