"""Simulate submitted jobs from start to end: controllers, scheduler and kubelets on one cluster with a virtual clock.

At each moment everything that follows from the current state happens, until nothing changes; then the clock jumps to
the next moment at which something will. Nothing sleeps: the caller decides how fast the run is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from tierwise.api.codec import Object
from tierwise.api.core import Node, Pod
from tierwise.api.errors import InputError, suggestion
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.volcano import Job, PodGroup
from tierwise.config.profile import Profile
from tierwise.controllers.job import KeySource
from tierwise.dialects.pod_marks import group_of
from tierwise.explain.timeline import TimelineEntry
from tierwise.framework.extension import Factory
from tierwise.framework.report import CycleReport
from tierwise.model.job import Phase
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.plugins import PLUGINS
from tierwise.port import Bind, Effect, Key, Objects, Outcome, PatchStatus, RecordEvent
from tierwise.scheduler.cycle import nothing_is_left
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.agenda import Agenda, Due, Event, Incident, LookAgain, NodeBack, NodeLost, PodFails
from tierwise.sim.cluster.circles import Circles
from tierwise.sim.cluster.driver import MOST, EmbeddedDriver, no_key
from tierwise.sim.cluster.event_log import EventLog
from tierwise.sim.cluster.kubelet import killed
from tierwise.sim.cluster.nodes import SimNodes
from tierwise.sim.cluster.pod_behaviour import PodSpeed, check_habits
from tierwise.sim.cluster.provisioner import Provisioner
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.status.pod import ConditionWriter, pod_events

__all__ = ["Moment", "Simulation"]


class _RestlessError(RuntimeError):
    """A moment after which the cluster would still change, however often everything is done again."""


class User(Protocol):
    """Someone outside who does things to the cluster, such as submitting jobs when their time comes."""

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What is done now; asked again at the same moment until it is nothing."""

    def due(self) -> float | None:
        """The next moment at which something is to be done whatever happens until then; None where none is."""


_OWN_TIMING: Final = PodSpeed()
_OF_JOBS: Final = frozenset((Pod, PodGroup, Job))
_STARTING: Final = frozenset((Pod, Job))


class Moment(msgspec.Struct, frozen=True):
    """One stop of the clock: what happened then, in order, and how the cluster is after it."""

    at: float  # seconds since the start
    entries: Sequence[TimelineEntry]
    objects: Objects
    snapshot: Snapshot
    report: CycleReport


