"""Find a place for a demand: the one entry for jobs of every kind, for all actions and for diagnosis.

`search_minimum` is the entry for the minimum of a gang, whose surplus is to come beside it, `solve` for all else.

Which module finds the place depends on the job:

    gathered, or its only constraint is on another tree than rows follow    quanta: counted in multiples, from rows up
    constraints on several trees                                            cells: a set of cells for each part
    no sub-groups                                                           choose: one task group in one domain
    sub-groups that are alike                                               alike: sums for all domains at once
    other sub-groups                                                        assign: backtracking in a few domains

The gradients of a job are tried from the tightest tier outwards, and of a gradient the domain with the highest sum of
scores is chosen. `problem.parts_of` makes the tree of parts of a job with sub-groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.alike import place_alike
from tierwise.actions.placement.bounds import Room, gradients_of, may_hold_all
from tierwise.actions.placement.choose import (
    Order,
    order_of,
    pending,
    search_group,
    surplus_keys,
    with_parts,
)
from tierwise.actions.placement.demand import Demand, TaskGroup, everything, larger_sizes, needs, whole_first
from tierwise.actions.placement.problem import (
    BOTH,
    NOW_ONLY,
    Budget,
    NoPlace,
    Part,
    Placement,
    SearchResult,
    first_found,
    parts_of,
    rows_of,
    written,
)
from tierwise.actions.placement.trial import common_places, confined, indispensable, large_enough
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool
from tierwise.framework.report import Term
from tierwise.model.arrays import Ints, distinct
from tierwise.model.job import Job, PodSet, Shape, SubJob
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["search_minimum", "solve"]

_SHORTLIST = 8
"""How many candidates of a gradient are packed to compare their scores; more only if all of these fail."""


def solve(
    cycle: Cycle, job: Job, demand: Demand, *, within: int = ROOT, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """Find a place for a demand of a job inside a domain; what is found is on the ledger.

    If pods share something that is created where the first one lands, such as a volume of a zone, each zone is tried by
    itself first. If a job with sub-groups finds no place, each zone that pod affinity could tie it to is tried.
    """
    if job.shape.apart:
        from tierwise.actions.placement.apart import place_apart  # few gangs ask for it

        return place_apart(cycle, job, demand, within, pools)
    cut, options = cycle.report.search_counts.cut, cycle.pipeline.gather_options(job, demand.need)
    if options:
        from tierwise.actions.placement.quanta import place_in_multiples  # rarely needed, and slow to import

        return _inside(cycle, place_in_multiples(cycle, job, demand.task_groups[0], options, pools), within)

    anywhere = _search_of(cycle, job, demand, within, pools)
    shared = cycle.pipeline.shared_places(job)
    if shared is not None:
        placement = _confined(cycle, job, demand, shared, anywhere)
        if isinstance(placement, SearchResult):
            return replace(placement, terms=(Term.TIED, *placement.terms))
    placement = anywhere()
    if isinstance(placement, NoPlace) and job.shape.parted:
        ties = [tie for shape in pending(cycle, job) for tie in cycle.pipeline.ties(shape)]
        tied = _confined(cycle, job, demand, common_places(ties), anywhere) if ties else placement
        if isinstance(tied, SearchResult):
            tied = replace(tied, terms=(Term.TIED, *tied.terms))
        # Places that are too small for all of it prove nothing: ties may concern one sub-group of several.
        placement = tied if placement is NoPlace.PROVEN or isinstance(tied, SearchResult) else placement
    unknown = placement is NoPlace.BOUNDED or (placement is NoPlace.PROVEN and demand.cut)
    if not unknown:
        return placement
    from tierwise.actions.placement.exact import place_exactly  # rarely needed

    placement = place_exactly(cycle, job, demand, within, pools, shared)
    if placement is NoPlace.PROVEN:
        cycle.report.search_counts.cut = cut  # whatever was cut short before, nothing was missed
    return placement


# The minimum of a gang: chosen so that all of the gang is in as few innermost domains as it can be.


def search_minimum(cycle: Cycle, job: Job, demand: Demand, *, alone: bool = False) -> SearchResult | NoPlace:
    """Find a place; for a gathered job as a whole, and if there is none, or a quota forbids that, for its minimum.

    The first gang of a set that stays together goes where those find a place that are to come beside it; `alone`, that
    does not matter.
    """
    if not alone and cycle.sets is not None and cycle.sets.concerns(job):
        from tierwise.actions.placement.sets import with_regard  # few gangs are in sets

        return with_regard(cycle, job, demand, partial(search_minimum, alone=True))
    turns = cycle.rows_in_turn(job)
    if turns is not None:
        search_again = partial(search_minimum, cycle, job, demand, alone=alone)
        return turns.in_turn(cycle, job, search_again, lambda outcome: isinstance(outcome, SearchResult))
    mark, bounded = cycle.ledger.mark(), False
    outcome: SearchResult | NoPlace = NoPlace.PROVEN
    sizes = job.shape.wishes.sizes
    for choice in _largest_first(cycle, job, demand) if sizes else whole_first(cycle, job, demand):
        if choice is demand or cycle.over_quota(job, needs(choice)) is None:
            outcome = solve(cycle, job, choice, pools=NOW_ONLY if sizes and choice is not demand else BOTH)
            if isinstance(outcome, SearchResult):
                break
            bounded |= outcome is NoPlace.BOUNDED
    if isinstance(outcome, NoPlace):
        return NoPlace.of(bounded=bounded)
    if sizes or len(demand.task_groups) > 1:
        return outcome
    return _with_its_surplus(cycle, job, demand, outcome, mark)


def _largest_first(cycle: Cycle, job: Job, demand: Demand) -> Iterator[Demand]:
    """The demands of a gang's larger sizes, and what was asked."""
    for task_group in larger_sizes(cycle, job):
        if task_group.need > demand.need:
            yield replace(demand, task_groups=(task_group,))
    yield demand


