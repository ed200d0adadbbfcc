"""The main loop: wait for a change or a timeout, run the controllers, run a cycle, apply effects, publish status.

It knows the `Cluster` interface only, so it also runs on the embedded cluster. Each iteration is complete in itself: a
process holds no state that is not in the cluster, so nothing is lost when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tierwise import controllers
from tierwise.config.profile import DEFAULT
from tierwise.controllers.job import KeySource
from tierwise.port import Cluster, Effect, Objects, Version, about, decided_on
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
"""Seconds between two looks whether binds that are under way have ended, where nothing else happens."""

_LAST_BINDS: Final = 10.0
"""Seconds for which a loop that ends waits for binds without an answer: one tenant's webhook may hold them up, and the
lease is given back only then."""

_NEVER: Final = Version(2**62)
"""To wait for the time alone."""


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
        self._reconciled: list[Effect] = []  # what controllers last asked for, and was done
        self.iterated = ticks()  # when the last iteration ended

    def warm_up(self) -> None:
        """Decide about an empty cluster, so that plugins are imported before the first pods wait for them."""
        for run in self._runs:
            self.guard.call("starting", partial(run.rehearse, Objects()))

    def run(self, *, period: float, rest: float, stopping: Callable[[], bool], may: Callable[[], bool]) -> None:
        """Iterate after every change, and at least once in `period` seconds, until stopped.

        An iteration waits while more changes come, `rest` seconds at most.
        """
        try:
            self._run(period, rest, stopping, may)
        finally:
            self._conclude_in_time(_LAST_BINDS)

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
            # Noted before reading, so that what changes from here on brings another iteration.
            seen = version
            if may():
                self._iterate()
            else:
                self._conclude_ended()
                self.iterated = self.ticks()

    def _wait(self, seen: Version, timeout: float) -> Version:
        """Wait for a change, and see to binds as they end."""
        while any(run.pending for run in self._runs) and timeout > _LOOK:
            version = self.cluster.wait(seen, _LOOK)
            self._conclude_ended()
            if version != seen:
                return version
            timeout -= _LOOK
        return self.cluster.wait(seen, timeout)

    def _let_come(self, version: Version, rest: float) -> None:
        """What comes together is decided together: a gang's pods arrive one by one. `rest` seconds at most.

        The longer reading and deciding took the last time, the longer must nothing come: else a large cluster in which
        something changes all the time would be read all the time. Where changes come without end, half of the time goes
        into reading and deciding.
        """
        lull = min(rest, max(_LULL, self.took / 2))
        left = min(rest, max(2 * _LULL, self.took))
        while left > 0.0:
            latest = self.cluster.wait(_NEVER, min(lull, left))
            if latest == version:
                return
            version, left = latest, left - lull

    def _wait_time(self, period: float) -> float:
        """How long to wait for a change: until time alone gives a controller or a cycle something to do."""
        moments = [run.again for run in self._runs]
        if self._defrag is not None:
            moments.append(self.guard.call("waiting", self._defrag.due))
        if self._with_controllers:
            objects, fetching = self.guard.over(self.cluster.read()), self._fetching
            moments.append(self.guard.call("waiting", partial(self._controllers.due, objects)))
            if fetching is not None:
                moments.append(self.guard.call("waiting", partial(fetching.due, objects)))
        due = min((moment for moment in moments if moment is not None), default=None)
        # What could not be done at its time is tried again soon, but not without a pause.
        return period if due is None else max(_LEAST, min(period, due - self.clock()))

    def run_once(self) -> None:
        """Everything once; all of it has happened then."""
        self._iterate()
        self._conclude_all()

    def _iterate(self) -> None:
        """Controllers, scheduler and defragmentation; binds may still be under way after it."""
        guard, more = self.guard, False
        if self._with_controllers:
            if self._fetching is not None:
                guard.call("fetching", self._fetch)
            more = bool(guard.call("reconciling", self._reconcile))
        self.unfinished, self.took = False, 0.0
        for run in self._runs:
            if not guard.run("scheduling", self.cluster.read(), run.schedule, run.rehearse):
                # No object is to blame: where a plugin cannot be made, its jobs wait and say so.
                guard.run("scheduling", self.cluster.read(), partial(run.schedule, whole=False), run.rehearse)
        self.unfinished = self.unfinished or more
        if self._defrag is not None:
            self._conclude_all()
            guard.call("defragmenting", self._defrag.step)
        self.tell_of_crashes()
        self.iterated = self.ticks()

    def _fetch(self) -> None:
        assert self._fetching is not None
        complain(self.cluster.apply(self._fetching.step(self.cluster.read())))

    def _reconcile(self) -> bool:
        """The controllers until they have nothing more to do; what failed is tried again in the next iteration.

        Whether they left something to do for one that follows at once: beyond so many writes a cycle comes first.
        """
        left = self.most_writes
        done, self._reconciled = self._reconciled, []
        for _ in range(_MOST):
            now, read = self.clock(), self.cluster.read()
            act = partial(self._controllers.run, now=now)
            rehearse = partial(controllers.run, now=now, profile=self._profile)
            with self.computes("reconciling"):
                asked = self.guard.run("reconciling", read, act, rehearse)
            if not asked:
                return False
            asked = fairly(asked, left)
            if asked == done:
                # The server keeps something else than what was written; writing it again would change nothing.
                log.error("%s %s was done, and is asked for again", type(asked[0]).__name__, about(asked[0]))
                return False
            outcomes = self.cluster.apply(decided_on(read, asked))
            complain(outcomes)
            self.cluster.apply(list(self._refused.tell(outcomes)))
            if not any(outcome.ok for outcome in outcomes):
                return False
            done, left = asked, left - len(asked)
            if left <= 0:
                self._reconciled = done
                return True
        return False

    def _conclude_ended(self) -> None:
        """See to what follows from binds that have ended."""
        for run in self._runs:
            self.guard.call("binding", run.conclude_ended)
        self.tell_of_crashes()

    def _conclude_all(self) -> None:
        """Wait for all binds that are under way, and see to what follows from them."""
        for run in self._runs:
            while run.pending:
                self.guard.call("binding", run.conclude_all)
        self.tell_of_crashes()

    def _conclude_in_time(self, seconds: float) -> None:
        """Wait for binds that are under way, for so long at most where nobody answers; then another leader is due."""
        looks = int(seconds / _LOOK)
        while any(run.pending for run in self._runs) and looks:
            self.cluster.wait(_NEVER, _LOOK)
            self._conclude_ended()
            looks -= not any(run.under_way for run in self._runs)  # the rest is slow
