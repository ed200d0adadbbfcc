"""The extension points: one Protocol each. A plugin declares the points that it implements (`framework.declaration`).

A plugin is constructed once per cycle with its arguments and a `CycleView`. It keeps no state between cycles, calls no
other plugin and writes to no array. The pipeline catches what a plugin raises, and checks its answers. A new point
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
from tierwise.framework.search_budget import SearchBudget
from tierwise.model.arrays import Bools, Floats, Ints, Rows, Why, seal
from tierwise.model.job import Job, PodSet, SubJob, Task
from tierwise.model.node import NodeTable
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason, ReasonBook
from tierwise.model.resources import Axis
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology

if TYPE_CHECKING:
    from tierwise.port import Prepare

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
    "EvictionCosts",
    "Factory",
    "GangCheck",
    "Gate",
    "GatherOption",
    "Gathering",
    "GlobalQueue",
    "Gradients",
    "JobOrder",
    "LeafScorer",
    "Lending",
    "LoneVictimFilter",
    "MovingFilter",
    "NodeFigures",
    "NodeScorer",
    "OrderFreeFilter",
    "Overuse",
    "OwnRowFilter",
    "PreBind",
    "Preemptor",
    "Preparation",
    "Proposal",
    "Proposer",
    "Purpose",
    "QueueOrder",
    "Quota",
    "ReclaimGate",
    "RoomFilter",
    "RowScorer",
    "ScoreEffect",
    "SearchSpace",
    "Sharing",
    "Starving",
    "StaticFilter",
    "SubJobOrder",
    "TaskOrder",
    "Tie",
    "TyingFilter",
    "Units",
    "VictimFilter",
    "VictimQueueOrder",
    "VictimSelector",
]

Arguments = Mapping[str, object]
Gradients = Iterable[Ints]
"""Groups of candidate domains, none of them empty; a group is tried only if no earlier group had a solution."""


class CycleView(msgspec.Struct, frozen=True):
    """What a plugin sees of a cycle. Of the ledger plugins of other packages can but read (`ShownLedger`)."""

    axis: Axis
    nodes: NodeTable
    topology: Topology
    jobs: tuple[Job, ...]
    queues: dict[str, Queue]
    snapshot: Snapshot
    ledger: Ledger
    reasons: ReasonBook
    budget: SearchBudget = SearchBudget()


class Ask(msgspec.Struct, frozen=True):
    """What is being placed: tasks of one shape, for one sub-job of one job."""

    shape: Shape
    sub: SubJob
    job: Job
    distance_decided: bool = False  # the caller has chosen the nearest domain; only nodes inside it are scored


class ScoreEffect(enum.IntEnum):
    """Which nodes' scores change when a task is placed on a node; determines which placement kernel is exact."""

    FIXED = 0  # no node's score changes
    ROW = 1  # the score of that node rises, no other changes
    DOMAIN = 2  # all nodes of its innermost domain rise alike, and no other more: see LeafScorer
    SPAN = 3  # the score of that node rises at least as much as any other's
    FREE = 4  # any score may rise or fall


class StaticFilter(Protocol):
    """Which nodes cannot run tasks of a shape, and why; independent of what is placed in this cycle."""

    def why_not(self, shape: Shape) -> Why: ...


class MovingFilter(Protocol):
    """A filter whose answer changes as tasks are placed; asked only for shapes that it concerns."""

    def concerns(self, shape: Shape) -> bool: ...

    def why_not_now(self, shape: Shape, span: slice) -> Why: ...


class OwnRowFilter(Protocol):
    """A moving filter that knows shapes for which a task changes its answer on the task's own row alone.

    There it may turn from yes to no, as it does where a node is full, and never back.
    """

    def own_row(self, shape: Shape) -> bool: ...


class RoomFilter(Protocol):
    """A filter that moves on a task's own row alone, and knows shapes of which it can say how many each node takes."""

    def room(self, shape: Shape) -> Ints | None: ...  # by row, as things are now; None: only asking tells