class Simulation(EmbeddedDriver):
    """A cluster that lives. What makes a stage raise is set aside by name, as on a real one."""

    def __init__(
        self,
        objects: Objects,
        profile: Profile,
        *,
        start: float,
        incidents: Sequence[Incident] = (),
        user: User | None = None,
        plugins: Mapping[str, Factory] = PLUGINS,
        cluster: EmbeddedCluster | None = None,
        timing: PodSpeed = _OWN_TIMING,
        log: bool = True,
        observe: Callable[[Snapshot, CycleReport, Objects], None] | None = None,
        conditions: ConditionWriter | None = None,
        keys: KeySource = no_key,
    ) -> None:
        """`cluster` is one that others write to as well, and holds the objects already; kubelets play pods by `timing`.

        Without a `log` nothing is written down of what happens, for runs of which no one reads it; `observe` is told
        of every cycle: what it saw, what it decided, and the objects that it saw it in. With `conditions` pods are told
        why they wait and where they go, as on a real cluster.
        """
        check_habits(objects)
        _check_nodes(objects, incidents)
        self.start = float(math.ceil(start))  # the API counts whole seconds
        cluster = cluster if cluster is not None else EmbeddedCluster(objects, self.start, self.start)
        super().__init__(cluster, profile, plugins=plugins, keys=keys)
        self.unfinished = True  # whether anything is still going to happen
        self.rested = True  # whether the last moment ended because there was nothing more to do
        self.circling: tuple[Fault, ...] = ()  # which jobs went in circles, so that the run was stopped
        self._circles = Circles()
        self._observe = observe
        self.history = EventLog(self.start)
        self._log = log
        self._watched = log or observe is not None  # whether an observer sees what every moment leads to
        self._conditions = conditions
        self._user = user
        self._agenda = Agenda(self.start)
        for incident in incidents:
            self._agenda.put(incident, self.start + incident.after)
        self._nodes = SimNodes(self.guard, timing)
        self._storage = Provisioner()
        self._seen: Objects | None = None  # what the last cycle saw: another would decide the same of it
        self._last: tuple[Snapshot, CycleReport] | None = None
        self._idle = False  # whether there was nothing to decide and nothing left to write
        self._placed: Objects | None = None  # what was there after it, where nothing waits there
        self._looks = False  # whether the scheduler is to look though nothing has changed

    def run(self, until: float) -> Iterator[Moment]:
        """Moment after moment: until nothing is left to happen, until so many seconds after the start, or until the
        cluster goes in circles.
        """
        now = self.start
        while True:
            moment = self._advance_or_circle(now)
            yield moment
            if self.circling:
                return
            following = self.following(now)
            self.unfinished = following is not None
            if following is None:
                return
            if following > self.start + until:
                if now < self.start + until:
                    yield Moment(until, (), self.cluster.read(), moment.snapshot, moment.report)
                return
            now = following

    def _advance_or_circle(self, now: float) -> Moment:
        """As `advance`; a cluster that goes in circles is left as it is, and `circling` says so."""
        told = len(self.history.events)
        try:
            moment = self.advance(now)
        except _RestlessError:
            assert self._last is not None  # a moment has many cycles before it counts as restless
            snapshot, report = self._last
            moment = Moment(now - self.start, self.history.events[told:], self.cluster.read(), snapshot, report)
            self.circling = (self._circles.fault(decision.job for decision in report.decisions),)
        if self._circles.found:
            self.circling = (self._circles.fault(),)
        return moment

    def advance(self, now: float, over: Callable[[], bool] = lambda: False) -> Moment:
        """Let everything happen that happens at a moment; for callers who have a clock of their own.

        Where others write to the cluster all the time it may never come to rest: the moment ends, too, once it is
        `over`, though not before everything has had its turn. `rested` tells which it was.
        """
        self.cluster.clock = now
        told = len(self.history.events)
        self._await(Due("kubelets"), self._advance(now, over), now)
        snapshot, report = self._last or self._cycle(now)
        return Moment(now - self.start, self.history.events[told:], self.cluster.read(), snapshot, report)

    def forget(self) -> None:
        """Drop what was told so far: for long runs of which no one keeps a record."""
        self.history.events.clear()
        self.cluster.events.clear()

    def _advance(self, now: float, over: Callable[[], bool]) -> float | None:
        """Everything that happens at one moment; the time at which kubelets have something to do again."""
        self._happen(now)
        for _ in range(MOST):
            before = self.cluster.read()
            if self._user is not None and (asked := self._user.act(before, now)):
                self.cluster.apply(asked)
            self._reconcile(now)
            self._note(before, now)
            if self._has_news() and not self._count_started():
                self._cycle(now)
            wake = self._kubelets(now)
            self.rested = self.cluster.read() is before
            if self.rested or over():
                return wake
        raise _RestlessError(f"the cluster does not come to rest at {now - self.start:.0f}s")

    def _has_news(self) -> bool:
        """Whether another cycle may decide something, or an observer hears what it sees."""
        objects = self.cluster.read()
        seen = self._seen
        if self._looks or seen is None:
            return True
        if objects is not seen and self._idle and self._observe is None and _only_gone(objects, seen):
            self._seen = objects
        return objects is not self._seen

    def _count_started(self) -> bool:
        """Whether nothing has happened but that pods of gangs have started; their groups are told how many run.

        Where nothing waited then, nothing does now, and nothing else of any status is another.
        """
        objects = self.cluster.read()
        placed = self._placed
        if placed is None:
            return False
        changed = objects.changed_objects(placed)
        if not changed.keys() <= _STARTING or not _only_started(changed.get(Pod, {}), placed, objects):
            return False
        told = self._statuses.count(objects)
        if told:
            self.cluster.apply(told)
        self._seen = self._placed = self.cluster.read()
        self._idle = True
        return True

    def _calm(self, snapshot: Snapshot, report: CycleReport, outcomes: Iterable[Outcome]) -> bool:
        """True if a cycle only bound pods, all of them could be bound, and nothing waits any more."""
        if snapshot.keeps_records:
            return False
        if not all(outcome.ok and isinstance(outcome.effect, Bind) for outcome in outcomes):
            return False
        return nothing_is_left(snapshot, self.profile, report)

    def _cycle(self, now: float) -> tuple[Snapshot, CycleReport]:
        before = self.cluster.read()
        decided = self._decide(now, skip=True)
        if decided is None:
            raise RuntimeError("scheduling fails, however many objects are set aside")
        snapshot = decided.snapshot
        report = decided.report
        asked = decided.effects
        self._circles.note(report.evictions, before)
        outcomes = self.cluster.apply(asked) if asked else ()
        if self._log:
            self.history.cycle(snapshot, report, now)
        told = self._write_statuses(decided)
        if self._conditions is not None:
            shown = self.guard.over(self.cluster.read())
            self.cluster.apply([*pod_events(snapshot, outcomes), *self._conditions.write(shown, snapshot, report)])
        self._note(before, now)
        again = report.retry_after(now)
        self._looks = False
        self._await(LookAgain(), math.ceil(again) if again < math.inf else None, now)
        if self._observe is not None:
            self._observe(snapshot, report, self.guard.over(before))
        after = self.cluster.read()
        own = before.version + bool(told)
        settled = decided.idle and after.version == own and _only_counts(told)
        self._idle = settled and not snapshot.keeps_records  # a record of ends would be written
        calm = not self._watched and not _queued_again(told) and self._calm(snapshot, report, outcomes)
        self._placed = after if calm else None
        self._seen = after if settled else before
        self._last = (snapshot, report)
        return self._last

    def _tell(self, crash: Crash) -> None:
        """Let people know of an object that is set aside."""
        event = crash.event
        if event is not None:
            self.cluster.apply([event])

    def _kubelets(self, now: float) -> float | None:
        """Let storage, the node controller and every kubelet that lives do their work."""
        before = self.cluster.read()
        nodes = self._nodes.sync(before, now)
        storage = self._storage.provision(before, now)
        if nodes.effects or storage.effects:
            self.cluster.apply([*nodes.effects, *storage.effects])
        if nodes.gone:
            self.cluster.remove(nodes.gone)
        self._note(before, now)
        return min([wake for wake in (nodes.wake, storage.wake) if wake is not None], default=None)

    def _happen(self, now: float) -> None:
        """What comes from outside at this moment."""
        for event in self._agenda.until(now):
            before = self.cluster.read()
            match event:
                case PodFails(_, path, code):
                    self._fail(path, code, now)
                case NodeLost(_, node):
                    self._nodes.lose(node, now)
                    self.cluster.apply([RecordEvent(_node(node), "Warning", "Lost", "the host falls silent")])
                case NodeBack(_, node):
                    back = self._nodes.restore(node, before.every(Pod).values(), now)
                    self.cluster.apply([RecordEvent(_node(node), "Normal", "Back", "the host answers again"), *back])
                case LookAgain():
                    self._looks = True
                case _:  # those who are due are asked at every moment
                    pass
            self._note(before, now)

    def _fail(self, path: str, code: int, now: float) -> None:
        pod = self.cluster.read().every(Pod).get(path)
        alive = pod is not None and not pod.metadata.deletion_timestamp and pod.spec.node_name not in self._nodes.down
        if pod is not None and alive and pod.status.phase == "Running":
            self.cluster.apply(killed(pod, now, code))
            return
        namespace, _, name = path.partition("/")
        near = "" if pod is not None else suggestion(path, self.cluster.read().every(Pod))
        text = f"it should fail now, but it is not running{near}"
        self.cluster.apply([RecordEvent(Key("", "Pod", namespace, name), "Warning", "NotRunning", text)])

    def _note(self, before: Objects, now: float) -> None:
        after = self.cluster.read()
        if self._log and (self.cluster.done or after is not before):
            self.history.effects(self.cluster.done, before, after, now)
        self.cluster.done = []

    def following(self, now: float) -> float | None:
        """The next moment at which something happens; None where nothing ever will."""
        due = self._controllers.due(self.guard.over(self.cluster.read()))
        self._await(Due("controllers"), due and math.ceil(due), now)
        self._await(Due("user"), self._user.due() if self._user is not None else None, now)
        following = self._agenda.next()
        return following if following < math.inf else None

    def _await(self, event: Event, at: float | None, now: float) -> None:
        self._agenda.put(event, float(at) if at is not None and at > now else math.inf)


