"""When jobs are expected to end: a median, two ranges, and where they come from.

Read by reservations (`actions.reservations`) and by whoever tells people when a job may start. The first of these that
is known counts:

    stated    annotation `tierwise.io/expected-duration` of the job or its first pod
    queue     the duration that the job's queue, or the profile for it, gives to jobs that say nothing
    history   the runs of like jobs that lasted longer than this one has run so far
    deadline  `activeDeadlineSeconds` of its pods, which is a bound: it may end at any time before

What a job states of itself always counts for the job itself and in its namespace. Whether it counts for jobs of other
namespaces, `ExpectedEnds.word_counts` decides, for reservations, for whoever starts beside them, for places and for
patience alike.

Otherwise the end is unknown, and said to be. A deadline bounds all the others, and whatever is given is conditional on
the job still running: a job beyond its stated time is overdue, and its end is what history says of the survivors.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from math import ceil, floor, inf

import msgspec
import numpy as np

from tierwise.api.core import format_time
from tierwise.api.duration import spelled
from tierwise.api.plurals import count
from tierwise.model.arrays import Floats
from tierwise.model.finished_run import FinishedRun
from tierwise.model.job import Job, Status, Task, namespace_of
from tierwise.model.snapshot import Snapshot

__all__ = ["EndSource", "ExpectedEnd", "ExpectedEnds", "RunHistory", "finished_runs", "started_at"]

FEWEST_RUNS = 5
"""Runs of like jobs from which on anything is concluded from them."""

_PATIENCE = 0.1
"""By which share of its planned run a job may be late before nothing is planned with its end any more."""
_NUMBERED = r"(-[a-z0-9]*[0-9][a-z0-9]*)+$"
_ENDED = (Status.SUCCEEDED, Status.FAILED)


class EndSource(enum.Enum):
    """What an expected end comes from."""

    STATED = "stated"
    QUEUE = "queue"
    HISTORY = "history"
    DEADLINE = "deadline"
    UNKNOWN = "unknown"


class ExpectedEnd(msgspec.Struct, frozen=True):
    """When a job ends, in seconds since the epoch; None where nothing is known."""

    source: EndSource
    text: str  # where it comes from, for people
    planned: float = inf
    """What plans go by: the stated end, else the median, else the deadline; infinite where unknown.

    It lies in the past where a job is overdue and nothing else is known: it may end at any moment.
    """
    median: float | None = None
    half: tuple[float, float] | None = None  # it ends in here with a probability of 50 %
    most: tuple[float, float] | None = None  # and in here with one of 90 %
    latest: float | None = None  # when its deadline stops it
    overdue: bool = False  # it has run for longer than was stated for it
    lapses: float = inf  # when nothing is planned with this end any more, should the job still run then
    broken: bool = False  # that moment has come

    @property
    def known(self) -> bool:
        """Whether a time can be given at all."""
        return self.planned < inf

    @property
    def safe(self) -> float:
        """The time by which it has ended in all likelihood: its deadline, the end of the 90 % range, else the plan."""
        likely = max(self.planned, self.most[1]) if self.most is not None else self.planned
        if self.latest is None:
            return likely
        return min(likely, self.latest)


def started_at(job: Job) -> float | None:
    """When a job began to run, as far as its pods say; None where none of them runs."""
    running, failed = Status.RUNNING, Status.FAILED  # an enum is slow to look things up in
    runs = False
    begun = []
    for task in job.tasks:
        runs |= task.status is running
        if task.started and task.status is not failed:
            begun.append(task.started)
    return min(begun) if runs and begun else None


def finished_runs(jobs: Iterable[Job]) -> list[FinishedRun]:
    """The jobs all of whose pods have ended, where these say since when and until when."""
    found = []
    for job in jobs:
        if not job.tasks or job.tasks[0].status not in _ENDED:
            continue  # most of them
        if all(task.status in _ENDED and task.started and task.ended for task in job.tasks):
            start = min(task.started for task in job.tasks)
            end = max(task.ended for task in job.tasks)
            stated = job.terms.expected if job.terms is not None else 0.0
            found.append(FinishedRun(_name(job), job.queue, len(job.tasks), max(0.0, end - start), end, stated))
    return found


class ExpectedEnds:
    """The expected ends of the jobs of one snapshot; each is worked out when it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._queues = snapshot.queues
        self._now = snapshot.now
        runs = {(run.job, run.ended): run for run in (*snapshot.history, *finished_runs(snapshot.jobs))}
        self._history = RunHistory(runs.values())
        self._known: dict[str, ExpectedEnd] = {}  # by the job's key

    def of(self, job: Job) -> ExpectedEnd:
        """The expected end of a running job; that of one which does not run is unknown."""
        found = self._known.get(job.key)
        if found is None:
            start = started_at(job)
            running = [task for task in job.tasks if task.status is Status.RUNNING]
            found = _UNSTARTED if start is None else self._judged(self._end(job, start, _latest(running)), start)
            self._known[job.key] = found
        return found

    def of_task(self, task: Task) -> ExpectedEnd:
        """That of a running pod which belongs to no job: its own word and its deadline are all that is known."""
        latest = _latest([task])
        if not task.expected or not task.started:
            return self._judged(_only_deadline(latest), task.started)
        text = _STATED.format(_long(task.expected))
        return self._judged(self._stated(task.started, task.expected, latest, EndSource.STATED, text), task.started)

    def if_started(self, job: Job, at: float) -> ExpectedEnd:
        """When a waiting job would end if it started at a time."""
        waiting = [task for task in job.tasks if task.status in (Status.PENDING, Status.GATED)]
        if not waiting or not all(task.active_deadline for task in waiting):
            return self._end(job, at, None)
        limit = max(task.active_deadline for task in waiting)
        found = self._end(job, at, at + limit)
        text = f"its deadline stops it after {_long(limit)}, and it is not known whether it ends before"
        if found.source is not EndSource.DEADLINE:
            return found
        return msgspec.structs.replace(found, text=text)

    def word_counts(self, end: ExpectedEnd, of: str, by: str) -> bool:
        """Whether what a job of namespace `of` states of itself counts for jobs of namespace `by`.

        It does in its own namespace, and everywhere if the profile trusts it. Elsewhere it counts where runs of like
        jobs ended as they had stated, unless a job of the namespace is breaking its word now. An end that comes from
        anything else than a statement always counts.
        """
        if end.source is not EndSource.STATED or of == by or self._snapshot.trust_stated:
            return True
        return end.most is not None and of not in self._breaking

    def relied_on(self, end: ExpectedEnd, of: str, by: str) -> float:
        """When a job of namespace `of` has ended, as far as jobs of namespace `by` may plan with it.

        For a word of another namespace this is the late end of what past runs say, or else when its deadline stops it.
        Infinite if nothing is known.
        """
        if self.word_counts(end, of, by):
            foreign = end.source is EndSource.STATED and of != by and not self._snapshot.trust_stated
            return end.safe if foreign else end.planned
        return end.latest if end.latest is not None else inf

    def surely(self, job: Job, by: str) -> float:
        """When a job that starts now, or runs and grows, has ended in all likelihood, for jobs of a namespace whose
        room it would use; infinite where nothing is known that they may rely on.
        """
        end = self.if_started(job, self._now) if started_at(job) is None else self.of(job)
        of = namespace_of(job.key)
        if self.word_counts(end, of, by):
            return end.safe
        return self.relied_on(end, of, by)

    def seen_by(self, end: ExpectedEnd, start: float, of: str, by: str) -> ExpectedEnd:
        """The end of a running job of namespace `of`, as far as jobs of namespace `by` may plan with it."""
        planned = self.relied_on(end, of, by)
        if planned == end.planned:
            return end
        held = "no deadline" if planned == inf else f"a deadline at {format_time(planned)}"
        text = end.text if self.word_counts(end, of, by) else f"{end.text}, and {held} ensures that"
        seen = msgspec.structs.replace(end, text=text, planned=planned, overdue=False, lapses=inf, broken=False)
        return self._judged(seen, start)

    @property
    def has_records(self) -> bool:
        """Whether any run has ended that had stated its duration."""
        return self._history.compares

    @cached_property
    def _breaking(self) -> frozenset[str]:
        """The namespaces of jobs that run for longer than they have stated, by more than a tenth."""
        found = set()
        for job in (*self._snapshot.jobs, *self._snapshot.standing_jobs):
            stated = job.terms.expected if job.terms is not None else 0.0
            start = started_at(job) if stated else None
            if start is not None and self._now >= start + (1 + _PATIENCE) * stated:
                found.add(namespace_of(job.key))
        return frozenset(found)

    def chance(self, job: Job, within: float, by: str) -> float:
        """How likely a running job has ended in so many seconds, as far as jobs of a namespace may plan with it.

        It has for certain by an end that is stated, else by the share of the like runs that lasted longer, or never.
        """
        end = self.of(job)
        start = started_at(job)
        stated = end.source in (EndSource.STATED, EndSource.QUEUE) and not end.overdue
        if stated and self.word_counts(end, namespace_of(job.key), by):
            return float(self.relied_on(end, namespace_of(job.key), by) <= self._now + within)
        found = self._history.durations(job, self._elapsed(start)) if start is not None else None
        if found is None or start is None:
            return float(end.latest is not None and end.latest <= self._now + within)
        durations, _ = found
        return float(np.searchsorted(durations, self._elapsed(start) + within, side="right") / len(durations))

    def mean_run(self, job: Job) -> float:
        """How long jobs like a waiting one have run on average; 0 where none is known."""
        found = self._history.durations(job, 0.0)
        if found is not None:
            return float(np.mean(found[0]))
        return 0.0

    def _end(self, job: Job, start: float, latest: float | None) -> ExpectedEnd:
        """By the first source that knows; a start that lies ahead is one of a job that has not run at all."""
        queue = self._queues.get(job.queue)
        stated = job.terms.expected if job.terms is not None else 0.0
        default = queue.expected_duration if queue is not None else 0.0
        if stated:
            return self._stated_by_job(job, start, stated, latest)
        if default:
            text = f"jobs of queue {job.queue} are given {_long(default)}"
            return self._stated(start, default, latest, EndSource.QUEUE, text, job)
        return self._by_history(job, start, latest, overdue=False) or _only_deadline(latest)

    def _stated_by_job(self, job: Job, start: float, stated: float, latest: float | None) -> ExpectedEnd:
        """What a job says, with ranges by how well like jobs have known it before."""
        elapsed = self._elapsed(start)
        found = self._history.ratios(job, elapsed / stated)
        told = _STATED.format(_long(stated))
        if found is None or elapsed >= stated:
            return self._stated(start, stated, latest, EndSource.STATED, told, job)
        ratios, like = found
        text = f"{told}; {like} took {float(np.median(ratios)):.2g} times what they had stated"
        return _of_sample(EndSource.STATED, text, start, ratios * stated, latest, planned=start + stated)

    def _stated(
        self, start: float, duration: float, latest: float | None, source: EndSource, text: str, job: Job | None = None
    ) -> ExpectedEnd:
        end = start + duration
        bound = end if latest is None else min(end, latest)
        if end > self._now or start >= self._now:
            return ExpectedEnd(source, text, planned=bound, median=bound, latest=latest)
        late = f"{text} and is overdue since {format_time(end)}"
        survivors = self._by_history(job, start, latest, overdue=True) if job is not None else None
        if survivors is not None:
            return msgspec.structs.replace(survivors, text=f"{late}; {survivors.text}")
        return ExpectedEnd(source, late, planned=bound, latest=latest, overdue=True)

    def _judged(self, end: ExpectedEnd, start: float) -> ExpectedEnd:
        """The end of a running job, with the moment at which plans give up on it.

        A plan that gave up on a job as soon as it is overdue would lose what it waits for, while the job may end at any
        moment; one that never gave up would keep room for something that does not come.
        """
        if end.planned == inf:
            return end
        lapses = end.planned + _PATIENCE * (end.planned - start)
        return msgspec.structs.replace(end, lapses=lapses, broken=self._now >= lapses)

    def _by_history(self, job: Job, start: float, latest: float | None, *, overdue: bool) -> ExpectedEnd | None:
        found = self._history.durations(job, self._elapsed(start))
        if found is None:
            return None
        durations, text = found
        return _of_sample(EndSource.HISTORY, text, start, durations, latest, overdue=overdue)

    def _elapsed(self, start: float) -> float:
        return max(0.0, self._now - start)


