"""The extension points: one Protocol each. A plugin declares the points that it implements (`framework.declaration`).

A plugin is constructed once per cycle with its arguments and a `CycleView`. It keeps no state between cycles, calls no
other plugin and writes to no array. The pipeline catches what a plugin raises, and checks its answers. A new point
needs a decision record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
import numpy as np

from tierwise.config.efficiency import ALIKE
from tierwise.config.searches import SearchBudget
from tierwise.framework.ledger import Ledger
from tierwise.framework.pod_rules import PodRules
from tierwise.framework.protection import Protection
from tierwise.model.arrays import Axis, Bools, Floats, Ints, Rows, Why, seal
from tierwise.model.job import Job, PodSet, Queue, Reason, ReasonBook, Shape, SubJob, Task
from tierwise.model.node import NodeTable
from tierwise.model.running import RunningTable
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology

if TYPE_CHECKING:
    from tierwise.framework.bundle import Bundles
    from tierwise.framework.room_ahead import RoomAhead
    from tierwise.framework.usage import FairUsage
    from tierwise.port import Prepare

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "MOVED",
    "SEAM",
    "Abstained",
    "Arguments",
    "Ask",
    "CycleView",
    "Debt",
    "Delay",
    "Delaying",
    "DomainScorer",
    "EnqueueGate",
    "EvictionCosts",
    "Factory",
    "Filter",
    "Foresight",
    "Gate",
    "GatherOption",
    "Gradients",
    "JobOrder",
    "Lending",
    "Mark",
    "Part",
    "PreBind",
    "Preemptor",
    "Preparation",
    "Proposal",
    "Proposer",
    "Purpose",
    "QueueOrder",
    "Quota",
    "Reporter",
    "ScoreEffect",
    "Scorer",
    "SearchSpace",
    "Starving",
    "SubJobOrder",
    "TaskOrder",
    "Tie",
    "Units",
    "VictimFilter",
    "VictimSelector",
    "moved",
]

SEAM: Final = 2
"""The version of the seam between tierwise and plugins: the points, their methods, and how they are declared."""

MOVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("StaticFilter", "MovingFilter", "OwnRowFilter", "RoomFilter", "OrderFreeFilter"), "Filter"),
    **dict.fromkeys(("TyingFilter", "Sharing"), "Filter"),
    **dict.fromkeys(("NodeScorer", "RowScorer", "LeafScorer"), "Scorer"),
    **dict.fromkeys(("VictimQueueOrder", "GlobalQueue"), "QueueOrder"),
    **dict.fromkeys(("Overuse", "ReclaimGate"), "Quota"),
    **dict.fromkeys(("Complaints", "Entitlement", "NodeFigures"), "Reporter"),
    "EnqueuePermit": "EnqueueGate",
    **dict.fromkeys(("GangCheck", "Gathering"), "SearchSpace"),
    "LoneVictimFilter": "VictimFilter",
}
"""Points of version 1 of the seam, and the point that each is part of now."""


RENAMED: Final[Mapping[str, str]] = {"spare": "protect", "spare_alone": "protect_alone"}
"""Methods of version 1 that have another name now; all others kept theirs."""


MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        [f"tierwise.model.{name}" for name in ("gather", "queue", "reason", "shape")], "tierwise.model.job"
    ),
    "tierwise.model.resources": "tierwise.model.arrays",
}
"""Modules of version 1, and those that have their names now."""


def moved(name: str) -> str:
    """What the author of a plugin of version 1 of the seam is told about a point; "" for any other name."""
    new_point = MOVED.get(name)
    if new_point:
        return f"{name} is part of {new_point} since version {SEAM} of the plugin seam: declare {new_point}"
    return ""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        moved_text = moved(name)
        raise ImportError(f"{moved_text}; nearly all methods keep their names") if moved_text else AttributeError(name)


class Part(enum.Enum):
    """How a method takes part in its point."""

    REQUIRED = "required"
    EITHER = "one of these"  # of those of a point at least one
    OPTIONAL = "optional"
    HINT = "hint"  # saves time: without it everything is decided alike


REQUIRED, EITHER, OPTIONAL, HINT = Part


class Mark(msgspec.Struct, frozen=True):
    """What is said of a method of a point."""

    part: Part
    switches: tuple[str, ...]  # by which a profile disables it, as Volcano spells them behind `enable`
    beside: str  # the method that must be there, too; of a hint, the answer that it describes


def marked(part: Part, *switches: str, beside: str = "") -> Callable[[F], F]:
    """Mark a method of a point."""

    def mark(method: F) -> F:
        method.__dict__["mark"] = Mark(part, switches, beside)
        return method

    return mark


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
    ahead: RoomAhead  # what runs ends as expected
    budget: SearchBudget = SearchBudget()
    reserves: bool = False  # jobs that wait are given places in the future
    usage: FairUsage | None = None  # what everybody has used; None where the profile remembers nothing


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
    DOMAIN = 2  # all nodes of its innermost domain rise alike, and no other more: see `Scorer.score_leaves`
    SPAN = 3  # the score of that node rises at least as much as any other's
    FREE = 4  # any score may rise or fall


class Tie(msgspec.Struct, frozen=True):
    """Tasks of a shape go where a task of some shapes runs, and none of these runs anywhere yet."""

    places: Ints  # by row, a number that rows of one place share; -1: no place
    founders: frozenset[int]  # the numbers of the shapes, maybe its own, of which the first decides the place


class Filter(Protocol):
    """Which nodes cannot run tasks of a shape, and why.

    `why_not` is independent of what is placed in this cycle; `why_not_now` is asked again as tasks are placed, of the
    shapes that concern the filter, which stay the same throughout a cycle.

    Why it exists: what keeps a task from a node is for every site to say (taints, volumes, devices, maintenance).
    """

    @marked(EITHER, "Predicate")
    def why_not(self, shape: Shape) -> Why: ...

    @marked(EITHER, "Predicate", beside="concerns")
    def why_not_now(self, shape: Shape, span: slice) -> Why: ...

    @marked(OPTIONAL, "Predicate", beside="why_not_now")
    def concerns(self, shape: Shape) -> bool: ...

    @marked(OPTIONAL, "Predicate", beside="why_not_now")
    def own_row(self, shape: Shape) -> bool:
        """Whether a task changes `why_not_now` on its own row alone, from yes to no and never back."""

    @marked(OPTIONAL, "Predicate", beside="why_not_now")
    def order_free(self, shape: Shape) -> bool:
        """Whether as many tasks find a node, whichever nodes the first of them get.

        Where tasks are tied to the first of them, that is meant of every place by itself.
        """

    @marked(OPTIONAL, "Predicate", beside="why_not_now")
    def ties(self, shape: Shape) -> tuple[Tie, ...]:
        """Where a first task decides where others go, as required pod affinity does; as things are now."""

    @marked(HINT, "Predicate", beside="why_not_now")
    def room(self, shape: Shape) -> Ints | None:
        """How many more tasks `why_not_now` lets on each row now, where tasks change their own row; None: ask."""

    @marked(OPTIONAL, "Predicate", beside="why_not_now")
    def pod_rules(self, shapes: tuple[Shape, ...]) -> PodRules | None:
        """What tasks of these shapes of one gang change for each other, as things are now; None: it is not known.

        Said of final states: tasks that keep to the records can stand together.
        """

    @marked(EITHER, "Predicate")
    def shared_places(self, job: Job) -> Ints | None:
        """By row, a number that rows of one place share, -1 for none, where the tasks of a job had better stand in one.

        They share what is made where the first of them runs, as a volume is in its zone. None: nothing is shared.
        """


class Scorer(Protocol):
    """Scores the nodes of a span for the next task; higher is better. `fits` says which of them can run it at all.

    Why it exists: which of the nodes that can run a task is best is a site's own measure.
    """

    @marked(REQUIRED, "NodeOrder")
    def effect(self, ask: Ask) -> ScoreEffect: ...

    @marked(REQUIRED, "NodeOrder")
    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats | None:
        """One for each node of the span; None: all the same, which adds nothing."""

    @marked(REQUIRED, "NodeOrder")
    def stale(self, ask: Ask, row: int) -> slice:
        """The rows whose score may change once a task is placed on `row`."""

    @marked(HINT, "NodeOrder", beside="score")
    def score_rows(self, ask: Ask, rows: Rows) -> Floats | float | None:
        """Scores of these rows, if the score of a node depends on that node and what runs there alone.

        So scores are kept while tasks of whatever shape are placed. What `effect` says then holds for tasks of any
        shape. One number where all nodes score the same. None: it depends on more.
        """

    @marked(HINT, "NodeOrder", beside="score")
    def score_leaves(self, ask: Ask) -> Floats | None:
        """Scores by innermost domain, if all nodes of each have one score; None if they have not.

        These scores are added up behind those of all other plugins, and `score_rows` is not asked. Where the effect is
        DOMAIN, nodes of one domain are filled together.
        """


class DomainScorer(Protocol):
    """Scores candidate domains for a sub-job; higher is better.

    With `copies`, the sum of the scores of that many equal sub-jobs, placed in the domain one after the other.

    Why it exists: a site's own measure of hyperNodes (power, age, price) is no sum over their nodes.
    """

    @marked(REQUIRED, "HyperNodeOrder")
    def score_domains(self, sub: SubJob, domains: Ints, copies: Ints | None = None) -> Floats: ...


class GatherOption(msgspec.Struct, frozen=True):
    """One way to gather tasks: all in one domain of a tier, or on one node for tier 0."""

    tier: int
    multiples: tuple[tuple[int, int], ...] = ()  # (tier, number): domains of the tier take multiples of the number
    compare: tuple[int, ...] = ()  # tiers whose domains are compared for candidates of equal capacity
    pipeline: int = 1  # this many consecutive ranks stay together where possible
    by_name: bool = False  # domains are filled by name, not the largest first


class SearchSpace(Protocol):
    """Where a gang may be placed: the highest tier allowed, and the candidate domains in the order of trial.

    With `evicting`, the domains that could hold the gang if they were empty, instead of those with free capacity.
    A gang's limit stays the same throughout a cycle, and is asked for once.

    Why it exists: constraints of topology come in several languages, and each plugin reads its own.
    """

    @marked(EITHER, "HyperNodeGradient", beside="gradients")
    def limit(self, gang: Job | SubJob) -> int | None: ...  # None: no limit

    @marked(OPTIONAL, "HyperNodeGradient", beside="limit")
    def gradients(self, gang: Job | SubJob, within: int, *, evicting: bool = False) -> Gradients: ...

    @marked(EITHER, "Predicate")
    def never_fits(self, job: Job, need: Ints) -> Reason | None:
        """Why a gang can never fit, whatever is evicted; None if it might."""

    @marked(EITHER, "HyperNodeGradient")
    def gather_options(self, job: Job, count: int) -> tuple[GatherOption, ...]:
        """The options for gathering a number of tasks of a job, best first; none if the job is not gathered."""


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

    Why it exists: an optimiser can be replaced, and left out at no cost.
    """

    @marked(REQUIRED, "HyperNodeProposal")
    def propose(self, units: Units, candidates: Ints) -> Proposal | Abstained | None: ...