def _with_its_surplus(
    cycle: Cycle, job: Job, demand: Demand, placement: SearchResult, mark: int
) -> SearchResult | NoPlace:
    """The place of a minimum, or another of a tier as low from where its surplus is in fewer innermost domains.

    The ledger was at the mark before the place was found. Only the minimum is placed: who is next is another question.
    """
    (task_group,) = demand.task_groups
    surplus_size = sum(tasks_left.left for tasks_left in task_group.remaining) - task_group.need
    if surplus_size <= 0 or not _planned_as_one(cycle, job, task_group):
        return placement
    topology, rows = cycle.topology, rows_of(placement.placements)
    used = np.isin(topology.leaf, topology.leaf[rows])
    shapes = [tasks_left.pod_set.shape for tasks_left in task_group.remaining]
    if surplus_size <= min(int(cycle.fit_counts.of(shape).rows(Pool.IDLE)[used].sum()) for shape in shapes):
        return placement  # the surplus fits beside it
    all_tasks = everything(task_group)
    if cycle.over_quota(job, needs(Demand((all_tasks,)))) is not None:
        return placement
    cycle.ledger.rewind(mark)
    with cycle.ledger.statement():
        together = search_group(cycle, job, all_tasks, pools=NOW_ONLY)
    part = None
    if isinstance(together, SearchResult):
        part = _minimum_of(cycle, task_group, together, int(topology.tier[topology.meet_rows(rows)]))
    if part is not None:
        placement = replace(part, score=placement.score, proposed=placement.proposed, terms=(Term.SURPLUS,))
    return written(cycle, job, placement)


def _planned_as_one(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    if job.constraint is None or job.shape.parted or not cycle.pipeline.room_ahead or cycle.beside_gradients(job):
        return False
    if len(task_group.sub.held) or task_group.sub.previous_domain:
        return False
    return not any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining)


