"""A process in a cluster: takes the lease, runs the loop, reports its health, and shuts down cleanly.

SIGTERM and SIGINT let the current iteration finish, including its binds; then the lease is released, so that the next
leader starts at once. A second signal ends the process immediately, which is safe too: all state is in the cluster.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from tierwise.api.core import format_time
from tierwise.controllers.job import KeySource
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.loop import Loop
from tierwise.runtime.probes import Health
from tierwise.runtime.profile_run import CycleTimes, Observer, SchedulerProfile
from tierwise.runtime.topology_sources import Fetching
from tierwise.runtime.watchdog import EXIT, Caught, Memory, Watchdog, overdue

if TYPE_CHECKING:
    from tierwise.runtime.defrag import DefragController, DefragSettings

__all__ = ["LoopRunner", "LoopTiming", "SteadyClock"]


# The time of a process: right in the long run, and never in a hurry.
#
# Wall clocks jump: they are set, a host wakes up, its time is corrected. Whatever counts seconds by them
# would find all its time over at once, or none for an hour. `SteadyClock` starts at the wall clock's time, goes on by
# a clock that never jumps, and makes up for a difference little by little, so that every second of it lasts about a
# second.


_LEAN: Final = 0.1
"""The share of a second by which it may be faster or slower while it makes up for a difference."""


class SteadyClock:
    """Seconds since the epoch that never go back and never leap; may be asked from any thread."""

    def __init__(self, wall: Callable[[], float], ticks: Callable[[], float]) -> None:
        """`wall` gives seconds since the epoch, `ticks` seconds that never jump."""
        self._wall = wall
        self._ticks = ticks
        self._lock = threading.Lock()
        self._now, self._at = wall(), ticks()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            at = self._ticks()
            passed = at - self._at
            ahead = self._wall() - (self._now + passed)
            self._now += passed + max(-_LEAN * passed, min(ahead, _LEAN * passed))
            self._at = at
            return self._now


log = logging.getLogger(__name__)

CYCLE_LIMIT: Final = 120.0
"""Seconds after which a cycle that still decides counts as one that does not end."""

_LAST_WORDS: Final = 10.0
"""Seconds for giving the lease back before a process ends that hangs."""

_STUCK: Final = 180.0
"""Seconds without the end of an iteration after which the loop counts as stuck."""


_SWITCH: Final = 0.0005
"""Seconds for which one thread may keep the interpreter while another one wants it.

