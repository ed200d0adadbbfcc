"""Two schedulers and a server that freezes: who has lost the lease sends nothing more, and finds out what it sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import ClusterOptions, KubeCluster
from tierwise.kube.lease import LeaseOptions, LeaseTimes
from tierwise.port import (
    Bind,
    Create,
    Delete,
    Effect,
    Evict,
    Key,
    Nominate,
    Outcome,
    PatchStatus,
    RecordEvent,
    Update,
    Version,
)

TIMES = LeaseTimes(duration=15.0, deadline=10.0, retry=0.01)
LOST = "withheld: no longer the leader"


class _Clock:
    """Seconds that pass when the test says so; the lease is counted in them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _World:
    def __init__(self, api: FakeApi, stack: ExitStack) -> None:
        self.api = api
        self.clock = _Clock()
        self._stack = stack

    def scheduler(self, name: str) -> KubeCluster:
        options = ClusterOptions(lease=LeaseOptions("tierwise", "kube-system", name, TIMES))
        cluster = self._stack.enter_context(KubeCluster(Access(self.api.url, token=lambda: name), options, self.clock))
        assert cluster.synced(timeout=60)
        return cluster

    def leader(self, name: str) -> KubeCluster:
        cluster = self.scheduler(name)
        assert eventually(cluster, cluster.leading)
        return cluster

    def later(self, seconds: float) -> bool:
        """Let time pass."""
        self.clock.now += seconds
        return True

    def writes(self) -> list[str]:
        return [r for r in self.api.requests if not r.startswith("GET") and "/leases" not in r and "/events" not in r]

    def node_of(self, name: str) -> str:
        return str(self.api.get("pods", name)["spec"].get("nodeName", ""))


@pytest.fixture
def world() -> Iterator[_World]:
    """One node of eight, and two pods that fill it each."""
    with FakeApi() as api, ExitStack() as stack:
        api.put(node("n0"), pod("p0", cpu="8"), pod("p1", cpu="8"), pod("victim", on="n0"), pod_group("g", 1))
        yield _World(api, stack)


def _key(name: str) -> Key:
    return Key("", "Pod", "default", name)


class _Applying:
    """Effects that are being carried out, while the test goes on."""

    def __init__(self, cluster: KubeCluster, effects: Sequence[Effect]) -> None:
        self._outcomes: list[Outcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.extend(cluster.apply(effects)), daemon=True)
        self._thread.start()

    def outcomes(self) -> list[Outcome]:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        return self._outcomes


