"""The main loop: wait for a change or a timeout, run the controllers, run a cycle, apply effects, publish status.

It knows the `Cluster` interface only, so it also runs on the embedded cluster. Each turn is complete in itself: a
process holds no state that is not in the cluster, so nothing is lost when it ends.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import msgspec
from msgspec.structs import replace

from tierwise import controllers
from tierwise.actions.diagnosis.verdicts import LACKS_PODS
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.message import decision_id
from tierwise.framework.declaration import Idle
from tierwise.framework.extension import Factory
from tierwise.framework.registry import extended
from tierwise.framework.report import CycleReport
from tierwise.kube.outbox import Outbox
from tierwise.model.snapshot import Snapshot
from tierwise.plugins import PLUGINS
from tierwise.port import (
    Begun,
    Bind,
    Cluster,
    Create,
    Delete,
    Effect,
    Ended,
    Evict,
    Key,
    Nominate,
    Objects,
    Outcome,
    PatchStatus,
    Prepare,
    RecordEvent,
    Update,
    Version,
    decided_on,
    key_of_raw,
    lone_gang,
)
from tierwise.runtime.topology_sources import Fetching
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import amended, effects
from tierwise.scheduler.guard import Crash, Guard
from tierwise.scheduler.partial_gangs import Marks, release
from tierwise.snapshot.builder import Reader
from tierwise.snapshot.consistency import differences
from tierwise.status.pod import ConditionWriter, pod_conditions, pod_events
from tierwise.status.pod_group import StatusWriter, statuses

if TYPE_CHECKING:
    from tierwise.runtime.defrag import DefragController

__all__ = ["Loop", "LoopPass", "Observer", "RefusedEvictions", "SchedulerProfile"]


# Pods that could not be evicted: spared for a while, so that the next plan is another one.
#
# A disruption budget may refuse what the scheduler has planned, and the same cluster would give the same plan again.
# The pod is read as marked not to be evicted until some time has passed; then the answer may be another one.


_LONG: Final = 60.0
_MARK: Final = "volcano.sh/preemptable"


class RefusedEvictions:
    """Who is spared until when; times are of a clock that never jumps."""

    def __init__(self) -> None:
        self._until: dict[Key, float] = {}

    def note(self, outcomes: Iterable[Outcome], now: float) -> None:
        """Remember evictions that failed; what was withheld, nobody has refused."""
        for outcome in outcomes:
            if isinstance(outcome.effect, Evict) and not outcome.ok and not outcome.withheld:
                self._until[outcome.effect.pod] = now + _LONG

    def over(self, objects: Objects, now: float) -> Objects:
        """The objects as the scheduler is to read them."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        spared = {}
        for key in self._until:
            pod = objects.record(key)
            if isinstance(pod, Pod):
                marks = {**pod.metadata.annotations, _MARK: "false"}
                spared[key] = replace(pod, metadata=replace(pod.metadata, annotations=marks)), None
        return objects.updated(spared, (), objects.version) if spared else objects


log = logging.getLogger(__name__)

_MOST: Final = 20
"""Passes of the controllers in one turn: what they still want then has its place in the next one."""

_MOST_WRITES: Final = 500
"""Writes of controllers in one turn, and of marks and evictions behind it, of all namespaces in turn: a tenant with
thousands of pods does not hold it up."""


_MOST_FAILURES: Final = 1000
"""Ways in which plugins fail that are told of; the metric counts all of them."""

_ABOUT_PLUGINS: Final = Key("", "Namespace", "", "default")
"""What an event about a plugin is attached to: plugins are no objects of the cluster."""

_LEAST: Final = 0.2
"""Seconds between two turns that only time brings about."""

_LULL: Final = 0.01
"""Seconds without a change after which what comes together is taken to have come."""

_CHECK: Final = 1800.0
"""Seconds between two checks of the snapshot against one of everything read anew."""

_SHOWN: Final = 5

_MOST_PODS: Final = 2000
"""Pods that one cycle places before it leaves the rest to the next: their binds are sent in between."""

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

