"""One scheduler profile in the main loop: a cycle, its effects, and what people are told of it.

Effects are begun and go on while the next cycles decide; what follows from them is seen to in the order of the cycles.
Where the writes of one namespace are slow, its jobs are left out of that and seen to when they are answered.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from tierwise import port
from tierwise.actions.diagnosis.verdicts import LACKS_PODS
from tierwise.api.core import Pod
from tierwise.config.profile import Profile
from tierwise.explain.message import decision_id
from tierwise.framework.declaration import Idle
from tierwise.framework.extension import Factory
from tierwise.framework.registry import extended
from tierwise.framework.report import CycleReport
from tierwise.kube.outbox import Outbox
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import NO_TURNS
from tierwise.plugins import PLUGINS
from tierwise.runtime.refused_gangs import RefusedGangs
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import amended, effects
from tierwise.scheduler.guard import Crash, Guard
from tierwise.scheduler.partial_gangs import Marks, release
from tierwise.snapshot.builder import Reader
from tierwise.snapshot.consistency import differences
from tierwise.status.pod import ConditionWriter, pod_conditions, pod_events
from tierwise.status.pod_group import StatusWriter, statuses

__all__ = [
    "CycleTimes",
    "LoopPass",
    "LoopState",
    "Observer",
    "ProfileRun",
    "RefusedEvictions",
    "SchedulerProfile",
    "Timed",
    "complain",
    "fairly",
]

log = logging.getLogger(__name__)

_CHECK: Final = 1800.0
"""Seconds between two checks of the snapshot against one that is read from the beginning."""

_SHOWN: Final = 5

_UNTOLD: Final = 10.0
"""Seconds for which statuses may wait while cycles follow each other at once: binds come first."""

_SHARE: Final = 9.0
"""So many times as long as telling all who wait took is not told again: whoever makes thousands of objects that cannot
be scheduled has a part of the loop's time, and not all of it."""

_MOST_TOLD: Final = 128
"""Groups, and gangs with their pods, that are told at a time why they wait, of all namespaces in turn: to work out what
all of a flood are told would take a third of a second, in which nothing is bound."""

_TOLD_IN: Final = 0.5
"""Seconds in which about as many are written, and the next may be told."""

_MOST_WRITES: Final = 256
"""Writes under way beyond which the next are not sent before some have ended; those of namespaces whose writes are slow
do not count."""

_LOOK: Final = 0.005
"""Seconds between two looks whether writes have ended."""

_ON_ITS_WAY: Final = 2.0
"""Seconds for which the podGroup that a pod names, or the rest of its gang, may be on its way before the pod is told
that it is missing.

Pods and podGroups are watched apart, so either may be known first; and the pods of a gang are made one by one, so all
of them would be told with each of them how many there are.
"""

_MOST_FAILURES: Final = 1000
"""Ways in which plugins fail that are told of; the metric counts all of them."""

_ABOUT_PLUGINS: Final = port.Key("", "Namespace", "", "default")
"""What an event about a plugin is attached to: plugins are no objects of the cluster."""


class Timed(NamedTuple):
    """Something that took its time."""

    name: str
    begin: float
    end: float
    parent: str = ""  # the stage or action that it is a part of
    job: str = ""


class CycleTimes:
    """Takes the times of one cycle by a clock that never jumps; of gangs, those that take `slow` seconds or more."""

    def __init__(self, ticks: Callable[[], float], slow: float) -> None:
        self._ticks = ticks
        self._slow = slow
        self._action = ""
        self.found: list[Timed] = []

    @contextlib.contextmanager
    def action(self, name: str) -> Iterator[None]:
        """An action of the profile runs."""
        outer, self._action, begin = self._action, name, self._ticks()
        try:
            yield
        finally:
            self.found.append(Timed(name, begin, self._ticks(), "decide"))
            self._action = outer

    @contextlib.contextmanager
    def job(self, job: Job) -> Iterator[None]:
        """A job is decided."""
        begin = self._ticks()
        try:
            yield
        finally:
            end = self._ticks()
            if end - begin >= self._slow:
                self.found.append(Timed("gang", begin, end, self._action, job.key))

    def stages(self, names: Sequence[str], marks: Sequence[float]) -> None:
        """Stages that followed each other: one between each two marks."""
        spans = zip(names, marks, marks[1:], strict=False)
        self.found += [Timed(name, begin, end, "cycle") for name, begin, end in spans]


