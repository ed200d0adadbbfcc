"""The extension points: one Protocol each. A plugin declares which it takes part in (`framework.declaration`).

A plugin is constructed once per cycle with its arguments and a `CycleView`; it keeps no state between cycles,
calls no other plugin, writes no array. What a plugin raises, or answers wrongly, ends at the pipeline. A new point
needs a decision record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from tierwise.framework.bundle import Bundles
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Job, PodSet, SubJob, Task
from tierwise.model.node import NodeTable
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason, ReasonBook
from tierwise.model.resources import Axis
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology
from tierwise.port import Prepare

if TYPE_CHECKING:
    from tierwise.framework.gathering import GatherOption

__all__ = [
    "Abstained",
    "Arguments",
    "Ask",
    "Complaints",
    "CycleView",
    "Debt",
    "Delay",
    "Delaying",
    "DomainScorer",
    "EnqueueGate",
    "EnqueuePermit",
    "Entitlement",
    "Factory",
    "GangCheck",
    "Gate",
    "Gathering",
    "GlobalQueue",
    "Gradients",
    "JobOrder",
    "Lending",
    "MovingFilter",
    "NodeFigures",
    "NodeScorer",
    "Overuse",
    "PreBind",
    "Preemptor",
    "Preparation",
    "Proposal",
    "Proposer",
    "Purpose",
    "QueueOrder",
    "Quota",
    "ReclaimGate",
    "ScoreEffect",
    "SearchSpace",
    "Starving",
    "StaticFilter",
    "SubJobOrder",
    "TaskOrder",
    "Units",
    "VictimFilter",
    "VictimQueueOrder",
    "VictimSelector",
]

Arguments = Mapping[str, object]
Gradients = Iterable[Ints]
"""Groups of candidate domains, none of them empty; a group is tried only if none before it had a solution."""


class CycleView(msgspec.Struct, frozen=True):
    """What a plugin sees: eight nouns, no verbs. The ledger is for reading."""

    axis: Axis
    nodes: NodeTable
    topology: Topology
    jobs: tuple[Job, ...]
    queues: dict[str, Queue]
    snapshot: Snapshot
    ledger: Ledger
    reasons: ReasonBook


class Ask(msgspec.Struct, frozen=True):
    """What is being placed: tasks of one shape, for one sub-job of one job."""

    shape: Shape
    sub: SubJob
    job: Job
    distance_decided: bool = False  # distance is decided already: the nodes in question are equally near


class ScoreEffect(enum.IntEnum):
    """Which nodes' scores change once a task stands on a node; decides which placing kernel is exact."""

    FIXED = 0  # none
    ROW = 1  # its own, upwards
    SPAN = 2  # its own, upwards, by at least as much as any other node's
    FREE = 3  # any, either way


class StaticFilter(Protocol):
    """Says which nodes cannot take tasks of a shape, whatever else is placed in this cycle, and why."""

    def why_not(self, shape: Shape) -> Why: ...


class MovingFilter(Protocol):
    """The same where the answer changes as tasks are placed; asked only for shapes that it concerns."""

    def concerns(self, shape: Shape) -> bool: ...

    def why_not_now(self, shape: Shape, span: slice) -> Why: ...


class NodeScorer(Protocol):
    """Ranks the nodes of a span for the next task; higher is better. `fits` says which of them can take it at all."""

    def effect(self, ask: Ask) -> ScoreEffect: ...

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats: ...

    def stale(self, ask: Ask, row: int) -> slice: ...  # rows whose score may differ once a task stands on `row`


class DomainScorer(Protocol):
    """Ranks candidate domains for a sub-job; higher is better.

    With `copies`, the sum over that many alike sub-jobs which a domain takes one after the other.
    """

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats: ...


class SearchSpace(Protocol):
    """Says where a gang may be searched for: its highest tier, and the candidates in the order of trial.

    `evicting` asks for the domains that could hold the gang if they were cleared, not for those with room.
    """

    def limit(self, gang: Job | SubJob) -> int | None: ...  # None: no limit

    def gradients(self, gang: Job | SubJob, within: int, *, evicting: bool = False) -> Gradients: ...