_STATED = "it states {}"
_UNKNOWN_TEXT = "it is not known how long it runs"
_UNSTARTED = ExpectedEnd(EndSource.UNKNOWN, "it does not run")


def _latest(running: Sequence[Task]) -> float | None:
    """When the last of these tasks is stopped by its deadline; None where one of them has none."""
    bounded = bool(running) and all(task.active_deadline and task.started for task in running)
    return max(task.started + task.active_deadline for task in running) if bounded else None


def _only_deadline(latest: float | None) -> ExpectedEnd:
    if latest is None:
        return ExpectedEnd(EndSource.UNKNOWN, _UNKNOWN_TEXT)
    text = f"its deadline stops it at {format_time(latest)}, and it is not known whether it ends before"
    return ExpectedEnd(EndSource.DEADLINE, text, planned=latest, latest=latest)


def _of_sample(
    source: EndSource,
    text: str,
    start: float,
    durations: Floats,
    latest: float | None,
    *,
    planned: float | None = None,
    overdue: bool = False,
) -> ExpectedEnd:
    """Median and ranges of a sorted sample of durations, none of them beyond the deadline."""
    bound = inf if latest is None else latest
    median = min(bound, start + float(np.median(durations)))
    half, most = (_range(durations, share) for share in (0.5, 0.9))
    return ExpectedEnd(
        source,
        text,
        planned=min(bound, median if planned is None else planned),
        median=median,
        half=(min(bound, start + half[0]), min(bound, start + half[1])),
        most=(min(bound, start + most[0]), min(bound, start + most[1])),
        latest=latest,
        overdue=overdue,
    )


