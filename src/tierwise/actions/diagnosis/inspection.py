"""Inspect one pod when its job is served: the data that `explain` shows.

A `PodInspector` is passed to the cycle; normal cycles pass none and have no extra cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import gradients_of
from tierwise.actions.placement.choose import NO_TIER, Order, compared, order_of, surplus_keys
from tierwise.actions.placement.demand import Demand, TaskGroup, demand, least_needs, surplus
from tierwise.actions.placement.problem import BOTH, SearchResult
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.trial import fit_any_way
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import GRAIN
from tierwise.framework.report import APART, CycleReport, Decision, Term
from tierwise.model.arrays import Floats, Ints
from tierwise.model.gang import around
from tierwise.model.job import Job, Reason, SubJob, Task, Tried
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.model.topology import ROOT, AlternateTopology, Topology

__all__ = ["Candidates", "NodeInspection", "PodInspection", "PodInspector", "candidates", "chosen"]


class NodeInspection(msgspec.Struct, frozen=True):
    """One node as the pod sees it."""

    name: str
    feasible: bool  # it passes every filter, now or once releases are over
    now: bool
    reasons: tuple[str, ...]
    scores: dict[str, float]
    total: float
    figures: dict[str, Mapping[str, object]] = {}  # by plugin: what its answer is made of
    within_reach: bool = True  # where the running pods of its gang leave it a place

    @property
    def takes_it(self) -> bool:
        """Whether the pod could be placed here."""
        return self.feasible and self.within_reach


class Candidates(msgspec.Struct, frozen=True):
    """The domains of a gradient that hold the minimum of a gang, in the order of the search."""

    scores: dict[str, float] = {}
    terms: dict[str, dict[Term, float | None]] = {}  # by domain, what differs between them before score and name
    decided: tuple[Term, ...] = ()  # by which the first comes before the others
    others: dict[str, float] = {}  # the scores of all domains of every gradient, where they can be told

    def settled(self, topology: Topology, decision: Decision | None, sub: SubJob | None = None) -> Candidates:
        """These candidates with the domain first that was chosen for a gang, or for one of its sub-groups."""
        placed = decision.placed if decision is not None else ()
        rows = [part.rows for part in placed if sub is None or part.sub.number == sub.number]
        if decision is None or not rows or not (self.scores or decision.action == "allocate"):
            return self
        domain_of_rows = topology.meet_rows(np.concatenate(rows))
        chosen_name = next(
            (name for name in self.scores if topology.contains(topology.index[name], domain_of_rows)), ""
        )
        scores: dict[str, float] = self.scores
        decided: tuple[Term, ...] = decision.terms
        if not chosen_name:  # it was none of these: they hold the gang, and something else mattered more
            around = [name for name in self.others if topology.contains(topology.index[name], domain_of_rows)]
            chosen_name = max(around, key=topology.index.__getitem__, default=topology.name[domain_of_rows])
            scores = {chosen_name: self.others.get(chosen_name, decision.score), **scores}
        is_best = chosen_name == next(iter(self.scores), "")
        if sub is not None:
            decided = self.decided if is_best else tuple(term for term in decided if term in APART) or (Term.SIBLINGS,)
        elif not decided:  # around its running pods the gang is placed node by node
            decided = self.decided if is_best else (Term.NEAR,)
        if decision.action != "allocate":
            decided = (Term.EVICTED,)
        ranked = {chosen_name: scores[chosen_name], **scores}
        return replace(self, scores=ranked, decided=decided if len(ranked) > 1 else ())


class PodInspection(msgspec.Struct, frozen=True):
    """What was seen: before anything of this cycle was placed for the pod's job."""

    job: Job
    sub: SubJob
    task: Task
    within: str  # the domain that its gang is searched in; "" where its running pods leave it none
    gradients: tuple[tuple[str, ...], ...]
    candidates: Candidates
    nodes: tuple[NodeInspection, ...]
    fabrics: tuple[Tried, ...] = ()  # of a job on several trees: how far each of its constraints comes by itself
    ruled_out: Reason | None = None  # by a plugin, so that nothing is looked for

    @property
    def in_sub_group(self) -> bool:
        """Whether the pod is placed as one of a sub-group with a limit of its own."""
        return _limited(self.job, self.sub) is self.sub

    def after(self, snapshot: Snapshot, report: CycleReport) -> PodInspection:
        """This inspection with the candidate first that the cycle has chosen for the pod."""
        sub = self.sub if self.in_sub_group else None
        decisions = (decision for decision in report.decisions if decision.job.key == self.job.key)
        decision = next(
            (d for d in decisions if sub is None or any(part.sub.number == sub.number for part in d.placed)), None
        )
        if snapshot.ground(self.job) is Ground.GATHERED:
            return replace(self, candidates=chosen(snapshot, self.job, decision))
        return replace(self, candidates=self.candidates.settled(snapshot.topology, decision, sub))


