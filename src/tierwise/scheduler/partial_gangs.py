"""Gangs that are bound only in part: find them, mark them with the time, and evict them if the rest finds no place.

A bind may fail, a scheduler may crash half-way, and pods are evicted from overcommitted nodes (`overbound`). Every
cycle places missing pods beside those that run, so a partial gang is normally complete a moment later. If it is not
after some time, its pods are evicted, because they hold resources without use. A gang that was whole and has lost pods
since is not meant: its policies and replacements deal with it.

A sub-group beyond the gang's minimum is whole or not at all as well. Where a part of one runs, its own pods show
whether it was ever whole and how long it has waited, and these alone are evicted.

The marks are annotations on the gang's pod group, in every language, so they survive a restart. A gang that is declared
only by annotations of its pods has no such object; there the pods themselves show how long it has waited. Pods without
an owner that would create them again are never evicted; a message says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Object
from tierwise.api.core import Pod, format_time, parse_time
from tierwise.api.natural import NaturalKey, natural
from tierwise.dialects.language import NotOurs, kinds
from tierwise.dialects.languages import LANGUAGES, declares_one, declaring, whose
from tierwise.framework.ledger import Ledger, halves, job_ready
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Phase, Status, SubJob, Task
from tierwise.model.snapshot import Snapshot
from tierwise.port import Effect, Evict, Key, Objects, PatchStatus, RecordEvent, lone_gang

__all__ = ["DIMINISHED", "PARTIAL", "PATIENCE", "RELEASE", "Marks", "overbound", "partial_since", "release", "tallies"]


# Pods on an overcommitted node: two schedulers bound pods to the same resources at the same time.
#
# The API server accepts every bind, and a kubelet rejects the pods that arrive last on a full node. This goes
# through the pods of such a node as a kubelet would: first the pods that it has started, then gang by gang in the order
# of binding. Pods of ours that do not fit are evicted, and so are those that a kubelet has rejected. Every scheduler
# that follows this rule finds the same order, because it is derived from the pods alone.


# What pods tell: when they were bound, and where no object does, whether their gang was ever whole.
#
# All by the API server's own clock, which stamps when a pod is made and when it is bound. A gang that was whole and
# has lost pods has replacements that are younger than its first binding, or members that have ended. One of which a
# pod was there from the beginning and still has no node, while no other has come, was bound in part.


def partial_since(objects: Objects, tasks: Sequence[Task]) -> float | None:
    """When the last pod was bound of a gang, or a part of one, that was never whole; None else, or if nothing tells."""
    pods = objects.every(Pod)
    standing = [pods[task.key] for task in tasks if task.status is Status.RUNNING and task.key in pods]
    waiting = [pods[task.key] for task in tasks if task.status is Status.PENDING and task.key in pods]
    times = [time for time in map(bound_at, standing) if time is not None]
    all_are_there = len(standing) + len(waiting) == len(tasks)
    if not waiting or not all_are_there or not times or len(times) < len(standing):
        return None
    first = min(times)
    if all(_made(pod) <= first for pod in waiting):
        return max(times)
    return None


def owned(pod: Pod) -> bool:
    """Whether a controller makes a pod again when it is gone."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def bound_together(pods: Iterable[Pod], within: float) -> bool:
    """Whether no more than so many seconds lie between the bindings of pods, as far as they tell."""
    times = [time for pod in pods if (time := bound_at(pod)) is not None]
    return not times or max(times) - min(times) <= within


def bound_at(pod: Pod) -> float | None:
    """When a pod was bound; None where its status does not tell."""
    for condition in pod.status.conditions:
        if (condition.type, condition.status) == ("PodScheduled", "True"):
            try:
                return parse_time(condition.last_transition_time)
            except ValueError:
                return None
    return None


def _made(pod: Pod) -> float:
    stamp = pod.metadata.creation_timestamp
    return parse_time(stamp) if stamp else float("inf")


