"""A journal as a recording: the cycles in which something changed, each repeated when a page asks for it.

One pass over the journal gives the figures of every cycle; nothing is scheduled for that. A cycle that is looked at is
read and decided again, so that the page has all of it: nodes, stories of jobs, and commands that explain them.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final

from tierwise.api import codec
from tierwise.api.codec import Raw, part
from tierwise.api.core import Node, Pod
from tierwise.api.errors import InputError
from tierwise.api.quantity import amount
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.dialects.pod_marks import group_of
from tierwise.explain.board import Board, cycle_entry
from tierwise.explain.text.schedule import Run
from tierwise.explain.usage import scarce_of
from tierwise.port import Key
from tierwise.runtime.journal import CycleSummary, Journal, JournalCursor, JournalStep
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import Reader
from tierwise.web.event_log import EventLog, JobEvent
from tierwise.web.recording import MOST_MOMENTS, Recording, thinned
from tierwise.web.views import Basis, RunView

__all__ = ["JournalRecording"]

_PAUSE: Final = 2.0
"""Seconds between two looks at a folder that may still be written to, at least."""

_SHARE: Final = 10
"""A look waits for so many times as long as the last one took."""


class JournalRecording(Recording):
    """The moments of a journal; while it is still written, new ones come."""

    def __init__(
        self,
        folder: Path,
        title: str = "",
        *,
        tell: Callable[[int], None] = lambda _: None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """InputError where there is no journal; `told` hears how many cycles were read, `ticks` counts seconds."""
        super().__init__()
        self._ticks = ticks
        self._folder, self._title = folder, title or str(folder)
        self._told = tell
        self._lock = threading.RLock()
        self._due = 0.0
        self._size: object = None
        self._moments: list[Raw] = []
        self._count = 0
        self._readers: dict[int, tuple[Reader, Reader]] = {}  # by identity of the profile, before and after a cycle
        self._look()

    def moments(self) -> Sequence[Raw]:
        with self._lock:
            if self._ticks() >= self._due:
                self._look()
            return self._moments

    def count(self) -> int:
        return self._count

    def _look(self) -> None:
        """Read the figures of all cycles, where there are others than before."""
        begun = self._ticks()
        journal = Journal(self._folder)
        size = journal.size()
        if size != self._size:
            self._size = size
            self._moments, self._count, self.log = _moments(journal, self._told)
            self._cursor = JournalCursor(journal)
            self._readers = {}
        self._due = self._ticks() + max(_PAUSE, _SHARE * (self._ticks() - begun))

    def view(self, number: int) -> RunView | None:
        with self._lock:
            try:
                recorded = self._cursor.cycle(number)
            except InputError:
                return None
            profile = recorded.scheduler
            now = recorded.now
            before, after = self._readers.setdefault(id(profile), (_reader(profile), _reader(profile)))
            snapshot = before.read(recorded.objects, now, recorded.turns)
            report = cycle(snapshot, profile.profile)
            cluster = EmbeddedCluster(recorded.objects)
            cluster.apply(effects(snapshot, report))
            run = Run([(snapshot, report)], after.read(cluster.read(), now), profile.profile, report.evictions)
        place = f"journal:{self._folder}@{number}"
        return RunView(
            Board(run, [cycle_entry(snapshot, report, number, {})]),
            mode="recording",
            title=self._title,
            options=shlex.join(["-f", place, "--config", place]),
            made_at=now,
            basis=Basis(recorded.objects, profile.profile, now, profile.schedulers),
        )


def _reader(profile: SchedulerProfile) -> Reader:
    return Reader(profile.profile, schedulers=profile.schedulers)


def _moments(journal: Journal, tell: Callable[[int], None]) -> tuple[list[Raw], int, EventLog]:
    """Figures of the cycles that differ from the one before by the same profile, how many do, and what happened."""
    moments: list[Raw] = []
    state_now = _Held()
    lives = _Lives()
    count = 0
    states: dict[int, object] = {}
    for number, step in enumerate(journal.steps()):
        tell(number)
        state_now.follow(step)
        lives.follow(step, state_now.gangs)
        figures = _figures(step.cycle, state_now)
        state = _state(step.cycle), state_now.state(figures)
        if figures["placed"] or figures["evicted"] or state != states.get(step.cycle.profile):
            states[step.cycle.profile] = state
            count += 1
            moments.append(figures)
            if len(moments) > 2 * MOST_MOMENTS:
                moments = thinned(moments)
    return thinned(moments), count, lives.log


class _Lives:
    """Events of gangs, from cycle to cycle."""

    def __init__(self) -> None:
        self.log = EventLog(most_seconds=inf)
        self._waiting: dict[tuple[int, str], str] = {}  # why each waits, by profile and gang
        self._standing: dict[str, set[str]] = {}  # the pods of each that a cycle has bound

    def follow(self, step: JournalStep, gangs: Mapping[str, str]) -> None:
        """Log what a cycle decided, and what has ended before it; `gangs` are those of pods that exist, by pod."""
        self.log.add(self._of(step.cycle, gangs))
        for key, raw in step.puts.items():
            owner = _owner(raw) if key.kind == "PodGroup" else ""
            if owner:
                called = f"{key.namespace}/{owner}"
                self.log.call(key.path, called, called)

    def _of(self, summary: CycleSummary, gangs: Mapping[str, str]) -> Iterator[JobEvent]:
        now = summary.now
        number = summary.number
        profile = summary.profile
        for gang, standing in list(self._standing.items()):
            if standing.isdisjoint(gangs):
                yield JobEvent(now, number, "ended", gang, len(standing))
                del self._standing[gang]
        lost: Counter[tuple[str, str, str, str]] = Counter()
        for effect in summary.effects:
            if effect["effect"] == "Evict":
                pod = str(effect["pod"]).removeprefix("Pod ")
                gang = gangs.get(pod) or pod
                by, action, reason = (str(effect.get(name, "")) for name in ("by", "action", "reason"))
                lost[gang, by, action, reason] += 1
                self._standing.get(gang, set()).discard(pod)
        for (gang, by, action, reason), evicted in lost.items():
            yield JobEvent(now, number, "evicted", gang, evicted, by, action, reason)
            if not self._standing.get(gang, True):
                del self._standing[gang]
        begun: dict[str, list[str]] = {}
        for effect in summary.effects:
            if effect["effect"] == "Bind":
                pod = str(effect["pod"]).removeprefix("Pod ")
                begun.setdefault(str(effect.get("gang") or pod), []).append(pod)
        for gang, pods in begun.items():
            self._standing.setdefault(gang, set()).update(pods)
            yield JobEvent(now, number, "started", gang, len(pods))
        for gang, (_, code, text) in summary.waiting.items():
            before = self._waiting.get((profile, gang))
            if code != before:
                yield JobEvent(now, number, "reason" if before else "waits", gang, text=text)
        self._waiting = {key: code for key, code in self._waiting.items() if key[0] != profile}
        self._waiting |= {(profile, gang): code for gang, (_, code, _) in summary.waiting.items()}


def _owner(raw: Raw) -> str:
    """The name, without kind and namespace, of the first owner of a podGroup; "" where it has none."""
    owners = part(raw, "metadata").get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners else None
    if isinstance(owner, dict):
        return str(owner.get("name", ""))
    return ""


def _state(summary: CycleSummary) -> object:
    """Who waits for what, without the figures of the messages, and for which gangs resources are kept."""
    nominated = []
    for effect in summary.effects:
        if effect["effect"] == "Nominate":
            nominated.append(str(effect.get("gang", effect.get("pod"))))
    return {key: code for key, (_, code, _) in summary.waiting.items()}, nominated


def _figures(summary: CycleSummary, tracked: _Held) -> Raw:
    """Figures of a moment for the series: the cluster with the pods that the cycle bound."""
    done = Counter(str(effect["effect"]) for effect in summary.effects)
    bound = sum(_asks(tracked, effect) for effect in summary.effects if effect["effect"] == "Bind")
    return {
        "id": summary.number,
        "now": summary.now,
        "resource": tracked.resource,
        "total": tracked.total,
        "used": tracked.used + bound,
        "nodes": tracked.nodes,
        "shut": len(tracked.shut),
        "fragmented": None,  # known of the moments that a page shows
        "waiting": len(summary.waiting),
        "placed": done["Bind"],
        "evicted": done["Evict"],
    }


def _asks(tracked: _Held, effect: Raw) -> int:
    return tracked.asks.get(str(effect["pod"]).removeprefix("Pod "), {}).get(tracked.resource, 0)


class _Held:
    """Amounts of the main resource that nodes have and pods hold, updated with each change."""

    def __init__(self) -> None:
        self.resource = ""  # chosen when the first nodes are there
        self.total = self.used = 0
        self.asks: dict[str, dict[str, int]] = {}  # by pod
        self.gangs: dict[str, str] = {}  # the group that each pod names
        self._placed: set[str] = set()
        self._nodes: dict[str, dict[str, int]] = {}
        self.shut: set[str] = set()  # nodes that take no pods

    def state(self, figures: Raw) -> object:
        """Value that differs between moments: used amounts with this cycle's binds, pods on nodes, and nodes."""
        placed = len(self._placed) + int(str(figures["placed"]))
        return figures["used"], placed, self.total, self.nodes, frozenset(self.shut)

    @property
    def nodes(self) -> int:
        return len(self._nodes)

    def follow(self, step: JournalStep) -> None:
        if step.whole:
            self.total = self.used = 0
            self.asks, self._placed, self._nodes, self.shut = {}, set(), {}, set()
            self.gangs = {}
        for key in (*step.deletes, *step.puts):
            self._remove(key)
        for key, raw in step.puts.items():
            self._put(key, raw)
        if not self.resource and self._nodes:
            self.resource = scarce_of(sum(map(Counter, self._nodes.values()), Counter()))
            self.total = sum(map(self._amount, self._nodes.values()))
            self.used = sum(self._amount(self.asks[path]) for path in self._placed)

    def _amount(self, amounts: Mapping[str, int]) -> int:
        return amounts.get(self.resource, 0)

    def _remove(self, key: Key) -> None:
        if (key.group, key.kind) == ("", "Pod"):
            amounts = self.asks.pop(key.path, {})
            self.gangs.pop(key.path, None)
            if key.path in self._placed:
                self._placed.remove(key.path)
                self.used -= self._amount(amounts)
        elif (key.group, key.kind) == ("", "Node"):
            self.total -= self._amount(self._nodes.pop(key.path, {}))
            self.shut.discard(key.path)

    def _put(self, key: Key, raw: Raw) -> None:
        if key.group or key.kind not in ("Pod", "Node"):
            return
        record = codec.decode(raw)
        if isinstance(record, Node):
            self._nodes[key.path] = {name: amount(name, text) for name, text in record.status.allocatable.items()}
            self.total += self._amount(self._nodes[key.path])
            if record.spec.unschedulable or any(
                c.type == "Ready" and c.status != "True" for c in record.status.conditions
            ):
                self.shut.add(key.path)
        elif isinstance(record, Pod) and not record.status.ended:
            self.asks[key.path] = effective_request(counted(record))
            self.gangs[key.path] = group_of(record)
            if record.spec.node_name:
                self._placed.add(key.path)
                self.used += self._amount(self.asks[key.path])