_MOST_BINDS: Final = 256
"""Binds under way beyond which the next are not sent before the oldest have ended."""

_LOOK: Final = 0.01
"""Seconds between two looks whether binds that are under way have ended, where nothing else happens."""

_NEVER: Final = Version(2**62)
"""To wait for the time alone."""

_ON_ITS_WAY: Final = 2.0
"""Seconds for which the podGroup that a pod names, or the rest of its gang, may be on its way before the pod is told
that it is missing.

Pods and podGroups are watched apart, so either may be known first; and the pods of a gang are made one by one, so all
of them would be told with each of them how many there are.
"""


class SchedulerProfile(msgspec.Struct, frozen=True):
    """Whose pods are scheduled, and how."""

    schedulers: frozenset[str]
    profile: Profile


class LoopPass(msgspec.Struct, frozen=True):
    """One cycle as it went: what it saw, what it decided by which profile, what came of it, and the seconds it took."""

    snapshot: Snapshot
    report: CycleReport
    outcomes: Sequence[Outcome]
    profile: Profile
    seconds: dict[str, float] = {}
    drift: list[str] | None = None  # what was kept wrongly since earlier turns; None where this one did not look
    objects: Objects | None = None  # what the snapshot was read from
    decided: CycleReport | None = None  # the report before the outcomes changed it


class _UnderWay(msgspec.Struct, frozen=True):
    """A cycle whose binds were begun and are still under way."""

    snapshot: Snapshot
    report: CycleReport
    objects: Objects
    seconds: dict[str, float]
    begun: float  # by a clock that never jumps
    pods: int  # that are being bound
    binds: Begun
    at_once: bool  # nothing was waited for: all is told together

    @property
    def jobs(self) -> frozenset[str]:
        """Whom it has placed."""
        return frozenset([decision.job.key for decision in self.report.decisions])


class Observer(Protocol):
    """Somebody who is told of each turn: metrics, logs, a page."""

    def saw(self, turn: LoopPass) -> None:
        """Called after the turn's effects were applied."""

    def crashed(self, crash: Crash) -> None:
        """Called when a stage has raised, with the object that was set aside for it."""


