"""Kernels held against `reference`: where a cycle asks for tasks to be placed, and where the fast ways must agree."""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, ScoreEffect
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Kernel, Picks, best_row, domains, fill, kernel_for, runs, step

__all__ = [
    "disturb",
    "drawn_ask",
    "drawn_pool",
    "drawn_span",
    "effect_holds",
    "every_ask",
    "exact_kernels",
    "kernels_agree",
    "plain",
    "reference",
]


def every_ask(cycle: Cycle) -> list[Ask]:
    """Tasks of each pod set of each job, with and without a distance that is decided."""
    return [
        Ask(pod_set.shape, sub, job, settled)
        for job in cycle.snapshot.jobs
        for sub in job.subs
        for pod_set in sub.pod_sets
        for settled in (False, True)
    ]


def drawn_ask(cycle: Cycle, data: DataObject) -> Ask:
    """One of them."""
    asks = every_ask(cycle)
    assume(asks)
    return data.draw(st.sampled_from(asks))


def drawn_span(cycle: Cycle, data: DataObject) -> slice:
    """Some rows that follow each other."""
    first = data.draw(st.integers(0, len(cycle.nodes)))
    return slice(first, data.draw(st.integers(first, len(cycle.nodes))))


def drawn_pool(cycle: Cycle, data: DataObject) -> Pool:
    """LATER is asked for only where something is being released."""
    pools = tuple(Pool) if cycle.ledger.any_releasing else (Pool.IDLE,)
    return data.draw(st.sampled_from(pools))


def disturb(cycle: Cycle, data: DataObject) -> None:
    """Put some tasks of some shapes where they fit, so that nodes are used unevenly."""
    for _ in range(data.draw(st.integers(0, 2))):
        shape, pool = data.draw(st.sampled_from(cycle.snapshot.shapes)), drawn_pool(cycle, data)
        row = data.draw(st.integers(0, len(cycle.nodes) - 1))
        if cycle.fit_counts.of(shape).rows(pool)[row] > 0:
            cycle.ledger.place(shape, np.array([row]), np.array([1]), pool=pool)


def reference(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Place one task after the other, with all scores computed again each time: what every kernel must answer."""
    taken = np.zeros(span.stop - span.start, dtype=np.int64)
    with cycle.ledger.statement():
        for _ in range(count):
            row = best_row(cycle, ask, span, pool)
            if row < 0:
                break
            cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=pool)
            taken[row - span.start] += 1
    rows = np.flatnonzero(taken)
    return rows + span.start, taken[rows]


def plain(picks: Picks) -> dict[int, int]:
    """How many tasks went to which row."""
    found: dict[int, int] = {}
    for row, count in zip(picks[0].tolist(), picks[1].tolist(), strict=True):
        found[row] = found.get(row, 0) + count
    return found


def exact_kernels(cycle: Cycle, ask: Ask, pool: Pool) -> list[Kernel]:
    """The kernels that promise the answer of `reference` here."""
    effect = cycle.pipeline.effect(ask)
    kernels: list[Kernel] = [step]
    waits = cycle.ledger.any_releasing and (pool is Pool.FUTURE_IDLE or bool(cycle.ledger.pipelined.any()))
    sticky = effect <= (ScoreEffect.ROW if waits else ScoreEffect.SPAN)
    moving = cycle.pipeline.moving(ask.shape)
    if sticky and (not moving or cycle.pipeline.moving_own_rows(ask.shape)):
        kernels.append(runs)
        if effect is ScoreEffect.DOMAIN and kernel_for(cycle, ask, pool) is domains:
            kernels.append(domains)
        if effect <= ScoreEffect.ROW and (not moving or cycle.pipeline.room(ask.shape) is not None):
            kernels.append(fill)
    assert kernel_for(cycle, ask, pool) in kernels
    return kernels


def kernels_agree(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> None:
    """Every kernel puts as many tasks on each node as placing them one by one does, where it says that it is exact."""
    expected = plain(reference(cycle, ask, count, span, pool))

    found = {
        kernel.__name__: plain(kernel(cycle, ask, count, span, pool)) for kernel in exact_kernels(cycle, ask, pool)
    }
    assert dict.fromkeys(found, expected) == found


def effect_holds(cycle: Cycle, ask: Ask) -> None:
    """Once a task stands on a node, no other scores change than the scorers say, and in no other way."""
    effect, everywhere = cycle.pipeline.effect(ask), slice(0, len(cycle.nodes))
    fits = cycle.fits(ask, everywhere, Pool.IDLE)
    before = cycle.pipeline.score(ask, everywhere, fits)
    for row in np.flatnonzero(fits).tolist():
        with cycle.ledger.statement():
            cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=Pool.IDLE)
            change = np.rint((cycle.pipeline.score(ask, everywhere, fits) - before) * 2**20)
            still = cycle.fits(ask, everywhere, Pool.IDLE)
        change[~still] = 0  # the score of a node that is full decides nothing
        fresh = np.ones(len(cycle.nodes), dtype=bool)
        fresh[cycle.pipeline.stale(ask, row)] = False
        others = np.delete(change, row)
        assert not change[fresh].any(), f"a task on row {row} changes scores of rows that are not stale"
        if effect is ScoreEffect.FIXED:
            assert not change.any(), f"a task on row {row} changes scores that are fixed"
        elif effect is ScoreEffect.ROW:
            assert not others.any(), f"a task on row {row} changes scores of other rows"
            assert change[row] >= 0, f"a task on row {row} lowers its score"
        elif effect <= ScoreEffect.SPAN and not cycle.ledger.any_releasing and still[row]:
            assert change[row] >= others.max(initial=0), f"a task on row {row} raises another score more than its own"
        if effect <= ScoreEffect.DOMAIN and not cycle.ledger.any_releasing:
            leaf = cycle.topology.leaf
            own = still & (leaf == leaf[row])
            own[row] = False
            alike, outside = change[own], change[still & (leaf != leaf[row])]
            assert np.ptp(alike) <= 1 if len(alike) else True, f"a task on row {row} moves rows of its domain apart"
            assert not len(alike) or alike.min() + 1 >= outside.max(initial=0), (
                f"a task on row {row} raises others more"
            )
