"""Drawn graphs of services, and what annealing finds for them: `python -m tests.support.service_graphs`.

Services call one to three of those before them; nodes with room for one to five are in zones of two or three regions,
with a third more room than is needed.
"""

from __future__ import annotations

import math
import time

import click
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.plugins.network_overhead.lookahead import LookAheadProblem, plan

__all__ = ["annealed", "drawn_graph", "total"]

_HOTTEST, _COLDEST = 60.0, 0.3


def drawn_graph(seed: int, services: int | None = None) -> LookAheadProblem:
    """Ten to sixty services, one pod each, none of them placed."""
    chance = np.random.default_rng([77, seed])
    number = services or int(chance.integers(10, 61))
    calls = np.zeros((number, number), dtype=np.int64)
    for callee in range(1, number):
        calls[chance.integers(0, callee, size=int(chance.integers(1, 4))), callee] = 1
    zones = [(region, zone) for region in range(int(chance.integers(2, 4))) for zone in range(chance.integers(1, 4))]
    where: list[tuple[int, int]] = []
    slots: list[int] = []
    while sum(slots) < 1.3 * number:
        where.append(zones[int(chance.integers(len(zones)))])
        slots.append(int(chance.integers(1, 6)))
    between = {
        (a, b): int(chance.integers(3, 13) if a[0] == b[0] else chance.integers(15, 61))
        for a in zones
        for b in zones
        if a < b
    }
    cost = np.array([[1 if a == b else between[min(a, b), max(a, b)] for b in where] for a in where], dtype=np.int64)
    np.fill_diagonal(cost, 0)
    return LookAheadProblem(
        calls=calls,
        fixed=np.zeros((number, len(where)), dtype=np.int64),
        cost=cost,
        request=np.ones((number, 1), dtype=np.int64),
        free=np.array(slots)[:, None],
    )


def total(graph: LookAheadProblem, nodes: Ints) -> int:
    """What all calls cost."""
    return int((graph.calls * graph.cost[nodes[:, None], nodes]).sum())


def annealed(graph: LookAheadProblem, start: Ints, *, steps: int, seed: int) -> int:
    """The least cost that simulated annealing meets, from a plan on: pods move where there is room, else they trade."""
    drawn = np.random.default_rng(seed).random((steps, 4)).tolist()
    nodes, cost = start.tolist(), graph.cost.tolist()
    links = (graph.calls + graph.calls.T).tolist()
    others = [[(q, times) for q, times in enumerate(row) if times] for row in links]
    at: list[list[int]] = [[pod for pod, node in enumerate(nodes) if node == here] for here in range(len(cost))]
    free = [int(slots) - len(at[node]) for node, slots in enumerate(graph.free[:, 0])]

    def paid(pod: int) -> int:
        here = cost[nodes[pod]]
        return sum(times * here[nodes[other]] for other, times in others[pod])

    now = best = total(graph, start)
    for step, (which, where, whom, chance) in enumerate(drawn):
        heat = _HOTTEST * (_COLDEST / _HOTTEST) ** (step / steps)
        pod, there = int(which * len(nodes)), int(where * len(cost))
        here = nodes[pod]
        if here == there:
            continue
        other = None if free[there] > 0 else at[there][int(whom * len(at[there]))]
        before = paid(pod) + (paid(other) if other is not None else 0)
        nodes[pod] = there
        if other is not None:
            nodes[other] = here
        change = paid(pod) + (paid(other) if other is not None else 0) - before
        if change <= 0 or chance < math.exp(-change / heat):
            at[here].remove(pod)
            at[there].append(pod)
            if other is None:
                free[here], free[there] = free[here] + 1, free[there] - 1
            else:
                at[there].remove(other)
                at[here].append(other)
            now += change
            best = min(best, now)
        else:
            nodes[pod] = here
            if other is not None:
                nodes[other] = there
    return best


@click.command()
@click.option("--seeds", default=40)
@click.option("--first", default=0)
def main(seeds: int, first: int) -> None:
    """Print what plans cost beside the cheapest of two annealings, and how long a plan takes."""
    ratios, times = [], []
    for seed in range(first, first + seeds):
        graph = drawn_graph(seed)
        begun = time.process_time()
        found = plan(graph)
        times.append(time.process_time() - begun)
        assert found is not None
        least = min(annealed(graph, found, steps=60_000, seed=s) for s in (1, 2))
        ratios.append(total(graph, found) / min(least, total(graph, found)))
    click.echo(
        f"{seeds} graphs: {np.mean(ratios):.3f} times what annealing finds, P95 {np.percentile(ratios, 95):.3f}, "
        f"most {max(ratios):.3f}; {np.mean(times):.2f} s of processor time for a plan, {max(times):.2f} s at most"
    )


if __name__ == "__main__":
    main()