class Loop:
    """Controllers and scheduler on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        duties: Sequence[SchedulerProfile],
        *,
        clock: Callable[[], float],
        ticks: Callable[[], float],
        with_controllers: bool = True,
        fetching: Fetching | None = None,
        defrag: DefragController | None = None,
        observers: Sequence[Observer] = (),
        most_pods: int | None = _MOST_PODS,
        most_writes: int = _MOST_WRITES,
    ) -> None:
        """`clock` gives seconds since the epoch, `ticks` seconds that never jump; `fetching` goes with controllers,
        `defrag` with the scheduler. A cycle places `most_pods` at most, controllers write `most_writes` before it, and
        the next turn follows at once.
        """
        self._cluster = cluster
        self._duties = duties
        self._clock = clock
        self._ticks = ticks
        self._with_controllers = with_controllers
        self._fetching = fetching
        self._defrag = defrag
        self._observers = observers
        self._profile = duties[0].profile if duties else DEFAULT
        self._controllers = controllers.Controllers(self._profile)
        self._most_writes = most_writes
        self._reconciled: list[Effect] = []  # what controllers last asked for, and was done
        self._refused = RefusedEvictions()
        self._guard = Guard(ticks, self._crashed)
        self._untold: list[RecordEvent] = []  # events about objects that were set aside, and about plugins
        self._failed: set[tuple[str, str, str]] = set()  # plugin, method and error that people were told of
        self._readers = [Reader(duty.profile, schedulers=duty.schedulers) for duty in duties]
        self._statuses = [StatusWriter() for _ in duties]
        self._conditions = [ConditionWriter() for _ in duties]
        self._marks = [Marks() for _ in duties]
        self._arriving: list[dict[str, tuple[int, float]]] = [{} for _ in duties]  # see `_fresh`
        self._again: list[float | None] = [None for _ in duties]  # when time alone lets a cycle decide otherwise
        self._checked = [ticks()] * len(duties)  # when each was last compared with a fresh one
        self._most_pods = most_pods
        self._under_way: list[list[_UnderWay]] = [[] for _ in duties]  # the oldest first
        self._idle: dict[str, float] = {}  # plugins that are left out, and until when
        self.computing: tuple[str, float] | None = None  # the stage that computes, since when: a watchdog looks
        self._published = [ticks()] * len(duties)  # when each last told all statuses
        self._telling = [0.0] * len(duties)  # how long that took
        self._took = 0.0  # seconds that the last turn read and decided for
        self.unfinished = False  # whether the last turn left jobs to the next one
        self.turned = ticks()  # when the last turn ended

    def leave_out_plugin(self, name: str, why: str, seconds: float) -> None:
        """Decide without a plugin of another package for a while, and tell the cluster's operators."""
        self._idle[name] = self._ticks() + seconds
        self._untold.append(RecordEvent(_ABOUT_PLUGINS, "Warning", "PluginLeftOut", why))

    def _plugins(self) -> Mapping[str, Factory]:
        """What names of plugins mean now."""
        idle = [name for name, until in self._idle.items() if self._ticks() < until]
        return extended(PLUGINS, dict.fromkeys(idle, lambda arguments, view: Idle())) if idle else PLUGINS

    def set_aside(self, key: Key, why: str, seconds: float) -> None:
        """Leave an object out for a while."""
        self._guard.set_aside("scheduling", key, why, seconds)

    @contextlib.contextmanager
    def _computes(self, stage: str, since: float | None = None) -> Iterator[None]:
        """Something is computed, and nothing waited for: a watchdog may look how long it takes."""
        self.computing = stage, self._ticks() if since is None else since
        try:
            yield
        finally:
            self.computing = None

    def warm_up(self) -> None:
        """Decide about an empty cluster, so that plugins are imported before the first pods wait for them."""
        for index, _ in enumerate(self._duties):
            self._guard.call("starting", partial(self._rehearse, index, Objects()))

    def run(self, *, period: float, rest: float, stopping: Callable[[], bool], may: Callable[[], bool]) -> None:
        """Turn after every change, and at least once in `period` seconds, until stopped.

        A turn waits while more changes come, `rest` seconds at most.
        """
        try:
            self._run(period, rest, stopping, may)
        finally:
            self._conclude_all()

    def _run(self, period: float, rest: float, stopping: Callable[[], bool], may: Callable[[], bool]) -> None:
        seen = Version(-1)
        while not stopping():
            # Without the lease there is nothing to do at any time; getting the lease counts as a change.
            goes_on = self.unfinished and may()
            version = self._wait(seen, 0.0 if goes_on else self._wait_time(period) if may() else period)
            if stopping():
                return
            if version != seen >= 0 and not goes_on:
                self._let_come(version, rest)
            # Noted before reading, so that what changes from here on brings another turn.
            seen = version
            if may():
                self._turn()
            else:
                self._conclude_all()
                self.turned = self._ticks()

    def _wait(self, seen: Version, timeout: float) -> Version:
        """Wait for a change, and see to binds as they end."""
        while any(self._under_way) and timeout > _LOOK:
            version = self._cluster.wait(seen, _LOOK)
            for index, _ in enumerate(self._under_way):
                self._guard.call("binding", partial(self._conclude_ended, index))
            self._tell_of_crashes()
            if version != seen:
                return version
            timeout -= _LOOK
        return self._cluster.wait(seen, timeout)

    def _let_come(self, version: Version, rest: float) -> None:
        """What comes together is decided together: a gang's pods arrive one by one. `rest` seconds at most.

        The longer reading and deciding took the last time, the longer must nothing come: else a large cluster in which
        something changes all the time would be read all the time. Where changes come without end, twice that is enough.
        """
        lull = min(rest, max(_LULL, self._took))
        left = min(rest, 2 * lull)
        while left > 0.0:
            latest = self._cluster.wait(_NEVER, min(lull, left))
            if latest == version:
                return
            version, left = latest, left - lull

    def _wait_time(self, period: float) -> float:
        """How long to wait for a change: until time alone gives a controller or a cycle something to do."""
        moments = list(self._again)
        if self._defrag is not None:
            moments.append(self._guard.call("waiting", self._defrag.due))
        if self._with_controllers:
            objects, fetching = self._guard.over(self._cluster.read()), self._fetching
            moments.append(self._guard.call("waiting", partial(self._controllers.due, objects)))
            if fetching is not None:
                moments.append(self._guard.call("waiting", partial(fetching.due, objects)))
        due = min((moment for moment in moments if moment is not None), default=None)
        # What could not be done at its time is tried again soon, but not without a pause.
        return period if due is None else max(_LEAST, min(period, due - self._clock()))

    def run_once(self) -> None:
        """Everything once; all of it has happened then."""
        self._turn()
        self._conclude_all()

    def _turn(self) -> None:
        """Controllers, scheduler and defragmentation; binds may still be under way after it."""
        guard, more = self._guard, False
        if self._with_controllers:
            if self._fetching is not None:
                guard.call("fetching", self._fetch)
            more = bool(guard.call("reconciling", self._reconcile))
        self.unfinished, self._took = False, 0.0
        for index in range(len(self._duties)):
            rehearse = partial(self._rehearse, index)
            if not guard.run("scheduling", self._cluster.read(), partial(self._schedule, index), rehearse):
                # No object is to blame: where a plugin cannot be made, its jobs wait and say so.
                guard.run("scheduling", self._cluster.read(), partial(self._schedule, index, whole=False), rehearse)
        self.unfinished = self.unfinished or more
        if self._defrag is not None:
            self._conclude_all()
            guard.call("defragmenting", self._defrag.step)
        self._tell_of_crashes()
        self.turned = self._ticks()

    def _tell_of_crashes(self) -> None:
        events, self._untold = self._untold, []
        if events:
            self._cluster.tell(events)

    def _crashed(self, crash: Crash) -> None:
        """Say it: in the log with its trace the first time, in the metrics, and to the owner of the object."""
        if crash.times == 1:
            log.error("%s: %s\n%s", crash.fault.subject, crash.text, crash.traceback)
        else:
            log.error("%s: %s (%d times)", crash.fault.subject, crash.text, crash.times)
        for observer in self._observers:
            observer.crashed(crash)
        if crash.event is not None:
            self._untold.append(crash.event)

    def _tell_failures(self, report: CycleReport) -> None:
        """Report each kind of plugin failure once: in the log with its traceback, and as an event.

        Jobs that wait because of it get it as their reason; the event is for the cluster's operators.
        """
        for failure in report.failures:
            told = failure.plugin, failure.method, failure.error
            if told not in self._failed and len(self._failed) < _MOST_FAILURES:
                self._failed.add(told)
                log.error("%s%s", failure.text, f"\n{failure.traceback}" if failure.traceback else "")
                self._untold.append(RecordEvent(_ABOUT_PLUGINS, "Warning", "PluginFailed", failure.text))

    def _fetch(self) -> None:
        assert self._fetching is not None
        _complain(self._cluster.apply(self._fetching.step(self._cluster.read())))

    def _reconcile(self) -> bool:
        """The controllers until they have nothing more to do; what failed is tried again in the next turn.

        Whether they left something to do for a turn that follows at once: beyond so many writes a cycle comes first.
        """
        left = self._most_writes
        done, self._reconciled = self._reconciled, []
        for _ in range(_MOST):
            now, read = self._clock(), self._cluster.read()
            act = partial(self._controllers.run, now=now)
            rehearse = partial(controllers.run, now=now, profile=self._profile)
            with self._computes("reconciling"):
                asked = self._guard.run("reconciling", read, act, rehearse)
            if not asked:
                return False
            asked = _in_turn(asked, left)
            if asked == done:
                # The server keeps something else than what was written; writing it again would change nothing.
                log.error("%s was done, and is asked for again", _named(asked[0]))
                return False
            outcomes = self._cluster.apply(decided_on(read, asked))
            _complain(outcomes)
            if not any(outcome.ok for outcome in outcomes):
                return False
            done, left = asked, left - len(asked)
            if left <= 0:
                self._reconciled = done
                return True
        return False

    def _rehearse(self, index: int, objects: Objects) -> None:
        """Everything that a turn computes, anew and without effects: raises where an object makes the turn raise."""
        with self._computes("scheduling"):
            self._rehearse_whole(index, objects)

    def _rehearse_whole(self, index: int, objects: Objects) -> None:
        duty, now = self._duties[index], self._clock()
        self._readers[index] = Reader(duty.profile, schedulers=duty.schedulers)  # the old one broke off half-way
        self._statuses[index], self._conditions[index] = StatusWriter(), ConditionWriter()
        snapshot = Reader(duty.profile, schedulers=duty.schedulers).read(objects, now)
        report = cycle(snapshot, duty.profile, plugins=self._plugins())
        _check_made(report)
        effects(snapshot, report)
        statuses(objects, snapshot, report)
        pod_conditions(objects, snapshot, report)
        release(objects, snapshot, report, partial(decision_id, now))

    def _schedule(self, index: int, objects: Objects, *, whole: bool = True) -> bool:
        """One cycle and all that follows from it. `whole` raises where a plugin cannot be made.

        An object may have kept it from being made: then the guard finds that one, and the others are served.
        """
        duty = self._duties[index]
        marks = [self._ticks()]
        objects = self._refused.over(objects, self._ticks())
        marks.append(self._ticks())
        with self._computes("scheduling", marks[-1]):
            snapshot = self._readers[index].read(objects, self._clock())
            marks.append(self._ticks())
            report = cycle(snapshot, duty.profile, most_pods=self._most_pods, plugins=self._plugins())
        self.unfinished = self.unfinished or report.unfinished
        if whole:
            _check_made(report)
        self._tell_failures(report)
        marks.append(self._ticks())
        self._took += marks[-1] - marks[0]
        # What lies behind this cycle it has decided with: nothing comes of asking again.
        self._again[index] = min((at for at in report.delays.values() if at > snapshot.now), default=None)
        seconds = {s: end - begin for s, begin, end in zip(("read", "build", "decide"), marks, marks[1:], strict=False)}
        asked = decided_on(objects, effects(snapshot, report))
        binds, under_way = [effect for effect in asked if isinstance(effect, Bind)], self._under_way[index]
        alone = len(binds) == len(asked)
        # What is more than binds may build on all that was asked for before.
        while under_way and not (alone and sum(turn.pods for turn in under_way) <= _MOST_BINDS):
            self._conclude_oldest(index)
        begun = self._ticks()
        sent = self._cluster.begin(binds) if binds and alone else Ended(self._cluster.apply(asked))
        at_once = sent.done() and not under_way
        under_way.append(_UnderWay(snapshot, report, objects, seconds, begun, len(binds), sent, at_once))
        if not at_once and self._may_tell(index, report):
            # Nobody who waits is kept from the word by binds of others; whoever is being bound hears when that is done.
            _complain(self._publish(index, snapshot, report, (), placed=frozenset(), waiting=True))
        self._conclude_ended(index)
        return True

    def _conclude_all(self) -> None:
        """Wait for all binds that are under way, and see to what follows from them."""
        for index, under_way in enumerate(self._under_way):
            while under_way:
                self._guard.call("binding", partial(self._conclude_oldest, index))
        self._tell_of_crashes()

    def _conclude_ended(self, index: int) -> None:
        """See to what follows from binds that have ended: in the order of their cycles."""
        while self._under_way[index] and self._under_way[index][0].binds.done():
            self._conclude_oldest(index)

    def _conclude_oldest(self, index: int) -> None:
        """Wait for the binds of a cycle, and see to what follows; an object that is in the way of that is set aside."""
        turn = self._under_way[index].pop(0)
        outcomes = turn.binds()
        applied = self._ticks()
        self._refused.note(outcomes, applied)
        act = partial(self._conclude, index, turn, outcomes, applied)
        self._guard.run("binding", self._cluster.read(), lambda _: act(), partial(self._rehearse, index))

    def _conclude(self, index: int, turn: _UnderWay, done: Sequence[Outcome], applied: float) -> None:
        """See to what follows from the outcomes of a cycle: statuses and events, and who is told of the turn."""
        snapshot, outcomes, duty = turn.snapshot, list(done), self._duties[index]
        report = amended(turn.report, outcomes)
        waiting = turn.at_once and self._may_tell(index, report)
        outcomes += self._publish(index, snapshot, report, outcomes, placed=turn.jobs, waiting=waiting)
        _complain(outcomes)
        seconds = turn.seconds | {"apply": applied - turn.begun, "publish": self._ticks() - applied}
        drift = self._drift(index, turn.objects, snapshot)
        told = LoopPass(snapshot, report, outcomes, duty.profile, seconds, drift, turn.objects, turn.report)
        for observer in self._observers:
            self._guard.call("telling of a turn", partial(observer.saw, told))

    def _drift(self, index: int, objects: Objects, snapshot: Snapshot) -> list[str] | None:
        """Now and then: what the snapshot tells otherwise than one of everything read anew; who differs starts anew."""
        if self._ticks() - self._checked[index] < _CHECK:
            return None
        self._checked[index] = self._ticks()
        duty = self._duties[index]
        fresh = Reader(duty.profile, schedulers=duty.schedulers)
        found = differences(snapshot, fresh.read(objects, snapshot.now))
        if found:
            log.error("the snapshot had drifted from its objects, and was read anew: %s", ", ".join(found[:_SHOWN]))
            self._readers[index] = fresh
        return found

    def _may_tell(self, index: int, report: CycleReport) -> bool:
        """Whether it is time to tell all who wait; where it is not, a turn comes when it is.

        Where the next cycle follows at once, statuses wait for it: it asks for those again that still hold.
        """
        rest = _UNTOLD if report.unfinished else min(_UNTOLD, _SHARE * self._telling[index])
        left = self._published[index] + rest - self._ticks()
        if left > 0.0 and not report.unfinished:
            self._turn_again(index, self._clock() + left)
        return left <= 0.0

    def _turn_again(self, index: int, at: float) -> None:
        again = self._again[index]
        self._again[index] = at if again is None else min(at, again)

    def _publish(
        self,
        index: int,
        snapshot: Snapshot,
        report: CycleReport,
        outcomes: Sequence[Outcome],
        *,
        placed: frozenset[str],
        waiting: bool,
    ) -> list[Outcome]:
        """Status, conditions and events of jobs that were `placed` or were to be, and of all others that are `waiting`.

        With these, gangs that stay a part are released. Nothing is told of jobs whose binds are under way.
        """
        objects, begun, by = self._guard.over(self._cluster.read()), self._ticks(), ""
        asked: list[Effect] = []
        released: list[Outcome] = []
        later: set[Key] = set()
        under_way = frozenset().union(*(turn.jobs for turn in self._under_way[index]))
        if waiting:
            fresh, statuses, conditions = (
                self._fresh(index, snapshot, report),
                self._statuses[index],
                self._conditions[index],
            )
            asked += statuses.write(objects, snapshot, _without(report, fresh), under_way, _MOST_TOLD)
            asked += conditions.write(objects, snapshot, report, fresh, _MOST_TOLD)
            if statuses.left or conditions.left:
                self._turn_again(index, self._clock() + _TOLD_IN)
            released, later = self._release(index, objects, snapshot, report)
            by, self._published[index] = str(index), self._ticks()
            self._telling[index] = self._published[index] - begun
        elif placed:
            own = placed - under_way
            asked += self._statuses[index].write_some(objects, snapshot, report, own)
            refused = {key: said for key, said in report.rejections.items() if key in own}
            if refused:  # a gang that stands in part is marked before it is told so
                asked += pod_conditions(objects, snapshot, replace(report, rejections=refused))
                released, later = self._release(index, objects, snapshot, report, refused)
            if report.unfinished:
                asked = [effect for effect in asked if not _waits(effect)]
        # A mark must stand before the status that makes its gang queue again: that waits with it.
        asked = [effect for effect in asked if not (isinstance(effect, PatchStatus) and effect.key in later)]
        asked += pod_events(snapshot, [*outcomes, *released])
        told = [effect for effect in asked if isinstance(effect, PatchStatus | RecordEvent)]
        self._cluster.tell(told, by)
        if len(told) < len(asked):
            self._cluster.apply([effect for effect in asked if not isinstance(effect, PatchStatus | RecordEvent)])
        return released

    def _release(
        self,
        index: int,
        objects: Objects,
        snapshot: Snapshot,
        report: CycleReport,
        whose: Container[str] | None = None,
    ) -> tuple[list[Outcome], set[Key]]:
        """Release gangs that stay a part; and about whom something is left to do in a turn that follows at once."""
        wanted = release(objects, snapshot, report, partial(decision_id, snapshot.now), self._marks[index], whose)
        back = _in_turn(wanted, self._most_writes)
        self.unfinished = self.unfinished or len(back) < len(wanted)
        outcomes = self._cluster.apply(decided_on(objects, back))
        return list(outcomes), {_about(effect) for effect in wanted} - {_about(effect) for effect in back}

    def _fresh(self, index: int, snapshot: Snapshot, report: CycleReport) -> set[str]:
        """Gangs that are told nothing yet: the group is not known, or too few pods of it are, and has
        not been so for long with as many pods as now. The next turn comes when the first of them has been.
        """
        arriving = {lone_gang(path): 1 for path in snapshot.orphans}  # with how many pods
        for job in snapshot.waiting:
            rejection = report.rejections.get(job.key)
            if rejection is not None and rejection.reason.code in LACKS_PODS:
                arriving[job.key] = len(job.tasks)
        now, last, known = self._ticks(), self._arriving[index], {}
        for key, pods in arriving.items():
            known[key] = last[key] if key in last and last[key][0] == pods else (pods, now)
        self._arriving[index] = known
        fresh = {key for key in arriving if now - known[key][1] < _ON_ITS_WAY}
        if fresh:
            self._turn_again(index, self._clock() + _ON_ITS_WAY - (now - min(known[key][1] for key in fresh)))
        return fresh