class OrderFreeFilter(Protocol):
    """A moving filter that knows shapes of which as many tasks find a node, whichever nodes the first of them get.

    Where tasks are tied to the first of them, that is meant of every place by itself.
    """

    def order_free(self, shape: Shape) -> bool: ...


class Tie(msgspec.Struct, frozen=True):
    """Tasks of a shape go where one of some shapes stands, and none of these stands anywhere yet."""

    places: Ints  # by row, a number that rows of one place share; -1: no place
    founders: frozenset[int]  # the numbers of the shapes, maybe its own, of which the first decides the place


class TyingFilter(Protocol):
    """A moving filter by which a first task may decide where others go, as required pod affinity does."""

    def ties(self, shape: Shape) -> tuple[Tie, ...]: ...  # as things are now


class Sharing(Protocol):
    """Says of jobs that their tasks share what is made where the first of them stands, as a volume is in its zone."""

    def shared_places(self, job: Job) -> Ints | None: ...  # by row, a number that rows of one place share; -1: none


class NodeScorer(Protocol):
    """Scores the nodes of a span for the next task; higher is better. `fits` says which of them can run it at all."""

    def effect(self, ask: Ask) -> ScoreEffect: ...

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats: ...

    def stale(self, ask: Ask, row: int) -> slice: ...  # rows whose score may change once a task is placed on `row`


class RowScorer(Protocol):
    """A node scorer that knows tasks for which the score of a node depends on that node alone, and what stands there.

    So scores can be kept while tasks of whatever shape are placed, and made anew on the rows that changed. What
    `effect` says then holds for tasks of any shape.
    """

    def score_rows(self, ask: Ask, rows: Rows) -> Floats | None: ...  # the same as `score` there; None: it depends


class LeafScorer(Protocol):
    """A node scorer that knows tasks for which all nodes of an innermost domain have the same score.

    Its scores are added up behind those of all other plugins; a RowScorer that is one, too, is asked for domains alone.
    Where its effect is DOMAIN, nodes of one domain are filled together.
    """

    def score_leaves(self, ask: Ask) -> Floats | None: ...  # of every domain, as for a node that it is the innermost of


class DomainScorer(Protocol):
    """Scores candidate domains for a sub-job; higher is better.

    With `copies`, the sum of the scores of that many equal sub-jobs, placed in the domain one after the other.
    """

    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats: ...


class SearchSpace(Protocol):
    """Where a gang may be placed: the highest tier allowed, and the candidate domains in the order of trial.

    With `evicting`, the domains that could hold the gang if they were empty, instead of those with free capacity.
    A gang's limit stays the same throughout a cycle, and is asked for once.
    """

    def limit(self, gang: Job | SubJob) -> int | None: ...  # None: no limit

    def gradients(self, gang: Job | SubJob, within: int, *, evicting: bool = False) -> Gradients: ...


class Units(msgspec.Struct, frozen=True):
    """What is to be divided among domains: `count` interchangeable units of `size` tasks each.

    `own` is how many units the rows directly in each domain (not in a child) hold, `held` the sum over everything
    below; both are 0 for domains that the units' limit forbids. With `shape` None the tasks have several shapes and
    both are estimates: a domain may hold less, so only the proposed domain is used, not the division.
    """

    shape: Shape | None
    count: int
    size: int
    own: Ints
    held: Ints


class Proposal(msgspec.Struct, frozen=True):
    """A recommended candidate domain, and how many units are placed directly in which domains below it."""

    domain: int
    pieces: Ints  # in the order of their rows
    counts: Ints  # they add up to the units
    plugin: str
    why: str  # the objective, and how thoroughly it was optimised


class Abstained(msgspec.Struct, frozen=True):
    """A proposer could have recommended a domain and did not; with the reason."""

    plugin: str
    why: str


class Proposer(Protocol):
    """Recommends one of the candidates of a gradient that hold all units now, and a division; None if there is none.

    A recommendation is tried before everything else. If it fails the ordinary search continues, so a wrong one does no
    harm.
    """

    def propose(self, units: Units, candidates: Ints) -> Proposal | Abstained | None: ...


