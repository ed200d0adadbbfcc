"""Facts about the jobs of every namespace at one moment, as the users of each may be told them.

One look at the cluster serves all who ask: a cycle is run in memory, and for each namespace its own jobs are written
down with what that cycle made of them. `starts` does the same with runs ahead.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.core import Condition, Pod, parse_time
from tierwise.api.plurals import count
from tierwise.api.quantity import show
from tierwise.api.volcano import PodGroup
from tierwise.explain.eta import Eta, StartKind
from tierwise.explain.free_slots import slots_now
from tierwise.explain.job_location import job_location
from tierwise.explain.message import message, refusal
from tierwise.explain.naming import full_name, tier_label
from tierwise.explain.reasons import advice_wire
from tierwise.explain.tenant import (
    FreeGangs,
    HistoryEntry,
    JobAnswer,
    PositionAnswer,
    QueueAnswer,
    StartAnswer,
    coarse_number,
    coarse_text,
    code_text,
    start_range,
    start_text,
    time_text,
)
from tierwise.explain.usage import scarce
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Rejection, Status, Verdict, namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import schedule
from tierwise.sim.forecast.eta import etas, positions, waiting_snapshot
from tierwise.sim.forecast.forward import waits
from tierwise.sim.what_if.changes import Scenario
from tierwise.snapshot.builder import Reader

__all__ = [
    "ClusterFacts",
    "NamespaceFacts",
    "all_namespaces",
    "cluster_facts",
    "names_others",
    "namespaces_of",
    "own_name",
    "private_message",
    "starts",
]

_SIZES: Final = tuple(2**power for power in range(13))
"""Sizes of gangs for which free room is told: 1 to 4096."""

_ENTRIES: Final = 100
"""Entries of a job's history that are kept, the newest."""

_OTHERS_STAGES: Final = ("quota", "reservation")
"""Stages of a rejection whose words tell what other jobs use, hold or wait for."""

_NAMESPACE_IN_PATH: Final = re.compile(r"(?<![a-z0-9.-])([a-z0-9]([a-z0-9-]*[a-z0-9])?)/")
"""A word before a slash, which may be a namespace; resource names have a dot there."""


class NamespaceFacts(msgspec.Struct, frozen=True):
    """Facts that the users of one namespace may know, by the names of its jobs and of their queues."""

    jobs: dict[str, JobAnswer] = {}
    pods: dict[str, str] = {}  # the name of the job of each pod
    positions: dict[str, PositionAnswer] = {}
    histories: dict[str, tuple[HistoryEntry, ...]] = {}
    queues: dict[str, QueueAnswer] = {}


class ClusterFacts(msgspec.Struct, frozen=True):
    """Facts of all namespaces, and the free room, which is the same for all."""

    namespaces: dict[str, NamespaceFacts]
    resource: str
    slots: tuple[FreeGangs, ...]


def namespaces_of(job: Job) -> frozenset[str]:
    """The namespaces whose users a job belongs to: more than one where gangs of several start as one job."""
    return frozenset(map(namespace_of, job.gangs or (job.key,)))


def own_name(job: Job, namespace: str) -> str:
    """A job's name without its namespace; of a job of several namespaces, the names of the gangs in this one."""
    names = [part for part in full_name(job).split(" + ") if part.startswith(f"{namespace}/")]
    return " + ".join(part.removeprefix(f"{namespace}/") for part in names) or job.key.rpartition("/")[2]


def private_message(rejection: Rejection, namespaces: frozenset[str], namespace: str) -> str:
    """Why a job waits, in words that its own users may read.

    Where the reason is what other jobs use or hold, or where the text still has the path of an object of another
    namespace in it, it is what the code means in general.
    """
    if any(stage in _OTHERS_STAGES for stage in _stages(rejection)):
        return code_text(rejection.reason.code)
    text = message(rejection, namespace)
    if names_others(text, namespaces, namespace):
        return code_text(rejection.reason.code)
    return text


def names_others(text: str, namespaces: frozenset[str], namespace: str) -> bool:
    """Whether a text has the path of an object of another one of these namespaces in it."""
    paths = (match[1] for match in _NAMESPACE_IN_PATH.finditer(text))
    return any(name in namespaces and name != namespace for name in paths)