class SchedulerProfile(msgspec.Struct, frozen=True):
    """Whose pods are scheduled, and how."""

    schedulers: frozenset[str]
    profile: Profile


class LoopPass(msgspec.Struct, frozen=True):
    """One cycle as it went: what it saw, what it decided by which profile, what came of it, and the seconds it took."""

    snapshot: Snapshot
    report: CycleReport
    outcomes: Sequence[port.Outcome]
    profile: Profile
    seconds: dict[str, float] = {}
    drift: list[str] | None = None  # what was kept wrongly since earlier iterations; None where this one did not look
    objects: port.Objects | None = None  # what the snapshot was read from
    decided: CycleReport | None = None  # the report before the outcomes changed it
    times: CycleTimes | None = None  # of its parts, where an observer wants them
    schedulers: frozenset[str] | None = None  # whose pods the profile serves; None: those of the usual names


class Observer(Protocol):
    """Interface of those that follow each iteration: metrics, logs, a page."""

    def saw(self, iteration: LoopPass) -> None:
        """Called after the effects of a cycle were applied."""

    def crashed(self, crash: Crash) -> None:
        """Called when a stage has raised, with the object that was set aside for it."""


# Pods that could not be evicted: protected for a while, so that the next plan is another one.
#
# A disruption budget may refuse what the scheduler has planned, and the same cluster would give the same plan again.
# The pod is read as marked not to be evicted until some time has passed; then the answer may be another one.


_LONG: Final = 60.0
_MARK: Final = "volcano.sh/preemptable"


class RefusedEvictions:
    """Which pods are protected until when; times are of a clock that never jumps."""

    def __init__(self) -> None:
        self._until: dict[port.Key, float] = {}

    def note(self, outcomes: Iterable[port.Outcome], now: float) -> None:
        """Remember evictions that failed; what was withheld, no one has refused."""
        for outcome in outcomes:
            if isinstance(outcome.effect, port.Evict) and not outcome.ok and not outcome.withheld:
                self._until[outcome.effect.pod] = now + _LONG

    def over(self, objects: port.Objects, now: float) -> port.Objects:
        """The objects as the scheduler is to read them."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        protected = {}
        for key in self._until:
            pod = objects.record(key)
            if isinstance(pod, Pod):
                marks = {**pod.metadata.annotations, _MARK: "false"}
                protected[key] = replace(pod, metadata=replace(pod.metadata, annotations=marks)), None
        if protected:
            return objects.updated(protected, (), objects.version)
        return objects


class _UnderWay(msgspec.Struct, frozen=True):
    """A cycle whose effects were begun and are still under way."""

    snapshot: Snapshot
    report: CycleReport
    objects: port.Objects
    seconds: dict[str, float]
    begun: float  # by a clock that never jumps
    asked: Sequence[port.Effect]
    writes: port.Begun
    at_once: bool  # nothing was waited for: all is told together
    times: CycleTimes | None

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that it has placed."""
        return frozenset([decision.job.key for decision in self.report.decisions])


class _Release(msgspec.Struct, frozen=True):
    """Marks of gangs that are a part, and evictions of their pods, which are under way."""

    snapshot: Snapshot
    writes: port.Begun
    behind: Sequence[port.PatchStatus]  # statuses that are written after the marks of their objects