def _minimum_of(cycle: Cycle, task_group: TaskGroup, together: SearchResult, tier: int) -> SearchResult | None:
    """The tasks of the minimum among all of a gang, inside one domain of a tier: those of the fullest leaves first."""
    topology, number_of_pod_set = cycle.topology, dict(task_group.taken())
    by_leaf = np.bincount(topology.leaf[rows_of(together.placements)], minlength=len(topology))
    every: dict[PodSet, Placement] = {}  # one for each pod set, of which a role's minimum is placed by itself
    for placement in together.placements:
        before = every.get(placement.pod_set)
        rows = placement.rows if before is None else np.concatenate((before.rows, placement.rows))
        every[placement.pod_set] = replace(placement, rows=rows)
    best: SearchResult | None = None
    fewest = len(topology)
    for domain in np.flatnonzero((topology.tier <= tier) & (topology.roll_up(by_leaf) >= task_group.need)).tolist():
        placements_in_domain: list[Placement] = []
        for placement in every.values():
            start, end = topology.start[domain], topology.end[domain]
            inside = placement.rows[(start <= placement.rows) & (placement.rows < end)]
            order = np.lexsort((inside, topology.leaf[inside], -by_leaf[topology.leaf[inside]]))
            placements_in_domain.append(
                replace(placement, rows=np.sort(inside[order[: number_of_pod_set.get(placement.pod_set, 0)]]))
            )
        rows = rows_of(placements_in_domain)
        leaves = len(distinct(topology.leaf[rows]))
        if len(rows) == task_group.need and leaves < fewest:
            nonempty = tuple(placement for placement in placements_in_domain if len(placement.rows))
            best, fewest = SearchResult(domain, nonempty, 0.0, with_surplus=np.flatnonzero(by_leaf)), leaves
    return best


# A search by the tree, or the trees, that the constraints of a job are on.


_Search = Callable[[], SearchResult | NoPlace]


def _search_of(cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]) -> _Search:
    """The search by the tree, or the trees, that the constraints of a job are on."""
    if cycle.snapshot.ground(job) is Ground.TREES:
        return partial(_search_trees, cycle, job, demand, within, pools)
    if job.shape.parted:
        return partial(_search_parts, cycle, job, demand, within, pools)
    return partial(search_group, cycle, job, demand.task_groups[0], within=within, pools=pools)


