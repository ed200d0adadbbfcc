"""Defragmentation: the fewest running pods to move so that a gang of a size fits inside one domain of a tier.

A plan is a list of moves, one job after the other. The scheduler's own cycle finds a place for every moved pod, outside
the room that is being opened, and the moves are ordered so that each job's places are free when it is moved; a plan
that is stopped after any move has left no job without a place. Which pods to move is counted first and tried then,
as in `sim.least_change`; a plan says whether it is proved that no other moves fewer pods.

Read-only: it answers what would be done, and nothing outside is touched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, permutations
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import Object, Raw
from tierwise.api.core import OwnerReference, Pod, PodDisruptionBudget, PodStatus
from tierwise.api.defrag_record import RECORD_NAME, MovedPod, PlannedMove
from tierwise.api.errors import InputError, suggestion
from tierwise.api.manifest import manifest
from tierwise.api.plurals import count, joined, verb
from tierwise.api.quantity import amount
from tierwise.api.volcano import Job as VolcanoJob
from tierwise.config.actions import ACTIONS, Family
from tierwise.config.profile import Profile
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.dialects.languages import whose
from tierwise.explain.defrag import DefragPlan, Move, Room
from tierwise.explain.disruption import Losses
from tierwise.explain.naming import ObjectNames, domain_title
from tierwise.explain.usage import scarce
from tierwise.model.arrays import POD_SLOTS, Ints
from tierwise.model.job import Constraint, Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import Bind, Key, Objects, key_of_raw, lone_gang
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects, pod_key
from tierwise.scheduler.guard import Guard
from tierwise.sim.what_if.changes import Scenario, levels
from tierwise.sim.what_if.evictions import Kind, fewest_by_count, may_go
from tierwise.sim.what_if.fewest import PLENTY, Counting, Counts, fewest, of_size
from tierwise.snapshot.budgets import CoveredPods, allowed
from tierwise.snapshot.builder import build

__all__ = ["Planner", "amounts_of", "check_form", "defrag"]

_FORM: Final = re.compile(r"\s*(?P<shape>[^@]+?)\s*[x×]\s*(?P<pods>[0-9]{1,6})\s*@\s*(?P<tier>\S.*?)\s*")
_CYCLES: Final = (40, 400)
"""Cycles that the search for a plan may cost, on a large cluster and on a small one."""
_WORK: Final = 200_000
"""Objects that these cycles may look at together."""
_CHOICES: Final = 20_000
"""Choices of pods that are counted."""
_JOBS: Final = 16
"""Jobs that one plan may move."""
_ORDERED: Final = 3
"""Jobs up to which their moves are tried in every order."""
_RESERVATIONS: Final = 40
"""Ways to keep room for the gang in one domain that are tried."""
_PROBE: Final = "tierwise-defrag/probe"
_ENDING: Final = ("TerminateJob", "AbortJob", "CompleteJob")
_PLACING: Final = (Family.ENQUEUE, Family.ALLOCATE, Family.BACKFILL)


def defrag(scenario: Scenario, text: str) -> DefragPlan:
    """The plan that opens room as `SHAPExCOUNT@TIER` asks for; InputError where that cannot be read."""
    return Planner(scenario, text).plan()


def check_form(text: str, option: str) -> re.Match[str]:
    """The parts of a room as it is written; InputError where it is not of the form."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(f'"{text}" is not of the form RESOURCE=AMOUNT[,...]xPODS@TIER', field=option)
    return match