def test_frozen_bind_is_not_sent_again_by_an_old_leader(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next leader has given the node away while the first one's bind was frozen: the first sends nothing more."""
    monkeypatch.setattr("tierwise.kube.binder.PATIENT", 0.1)
    first, second = world.leader("a"), world.scheduler("b")
    world.api.fail("POST", "/p0/binding", "freeze")
    applying = _Applying(first, [Bind(_key("p0"), "n0", gang="default/g")])
    assert world.api.frozen.wait(60)
    world.api.fail("GET", "/leases/", "freeze", times=1000, who="a")
    world.clock.now += 20.0
    assert eventually(second, lambda: world.later(0.5) and second.leading())  # once it has seen the last renewal
    assert [True] == [outcome.ok for outcome in second.apply([Bind(_key("p1"), "n0", gang="default/h")])]
    world.api.thaw()

    assert [False] == [outcome.ok for outcome in applying.outcomes()]
    assert 1 == sum(request.endswith("/p0/binding") for request in world.api.requests)
    assert ("", "n0") == (world.node_of("p0"), world.node_of("p1"))
    assert eventually(first, lambda: not first.read().every(Pod)["default/p0"].spec.node_name)


def test_bind_that_happened_is_found_by_an_old_leader(world: _World) -> None:
    """The answer and the lease were lost, but the bind was carried out: a look says so, and nothing is sent again."""
    first = world.leader("a")
    world.api.fail("POST", "/p0/binding", "lose", before=_passing(world, 20.0))
    outcomes = first.apply([Bind(_key("p0"), "n0", gang="default/g")])

    assert [True] == [outcome.ok for outcome in outcomes]
    assert (1, "n0") == (sum(r.endswith("/binding") for r in world.api.requests), world.node_of("p0"))


def test_unknown_bind_keeps_its_place_until_it_is_looked_up(world: _World) -> None:
    """Neither an answer nor the lease: the pod counts as bound here, so that nothing is sent for it again."""
    first = world.leader("a")
    world.api.fail("POST", "/p0/binding", "drop", before=_passing(world, 20.0))
    [outcome] = first.apply([Bind(_key("p0"), "n0", gang="default/g")])

    assert (False, True) == (outcome.ok, "looked up" in outcome.error)
    assert "n0" == first.read().every(Pod)["default/p0"].spec.node_name


def _effects() -> list[Effect]:
    group = Key("scheduling.volcano.sh", "PodGroup", "default", "g")
    made = pod_group("made", 1)
    return [
        Bind(_key("p0"), "n0", gang="default/g"),
        Evict(_key("victim"), "preempted", "default/g", "preempt"),
        Nominate(_key("p0"), "n0", gang="default/g"),
        Create(made),
        Update(group, {**pod_group("g", 2), "metadata": {"name": "g", "namespace": "default", "resourceVersion": "1"}}),
        Delete(group),
        PatchStatus(group, {"phase": "Running"}, {}),
    ]


@pytest.mark.parametrize("effect", _effects(), ids=lambda effect: type(effect).__name__)
@pytest.mark.parametrize("how", [503, "drop"])
def test_every_attempt_asks_for_the_lease(world: _World, effect: Effect, how: int | str) -> None:
    """Whatever a leader writes: once the lease is gone there is no second attempt."""
    first = world.leader("a")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        path = "/(pods|podgroups)"
        world.api.fail(method, path, how, times=9, headers={"Retry-After": "0"}, before=_passing(world, 20.0))
    [outcome] = first.apply([effect])

    assert (False, 1) == (outcome.ok, len(world.writes()))


def test_lost_lease_is_counted_and_nothing_decided_before_is_sent(world: _World) -> None:
    """A process that was stopped for a while takes the lease anew; what it had decided before stays unsent."""
    first = world.leader("a")
    world.clock.now += 20.0
    until = time.monotonic() + 10
    while not (first.figures().losses and _listed_again(world)) and time.monotonic() < until:
        first.synced(0.01)  # no turn ends: the scheduler's thread is still at work
    [outcome] = first.apply([Bind(_key("p0"), "n0", gang="default/g")])
    assert (1, LOST) == (first.figures().losses, outcome.error)

    assert eventually(first, first.leading)
    [outcome] = first.apply([Bind(_key("p0"), "n0", gang="default/g")])
    assert (1, True) == (first.figures().losses, outcome.ok)


def test_what_was_begun_in_one_term_is_not_sent_in_the_next(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bind waits behind another while the lease is lost and taken anew, and turns go on: it was decided before."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    first = world.leader("a")
    world.api.fail("POST", "/p0/binding", "freeze")
    outcomes = first.begin([Bind(_key("p0"), "n0", gang="default/g"), Bind(_key("p1"), "n0", gang="default/h")])
    assert world.api.frozen.wait(60)
    world.clock.now += 20.0
    assert eventually(first, lambda: bool(first.figures().losses and _listed_again(world)))
    assert eventually(first, first.leading)  # although the first bind is still under way
    world.api.thaw()

    assert LOST == outcomes()[1].error
    assert "" == world.node_of("p1")


def test_who_begins_to_lead_knows_what_was_bound_until_then(world: _World) -> None:
    """The watch of a standby may be behind: pods and nodes are listed before it acts."""
    first, second = world.leader("a"), world.scheduler("b")
    bound = world.api.get("pods", "p1")
    world.api.silently({**bound, "spec": {**bound["spec"], "nodeName": "n0"}})
    first.__exit__(None, None, None)
    assert eventually(second, second.leading)

    assert "n0" == second.read().every(Pod)["default/p1"].spec.node_name


def test_leader_that_hears_nothing_is_replaced(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its health fails although its lease is renewed; ended for that, it gives the lease to who hears the server."""
    first = world.leader("a")
    world.api.mute_watches()
    second = world.scheduler("b")  # begun after the connections of the first were lost
    world.api.put(pod("late"))
    monkeypatch.setattr("tierwise.kube.cluster._DEAF", -1.0)
    assert first.deaf().startswith("nothing was heard of ")
    monkeypatch.undo()
    assert (True, False) == (first.leading(), "default/late" in first.read().every(Pod))
    first.__exit__(None, None, None)  # as the kubelet ends a process whose health fails
    assert eventually(second, second.leading)
    second.wait(Version(-1), 0.0)
    [outcome] = second.apply([Bind(_key("late"), "n0", gang="")])

    assert (True, "n0") == (outcome.ok, world.node_of("late"))


def test_standby_tells_nothing(world: _World) -> None:
    """Events of a decision that nobody let it take are not recorded either."""
    world.leader("a")
    [outcome] = world.scheduler("b").apply([RecordEvent(_key("p0"), "Normal", "Scheduled", "to n0", "d")])

    assert (False, LOST) == (outcome.ok, outcome.error)


def _listed_again(world: _World) -> bool:
    return 2 < sum(request == "GET /api/v1/nodes" for request in world.api.requests)


def _passing(world: _World, seconds: float) -> Callable[[], None]:
    def pass_() -> None:
        world.clock.now += seconds
        world.api.fail("GET", "/leases/", 503, times=10_000)

    return pass_