class _LateJob(msgspec.Struct, frozen=True):
    """A job of whose effects some have had no answer when the rest of its cycle was seen to."""

    key: str  # "" for effects that are for no gang
    snapshot: Snapshot
    objects: port.Objects
    report: CycleReport  # about this job alone
    writes: port.Begun
    numbers: tuple[int, ...]  # which of the effects are its own

    def ended(self) -> list[port.Outcome] | None:
        """Outcomes of its effects; None until all are known."""
        outcomes = self.writes() if self.writes.done() else self.writes.so_far()
        own_outcomes = [outcome for number in self.numbers if (outcome := outcomes[number]) is not None]
        if len(own_outcomes) == len(self.numbers):
            return own_outcomes
        return None


class LoopState:
    """State that the profiles of a loop share: the cluster, the clocks, and the last iteration's results."""

    def __init__(
        self,
        cluster: port.Cluster,
        *,
        clock: Callable[[], float],
        ticks: Callable[[], float],
        observers: Sequence[Observer],
        most_pods: int | None,
        most_writes: int,
        times: Callable[[], CycleTimes] | None = None,
    ) -> None:
        self.cluster = cluster
        self.times = times
        self.clock = clock
        self.ticks = ticks
        self.observers = observers
        self.most_pods = most_pods
        self.most_writes = most_writes
        self.guard = Guard(ticks, self._crashed)
        self.refused = RefusedEvictions()
        self.computing: tuple[str, float] | None = None  # the stage that computes, since when: a watchdog looks
        self.unfinished = False  # whether the last iteration left jobs to the next one
        self.took = 0.0  # seconds that it read and decided for
        self._untold: list[port.RecordEvent] = []  # events about objects that were set aside, and about plugins
        self._failed: set[tuple[str, str, str]] = set()  # plugin, method and error that people were told of
        self._idle: dict[str, float] = {}  # plugins that are left out, and until when

    def leave_out_plugin(self, name: str, why: str, seconds: float) -> None:
        """Decide without a plugin of another package for a while, and tell the cluster's operators."""
        self._idle[name] = self.ticks() + seconds
        self._untold.append(port.RecordEvent(_ABOUT_PLUGINS, "Warning", "PluginLeftOut", why))

    def plugins(self) -> Mapping[str, Factory]:
        """Factories of plugins by name, at this moment."""
        idle = [name for name, until in self._idle.items() if self.ticks() < until]
        if idle:
            return extended(PLUGINS, dict.fromkeys(idle, lambda arguments, view: Idle()))
        return PLUGINS

    def set_aside(self, key: port.Key, why: str, seconds: float) -> None:
        """Leave an object out for a while."""
        self.guard.set_aside("scheduling", key, why, seconds)

    @contextlib.contextmanager
    def computes(self, stage: str, since: float | None = None) -> Iterator[None]:
        """Something is computed, and nothing waited for: a watchdog may look how long it takes."""
        self.computing = stage, self.ticks() if since is None else since
        try:
            yield
        finally:
            self.computing = None

    def tell_of_crashes(self) -> None:
        events = self._untold
        self._untold = []
        if events:
            self.cluster.tell(events)

    def _crashed(self, crash: Crash) -> None:
        """Say it: in the log with its trace the first time, in the metrics, and to the owner of the object."""
        if crash.times == 1:
            log.error("%s: %s\n%s", crash.fault.subject, crash.text, crash.traceback)
        else:
            log.error("%s: %s (%d times)", crash.fault.subject, crash.text, crash.times)
        for observer in self.observers:
            observer.crashed(crash)
        if crash.event is not None:
            self._untold.append(crash.event)

    def tell_failures(self, report: CycleReport) -> None:
        """Report each kind of plugin failure once: in the log with its traceback, and as an event.

        Jobs that wait because of it get it as their reason; the event is for the cluster's operators.
        """
        for failure in report.failures:
            identity = failure.plugin, failure.method, failure.error
            if identity not in self._failed and len(self._failed) < _MOST_FAILURES:
                self._failed.add(identity)
                log.error("%s%s", failure.text, f"\n{failure.traceback}" if failure.traceback else "")
                self._untold.append(port.RecordEvent(_ABOUT_PLUGINS, "Warning", "PluginFailed", failure.text))


