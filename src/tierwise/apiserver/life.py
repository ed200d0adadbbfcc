"""The life of a served cluster: controllers, scheduler and kubelets, in a thread, whenever something changes or is due.

Time is the machine's own, in whole seconds, as the API counts them, so that ages are right for every client. Whatever
is raised is told, and the cluster goes on.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from tierwise.apiserver.store import ServedCluster
from tierwise.sim.cluster.simulation import Simulation

__all__ = ["alive"]

_PAUSE: Final = 1.0
"""Seconds until a cluster whose last moment failed is tried again."""

_LONGEST: Final = 60.0


@contextlib.contextmanager
def alive(
    cluster: ServedCluster,
    simulation: Simulation,
    *,
    clock: Callable[[], float] = time.time,
    tell: Callable[[str], None],
) -> Iterator[None]:
    """Let the cluster live meanwhile; `tell` gets a line for what goes wrong."""
    life = _Life(cluster, simulation, clock, tell)
    thread = threading.Thread(target=life.run, name="cluster", daemon=True)
    cluster.listeners.append(life.changed)
    thread.start()
    try:
        yield
    finally:
        life.stop()
        thread.join()
        cluster.listeners.remove(life.changed)


class _Life:
    def __init__(
        self, cluster: ServedCluster, simulation: Simulation, clock: Callable[[], float], tell: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._simulation = simulation
        self._clock = clock
        self._tell = tell
        self._wake = threading.Event()
        self._ended = False
        self._thread = 0

    def changed(self) -> None:
        """Somebody else than this thread has changed something."""
        if threading.get_ident() != self._thread:
            self._wake.set()

    def stop(self) -> None:
        self._ended = True
        self._wake.set()

    def run(self) -> None:
        self._thread = threading.get_ident()
        now = 0.0
        while not self._ended:
            self._wake.clear()
            now = max(math.floor(self._clock()), now)  # a clock that is set back stands still here
            pause = _PAUSE
            try:
                self._simulation.advance(now)
                self._simulation.forget()
                following = self._simulation.following(now)
                pause = _LONGEST if following is None else min(max(following - self._clock(), 0.0), _LONGEST)
            except Exception as error:  # noqa: BLE001 - no object can stop the cluster
                self._tell(f"a moment of the cluster failed: {error}")
            self._wake.wait(pause)
