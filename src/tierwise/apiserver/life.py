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
from functools import partial
from typing import Final

from tierwise.apiserver.namespace_limits import quota_statuses
from tierwise.apiserver.store import ServedCluster
from tierwise.config.profile import Profile
from tierwise.controllers.job import KeySource
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.sim.cluster.controller_manager import ControllerManager
from tierwise.sim.cluster.driver import no_key
from tierwise.sim.cluster.pod_behaviour import PodSpeed
from tierwise.sim.cluster.simulation import Simulation
from tierwise.status.pod import ConditionWriter

__all__ = ["alive", "life_of"]

_PAUSE: Final = 1.0
"""Seconds until a cluster whose last moment failed is tried again."""

_LONGEST: Final = 5.0

_MOMENT: Final = 2.0
"""Seconds after which a moment ends though others still write: time goes on for what is due later."""


def life_of(
    cluster: ServedCluster,
    profile: Profile,
    start: float,
    timing: PodSpeed,
    observe: Callable[[Snapshot, CycleReport, Objects], None] | None = None,
) -> Simulation:
    """All that acts on a served cluster: Kubernetes' controllers and tierwise's, the scheduler, and kubelets."""
    return Simulation(
        cluster.read(),
        profile,
        start=start,
        user=ControllerManager(quota_statuses),
        cluster=cluster,
        timing=timing,
        observe=observe,
        conditions=ConditionWriter(every_pod=True),
        keys=_keys(),
    )


def _keys() -> KeySource:
    """Keys of jobs as on a real cluster, where what makes them is installed."""
    try:
        from tierwise.runtime.job_keys import JobKeys
    except ImportError:
        return no_key
    return JobKeys()


@contextlib.contextmanager
def alive(
    cluster: ServedCluster,
    simulation: Simulation,
    *,
    clock: Callable[[], float] = time.time,
    tell: Callable[[str], None],
    looked: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Let the cluster live meanwhile; `tell` gets a line for what goes wrong, `looked` is called when all went well."""
    wake = threading.Event()
    ended = threading.Event()

    def changed() -> None:
        """Someone else than the cluster itself has changed something."""
        if threading.current_thread() is not thread:
            wake.set()

    def over(end: float) -> bool:
        return clock() >= end

    def live() -> None:
        now = 0.0
        while not ended.is_set():
            wake.clear()
            now = max(math.floor(clock()), now)  # a clock that is set back does not go back here
            pause = _PAUSE
            try:
                simulation.advance(now, partial(over, now + _MOMENT))
                simulation.forget()
                following = min(simulation.following(now) or math.inf, cluster.beat(now))
                if simulation.rested:
                    pause = min(max(following - clock(), 0.0), _LONGEST)
                    looked()
                else:
                    pause = 0.0
            except Exception as error:  # noqa: BLE001 - no object can stop the cluster
                tell(f"a moment of the cluster failed: {error}")
            wake.wait(pause)

    thread = threading.Thread(target=live, name="cluster", daemon=True)
    cluster.listeners.append(changed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        wake.set()
        thread.join()
        cluster.listeners.remove(changed)