def _in_turn(effects: list[Effect], most: int) -> list[Effect]:
    """As many effects, of each namespace in turn and of each in its order; those that are left are asked for again."""
    if len(effects) <= most:
        return effects
    rows: Outbox[int, Effect] = Outbox(len(effects))
    for number, effect in enumerate(effects):
        rows.put(_about(effect).namespace, number, effect)
    return [effects[number] for number in sorted(rows.take()[0] for _ in range(most))]


def _without(report: CycleReport, fresh: Container[str]) -> CycleReport:
    """A report that says nothing about these jobs."""
    if not any(key in fresh for key in report.rejections):
        return report
    return replace(report, rejections={key: said for key, said in report.rejections.items() if key not in fresh})


def _waits(effect: Effect) -> bool:
    """Whether a later cycle would ask for the same: statuses, and what goes wrong as long as it does."""
    return isinstance(effect, PatchStatus) or (isinstance(effect, RecordEvent) and effect.type == "Warning")


class _PluginNotMadeError(Exception):
    """The constructor of a plugin raised."""


def _check_made(report: CycleReport) -> None:
    for failure in report.failures:
        if failure.method == "__init__":
            raise _PluginNotMadeError(failure.text)


def _complain(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.ok and not outcome.withheld:
            log.warning("%s failed: %s", _named(outcome.effect), outcome.error)


def _named(effect: Effect) -> str:
    """An effect without the manifest that it may carry."""
    return f"{type(effect).__name__} {_about(effect)}"


def _about(effect: Effect) -> Key:
    match effect:
        case Create(raw):
            return key_of_raw(raw)
        case Bind() | Evict() | Nominate():
            return effect.pod
        case RecordEvent():
            return effect.about
        case Update() | Delete() | PatchStatus() | Prepare():
            return effect.key
        case _:
            assert_never(effect)