def _read(text: str, snapshot: Snapshot) -> Room:
    """`nvidia.com/gpu=8,cpu=16x4@rack`; an amount alone is one of the accelerators, or of cores."""
    match = check_form(text, "--for")
    requests: dict[str, str] = {}
    for part in match["shape"].split(","):
        name, equals, quantity = (piece.strip() for piece in part.partition("="))
        resource, quantity = (name, quantity) if equals else (scarce(snapshot), name)
        try:
            quantity_number = amount(resource, quantity)
        except ValueError as error:
            raise InputError(str(error), field="--for") from None
        if not resource or quantity_number <= 0 or resource in requests:
            raise InputError(f'"{part.strip()}" is not an amount of a resource, named once', field="--for")
        requests[resource] = quantity
    if not int(match["pods"]):
        raise InputError("a gang has 1 pod or more", field="--for")
    tiers = levels(snapshot, Constraint(hard=True, kind=snapshot.kind))
    for tier, name in (*tiers, (int(snapshot.topology.tier[ROOT]), "cluster")):
        if match["tier"] in (str(tier), name):
            return Room(requests, int(match["pods"]), tier, name)
    shown = ", ".join([*(f"{tier} ({name})" if name else str(tier) for tier, name in tiers), "cluster"])
    near = suggestion(match["tier"], ("cluster", *(name for _, name in tiers if name)))
    raise InputError(f"{match['tier']} is none of the tiers: {shown}{near}", field="--for")


class _Mover(msgspec.Struct, frozen=True):
    """A job whose pods may move, or a pod by itself."""

    key: str
    job: Job | None
    running: tuple[str, ...]  # all its pods on nodes

    @property
    def minimum(self) -> int:
        """Pods without which it does not run; 0 for a pod by itself."""
        if self.job is not None and not self.job.lone:
            return self.job.minimum
        return 0