def all_namespaces(objects: Objects, snapshot: Snapshot) -> frozenset[str]:
    """The namespaces of all jobs and of all pods, whoever schedules these."""
    of_jobs = (namespace for job in snapshot.jobs for namespace in namespaces_of(job))
    of_pods = (path.partition("/")[0] for path in objects.every(Pod))
    return frozenset((*of_jobs, *of_pods))


def _stages(rejection: Rejection) -> Iterable[str]:
    yield rejection.stage
    for child in rejection.children:
        yield from _stages(child)


def cluster_facts(scenario: Scenario, reader: Reader | None = None) -> ClusterFacts:
    """Facts about all jobs, from one cycle in memory. A `reader` has read most of the scenario's objects before."""
    history = schedule(scenario.objects, scenario.profile, now=scenario.now, cycles=1, reader=reader)
    if history.reports:
        snapshot, report = history.reports[0]
    else:
        snapshot, report = scenario.snapshot(), None
    return _facts(scenario, snapshot, report)


def _facts(scenario: Scenario, snapshot: Snapshot, report: CycleReport | None) -> ClusterFacts:
    jobs_by_namespace: dict[str, list[Job]] = defaultdict(list)
    for job in snapshot.jobs:
        for namespace in namespaces_of(job):
            jobs_by_namespace[namespace].append(job)
    namespaces = all_namespaces(scenario.objects, snapshot)
    place_by_job = positions(snapshot, scenario.profile, [job for job in snapshot.jobs if waits(job)])
    pods = _pods_by_job(scenario.objects, snapshot)
    groups = scenario.objects.every(PodGroup)
    resource = scarce(snapshot)
    queues = _queue_use(snapshot, resource)
    starting = {decision.job.key for decision in report.decisions if decision.bound} if report is not None else set()
    facts: dict[str, NamespaceFacts] = {}
    for namespace, jobs in jobs_by_namespace.items():
        answers: dict[str, JobAnswer] = {}
        histories: dict[str, tuple[HistoryEntry, ...]] = {}
        for job in jobs:
            rejection = refusal(job, report) if report is not None else None
            text = private_message(rejection, namespaces, namespace) if rejection is not None else ""
            group = groups.get(job.key) if job.key.startswith(f"{namespace}/") else None
            answer = _job_answer(snapshot, job, namespace, rejection, text, starts=job.key in starting, group=group)
            answers[answer.name] = answer
            own_pods = [pod for pod in pods.get(job.key, ()) if pod.metadata.namespace == namespace]
            histories[answer.name] = _history(job, group, own_pods)
        facts[namespace] = NamespaceFacts(
            answers,
            _jobs_of_pods(jobs, namespace),
            _positions(jobs, namespace, place_by_job),
            histories,
            _queue_answers(snapshot, namespace, jobs, queues, resource),
        )
    return ClusterFacts(facts, resource, _free_gangs(snapshot))


def _job_answer(
    snapshot: Snapshot,
    job: Job,
    namespace: str,
    rejection: Rejection | None,
    text: str,
    *,
    starts: bool,
    group: PodGroup | None,
) -> JobAnswer:
    tasks = [task for task in job.tasks if namespace_of(task.key) == namespace]
    counts = Counter(task.status for task in tasks)
    running = counts[Status.RUNNING]
    waiting = counts[Status.PENDING] + counts[Status.GATED]
    if not tasks:
        waiting = job.minimum  # its pods are not made yet
    conditions = group.status.conditions if group is not None else ()
    whole = job_location(snapshot, job).whole if running else None
    answer = JobAnswer(
        name=own_name(job, namespace),
        queue=job.queue,
        state=_state(running, waiting, starts=starts),
        pods=len(tasks) or job.minimum,
        pods_running=running,
        pods_waiting=waiting,
        minimum=job.minimum,
        since=time_text(job.created),
        cluster_says=f"{conditions[-1].type}: {conditions[-1].message}" if conditions else "",
        domain=whole.name if whole is not None and whole.domain != ROOT else "",
    )
    gated = counts[Status.GATED]
    if not waiting or starts or (rejection is None and gated < waiting):
        return answer
    return _with_reason(answer, rejection if gated < waiting else None, text)


