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
    cycle: Cycle, job: Job, asked: Demand, *, within: int = ROOT, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """Find a place for a demand of a job inside a domain; what is found is on the ledger.

    If pods share something that is created where the first one lands, such as a volume of a zone, each zone is tried by
    itself first. If a job with sub-groups finds no place, each zone that pod affinity could tie it to is tried.
    """
    if job.shape.apart:
        from tierwise.actions.placement.apart import place_apart  # few gangs ask for it

        return place_apart(cycle, job, asked, within, pools)
    cut, options = cycle.report.search_counts.cut, cycle.pipeline.gather_options(job, asked.need)
    if options:
        from tierwise.actions.placement.quanta import place_in_multiples  # rarely needed, and slow to import

        return _inside(cycle, place_in_multiples(cycle, job, asked.task_groups[0], options, pools), within)

    anywhere = _search_of(cycle, job, asked, within, pools)
    shared = cycle.pipeline.shared_places(job)
    if shared is not None:
        found = _confined(cycle, job, asked, shared, anywhere)
        if isinstance(found, SearchResult):
            return replace(found, terms=(Term.TIED, *found.terms))
    found = anywhere()
    if isinstance(found, NoPlace) and job.shape.parted:
        ties = [tie for shape in pending(cycle, job) for tie in cycle.pipeline.ties(shape)]
        tied = _confined(cycle, job, asked, common_places(ties), anywhere) if ties else found
        if isinstance(tied, SearchResult):
            tied = replace(tied, terms=(Term.TIED, *tied.terms))
        # Places that are too small for all of it prove nothing: ties may concern one sub-group of several.
        found = tied if found is NoPlace.PROVEN or isinstance(tied, SearchResult) else found
    unknown = found is NoPlace.BOUNDED or (found is NoPlace.PROVEN and asked.cut)
    if not unknown:
        return found
    from tierwise.actions.placement.exact import place_exactly  # rarely needed

    found = place_exactly(cycle, job, asked, within, pools, shared)
    if found is NoPlace.PROVEN:
        cycle.report.search_counts.cut = cut  # whatever was cut short before, nothing was missed
    return found


# The minimum of a gang: chosen so that all of the gang is in as few innermost domains as it can be.


def search_minimum(cycle: Cycle, job: Job, asked: Demand, *, alone: bool = False) -> SearchResult | NoPlace:
    """Find a place; for a gathered job as a whole, and if there is none, or a quota forbids that, for its minimum.

    The first gang of a set that stays together goes where those find a place that are to come beside it; `alone`, that
    does not matter.
    """
    if not alone and cycle.sets is not None and cycle.sets.concerns(job):
        from tierwise.actions.placement.sets import with_regard  # few gangs are in sets

        return with_regard(cycle, job, asked, partial(search_minimum, alone=True))
    turns = cycle.rows_in_turn(job)
    if turns is not None:
        again = partial(search_minimum, cycle, job, asked, alone=alone)
        return turns.in_turn(cycle, job, again, lambda found: isinstance(found, SearchResult))
    mark, bounded = cycle.ledger.mark(), False
    found: SearchResult | NoPlace = NoPlace.PROVEN
    sizes = job.shape.wishes.sizes
    for each in _largest_first(cycle, job, asked) if sizes else whole_first(cycle, job, asked):
        if each is asked or cycle.over_quota(job, needs(each)) is None:
            found = solve(cycle, job, each, pools=NOW_ONLY if sizes and each is not asked else BOTH)
            if isinstance(found, SearchResult):
                break
            bounded |= found is NoPlace.BOUNDED
    if isinstance(found, NoPlace):
        return NoPlace.of(bounded=bounded)
    if sizes or len(asked.task_groups) > 1:
        return found
    return _with_its_surplus(cycle, job, asked, found, mark)


def _largest_first(cycle: Cycle, job: Job, asked: Demand) -> Iterator[Demand]:
    """The demands of a gang's larger sizes, and what was asked."""
    for task_group in larger_sizes(cycle, job):
        if task_group.need > asked.need:
            yield replace(asked, task_groups=(task_group,))
    yield asked