def _only_counts(told: Sequence[Effect]) -> bool:
    """Whether statuses say nothing new that another cycle would look at while nothing waits: no group's phase."""
    return all(isinstance(effect, PatchStatus) and "phase" not in effect.status for effect in told)


def _queued_again(told: Sequence[Effect]) -> bool:
    """Whether some group is to be let in once more."""
    return any(isinstance(e, PatchStatus) and e.status.get("phase") == Phase.PENDING.value for e in told)


def _only_gone(objects: Objects, before: Objects) -> bool:
    """Whether nothing has happened since but that jobs, pod groups, and pods together with theirs have gone.

    Where nothing waited then, nothing does now, and no group is left whose counts are others.
    """
    changed = objects.changed_objects(before)
    groups = objects.every(PodGroup)
    if not changed.keys() <= _OF_JOBS:
        return False
    if any(record is not None for records in changed.values() for record in records.values()):
        return False
    pods = (before.record(key) for key in changed.get(Pod, ()))
    return all(isinstance(pod, Pod) and (own := group_of(pod)) and own not in groups for pod in pods)


def _only_started(pods: Mapping[Key, Object | None], before: Objects, now: Objects) -> bool:
    """Whether all that has become of these pods is that some of those that have a node run there now.

    Each belongs to a pod group that counts it, and no gang of another language does.
    """
    groups = now.every(PodGroup)
    for key, pod in pods.items():
        was = before.record(key)
        if not isinstance(pod, Pod) or not isinstance(was, Pod):
            return False
        if pod.spec is not was.spec or pod.metadata is not was.metadata:
            return False
        if not pod.spec.node_name or pod.metadata.deletion_timestamp or group_of(pod) not in groups:
            return False
        if pod.status.ended or was.status.ended:
            return False
    return not now.every(Gang)


def _node(name: str) -> Key:
    return Key("", "Node", "", name)


def _check_nodes(objects: Objects, incidents: Sequence[Incident]) -> None:
    nodes = objects.every(Node)
    for incident in incidents:
        if not isinstance(incident, PodFails) and incident.node not in nodes:
            text = f"it is to be lost or to come back, but there is no such node{suggestion(incident.node, nodes)}"
            raise InputError(text, obj=f"Node {incident.node}")
