"""The cheapest victims in one domain: add bundles in order until the gang fits, then drop unnecessary victims."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.actions.eviction.feasibility import Feasibility
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
    in_order = list(range(len(bundles)))
    needed = _shortest(bundles, in_order, fits)
    if needed is None:
        return None
    first = _spared(bundles, in_order[:needed], fits)
    best = _plan(cycle, preemptor, domain, bundles, first)
    if not needed:
        return best
    drawn = [b for b in in_order if bundles.group[b] <= bundles.group[needed - 1]]
    safe, whole = [b for b in drawn if bundles.safe[b]], [b for b in drawn if not bundles.safe[b]]
    if all(bundles.safe[b] for b in best.taken):
        small = _plan(cycle, preemptor, domain, bundles, _smallest(preemptor, bundles, safe, fits))
        return min(best, small, key=lambda plan: (_highest(preemptor, plan), plan.price))
    whole.sort(key=lambda b: bundles.cost[b])  # stable: equal costs stay in order
    plans = [best]
    rising = [*safe, *whole]
    enough = _shortest(bundles, rising, fits)
    if enough is not None:
        plans.append(_plan(cycle, preemptor, domain, bundles, _spared(bundles, rising[:enough], fits)))
    spared = _flat([bundles.of(s) for s in safe])
    room, dearest = fits.room_without(spared), min(plan.price[1] for plan in plans)
    for b in whole:
        if bundles.cost[b] >= dearest:
            break
        if fits.may_suffice(bundles.of(b), room) and fits.without(_flat([spared, bundles.of(b)])):
            plans.append(_plan(cycle, preemptor, domain, bundles, _spared(bundles, [*safe, b], fits)))
            break
    return min(plans, key=lambda plan: plan.price)


def choose(bundles: Bundles, fits: Feasibility) -> Ints | None:
    """The first bundles that make room, less those that are not needed; None where all of them make too little."""
    in_order = list(range(len(bundles)))
    needed = _shortest(bundles, in_order, fits)
    return None if needed is None else _flat(list(_spared(bundles, in_order[:needed], fits).values()))


def _plan(cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, taken: dict[int, Ints]) -> EvictionPlan:
    victims = _flat(list(taken.values()))
    return EvictionPlan(
        domain, victims, bundles, tuple(taken), _price(cycle, preemptor, domain, bundles, list(taken), victims)
    )


def _spared(bundles: Bundles, chosen: list[int], fits: Feasibility) -> dict[int, Ints]:
    """The chosen bundles without those, the dearest first, and then without those safe tasks that are not needed."""
    place = {b: i for i, b in enumerate(chosen)}
    dearest = sorted(chosen, key=lambda b: (-bundles.cost[b], -place[b]))
    going = {dearest[i] for i in _needed([bundles.of(b) for b in dearest], _NOBODY, fits)}
    whole = [b for b in chosen if b in going and not bundles.safe[b]]
    safe = [b for b in chosen if b in going and bundles.safe[b]]
    fixed = _flat([bundles.of(b) for b in whole])
    taken = {b: bundles.of(b) for b in whole} | _tasks(bundles, safe, np.flip(_all(bundles, safe)), fixed, fits)
    return {b: taken[b] for b in chosen if b in taken}


def _highest(preemptor: Preemptor, plan: EvictionPlan) -> int:
    """The priority of the most important task that goes."""
    return int(preemptor.running.priority[plan.victims].max(initial=-(2**40)))


def _smallest(preemptor: Preemptor, bundles: Bundles, safe: list[int], fits: Feasibility) -> dict[int, Ints]:
    """The tasks of safe bundles without those not needed, later groups, more important and larger ones spared first."""
    tasks, asked = _all(bundles, safe), preemptor.weighed
    groups = np.repeat(bundles.group[safe], [len(bundles.of(b)) for b in safe])
    shares = (preemptor.running.request[np.ix_(asked, tasks)] / preemptor.need[asked, None]).sum(axis=0)
    priority = preemptor.running.priority[tasks]
    order = np.lexsort((-np.arange(len(tasks)), -np.rint(shares * 1e6), -priority, -groups))
    return _tasks(bundles, safe, tasks[order], _NOBODY, fits)


def _tasks(bundles: Bundles, safe: list[int], tasks: Ints, fixed: Ints, fits: Feasibility) -> dict[int, Ints]:
    """What of these safe bundles must go beside the `fixed` victims; the first of their `tasks` are spared first."""
    going = tasks[_needed([tasks[i : i + 1] for i in range(len(tasks))], fixed, fits)]
    left = {b: bundles.of(b)[np.isin(bundles.of(b), going)] for b in safe}
    return {b: victims for b, victims in left.items() if len(victims)}


def _needed(parts: list[Ints], fixed: Ints, fits: Feasibility) -> list[int]:
    """Which parts must be evicted beside the `fixed` victims; parts are tried for removal in order.

    Runs of increasing length are removed at once: parts that can be kept together could also be kept one by one.
    """
    going: list[int] = []
    at, step = 0, 1
    trial = fits.sparing(parts, fixed)
    while at < len(parts):
        if trial.spare(at, min(at + step, len(parts))):
            at, step = at + step, step * 2
        elif step > 1:
            step = 1
        else:
            going.append(at)
            at += 1
    return going


def _all(bundles: Bundles, chosen: list[int]) -> Ints:
    return _flat([bundles.of(b) for b in chosen])


def _shortest(bundles: Bundles, order: list[int], fits: Feasibility) -> int | None:
    """How many bundles from the front make room: more victims never make less room, so bisection finds it."""
    if fits.without(_NOBODY):
        return 0
    if not fits.without(_flat([bundles.of(b) for b in order])):
        return None
    low, high = 0, len(order)  # `low` are too few, `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        if fits.without(_flat([bundles.of(b) for b in order[:middle]])):
            high = middle
        else:
            low = middle
    return high


def _flat(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else _NOBODY


def _price(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, taken: list[int], victims: Ints
) -> tuple[float, ...]:
    """Highest priority broken (preempt), what the broken gangs held anywhere, what is evicted, tier, name."""
    broken = [b for b in taken if not bundles.safe[b]]
    highest = max((cycle.snapshot.jobs[int(bundles.job[b])].priority for b in broken), default=-(2**40))
    asked = preemptor.weighed
    evicted = (preemptor.running.request[np.ix_(asked, victims)].sum(axis=1) / preemptor.need[asked]).sum()
    return (
        float(highest) if preemptor.purpose is Purpose.PREEMPT else 0.0,
        round(float(bundles.cost[broken].sum()), 9),
        round(float(evicted), 9),
        float(cycle.topology.tier[domain]),
        float(cycle.topology.rank[domain]),
    )