def _with_its_surplus(cycle: Cycle, job: Job, asked: Demand, found: SearchResult, mark: int) -> SearchResult | NoPlace:
    """The place of a minimum, or another of a tier as low from where its surplus is in fewer innermost domains.

    The ledger was at the mark before the place was found. Only the minimum is placed: who is next is another question.
    """
    (task_group,) = asked.task_groups
    left = sum(tasks_left.left for tasks_left in task_group.remaining) - task_group.need
    if left <= 0 or not _planned_as_one(cycle, job, task_group):
        return found
    topology, rows = cycle.topology, rows_of(found.placements)
    used = np.isin(topology.leaf, topology.leaf[rows])
    shapes = [tasks_left.pod_set.shape for tasks_left in task_group.remaining]
    if left <= min(int(cycle.fit_counts.of(shape).rows(Pool.IDLE)[used].sum()) for shape in shapes):
        return found  # the surplus fits beside it
    whole = everything(task_group)
    if cycle.over_quota(job, needs(Demand((whole,)))) is not None:
        return found
    cycle.ledger.rewind(mark)
    with cycle.ledger.statement():
        together = search_group(cycle, job, whole, pools=NOW_ONLY)
    part = None
    if isinstance(together, SearchResult):
        part = _minimum_of(cycle, task_group, together, int(topology.tier[topology.meet_rows(rows)]))
    if part is not None:
        found = replace(part, score=found.score, proposed=found.proposed, terms=(Term.SURPLUS,))
    return written(cycle, job, found)


def _planned_as_one(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    if job.constraint is None or job.shape.parted or not cycle.pipeline.room_ahead or cycle.beside_gradients(job):
        return False
    if len(task_group.sub.held) or task_group.sub.previous_domain:
        return False
    return not any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining)


def _minimum_of(cycle: Cycle, task_group: TaskGroup, together: SearchResult, tier: int) -> SearchResult | None:
    """The tasks of the minimum among all of a gang, inside one domain of a tier: those of the fullest leaves first."""
    topology, wanted = cycle.topology, dict(task_group.taken())
    by_leaf = np.bincount(topology.leaf[rows_of(together.placements)], minlength=len(topology))
    every: dict[PodSet, Placement] = {}  # one for each pod set, of which a role's minimum is placed by itself
    for placement in together.placements:
        before = every.get(placement.pod_set)
        rows = placement.rows if before is None else np.concatenate((before.rows, placement.rows))
        every[placement.pod_set] = replace(placement, rows=rows)
    best: SearchResult | None = None
    fewest = len(topology)
    for domain in np.flatnonzero((topology.tier <= tier) & (topology.roll_up(by_leaf) >= task_group.need)).tolist():
        chosen: list[Placement] = []
        for placement in every.values():
            first, end = topology.start[domain], topology.end[domain]
            inside = placement.rows[(first <= placement.rows) & (placement.rows < end)]
            order = np.lexsort((inside, topology.leaf[inside], -by_leaf[topology.leaf[inside]]))
            chosen.append(replace(placement, rows=np.sort(inside[order[: wanted.get(placement.pod_set, 0)]])))
        rows = rows_of(chosen)
        leaves = len(distinct(topology.leaf[rows]))
        if len(rows) == task_group.need and leaves < fewest:
            some = tuple(placement for placement in chosen if len(placement.rows))
            best, fewest = SearchResult(domain, some, 0.0, with_surplus=np.flatnonzero(by_leaf)), leaves
    return best


# A search by the tree, or the trees, that the constraints of a job are on.


_Search = Callable[[], SearchResult | NoPlace]


def _search_of(cycle: Cycle, job: Job, asked: Demand, within: int, pools: tuple[Pool, ...]) -> _Search:
    """The search by the tree, or the trees, that the constraints of a job are on."""
    if cycle.snapshot.ground(job) is Ground.TREES:
        return partial(_search_trees, cycle, job, asked, within, pools)
    if job.shape.parted:
        return partial(_search_parts, cycle, job, asked, within, pools)
    return partial(search_group, cycle, job, asked.task_groups[0], within=within, pools=pools)