class ProfileRun:
    """One scheduler profile on a cluster: what it has read, told and sent so far."""

    def __init__(self, profile: SchedulerProfile, name: str, loop: LoopState) -> None:
        """Statuses are told under the name: what it tells replaces what it has told before."""
        self._own = profile
        self._name = name
        self._loop = loop
        self._reader = self._new_reader()
        self._statuses, self._conditions = StatusWriter(), ConditionWriter()
        self._marks = Marks()
        self._refused_gangs = RefusedGangs()
        self._arriving: dict[str, tuple[int, float]] = {}  # see `_fresh`
        self._checked = loop.ticks()  # when the snapshot was last compared with a fresh one
        self._published = loop.ticks()  # when all statuses were last told
        self._telling = 0.0  # how long that took
        self._turns = NO_TURNS  # of searches, after the last cycle
        self.again: float | None = None  # when time alone lets a cycle decide otherwise
        self.under_way: list[_UnderWay] = []  # the oldest first
        self.late: list[_LateJob] = []
        self._releases: list[_Release] = []
        self._unaware: tuple[port.Begun, ...] = ()  # what was begun before these held places were known:
        self._unobserved: Sequence[object] = ()
        self._answered_late: list[port.Outcome] = []  # that no observer has been told of

    def _new_reader(self) -> Reader:
        return Reader(self._own.profile, schedulers=self._own.schedulers)

    def rehearse(self, objects: port.Objects) -> None:
        """All that an iteration computes, without effects: raises where an object makes the iteration raise."""
        with self._loop.computes("scheduling"):
            self._rehearse(objects)

    def _rehearse(self, objects: port.Objects) -> None:
        now = self._loop.clock()
        self._reader = self._new_reader()  # the old one broke off half-way
        self._statuses, self._conditions = StatusWriter(), ConditionWriter()
        snapshot = self._new_reader().read(objects, now)
        report = cycle(snapshot, self._own.profile, plugins=self._loop.plugins())
        _check_made(report)
        effects(snapshot, report)
        statuses(objects, snapshot, report)
        pod_conditions(objects, snapshot, report)
        release(objects, snapshot, report, partial(decision_id, now))

    def schedule(self, objects: port.Objects, *, everything: bool = True) -> bool:
        """Run one cycle on these objects and begin to write what it decided, without waiting for the answers.

        It returns True always. everything=True raises where a plugin could not be made: the guard then finds the object
        that is to blame, and calls again with it set aside. self.again becomes the time to look again, in seconds since
        the epoch, None where there is none.
        """
        times = self._loop.times() if self._loop.times is not None else None
        marks = [self._loop.ticks()]
        objects = self._loop.refused.over(objects, self._loop.ticks())
        marks.append(self._loop.ticks())
        with self._loop.computes("scheduling", marks[-1]):
            snapshot = self._reader.read(objects, self._loop.clock(), self._turns)
            marks.append(self._loop.ticks())
            paused, seconds_paused = self._refused_gangs.paused(objects, snapshot, marks[1])
            snapshot = replace(snapshot, paused=paused) if paused else snapshot
            limit = self._loop.most_pods
            plugins = self._loop.plugins()
            report = cycle(snapshot, self._own.profile, most_pods=limit, plugins=plugins, stopwatch=times)
        self._turns = report.turns
        self._loop.unfinished = self._loop.unfinished or report.goes_on
        if everything:
            _check_made(report)
        self._loop.tell_failures(report)
        marks.append(self._loop.ticks())
        self._loop.took += marks[-1] - marks[0]
        look_again_at = report.retry_after(snapshot.now)
        look_again_at = min(look_again_at, snapshot.now + seconds_paused)
        self.again = look_again_at if look_again_at < inf else None
        stages = ("read", "build", "decide")
        seconds = {s: end - begin for s, begin, end in zip(stages, marks, marks[1:], strict=False)}
        if times is not None:
            times.stages(stages, marks)
        decided_effects = port.decided_on(objects, effects(snapshot, report, observes=self._observes(snapshot)))
        under_way = self.under_way
        while sum(cycle_writes.writes.waits() for cycle_writes in under_way) > _MOST_WRITES:
            next(pending for pending in under_way if pending.writes.waits()).writes.pause(_LOOK)
        self.conclude_ended()
        begun = self._loop.ticks()
        sent = self._loop.cluster.begin(decided_effects)
        at_once = sent.done() and not under_way
        under_way.append(_UnderWay(snapshot, report, objects, seconds, begun, decided_effects, sent, at_once, times))
        if not at_once and self._may_tell(report):
            # No one who waits is kept from the word by writes of others; whoever is being bound hears of it afterwards.
            complain(self._publish(snapshot, report, (), placed=frozenset(), waiting=True))
        self.conclude_ended()
        return True

    def write_usage(self) -> None:
        """Write down what is remembered of usage, for the next leader."""
        usage = self._turns.usage
        if not usage.at:
            return
        from tierwise.snapshot.usage import usage_effects  # few profiles remember

        objects = self._loop.cluster.read()
        snapshot = self._reader.read(objects, self._loop.clock(), self._turns)
        last = usage_effects(objects, snapshot, usage.now(snapshot.now), at_once=True)
        complain(self._loop.cluster.begin(last)())

    @property
    def pending(self) -> bool:
        """Whether outcomes are not known yet."""
        return bool(self.under_way or self.late or self._releases)

    def _observes(self, snapshot: Snapshot) -> bool:
        """Whether all that did not know of the held places is written: whoever holds them acts then."""
        unobserved = snapshot.held_places.unobserved
        if unobserved != self._unobserved:
            self._unobserved, self._unaware = unobserved, self._every_write() if unobserved else ()
        return all(writes.done() for writes in self._unaware)

    def _every_write(self) -> tuple[port.Begun, ...]:
        """All that is under way."""
        writes = [cycle.writes for cycle in self.under_way] + [job.writes for job in self.late]
        return (*writes, *(release_writes.writes for release_writes in self._releases))

    def conclude_ended(self) -> None:
        """See to what follows from effects that have ended: in the order of their cycles.

        Jobs whose writes nobody answers do not keep the others of their cycle waiting.
        """
        while self.under_way and not self.under_way[0].writes.waits():
            self.conclude_oldest()
        for pending in self.under_way:  # refused evictions are heard of at once: the next cycle must not repeat them
            if any(isinstance(effect, port.Evict) for effect in pending.asked):
                outcomes_so_far = (outcome for outcome in pending.writes.so_far() if outcome is not None)
                self._loop.refused.note(outcomes_so_far, self._loop.ticks())
        for ended in [pending for pending in self._releases if pending.writes.done()]:
            self._releases.remove(ended)
            self._see_to(partial(self._conclude_release, ended))
        for job in list(self.late):
            outcomes = job.ended()
            if outcomes is not None:
                self.late.remove(job)
                self._see_to(partial(self._conclude_late, job, outcomes))

    def conclude_all(self) -> None:
        """Wait for all that is under way, and see to what follows."""
        while self.pending:
            for writes in self._every_write():
                writes()
            self.conclude_ended()

    def conclude_oldest(self) -> None:
        """See to what follows from a cycle whose effects have ended, or of which those that have not are slow."""
        oldest = self.under_way.pop(0)
        so_far = oldest.writes() if oldest.writes.done() else oldest.writes.so_far()
        outcomes = [outcome for outcome in so_far if outcome is not None]
        if len(outcomes) < len(so_far):
            self.late += _late(oldest, so_far)
        applied = self._loop.ticks()
        self._note(oldest.objects, oldest.snapshot, outcomes, applied)
        self._see_to(partial(self._conclude, oldest, outcomes, applied))

    def _see_to(self, act: Callable[[], None]) -> None:
        """Do what follows from effects; an object that is in the way of that is set aside."""
        self._loop.guard.run("binding", self._loop.cluster.read(), lambda _: act(), self.rehearse)

    def _note(self, objects: port.Objects, snapshot: Snapshot, outcomes: Sequence[port.Outcome], now: float) -> None:
        """Remember what was refused, for the next cycles."""
        self._loop.refused.note(outcomes, now)
        self._refused_gangs.note(objects, snapshot, outcomes, now)

    def _conclude_late(self, job: _LateJob, outcomes: Sequence[port.Outcome]) -> None:
        """See to what follows from effects that were answered late."""
        self._note(job.objects, job.snapshot, outcomes, self._loop.ticks())
        report = amended(job.report, outcomes)
        released = self._publish(job.snapshot, report, outcomes, placed=frozenset((job.key,)), waiting=False)
        complain([*outcomes, *released])
        self._answered_late += [*outcomes, *released]

    def _conclude_release(self, pending: _Release) -> None:
        """See to what follows from marks that are written, and from evictions of gangs that are a part.

        Where a mark is still under way since an earlier cycle, its status waits for that: it is asked for again.
        """
        outcomes = pending.writes()
        self._loop.refused.note(outcomes, self._loop.ticks())
        unwritten = set()
        for outcome in outcomes:
            if outcome.withheld:
                unwritten.add(port.about(outcome.effect))
        behind = [status for status in pending.behind if status.key not in unwritten]
        self._loop.cluster.tell([*behind, *_told(pod_events(pending.snapshot, outcomes))])
        complain(outcomes)
        self._answered_late += outcomes

    def _conclude(self, ended: _UnderWay, done: Sequence[port.Outcome], applied: float) -> None:
        """See to what follows from the outcomes of a cycle: statuses and events, and the observers."""
        snapshot = ended.snapshot
        outcomes = list(done)
        report = amended(ended.report, outcomes)
        waiting = ended.at_once and self._may_tell(report)
        outcomes += self._publish(snapshot, report, outcomes, placed=ended.jobs, waiting=waiting)
        complain(outcomes)
        outcomes = [*outcomes, *self._answered_late]
        self._answered_late = []
        published = self._loop.ticks()
        seconds = ended.seconds | {"apply": applied - ended.begun, "publish": published - applied}
        if ended.times is not None:
            ended.times.stages(("apply", "publish"), (ended.begun, applied, published))
        drift = self._drift(ended.objects, snapshot)
        profile_now = self._own
        seen = ended.objects
        loop_pass = LoopPass(
            snapshot,
            report,
            outcomes,
            profile_now.profile,
            seconds,
            drift,
            seen,
            ended.report,
            ended.times,
            profile_now.schedulers,
        )
        for observer in self._loop.observers:
            self._loop.guard.call("telling of an iteration", partial(observer.saw, loop_pass))

    def _drift(self, objects: port.Objects, snapshot: Snapshot) -> list[str] | None:
        """Now and then: where the snapshot differs from a fresh one, which takes its place then."""
        if self._loop.ticks() - self._checked < _CHECK:
            return None
        self._checked = self._loop.ticks()
        fresh = self._new_reader()
        changed = differences(snapshot, fresh.read(objects, snapshot.now))
        if changed:
            log.error("the snapshot had drifted from its objects, and was read again: %s", ", ".join(changed[:_SHOWN]))
            self._reader = fresh
        return changed

    def _may_tell(self, report: CycleReport) -> bool:
        """Whether it is time to tell all who wait; where it is not, an iteration comes when it is.

        Where the next cycle follows at once, statuses wait for it: it asks for those again that still hold.
        """
        pause = _UNTOLD if report.unfinished else min(_UNTOLD, _SHARE * self._telling)
        seconds_left = self._published + pause - self._loop.ticks()
        if seconds_left > 0.0 and not report.unfinished:
            self._look_again(self._loop.clock() + seconds_left)
        return seconds_left <= 0.0

    def _look_again(self, at: float) -> None:
        planned = self.again
        self.again = at if planned is None else min(at, planned)

    def _publish(
        self,
        snapshot: Snapshot,
        report: CycleReport,
        outcomes: Sequence[port.Outcome],
        *,
        placed: frozenset[str],
        waiting: bool,
    ) -> list[port.Outcome]:
        """Status, conditions and events of jobs that were `placed` or were to be, and of all others that are `waiting`.

        With these, gangs that stay a part are released. Nothing is told of jobs whose effects are under way. What
        became of the releases, as far as that is known.
        """
        objects = self._loop.guard.over(self._loop.cluster.read())
        begun = self._loop.ticks()
        by = ""
        effects: list[port.Effect] = []
        released: port.Begun = port.Ended(())
        later: set[port.Key] = set()
        under_way = frozenset([job.key for job in self.late]).union(
            *(under_way_cycle.jobs for under_way_cycle in self.under_way)
        )
        if waiting:
            fresh = self._fresh(snapshot, report)
            statuses = self._statuses
            conditions = self._conditions
            effects += statuses.write(objects, snapshot, _without(report, fresh), under_way, _MOST_TOLD)
            effects += conditions.write(objects, snapshot, report, fresh, _MOST_TOLD)
            if statuses.choice.left or conditions.choice.left:
                self._look_again(self._loop.clock() + _TOLD_IN)
            released, later = self._release(objects, snapshot, report, besides=under_way)
            by = self._name
            self._published = self._loop.ticks()
            self._telling = self._published - begun
        elif placed:
            decided_jobs = placed - under_way
            effects += self._statuses.write_some(objects, snapshot, report, decided_jobs)
            refused = {key: rejection for key, rejection in report.rejections.items() if key in decided_jobs}
            if refused:  # a gang of which a part runs is marked before it is told so
                effects += pod_conditions(objects, snapshot, replace(report, rejections=refused))
                released, later = self._release(objects, snapshot, report, refused)
            if report.unfinished:
                effects = [effect for effect in effects if not _waits(effect)]
        # A mark must stand before the status that makes its gang queue again: that waits with it.
        behind = [effect for effect in effects if isinstance(effect, port.PatchStatus) and effect.key in later]
        effects = [effect for effect in effects if not (isinstance(effect, port.PatchStatus) and effect.key in later)]
        released_outcomes: list[port.Outcome] = []
        if released.done():
            released_outcomes += released()
        else:
            self._releases.append(_Release(snapshot, released, behind))
        effects += pod_events(snapshot, [*outcomes, *released_outcomes])
        statuses_told = _told(effects)
        self._loop.cluster.tell(statuses_told, by)
        if len(statuses_told) < len(effects):
            changes = [effect for effect in effects if not isinstance(effect, port.PatchStatus | port.RecordEvent)]
            self._loop.cluster.begin(changes)
        return released_outcomes

    def _release(
        self,
        objects: port.Objects,
        snapshot: Snapshot,
        report: CycleReport,
        whose: Container[str] | None = None,
        besides: Container[str] = (),
    ) -> tuple[port.Begun, set[port.Key]]:
        """Release gangs that stay a part; and the objects about which something is not done yet.

        Gangs whose effects are under way are left as they are (`besides`): a mark says since when one of them is a
        part, and is taken away once it is known that it is whole.
        """
        name = partial(decision_id, snapshot.now)
        effects = release(objects, snapshot, report, name, self._marks, whose, besides)
        back = fairly(effects, self._loop.most_writes)
        self._loop.unfinished = self._loop.unfinished or len(back) < len(effects)
        begun = self._loop.cluster.begin(port.decided_on(objects, back))
        done = (
            {port.about(written.effect) for written in begun() if not written.withheld}
            if begun.done()
            else set[port.Key]()
        )
        return begun, {port.about(effect) for effect in effects} - done

    def _fresh(self, snapshot: Snapshot, report: CycleReport) -> set[str]:
        """Gangs that are told nothing yet: the group is not known, or too few pods of it are, and has
        not been so for long with as many pods as now. The next iteration comes when the first of them has been.
        """
        arriving = {port.lone_gang(path): 1 for path in snapshot.orphans}  # with how many pods
        for job in snapshot.waiting:
            rejection = report.rejections.get(job.key)
            if rejection is not None and rejection.reason.code in LACKS_PODS:
                arriving[job.key] = len(job.tasks)
        now = self._loop.ticks()
        before = self._arriving
        known = {}
        for key, pods in arriving.items():
            known[key] = before[key] if key in before and before[key][0] == pods else (pods, now)
        self._arriving = known
        fresh = {key for key in arriving if now - known[key][1] < _ON_ITS_WAY}
        if fresh:
            self._look_again(self._loop.clock() + _ON_ITS_WAY - (now - min(known[key][1] for key in fresh)))
        return fresh