_CROWDED: Final = "Oversubscribed"
_REFUSED: Final = "OutOf"
"""How a kubelet's reasons begin where a node has too little of something: OutOfcpu, OutOfnvidia.com/gpu, …"""


def overbound(objects: Objects, snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods to be taken back, by the key of their job: none of them has ever run, and all will be made again."""
    found: dict[str, list[Pod]] = {}
    for job, pod in (*_refused(objects, snapshot), *_last(objects, snapshot)):
        if owned(pod):
            found.setdefault(job.key, []).append(pod)
    return found


def _refused(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    pods = objects.every(Pod)
    for job in snapshot.columns.with_status(Status.FAILED):
        for task in job.tasks:
            if task.status is Status.FAILED and task.key in pods:
                pod = pods[task.key]
                if pod.status.reason.startswith(_REFUSED) and not pod.metadata.deletion_timestamp:
                    yield job, pod


class _BoundPod(msgspec.Struct, frozen=True):
    """A pod on a node that holds too much."""

    task: Task
    pod: Pod
    job: Job | None  # None where it is not ours
    stays: bool  # a kubelet has taken it up


def _last(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    """Pods of gangs that were bound last to nodes which have less than was given out of them."""
    names = {fault.subject.removeprefix("Node ") for fault in snapshot.faults if fault.code == _CROWDED}
    if not names:
        return
    guests = _guests(objects, snapshot, sorted(snapshot.nodes.row[name] for name in names))
    newcomers = [guest.pod for row in guests.values() for guest in row if not guest.stays]
    if not newcomers:
        return  # a node may hold too much for as long as it likes
    times = _times(objects, newcomers)
    for row, there in guests.items():
        if any(not guest.stays and bound_at(guest.pod) is None for guest in there):
            continue  # bound a moment ago: the server's word on when is on its way
        in_order = sorted(there, key=lambda guest: _binding_order(guest, times))
        yield from _without_room(in_order, snapshot.nodes.allocatable[:, row].copy())


def _without_room(in_order: Iterable[_BoundPod], free: Ints) -> Iterator[tuple[Job, Pod]]:
    """Running pods of gangs that do not fit on a node with this much room once those before them are on it."""
    for guest in in_order:
        request = guest.task.shape.request
        if not ((request > free) & (request > 0)).any():
            free -= request
        elif guest.job is not None and not guest.stays and guest.task.status is Status.RUNNING:
            yield guest.job, guest.pod


def _guests(objects: Objects, snapshot: Snapshot, rows: list[int]) -> dict[int, list[_BoundPod]]:
    pods = objects.every(Pod)
    found: dict[int, list[_BoundPod]] = {row: [] for row in rows}
    for job, task in snapshot.columns.on_rows(rows):
        if task.status in (Status.RUNNING, Status.RELEASING) and task.key in pods:
            pod = pods[task.key]
            up = bool(pod.status.start_time) or pod.status.phase not in ("", "Pending")
            ours = job if job is not None and job.declared else None
            found[int(snapshot.nodes.rows[task.node])].append(_BoundPod(task, pod, ours, up))
    return found


def _gang(pod: Pod) -> str:
    """Which pods a pod is bound with, told by the pod alone: pods of other schedulers are no jobs of ours."""
    return whose(pod) or lone_gang(f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}")


def _times(objects: Objects, members: Sequence[Pod]) -> dict[str, float]:
    """Return, for each gang that one of members belongs to, when its last pod was bound, in seconds since the epoch; 0
    where none of its pods says so. All placed pods of the gang count, not members alone.
    """
    times = dict.fromkeys(map(_gang, members), 0.0)
    namespaces = {pod.metadata.namespace for pod in members}  # no gang has pods in two
    for pod in objects.every(Pod).values():
        if pod.metadata.namespace in namespaces and pod.spec.node_name and (gang := _gang(pod)) in times:
            times[gang] = max(times[gang], bound_at(pod) or 0.0)
    return times


def _binding_order(guest: _BoundPod, times: dict[str, float]) -> tuple[bool, float, NaturalKey, NaturalKey]:
    gang = _gang(guest.pod)
    return not guest.stays, 0.0 if guest.stays else times[gang], natural(gang), natural(guest.task.key)


# The tallies of a cycle once it is over: what was bound counts, and what is taken back does not.


def tallies(snapshot: Snapshot, report: CycleReport, back: Collection[str]) -> Ledger:
    """A ledger on which jobs are as ready as they are now; amounts are those before the cycle."""
    ledger = Ledger(snapshot)
    for decision in report.decisions:
        for placed in decision.placed if decision.bound else ():
            for task in placed.tasks:
                if not decision.job.backfills(task.shape):  # those were counted before they were placed
                    _count(ledger, decision.job, placed.sub, task, 1)
    for job in snapshot.jobs if back else ():
        for sub in job.subs:
            for task in sub.tasks:
                if task.key in back and task.status is Status.RUNNING:
                    _count(ledger, job, sub, task, -1)
    return ledger


def _count(ledger: Ledger, job: Job, sub: SubJob, task: Task, by: int) -> None:
    ledger.count_ready(sub, job.numbers_of(task.role), by)


PARTIAL: Final = "tierwise.io/partial-since"
"""Since when a gang that was never whole has had some of its pods bound; "" where it no longer is so."""

DIMINISHED: Final = "tierwise.io/diminished-since"
"""Since when a gang that was whole has stood below its minimum; "" where it no longer does."""

PATIENCE: Final = 60.0
"""Seconds that the rest of a gang has to find a place."""

RELEASE: Final = "release"
"""The stage that evictions of this kind name."""

_RELEASED: Final = "a part of {unit} was bound, and the rest has found no place for {patience:.0f} seconds"
_TAKEN_BACK: Final = "its node was given more than it has, and gang {gang} was bound last"
_NEVER_WHOLE: Final = (Phase.PENDING, Phase.INQUEUE)
_MARKED: Final = frozenset(
    kind for one in LANGUAGES.values() if not isinstance(one.marks, NotOurs) for kind in kinds(one.marks)
)
"""The kinds of objects that keep marks."""


class Marks:
    """Which pod groups keep a mark: few, so that those of the others need not be looked for."""

    def __init__(self) -> None:
        self._seen = Objects()
        self._keys: set[Key] = set()

    def follow(self, objects: Objects) -> frozenset[str]:
        """Their paths; only what has changed since the last time is looked at."""
        for key, record in (one for found in objects.changed_objects(self._seen).values() for one in found.items()):
            if (key.group, key.kind) in _MARKED:
                (self._keys.add if record is not None and _has_mark(record) else self._keys.discard)(key)
        self._seen = objects
        return frozenset(key.path for key in self._keys)


def release(
    objects: Objects,
    snapshot: Snapshot,
    report: CycleReport,
    decision: Callable[[str], str],
    marks: Marks | None = None,
    whose: Container[str] | None = None,
    besides: Container[str] = (),
) -> list[Effect]:
    """Marks to set and to take away, and pods of marked gangs to evict; `decision` names that about a job.

    Of these jobs alone, where `whose` says so, and of none of those in `besides`.
    """
    bound = _bound(report)
    back = overbound(objects, snapshot)
    marked = (marks or Marks()).follow(objects)
    candidates = _candidates(snapshot, {*back, *bound}, marked)
    jobs = [
        job
        for job in candidates
        if (whose is None or job.key in whose)
        and job.key not in besides
        and (job.key in back or _in_question(objects, job, marked, report, bound))
    ]
    if not jobs:
        return []
    holders = {job.key: _held(objects, job) for job in jobs}
    after = tallies(snapshot, report, {_pod_key(pod).path for pods in back.values() for pod in pods})
    effects: list[Effect] = []
    for job in jobs:
        lost = back.get(job.key, [])
        standing = _standing(objects, job, bound.get(job.key, frozenset()), lost)
        whole = not standing or job_ready(after, job)
        # Taken back, it was whole only on paper; one that lacks a replacement was whole before.
        never = job.phase in _NEVER_WHOLE or (bool(lost) and bound_together((*standing, *lost), PATIENCE))
        case = _Case(job, standing, whole, never, job.key in report.rejections, decision(job.key))
        effects += _settled(objects, report, after, case, lost, holders[job.key], snapshot.now)
    return effects


def _candidates(snapshot: Snapshot, named: Set[str], marked: frozenset[str]) -> list[Job]:
    """Declared jobs that may be whole in part, in order: those that are not settled, named ones and marked ones."""
    jobs = list(snapshot.unsettled)
    if named or marked:
        jobs += [job for job in snapshot.jobs if job.settled and (job.key in named or _is_marked(job, marked))]
    return [job for job in sorted(jobs, key=lambda job: job.number) if job.declared]


def _settled(
    objects: Objects,
    report: CycleReport,
    after: Ledger,
    case: _Case,
    lost: Sequence[Pod],
    holder: tuple[Key, Object] | None,
    now: float,
) -> list[Effect]:
    """Effects for one gang: pods that are taken back, its mark, and sub-groups of which a part runs."""
    key = case.job.key
    effects: list[Effect] = [Evict(_pod_key(pod), _TAKEN_BACK.format(gang=key), key, RELEASE) for pod in lost]
    if holder is not None:
        effects += _by_mark(case, *holder, now)
    elif not case.whole and _given_up(objects, case, lost, now):
        effects += _evict(case, None)
    goes_on = not case.never and not any(isinstance(effect, Evict) and effect.by == key for effect in effects)
    if case.whole or goes_on:
        effects += _halves(objects, report, after, case, holder[0] if holder is not None else None, now)
    return effects


def _given_up(objects: Objects, case: _Case, lost: Sequence[Pod], now: float) -> bool:
    """True if a gang without a pod group waits no longer for what it lacks."""
    if lost and case.never:
        return True
    return case.rejected and _waited(partial_since(objects, case.job.tasks), now)


def _halves(
    objects: Objects, report: CycleReport, after: Ledger, case: _Case, key: Key | None, now: float
) -> Iterator[Effect]:
    """Release sub-groups beyond the minimum of which a part runs; the rest of the gang stays where it is."""
    job = case.job
    standing = {_pod_key(pod).path: pod for pod in case.standing}
    begun = [sub for sub in job.subs if any(task.key in standing for task in sub.tasks)] if job.shape.parted else []
    units = halves(after, job, begun)
    placed: set[str] = set()
    for decision in report.decisions:
        if decision.job is job:
            placed |= _placed_keys(decision)
    for unit in units:
        tasks: list[Task] = []
        for sub in unit:
            tasks.extend(sub.tasks)
        if _waited(partial_since(objects, tasks), now) and not any(task.key in placed for task in tasks):
            pods = [standing[task.key] for task in tasks if task.key in standing]
            yield from _evict(
                replace(case, standing=pods), key, f"{job.joint_word(unit)} " + ", ".join(sub.key for sub in unit)
            )


def _placed_keys(decision: Decision) -> set[str]:
    return {task.key for placed in decision.placed for task in placed.tasks}


class _Case(msgspec.Struct, frozen=True):
    """A gang in question, as it is after the cycle."""

    job: Job
    standing: list[Pod]
    whole: bool  # or nothing of it runs
    never: bool  # it was never whole before
    rejected: bool
    decision: str


def _by_mark(case: _Case, key: Key, holder: Object, now: float) -> Iterator[Effect]:
    """What becomes of a gang with a pod group."""
    marks = {mark: text for mark in (PARTIAL, DIMINISHED) if (text := holder.metadata.annotations.get(mark))}
    if case.whole:
        if marks:
            yield PatchStatus(key, {}, dict.fromkeys(marks, ""))
    elif PARTIAL in marks:
        since = _time(marks[PARTIAL])
        if since is None or since > now:
            yield PatchStatus(
                key, {}, {PARTIAL: format_time(now)}
            )  # noted by a clock that was wrong, or by something else
        elif case.rejected and _waited(since, now):
            yield from _evict(case, key)
    elif case.never and DIMINISHED not in marks:
        yield PatchStatus(key, {}, {PARTIAL: format_time(now)})
    elif not marks:
        # Written before its phase says that it queues again: from then on the mark alone tells that it was whole.
        yield PatchStatus(key, {}, {DIMINISHED: format_time(now)})


def _has_mark(record: Object) -> bool:
    annotations = record.metadata.annotations
    return bool(annotations) and bool(annotations.get(PARTIAL) or annotations.get(DIMINISHED))


def _in_question(
    objects: Objects, job: Job, marked: Collection[str], report: CycleReport, bound: Mapping[str, frozenset[str]]
) -> bool:
    """Marked, or a part of it may stand; what was decided and bound without a no is whole."""
    if _is_marked(job, marked):
        held = _held(objects, job)
        if held is not None and _has_mark(held[1]):
            return True
    if job.key in bound and job.key in report.rejections:
        return True
    several = not job.shape.only_pods and any(sub.pod_sets for sub in job.subs)
    if job.phase not in _NEVER_WHOLE and not several and sum(sub.ready for sub in job.subs) >= job.minimum:
        return False
    return any(task.status is Status.RUNNING for task in job.tasks)


def _is_marked(job: Job, marked: Collection[str]) -> bool:
    """Whether an object that may be one of the job's keeps a mark."""
    if not marked:
        return False
    declared = (job.declared_by.path,) if job.declared_by is not None else job.gangs or (job.key,)
    return any(path in marked for path in declared)


def _bound(report: CycleReport) -> dict[str, frozenset[str]]:
    """The tasks that were bound in this cycle, by job."""
    found: dict[str, set[str]] = {}
    for decision in report.decisions:
        if decision.bound:
            keys = (task.key for placed in decision.placed for task in placed.tasks)
            found.setdefault(decision.job.key, set()).update(keys)
    return {job: frozenset(keys) for job, keys in found.items()}


def _standing(objects: Objects, job: Job, bound: frozenset[str], lost: list[Pod]) -> list[Pod]:
    pods = objects.every(Pod)
    standing = (task for task in job.tasks if task.status is Status.RUNNING or task.key in bound)
    return [pods[task.key] for task in standing if task.key in pods and pods[task.key] not in lost]


def _held(objects: Objects, job: Job) -> tuple[Key, Object] | None:
    """The pod group that keeps the marks of a job: the first of several gangs that has one; None where none has."""
    found = declaring(objects, job)
    return next((held for held in found if declares_one(held[1]) is not None), None)


def _evict(case: _Case, key: Key | None, unit: str = "") -> Iterator[Effect]:
    text = _RELEASED.format(unit=unit or f"gang {case.job.key}", patience=PATIENCE)
    alone = []
    for pod in case.standing:
        if owned(pod):
            yield Evict(_pod_key(pod), text, case.job.key, RELEASE)
        else:
            alone.append(pod)
    if alone:
        left = f"{text}; {len(alone)} pods stay where they are, because nothing would make them anew"
        yield RecordEvent(key or _pod_key(alone[0]), "Warning", "PartOfGangStands", left, case.decision)


def _pod_key(pod: Pod) -> Key:
    return Key("", "Pod", pod.metadata.namespace or "default", pod.metadata.name)


def _waited(since: float | None, now: float) -> bool:
    return since is not None and now - since >= PATIENCE


def _time(text: str) -> float | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