class QueueOrder(Protocol):
    """Sort keys of queues: the smallest is served first, or loses first where a queue reclaims.

    Why it exists: shares of queues are counted in several ways, and Volcano's profiles switch them.
    """

    @marked(EITHER, "QueueOrder")
    def queue_key(self, queue: Queue) -> tuple[float, ...]: ...

    @marked(EITHER, "VictimQueueOrder")
    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]: ...

    @marked(EITHER, "QueueOrder")
    def global_queue(self) -> bool:
        """Whether the jobs of all queues are ordered together instead of queue by queue."""


class JobOrder(Protocol):
    """Sort key of jobs inside a queue; the smallest is served first.

    Why it exists: which job goes first is the policy that sites change most; Volcano's profiles switch it.
    """

    @marked(REQUIRED, "JobOrder")
    def job_key(self, job: Job) -> tuple[float, ...]: ...


class SubJobOrder(Protocol):
    """Sort key of sub-jobs inside a job.

    Why it exists: Volcano's profiles switch the order of sub-jobs by itself.
    """

    @marked(REQUIRED, "SubJobOrder")
    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]: ...


class TaskOrder(Protocol):
    """Sort key of a sub-job's pod sets.

    Why it exists: Volcano's profiles switch the order of tasks by itself.
    """

    @marked(REQUIRED, "TaskOrder")
    def task_key(self, pod_set: PodSet) -> tuple[float, ...]: ...