def _late(cycle: _UnderWay, outcomes: Sequence[port.Outcome | None]) -> list[_LateJob]:
    """The jobs of a cycle of which outcomes are not known yet, each by itself."""
    numbers: dict[str, list[int]] = {}
    for number, effect in enumerate(cycle.asked):
        numbers.setdefault(port.gang_of(effect), []).append(number)
    late: list[_LateJob] = []
    for key, effect_numbers in numbers.items():
        if any(outcomes[number] is None for number in effect_numbers):
            decisions = tuple(decision for decision in cycle.report.decisions if decision.job.key == key)
            rejections = {job: rejection for job, rejection in cycle.report.rejections.items() if job == key}
            report = replace(cycle.report, decisions=decisions, rejections=rejections)
            late.append(_LateJob(key, cycle.snapshot, cycle.objects, report, cycle.writes, tuple(effect_numbers)))
    return late


def _without(report: CycleReport, fresh: Container[str]) -> CycleReport:
    """A report that says nothing about these jobs."""
    if not any(key in fresh for key in report.rejections):
        return report
    return replace(
        report, rejections={key: rejection for key, rejection in report.rejections.items() if key not in fresh}
    )


def _told(effects: Sequence[port.Effect]) -> list[port.PatchStatus | port.RecordEvent]:
    """Status patches and events among the effects, which are written after everything else."""
    return [effect for effect in effects if isinstance(effect, port.PatchStatus | port.RecordEvent)]


def _waits(effect: port.Effect) -> bool:
    """Whether a later cycle would ask for the same: statuses, and what goes wrong as long as it does."""
    return isinstance(effect, port.PatchStatus) or (isinstance(effect, port.RecordEvent) and effect.type == "Warning")


class _PluginNotMadeError(Exception):
    """The constructor of a plugin raised."""


def _check_made(report: CycleReport) -> None:
    for failure in report.failures:
        if failure.method == "__init__":
            raise _PluginNotMadeError(failure.text)


def fairly(effects: list[port.Effect], limit: int) -> list[port.Effect]:
    """As many effects, of each namespace in turn and of each in its order; those that are left are asked for again."""
    if len(effects) <= limit:
        return effects
    rows: Outbox[int, port.Effect] = Outbox(len(effects))
    for number, effect in enumerate(effects):
        rows.put(port.about(effect).namespace, number, effect)
    return [effects[number] for number in sorted(rows.take()[1] for _ in range(limit))]


def complain(outcomes: Sequence[port.Outcome]) -> None:
    """Log what failed."""
    for outcome in outcomes:
        if not outcome.ok and not outcome.withheld:
            log.warning("%s %s failed: %s", type(outcome.effect).__name__, port.about(outcome.effect), outcome.error)