class GatherOption(msgspec.Struct, frozen=True):
    """One way to gather tasks: all in one domain of a tier, or on one node for tier 0."""

    tier: int
    multiples: tuple[tuple[int, int], ...] = ()  # (tier, number): domains of the tier take multiples of the number
    compare: tuple[int, ...] = ()  # tiers whose domains are compared for candidates of equal capacity
    pipeline: int = 1  # this many consecutive ranks stay together where possible
    by_name: bool = False  # domains are filled by name, not the largest first


class Gathering(Protocol):
    """The options for gathering a number of tasks of a job, best first; none if the job is not gathered."""

    def gather_options(self, job: Job, count: int) -> tuple[GatherOption, ...]: ...


class QueueOrder(Protocol):
    """Sort key of queues; the smallest is served first."""

    def queue_key(self, queue: Queue) -> tuple[float, ...]: ...


class JobOrder(Protocol):
    """Sort key of jobs inside a queue; the smallest is served first."""

    def job_key(self, job: Job) -> tuple[float, ...]: ...


class SubJobOrder(Protocol):
    """Sort key of sub-jobs inside a job."""

    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]: ...


class TaskOrder(Protocol):
    """Sort key of a sub-job's pod sets."""

    def task_key(self, pod_set: PodSet) -> tuple[float, ...]: ...


class Gate(Protocol):
    """Why a job must not be tried in this cycle; None if it may."""

    def admit(self, job: Job) -> Reason | None: ...


class EnqueueGate(Protocol):
    """Why a podGroup must not leave phase Pending; None if it may."""

    def may_enqueue(self, job: Job) -> Reason | None: ...


class EnqueuePermit(Protocol):
    """Whether a job is admitted regardless of objections in later tiers, because it has waited long enough."""

    def must_enqueue(self, job: Job) -> bool: ...


class Purpose(enum.Enum):
    """Why tasks are evicted."""

    PREEMPT = "preempt"  # for a more important job of the same queue
    RECLAIM = "reclaim"  # for a queue that has less than it deserves


class Preemptor(msgspec.Struct, frozen=True):
    """The job for which tasks would be evicted, and what it needs."""

    purpose: Purpose
    job: Job
    need: Ints  # what the job lacks, per resource
    gang: bool  # evict for a whole gang; False: single tasks for a single task
    running: RunningTable
    across: bool = False  # preempts in all queues, not only in its own
    by_pod: bool = False  # evict pod by pod, by pod priority, regardless of gangs
    short: Bools | None = None  # the resources that are short; None if unknown
    losses: Floats | None = None  # per running task: the work it would lose, in shares of the need and of the gain

    def __post_init__(self) -> None:
        seal(self.need, self.short, self.losses)

    @property
    def weighed(self) -> Ints:
        """The resources in which gains and costs are counted: those that are needed and short."""
        needed = self.need > 0
        short = needed & self.short if self.short is not None else needed
        result: Ints = np.flatnonzero(short if short.any() else needed)
        return result


class VictimFilter(Protocol):
    """Which candidates must not be evicted. Every filter has a veto, regardless of its position in the profile.

    `victims` are indices into the running table, in the order of eviction. A filter that limits the number of victims
    sets `counts` and is asked last, about the candidates that no other filter protects. `answers` are the purposes for
    which it names victims, as Volcano's plugins register for Preemptable and Reclaimable: if no filter answers, nothing
    is evicted. A filter that only protects pods answers for no purpose.
    """

    answers: frozenset[Purpose]
    counts: bool

    def spare(self, preemptor: Preemptor, victims: Ints) -> Bools: ...


class LoneVictimFilter(Protocol):
    """Which candidates a filter that counts protects even if nobody else is evicted.

    Asked about all candidates at once, each by itself, to know early where too few can go. Whoever is protected here is
    protected by `spare` whoever else is asked about; a filter that cannot tell takes no part.
    """

    def spare_alone(self, preemptor: Preemptor, victims: Ints) -> Bools: ...