The thread that talks to the server gives it up with every read and write. With Python's 5 ms each of them waited that
long while a cycle decided, and binds came to a halt.
"""


class LoopTiming(msgspec.Struct, frozen=True):
    """How often to iterate, in seconds: at least once in `period`, and after a change once no more have come for a
    moment, `rest` at the latest.
    """

    period: float = 5.0
    rest: float = 0.05


class LoopRunner:
    """Controllers, scheduler or both on a real cluster, until told to end."""

    def __init__(
        self,
        cluster: KubeCluster,
        profiles: Sequence[SchedulerProfile],
        *,
        with_controllers: bool,
        timing: LoopTiming,
        observers: Sequence[Observer] = (),
        files: Path | None = None,
        defrag: DefragSettings | None = None,
        namespace: str = "kube-system",
        cycle_limit: float = CYCLE_LIMIT,
        slow: float | None = None,
        keys: KeySource | None = None,
    ) -> None:
        """`files` is the folder below which discovery may read files; `defrag` is carried out where it is set, with
        its record in a `namespace`. A cycle that decides for longer than `cycle_limit` seconds ends the process.
        Where `slow` is given, observers are told the times of each cycle, and of gangs that take so many seconds.
        `keys` are for jobs whose pods log in to each other.
        """
        self._cluster = cluster
        self._cycle_limit = cycle_limit
        self._caught: Caught | None = None  # what ends this process
        self._memory = Memory()  # of what ended those before
        self._recalled = False
        self._timing = timing
        self._stopping = threading.Event()
        self._checks: tuple[Health, ...] = (self._ends, self._turns, cluster.deaf)
        clock = SteadyClock(time.time, time.monotonic)
        self._loop = Loop(
            cluster,
            profiles,
            clock=clock,
            ticks=time.monotonic,
            with_controllers=with_controllers,
            fetching=Fetching(cluster.secret, clock=clock, wake=cluster.wake, files=files),
            defrag=_defrag(cluster, profiles, clock, defrag, namespace) if defrag is not None and profiles else None,
            observers=observers,
            times=partial(CycleTimes, time.monotonic, slow) if slow is not None else None,
            keys=keys,
        )

    def run(self) -> None:
        """Iterate until told to end; called in the main thread, because signals arrive there."""
        watchdog = Watchdog(
            lambda: self._loop.computing, ticks=time.monotonic, limit=self._cycle_limit, caught=self._end_stuck
        )
        with self._signals(), self._cluster, watchdog:
            self._loop.warm_up()
            while not self._stopping.is_set() and not self._cluster.synced(timeout=1.0):
                pass
            log.info("caches are filled")
            _spare_the_collector()
            sys.setswitchinterval(_SWITCH)
            self._loop.run(
                period=self._timing.period,
                pause=self._timing.rest,
                stopping=self._ended,
                may=self._may,
            )
            log.info("ending")

    def stop(self) -> None:
        """End after the iteration under way."""
        self._stopping.set()
        self._cluster.wake()

    def live(self) -> str:
        """Why nothing is scheduled here, so that another replica should; "" where all is well."""
        return next(filter(None, (check() for check in self._checks)), "")

    def _ends(self) -> str:
        if self._caught is not None:
            return f"{self._caught.stage} does not end: {self._caught.said}"
        computing = self._loop.computing
        took = overdue(computing, time.monotonic(), self._cycle_limit)
        if computing is not None and took:
            return f"{computing[0]} has not ended for {took:.0f} seconds"
        return ""

    def _turns(self) -> str:
        idle = time.monotonic() - self._loop.iterated
        return f"no iteration has ended for {idle:.0f} seconds" if idle > _STUCK else ""

    def ready(self) -> str:
        """Why we could not act now; "" where we could, if we hold the lease."""
        if self._stopping.is_set():
            return "ending"
        if self._cluster.synced():
            return ""
        return "caches are not filled yet"

    def _may(self) -> bool:
        """Whether we may act; who begins to looks first at what ended the one before."""
        if not self._cluster.leading():
            self._recalled = False
            return False
        if not self._recalled:
            self._recalled = True
            self._memory = Memory.of(self._cluster.note())
            for caught, times, seconds in self._memory.left_out(time.time()):
                self._leave_out(caught, times, seconds)
        return True

    def _leave_out(self, caught: Caught, times: int, seconds: float) -> None:
        until_time = format_time(time.time() + seconds)
        why = f"{caught.stage} did not end {times} times ({caught.said}; {caught.whose}): left out until {until_time}"
        if caught.foreign:
            log.error("plugin %s is left out: %s", caught.plugin, why)
            self._loop.leave_out_plugin(caught.plugin, f"plugin {caught.plugin}: {why}", seconds)
        elif caught.key is not None:
            log.error("%s is left out: %s", caught.key, why)
            self._loop.set_aside(caught.key, why, seconds)

    def _end_stuck(self, caught: Caught, seconds: float) -> None:
        """In the watchdog's thread: say it, leave it to the next one, and end; nothing else can end a busy thread."""
        self._caught = replace(caught, at=time.time())
        sentence = f"{caught.said}; {caught.whose}"
        log.critical("%s has not ended for %.0f seconds, and this process ends: %s", caught.stage, seconds, sentence)
        self._cluster.leave_note(self._memory.after(self._caught).text)
        self._cluster.give_up(_LAST_WORDS)
        logging.shutdown()
        os._exit(EXIT)

    def _ended(self) -> bool:
        self._cluster.synced()  # raises what ended the cluster's own thread
        return self._stopping.is_set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def end(number: int, frame: FrameType | None) -> None:
            if self._stopping.is_set():
                os._exit(128 + number)
            self.stop()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _defrag(
    cluster: KubeCluster,
    profiles: Sequence[SchedulerProfile],
    clock: Callable[[], float],
    settings: DefragSettings,
    namespace: str,
) -> DefragController:
    """The controller, for the pods of the first profile."""
    from tierwise.runtime.defrag import DefragController, DefragExecutor  # few ask for it, and it plans by simulation

    executor = DefragExecutor(
        cluster, profiles[0].profile, namespace=namespace, by="tierwise", clock=clock, schedulers=profiles[0].schedulers
    )
    return DefragController(executor, settings, clock=clock, wake=cluster.wake)


def _spare_the_collector() -> None:
    """Look for garbage in what is new alone; how rarely, the command line says."""
    gc.freeze()
    gc.enable()
