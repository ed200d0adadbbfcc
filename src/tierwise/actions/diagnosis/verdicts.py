"""Give each waiting job a verdict after all actions of a cycle: never, not now, or not allowed.

*Never*: the job would not fit even if every other pod were gone. The ledger is cleared of all other pods, each job is
searched for as in a cycle, and the ledger is rewound; the message says how far the search came. What is left of a job
that has its minimum would not fit either once the job's own pods have ended. *Not allowed*: a queue,
a quota or a gate rejected the job. *Not now*: everything else.

Labels, taints and cordons of nodes count as they are. Conditions that pass by themselves do not: a job that would fit
once nodes are ready again waits for them. If required pod affinity, or a rule that depends on running pods, could be
satisfied by pods that are cleared, only counting may conclude *never*, and the program of `exact` without these rules.

What cleared nodes say of a kind of gang is kept from cycle to cycle (`framework.refusals`), as long as a waiting
job has asked for it. It reads nothing but the kind (see `_kind`) and what is listed there, so it holds while these are
the same. What depends on more is found out each time: jobs of which pods run, or ran; rules between pods; volumes,
devices, spares; and all jobs where a plugin of another package decides, which may look at anything. What was made of a
job's rejection is kept with it: as long as the job is the one of the last cycle and is rejected with the same words, it
is told the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.diagnosis.bound_shapes import names_of
from tierwise.actions.diagnosis.causes import asked_pods, causes
from tierwise.actions.diagnosis.diagnose import diagnose
from tierwise.actions.placement.bounds import Room, may_hold
from tierwise.actions.placement.demand import Demand, TaskGroup, asks_beyond, demand, shapes_of, surplus, whole_first
from tierwise.actions.placement.exact import refuted
from tierwise.actions.placement.problem import NoPlace
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.surplus import place_surplus
from tierwise.api.limits import TOO_MANY_WAITING
from tierwise.api.plurals import count, several
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool, job_ready, ready_tasks, size_of
from tierwise.framework.pipeline import PluginError
from tierwise.framework.refusals import Refusals, ToldJob
from tierwise.framework.report import Decision
from tierwise.framework.steps import CUT_SHORT, NOT_LOOKED_AT, OutOfStepsError
from tierwise.model.arrays import POD_SLOTS, Ints
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Job, Reason, Rejection, Shape, Status, Tried, Verdict
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["LACKS_PODS", "give_verdicts"]

_REFUSES = frozenset(("enqueue", "gate", "quota"))
"""Stages in which a job is held back whatever room there is."""

_FOR_ROOM = frozenset(("ClusterOvercommitted", "PluginFailed", "WaitsForGang", "ClaimNotReady", TOO_MANY_WAITING))
"""Reasons of these stages that are no matter of rights: room is short, a turn went wrong, or something is to come."""

_OF_QUEUES = frozenset(("QueueOverDeserved", "QueueOverCapability", "QueueUnfit"))
"""Reasons that make a refusal one of rights in whatever stage they come up."""

_HAS_PLACE = frozenset(
    (
        "WaitsForGang",
        "WaitsForCloserPlace",
        "UplinkIsFull",
        "PlaceIsKept",
        "WouldDelayReservation",
        "AwaitsNotice",
        "MovesForRepair",
        "BindFailed",
        "SetWaits",
    )
)
"""Reasons of jobs for which a place was found."""

LACKS_PODS = frozenset(
    (
        *("NotEnoughTasks", "NotEnoughPodsOfTask", "NotEnoughPods", "SubGroupIncomplete", "GangGroupIncomplete"),
        "SetIncomplete",
    )
)
"""Reasons of jobs of which too few pods exist to look for a place."""

_LACKS_CLAIMS = frozenset(
    (
        *("VolumeClaimNotFound", "VolumeClaimLost", "VolumeClaimDeleted", "VolumeClaimNotOwned"),
        *("VolumeClaimUnbound", "VolumeNotFound", "VolumeBindingFailed"),
    )
)
"""Reasons of jobs with volumes that are not in order: which node would do is known once they are."""


_WITHOUT_NODES = _HAS_PLACE | LACKS_PODS | _LACKS_CLAIMS | {NOT_LOOKED_AT, CUT_SHORT, TOO_MANY_WAITING}


class _Never(msgspec.Struct, frozen=True):
    """What is found out about one kind of gang."""

    told: Rejection | None  # None: it would fit, or that cannot be told
    subjects: tuple[str, ...]  # the gang that it was found out with, and its parts

    def of(self, subjects: tuple[str, ...]) -> Rejection | None:
        """The verdict for another gang of the same kind, with the names of its own sub-groups."""
        if self.told is None or not self.told.children or subjects == self.subjects:
            return self.told
        names = dict(zip(self.subjects, subjects, strict=True))
        children = [replace(child, subject=names.get(child.subject, child.subject)) for child in self.told.children]
        return replace(self.told, children=tuple(children))


def give_verdicts(cycle: Cycle, recovered: Callable[[], Cycle | None]) -> None:
    """Replace each rejection of the report by one with its verdict; a job that never fits is told that first.

    `recovered` opens the cycle that would be if all nodes were well; None where they are.
    """
    rejections = cycle.report.rejections
    repeated = cycle.refusals.repeat_gates(rejections)
    to_judge = {key: rejection for key, rejection in rejections.items() if key not in repeated}
    jobs = {job.key: job for job in cycle.snapshot.unsettled if job.key in to_judge}
    if len(jobs) < len(to_judge):
        jobs = {job.key: job for job in cycle.snapshot.jobs if job.key in to_judge}
    cycle.steps.explain(jobs)
    with cycle.ledger.statement():  # clearing all nodes once serves all jobs
        going = frozenset(eviction.task.key for eviction in cycle.report.evictions)
        judge = _Judge(cycle, recovered, going, cycle.refusals)
        for key, rejection in to_judge.items():
            rejections[key] = judge.judged(jobs[key], rejection)
    if not cycle.pipeline.failures:
        cycle.refusals.hand_on()


class _Judge:
    """Judges jobs inside a statement: what other pods hold is cleared from the ledger when it is first asked for."""

    def __init__(
        self,
        cycle: Cycle,
        recovered: Callable[[], Cycle | None],
        going: Collection[str],
        refusals: Refusals,
        *,
        all_well: bool = False,
    ) -> None:
        self._cycle = cycle
        self._recovered = recovered
        self._going = going  # keys of the tasks that were evicted in this cycle
        self._known = refusals
        self._lasting_shapes: dict[int, bool] = {}
        self._here = all_well, cycle.ledger.any_releasing  # tasks that terminate make a search look twice
        self._cleared = False
        self._lasting = True  # whether what was last found out about a job lasts

    def judged(self, job: Job, rejection: Rejection) -> Rejection:
        """The rejection of a job with its verdict: that of the last cycle, where nothing of all this is another."""
        refusals = self._known
        last_told = refusals.last(job)
        is_same_refusal = last_told is not None and (last_told.refusal is rejection or last_told.refusal == rejection)
        if (
            last_told is not None
            and is_same_refusal
            and (last_told.on is None or (last_told.on == self._here and self._stays(job, last_told.rules)))
        ):
            return refusals.repeat(job, last_told)
        refusals.read.clear()
        self._lasting = True
        judged = self._judge(job, rejection)
        rules = refusals.rules_of_unplaced(job)
        if refusals.keeps and job.tasks and self._lasting and self._stays(job, rules):
            gate = refusals.is_by_gate(job, rejection)
            nowhere = judged.verdict is Verdict.NEVER and rejection.stage not in _REFUSES and not rules
            on = self._here if _asks_nodes(rejection) else None
            kind, domains_read = refusals.asked.get(job.key), tuple(refusals.read)
            refusals.jobs[job.key] = ToldJob(job.tasks, rejection, on, judged, domains_read, gate, nowhere, kind, rules)
        return judged

    def _stays(self, job: Job, rules: bytes | None) -> bool:
        """Whether a job is, in this cycle, nothing but what it was read as, and asks nodes what is read for all.

        Rules between pods count what they counted with `rules`, if these are those of now.
        """
        if not self._known.keeps or not job.tasks or self._going or job.number in self._decisions:
            return False
        if self._is_bound_by(job, rules):
            return True
        try:
            for sub in job.subs:  # loops instead of `all`: it is asked for every waiting job
                for pod_set in sub.pod_sets:
                    if not self._lasts(pod_set.shape):
                        return False
            return all(self._lasts(pod_set.shape) for _, pod_set in job.best_effort_pod_sets)
        except PluginError:
            return False

    def _judge(self, job: Job, rejection: Rejection) -> Rejection:
        if rejection.verdict is Verdict.NEVER:  # a plugin has ruled the job out
            return rejection
        if not _asks_nodes(rejection):
            return replace(rejection, verdict=_verdict(rejection))
        steps = self._cycle.steps
        refusals = self._cycle.refusals.standing
        judged = refusals.judged(job, rejection)
        if judged is not None:
            self._lasting = False
            return judged
        begun, cut = steps.taken, False
        try:
            with steps.explaining(job):
                never = self._never(job, bounded=rejection.bounded)
                if never is not None and self._on_recovered is not None:
                    never = self._on_recovered._never(job, bounded=rejection.bounded)
                    self._lasting = self._lasting and self._on_recovered._lasting
        except (PluginError, OutOfStepsError) as failure:  # then the job keeps the reason that it has
            never, self._lasting, cut = None, False, isinstance(failure, OutOfStepsError)
        judged = self._told_so(job, rejection, never)
        if cut or (not self._lasting and steps.is_dear(begun)):
            refusals.add_judged(job, rejection, judged)
        return judged

    def _told_so(self, job: Job, rejection: Rejection, never: Rejection | None) -> Rejection:
        """A rejection with its verdict, and why the job never fits if so."""
        if never is None:
            return replace(rejection, verdict=_verdict(rejection))
        refused = (replace(rejection, tried=(), children=()),) if rejection.stage in _REFUSES else ()
        return replace(never, subject=job.key, children=(*never.children, *refused), verdict=Verdict.NEVER)

    @cached_property
    def _on_recovered(self) -> _Judge | None:
        """The judge of the cluster with all its nodes well."""
        cycle = self._recovered()
        if cycle is not None:
            cycle.ledger.steps = self._cycle.steps  # one account for both
        return _Judge(cycle, lambda: None, self._going, self._known, all_well=True) if cycle is not None else None

    @cached_property
    def _amounts(self) -> Ints:
        """What nodes have, with the devices of claims that no running pod uses: those are given back some day."""
        cycle, devices = self._cycle, self._cycle.snapshot.devices
        if devices is None or not devices.unused:
            return cycle.nodes.allocatable
        amounts = cycle.nodes.allocatable.copy()
        for name, counts in devices.unused.items():
            amounts[cycle.view.axis.index[name]] += counts
        return amounts

    def _never(self, job: Job, *, bounded: bool) -> Rejection | None:
        """Why a job would not fit on cleared nodes; None where it would, or where that cannot be told.

        Where the search for it was `bounded`, another one would be: the program of `exact` alone is asked.
        """
        if not len(self._cycle.nodes):
            return Rejection("fit", job.key, Reason("NoFeasibleNode", "allocate", "there are no nodes"))
        if not job.tasks:
            return self._promised(job)
        if self._surely_fits(job):
            return None
        job_demand = demand(self._cycle, job)
        task_groups = job_demand.task_groups if job_demand.task_groups else self._surplus(job)
        self._lasting = False
        if not job_demand.enough or not task_groups:
            return None
        kind = self._kind(job, job_demand, task_groups) if not bounded else None
        if kind is None:
            return self._on_cleared_nodes(job, job_demand, task_groups, bounded=bounded)
        lasts = all(map(self._lasts, shapes_of((*task_groups, *job_demand.substitutes))))
        self._lasting = lasts or self._is_bound_by(job, self._known.rules_of_unplaced(job))
        groups = (f"{job.key}/{group.path}" for group in job.inner_groups)
        subjects = (job.key, *groups, *(task_group.sub.key for task_group in task_groups))
        never = self._known.get(kind, lasts=lasts)
        if not isinstance(never, _Never):
            never = _Never(self._on_cleared_nodes(job, job_demand, task_groups), subjects)
            self._known.put(kind, never, lasts=lasts)
        return never.of(subjects)

    def _names(self, shapes: tuple[Shape, ...]) -> Mapping[int, object] | None:
        """By number, the name of a shape in a kind: itself, or what its rules between pods say on cleared nodes."""
        if any(map(self._cycle.pipeline.moving, shapes)):
            self._clear()
            return names_of(self._cycle, shapes)
        return {shape.number: shape for shape in shapes}

    def _is_bound_by(self, job: Job, rules: bytes | None) -> bool:
        """Whether a job has found no place in this cycle, for which nothing but these rules between pods was read."""
        return bool(rules) and rules == self._known.rules_of_unplaced(job)

    def _lasts(self, shape: Shape) -> bool:
        """Whether nothing but what is read for all says which nodes take tasks of a shape when all others are gone."""
        lasting = self._lasting_shapes.get(shape.number)
        if lasting is None:
            lasting = shape.volumes is None and shape.devices is None and not self._cycle.pipeline.moving(shape)
            self._lasting_shapes[shape.number] = lasting
        return lasting

    def _promised(self, job: Job) -> Rejection | None:
        """A job whose pods are not made yet asks for its minResources."""
        minimum = job.min_resources
        if minimum is None:
            return None
        limit = self._cycle.pipeline.limit(job)
        total = self._cycle.ledger.domain_allocatable[:, self._within(limit)]
        if (total >= minimum[:, None]).all(axis=0).any():
            return None
        where = "it does not have" if limit is None else f"no hyperNode of tier {limit} or below has"
        text = f"even if the cluster were empty, {where} what its minResources ask for"
        return Rejection("space", job.key, Reason("LargerThanAnyDomain", "allocate", text))

    def _surely_fits(self, job: Job) -> bool:
        """The plainest jobs, counted: one shape, nothing running, no rules between pods. A backlog is full of them."""
        cycle = self._cycle
        size = size_of(cycle.ledger, job)
        if size is None or size.part or cycle.beside_gradients(job) or cycle.pipeline.moving(size.shape):
            return False
        need = max(size.pods, 1)
        if asks_beyond(job, need * size.shape.request):
            return False
        return need <= self._capacity_for(size.shape, cycle.pipeline.limit(job))

    def _capacity_for(self, shape: Shape, limit: int | None) -> int:
        """How many tasks of a plain shape the largest domain within a limit holds when it is empty."""
        key, lasts = (*self._here, shape, limit), self._lasts(shape)
        capacity = self._known.get(key, lasts=lasts)
        if not isinstance(capacity, int):
            capacities = Room(self._cycle, Pool.FUTURE_IDLE, free=self._amounts).domains(shape)
            capacity = int(capacities[self._within(limit)].max(initial=0))
            self._known.put(key, capacity, lasts=lasts)
        return capacity

    def _within(self, limit: int | None) -> Ints:
        """All domains within a limit; the whole cluster where there is none."""
        return np.array([ROOT]) if limit is None else np.flatnonzero(self._cycle.topology.tier <= limit)

    def _surplus(self, job: Job) -> tuple[TaskGroup, ...]:
        """Task groups of a job that has its minimum, best-effort tasks included."""
        cycle = self._cycle
        if cycle.pipeline.gangs and not job_ready(cycle.ledger, job):
            return ()
        surplus_groups = [task_group for task_group in surplus(cycle, job) if task_group.need]
        for number, pod_set in job.best_effort_pod_sets:
            if cycle.backlog.left(pod_set):
                surplus_groups.append(TaskGroup.of(job.subs[number], pod_set, cycle.backlog.left(pod_set)))
        return tuple(surplus_groups)

    def _kind(self, job: Job, demand: Demand, task_groups: Sequence[TaskGroup]) -> object | None:
        """What the answer depends on; None where it depends on more than what is asked for, such as where it runs."""
        cycle = self._cycle
        if (
            cycle.current_domain(job) is not None
            or cycle.beside_gradients(job)
            or any(task_group.sub.previous_domain for task_group in task_groups)
        ):
            return None
        names = self._names(shapes_of((*task_groups, *demand.substitutes)))
        if names is None:
            return None
        limit, role = cycle.pipeline.limit, {number: i for i, number in enumerate(sorted(job.roles))}
        min_resources = job.min_resources.tobytes() if job.min_resources is not None else b""
        group_keys = tuple(
            (
                task_group.need,
                limit(task_group.sub),
                task_group.sub.constraint,
                task_group.sub.policy,
                task_group.sub.inner_group,
                tuple(sorted((role[number], minimum) for number, minimum in task_group.roles.items())),
                tuple(
                    (names[p.pod_set.shape.number], role.get(p.pod_set.role_number), p.left)
                    for p in task_group.remaining
                ),
            )
            for task_group in (*task_groups, *demand.substitutes)
        )
        pods = sum(cycle.backlog.left(pod_set) for pod_set in job.pod_sets())
        counts = len(task_groups), bool(demand.task_groups), len(job.tasks) == 1, pods
        choices = demand.alternatives is not None, demand.needs_substitutes, demand.inner_group, job.words
        return (
            *self._here,
            limit(job),
            job.constraint,
            job.policies,
            job.inner_groups,
            counts,
            choices,
            min_resources,
            group_keys,
        )

    def _clear(self) -> None:
        """Remove what other pods hold from the ledger."""
        if not self._cleared:
            self._cycle.ledger.clear(())
            self._cleared = True

    def _on_cleared_nodes(
        self, job: Job, demand: Demand, task_groups: tuple[TaskGroup, ...], *, bounded: bool = False
    ) -> Rejection | None:
        cycle = self._cycle
        work = cycle.report.search_counts
        before = work.trials, work.domains, work.cut
        self._clear()
        own_tasks = self._own(job)
        if own_tasks and not demand.task_groups and self._fits_after_own(job, task_groups):
            return None
        try:
            with cycle.ledger.statement():
                if own_tasks:
                    cycle.ledger.clear(own_tasks)
                if self._fits(job, demand, task_groups, bounded=bounded):
                    return None
                rejection = self._told(job, Demand(task_groups))
                return rejection if work.cut == before[2] else None
        finally:
            work.trials, work.domains, work.cut = before

    def _fits_after_own(self, job: Job, task_groups: Sequence[TaskGroup]) -> bool:
        """Whether a count leaves open that more of a job that has its minimum fits once its own pods have ended.

        A job that lacks some of its minimum has pods that wait for these: they do not end by themselves.
        """
        cycle = self._cycle
        room = Room(cycle, Pool.FUTURE_IDLE, free=self._amounts)
        for task_group in task_groups:
            sub, limit = task_group.sub, cycle.pipeline.limit(task_group.sub)
            limit = cycle.pipeline.limit(job) if limit is None else limit
            domains = self._within(None if cycle.beside_gradients(job) else limit)
            if job.shape.parted and ready_tasks(cycle.ledger, sub) < sub.minimum:  # it comes whole
                fits = may_hold(room, task_group, domains)
            else:
                fits = np.array(
                    [room.domains(tasks_left.pod_set.shape)[domains].any() for tasks_left in task_group.remaining]
                )
            if fits.any():
                return True
        return False

    def _own(self, job: Job) -> list[tuple[Shape, Ints]]:
        """Where the job's own tasks are: those that run and stay, and those that were placed in this cycle."""
        shapes, nodes = self._cycle.snapshot.shapes, self._cycle.nodes
        staying = [task for task in job.tasks if task.key not in self._going]
        placed_tasks = [(shapes[n], rows) for n, rows in rows_by_shape(nodes, staying, Status.RUNNING).items()]
        for decision in self._decisions.get(job.number, ()):
            for placed in decision.placed:
                placed_tasks.append((placed.tasks[0].shape, placed.rows))
        return placed_tasks

    @cached_property
    def _decisions(self) -> dict[int, list[Decision]]:
        by_job: dict[int, list[Decision]] = {}
        for decision in self._cycle.report.decisions:
            by_job.setdefault(decision.job.number, []).append(decision)
        return by_job

    def _fits(self, job: Job, demand: Demand, task_groups: Sequence[TaskGroup], *, bounded: bool) -> bool:
        """Whether the minimum finds a place now, or any task beyond it; true as well where that cannot be told."""
        cycle = self._cycle
        if bounded or demand.cut or self._uncertain(task_groups):
            room, choice = Room(cycle, Pool.FUTURE_IDLE), demand.substitutes or demand.alternatives or demand.cut
            if not choice and not all(may_hold(room, group, np.array([ROOT]))[0] for group in task_groups):
                return False
            return not demand.task_groups or not refuted(cycle, job, demand, alone=True)
        if cycle.snapshot.ground(job) is Ground.TREES and cycle.pipeline.admit(job) is not None:
            return True  # what it lacks is a tree, and not room
        if not demand.task_groups:
            return any(place_surplus(cycle, job, task_group) for task_group in task_groups)
        return any(
            solve(cycle, job, alternative) is not NoPlace.PROVEN for alternative in whole_first(cycle, job, demand)
        )

    def _uncertain(self, task_groups: Sequence[TaskGroup]) -> bool:
        shapes = shapes_of(task_groups)
        moving = any(self._cycle.pipeline.moving(shape) for shape in shapes)
        needs_others = any(s.affinity is not None and s.affinity.pod_affinity is not None for s in shapes)
        return moving and (self._cycle.ledger.followed or needs_others)

    def _told(self, job: Job, demand: Demand) -> Rejection | None:
        """How far the job comes on the cleared nodes; None where a search was cut short there."""
        cycle = self._cycle
        rejection = diagnose(cycle, job, demand, bounded=False)
        if rejection.bounded:
            return None
        alone = cycle.current_domain(job) is None
        empty = "even if the cluster were empty" if alone else "even if all other pods were gone"
        if rejection.reason.code in ("CannotGather", "NoPlaceOnFabrics") and rejection.tried:
            return replace(rejection, reason=replace(rejection.reason, text=f"{empty}, {rejection.reason.text}"))
        if rejection.reason.code != "NotEnoughResources":
            return rejection
        nowhere = [s for s in demand.shapes if not int(cycle.fit_counts.of(s).domains(Pool.FUTURE_IDLE)[ROOT])]
        if nowhere and alone:
            every = len(nowhere) == len(demand.shapes)
            what = "any of its pods" if every else "some of its pods"
            what = "its pod" if len(job.tasks) == 1 else what
            called = job.in_parts(nowhere)
            what = f"{what} ({called})" if called else what
            reason = Reason("NoFeasibleNode", "allocate", f"{empty}, no node would take {what}")
            return Rejection("fit", job.key, reason, (self._nodes(nowhere[0], demand),))
        pods, limit = asked_pods(cycle, job, demand), cycle.pipeline.limit(job)
        last_tier = rejection.tried[-1]
        # Parts that must stay together may find no place where there is room for as many pods.
        subs = [task_group.sub for task_group in demand.task_groups]
        narrow = any(s.policy >= 0 and s.constraint is not None and s.constraint.hard for s in subs)
        parts = last_tier.whole > 1 or len(subs) > 1 or narrow
        would, none = (
            ("would have a place for", "would have no place for") if parts else ("would hold", "would not hold")
        )
        where = f"no hyperNode of tier {limit} or below {would}"
        if limit is None or last_tier.best == cycle.topology.name[ROOT]:
            where = f"it {none}" if alone else f"the cluster {none}"
        elif last_tier.here:
            where = f"hyperNode {last_tier.best}, where its running pods are, {none}"
        if not parts and alone and len(demand.shapes) == 1:
            text = self._needs(demand.shapes[0], last_tier, limit, pods, job.in_parts())
            return replace(rejection, reason=Reason("LargerThanAnyDomain", "allocate", text))
        if parts:
            word = job.joint_word(subs)
            where_parts = f" in their {word}" if len(subs) == 1 else f" in their {several(word)}"
            pods += (
                f" in {several(word)} of {last_tier.whole}" if last_tier.whole > 1 and len(subs) > 1 else where_parts
            )
        return replace(rejection, reason=Reason("LargerThanAnyDomain", "allocate", f"{empty}, {where} {pods}"))

    def _needs(self, shape: Shape, last_tier: Tried, limit: int | None, pods: str, parts: str) -> str:
        """Pods of one shape compared with the cluster: "needs 8 whole nodes in one rack; no rack has more than 4"."""
        cycle = self._cycle
        named = {tier: name for name, tier in cycle.topology.tier_names.items()}
        anywhere = limit is None or last_tier.best == cycle.topology.name[ROOT]
        level = "" if anywhere else named.get(limit or 0, f"hyperNode of tier {limit}")
        where = f" in one {level}" if level else ""
        if int(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE).max(initial=0)) > 1:
            has = (
                f"no {level} has room for more than {last_tier.fits}"
                if level
                else f"the cluster has room for {last_tier.fits}"
            )
            return f"needs room for {pods}{where}; {has}, even if it were empty"
        slots = cycle.view.axis.index[POD_SLOTS]
        most_of_node = self._amounts.max(axis=1, initial=0)
        takes_whole_node = any(shape.request[r] >= most_of_node[r] for r in shape.asked.tolist() if r != slots)
        need = count(last_tier.asked, "whole node" if takes_whole_node else "node")
        usable = "" if last_tier.nodes == last_tier.fits else " that take its pods"
        whose = f" for {parts}" if parts else ""
        has = f"no {level} has more than" if level else "the cluster has"
        return f"needs {need}{where}{whose}; {has} {last_tier.fits}{usable}"

    def _nodes(self, shape: Shape, demand: Demand) -> Tried:
        """Reasons that keep a shape off each node of the cluster."""
        nodes = len(self._cycle.nodes)
        root = self._cycle.topology
        why = causes(self._cycle, shape, slice(0, nodes))
        return Tried(int(root.tier[ROOT]), 1, root.name[ROOT], 0, demand.need, nodes, why)


def _asks_nodes(rejection: Rejection) -> bool:
    """Whether empty nodes have a say in the verdict; else it follows from the rejection alone."""
    return rejection.reason.code not in _WITHOUT_NODES


def _verdict(rejection: Rejection) -> Verdict:
    code = rejection.reason.code
    refused = rejection.stage in _REFUSES and code not in _FOR_ROOM
    return Verdict.NOT_ALLOWED if refused or code in _OF_QUEUES else Verdict.NOT_NOW
