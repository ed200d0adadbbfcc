"""Sub-groups of a gang that stand apart: at most so many of a policy in one domain of a tier.

They are placed one after the other, the hardest first, and the domains that hold as many of the others as they may are
closed to each of them. For alike sub-groups that lie inside one domain of the tier that is exact: such domains do not
touch each other, and whichever is taken first, each takes as many as it holds. Others may be missed, and the answer
says so. A soft rule is kept where that is possible, and dropped otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tierwise.actions.placement.bounds import Room, gradients_of, may_hold_all
from tierwise.actions.placement.choose import order_of, search_group
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.limits import domain_of_rows
from tierwise.actions.placement.problem import NoPlace, Placement, SearchResult, tightness
from tierwise.api.plurals import several
from tierwise.api.sets import WHOLE, percent
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool, job_ready
from tierwise.model.arrays import Bools, Ints, Why, distinct
from tierwise.model.job import Job, Reason, SetRule, Status, SubJob

__all__ = ["apart_from_others", "place_apart", "why_not_apart"]

_SHORTLIST = 8
"""Domains of a tier in which all sub-groups are tried."""
_ORDERS = 6
"""Orders of sub-groups that are tried in a domain."""


@contextmanager
def apart_from_others(cycle: Cycle, job: Job, sub: SubJob, *, soft: bool = False) -> Iterator[None]:
    """Inside, the domains are closed to a sub-group that hold as many others of its policy as they may."""
    rules = job.policies[sub.policy].apart if sub.policy >= 0 else ()
    rules = tuple(rule for rule in rules if soft or rule.constraint.hard)
    if not rules:
        yield
        return
    before = cycle.fit_counts.closed
    why: Why = np.zeros(len(cycle.nodes), dtype=np.uint16) if before is None else before.copy()
    for rule in rules:
        homes = domain_of_rows(cycle, rule.constraint)
        if homes is not None:
            closed = (homes < 0) | _full(cycle, job, sub, rule, homes)[homes]
            why[closed & (why == 0)] = cycle.view.reasons.number(_on_nodes(job, sub, rule))
    cycle.fit_counts.close(why if why.any() else None)
    try:
        yield
    finally:
        cycle.fit_counts.close(before)


def _full(cycle: Cycle, job: Job, sub: SubJob, rule: SetRule, homes: Ints) -> Bools:
    """Which domains hold as many other sub-groups as they may; those in which it stands itself are open."""
    number, domains_in_use = np.zeros(int(homes.max(initial=-1)) + 1, dtype=np.int64), 0
    for other_sub in job.subs:
        if other_sub.policy == sub.policy and other_sub is not sub:
            domains = _homes_of(cycle, other_sub, homes)
            number[domains] += 1
            domains_in_use += bool(len(domains))
    full: Bools = number >= rule.most if rule.most else number * WHOLE > rule.share * domains_in_use
    full[_homes_of(cycle, sub, homes)] = False
    return full


def _homes_of(cycle: Cycle, sub: SubJob, homes: Ints) -> Ints:
    """The domains in which tasks of a sub-group stand, or are leaving."""
    leaving = [task.node for task in sub.tasks if task.status is Status.RELEASING and task.node >= 0]
    rows = cycle.nodes.rows[np.array(leaving, dtype=np.int64)]
    placed = cycle.ledger.placed_rows(sub)
    if placed is not None:
        rows = np.concatenate((rows, placed[0][placed[1] > 0]))
    domains = distinct(homes[rows])
    return domains[domains >= 0]


def place_apart(cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]) -> SearchResult | NoPlace:
    """The best place for a demand in which sub-groups stand apart, on the ledger."""
    rules = [rule for policy in job.policies for rule in policy.apart]
    placement = _placed(cycle, job, demand, within, pools, soft=True)
    if isinstance(placement, NoPlace) and not all(rule.constraint.hard for rule in rules):
        placement = _placed(cycle, job, demand, within, pools, soft=False)
    return placement


def _placed(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...], *, soft: bool
) -> SearchResult | NoPlace:
    exact = _counted(cycle, job, demand)
    for gradient in gradients_of(cycle, job, within):
        domains = gradient[may_hold_all(Room(cycle, pools[-1]), demand, gradient)]
        if not len(domains):
            continue
        worth = np.asarray(sum(cycle.pipeline.score_domains(group.sub, domains) for group in demand.task_groups))
        order = order_of(cycle, domains, worth, cycle.current_domain(job))
        for number, i in enumerate(order):
            if number == _SHORTLIST:
                exact = False
                break
            with cycle.ledger.statement() as statement:
                orders = 1 if exact else _ORDERS
                placements = _below(cycle, job, demand, int(domains[i]), pools, soft=soft, orders=orders)
                if placements is not None:
                    statement.keep()
                    return SearchResult(int(domains[i]), tuple(placements), float(worth[i]), terms=order.decided(i))
    return NoPlace.of(bounded=not exact)


def _below(
    cycle: Cycle, job: Job, demand: Demand, domain: int, pools: tuple[Pool, ...], *, soft: bool, orders: int
) -> list[Placement] | None:
    """Place one sub-group after the other below a domain, until the job is ready.

    The hardest comes first. One that finds nothing is placed before all others the next time.
    """
    groups = sorted(demand.task_groups, key=lambda group: tightness(cycle, group))
    for _ in range(min(len(groups), orders)):
        with cycle.ledger.statement() as statement:
            outcome = _in_order(cycle, job, demand, groups, within=domain, pools=pools, soft=soft)
            if not isinstance(outcome, TaskGroup):
                if outcome is not None:
                    statement.keep()
                return outcome
        if outcome is groups[0]:
            return None
        groups = [outcome, *(group for group in groups if group is not outcome)]
    return None


def _in_order(
    cycle: Cycle,
    job: Job,
    demand: Demand,
    groups: Sequence[TaskGroup],
    *,
    within: int,
    pools: tuple[Pool, ...],
    soft: bool,
) -> list[Placement] | TaskGroup | None:
    """Places of sub-groups in this order, until the job is ready; the first that finds none and must have one; None
    where the job does not become ready.
    """
    placements: list[Placement] = []
    for task_group in (*groups, *demand.substitutes):
        if demand.substitutes and placements and job_ready(cycle.ledger, job, waiting=True):
            break
        with apart_from_others(cycle, job, task_group.sub, soft=soft):
            placement = search_group(cycle, job, task_group, within=within, pools=pools)
        if isinstance(placement, SearchResult):
            placements += placement.placements
        elif not demand.substitutes:
            return task_group
    return placements if job_ready(cycle.ledger, job, waiting=True) else None


def _counted(cycle: Cycle, job: Job, demand: Demand) -> bool:
    """Whether sub-groups that find no place one after the other have none: alike ones, each inside one domain."""
    if demand.substitutes or demand.alternatives is not None or demand.cut or cycle.ledger.any_releasing:
        return False
    kinds = {(group.need, group.sub.policy, group.firm()) for group in demand.task_groups}
    if len(kinds) != 1 or len(next(iter(kinds))[2]) != 1:
        return False
    first_group = demand.task_groups[0]
    rules, limit = (
        job.policies[first_group.sub.policy].apart if first_group.sub.policy >= 0 else (),
        cycle.pipeline.limit(first_group.sub),
    )
    if (
        len(rules) != 1
        or not rules[0].most
        or limit is None
        or cycle.snapshot.alternate_topology(rules[0].constraint) is not None
    ):
        return False
    if any(cycle.pipeline.moving(shape) for shape in first_group.by_shape()) or cycle.current_domain(job) is not None:
        return False
    asked_tier, names = rules[0].constraint, cycle.topology.tier_names
    tier = asked_tier.tier if asked_tier.tier is not None else names.get(asked_tier.tier_name)
    return tier is not None and limit <= tier


def why_not_apart(cycle: Cycle, job: Job, demand: Demand, found_without: SearchResult | NoPlace) -> Reason | None:
    """Why a job waits whose sub-groups would have a place closer to each other; None where they would not."""
    if isinstance(found_without, NoPlace):
        return None
    rules = [(policy, rule) for policy in job.policies for rule in policy.apart if rule.constraint.hard]
    if not rules:
        return None
    policy, rule = rules[0]
    tier = rule.constraint.tier_name or "domain"
    subs = len({group.sub.number for group in demand.task_groups if job.policies[group.sub.policy] is policy})
    words = several(job.part_names.of(policy.name, policy.name))
    text = f"{subs} {words} {policy.name} with at most {_most(rule)} in one {tier}: too few {tier}s hold them so"
    return Reason("NotApart", "sets", text)


def _on_nodes(job: Job, sub: SubJob, rule: SetRule) -> Reason:
    tier, name = rule.constraint.tier_name or "domain", job.policies[sub.policy].name
    word = job.part_word(sub)
    other_parts = f"another {word}" if rule.most == 1 else f"{rule.most} other {several(word)}"
    limit_text = other_parts if rule.most else f"more than {percent(rule.share)} of the {several(word)}"
    return Reason("NotApart", "sets", f"had {limit_text} {name} in their {tier}, which is the most")


def _most(rule: SetRule) -> str:
    """How many sub-groups may be in one domain, as people say it."""
    return str(rule.most) if rule.most else f"{percent(rule.share)} of those that stand"