class Gate(Protocol):
    """Why a job must not be tried in this cycle; None if it may.

    Why it exists: what a job waits for besides room (pods, claims, a pause) is known by the plugin that reads it.
    """

    @marked(REQUIRED, "JobValid")
    def admit(self, job: Job) -> Reason | None: ...


class EnqueueGate(Protocol):
    """Why a podGroup must not leave phase Pending; None if it may.

    Why it exists: Volcano's JobEnqueueable has three answers, no, yes and yes regardless of others.
    """

    @marked(EITHER, "JobEnqueued")
    def may_enqueue(self, job: Job) -> Reason | None: ...

    @marked(EITHER, "JobEnqueued")
    def must_enqueue(self, job: Job) -> bool:
        """Whether a job is admitted regardless of objections in later tiers, because it has waited long enough."""


class Purpose(enum.Enum):
    """Why tasks are evicted."""

    PREEMPT = "preempt"  # for a more important job of the same queue
    RECLAIM = "reclaim"  # for a queue that has less than it deserves


class Preemptor(msgspec.Struct, frozen=True, dict=True):
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
    protection: Protection | None = None  # what ends the protection of running tasks; None where nothing does
    alike: float = ALIKE  # differences in efficiency below this count as none

    def __post_init__(self) -> None:
        seal(self.need, self.short, self.losses)

    @cached_property
    def weighed(self) -> Ints:
        """The resources in which gains and costs are counted: those that are needed and short."""
        needed = self.need > 0
        short = needed & self.short if self.short is not None else needed
        result: Ints = np.flatnonzero(short if short.any() else needed)
        return result

    @cached_property
    def stays(self) -> Bools:
        """Running tasks that their mark protects from this preemptor, even if no other task is evicted."""
        marked = self.running.not_preemptable
        if self.protection is None:
            return marked
        result: Bools = marked & ~self.protection.ended_alone(self.running)
        return result