class Units(msgspec.Struct, frozen=True):
    """What is to be split over domains: `count` units of `size` tasks each, any of which may go anywhere.

    `own` is how many of them the rows of a domain hold that stand in no domain below it, `held` the sum over all that
    is below; both are 0 where the limit of the units forbids them. With `shape` None the tasks are of several shapes,
    and both are estimates: a domain may hold less, so only the proposed domain counts, not the split.
    """

    shape: Shape | None
    count: int
    size: int
    own: Ints
    held: Ints


class Proposal(msgspec.Struct, frozen=True):
    """A recommendation: one of the candidates, and how many units go to the own rows of which domains below it."""

    domain: int
    pieces: Ints  # in the order of their rows
    counts: Ints  # they add up to the units
    plugin: str
    why: str  # what was aimed at, and how far it was looked into


class Abstained(msgspec.Struct, frozen=True):
    """A proposer that could have said something, and did not."""

    plugin: str
    why: str


class Proposer(Protocol):
    """Recommends one of the candidates of a gradient that hold all units now, and a split; None where none does.

    A recommendation is tried before everything else. Where it does not work out the ordinary search goes on, so
    nothing is lost by a wrong one.
    """

    def propose(self, units: Units, candidates: Ints) -> Proposal | Abstained | None: ...


class Gathering(Protocol):
    """Says in which ways so many tasks of a job are gathered, best first; none where the job does not ask for it."""

    def gather_options(self, job: Job, count: int) -> tuple[GatherOption, ...]: ...


class QueueOrder(Protocol):
    """Sort key of queues; the smallest goes first."""

    def queue_key(self, queue: Queue) -> tuple[float, ...]: ...


class JobOrder(Protocol):
    """Sort key of jobs inside a queue; the smallest goes first."""

    def job_key(self, job: Job) -> tuple[float, ...]: ...


class SubJobOrder(Protocol):
    """Sort key of sub-jobs inside a job."""

    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]: ...


class TaskOrder(Protocol):
    """Sort key of a sub-job's parts."""

    def task_key(self, pod_set: PodSet) -> tuple[float, ...]: ...


class Gate(Protocol):
    """Says why a job must not be tried in this cycle; None lets it pass."""

    def admit(self, job: Job) -> Reason | None: ...


class EnqueueGate(Protocol):
    """Says why a job must not leave phase Pending; None lets it pass."""

    def may_enqueue(self, job: Job) -> Reason | None: ...


class EnqueuePermit(Protocol):
    """Says that a job has waited long enough: later tiers' objections to its entry do not count."""

    def must_enqueue(self, job: Job) -> bool: ...


class Purpose(enum.Enum):
    """Why room is made by evicting."""

    PREEMPT = "preempt"  # for a more important job of the same queue
    RECLAIM = "reclaim"  # for a queue that has less than it deserves


class Preemptor(msgspec.Struct, frozen=True):
    """On whose behalf tasks would be evicted."""

    purpose: Purpose
    job: Job
    need: Ints  # what the job lacks, per resource
    gang: bool  # whole gangs are weighed; False where single tasks make room for a single task
    running: RunningTable
    across: bool = False  # preempts in all queues, not only in its own
    by_pod: bool = False  # tasks fall one by one, each by its own priority, whatever becomes of their gang
    short: Bools | None = None  # the resources that are short where it could go; None where nobody has looked

    @property
    def weighed(self) -> Ints:
        """The resources in which gains and costs are counted: those needed that are short."""
        needed = self.need > 0
        short = needed & self.short if self.short is not None else needed
        result: Ints = np.flatnonzero(short if short.any() else needed)
        return result


