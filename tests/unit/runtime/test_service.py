"""What a process says of itself: whether its loop turns, and whether it could act."""

from __future__ import annotations

import time
from typing import cast

import pytest

from tierwise.config.profile import DEFAULT
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.runtime.service import LoopRunner, LoopTiming


class _Cluster:
    """As much of a cluster as a process asks that does not turn."""

    filled = False
    unheard = ""

    def deaf(self) -> str:
        return self.unheard

    def synced(self, timeout: float = 0.0) -> bool:
        return self.filled

    def leading(self) -> bool:
        return False

    def secret(self, namespace: str, name: str) -> dict[str, str]:
        raise AssertionError("nobody fetches anything")

    def wake(self) -> None:
        pass


def _service(cluster: _Cluster) -> LoopRunner:
    return LoopRunner(cast(KubeCluster, cluster), [], with_controllers=False, timing=LoopTiming())


def test_a_loop_without_an_end_of_a_turn_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """After three minutes, so that a kubelet starts the process anew; not before, because a turn may take long."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    service = _service(_Cluster())
    assert "" == service.live()
    now += 180
    assert "" == service.live()
    now += 1

    assert "no iteration has ended for 181 seconds" == service.live()


class _Filled(_Cluster):
    """A cluster that can be run on until the first turn."""

    filled = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_a_cycle_that_does_not_end_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Health fails while a stage computes for longer than it may, and neither before nor between stages."""
    now, said, started = 1000.0, list[tuple[str, str]](), list[LoopRunner]()

    def looked_at() -> float:
        """Who looks at the clock is held up: for as long as a stage may take, and then for longer."""
        nonlocal now
        for service in started:
            now += 80.0
            in_time = service.live()
            now += 1.0
            said.append((in_time, service.live()))
            now -= 81.0
            service.stop()
        return 1_800_000_000.0

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "time", looked_at)
    scheduler = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    cluster = cast(KubeCluster, _Filled())
    started.append(LoopRunner(cluster, [scheduler], with_controllers=False, timing=LoopTiming(), cycle_limit=80.0))
    started[0].run()

    assert ("", "scheduling has not ended for 81 seconds") in said
    assert {""} == {in_time for in_time, _ in said}


def test_who_hears_nothing_is_not_alive() -> None:
    """Turns may end in time and decide nothing, because nobody says what there is to decide: another takes over."""
    cluster = _Cluster()
    service = _service(cluster)
    assert "" == service.live()
    cluster.unheard = "nothing was heard of pods for 200 seconds"

    assert "nothing was heard of pods for 200 seconds" == service.live()


def test_ready_is_who_knows_the_cluster_and_does_not_end() -> None:
    """Traffic goes elsewhere until caches are filled, and from the moment at which the process is told to end."""
    cluster = _Cluster()
    service = _service(cluster)
    assert "caches are not filled yet" == service.ready()
    cluster.filled = True
    assert "" == service.ready()
    service.stop()

    assert "ending" == service.ready()
