"""The main loop: wait for a change or a timeout, run the controllers, run a cycle, apply effects, publish status.

It knows the `Cluster` interface only, so it also runs on the embedded cluster. Each iteration is complete in itself: a
process holds no state that is not in the cluster, so nothing is lost when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from tierwise import controllers
from tierwise.config.profile import DEFAULT
from tierwise.controllers.job import KeySource
from tierwise.port import Begun, Cluster, Effect, Ended, Objects, Version, about, decided_on
from tierwise.runtime.profile_run import CycleTimes, LoopState, Observer, ProfileRun, SchedulerProfile, complain, fairly
from tierwise.runtime.refused_pods import RefusedPods
from tierwise.runtime.topology_sources import Fetching

if TYPE_CHECKING:
    from tierwise.runtime.defrag import DefragController

__all__ = ["Loop"]


log = logging.getLogger(__name__)

_MOST: Final = 20
"""Passes of the controllers in one iteration: what they still want then has its place in the next one."""

_MOST_WRITES: Final = 500
"""Writes of controllers in one iteration, and of marks and evictions behind it, of all namespaces in turn: a tenant
with thousands of pods does not hold it up."""


_LEAST: Final = 0.2
"""Seconds between two iterations that only time brings about."""

_LULL: Final = 0.01
"""Seconds without a change after which what comes together is taken to have come."""

_MOST_PODS: Final = 2000
"""Pods that one cycle places before it leaves the rest to the next: their binds are sent in between."""

_LOOK: Final = 0.01
"""Seconds between two looks whether writes that are under way have ended, where nothing else happens."""

_LAST_WRITES: Final = 10.0
"""Seconds for which a loop that ends waits for writes without an answer: one tenant's webhook may hold them up, and the
lease is given back only then."""

_PROMPT: Final = 0.05
"""Seconds of an iteration for which controllers wait for the answers to their writes, to go on with what follows from
them. Those of namespaces whose writes are slow are not waited for."""

_NEVER: Final = Version(2**62)
"""To wait for the time alone."""


class _Writes(NamedTuple):
    """Writes of controllers about one namespace that are under way."""

    asked: list[Effect]
    begun: Begun


class Loop(LoopState):
    """Controllers and scheduler on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        profiles: Sequence[SchedulerProfile],
        *,
        clock: Callable[[], float],
        ticks: Callable[[], float],
        with_controllers: bool = True,
        fetching: Fetching | None = None,
        defrag: DefragController | None = None,
        observers: Sequence[Observer] = (),
        most_pods: int | None = _MOST_PODS,
        most_writes: int = _MOST_WRITES,
        times: Callable[[], CycleTimes] | None = None,
        keys: KeySource | None = None,
    ) -> None:
        """`clock` gives seconds since the epoch, `ticks` seconds that never jump; `fetching` goes with controllers,
        and `keys` for jobs, `defrag` with the scheduler. A cycle places `most_pods` at most, controllers write
        `most_writes` before it, and the next iteration follows at once. Where there are `times`, they are taken of each
        cycle.
        """
        super().__init__(
            cluster,
            clock=clock,
            ticks=ticks,
            observers=observers,
            most_pods=most_pods,
            most_writes=most_writes,
            times=times,
        )
        self._runs = [ProfileRun(profile, str(number), self) for number, profile in enumerate(profiles)]
        self._with_controllers = with_controllers
        self._fetching = fetching
        self._defrag = defrag
        self._profile = profiles[0].profile if profiles else DEFAULT
        self._controllers = controllers.Controllers(self._profile, keys=keys)
        self._refused = RefusedPods()
        self._writes: dict[str, _Writes] = {}  # of controllers that are under way, by namespace
        self._done: dict[str, list[Effect]] = {}  # what they asked for last and was done, by namespace
        self._fetched: Begun = Ended(())  # what was fetched of the topology and is being written
        self.iterated = ticks()  # when the last iteration ended

    def warm_up(self) -> None:
        """Decide about an empty cluster, so that plugins are imported before the first pods wait for them."""
        for run in self._runs:
            self.guard.call("starting", partial(run.rehearse, Objects()))

    def run(self, *, period: float, pause: float, stopping: Callable[[], bool], may: Callable[[], bool]) -> None:
        """Iterate after every change, and at least once in `period` seconds, until stopped.

        An iteration waits while more changes come, `rest` seconds at most.
        """
        try:
            self._run(period, pause, stopping, may)
        finally:
            if may():
                for run in self._runs:
                    self.guard.call("stopping", run.write_usage)
            self._conclude_in_time(_LAST_WRITES)

    def _run(self, period: float, pause: float, stopping: Callable[[], bool], may: Callable[[], bool]) -> None:
        seen = Version(-1)
        while not stopping():
            # Without the lease there is nothing to do at any time; getting the lease counts as a change.
            goes_on = self.unfinished and may()
            longest = 0.0
            if not goes_on:
                longest = self._wait_time(period) if may() else period
            version = self._wait(seen, longest)
            if stopping():
                return
            if version != seen >= 0 and not goes_on:
                self._let_come(version, pause)
            # Noted before reading, so that what changes from here on brings another iteration.
            seen = version
            if may():
                self._iterate()
            else:
                self._conclude_ended()
                self.iterated = self.ticks()

    def _wait(self, seen: Version, timeout: float) -> Version:
        """Wait for a change, and see to writes as they end."""
        while self._pending and timeout > _LOOK:
            version = self.cluster.wait(seen, _LOOK)
            self._conclude_ended()
            if version != seen:
                return version
            timeout -= _LOOK
        return self.cluster.wait(seen, timeout)

    def _let_come(self, version: Version, pause: float) -> None:
        """Wait until related changes have arrived, so that they are decided together: a gang's pods arrive one by one.
        At most `pause` seconds.

        The longer reading and deciding took the last time, the longer nothing may come: otherwise a large cluster that
        changes all the time would be read all the time. Where changes come without end, half of the time goes into
        reading and deciding.
        """
        lull = min(pause, max(_LULL, self.took / 2))
        seconds_left = min(pause, max(2 * _LULL, self.took))
        while seconds_left > 0.0:
            latest = self.cluster.wait(_NEVER, min(lull, seconds_left))
            if latest == version:
                return
            version, seconds_left = latest, seconds_left - lull

    def _wait_time(self, period: float) -> float:
        """How long to wait for a change: until time alone gives a controller or a cycle something to do."""
        moments = [run.again for run in self._runs]
        if self._defrag is not None:
            moments.append(self.guard.call("waiting", self._defrag.due))
        if self._with_controllers:
            objects = self.guard.over(self.cluster.read())
            fetching = self._fetching
            moments.append(self.guard.call("waiting", partial(self._controllers.due, objects)))
            if fetching is not None:
                moments.append(self.guard.call("waiting", partial(fetching.due, objects)))
        due = min((moment for moment in moments if moment is not None), default=None)
        # What could not be done at its time is tried again soon, but not without a pause.
        return period if due is None else max(_LEAST, min(period, due - self.clock()))

    def run_once(self) -> None:
        """Everything once; all of it has happened then."""
        self._iterate(everything=True)
        self._conclude_all()

    def _iterate(self, *, everything: bool = False) -> None:
        """Controllers, scheduler and defragmentation; writes may still be under way after it.

        Those of controllers have ended before the scheduler decides where the iteration is to be `whole`.
        """
        guard = self.guard
        unfinished = False
        self._conclude_ended()
        if self._with_controllers:
            if self._fetching is not None:
                guard.call("fetching", partial(self._fetch, everything=everything))
            unfinished = bool(guard.call("reconciling", partial(self._reconcile, inf if everything else _PROMPT)))
        self.unfinished = False
        self.took = 0.0
        for run in self._runs:
            if not guard.run("scheduling", self.cluster.read(), run.schedule, run.rehearse):
                # No object is to blame: where a plugin cannot be made, its jobs wait and say so.
                guard.run("scheduling", self.cluster.read(), partial(run.schedule, everything=False), run.rehearse)
        self.unfinished = self.unfinished or unfinished
        if self._defrag is not None:
            guard.call("defragmenting", self._defrag.step)
        self.tell_of_crashes()
        self.iterated = self.ticks()

    def _fetch(self, *, everything: bool) -> None:
        assert self._fetching is not None
        if not self._fetched.done():
            return
        self._fetched = self.cluster.begin_in_order(self._fetching.step(self.cluster.read()))
        if everything or self._fetched.done():
            complain(self._fetched())

    def _reconcile(self, patience: float) -> bool:
        """The controllers until they have nothing more to do; what failed is tried again in the next iteration.

        Of one namespace nothing is asked for while its earlier writes are under way. Their answers are waited for as
        many seconds as we have `patience`, those of slow namespaces not at all.
        Whether something is left for an iteration that follows at once: beyond so many writes a cycle comes first.
        """
        free_slots = self.most_writes - sum(writes.begun.waits() for writes in self._writes.values())
        failed: set[str] = set()  # namespaces that are left for the next iteration
        news = True
        passes = 0
        begun = 0
        while passes < _MOST:
            news = self._conclude_writes(failed) or news
            if news:
                number_begun = self._ask(failed, free_slots - begun)
                if number_begun is None:
                    return bool(begun)
                passes = passes + 1
                begun = begun + number_begun
                news = False
                if number_begun:
                    continue
            waits = [writes.begun for writes in self._writes.values() if writes.begun.waits() or patience == inf]
            if not waits or patience <= 0.0:
                return False
            waits[0].pause(_LOOK)
            patience -= _LOOK
        return False

    def _ask(self, failed: set[str], limit: int) -> int | None:
        """Begin what the controllers want, so many writes at most; how many were begun, None where none may be."""
        now = self.clock()
        objects = self.cluster.read()
        act = partial(self._controllers.run, now=now)
        rehearse = partial(controllers.run, now=now, profile=self._profile)
        with self.computes("reconciling"):
            effects = self.guard.run("reconciling", objects, act, rehearse) or []
        effects = [effect for effect in effects if about(effect).namespace not in failed | self._writes.keys()]
        if effects and limit <= 0:
            return None
        done = self._done
        self._done = {}
        rows: dict[str, list[Effect]] = {}
        for effect in fairly(effects, limit):
            rows.setdefault(about(effect).namespace, []).append(effect)
        for name, effects_of_row in rows.items():
            if effects_of_row == done.get(name):
                # The server keeps something else than what was written; writing it again would change nothing.
                log.error(
                    "%s %s was done, and is asked for again", type(effects_of_row[0]).__name__, about(effects_of_row[0])
                )
                failed.add(name)
            else:
                self._writes[name] = _Writes(
                    effects_of_row, self.cluster.begin_in_order(decided_on(objects, effects_of_row))
                )
        return sum(len(self._writes[name].asked) for name in rows if name in self._writes)

    def _conclude_writes(self, failed: set[str]) -> bool:
        """See to what became of writes of controllers that have ended; whether some have."""
        ended = [name for name, writes in self._writes.items() if writes.begun.done()]
        for name in ended:
            writes = self._writes.pop(name)
            outcomes = writes.begun()
            complain(outcomes)
            self.cluster.tell(list(self._refused.tell(outcomes)))
            if any(outcome.ok for outcome in outcomes):
                self._done[name] = writes.asked
            else:
                failed.add(name)
        return bool(ended)

    @property
    def _pending(self) -> bool:
        """Whether outcomes are not known yet."""
        return bool(self._writes) or any(run.pending for run in self._runs)

    def _conclude_ended(self) -> None:
        """See to what follows from writes that have ended."""
        self._conclude_writes(set())
        for run in self._runs:
            self.guard.call("binding", run.conclude_ended)
        self.tell_of_crashes()

    def _conclude_all(self) -> None:
        """Wait for all that is under way, and see to what follows from it."""
        for writes in self._writes.values():
            writes.begun()
        self._conclude_writes(set())
        for run in self._runs:
            while run.pending:
                self.guard.call("binding", run.conclude_all)
        self.tell_of_crashes()

    def _conclude_in_time(self, seconds: float) -> None:
        """Wait until everything under way has been concluded, but return after this many seconds of waiting for slow
        answers alone: what is left stays pending. Time in which other writes are still waiting to be answered promptly
        does not count. It is for the moment when another leader is due.
        """
        looks = int(seconds / _LOOK)
        while self._pending and looks:
            self.cluster.wait(_NEVER, _LOOK)
            self._conclude_ended()
            prompt = any(run.under_way for run in self._runs) or any(
                writes.begun.waits() for writes in self._writes.values()
            )
            looks -= not prompt  # the rest is slow
