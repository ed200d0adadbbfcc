"""The cheapest victims in one domain: add bundles in order until the gang fits, then drop unnecessary victims."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.actions.eviction.feasibility import Feasibility
from tierwise.actions.eviction.price_bounds import NONE_BROKEN
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.arrays import Ints

__all__ = ["EvictionPlan", "choose", "make_plan"]

_NOBODY = np.zeros(0, dtype=np.int64)


class EvictionPlan(msgspec.Struct, frozen=True):
    """Victims in one domain, and what they cost; plans are compared by `price`, the smallest wins."""

    domain: int
    victims: Ints
    bundles: Bundles  # all that could have gone, in order
    taken: tuple[int, ...]  # of these
    price: tuple[float, ...]


def make_plan(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, fits: Feasibility
) -> EvictionPlan | None:
    """The cheapest of a few good choices of bundles; None where all of them together make too little room.

    Which groups must be drawn on follows from the order. Inside these, gangs are broken by efficiency, by their
    cost from below, and one alone, whichever comes out cheapest once everyone who is not needed is spared. Where no
    gang need be broken, the least important and then the smallest tasks that are enough are weighed against the first
    in order.
    """
    in_order = np.arange(len(bundles))
    needed = fits.fewest(bundles.victims, bundles.start)
    if needed is None:
        return None
    first = _spared(bundles, in_order[:needed], fits)
    best = _plan(cycle, preemptor, domain, bundles, first)
    if not needed:
        return best
    drawn = in_order[bundles.group <= bundles.group[needed - 1]]
    safe, whole = drawn[bundles.safe[drawn]], drawn[~bundles.safe[drawn]]
    if bundles.safe[list(best.taken)].all():
        small = _plan(cycle, preemptor, domain, bundles, _smallest(preemptor, bundles, safe, fits))
        return min(best, small, key=lambda plan: (_highest(preemptor, plan), plan.price))
    whole = whole[np.argsort(bundles.cost[whole], kind="stable")]  # equal costs stay in order
    plans = [best]
    rising = np.concatenate((safe, whole))
    risen = bundles.pick(rising)
    enough = fits.fewest(risen.victims, risen.start)
    if enough is not None and not np.array_equal(rising[:enough], in_order[:needed]):
        plans.append(_plan(cycle, preemptor, domain, bundles, _spared(bundles, rising[:enough], fits)))
    spared = bundles.pick(safe).victims
    room, dearest = fits.room_without(spared), min(plan.price[1] for plan in plans)
    cheap = whole[bundles.cost[whole] < dearest]
    for b in cheap[fits.may_suffice(bundles.pick(cheap), room)].tolist():
        if fits.without(np.concatenate((spared, bundles.of(b)))):
            plans.append(_plan(cycle, preemptor, domain, bundles, _spared(bundles, np.append(safe, b), fits)))
            break
    return min(plans, key=lambda plan: plan.price)


def choose(bundles: Bundles, fits: Feasibility) -> Ints | None:
    """The first bundles that make room, less those that are not needed; None where all of them make too little."""
    needed = fits.fewest(bundles.victims, bundles.start)
    return None if needed is None else _flat(list(_spared(bundles, np.arange(needed), fits).values()))


def _plan(cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, taken: dict[int, Ints]) -> EvictionPlan:
    victims = _flat(list(taken.values()))
    return EvictionPlan(
        domain, victims, bundles, tuple(taken), _price(cycle, preemptor, domain, bundles, list(taken), victims)
    )


def _spared(bundles: Bundles, chosen: Ints, fits: Feasibility) -> dict[int, Ints]:
    """The chosen bundles without those, the dearest first, and then without those safe tasks that are not needed."""
    dearest = chosen[np.lexsort((-np.arange(len(chosen)), -bundles.cost[chosen]))]
    trial = bundles.pick(dearest)
    going = np.zeros(len(bundles), dtype=bool)
    going[dearest[fits.needed(trial.victims, trial.start, _NOBODY)]] = True
    left = chosen[going[chosen]]
    whole, safe = left[~bundles.safe[left]], left[bundles.safe[left]]
    fixed = bundles.pick(whole).victims
    taken = {b: bundles.of(b) for b in whole.tolist()}
    taken |= _tasks(bundles, safe, np.flip(bundles.pick(safe).victims), fixed, fits)
    return {b: taken[b] for b in chosen.tolist() if b in taken}


def _highest(preemptor: Preemptor, plan: EvictionPlan) -> int:
    """The priority of the most important task that goes."""
    return int(preemptor.running.priority[plan.victims].max(initial=NONE_BROKEN))


def _smallest(preemptor: Preemptor, bundles: Bundles, safe: Ints, fits: Feasibility) -> dict[int, Ints]:
    """The tasks of safe bundles without those not needed, later groups, more important and larger ones spared first."""
    picked, asked = bundles.pick(safe), preemptor.weighed
    tasks, groups = picked.victims, np.repeat(picked.group, np.diff(picked.start))
    shares = (preemptor.running.request[np.ix_(asked, tasks)] / preemptor.need[asked, None]).sum(axis=0)
    priority = preemptor.running.priority[tasks]
    order = np.lexsort((-np.arange(len(tasks)), -np.rint(shares * 1e6), -priority, -groups))
    return _tasks(bundles, safe, tasks[order], _NOBODY, fits)


def _tasks(bundles: Bundles, safe: Ints, tasks: Ints, fixed: Ints, fits: Feasibility) -> dict[int, Ints]:
    """What of these safe bundles must go beside the `fixed` victims; the first of their `tasks` are spared first."""
    going = tasks[fits.needed(tasks, np.arange(len(tasks) + 1), fixed)]
    picked = bundles.pick(safe)
    picked_going = np.isin(picked.victims, going)
    inside = [slice(int(picked.start[i]), int(picked.start[i + 1])) for i in range(len(picked))]
    losing = np.flatnonzero(picked.numbers(picked_going)).tolist()
    return {int(safe[i]): picked.victims[inside[i]][picked_going[inside[i]]] for i in losing}


def _flat(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else _NOBODY


def _price(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, taken: list[int], victims: Ints
) -> tuple[float, ...]:
    """Highest priority broken (preempt), what the broken gangs held anywhere, what is evicted, tier, name.

    Where evictions are priced, the work that victims lose counts beside what broken gangs held.
    """
    broken = [b for b in taken if not bundles.safe[b]]
    highest = max((cycle.snapshot.jobs[int(bundles.job[b])].priority for b in broken), default=NONE_BROKEN)
    asked = preemptor.weighed
    lost = 0.0
    if preemptor.losses is not None:  # of broken gangs it is in the cost already
        whole = np.isin(preemptor.running.job[victims], bundles.job[broken])
        lost = float(preemptor.losses[victims[~whole]].sum())
    evicted = (preemptor.running.request[np.ix_(asked, victims)].sum(axis=1) / preemptor.need[asked]).sum()
    return (
        float(highest) if preemptor.purpose is Purpose.PREEMPT else 0.0,
        round(float(bundles.cost[broken].sum()) + lost, 9),
        round(float(evicted), 9),
        float(cycle.topology.tier[domain]),
        float(cycle.topology.rank[domain]),
    )