def _search_trees(
    cycle: Cycle, job: Job, asked: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for a job with constraints on several trees."""
    from tierwise.actions.placement.cells import search_cells  # rarely needed

    return _inside(cycle, search_cells(cycle, job, asked, within, pools), within)


def _inside(cycle: Cycle, found: SearchResult | NoPlace, within: int) -> SearchResult | NoPlace:
    """What was found on another tree, where it is inside a domain of this one."""
    if isinstance(found, NoPlace) or within <= found.domain < int(cycle.topology.last[within]):
        return found
    return NoPlace.BOUNDED


def _search_parts(
    cycle: Cycle, job: Job, asked: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for what a job of several parts, or an inner group of a nested one, lacks: for the parts that come
    first and those that may stand for them, then for all other selections.
    """
    found = _search_tree_of_parts(cycle, job, asked, within, pools)
    if isinstance(found, NoPlace) and asked.alternatives is not None:
        return _search_tree_of_parts(cycle, job, asked.alternatives, within, pools)
    return found


def _search_tree_of_parts(
    cycle: Cycle, job: Job, asked: Demand, within: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Find a place for one tree of parts."""
    whole = parts_of(cycle, job, asked)
    if whole is None or not isinstance(whole.gang, Job):
        return NoPlace.PROVEN
    gradients = tuple(gradients_of(cycle, whole.gang, within))
    if whole.kind is not None and not any(map(cycle.pipeline.moving, whole.parts[0].shapes)):
        found = place_alike(cycle, job, whole, gradients)
        if isinstance(found, SearchResult):
            return found
        releasing = cycle.ledger.any_releasing and Pool.FUTURE_IDLE in pools
        replaceable = whole.optional and not whole.counts_parts  # by sub-groups that may be others
        if found is NoPlace.PROVEN and not releasing and not replaceable:
            return found  # no domain holds it, by counting
    return _search_unlike(cycle, job, asked, gradients, whole, pools)


def _search_unlike(
    cycle: Cycle, job: Job, asked: Demand, gradients: Gradients, whole: Part, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """The best place by `assign`, which is asked about the first few domains that pass every bound."""
    from tierwise.actions.placement.assign import assign  # slow to import, and most jobs have alike groups or none

    budget = Budget(cycle.budget.steps, cycle.steps)

    def place_below(domain: int) -> SearchResult | NoPlace:
        """Within half of what is left of the budget."""
        mine = Budget(budget.left // 2, budget.account)
        budget.left -= mine.left
        found = assign(cycle, job, asked, whole, domain, mine, pools)
        budget.left += mine.left
        return found

    bounded = False
    for gradient in gradients:
        order, levels = _shortlist(cycle, whole.gang, asked, gradient)
        found = _best_of(cycle, job, order, levels, place_below)
        if isinstance(found, SearchResult):
            return found
        bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def _shortlist(cycle: Cycle, job: Job | SubJob, asked: Demand, gradient: Ints) -> tuple[Order, Ints]:
    """The domains of a gradient that pass every bound, and for each the tier around it that holds the surplus as well.

    The lowest tier comes first, then the highest sum of sub-job scores.
    """
    cycle.report.search_counts.domains += len(gradient)
    feasible = gradient[may_hold_all(Room(cycle, Pool.FUTURE_IDLE), asked, gradient)]
    levels = np.zeros(len(feasible), dtype=np.int64)
    if len(feasible) < 2:
        return Order(feasible, np.zeros(len(feasible)), []), levels
    worth = np.asarray(sum(cycle.pipeline.score_domains(task_group.sub, feasible) for task_group in asked.task_groups))
    ahead = surplus_keys(cycle, job, feasible, asked.need)
    parts = with_parts(cycle, cycle.snapshot.jobs[job.number if isinstance(job, Job) else job.job_number], feasible)
    return order_of(cycle, feasible, worth, cycle.current_domain(job), ahead, parts), ahead[0] if ahead else levels


def _best_of(
    cycle: Cycle, job: Job, order: Order, levels: Ints, place_below: Callable[[int], SearchResult | NoPlace]
) -> SearchResult | NoPlace:
    """Try domains in order, and leave the placement with the best score on the ledger.

    Once one has succeeded, those of another level are not tried, nor any beyond the shortlist.
    """
    best: SearchResult | None = None
    bounded, level, first = False, 0, -1
    for tried, i in enumerate(order):
        if best is not None and (tried >= _SHORTLIST or levels[i] != level):
            break
        with cycle.ledger.statement() as statement:
            found = place_below(int(order.domains[i]))
            if len(order.domains) == 1 and isinstance(found, SearchResult):  # nothing to compare
                statement.keep()
                return found
        bounded |= found is NoPlace.BOUNDED
        if isinstance(found, SearchResult) and (best is None or found.score > best.score + 1e-6):
            first = i if best is None else first
            best, level = found, int(levels[i])
    if best is None:
        return NoPlace.of(bounded=bounded)
    terms = order.decided(first)
    if best.domain != order.domains[first]:  # its parts score more than those of the first one
        terms = (*(term for term in terms if term is Term.SURPLUS), Term.SCORE)
    return written(cycle, job, replace(best, terms=terms))


# A job inside one of several places that are no domains of its tree, such as zones: what is outside a place is taken
# off the ledger while it is searched, and what was found is written on the ledger as it was.


def _confined(cycle: Cycle, job: Job, asked: Demand, places: Ints, search: _Search) -> SearchResult | NoPlace:
    """The first place in which a search for a job succeeds, the smallest that may hold it first; on the ledger.

    `places` has a number for each row that rows of one place share, -1 for none.
    """
    needed: Counter[Shape] = Counter()
    for task_group in asked.task_groups:
        needed.update(indispensable(task_group))
    able, room = large_enough(cycle, needed, places, Pool.FUTURE_IDLE)
    order = np.argsort(room, kind="stable")
    order, most = order[able[order]], cycle.budget.places
    found = first_found(
        confined(cycle, job, np.flatnonzero(places == place), search) for place in order[:most].tolist()
    )
    return NoPlace.BOUNDED if isinstance(found, NoPlace) and len(order) > most else found