def _search_trees(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for a job with constraints on several trees."""
    from tierwise.actions.placement.cells import search_cells  # rarely needed

    return _inside(cycle, search_cells(cycle, job, demand, within, pools), within)


def _inside(cycle: Cycle, placement: SearchResult | NoPlace, within: int) -> SearchResult | NoPlace:
    """A result of a search on another tree, if it lies inside this domain; else no place, without proof."""
    if isinstance(placement, NoPlace) or within <= placement.domain < int(cycle.topology.last[within]):
        return placement
    return NoPlace.BOUNDED


def _search_parts(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for what a job of several parts, or an inner group of a nested one, lacks: for the parts that come
    first and those that may stand for them, then for all other selections.
    """
    placement = _search_tree_of_parts(cycle, job, demand, within, pools)
    if isinstance(placement, NoPlace) and demand.alternatives is not None:
        return _search_tree_of_parts(cycle, job, demand.alternatives, within, pools)
    return placement


def _search_tree_of_parts(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for one tree of parts."""
    root = parts_of(cycle, job, demand)
    if root is None or not isinstance(root.gang, Job):
        return NoPlace.PROVEN
    gradients = tuple(gradients_of(cycle, root.gang, within))
    if root.kind is not None and not any(map(cycle.pipeline.moving, root.parts[0].shapes)):
        placement = place_alike(cycle, job, root, gradients)
        if isinstance(placement, SearchResult):
            return placement
        releasing = cycle.ledger.any_releasing and Pool.FUTURE_IDLE in pools
        replaceable = root.optional and not root.counts_parts  # by sub-groups that may be others
        if placement is NoPlace.PROVEN and not releasing and not replaceable:
            return placement  # no domain holds it, by counting
    return _search_unlike(cycle, job, demand, gradients, root, pools)


def _search_unlike(
    cycle: Cycle, job: Job, demand: Demand, gradients: Gradients, root: Part, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """The best place by `assign`, which is asked about the first few domains that pass every bound."""
    from tierwise.actions.placement.assign import assign  # slow to import, and most jobs have alike groups or none

    budget = Budget(cycle.budget.steps, cycle.steps)

    def place_below(domain: int) -> SearchResult | NoPlace:
        """Within half of what is left of the budget."""
        mine = Budget(budget.left // 2, budget.account)
        budget.left -= mine.left
        placement = assign(cycle, job, demand, root, domain, mine, pools)
        budget.left += mine.left
        return placement

    bounded = False
    for gradient in gradients:
        order, levels = _shortlist(cycle, root.gang, demand, gradient)
        placement = _best_of(cycle, job, order, levels, place_below)
        if isinstance(placement, SearchResult):
            return placement
        bounded |= placement is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def _shortlist(cycle: Cycle, job: Job | SubJob, demand: Demand, gradient: Ints) -> tuple[Order, Ints]:
    """The domains of a gradient that pass every bound, and for each the tier around it that holds the surplus as well.

    The lowest tier comes first, then the highest sum of sub-job scores.
    """
    cycle.report.search_counts.domains += len(gradient)
    feasible = gradient[may_hold_all(Room(cycle, Pool.FUTURE_IDLE), demand, gradient)]
    levels = np.zeros(len(feasible), dtype=np.int64)
    if len(feasible) < 2:
        return Order(feasible, np.zeros(len(feasible)), []), levels
    worth = np.asarray(sum(cycle.pipeline.score_domains(task_group.sub, feasible) for task_group in demand.task_groups))
    ahead = surplus_keys(cycle, job, feasible, demand.need)
    parts = with_parts(cycle, cycle.snapshot.jobs[job.number if isinstance(job, Job) else job.job_number], feasible)
    return order_of(cycle, feasible, worth, cycle.current_domain(job), ahead, parts), ahead[0] if ahead else levels


def _best_of(
    cycle: Cycle, job: Job, order: Order, levels: Ints, place_below: Callable[[int], SearchResult | NoPlace]
) -> SearchResult | NoPlace:
    """Try domains in order, and leave the placement with the best score on the ledger.

    Once one has succeeded, those of another level are not tried, nor any beyond the shortlist.
    """
    best: SearchResult | None = None
    bounded, level, best_position = False, 0, -1
    for tried, i in enumerate(order):
        if best is not None and (tried >= _SHORTLIST or levels[i] != level):
            break
        with cycle.ledger.statement() as statement:
            placement = place_below(int(order.domains[i]))
            if len(order.domains) == 1 and isinstance(placement, SearchResult):  # nothing to compare
                statement.keep()
                return placement
        bounded |= placement is NoPlace.BOUNDED
        if isinstance(placement, SearchResult) and (best is None or placement.score > best.score + 1e-6):
            best_position = i if best is None else best_position
            best, level = placement, int(levels[i])
    if best is None:
        return NoPlace.of(bounded=bounded)
    terms = order.decided(best_position)
    if best.domain != order.domains[best_position]:  # its parts score more than those of the first one
        terms = (*(term for term in terms if term is Term.SURPLUS), Term.SCORE)
    return written(cycle, job, replace(best, terms=terms))


# A job inside one of several places that are no domains of its tree, such as zones: what is outside a place is taken
# off the ledger while it is searched, and what was found is written on the ledger as it was.


def _confined(cycle: Cycle, job: Job, demand: Demand, places: Ints, search: _Search) -> SearchResult | NoPlace:
    """The first place in which a search for a job succeeds, the smallest that may hold it first; on the ledger.

    `places` has a number for each row that rows of one place share, -1 for none.
    """
    needed: Counter[Shape] = Counter()
    for task_group in demand.task_groups:
        needed.update(indispensable(task_group))
    able, room = large_enough(cycle, needed, places, Pool.FUTURE_IDLE)
    order = np.argsort(room, kind="stable")
    order, max_places = order[able[order]], cycle.budget.places
    placement = first_found(
        confined(cycle, job, np.flatnonzero(places == place), search) for place in order[:max_places].tolist()
    )
    return NoPlace.BOUNDED if isinstance(placement, NoPlace) and len(order) > max_places else placement