class Quota(Protocol):
    """Why a job's queue may not use more; None if it may."""

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None: ...


class GlobalQueue(Protocol):
    """Whether the jobs of all queues are ordered together instead of queue by queue."""

    def global_queue(self) -> bool: ...


class Debt(msgspec.Struct, frozen=True):
    """What a queue holds beyond its share, as amounts and as text."""

    queue: str
    over: Ints  # per resource; zero or negative where nothing is owed
    text: str
    due: bool  # it must be returned now


class Lending(Protocol):
    """Which queues hold more than their share of lent resources, and which pods are evicted to return it."""

    def debts(self) -> Iterable[Debt]: ...

    def paid_with(self, debt: Debt, running: RunningTable) -> Ints: ...  # positions in the running table


class Entitlement(Protocol):
    """What queues are entitled to; used for output only, never by an action."""

    def entitled(self) -> Ints: ...  # (resources x queues), queues as the ledger has them; 2**60 and more is no limit


class Overuse(Protocol):
    """Why a queue is not served any more in this cycle; None if it is."""

    def overused(self, queue: Queue) -> Reason | None: ...


class ReclaimGate(Protocol):
    """Why a job may not reclaim from other queues; None if it may."""

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None: ...


class VictimQueueOrder(Protocol):
    """Sort key of victims' queues, given the reclaiming queue; the smallest loses first."""

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]: ...


class GangCheck(Protocol):
    """Why a gang can never fit, whatever is evicted; None if it might."""

    def never_fits(self, job: Job, need: Ints) -> Reason | None: ...


class Delay(msgspec.Struct, frozen=True):
    """Why a gang does not take a place that was found for it, and until when."""

    reason: Reason
    until: float


class Delaying(Protocol):
    """Whether a gang should wait instead of using these rows; None if it should use them."""

    def defer(self, job: Job, rows: Ints) -> Delay | None: ...


class VictimSelector(Protocol):
    """Selects bundles of a domain instead of the built-in order; None to use the built-in order."""

    def select_victims(
        self, preemptor: Preemptor, bundles: Bundles
    ) -> Ints | None: ...  # positions, in the order of eviction


class EvictionCosts(Protocol):
    """What evictions cost and bring, in seconds of work, and how long victims are told before.

    Plans that lose more than they gain are declined where `declines` says so.
    """

    def lost_seconds(self, running: RunningTable, victims: Ints) -> Floats: ...

    def gained_seconds(self, job: Job) -> float: ...

    def notice_seconds(self, job: Job) -> float: ...

    def declines(self, job: Job) -> bool: ...


class Starving(Protocol):
    """Whether a job still lacks tasks that it may evict for."""

    def starving(self, job: Job) -> bool: ...


class Complaints(Protocol):
    """Which requests of tasks it cannot satisfy, and why; reported to users, and the cycle goes on."""

    def complaints(self) -> Iterable[tuple[Task, Reason]]: ...


class Preparation(msgspec.Struct, frozen=True):
    """What must happen between finding a place for a task and binding it."""

    writes: tuple[Prepare, ...] = ()  # to be written first
    waits: Reason | None = None  # for another component; the task is nominated until then
    until: float | None = None  # the deadline of the wait; None for none
    failed: Reason | None = None  # it failed: all writes for the gang are undone
    undo: tuple[Prepare, ...] = ()  # undoes writes of this or an earlier cycle


class PreBind(Protocol):
    """What must be written, and waited for, before a task is bound to a row; None if nothing.

    Asked once for each task at the end of a cycle. Also asked with row -1 for a task with claims that has lost its
    place; then only `undo` of the answer is used.
    """

    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None: ...


class NodeFigures(Protocol):
    """The inputs of a node's answer and score for the next task, for `explain`; one entry per row."""

    def figures(self, ask: Ask) -> Sequence[Mapping[str, object]]: ...


Factory = Callable[[Arguments, CycleView], object]