class Planner:
    """Which pods may move, what is free, and the cycles that are left to try with.

    Where plans are carried out, pods without an owner stay: nothing would start them again.
    """

    def __init__(self, scenario: Scenario, text: str, *, owned: bool = False) -> None:
        self._current = scenario.objects
        scenario = replace(scenario, objects=_without_record(scenario.objects))
        self._room = _read(text, scenario.snapshot())
        self._now = scenario.now
        self._owned = owned
        self._profile = _without_evictions(scenario.profile)
        self._scenario = replace(scenario, objects=_without_pending(scenario.objects), profile=self._profile)
        objects = self._scenario.objects
        self._pods = objects.every(Pod)
        served = scenario.profile.schedulers if scenario.schedulers is None else sorted(scenario.schedulers)
        probe = _probe(self._room, next(iter(served), "volcano"))
        probed = replace(self._scenario, objects=objects.changed({key_of_raw(probe): probe}, ()))
        self._snapshot = snapshot = probed.snapshot()
        pod_set = next(s for job in snapshot.jobs for s in job.pod_sets() if s.tasks[0].key == _PROBE)
        domains = snapshot.topology.at_tier[self._room.tier]
        self._counting = Counting.on(snapshot, self._profile, pod_set, self._room.pods, domains)
        self._losses = Losses(snapshot)
        self._resource = self._losses.resource
        self._tasks = {task.key: task for job in snapshot.jobs for task in job.tasks}
        self._jobs = {task.key: job for job in snapshot.jobs for task in job.tasks}
        self._movers = {job.key: _Mover(job.key, job, _running(job)) for job in snapshot.jobs}
        budgets = objects.every(PodDisruptionBudget)
        self._covering = CoveredPods().follow(self._pods, {}, budgets)
        self._allowed = allowed(self._covering, budgets)
        self._notes: tuple[str, ...] = ()
        self._kinds = self._movable()
        self._owners = [self._owner(pods[0]) for _, _, pods in self._kinds]
        self._holds = {pod: dict(holds) for _, holds, pods in self._kinds for pod in pods}
        fewest_cycles, most_cycles = _CYCLES
        self.left = max(fewest_cycles, min(most_cycles, _WORK // max(1, len(objects))))
        self._choices = _CHOICES
        self._cut = False  # some choice was not tried in every way
        self._found: dict[Counts, DefragPlan] = {}

    def plan(self) -> DefragPlan:
        """The plan with the fewest moved pods that is found."""
        slots = self._slots(self._counting.fits)
        nothing = DefragPlan(self._room, slots, slots, self._resource, exact=True, notes=self._notes)
        if nothing.fits:
            return nothing
        absent = [name for name in self._room.requests if not self._offered(name)]
        if absent:
            near = suggestion(absent[0], [name for name in self._snapshot.axis.index if self._offered(name)])
            return replace(nothing, why=f"no node has {joined(absent)}{near}")
        lower, proposals = fewest_by_count(self._counting, self._kinds)
        if lower >= PLENTY or not self._kinds:
            return replace(nothing, why="no domain would hold it if all pods that may be moved were evicted")
        fewest_pods = fewest(
            [len(pods) for _, _, pods in self._kinds],
            self,
            lower=lower,
            proposals=[*proposals, *map(self._whole, proposals)],
            cost=self._cost,
        )
        if fewest_pods is None:
            exact = self.left > 0 and not self._cut
            why = "the pods that would have to move find no other place, or disruption budgets protect them"
            return replace(nothing, why=why if exact else "no choice of pods that was tried opens it", exact=exact)
        counts, exact = fewest_pods
        best_plan = self._found[counts]
        return replace(best_plan, exact=best_plan.pods <= lower or (exact and not self._cut))

    def again(self, pods: Sequence[str], nodes: Mapping[str, int]) -> DefragPlan | None:
        """The rest of a plan: these pods moved off the nodes of its room, in an order and to places found again.

        None where one of them may not be moved any more, or finds no place, or the room does not come to be.
        """
        pods = sorted(pods)
        self.left = max(self.left, _CYCLES[0])
        rows = self._snapshot.nodes.row
        if not self._holds.keys() >= set(pods) or not rows.keys() >= set(nodes):
            return None
        pods_by_row = {rows[node]: number for node, number in nodes.items()}
        fits = self._fits((pod, self._pods[pod].spec.node_name, 1) for pod in pods)
        if any(fits[row] < number for row, number in pods_by_row.items()):
            return None
        domain = self._domain(list(pods_by_row))
        if not pods:
            slots = self._slots(self._counting.fits)
            return DefragPlan(self._room, slots, slots, self._resource, nodes=dict(nodes), exact=True)
        movers, pods_of_movers = self._by_mover(pods)
        arrangement = self._arranged(pods_of_movers, pods_by_row)
        if arrangement is None:
            return None
        order, places = arrangement
        plan = self._told(domain, pods_by_row, [movers[i] for i in order], places)
        if plan is not None and self._within_budgets(list(plan.moves[0].pods)):
            return plan
        return None

    def movable(self, pods: Sequence[str]) -> bool:
        """Whether these pods of one job find places now, with all that is held for them and kept from them."""
        if any(pod not in self._holds for pod in pods) or not self._within_budgets(pods):
            return False
        bound = self._bound(self._with(_without_pending(self._current), dict.fromkeys(pods, "")), {})
        return all(pod in bound for pod in pods)

    def _domain(self, rows: Sequence[int]) -> int:
        """The domain of the tier around these rows."""
        topology = self._snapshot.topology
        domains = self._counting.domains
        around = domains[(topology.start[domains] <= min(rows)) & (topology.end[domains] > max(rows))]
        return int(around[0]) if len(around) else ROOT

    # -- what whoever carries a plan out has to know

    def _running_of(self, owner: str) -> tuple[str, ...]:
        """Pods of an owner, by its uid, that may be evicted."""
        running = []
        for path, pod in self._pods.items():
            if any(reference.uid == owner for reference in pod.metadata.owner_references) and may_go(pod):
                running.append(path)
        return tuple(running)

    def planned(self, move: Move) -> PlannedMove:
        """A move with all that tells whether its job is whole again."""
        first_pod = next(iter(move.pods))
        mover = self._owner(first_pod)
        pod = self._pods[first_pod]
        lone = mover.job is None or mover.job.lone or mover.job.key == lone_gang(first_pod)
        owners = sorted(pod.metadata.owner_references, key=lambda reference: not reference.controller) if lone else ()
        owner = owners[0].uid if owners else ""
        terms = mover.job.terms if mover.job is not None else None
        running = self._running_of(owner) if owner else mover.running
        return PlannedMove(
            job=mover.key,
            name=move.name,
            pods={
                path: MovedPod(self._pods[path].metadata.uid, old, new, self._holds[path])
                for path, (old, new) in move.pods.items()
            },
            running=len(running),
            minimum=move.minimum,
            owner=owner,
            queue=mover.job.queue if mover.job is not None else "",
            notice=terms.notice if terms is not None else 0.0,
            declared=not owner and mover.job is not None and mover.job.declared,
            hours=move.hours,
            staying=tuple(path for path in running if path not in move.pods),
        )

    def staying(self, move: Move) -> list[tuple[str, dict[str, int]]]:
        """The nodes and amounts of pods of the job that are not moved: they may restart with the others."""
        mover = self._owner(next(iter(move.pods)))
        staying_pods = [pod for pod in mover.running if pod not in move.pods]
        amounts_of_pods = (self._holds.get(pod) or amounts_of(self._pods[pod]) for pod in staying_pods)
        return [
            (self._pods[pod].spec.node_name, dict(amounts))
            for pod, amounts in zip(staying_pods, amounts_of_pods, strict=True)
        ]

    def kept(self, nodes: Mapping[str, int], later: Sequence[str]) -> dict[str, dict[str, int]]:
        """By node, what is to be kept from everybody while pods of `later` moves still run."""
        rows = self._snapshot.nodes.row
        blocked = self._blocked({rows[node]: number for node, number in nodes.items()}, later)
        by_node: dict[str, dict[str, int]] = {}
        for resource, amounts in blocked.items():
            for row in np.flatnonzero(amounts).tolist():
                by_node.setdefault(self._snapshot.nodes.names[row], {})[resource] = int(amounts[row])
        return by_node

    def __call__(self, counts: Counts) -> bool:
        """Whether moving so many pods of each kind opens the room, with a place for every one of them."""
        self._choices -= 1
        chosen_kinds = zip(compress(self._kinds, counts), filter(None, counts), strict=True)  # few of many
        pods = []
        for (_, _, alike), number in chosen_kinds:
            pods.extend(alike[:number])
        plan_found = self._moving(pods)
        if plan_found is not None:
            self._found[counts] = plan_found
        if self._choices <= 0:
            self.left = 0
        return plan_found is not None

    def _fits(self, changes: Iterable[tuple[str, str, int]]) -> Ints:
        """How many pods of the asked shape each node takes once pods have left nodes (1), or come to them (-1)."""
        free = self._counting.idle
        resources_asked = self._counting.pod_set.shape.asked
        for pod, node, sign in changes:
            free[:, self._snapshot.nodes.row[node]] += sign * self._amounts(pod)[resources_asked]
        return np.where(self._counting.open > 0, self._counting.takes(free), 0)

    def _offered(self, resource: str) -> bool:
        index = self._snapshot.axis.index.get(resource)
        return index is not None and bool(self._snapshot.nodes.allocatable[index].any())

    def _slots(self, fits: Ints) -> int:
        """Gangs that fit side by side, each inside one domain of the tier."""
        return int((self._snapshot.topology.totals(fits)[self._counting.domains] // self._room.pods).sum())

    # -- which pods may move

    def _movable(self) -> list[Kind]:
        """Pods that may be moved, alike ones together; those that lose the least come first."""
        kinds: dict[tuple[str, tuple[tuple[str, int], ...], str], list[str]] = {}
        reasons: Counter[str] = Counter()
        rows = self._snapshot.nodes.row
        for path, pod in self._pods.items():
            if not may_go(pod) or pod.spec.node_name not in rows:
                continue
            why = self._kept(path, pod)
            if why:
                reasons[why] += 1
                continue
            holds = tuple(sorted(amounts_of(pod).items()))
            kinds.setdefault((pod.spec.node_name, holds, self._owner(path).key), []).append(path)
        reason_counts = sorted(reasons.items())
        self._notes = tuple(f"{count(n, 'pod')} {verb(n, 'is', 'are')} not moved: {why}" for why, n in reason_counts)
        kinds_found = [(node, holds, pods) for (node, holds, _), pods in kinds.items()]
        return sorted(
            kinds_found, key=lambda kind: (sum(map(self._losses.each, kind[2])) / len(kind[2]), kind[0], kind[2])
        )

    def _kept(self, path: str, pod: Pod) -> str:
        """Why a pod may not be moved; "" where it may."""
        if not (pod.metadata.owner_references or whose(pod)):
            return "without an owner or a group"
        if self._owned and not pod.metadata.owner_references:
            return "without an owner that would start them again"
        served = self._scenario.schedulers
        if served is not None and pod.spec.scheduler_name not in served:
            return "served by another scheduler"
        if any(self._ends(owner, path) for owner in pod.metadata.owner_references):
            return "their job ends when a pod of it is evicted"
        job = self._jobs.get(path)
        if job is None:
            return ""
        task = self._tasks[path]
        if job.not_preemptable or task.not_preemptable or task.critical:
            return "marked as not preemptable"
        if self._now - task.started < self._minimum_run_time(job):
            return "younger than the minimum run time"
        return ""

    def _minimum_run_time(self, job: Job) -> float:
        """Seconds for which pods of a job are not moved: by its own terms or its queue's, whichever are longer."""
        longest = job.terms.minimum_run_time if job.terms is not None else 0.0
        queue = self._snapshot.queues.get(job.queue)
        if queue is not None:
            longest = max(longest, queue.minimum_run_time, queue.reclaim_run_time or 0.0)
        return longest

    def _ends(self, owner: OwnerReference, path: str) -> bool:
        """Whether the policies of a Volcano job end it when a pod is evicted."""
        if owner.kind != "Job" or not owner.api_version.startswith("batch.volcano.sh/"):
            return False
        job = self._scenario.objects.every(VolcanoJob).get(f"{path.partition('/')[0]}/{owner.name}")
        policies = (*job.spec.policies, *(p for task in job.spec.tasks for p in task.policies)) if job else ()
        return any(p.action in _ENDING and {"PodEvicted", "*"} & {p.event, *p.events} for p in policies)

    def _owner(self, path: str) -> _Mover:
        job = self._jobs.get(path)
        if job is not None:
            return self._movers[job.key]
        return _Mover(path, None, (path,))

    def _whole(self, counts: Counts) -> Counts:
        """Counts with all pods of every job of which some move: a gang with a limit often moves as a whole."""
        touched = {owner.key for owner, number in zip(self._owners, counts, strict=True) if number}
        return tuple(
            len(pods) if owner.key in touched else 0
            for (_, _, pods), owner in zip(self._kinds, self._owners, strict=True)
        )

    # -- one choice of pods

    def _by_mover(self, pods: Iterable[str]) -> tuple[list[_Mover], list[list[str]]]:
        """The movers that these pods belong to, and the pods of each."""
        found: dict[str, tuple[_Mover, list[str]]] = {}
        for pod in pods:
            mover = self._owner(pod)
            found.setdefault(mover.key, (mover, []))[1].append(pod)
        return [mover for mover, _ in found.values()], [pods_of_mover for _, pods_of_mover in found.values()]

    def _moving(self, pods: Sequence[str]) -> DefragPlan | None:
        """The plan that moves some of these pods and no others; None where there is none."""
        if not pods or not self._within_budgets(pods):
            return None
        fits = self._fits((pod, self._pods[pod].spec.node_name, 1) for pod in pods)
        totals = self._snapshot.topology.totals(fits)
        movers, pods_of_movers = self._by_mover(pods)
        if not (totals[self._counting.domains] >= self._room.pods).any():
            return None
        if len(movers) > _JOBS:
            self._cut = True
            return None
        for domain in self._counting.domains.tolist():
            if totals[domain] < self._room.pods:
                continue
            for reserved in self._reservations(domain, fits, pods):
                arrangement = self._arranged(pods_of_movers, reserved)
                if arrangement is not None:
                    order, places = arrangement
                    return self._told(domain, reserved, [movers[i] for i in order], places)
            if len(movers) > _ORDERED:
                self._cut = True
        return None

    def _within_budgets(self, pods: Sequence[str]) -> bool:
        """Whether disruption budgets let all of these pods go at once, and no group that falls as one loses a part."""
        owners = {owner.key: owner for owner in map(self._owner, pods)}.values()
        if any(o.job is not None and o.job.together and not set(o.running) <= set(pods) for o in owners):
            return False
        used = Counter(budget for pod in pods for budget in self._covering.of(pod))
        return all(number <= self._allowed[budget] for budget, number in used.items())

    def _reservations(self, domain: int, fits: Ints, pods: Sequence[str]) -> Iterator[dict[int, int]]:
        """Ways to keep room for the gang on the nodes of a domain, the likeliest first: on nodes that are emptied."""
        span = self._snapshot.topology.span(domain)
        emptied = {self._snapshot.nodes.row[self._pods[pod].spec.node_name] for pod in pods}
        inside = sorted(
            (row for row in range(span.start, span.stop) if fits[row]),
            key=lambda row: (row not in emptied, -int(fits[row]), row),
        )
        for number, deal in enumerate(of_size([int(fits[row]) for row in inside], self._room.pods)):
            if number == _RESERVATIONS:
                self._cut = True
                return
            yield {row: number_here for row, number_here in zip(inside, deal, strict=True) if number_here}

    def _arranged(
        self, groups: Sequence[list[str]], reserved: Mapping[int, int]
    ) -> tuple[Sequence[int], dict[str, str]] | None:
        """An order in which these jobs can be moved, and the node that each pod then has; None where there is none.

        Places are looked for with all of them gone, one job after the other. Mostly some order of moves leads there;
        where none does, because jobs want each other's places, each is placed while the ones after it still run. So it
        is for jobs with rules about who stands beside them: those that are moved later stand where they are by then.
        """
        stuck = False
        if not self._have_room([pod for group in groups for pod in group], reserved):
            return None
        for order in _orders(groups):
            places = self._places([groups[i] for i in order], reserved, gone=True)
            if places is not None:
                moves = self._sequence(groups, places)
                if moves is not None and not self._have_rules(groups):
                    return moves, places
                stuck = True
        for order in _orders(groups) if stuck else ():
            places = self._places([groups[i] for i in order], reserved, gone=False)
            if places is not None:
                return order, places
        return None

    def _have_rules(self, groups: Sequence[list[str]]) -> bool:
        """Whether it matters to one of several jobs where the others stand: parts of sets, and pods with terms."""
        jobs = [self._jobs[group[0]] for group in groups if group[0] in self._jobs] if len(groups) > 1 else []
        pods = (pod for group in groups for pod in group)
        return any(job.member is not None for job in jobs) or any(map(self._has_terms, pods))

    def _has_terms(self, pod: str) -> bool:
        affinity = self._pods[pod].spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)

    def _have_room(self, pods: Sequence[str], reserved: Mapping[int, int]) -> bool:
        """Whether nodes together have what all moved pods hold: what fails here needs no cycle."""
        free = self._counting.free.copy()
        rows = self._snapshot.nodes.row
        for row, number in reserved.items():
            free[:, row] -= number * self._counting.pod_set.shape.request
        moved = np.zeros_like(free)
        for pod in pods:
            moved[:, rows[self._pods[pod].spec.node_name]] += self._amounts(pod)
        return bool((np.maximum(free + moved, 0).sum(axis=1) >= moved.sum(axis=1)).all())

    def _amounts(self, pod: str) -> Ints:
        """Amounts that a pod holds, by number of the resource."""
        return np.array([self._holds[pod].get(name, 0) for name in self._snapshot.axis.names], dtype=np.int64)

    def _places(self, groups: Sequence[list[str]], reserved: Mapping[int, int], *, gone: bool) -> dict[str, str] | None:
        """A node for every moved pod, job after job; None where the scheduler finds none for one of them.

        Pods that are still to be moved are gone, or still run and hold what they have.
        """
        waiting = [pod for group in groups for pod in group]
        objects = self._scenario.objects
        node_by_pod = dict[str, str]()
        if gone:
            objects = objects.changed({}, map(pod_key, waiting))
        for group in groups:
            waiting = waiting[len(group) :]
            if self.left <= 0:
                self._cut = True
                return None
            self.left -= 1
            blocked = self._blocked(reserved, () if gone else waiting)
            bound = self._bound(self._with(objects, dict.fromkeys(group, "")), blocked)
            if any(pod not in bound for pod in group):
                return None
            node_by_pod |= {pod: bound[pod] for pod in group}
            objects = self._with(objects, {pod: bound[pod] for pod in group})
        return node_by_pod

    def _sequence(self, groups: Sequence[list[str]], places: Mapping[str, str]) -> list[int] | None:
        """An order in which each job finds its places free when it is moved; None where jobs wait for each other."""
        free = self._counting.free.copy()
        rows = self._snapshot.nodes.row
        order: list[int] = []
        remaining = list(range(len(groups)))
        while remaining:
            for number in remaining:
                before = free.copy()
                for pod in groups[number]:
                    free[:, rows[self._pods[pod].spec.node_name]] += self._amounts(pod)
                    free[:, rows[places[pod]]] -= self._amounts(pod)
                touched = [rows[places[pod]] for pod in groups[number]]
                if (free[:, touched] >= np.minimum(before[:, touched], 0)).all():
                    order.append(number)
                    remaining.remove(number)
                    break
                free[:] = before
            else:
                return None
        return order

    def _blocked(self, reserved: Mapping[int, int], waiting: Sequence[str]) -> dict[str, Ints]:
        """Amounts of each resource reserved for the gang by node, beyond those held by pods that must still move."""
        snapshot = self._snapshot
        shape = self._counting.pod_set.shape
        blocked: dict[str, Ints] = {}
        for r in shape.asked.tolist():
            amounts = np.zeros(len(snapshot.nodes), dtype=np.int64)
            for row, number in reserved.items():
                amounts[row] = number * int(shape.request[r])
            for pod in waiting:
                amounts[snapshot.nodes.row[self._pods[pod].spec.node_name]] -= self._holds[pod].get(
                    snapshot.axis.names[r], 0
                )
            blocked[snapshot.axis.names[r]] = np.maximum(amounts, 0)
        return blocked

    def _bound(self, objects: Objects, blocked: Mapping[str, Ints]) -> dict[str, str]:
        """Where one cycle binds the pods that wait, on nodes that have so much less."""

        def decide(shown: Objects) -> dict[str, str]:
            snapshot = self._scenario.amend(
                build(shown, self._now, self._profile, schedulers=self._scenario.schedulers)
            )
            allocatable = snapshot.nodes.allocatable.copy()
            for name, amounts in blocked.items():
                if name in snapshot.axis.index:
                    allocatable[snapshot.axis.index[name]] -= amounts
            snapshot = replace(snapshot, nodes=replace(snapshot.nodes, allocatable=allocatable))
            effects_decided = effects(snapshot, cycle(snapshot, self._profile))
            return {effect.pod.path: effect.node for effect in effects_decided if isinstance(effect, Bind)}

        return Guard().run("scheduling", objects, decide) or {}

    def _with(self, objects: Objects, nodes: Mapping[str, str]) -> Objects:
        """The objects with pods on these nodes; without one they are as their controllers make them again."""
        puts: dict[Key, tuple[Object, Raw | None]] = {}
        for path, node in nodes.items():
            pod = self._pods[path]
            spec = replace(pod.spec, node_name=node)
            status = pod.status if node else PodStatus()
            puts[pod_key(path)] = replace(pod, spec=spec, status=status), None
        return objects.updated(puts, (), objects.version + 1)

    # -- what a plan says

    def _told(
        self, domain: int, reserved: Mapping[int, int], movers: Sequence[_Mover], places: Mapping[str, str]
    ) -> DefragPlan | None:
        """The plan; pods that come to be where they were are not moved, and None where that is all of them."""
        snapshot = self._snapshot
        names = ObjectNames(snapshot.jobs)
        moves = []
        for mover in movers:
            nodes = {pod: self._pods[pod].spec.node_name for pod in mover.running}
            pods = {pod: (node, places[pod]) for pod, node in nodes.items() if places.get(pod, node) != node}
            if not pods:
                continue
            moves.append(
                Move(
                    job=mover.key,
                    name=names.of(mover.job) if mover.job is not None else mover.key.removeprefix("default/"),
                    pods=pods,
                    minimum=mover.minimum,
                    left=len(nodes) - len(pods),
                    hours=self._hours(mover, list(pods)),
                    before=self._around(nodes.values()),
                    after=self._around((nodes | {pod: new for pod, (_, new) in pods.items()}).values()),
                )
            )
        if not moves:
            return None
        moved = [(pod, nodes) for move in moves for pod, nodes in move.pods.items()]
        fits = self._fits((pod, node, sign) for pod, nodes in moved for node, sign in zip(nodes, (1, -1), strict=True))
        return DefragPlan(
            room=self._room,
            slots_before=self._slots(self._counting.fits),
            slots_after=self._slots(fits),
            resource=self._resource,
            moves=tuple(moves),
            domain=snapshot.topology.name[domain] if domain != ROOT else "",
            title=domain_title(snapshot.topology, domain),
            nodes={snapshot.nodes.names[row]: number for row, number in sorted(reserved.items())},
            notes=self._notes,
        )

    def _around(self, nodes: Iterable[str]) -> str:
        """The innermost domain around nodes."""
        topology = self._snapshot.topology
        rows = [self._snapshot.nodes.row[node] for node in nodes]
        around = np.flatnonzero((topology.start <= min(rows)) & (topology.end > max(rows)))
        return domain_title(topology, int(around[-1]))

    def _cost(self, counts: Counts) -> float:
        """The hours that are lost where so many pods of each kind move."""
        moved: dict[str, list[str]] = {}
        movers = {owner.key: owner for owner in self._owners}
        for (_, _, alike), owner, number in zip(self._kinds, self._owners, counts, strict=True):
            if number:
                moved.setdefault(owner.key, []).extend(alike[:number])
        return sum(self._hours(movers[key], pods) for key, pods in moved.items())

    def _hours(self, mover: _Mover, moved: Sequence[str]) -> float:
        """Lost work of a job in hours: that of the moved pods, or of all pods if too few keep running."""
        losing = mover.running if len(mover.running) - len(moved) < mover.minimum else moved
        return sum(map(self._losses.each, losing)) / 3600.0


def amounts_of(pod: Pod) -> dict[str, int]:
    """Amounts that a pod holds."""
    return {**effective_request(counted(pod)), POD_SLOTS: 1}


def _running(job: Job) -> tuple[str, ...]:
    return tuple(task.key for task in job.tasks if task.status is Status.RUNNING and task.node >= 0)


def _orders(groups: Sequence[list[str]]) -> Iterator[tuple[int, ...]]:
    """In which order jobs get their places: the one with the most pods first, and if they are few every other order."""
    largest = sorted(range(len(groups)), key=lambda i: (-len(groups[i]), i))
    if len(groups) <= _ORDERED:
        yield from permutations(largest)
    else:
        yield from (tuple(largest), tuple(reversed(largest)))


def _without_evictions(profile: Profile) -> Profile:
    """A profile that places, and evicts nothing."""
    actions = tuple(name for name in profile.actions if name in ACTIONS and ACTIONS[name].family in _PLACING)
    return replace(profile, actions=actions, immediate_preemption=False)


def _without_pending(objects: Objects) -> Objects:
    """The objects without pods that wait: no other pod takes the places that a plan counts on."""
    waiting = [path for path, pod in objects.every(Pod).items() if not pod.spec.node_name]
    return objects.changed({}, [Key("", "Pod", *path.split("/", 1)) for path in waiting])


def _without_record(objects: Objects) -> Objects:
    """The objects without the record of an execution: what it holds is what is planned here."""
    records = (path for path in objects.of_kind("", "ConfigMap") if path.endswith(f"/{RECORD_NAME}"))
    return objects.changed({}, [Key("", "ConfigMap", *path.split("/", 1)) for path in records])


def _probe(room: Room, scheduler: str) -> Raw:
    """A pod of the asked shape, as admission would let it in: it tolerates taints that are named like what it asks."""
    namespace, _, name = _PROBE.partition("/")
    spec = {
        "schedulerName": scheduler,
        "tolerations": [{"key": resource, "operator": "Exists"} for resource in room.requests],
        "containers": [{"name": "main", "resources": {"requests": dict(room.requests)}}],
    }
    return manifest("v1", "Pod", name, namespace, spec=spec)
