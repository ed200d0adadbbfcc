"""A defragmentation that is carried out: what is to be done next, by its record and by the objects as they are.

One move after the other: places are found by the scheduler's own cycle and held in the record; once the scheduler says
that it respects them, pods are evicted; the move is over when its job has all its pods again. Until then its old places
are held as well, and where a move cannot be finished, the job gets them back. Everything is in the record, so whoever
calls `proceed` may be another process than before; called twice, it asks for nothing that was done.

Pure: time and objects are arguments, and effects are returned. Callers write the record first, and carry out effects
only if that succeeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Pod, format_time
from tierwise.api.defrag_record import DefragRecord, FinishedMove, HeldPods, MovePhase, PlannedMove
from tierwise.api.eviction_terms import NOTICE, told_times
from tierwise.api.plurals import count
from tierwise.audit import audit
from tierwise.dialects.languages import DECLARING
from tierwise.explain.defrag import DefragPlan
from tierwise.framework.ledger import Ledger, Pool
from tierwise.model.job import Job
from tierwise.model.lost_nodes import LostNodes
from tierwise.port import Effect, Evict, PatchStatus, RecordEvent, gang_path
from tierwise.scheduler.effects import pod_key
from tierwise.sim.defragmentation.plan import Planner, amounts_of
from tierwise.sim.what_if.changes import Scenario

__all__ = ["begin", "proceed"]

_ACTION: Final = "defrag"
_PLANS: Final = 5
"""How often the rest of the moves may be planned again."""
_AFTERWARDS: Final = 3600.0
"""Seconds for which a job in hand keeps its places where no process goes on with it."""


class Proceeding(msgspec.Struct, frozen=True):
    """The record as it should be now, and what to do once it is written."""

    record: DefragRecord
    effects: tuple[Effect, ...] = ()


def begin(scenario: Scenario, room: str, *, by: str, step_seconds: float) -> tuple[DefragRecord, DefragPlan]:
    """The record of a new execution, and its plan; nothing is held or evicted where there is nothing to move."""
    planner = Planner(scenario, room, owned=True)
    plan = planner.plan()
    record = DefragRecord(room, MovePhase.DONE, by=by, step_seconds=step_seconds, started=scenario.now)
    if plan.moves:
        return _reserved(record, planner, plan, scenario.now), plan
    phase, why = (MovePhase.DONE, "there is room already") if plan.fits else (MovePhase.STOPPED, plan.why)
    return replace(record, phase=phase, message=why), plan


def proceed(record: DefragRecord, scenario: Scenario, *, observed: int, stopping: bool = False) -> Proceeding:
    """The next thing to do; `observed` is the revision that the scheduler respects.

    `stopping` ends the execution as soon as no job is between two places.
    """
    if record.over:
        return Proceeding(record)
    if not record.moves:
        return Proceeding(_stopped(record, "no move is running"))
    step = _Step(record, scenario)
    match record.phase:
        case MovePhase.RESERVING:
            return step.reserving(observed, stopping=stopping)
        case MovePhase.MOVING:
            return step.moving(stopping=stopping)
        case _:
            return step.returning()


class _Step:
    """The move in hand, and the state of its job."""

    def __init__(self, record: DefragRecord, scenario: Scenario) -> None:
        self._record = record
        self._scenario = scenario
        self._objects = scenario.objects
        self._now = scenario.now
        self._move = record.moves[0]
        self._pods = scenario.objects.every(Pod)
        self._jobs: tuple[Job, ...] | None = None

    def reserving(self, observed: int, *, stopping: bool) -> Proceeding:
        """Nothing is evicted before the scheduler respects what is held, and places are still those that are held."""
        record = self._record
        now = self._now
        if stopping:
            return Proceeding(_stopped(record, "it was told to stop"))
        if observed < record.revision:
            if now < record.deadline:
                return Proceeding(record)
            return Proceeding(_stopped(record, "no scheduler has read the record of the reserved places"))
        planner, plan = self._again(self._still_there(record.moves))
        if plan is None or not plan.moves:
            return Proceeding(self._planned_anew(_told(plan)))
        complete = len(self._still_there([self._move])) == len(self._move.pods)
        if complete and not self._lost_place() and planner.movable(list(self._move.pods)):
            deadline = now + record.step_seconds + self._move.notice
            moving = replace(record, phase=MovePhase.MOVING, deadline=deadline, expires=deadline + _AFTERWARDS)
            return Proceeding(moving)
        if record.plans >= _PLANS:
            return Proceeding(_stopped(record, "places are taken faster than they can be held"))
        return Proceeding(_reserved(replace(record, plans=record.plans + 1), planner, plan, now))

    def moving(self, *, stopping: bool) -> Proceeding:
        """Evict what has not gone; once the job has all its pods again, the next move."""
        record = self._record
        now = self._now
        move = self._move
        pods_left = self._still_there([move])
        touched = any(not self._same(path) for path in move.pods)
        if not pods_left and (self._whole() or (now >= record.deadline and self._enough())):
            return Proceeding(self._finished(stopping=stopping), self._told_done())
        if not touched and (stopping or now >= record.deadline):
            why = "it was told to stop" if stopping else f"no pod of {move.name} could be evicted"
            return Proceeding(_stopped(record, why))
        lost = self._lost_place() if touched else ""
        if lost or now >= record.deadline:
            why = f"{lost or f'{move.name} was not whole again in time'}: it gets its old places back"
            deadline = now + record.step_seconds
            returning = replace(
                record,
                phase=MovePhase.RETURNING,
                revision=record.revision + 1,
                deadline=deadline,
                expires=deadline + _AFTERWARDS,
                kept={},
                held=self._both_places(),
                message=why,
            )
            return Proceeding(returning)
        return Proceeding(record, tuple(self._evictions(pods_left)))

    def returning(self) -> Proceeding:
        """The job may have its old places and its new ones; it is over when it has all its pods again."""
        record = self._record
        late = self._now >= self._record.deadline
        if self._whole() or (late and self._enough()):
            return Proceeding(_stopped(record, f"{self._move.name} could not be moved, and runs as before"))
        if late and not self._members():
            return Proceeding(_stopped(record, f"the pods of {self._move.name} were not started again by their owner"))
        if late:  # nothing but its places can be kept for it
            deadline = self._now + record.step_seconds
            return Proceeding(replace(record, deadline=deadline, expires=deadline + _AFTERWARDS))
        return Proceeding(record)

    # -- the state of the job in hand

    def _same(self, path: str) -> bool:
        """Whether a pod is the one that is to go, and was not asked to."""
        pod = self._pods.get(path)
        meant = next((move.pods[path] for move in self._record.moves if path in move.pods), None)
        return (
            pod is not None
            and meant is not None
            and pod.metadata.uid == meant.uid
            and pod.spec.node_name == meant.node
            and not pod.metadata.deletion_timestamp
        )

    def _still_there(self, moves: Sequence[PlannedMove]) -> list[str]:
        """Pods that are to go, and run where they did."""
        return [path for move in moves for path in move.pods if self._same(path) and not self._pods[path].status.ended]

    def _members(self) -> list[Pod]:
        """The pods of the job; of a pod by itself all those of its owner."""
        owner = self._move.owner
        if owner:
            return [
                p
                for p in self._pods.values()
                if any(owner_reference.uid == owner for owner_reference in p.metadata.owner_references)
            ]
        if self._jobs is None:
            self._jobs = self._scenario.snapshot().jobs
        jobs_of_move = (job for job in self._jobs if job.key == self._move.job)
        return [self._pods[task.key] for job in jobs_of_move for task in job.tasks]

    def _whole(self) -> bool:
        """Whether the job has as many pods as before, none of them on its way out, and is where it may be."""
        pods_of_move = self._members()
        if not pods_of_move:
            return self._gone()
        leaving = any(pod.metadata.deletion_timestamp for pod in pods_of_move)
        return (
            not leaving and sum(map(_counts, pods_of_move)) >= self._move.running and not self._too_wide(pods_of_move)
        )

    def _enough(self) -> bool:
        """Whether the job has what it needs to run."""
        pods_of_move = self._members()
        if not pods_of_move:
            return self._gone()
        return sum(map(_counts, pods_of_move)) >= max(1, self._move.minimum) and not self._too_wide(pods_of_move)

    def _too_wide(self, pods_of_move: Sequence[Pod]) -> bool:
        """Whether the auditor finds the job outside the domain that it must be in."""
        mine = {f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}" for pod in pods_of_move}
        other_pods = []
        for path in self._pods:
            if path not in mine:
                other_pods.append(pod_key(path))
        return any(finding.rule == "too-wide" for finding in audit(self._objects.changed({}, other_pods)))

    def _gone(self) -> bool:
        """Whether what declares the job was deleted, so that nothing starts its pods again."""
        if not self._move.declared:
            return False  # between two pods it cannot be told
        path = gang_path(self._move.job)
        return not any(path in self._objects.of_kind(*kind) for kind in DECLARING)

    def _lost_place(self) -> str:
        """Which of the places that the job is to come to is not free any more, as a sentence; "" where all are."""
        move = self._move
        snapshot = self._scenario.snapshot()
        rows = snapshot.nodes.row
        nodes = snapshot.nodes
        index = snapshot.axis.index
        free = Ledger(snapshot).free(np.arange(len(snapshot.axis)), slice(None), Pool.FUTURE_IDLE)
        for path in self._still_there([move]):  # what it gives up itself
            for name, amount in move.pods[path].requests.items():
                if name in index and move.pods[path].node in rows:
                    free[index[name], rows[move.pods[path].node]] += amount
        come = [pod for pod in self._members() if pod.spec.node_name and self._moved(pod)]
        if len(come) >= len(move.pods):
            return ""  # wherever that is
        need: dict[str, Counter[str]] = {}
        for planned in move.pods.values():
            need.setdefault(planned.target, Counter()).update(planned.requests)
        for pod in come:
            if pod.spec.node_name in need:
                need[pod.spec.node_name].subtract(amounts_of(pod))
        down = LostNodes(nodes).down
        for node, amounts in need.items():
            if max(amounts.values()) <= 0:
                continue
            row = rows.get(node, -1)
            if row < 0 or nodes.cordoned[row] or down[row]:
                return f"node {node} is not there for {move.name}"
            if any(amount > free[index[name], row] for name, amount in amounts.items() if name in index):
                return f"the place of {move.name} on {node} is taken"
        return ""

    def _moved(self, pod: Pod) -> bool:
        """Whether a pod of the job is new, and not one that was to stay."""
        began = {moved.uid for moved in self._move.pods.values()}
        path = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        if pod.metadata.deletion_timestamp or pod.metadata.uid in began:
            return False
        return path in self._move.pods or path not in self._move.staying

    # -- what follows

    def _evictions(self, pod_paths: Sequence[str]) -> list[Effect]:
        """Evict pods; those that are to have notice are told first."""
        record = self._record
        move = self._move
        now = self._now
        text = f"to open room for {record.room} in {record.title}"
        effects: list[Effect] = []
        for path in pod_paths:
            noticed = told_times(self._pods[path])[1]
            if move.notice and not noticed:
                effects += _notice(path, f"{text}; it will be evicted at {format_time(now + move.notice)}", now)
            elif now >= noticed + move.notice:
                effects.append(Evict(pod_key(path), text, "", _ACTION))
        return effects

    def _told_done(self) -> tuple[Effect, ...]:
        text = f"moved to open room for {self._record.room} in {self._record.title}"
        present_pods = [path for path in self._move.pods if path in self._pods]
        return tuple(RecordEvent(pod_key(path), "Normal", "Defragmented", text) for path in present_pods)

    def _finished(self, *, stopping: bool) -> DefragRecord:
        """The record after the move in hand: with places for the next one, or at its end."""
        move = self._move
        now = self._now
        note = "" if self._whole() else "it runs with fewer pods than before"
        over = FinishedMove(move.name, len(move.pods), now, move.hours, note)
        record = replace(self._record, moves=self._record.moves[1:], finished=(*self._record.finished, over))
        if stopping:
            return _stopped(record, "it was told to stop")
        self._record = record
        planner, plan = self._again(self._still_there(record.moves))
        if plan is not None and plan.moves:
            return _reserved(record, planner, plan, now)
        if plan is not None and plan.fits:
            return _stopped(record, "", phase=MovePhase.DONE)
        return self._planned_anew(_told(plan))

    def _again(self, pods: Sequence[str]) -> tuple[Planner, DefragPlan | None]:
        planner = Planner(self._scenario, self._record.room, owned=True)
        return planner, planner.again(pods, self._record.nodes)

    def _planned_anew(self, why: str) -> DefragRecord:
        """The cluster is another one than was planned for: a plan from here on, within reason."""
        record = self._record
        if record.plans >= _PLANS:
            return _stopped(record, f"{why}, and {count(record.plans, 'plan')} came to nothing")
        planner = Planner(self._scenario, record.room, owned=True)
        plan = planner.plan()
        if plan.moves:
            return _reserved(replace(record, plans=record.plans + 1), planner, plan, self._now)
        if plan.fits:
            return _stopped(record, "", phase=MovePhase.DONE)
        return _stopped(record, f"{why}: {plan.why}")

    def _both_places(self) -> tuple[HeldPods, ...]:
        """Places held for the current job, and its old places."""
        held_pods = self._record.held
        held_keys = set()
        for held_pod in held_pods:
            if held_pod.node not in self._record.nodes:
                held_keys.add((held_pod.node, tuple(sorted(held_pod.requests.items()))))
        old = _places(self._move, [(pod.node, pod.requests) for pod in self._move.pods.values()])
        return (
            *held_pods,
            *(
                held_pod
                for held_pod in old
                if (held_pod.node, tuple(sorted(held_pod.requests.items()))) not in held_keys
            ),
        )


def _reserved(record: DefragRecord, planner: Planner, plan: DefragPlan, now: float) -> DefragRecord:
    """The record with the moves of a plan, and places held for the first of them."""
    moves = tuple(map(planner.planned, plan.moves))
    first_move = moves[0]
    deadline = now + record.step_seconds
    later: list[str] = []
    for move in moves[1:]:
        later.extend(move.pods)
    arranged = [(pod.target, pod.requests) for pod in first_move.pods.values()]
    outside = [(pod.node, pod.requests) for pod in first_move.pods.values() if pod.node not in plan.nodes]
    return replace(
        record,
        phase=MovePhase.RESERVING,
        revision=record.revision + bool(record.moves or record.finished),
        deadline=deadline,
        expires=deadline,
        title=plan.title,
        nodes=plan.nodes,
        moves=moves,
        kept=planner.kept(plan.nodes, later),
        held=_places(first_move, [*arranged, *planner.staying(plan.moves[0]), *outside]),
        message="",
    )


def _places(move: PlannedMove, where: Sequence[tuple[str, Mapping[str, int]]]) -> tuple[HeldPods, ...]:
    """Places held for a job, alike ones together."""
    counts: dict[tuple[str, tuple[tuple[str, int], ...]], int] = {}
    for node, requests in where:
        alike = node, tuple(sorted(requests.items()))
        counts[alike] = counts.get(alike, 0) + 1
    return tuple(
        HeldPods(move.job, node, number, dict(requests), move.owner, move.queue)
        for (node, requests), number in sorted(counts.items())
    )


def _stopped(record: DefragRecord, why: str, *, phase: MovePhase = MovePhase.STOPPED) -> DefragRecord:
    """The record at its end: nothing is held any more."""
    return replace(
        record,
        phase=phase,
        revision=record.revision + 1,
        kept={},
        held=(),
        moves=() if phase is MovePhase.DONE else record.moves,
        message=why or f"there is room in {record.title}",
    )


def _told(plan: DefragPlan | None) -> str:
    if plan is None:
        return "the pods that are left to move find no place"
    return "the room was not opened"


def _counts(pod: Pod) -> bool:
    """Whether a pod runs, or has done its work."""
    return pod.status.phase in ("Running", "Succeeded") and not pod.metadata.deletion_timestamp


def _notice(path: str, text: str, now: float) -> list[Effect]:
    condition = {
        "type": NOTICE,
        "status": "True",
        "reason": "ToBeMoved",
        "message": text,
        "lastTransitionTime": format_time(now),
    }
    key = pod_key(path)
    return [PatchStatus(key, {"conditions": [condition]}), RecordEvent(key, "Normal", NOTICE, text)]
