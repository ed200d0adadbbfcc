"""Events and log lines about one decision have one id, and people see it where they look."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.explain.message import decision_id
from tierwise.kube.auth import Access
from tierwise.kube.cluster import ConnectionFigures, KubeCluster
from tierwise.runtime.loop import Loop
from tierwise.runtime.metrics import registry
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.runtime.telemetry import Telemetry
from tierwise.scheduler.partial_gangs import PATIENCE

START = 1_800_000_000.0


class _Connection:
    def figures(self) -> ConnectionFigures:
        return ConnectionFigures(leading=True, binds=0, lag={}, missed={})


class _World:
    """A cluster of two nodes of eight with these objects, and turns of a loop at times that we choose."""

    def __init__(self, api: FakeApi, cluster: KubeCluster) -> None:
        self.api = api
        self.cluster = cluster
        self.now = START
        self._loop = Loop(
            cluster,
            [SchedulerProfile(frozenset({"tierwise"}), DEFAULT)],
            clock=lambda: self.now,
            ticks=lambda: self.now,
            with_controllers=False,
            observers=[Telemetry(registry(), _Connection())],
        )

    def turn(self, at: float, job: str) -> str:
        """A turn at some time, until all that it tells is written; the id of what it decides about a job."""
        self.now = at
        self._loop.run_once()
        assert self.cluster.flush(60)
        return decision_id(at, job)

    def told(self, decision: str) -> dict[tuple[str, str], Json]:
        """Events of a decision, by whom and what; written in the background, so they are waited for."""
        seen: dict[tuple[str, str], Json] = {}
        for event in self.api.all("events"):
            if event["metadata"]["annotations"].get("tierwise.io/decision") == decision:
                assert event["message"].endswith(f" (decision {decision})")
                seen[event["involvedObject"]["name"], event["reason"]] = event
        return seen

    def until_told(self, decision: str, expected: set[tuple[str, str]]) -> dict[tuple[str, str], Json]:
        until = time.monotonic() + 10
        while not expected <= self.told(decision).keys() and time.monotonic() < until:
            time.sleep(0.02)
        assert expected == self.told(decision).keys()
        return self.told(decision)


Start = Callable[..., _World]


@pytest.fixture
def start() -> Iterator[Start]:
    """Opens a world with these objects."""
    with FakeApi() as api:
        clusters: list[KubeCluster] = []

        def opened(*manifests: Json) -> _World:
            api.put(node("n0"), node("n1"), *manifests)
            cluster = KubeCluster(Access(api.url)).__enter__()
            clusters.append(cluster)
            assert cluster.synced(timeout=60)
            return _World(api, cluster)

        yield opened
        for cluster in clusters:
            cluster.__exit__(None, None, None)


def _gang(size: int, *, bound: int = 0) -> list[Json]:
    pods = [pod(f"p{i}", cpu="4", group="g", on="n0" if i < bound else "") for i in range(size)]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    for found in pods:
        found["metadata"]["ownerReferences"] = [owner]
    return [pod_group("g", size), *pods]


def _logged(caplog: pytest.LogCaptureFixture, decision: str) -> set[str]:
    lines = ((record.getMessage(), getattr(record, "fields", {})) for record in caplog.records)
    return {text for text, fields in lines if fields.get("decision") == decision}


def test_placed_pods_and_their_group_name_the_decision(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """What `kubectl describe` shows of a pod leads to the line of the log."""
    caplog.set_level(logging.INFO)
    world = start(*_gang(2))
    decision = world.turn(START, "default/g")

    found = world.until_told(decision, {("p0", "Scheduled"), ("p1", "Scheduled"), ("g", "Scheduled")})
    assert f"Successfully assigned default/p0 to n0 (decision {decision})" == found["p0", "Scheduled"]["message"]
    assert {"bound"} == _logged(caplog, decision)


def test_whoever_waits_names_the_decision(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A gang by its group, a pod of no group by itself; the log has a line for each."""
    caplog.set_level(logging.INFO)
    world = start(*_gang(5), pod("solo", cpu="9"))
    decision = world.turn(START, "default/g")
    world.until_told(decision, {("g", "Unschedulable")})
    alone = decision_id(START, "pod default/solo")
    world.until_told(alone, {("solo", "FailedScheduling")})

    assert ({"waiting"}, {"waiting"}) == (_logged(caplog, decision), _logged(caplog, alone))


def test_news_about_a_gang_is_news_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Where only the number of waiting pods has changed people are told, and find that decision as well."""
    caplog.set_level(logging.INFO)
    world = start(*_gang(5))
    world.turn(START, "default/g")
    world.api.put(pod("p5", cpu="4", group="g"))
    assert eventually(world.cluster, lambda: "default/p5" in world.cluster.read().every(Pod))
    decision = world.turn(START + 1, "default/g")

    world.until_told(decision, {("g", "Unschedulable")})
    assert {"waiting"} == _logged(caplog, decision)


def test_what_fails_again_counts_up_and_names_the_last_decision(start: Start) -> None:
    """The same failure is one event, whose id is that of the last time."""
    world = start(pod_group("g", 1), pod("p0", group="g"))
    world.api.fail("POST", "/binding", 403, times=2, said={"message": "not today"})
    first = world.turn(START, "default/g")
    world.until_told(first, {("p0", "FailedBinding"), ("g", "Unschedulable")})
    second = world.turn(START + 1, "default/g")
    found = world.until_told(second, {("p0", "FailedBinding")})

    assert 2 == found["p0", "FailedBinding"]["count"]
    assert f"not today (decision {second})" == found["p0", "FailedBinding"]["message"]


def test_what_is_released_names_the_decision(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A part of a gang that goes has an event and a line like everything else that was decided."""
    caplog.set_level(logging.INFO)
    world = start(*_gang(5, bound=1))
    world.turn(START, "default/g")
    decision = world.turn(START + PATIENCE, "default/g")

    world.until_told(decision, {("p0", "Evict")})
    until = time.monotonic() + 10
    while "released" not in _logged(caplog, decision) and time.monotonic() < until:
        time.sleep(0.02)
        world.turn(START + PATIENCE, "default/g")  # the loop does not wait for the release: a later turn hears of it
    assert {"released"} <= _logged(caplog, decision) <= {"released", "waiting"}