def _with_reason(answer: JobAnswer, rejection: Rejection | None, text: str) -> JobAnswer:
    """A waiting job with the reason; without a rejection all of its pods have scheduling gates."""
    if rejection is None:
        verdict, code, words = Verdict.NOT_ALLOWED, "SchedulingGated", "its pods have scheduling gates"
    else:
        verdict, code, words = rejection.verdict, rejection.reason.code, text
    advice = advice_wire(code)
    return msgspec.structs.replace(
        answer,
        verdict=verdict.value,
        reason=code,
        message=words,
        cure=str(advice.get("cure", "")),
        reference=str(advice.get("reference", "")),
    )


def _jobs_of_pods(jobs: Sequence[Job], namespace: str) -> dict[str, str]:
    """The name of the job of each pod of a namespace."""
    names = {}
    for job in jobs:
        for task in job.tasks:
            if namespace_of(task.key) == namespace:
                names[task.key.partition("/")[2]] = own_name(job, namespace)
    return names


def _state(running: int, waiting: int, *, starts: bool) -> str:
    if starts:
        return "starts"
    if not waiting:
        return "running" if running else "ended"
    return "partly running" if running else "waiting"


# Positions and queues.


def _positions(
    jobs: Sequence[Job], namespace: str, place_by_job: Mapping[str, tuple[int, int]]
) -> dict[str, PositionAnswer]:
    waiting = sorted((job for job in jobs if job.key in place_by_job), key=lambda job: place_by_job[job.key][0])
    seen: Counter[str] = Counter()
    answers = {}
    for job in waiting:
        seen[job.queue] += 1
        name = own_name(job, namespace)
        place = coarse_number(place_by_job[job.key][0])
        text = f"position {coarse_text(place)} in queue {job.queue or 'none'}"
        answers[name] = PositionAnswer(
            name=name, queue=job.queue, position=place, own_position=seen[job.queue], text=text
        )
    return answers


def _queue_use(snapshot: Snapshot, resource: str) -> dict[tuple[str, str], int]:
    """Amounts of a resource that running pods ask for, by namespace and queue."""
    index = snapshot.axis.index.get(resource)
    used: dict[tuple[str, str], int] = defaultdict(int)
    if index is None:
        return used
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status in (Status.RUNNING, Status.RELEASING):
                used[namespace_of(task.key), job.queue] += int(task.shape.request[index])
    return used


def _queue_answers(
    snapshot: Snapshot, namespace: str, jobs: Sequence[Job], used: Mapping[tuple[str, str], int], resource: str
) -> dict[str, QueueAnswer]:
    answers = {}
    for name in sorted({job.queue for job in jobs if job.queue}):
        queue = snapshot.queues.get(name)
        own_jobs = [job for job in jobs if job.queue == name]
        in_all = sum(amount for (_, queue_name), amount in used.items() if queue_name == name)
        limit = queue.capability.get(resource) if queue is not None else None
        answers[name] = QueueAnswer(
            name=name,
            resource=resource,
            used_here=show(resource, used.get((namespace, name), 0)),
            jobs_running=sum(any(task.status is Status.RUNNING for task in job.tasks) for job in own_jobs),
            jobs_waiting=sum(waits(job) for job in own_jobs),
            used=show(resource, in_all),
            limit=show(resource, limit) if limit is not None else "",
        )
    return answers


def _free_gangs(snapshot: Snapshot) -> tuple[FreeGangs, ...]:
    root_tier = int(snapshot.topology.tier[ROOT])
    slots = []
    for free in slots_now(snapshot, _SIZES):
        if free.most:
            tier = "cluster" if free.tier == root_tier else tier_label(snapshot.topology, free.tier)
            slots.append(FreeGangs(tier, free.size, coarse_number(free.gangs)))
    return tuple(slots)


# The past of a job, as its objects tell it.


def _pods_by_job(objects: Objects, snapshot: Snapshot) -> dict[str, list[Pod]]:
    every = objects.every(Pod)
    pods: dict[str, list[Pod]] = {}
    for job in snapshot.jobs:
        pods[job.key] = [every[task.key] for task in job.tasks if task.key in every]
    return pods