class VictimFilter(Protocol):
    """Says which candidates must be spared. Every filter has a veto, whatever its place in the profile.

    `victims` are positions in the running table, in the order in which they would go. A filter that counts
    (how many may go) sets `counts` and is asked last, about those whom no other filter spares.
    `answers` are the purposes for which it names victims, as Volcano's plugins register for Preemptable and
    Reclaimable: where no filter answers nobody goes. A filter that only protects some answers for none.
    """

    answers: frozenset[Purpose]
    counts: bool

    def spare(self, preemptor: Preemptor, victims: Ints) -> Bools: ...


class Quota(Protocol):
    """Says why a job's queue must not be given more; None where it may."""

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None: ...


class GlobalQueue(Protocol):
    """Says whether jobs of all queues wait in one line, each in its own order, instead of queue by queue."""

    def global_queue(self) -> bool: ...


class Debt(msgspec.Struct, frozen=True):
    """What a queue holds that others were promised, in figures and in words."""

    queue: str
    over: Ints  # per resource; not positive where nothing is owed
    text: str
    due: bool  # it must be paid back now


class Lending(Protocol):
    """Says which queues hold more than their share of what they were lent, and who must go for it."""

    def debts(self) -> Iterable[Debt]: ...

    def paid_with(self, debt: Debt, running: RunningTable) -> Ints: ...  # positions in the running table


class Entitlement(Protocol):
    """Knows what queues are entitled to; asked by those who show it, never by an action."""

    def entitled(self) -> Ints: ...  # (resources x queues), queues as the ledger has them; 2**60 and more is no limit


class Overuse(Protocol):
    """Says why a queue gets no turn in this cycle any more; None where it does."""

    def overused(self, queue: Queue) -> Reason | None: ...


class ReclaimGate(Protocol):
    """Says why a job may not take from other queues; None where it may."""

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None: ...


class VictimQueueOrder(Protocol):
    """Sort key of the queues that victims come from, for the queue that takes; the smallest loses first."""

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]: ...


class GangCheck(Protocol):
    """Says why a gang can never fit, whatever is evicted; None where it might."""

    def never_fits(self, job: Job, need: Ints) -> Reason | None: ...


class Delay(msgspec.Struct, frozen=True):
    """Why a gang does not take a place that was found for it, and until when."""

    reason: Reason
    until: float


class Delaying(Protocol):
    """Says whether a gang had better wait than stand on these rows; None where it takes the place."""

    def defer(self, job: Job, rows: Ints) -> Delay | None: ...


class VictimSelector(Protocol):
    """Chooses among the bundles of a domain in place of the built-in order; None where it has no opinion."""

    def select_victims(
        self, preemptor: Preemptor, bundles: Bundles
    ) -> Ints | None: ...  # positions, the first to go first


class Starving(Protocol):
    """Says whether a job still lacks tasks that it may evict for."""

    def starving(self, job: Job) -> bool: ...


class Complaints(Protocol):
    """Says which tasks it cannot serve as they ask for, and why; people are told, and the cycle goes on."""

    def complaints(self) -> Iterable[tuple[Task, Reason]]: ...


class Preparation(msgspec.Struct, frozen=True):
    """What comes between the place that was found for a task and its bind."""

    writes: tuple[Prepare, ...] = ()  # to be made first
    waits: Reason | None = None  # for what somebody else does then; the task is nominated until it is done
    until: float | None = None  # how long it waits at most; None where there is no end to it
    failed: Reason | None = None  # it will not be done: all that was written for the gang is taken back
    undo: tuple[Prepare, ...] = ()  # takes back what was written, now or in an earlier cycle


class PreBind(Protocol):
    """Says what must be written, and waited for, before a task is bound to a row; None where nothing must.

    Asked once for each task at the end of a cycle, when all places are found; with row -1 about a task with claims that
    has no place any more, of whose answer `undo` counts.
    """

    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None: ...


class NodeFigures(Protocol):
    """Says what a node's answer and score for the next task are made of, for people who ask; one entry per row."""

    def figures(self, ask: Ask) -> Sequence[Mapping[str, object]]: ...


Factory = Callable[[Arguments, CycleView], object]
