"""What a cycle decided, and why the other jobs wait: the only output of the core.

Decisions keep tasks beside an array of rows until single pods are needed. Effects, status, events, JSON and the pages
are all made from this report. It contains no wall-clock times, so that equal inputs give equal reports.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Named, Phase, Reason, Rejection, SubJob, Task, namespace_of
from tierwise.model.snapshot import Fault
from tierwise.model.turns import NO_TURNS, Turns

if TYPE_CHECKING:
    from tierwise.api.reservation import ReservationRecord
    from tierwise.framework.extension import Abstained, Delay, Proposal
    from tierwise.model.job import Shape
    from tierwise.port import Key, Prepare

__all__ = [
    "APART",
    "BundleSummary",
    "CycleReport",
    "Decision",
    "Eviction",
    "EvictionAttempt",
    "Notice",
    "PlacedTasks",
    "PluginFailure",
    "ReportBuilder",
    "Reservation",
    "SearchCounts",
    "Term",
    "plugin_faults",
]


class Term(enum.StrEnum):
    """What puts a candidate domain before others, as `decidedBy` in JSON names it.

    The first ones say that a domain was not compared with others, or that the order alone did not decide; the rest are
    the order of the search, the most significant first.
    """

    NOMINATED = "nominated"  # the gang's pods are nominated there
    PROPOSED = "proposed"  # a plugin recommends it
    TOGETHER = "together"  # so the gangs behind it have a place as well
    RESERVED = "reserved"  # others leave no room for reservations
    TIED = "tied"  # volumes or affinity tie the gang's pods to one place, such as a zone
    EVICTED = "evicted"  # room was made there
    HOST = "host"  # a pod alone goes to the best host, wherever that is
    SIBLINGS = "siblings"  # the other sub-groups of the gang have their places then, too

    FREE_NOW = "free-now"  # idle room, before room that is being released
    PREVIOUS = "previous"  # near the hyperNode that the sub-group ran in
    NEAR = "near"  # near the gang's other pods
    SURPLUS = "surplus"  # the tightest hyperNode around it that holds the pods beyond the minimum, too
    LEAVES = "leaves"  # the fewest innermost hyperNodes
    PARTS = "parts"  # the fewest other parts of its set, or where its set runs, as a soft rule asks
    PLACES = "places"  # the least room that later gangs lose
    SCORE = "score"
    SURPLUS_ROOM = "surplus-room"  # room for most pods beyond the minimum, where none holds all
    NAME = "name"


APART = frozenset(tuple(Term)[: tuple(Term).index(Term.FREE_NOW)])
"""Terms that are no part of the order: they say why a domain was not compared with others, or not by the order."""


class PlacedTasks(msgspec.Struct, frozen=True):
    """Tasks of one sub-job and the row of each."""

    sub: SubJob
    tasks: tuple[Task, ...]
    rows: Ints
    pool: Pool


class Decision(msgspec.Struct, frozen=True):
    """Tasks of a job were placed: bound now, or nominated until resources are released."""

    job: Job
    action: str
    domain: int  # the innermost domain that holds all of the job's tasks now
    placed: tuple[PlacedTasks, ...]
    bound: bool  # False: the gang is nominated and waits for releases
    score: float = 0.0
    proposed: Proposal | Abstained | None = None  # what was recommended for it, followed or not
    terms: tuple[Term, ...] = ()  # by which its domain comes before the other candidates; empty if there was none

    def count(self) -> int:
        return sum(len(p.tasks) for p in self.placed)

    @property
    def held(self) -> tuple[tuple[Shape, Ints, Ints], ...]:
        """Shapes, rows, each once, and how many tasks are on them."""
        rows: dict[Shape, list[int]] = {}
        for task, row in self.places():
            rows.setdefault(task.shape, []).append(row)
        return tuple((shape, *_counted(shape_rows)) for shape, shape_rows in rows.items())

    def places(self) -> Iterator[tuple[Task, int]]:
        """Every placed task with its row."""
        for placed in self.placed:
            yield from zip(placed.tasks, placed.rows.tolist(), strict=True)


def _counted(rows: list[int]) -> tuple[Ints, Ints]:
    """The distinct rows, ascending, and how often each is there."""
    numbers = Counter(rows)
    ascending = sorted(numbers)
    return np.array(ascending, dtype=np.int64), np.array([numbers[row] for row in ascending], dtype=np.int64)


class Eviction(msgspec.Struct, frozen=True):
    """A running task to evict, and the job that it is evicted for."""

    task: Task
    job: Job  # whose task it is
    by: Job | None  # the preemptor; None where a queue returns what it borrowed
    action: str
    reason: str
    past_budgets: bool = False  # disruption budgets would refuse it, and do not protect the task any more


class Notice(msgspec.Struct, frozen=True):
    """A running task that is told until when it stays."""

    task: Task
    job: Job  # whose task it is
    until: float
    reason: str
    by: Job | None = None  # the job that it is to go for


class Reservation(msgspec.Struct, frozen=True):
    """Where a job that waits will fit, and from when on: jobs behind it must leave it that."""

    job: Job
    domain: str  # the innermost domain around it, in the tree of its constraint
    rows: Ints  # of that domain
    held: tuple[tuple[Shape, Ints, Ints], ...]  # shapes, rows and counts that it would take there
    start: float  # infinite where it is not known when what it waits for ends
    end: float  # when it would have ended; infinite where that is not known
    awaits: tuple[str, ...]  # the jobs that must end before, for their room or their share of a quota; the last first
    quotas: tuple[str, ...]  # the queues that allow the job only when some of these have ended
    after: tuple[str, ...]  # the jobs whose reservations must be over before
    text: str
    holds: bool = True  # jobs of the same or a lower priority are held back for it
    lapses: float = inf  # when it holds nobody back any more, if none of these has ended by then
    bare: bool = False  # its moment rests on words of its own namespace that have no deadline or record behind them
    names: tuple[Named, ...] = ()  # what of the text is not for every namespace
    refused: Reason | None = None  # why it holds back no other job although its moment would allow that

    def binds(self, namespace: str) -> bool:
        """Whether jobs of a namespace are held back for it: the word of another namespace does not count for them."""
        return self.holds and (not self.bare or namespace == namespace_of(self.job.key))

    @property
    def record(self) -> ReservationRecord:
        """What survives a restart of it."""
        from tierwise.api.reservation import ReservationRecord  # few profiles reserve, and importing must stay cheap

        return ReservationRecord(self.domain, self.start)


class BundleSummary(msgspec.Struct, frozen=True, gc=False):
    """A bundle that was considered: how many tasks of which gang, and how many were evicted."""

    job: str
    safe: bool
    tasks: int
    efficiency: float
    taken: int
    by_pod: bool = False  # pods were chosen one by one, regardless of their gang's minimum


class EvictionAttempt(msgspec.Struct, frozen=True):
    """The result of trying to evict for a job: the obstacle, or the domain and the bundles."""

    action: str
    obstacle: Reason | None
    domains_considered: tuple[str, ...] = ()  # domains that could have held it with every candidate gone
    domain: str = ""
    bundles: tuple[BundleSummary, ...] = ()
    loss: str = ""  # what the victims lose and the job gains, where a plugin prices it


class PluginFailure(msgspec.Struct, frozen=True):
    """A method of a plugin that raised, or answered what cannot be an answer."""

    plugin: str
    point: str  # "" where it could not be made at all
    method: str
    error: str  # the first one, in one line
    times: int = 1
    traceback: str = ""  # of the first one; "" where nothing was raised

    @property
    def text(self) -> str:
        """What people are told."""
        return f"plugin {self.plugin} {self.happened}"

    @property
    def happened(self) -> str:
        """What failed and how, without the name of the plugin."""
        return f"failed in {self.method}: {self.error}"


class SearchCounts(msgspec.Struct):
    """How much a cycle looked at."""

    trials: int = 0
    domains: int = 0
    cut: int = 0  # searches that stopped at a bound where their answer alone does not say so
    steps: int = 0  # of the account, by all jobs together
    cut_before: int = 0  # how many had stopped so when the job that is served came up

    @property
    def cut_short(self) -> bool:
        """Whether a search for the job that is served was cut short."""
        return self.cut > self.cut_before


class CycleReport(msgspec.Struct, frozen=True):
    """All that one cycle decided."""

    decisions: tuple[Decision, ...]
    evictions: tuple[Eviction, ...]
    eviction_attempts: dict[str, tuple[EvictionAttempt, ...]]  # by job key: attempts to make room for it
    rejections: dict[str, Rejection]  # by job key: why (the rest of) the job is not placed
    phases: dict[str, Phase]  # jobs that left phase Pending
    search_counts: SearchCounts
    complaints: tuple[tuple[Task, Reason], ...] = ()  # what plugins could not do as tasks ask for
    delays: dict[str, float] = {}  # by job key: a plugin declined its place until this time
    failures: tuple[PluginFailure, ...] = ()  # methods of plugins that failed, each once
    writes: tuple[Prepare, ...] = ()  # writes to make before pods are bound, or to undo
    undone: dict[Key, str] = {}  # by claim: why its volume or devices, which did not come to be, are taken back
    notices: tuple[Notice, ...] = ()  # tasks that would be evicted and have time left
    reservations: tuple[Reservation, ...] = ()  # of jobs that wait, in the order in which they were served
    unfinished: bool = False  # the cycle had placed as many pods as it may, and the rest has its turn in the next one
    turns: Turns = NO_TURNS  # what the next cycle should know of searches and of room that is kept idle
    idle_until: float = inf  # when the first account of room that is kept idle has nothing left
    opens: float = inf  # when the first window ends that closes nodes to a job which waits

    @property
    def goes_on(self) -> bool:
        """Whether the next cycle has something to decide even if nothing changes."""
        return self.unfinished or bool(self.turns.late)

    def reservation(self, job: Job) -> Reservation | None:
        """The reservation of a job; None where it has none."""
        return next((reservation for reservation in self.reservations if reservation.job is job), None)

    def retry_after(self, moment: float) -> float:
        """When, later than a moment, a further cycle may decide differently without any change of objects.

        Infinite if never: what lies before the moment this cycle has decided with, and nothing comes of asking again.
        """
        lapses = (reservation.lapses for reservation in self.reservations if reservation.holds)
        turn = (moment + 1.0,) if self.turns.late else ()
        times = (*self.delays.values(), *lapses, *turn, self.idle_until, self.opens)
        return min((at for at in times if at > moment), default=inf)


def plugin_faults(report: CycleReport) -> list[Fault]:
    """The plugins that failed, as people are told of them."""
    return [Fault(f"plugin {failure.plugin}", "PluginFailed", failure.happened) for failure in report.failures]


class ReportBuilder(msgspec.Struct):
    """Collects decisions while the actions run."""

    watch: Callable[[Job, Decision | Rejection], None] | None = None  # called with each decision and rejection
    decisions: list[Decision] = []
    evictions: list[Eviction] = []
    eviction_attempts: dict[str, list[EvictionAttempt]] = {}
    rejections: dict[str, Rejection] = {}
    phases: dict[str, Phase] = {}
    search_counts: SearchCounts = msgspec.field(default_factory=SearchCounts)
    complaints: tuple[tuple[Task, Reason], ...] = ()
    delays: dict[str, float] = {}
    failures: tuple[PluginFailure, ...] = ()
    writes: tuple[Prepare, ...] = ()
    undone: dict[Key, str] = {}
    notices: list[Notice] = []
    reservations: list[Reservation] = []
    unfinished: bool = False
    turns: Turns = NO_TURNS
    idle_until: float = inf
    opens: float = inf
    bound: int = 0  # pods; those that are nominated come again in the next cycle

    def decide(self, decisions: Sequence[Decision]) -> None:
        """Add decisions."""
        self.decisions += decisions
        self.bound += sum(decision.count() for decision in decisions if decision.bound)
        if self.rejections:
            for decision in decisions:
                self.rejections.pop(decision.job.key, None)
        if self.watch is not None:
            for decision in decisions:
                self.watch(decision.job, decision)

    def reject(self, job: Job, rejection: Rejection) -> None:
        """Record why a job waits, together with the obstacles to evicting for it."""
        attempts = self.eviction_attempts.get(job.key)
        if attempts:
            texts = {rejection.reason.text, *(child.reason.text for child in rejection.children)}
            obstacles = {s.obstacle.text: s.obstacle for s in attempts if s.obstacle is not None}
            added = tuple(Rejection("evict", job.key, o) for text, o in obstacles.items() if text not in texts)
            rejection = replace(rejection, children=(*rejection.children, *added)) if added else rejection
        self.rejections[job.key] = rejection
        if self.watch is not None:
            self.watch(job, rejection)

    def delay(self, job: Job, delay: Delay) -> None:
        """A place was found, and a plugin declined it for now."""
        self.delays[job.key] = delay.until
        self.reject(job, Rejection("place", job.key, delay.reason))

    def add_eviction_attempt(self, job: Job, attempt: EvictionAttempt) -> None:
        """Record an eviction attempt; its obstacle is added to the job's rejection, once."""
        self.eviction_attempts.setdefault(job.key, []).append(attempt)
        rejection = self.rejections.get(job.key)
        texts = (
            {rejection.reason.text, *(child.reason.text for child in rejection.children)}
            if rejection is not None
            else set()
        )
        if attempt.obstacle is not None and attempt.obstacle.text not in texts:
            obstacle = Rejection("evict", job.key, attempt.obstacle)
            self.rejections[job.key] = (
                replace(rejection, children=(*rejection.children, obstacle)) if rejection else obstacle
            )

    def build(self) -> CycleReport:
        """What was collected, as it is now: nothing that happens later changes a report."""
        fields = {name: getattr(self, name) for name in CycleReport.__struct_fields__}
        fields["eviction_attempts"] = {key: tuple(attempts) for key, attempts in self.eviction_attempts.items()}
        fields["reservations"] = [
            reservation for reservation in self.reservations if reservation.job.key in self.rejections
        ]
        for name, value in fields.items():
            if isinstance(value, list | dict):
                fields[name] = tuple(value) if isinstance(value, list) else dict(value)
        return CycleReport(**fields)
