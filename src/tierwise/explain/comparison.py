"""Two outcomes of one cluster side by side: who starts, moves, stops or waits in one of them and not in the other.

`sim.what_if` makes the outcomes, the command line and the pages show the comparison. Pure: nothing is run here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.plurals import count
from tierwise.api.quantity import show
from tierwise.explain.job_location import job_location
from tierwise.explain.message import refusal
from tierwise.explain.naming import ObjectNames, domain_title
from tierwise.explain.usage import held, scarce
from tierwise.explain.wire import why_waiting
from tierwise.framework.ledger import Ledger, job_ready
from tierwise.framework.report import CycleReport, Eviction
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.port import gang_path

__all__ = [
    "WAYS",
    "Answer",
    "Comparison",
    "Effect",
    "JobChange",
    "JobState",
    "LeastChange",
    "Outcome",
    "OwnEvictions",
    "compare",
    "comparison_wire",
    "in_order",
    "least_change_wire",
    "started",
]


class Effect(enum.Enum):
    """What a change does to a job; the order is that of a page."""

    STARTS = "starts"  # it waits without the change, and starts with it
    STOPS = "stops"  # it runs now, and would no longer
    WAITS_LONGER = "waits-longer"  # it would start without the change
    MOVES = "moves"  # some of its pods run on other nodes
    GROWS = "grows"  # more of its pods run
    SHRINKS = "shrinks"  # fewer of its pods run, and enough of them
    WAITS = "waits"  # it comes with the change, and waits
    ANOTHER_REASON = "another-reason"  # it waits in any case, and for another reason
    ENDS = "ends"  # it is gone
    NONE = "none"


class JobState(msgspec.Struct, frozen=True, rename={"total": "podsTotal", "hyper_node": "hyperNode"}):
    """One job in one outcome."""

    started: bool
    pods: Mapping[str, str]  # those with a node, and the node
    total: int
    hyper_node: str = ""
    verdict: str = ""
    reason: str = ""
    message: str = ""
    place: str = ""  # the innermost domain around its pods, for people


class JobChange(msgspec.Struct, frozen=True, rename={"job": "podGroup", "ran": "runsNow"}):
    """One job in both."""

    job: str  # namespace/name
    effect: Effect
    ran: bool  # it runs already, whatever is changed
    before: JobState | None
    after: JobState | None
    name: str  # as people call it


class Totals(msgspec.Struct, frozen=True, rename={"pods": "podsOnNodes", "evicted": "podsEvicted"}):
    """An outcome in figures."""

    running: int  # jobs that have what they need
    waiting: int
    pods: int  # with a node
    evicted: int
    resource: str  # the one that people look at first
    used: int
    capacity: int

    @property
    def text(self) -> str:
        shown = f"{show(self.resource, self.used)} of {show(self.resource, self.capacity)} {self.resource} in use"
        evicted = f"; {count(self.evicted, 'pod')} evicted" if self.evicted else ""
        return f"{count(self.running, 'job')} running, {self.waiting} waiting; {shown}{evicted}"


class Outcome(msgspec.Struct, frozen=True):
    """How a cluster is once nothing changes any more, with the report of the last cycle."""

    snapshot: Snapshot
    report: CycleReport | None
    evictions: Sequence[Eviction] = ()
    lone: tuple[tuple[Job, str], ...] = ()  # pods by themselves that were placed, and are no jobs any more; their nodes


class Comparison(msgspec.Struct, frozen=True, rename={"same": "unchanged"}):
    """Everything that two outcomes differ in."""

    before: Totals
    after: Totals
    jobs: tuple[JobChange, ...]  # those that the change does something to
    same: int  # jobs that it does nothing to


WAYS: Final = ("uncordon", "relax", "loosen", "quota", "move", "evict", "add-nodes", "wait")
"""Ways to make a job start, in the order of a page: a move stops nobody for good, and so stands before evictions."""


class Answer(msgspec.Struct, frozen=True, rename={"gangs": "gangsBroken", "hours": "acceleratorHoursLost"}):
    """One way to make a job start: what to do, and whether less of it would certainly not do."""

    way: str  # one of WAYS
    number: int  # pods, nodes, tiers, or amounts
    exact: bool
    subjects: tuple[str, ...]  # pods, nodes, constraints or queues
    text: str
    changes: tuple[str, ...]
    gangs: int = 0  # that fall below a minimum
    hours: float = 0.0  # of accelerators: work that is lost since the last checkpoints
    nodes: Mapping[str, str] = {}  # of a move: the node that each pod goes to
    counted: bool = False  # by counting alone: the scheduler was not run with it


class OwnEvictions(msgspec.Struct, frozen=True, rename={"gangs": "gangsBroken", "hours": "acceleratorHoursLost"}):
    """What the scheduler itself evicts for a job as things are."""

    text: str = ""
    pods: tuple[str, ...] = ()
    gangs: int = 0
    hours: float = 0.0


class LeastChange(
    msgspec.Struct,
    frozen=True,
    rename={
        "job": "podGroup",
        "starts": "startsAnyway",
        "answers": "ways",
        "hopeless": "noHelp",
        "own": "scheduler",
        "unsettled": "notSettled",
    },
):
    """All ways that were found, and those that do not help however much is done."""

    job: str  # namespace/name
    starts: bool  # it starts anyway
    answers: tuple[Answer, ...]
    hopeless: tuple[str, ...]
    name: str  # as people call it
    own: OwnEvictions = OwnEvictions()
    stopped: str = ""  # where the search did not come to its end
    unsettled: tuple[str, ...] = ()  # ways that were not found to help before the runs for them were used up


def started(snapshot: Snapshot, job: Job) -> bool:
    """Whether a job has all that it needs on nodes; one that needs none has a pod there."""
    placed = any(task.status is Status.RUNNING and task.node >= 0 for task in job.tasks)
    return placed and job_ready(Ledger(snapshot), job)


def compare(initial: Snapshot, before: Outcome, after: Outcome) -> Comparison:
    """What differs between the outcome without and with a change of a cluster that now is as `initial`."""
    ran = {key for key, state in _states(Outcome(initial, None)).items() if state.started}
    old, new = _states(before), _states(after)
    jobs = {job.key: job for outcome in (after, before) for job in (*outcome.snapshot.jobs, *_lone_jobs(outcome))}
    names = ObjectNames(jobs.values())
    changes: list[JobChange] = []
    for key in dict.fromkeys([*old, *new]):
        old_state, new_state, job_ran = old.get(key), new.get(key), key in ran
        changes.append(
            JobChange(
                key, _effect(old_state, new_state, ran=job_ran), job_ran, old_state, new_state, names.of(jobs[key])
            )
        )
    order = list(Effect)
    changed = [change for change in changes if change.effect is not Effect.NONE]
    changed.sort(key=lambda change: (order.index(change.effect), jobs[change.job].order))
    return Comparison(_totals(before, old), _totals(after, new), tuple(changed), len(changes) - len(changed))


def _effect(before: JobState | None, after: JobState | None, *, ran: bool) -> Effect:
    if after is None:
        return Effect.ENDS
    if after.started and (before is None or not before.started):
        return Effect.STARTS
    if before is None:
        return Effect.WAITS
    if before.started and not after.started:
        return Effect.STOPS if ran else Effect.WAITS_LONGER
    if any(after.pods[pod] != node for pod, node in before.pods.items() if pod in after.pods):
        return Effect.MOVES
    return _effect_in_place(before, after)


def _effect_in_place(before: JobState, after: JobState) -> Effect:
    """The effect on a job that runs in both outcomes or in none, and of which no pod moves."""
    if len(before.pods) != len(after.pods):
        return Effect.GROWS if len(after.pods) > len(before.pods) else Effect.SHRINKS
    old_outcome, new_outcome = (before.verdict, before.reason), (after.verdict, after.reason)
    return Effect.ANOTHER_REASON if old_outcome != new_outcome and not after.started else Effect.NONE


def _states(outcome: Outcome) -> dict[str, JobState]:
    snapshot, report = outcome.snapshot, outcome.report
    ledger = Ledger(snapshot)
    names, rows = snapshot.nodes.names, snapshot.nodes.rows
    states: dict[str, JobState] = {}
    for job in snapshot.jobs:
        pods = {t.key: names[rows[t.node]] for t in job.tasks if t.status is Status.RUNNING and t.node >= 0}
        rejection = refusal(job, report) if report is not None else None
        if not job.tasks and rejection is None:
            continue  # nothing has come of its group yet
        waits = any(task.status in (Status.PENDING, Status.GATED) for task in job.tasks) or not job.tasks
        place = job_location(snapshot, job).whole
        state = JobState(
            started=bool(pods) and job_ready(ledger, job),
            pods=pods,
            total=len(job.tasks) or job.minimum,
            place=domain_title(place.topology, place.domain) if place is not None else "",
            hyper_node=place.name if place is not None else "",
        )
        if report is not None and waits:
            gated = bool(job.tasks) and all(task.status is Status.GATED for task in job.tasks)
            verdict, reason, text = why_waiting(job, rejection, gated=gated)
            state = msgspec.structs.replace(state, verdict=verdict.value, reason=reason, message=text)
        states[job.key] = state
    for job, node in outcome.lone:
        leaf = int(snapshot.topology.leaf[snapshot.nodes.row[node]])
        title, name = domain_title(snapshot.topology, leaf), snapshot.topology.name[leaf] if leaf != ROOT else ""
        states[job.key] = JobState(True, {gang_path(job.key): node}, 1, name, place=title)
    return states


def _lone_jobs(outcome: Outcome) -> Iterator[Job]:
    return (job for job, _ in outcome.lone)


def _totals(outcome: Outcome, states: Mapping[str, JobState]) -> Totals:
    snapshot = outcome.snapshot
    resource = scarce(snapshot)
    running = sum(state.started for state in states.values())
    index = snapshot.axis.index.get(resource)
    capacity = int(snapshot.nodes.allocatable[index].sum()) if index is not None else 0
    return Totals(
        running=running,
        waiting=sum(not state.started for state in states.values()),
        pods=sum(len(state.pods) for state in states.values()),
        resource=resource,
        used=int(held(snapshot, resource).sum()),
        capacity=capacity,
        evicted=len(outcome.evictions),
    )


def comparison_wire(comparison: Comparison) -> Raw:
    """A comparison as JSON, without the names and places that are made for people."""
    wire: dict[str, Any] = msgspec.to_builtins(comparison)
    for change in wire["jobs"]:
        del change["name"]
        for state in filter(None, (change["before"], change["after"])):
            del state["place"]
    return wire


def in_order(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Ways in the order in which they are shown, whichever was found first."""
    return tuple(sorted(answers, key=lambda answer: WAYS.index(answer.way)))


def least_change_wire(least_change: LeastChange) -> Raw:
    """The ways to make a job start, for programs."""
    wire: dict[str, Any] = msgspec.to_builtins(least_change)
    del wire["name"]
    if not least_change.stopped:
        del wire["stopped"]
    for change_wire in wire["ways"]:
        del change_wire["changes"]
        if change_wire["way"] != "move":
            del change_wire["nodes"]
        if not change_wire["counted"]:
            del change_wire["counted"]
    return wire