def _range(sample: Floats, share: float) -> tuple[float, float]:
    """The inner part of a sorted sample that holds the next value with a probability; all of it where it is small."""
    n = len(sample)
    tail = (1 - share) / 2
    low = floor(tail * (n + 1)) - 1
    high = ceil((1 - tail) * (n + 1)) - 1
    return float(sample[max(low, 0)]), float(sample[min(high, n - 1)])


# The history of like jobs.
#
# Jobs are alike by name (without its trailing numbers and hashes), namespace and number of pods; else by queue and
# about as many pods; else by queue. The narrowest of these with enough runs is taken.


class RunHistory:
    """The runs that have ended, by the jobs that they are like."""

    def __init__(self, runs: Iterable[FinishedRun] = ()) -> None:
        self._durations: dict[tuple[object, ...], list[float]] = {}
        self._ratios: dict[tuple[object, ...], list[float]] = {}
        self._sorted: dict[tuple[int, tuple[object, ...]], Floats] = {}
        for run in runs:
            self.add(run)

    def add(self, run: FinishedRun) -> None:
        """One more run has ended."""
        for key, _ in _likenesses(run.job, run.queue, run.pods):
            self._durations.setdefault(key, []).append(run.seconds)
            self._sorted.pop((id(self._durations), key), None)
            if run.stated:
                self._ratios.setdefault(key, []).append(run.seconds / run.stated)
                self._sorted.pop((id(self._ratios), key), None)

    @property
    def compares(self) -> bool:
        """Whether there is a run that had stated its duration."""
        return bool(self._ratios)

    def durations(self, job: Job, elapsed: float) -> tuple[Floats, str] | None:
        """The durations of like jobs that ran for longer, and which jobs these are; None where nothing is known."""
        if self._durations:
            return self.longer(_name(job), job.queue, len(job.tasks), elapsed)
        return None

    def longer(self, name: str, queue: str, pods: int, elapsed: float) -> tuple[Floats, str] | None:
        """Durations above `elapsed` of runs of this name (as in `FinishedRun`), queue and size; None without any."""
        return self._survivors(self._durations, (name, queue, pods), elapsed)

    def ratios(self, job: Job, elapsed: float) -> tuple[Floats, str] | None:
        """Durations of like jobs as shares of what they had stated, of those that ran for longer than `elapsed`."""
        if not self._ratios:
            return None
        return self._survivors(self._ratios, (_name(job), job.queue, len(job.tasks)), elapsed)

    def _survivors(
        self, table: dict[tuple[object, ...], list[float]], job: tuple[str, str, int], elapsed: float
    ) -> tuple[Floats, str] | None:
        best: tuple[Floats, str] | None = None
        if not table:
            return None
        for key, like in _likenesses(*job):
            runs = table.get(key, ())
            if len(runs) < FEWEST_RUNS:
                continue
            sample = self._sample(table, key, runs)
            left = sample[np.searchsorted(sample, elapsed, side="right") :]
            if not len(left):
                continue
            longer = f"{len(left)} of " if len(left) < len(sample) else ""
            found = left, f"{longer}{count(len(sample), 'run')} of {like}{' that ran for longer' if longer else ''}"
            if len(left) >= FEWEST_RUNS:
                return found
            best = best if best is not None and len(best[0]) >= len(left) else found
        return best

    def _sample(
        self, table: dict[tuple[object, ...], list[float]], key: tuple[object, ...], runs: Sequence[float]
    ) -> Floats:
        found = self._sorted.get((id(table), key))
        if found is None:
            found = self._sorted[id(table), key] = np.sort(np.array(runs, dtype=np.float64))
        return found


def _likenesses(job: str, queue: str, pods: int) -> list[tuple[tuple[object, ...], str]]:
    """Which jobs a job is like, the narrowest first: comparable, and for people."""
    namespace, _, name = job.rpartition("/")
    stem = re.sub(_NUMBERED, "", name) or name
    about = max(0, pods - 1).bit_length()
    return [
        (("name", namespace, stem, pods), f"{namespace}/{stem} with {count(pods, 'pod')}"),
        (("size", queue, about), f"jobs of queue {queue} with about {count(pods, 'pod')}"),
        (("queue", queue), f"jobs of queue {queue}"),
    ]


def _name(job: Job) -> str:
    """The name that runs of a job have in common: that of its owner where its group was made for one."""
    namespace, _, name = job.key.rpartition("/")
    return f"{namespace.rpartition(' ')[2]}/{job.owner or name}"


@lru_cache(1024)
def _long(duration: float) -> str:
    """A duration in words of units: "2h30m0s" as "2h30m"."""
    text = spelled(duration)
    for zero in ("0s", "0m"):
        shorter = text.removesuffix(zero)
        if shorter and shorter[-1].isalpha():
            text = shorter
    return text