class VictimFilter(Protocol):
    """Which candidates must not be evicted. Every filter has a veto, regardless of its position in the profile.

    `victims` are indices into the running table, in the order of eviction. A filter that limits the number of victims
    sets `counts` and is asked last, about the candidates that no other filter protects. `answers` are the purposes for
    which it names victims, as Volcano's plugins register for Preemptable and Reclaimable: if no filter answers, nothing
    is evicted. A filter that only protects pods answers for no purpose.

    Why it exists: who must not be evicted is said by what protects it (gangs, budgets, shares, a site).
    """

    answers: frozenset[Purpose]
    counts: bool

    @marked(REQUIRED, "Preemptable", "Reclaimable")
    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools: ...

    @marked(OPTIONAL, "Preemptable", "Reclaimable", beside="protect")
    def protect_alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates a filter that counts protects even if no other task is evicted.

        Asked about all candidates at once, each by itself: whoever is protected here is protected by `protect` whoever
        else is asked about, and uses up nothing that others are protected by.
        """

    @marked(HINT, "Preemptable", "Reclaimable", beside="protect")
    def protect_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        """Which victims must stay, where those of one bundle (numbers in ascending order) go together or not at all.

        A bundle of which one must stay uses up nothing. Without this method the victims are asked about again for each
        such bundle.
        """


class Quota(Protocol):
    """Why a queue gets no more: for a job and these amounts, in this cycle, or from other queues; None if it may.

    Why it exists: quotas are kept by several plugins, each with its own books.
    """

    @marked(EITHER, "Allocatable")
    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None: ...

    @marked(EITHER, "Overused")
    def overused(self, queue: Queue) -> Reason | None: ...

    @marked(EITHER, "Preemptive")
    def may_reclaim(self, job: Job, need: Ints) -> Reason | None: ...

    @marked(OPTIONAL, "Reclaimable", beside="quota_exceeded")
    def protects_up_to(self) -> Ints:
        """Up to which amounts budgets and marks protect what queues hold from other tenants.

        (resources x queues) as the ledger has them. -1 means that the queue says nothing of the resource; 2**60 and
        more has no end. Without this method they protect whatever a queue holds.
        """


class Debt(msgspec.Struct, frozen=True):
    """What a queue holds beyond its share, as amounts and as text."""

    queue: str
    over: Ints  # per resource; zero or negative where nothing is owed
    text: str
    due: bool  # it must be returned now


class Lending(Protocol):
    """Which queues hold more than their share of lent resources, and which pods are evicted to return it.

    Why it exists: who owes what is a plugin's own account, and `giveback` asks for it.
    """

    @marked(REQUIRED, "Reclaimable")
    def debts(self) -> Iterable[Debt]: ...

    @marked(REQUIRED, "Reclaimable")
    def paid_with(self, debt: Debt, running: RunningTable) -> Ints: ...  # positions in the running table


class Foresight(Protocol):
    """How much room domains are expected to have while a gang runs: the least of it is used first.

    Why it exists: what a place takes from later gangs depends on what ends when, which a score of now does not know.
    """

    @marked(REQUIRED, "HyperNodeOrder")
    def room_ahead(self, ask: Ask, room: Ints, open_rows: Bools) -> Floats | None:
        """By domain, in tasks of this shape, as a mean over the run; None: as now.

        Given the room of now, by domain, and which rows take such tasks at all.
        """


class Delay(msgspec.Struct, frozen=True):
    """Why a gang does not take a place that was found for it, and until when."""

    reason: Reason
    until: float
    firm: bool = False  # whether no place before that would do, either
    keeps: bool = False  # whether the place stays the gang's own until then


class Delaying(Protocol):
    """Whether a gang should wait instead of using these rows; None if it should use them.

    Why it exists: a place that was found may be worse than one that is free soon.
    """

    @marked(REQUIRED, "JobReady")
    def defer(self, job: Job, rows: Ints) -> Delay | None: ...


class VictimSelector(Protocol):
    """Selects bundles of a domain instead of the built-in order; None to use the built-in order.

    Why it exists: which gangs go first is a site's policy.
    """

    @marked(REQUIRED, "Victim")
    def select_victims(
        self, preemptor: Preemptor, bundles: Bundles
    ) -> Ints | None: ...  # positions, in the order of eviction


class EvictionCosts(Protocol):
    """What evictions cost and bring, in seconds of work, and how long victims are told before.

    Plans that lose more than they gain are declined where `declines` says so.

    Why it exists: what work is lost with a pod is known by whoever reads its checkpoints.
    """

    @marked(REQUIRED, "Victim")
    def lost_seconds(self, running: RunningTable, victims: Ints) -> Floats: ...

    @marked(REQUIRED, "Victim")
    def gained_seconds(self, job: Job) -> float: ...

    @marked(REQUIRED, "Victim")
    def notice_seconds(self, job: Job) -> float: ...

    @marked(REQUIRED, "Victim")
    def declines(self, job: Job) -> bool: ...


class Starving(Protocol):
    """Whether a job still lacks tasks that it may evict for.

    Why it exists: Volcano's profiles switch which jobs evicting actions look at.
    """

    @marked(REQUIRED, "JobStarving")
    def starving(self, job: Job) -> bool: ...


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

    Why it exists: claims of volumes and devices are written before pods are bound.
    """

    @marked(REQUIRED, "Predicate")
    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None: ...


class Reporter(Protocol):
    """What a plugin tells people; no action asks it, and a failure changes no decision.

    Why it exists: only the plugin knows what its numbers are made of.
    """

    @marked(EITHER, "JobValid")
    def complaints(self) -> Iterable[tuple[Task, Reason]]:
        """Which requests of tasks it cannot satisfy, and why."""

    @marked(EITHER, "NodeOrder")
    def figures(self, ask: Ask) -> Sequence[Mapping[str, object]]:
        """The inputs of a node's answer and score for the next task, for `explain`; one entry per row."""

    @marked(EITHER, "QueueOrder")
    def entitled(self) -> Ints:
        """What queues are entitled to, (resources x queues) as the ledger has them; 2**60 and more is no limit."""


Factory = Callable[[Arguments, CycleView], object]
