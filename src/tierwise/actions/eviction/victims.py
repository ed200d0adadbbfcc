"""The cheapest victims in one domain: add bundles in order until the gang fits, then drop unnecessary victims."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.actions.eviction.feasibility import Feasibility
from tierwise.actions.eviction.price_bounds import NONE_BROKEN, Price
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.arrays import EMPTY, Ints

__all__ = ["EvictionPlan", "choose", "first_of", "make_plan"]


class EvictionPlan(msgspec.Struct, frozen=True):
    """Victims in one domain, and what they cost; plans are compared by `price`, the smallest wins.

    Where gangs break, plans whose efficiency differs too little to tell them apart are compared by `rank` first:
    the order of the last group of bundles in which a gang breaks, how many do, the most important (reclaim) and the
    oldest of them. Ranks of plans for different domains can be compared.
    """

    domain: int
    victims: Ints
    bundles: Bundles  # all that could have gone, in order
    taken: tuple[int, ...]  # of these
    price: Price
    gain: float = 0.0  # what the gangs that break free, as shares of the need
    cost: float = 0.0  # what they held anywhere; 0 where none breaks
    rank: tuple[float, ...] = ()

    @property
    def tier(self) -> float:
        """Tier of its domain."""
        return self.price[3]


def make_plan(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, fits: Feasibility
) -> EvictionPlan | None:
    """The cheapest of a few good choices of bundles; None where all of them together make too little room.

    Which groups must be drawn on follows from the order. Inside these, gangs are broken by efficiency, by their
    cost from below, and one alone, whichever comes out cheapest once everyone who is not needed stays. Where no
    gang need be broken, the least important and then the smallest tasks that are enough are weighed against the first
    in order.
    """
    bundles, needed = _enough(bundles, fits)
    if needed is None:
        return None
    in_order = np.arange(len(bundles))

    def weigh(bundle_numbers: Ints) -> EvictionPlan:
        needed = _needed(bundles, bundle_numbers, fits)
        return _plan(cycle, preemptor, domain, bundles, _without_surplus(bundles, needed, fits))

    best = weigh(in_order[:needed])
    if not needed:
        return best
    drawn = in_order[bundles.group <= bundles.group[needed - 1]]
    safe = drawn[bundles.safe[drawn]]
    cores = drawn[~bundles.safe[drawn]]
    if bundles.safe[list(best.taken)].all():
        small = _plan(cycle, preemptor, domain, bundles, _smallest(preemptor, bundles, safe, fits))
        return min(best, small, key=lambda plan: (_highest(preemptor, plan), plan.price))
    cores = cores[np.argsort(bundles.cost[cores], kind="stable")]  # equal costs stay in order
    plans = [best]
    rising = np.concatenate((safe, cores))
    if not np.array_equal(rising[:needed], in_order[:needed]):
        enough = fits.fewest(*bundles.parts(rising))
        if enough is not None:
            plans.append(weigh(rising[:enough]))
    cheap = cores[bundles.cost[cores] < min(plan.price[1] for plan in plans)]
    if len(cheap):
        one_core = fits.first_alone(*bundles.parts(cheap), bundles.parts(safe)[0])
        if one_core is not None:
            plans.append(weigh(np.append(safe, cheap[one_core])))
    return first_of(plans, preemptor.alike)


def first_of(plans: Sequence[EvictionPlan], alike_below: float) -> EvictionPlan:
    """The plan that is carried out: of those that break what matters least, and are as efficient as the best of them
    but for a difference that counts as none, the first in rank. The tightest domain comes before age among plans that
    evict as many tasks and are equal in everything else.
    """
    fewest_broken = min(plan.price[0] for plan in plans)
    plans = [plan for plan in plans if plan.price[0] == fewest_broken]
    if not all(plan.cost for plan in plans):
        return min(plans, key=lambda plan: plan.price)
    enough = min(plan.gain for plan in plans)  # each of them makes room, so none gains by more
    best = max(enough / plan.cost for plan in plans)
    alike = [plan for plan in plans if best - enough / plan.cost < alike_below]
    first_plan = min(alike, key=lambda plan: (plan.rank, plan.price))
    equal = [p for p in alike if len(p.victims) == len(first_plan.victims) and p.rank[:-1] == first_plan.rank[:-1]]
    return min(equal, key=lambda plan: (plan.tier, plan.rank, plan.price))


def choose(bundles: Bundles, fits: Feasibility) -> Ints | None:
    """The first bundles that make room, less those that are not needed; None where all of them make too little."""
    bundles, needed = _enough(bundles, fits)
    if needed is None:
        return None
    return _without_surplus(bundles, _needed(bundles, np.arange(needed), fits), fits)[1]


def _enough(bundles: Bundles, fits: Feasibility) -> tuple[Bundles, int | None]:
    """How many bundles from the front make room. Where all of them together do not, those are left out whom the gang
    needs to stay, such as pods that its affinity looks for.
    """
    needed = fits.fewest(bundles.victims, bundles.start)
    staying = fits.that_must_stay(bundles.victims) if needed is None else None
    if staying is not None:
        bundles = bundles.pick(np.flatnonzero(bundles.numbers(staying) == 0))
        needed = fits.fewest(bundles.victims, bundles.start)
    return bundles, needed


def _plan(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, bundles_and_victims: tuple[Ints, Ints]
) -> EvictionPlan:
    taken_bundles, victims = bundles_and_victims
    price = _price(cycle, preemptor, domain, bundles, taken_bundles, victims)
    broken = taken_bundles[~bundles.safe[taken_bundles]]
    if not len(broken):
        return EvictionPlan(domain, victims, bundles, tuple(taken_bundles.tolist()), price)
    weighed = preemptor.weighed
    jobs = preemptor.running.jobs
    going = bundles.parts(broken)[0]
    shares = preemptor.running.request[weighed[:, None], going].sum(axis=1) / preemptor.need[weighed]
    gain = float(np.minimum(shares, 1.0).sum())
    cost = float(bundles.cost[broken].sum())
    important = int(jobs.priority[bundles.job[broken]].max()) if preemptor.purpose is Purpose.RECLAIM else 0
    order = _order_of_last(cycle, preemptor, bundles, broken)
    oldest = float(jobs.created[bundles.job[broken]].min())
    rank = *order, float(len(broken)), float(important), -oldest
    return EvictionPlan(domain, victims, bundles, tuple(taken_bundles.tolist()), price, gain, cost, rank)


def _order_of_last(cycle: Cycle, preemptor: Preemptor, bundles: Bundles, broken: Ints) -> tuple[float, ...]:
    """What orders the last group of bundles in which gangs break: the key of its queue (reclaim), or the place that a
    plugin gave it. Empty in preempt, where plans with the same highest priority are compared.
    """
    if cycle.pipeline.select_victims:
        return (float(bundles.group[broken].max()),)
    if preemptor.purpose is Purpose.PREEMPT:
        return ()
    queues = tuple(cycle.snapshot.queues.values())
    last_queue = int(preemptor.running.jobs.queue[bundles.job[broken[np.argmax(bundles.group[broken])]]])
    return cycle.pipeline.victim_queue_key(queues[last_queue], cycle.snapshot.queues[preemptor.job.queue])


def _needed(bundles: Bundles, bundle_numbers: Ints, fits: Feasibility) -> Ints:
    """The chosen bundles without those, the dearest first, that are not needed."""
    dearest = bundle_numbers[::-1][
        np.argsort(-bundles.cost[bundle_numbers[::-1]], kind="stable")
    ]  # of equal ones the last first
    going = np.zeros(len(bundles), dtype=bool)
    going[dearest[fits.needed(*bundles.parts(dearest), EMPTY)]] = True
    return bundle_numbers[going[bundle_numbers]]


def _without_surplus(bundles: Bundles, bundle_numbers: Ints, fits: Feasibility) -> tuple[Ints, Ints]:
    """These bundles without safe tasks that are not needed: which of them still lose tasks, and which tasks."""
    safe = bundle_numbers[bundles.safe[bundle_numbers]]
    return _tasks(bundles, bundle_numbers, np.flip(bundles.parts(safe)[0]), fits)


def _broken(preemptor: Preemptor, bundles: Bundles, bundle_numbers: Ints) -> tuple[float, float]:
    """The highest priority of the gangs that break (preempt), and what they held anywhere."""
    broken = bundle_numbers[~bundles.safe[bundle_numbers]]
    highest = preemptor.running.jobs.priority[bundles.job[broken]].max(initial=NONE_BROKEN)
    return float(highest) if preemptor.purpose is Purpose.PREEMPT else 0.0, float(bundles.cost[broken].sum())


def _highest(preemptor: Preemptor, plan: EvictionPlan) -> int:
    """The priority of the most important task that goes."""
    return int(preemptor.running.priority[plan.victims].max(initial=NONE_BROKEN))


def _smallest(preemptor: Preemptor, bundles: Bundles, safe: Ints, fits: Feasibility) -> tuple[Ints, Ints]:
    """The tasks of safe bundles without those not needed; of later groups, important and large ones stay first."""
    picked = bundles.pick(safe)
    weighed = preemptor.weighed
    tasks = picked.victims
    groups = np.repeat(picked.group, np.diff(picked.start))
    shares = (preemptor.running.request[weighed[:, None], tasks] / preemptor.need[weighed, None]).sum(axis=0)
    priority = preemptor.running.priority[tasks]
    order = np.lexsort((-np.arange(len(tasks)), -np.rint(shares * 1e6), -priority, -groups))
    return _tasks(bundles, safe, tasks[order], fits)


def _tasks(bundles: Bundles, bundle_numbers: Ints, tasks: Ints, fits: Feasibility) -> tuple[Ints, Ints]:
    """What of the chosen bundles must go where only these `tasks` may stay; the first of them stay first."""
    picked = bundles.pick(bundle_numbers)
    if not len(tasks):
        return bundle_numbers, picked.victims
    stays = np.zeros(int(picked.victims.max()) + 1, dtype=bool)  # by position in the running table
    stays[tasks] = True
    needed = fits.needed(tasks, np.arange(len(tasks) + 1), picked.victims[~stays[picked.victims]])
    stays[tasks[needed]] = False
    going = ~stays[picked.victims]
    return bundle_numbers[picked.numbers(going) > 0], picked.victims[going]


def _price(
    cycle: Cycle, preemptor: Preemptor, domain: int, bundles: Bundles, bundle_numbers: Ints, victims: Ints
) -> tuple[float, ...]:
    """Highest priority broken (preempt), what the broken gangs held anywhere, what is evicted, tier, name.

    Where evictions are priced, the work that victims lose counts beside what broken gangs held.
    """
    highest, cost = _broken(preemptor, bundles, bundle_numbers)
    weighed = preemptor.weighed
    lost = 0.0
    if preemptor.losses is not None:  # of broken gangs it is in the cost already
        in_broken_gang = np.isin(
            preemptor.running.job[victims], bundles.job[bundle_numbers[~bundles.safe[bundle_numbers]]]
        )
        lost = float(preemptor.losses[victims[~in_broken_gang]].sum())
    evicted = (preemptor.running.request[weighed[:, None], victims].sum(axis=1) / preemptor.need[weighed]).sum()
    return (
        highest,
        round(cost + lost, 9),
        round(float(evicted), 9),
        float(cycle.topology.tier[domain]),
        float(cycle.topology.rank[domain]),
    )