def _history(job: Job, group: PodGroup | None, pods: Sequence[Pod]) -> tuple[HistoryEntry, ...]:
    entries = [HistoryEntry(time_text(job.created), "created")] if job.created else []
    for condition in group.status.conditions if group is not None else ():
        if condition.last_transition_time:
            text = f"{condition.type}: {condition.reason}" if condition.reason else condition.type
            entries.append(HistoryEntry(condition.last_transition_time, "condition", text=text))
    moments: Counter[tuple[str, str, str]] = Counter()
    for pod in pods:
        moments.update(_moments(pod))
    for (at, event, words), number in moments.items():
        entries.append(HistoryEntry(at, event, number, f"{count(number, 'pod')} {words}"))
    entries.sort(key=lambda entry: (_time(entry.at), entry.event))
    return tuple(entries[-_ENTRIES:])


def _moments(pod: Pod) -> Iterable[tuple[str, str, str]]:
    """Events in a pod's status: when, which event, and the words for it."""
    for condition in pod.status.conditions:
        at = condition.last_transition_time
        if not at or condition.status != "True":
            continue
        if condition.type == "PodScheduled":
            yield at, "podsBound", "got nodes"
        elif condition.type == "Ready" and not pod.status.ended:
            yield at, "podsStarted", "became ready"
        elif condition.type == "DisruptionTarget":
            yield at, "podsEvicted", f"had to go ({condition.reason})" if condition.reason else "had to go"
    if pod.status.ended:
        ended = _ended_at(pod.status.conditions)
        if ended:
            yield ended, "podsEnded", "succeeded" if pod.status.phase == "Succeeded" else "failed"


def _ended_at(conditions: Sequence[Condition]) -> str:
    ready = (condition for condition in conditions if condition.type in ("Ready", "ContainersReady"))
    return next((condition.last_transition_time for condition in ready if condition.status == "False"), "")


def _time(text: str) -> float:
    return parse_time(text) if text else 0.0


# Expected starts.


def starts(scenario: Scenario) -> dict[str, dict[str, StartAnswer]]:
    """When the waiting jobs of each namespace are expected to start, by namespace and name.

    One set of runs ahead serves all namespaces.
    """
    scenario, snapshot = waiting_snapshot(scenario)
    jobs = {job.key: job for job in snapshot.jobs}
    report = etas(scenario)
    answers: dict[str, dict[str, StartAnswer]] = defaultdict(dict)
    for eta in report.jobs:
        job = jobs[eta.job]
        for namespace in namespaces_of(job):
            answer = _start_answer(eta, job, jobs, namespace, snapshot.now)
            answers[namespace][answer.name] = msgspec.structs.replace(answer, runs=report.runs)
    return dict(answers)


def _start_answer(eta: Eta, job: Job, jobs: Mapping[str, Job], namespace: str, now: float) -> StartAnswer:
    answer = StartAnswer(name=own_name(job, namespace), expectation=eta.kind.value)
    if eta.kind is StartKind.EXPECTED and eta.start is not None:
        low, high = eta.half if eta.half is not None else (eta.start, eta.start)
        earliest, latest = start_range(low, high, now)
        own_jobs = tuple(
            own_name(jobs[awaited.job], namespace)
            for awaited in eta.after
            if awaited.job in jobs and namespaces_of(jobs[awaited.job]) == {namespace}
        )
        return msgspec.structs.replace(
            answer,
            earliest=time_text(earliest),
            latest=time_text(latest) if latest is not None else "",
            text=start_text(earliest, latest, now),
            after=own_jobs,
            after_others=len(own_jobs) < len(eta.after),
        )
    if eta.kind in (StartKind.NOW, StartKind.STARTED):
        return msgspec.structs.replace(
            answer, text="now: the next cycle starts it" if eta.kind is StartKind.NOW else ""
        )
    return msgspec.structs.replace(answer, text=_no_start_text(eta))


def _no_start_text(eta: Eta) -> str:
    words = {StartKind.NEVER: "never on this cluster", StartKind.NOT_ALLOWED: "not allowed"}.get(eta.kind, "not known")
    if eta.reason:
        return f"{words}: {code_text(eta.reason)}"
    return words