def _limited(job: Job, sub: SubJob) -> Job | SubJob:
    """The gang by whose limit a pod of a sub-job is placed: a sub-group that has one, else the job."""
    return job.gang_of(sub) if sub.constraint is not None else job


def chosen(snapshot: Snapshot, job: Job, decision: Decision | None) -> Candidates:
    """The domain around what was placed of a gang whose places are counted on its tree, and not compared."""
    if decision is None or not decision.placed:
        return Candidates()
    rows, tree = np.concatenate([part.rows for part in decision.placed]), snapshot.alternate_topology(job.constraint)
    topology = snapshot.topology if tree is None else tree.topology
    domain = topology.meet_rows(rows if tree is None else tree.positions[rows])
    return Candidates({topology.name[domain]: decision.score})


class PodInspector:
    """Waits for the job of one pod, looks once."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.inspection: PodInspection | None = None

    def inspect(self, cycle: Cycle, job: Job) -> None:
        """Called by an action when it serves a job."""
        if self.inspection is not None:
            return
        for sub in job.subs:
            pod_sets = (*sub.pod_sets, *(pod_set for i, pod_set in job.best_effort_pod_sets if job.subs[i] is sub))
            for task in (task for pod_set in pod_sets for task in pod_set.tasks):
                if task.key == self.pod:
                    self.inspection = self._inspect(cycle, job, sub, task)
                    return

    def _inspect(self, cycle: Cycle, job: Job, sub: SubJob, task: Task) -> PodInspection:
        gang, job_demand = _limited(job, sub), demand(cycle, job)
        names = cycle.topology.name
        within = search_space(cycle, job, gang)
        ruled_out = cycle.pipeline.ruled_out(job, least_needs(job_demand)) if job_demand.task_groups else None
        searched = within is not None and ruled_out is None
        groups = cycle.pipeline.gradients(gang, within) if searched and within is not None else ()
        return PodInspection(
            job=job,
            sub=sub,
            task=task,
            within=names[within] if within is not None else "",
            gradients=tuple(tuple(names[d] for d in group.tolist()) for group in groups),
            candidates=candidates(cycle, job, sub) if searched else Candidates(),
            nodes=_within_reach(cycle, job, gang, within, self._nodes(cycle, Ask(task.shape, sub, job))),
            fabrics=_fabrics(cycle, job),
            ruled_out=ruled_out,
        )

    def _nodes(self, cycle: Cycle, ask: Ask) -> tuple[NodeInspection, ...]:
        everything = slice(0, len(cycle.nodes))
        fits = cycle.fits(ask, everything, Pool.FUTURE_IDLE)
        fits_now = cycle.fits(ask, everything, Pool.IDLE)
        spelled = cycle.pipeline.spelled
        scores = {spelled.get(name, name): s for name, s in cycle.pipeline.scores(ask, everything, fits).items()}
        total = cycle.pipeline.score(ask, everything, fits)
        reasons = _reasons(cycle, ask)
        figures = {spelled.get(name, name): rows for name, rows in cycle.pipeline.figures(ask).items()}
        return tuple(
            NodeInspection(
                name=name,
                feasible=bool(fits[row]),
                now=bool(fits_now[row]),
                reasons=reasons[row],
                scores=_row(scores, row) if fits[row] else {},
                total=float(total[row]),
                figures={plugin: rows[row] for plugin, rows in figures.items() if rows[row]},
            )
            for row, name in enumerate(cycle.nodes.names)
        )


def _within_reach(
    cycle: Cycle, job: Job, gang: Job | SubJob, within: int | None, nodes: tuple[NodeInspection, ...]
) -> tuple[NodeInspection, ...]:
    """The nodes; those say why not that the gang may not use, because of where its running pods are."""
    if cycle.snapshot.ground(job) is Ground.TREES:
        return nodes  # each of its constraints is told by itself
    tree, options = cycle.tree_of(job.constraint), cycle.pipeline.gather_options(job, 1)
    reach = _gathered_reach(cycle, job, tree, options) if options else _reach(cycle, gang, within)
    if reach == ROOT:
        return nodes
    topology = tree.topology
    span = topology.span(reach) if reach is not None else slice(0)
    inside = f"outside of {topology.name[reach]}, where" if reach is not None else ""
    why = f"{inside} its job's pods run" if inside else "its job's running pods leave it no place"
    return tuple(
        node if span.start <= position < span.stop else replace(node, within_reach=False, reasons=(why, *node.reasons))
        for node, position in zip(nodes, tree.positions.tolist(), strict=True)
    )


def _reach(cycle: Cycle, gang: Job | SubJob, within: int | None) -> int | None:
    """The widest domain around the running pods of a gang that its limit allows; None where they leave it none."""
    if within is None:
        return None
    around = gradients_of(cycle, gang, within) if cycle.current_domain(gang) is not None else ()
    return next((int(group[0]) for group in around), within)


def _gathered_reach(cycle: Cycle, job: Job, tree: AlternateTopology, options: Iterable[GatherOption]) -> int:
    """The domain around the running pods of a gang in which it is gathered, by the widest of its options."""
    placed = cycle.ledger.placed_rows(job)
    if placed is None:
        return ROOT
    widest, topology = max(option.tier for option in options), tree.topology
    domain = topology.meet_rows(tree.positions[placed[0]])
    while domain != ROOT and int(topology.tier[int(topology.parent[domain])]) <= widest:
        domain = int(topology.parent[domain])
    return domain


def _fabrics(cycle: Cycle, job: Job) -> tuple[Tried, ...]:
    job_demand = demand(cycle, job) if cycle.snapshot.ground(job) is Ground.TREES else None
    if job_demand is None or not job_demand.task_groups:
        return ()
    from tierwise.actions.diagnosis.fabrics import each_by_itself  # rarely needed

    return each_by_itself(cycle, job, job_demand)


def _row(scores: dict[str, Floats], row: int) -> dict[str, float]:
    return {name: float(values[row]) for name, values in scores.items()}


def _reasons(cycle: Cycle, ask: Ask) -> list[tuple[str, ...]]:
    """Per node every objection, with numbers where resources are short."""
    everything = slice(0, len(cycle.nodes))
    why = cycle.fit_counts.why(ask.shape)
    moving = cycle.pipeline.why_not_now(ask.shape, everything)
    free = cycle.ledger.free(ask.shape.asked, everything, Pool.FUTURE_IDLE)
    requested = ask.shape.request[ask.shape.asked]
    names = ask.shape.names(cycle.view.axis)
    result = []
    for row in range(len(cycle.nodes)):
        reasons = [cycle.view.reasons[int(n)].text for n in (why[row], moving[row]) if n]
        for i, name in enumerate(names):
            if free[i, row] < requested[i]:
                reasons.append(cycle.shortage(name, int(requested[i]), int(free[i, row])))
        result.append(tuple(reasons))
    return result


# The scores of the domains that could hold a gang, for `explain`: those of the first gradient with a solution.


def search_space(cycle: Cycle, job: Job, gang: Job | SubJob) -> int | None:
    """The domain that a gang is searched in: what the placed tasks of the job, and of the groups around a sub-group,
    leave it; None if they leave it none.
    """
    domain = ROOT
    outside = reversed(tuple(around(job.shape, gang.inner_group))) if isinstance(gang, SubJob) else ()
    for outer in (job, *(job.group(number) for number in outside if number > 0)):
        if outer is not gang and cycle.current_domain(outer) is not None:
            (inside,) = gradients_of(cycle, outer, domain) or (None,)
            if inside is None:
                return None
            domain = int(inside[0])
    return domain


def candidates(cycle: Cycle, job: Job, sub: SubJob) -> Candidates:
    """The domains that hold the minimum of a gang, in the first gradient that has one; the best first.

    A job's score for a domain is the sum of its sub-jobs' best scores in it.
    """
    if cycle.beside_gradients(job):
        return Candidates()  # its places are counted on its trees, and not compared one by one
    job_demand, gang = demand(cycle, job), _limited(job, sub)
    all_sub_jobs = job.shape.parted and gang is job and len(job_demand.task_groups) > 1
    task_group = None if all_sub_jobs else _task_group_of(cycle, job, sub, job_demand)
    within = search_space(cycle, job, gang)
    if within is None or (not all_sub_jobs and task_group is None):
        return Candidates()
    other_scores: dict[str, float] = {}
    best = Candidates()
    for gradient in cycle.pipeline.gradients(gang, within):
        if task_group is not None:
            scores = cycle.pipeline.score_domains(task_group.sub, gradient)
            other_scores |= zip((cycle.topology.name[d] for d in gradient.tolist()), scores.tolist(), strict=True)
        if not best.scores:
            order = (
                _sums(cycle, job, job_demand, gradient)
                if task_group is None
                else _held(cycle, job, task_group, gradient)
            )
            best = _told(cycle, order)
    return replace(best, others=other_scores)


def _told(cycle: Cycle, order: Order) -> Candidates:
    """Candidates in their order, by name."""
    names = [cycle.topology.name[domain] for domain in order.domains.tolist()]
    ranked = order.sorted().tolist()
    telling_terms = ((term, key) for term, key in order.terms if term not in (Term.SCORE, Term.NAME) and len(names) > 1)
    differing = {term: key for term, key in telling_terms if key.min() != key.max()}
    return Candidates(
        {names[i]: float(order.scores[i]) for i in ranked},
        {names[i]: {term: _value(term, float(key[i])) for term, key in differing.items()} for i in ranked},
        order.decided(next(iter(order), 0)),
    )


def _value(term: Term, key: float) -> float | None:
    """What a term says of a domain: a tier, a number of hyperNodes or pods, 1 for yes; None where nothing holds all."""
    if term is Term.FREE_NOW:
        return 1.0 - key
    if term is Term.PLACES:
        return key / GRAIN
    if term is Term.SURPLUS_ROOM:
        return -key
    return None if key >= NO_TIER else key


def _task_group_of(cycle: Cycle, job: Job, sub: SubJob, demand: Demand) -> TaskGroup | None:
    task_groups = (*demand.task_groups, *demand.substitutes, *surplus(cycle, job))
    return next((task_group for task_group in task_groups if task_group.sub is sub), None)


def _held(cycle: Cycle, job: Job, task_group: TaskGroup, gradient: Ints) -> Order:
    """The domains of a gradient that hold a task group, as the search compares them; nothing stays on the ledger.

    They are scored before any of them is tried, and all together: which of equal ones has more tasks is seen only so.
    """
    order = compared(cycle, task_group, gradient, cycle.current_domain(job), BOTH)
    holding = []
    for i, domain in enumerate(order.domains.tolist()):
        with cycle.ledger.statement():
            if isinstance(fit_any_way(cycle, job, task_group, domain, BOTH), SearchResult):
                holding.append(i)
    return order.of(np.array(holding, dtype=np.int64))


def _sums(cycle: Cycle, job: Job, demand: Demand, gradient: Ints) -> Order:
    """Candidates that hold all that is asked of a job with sub-groups, in the order of their scores."""
    domains, scores = list[int](), list[float]()
    for domain in gradient.tolist():
        with cycle.ledger.statement():
            inside = solve(cycle, job, demand, within=domain)
        if isinstance(inside, SearchResult):
            domains.append(domain)
            scores.append(inside.score)
    holding_domains = np.array(domains, dtype=np.int64)
    ahead = surplus_keys(cycle, job, holding_domains, demand.need) if domains else ()
    return order_of(cycle, holding_domains, np.array(scores), cycle.current_domain(job), ahead)
