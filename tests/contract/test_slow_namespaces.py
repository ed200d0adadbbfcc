"""One namespace whose writes nobody answers, or that are refused for a while: other namespaces do not wait for it.

No test waits for a time: a write that hangs is held until the test lets it go, and the others must be done by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Begun, Bind, Key
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile

MANY = 48
"""More pods than there are slots."""
SIZE = 4
START = 1_800_000_000.0


def _in(namespace: str, manifest: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with room for all, a gang of four, and many pods in each of three other namespaces."""
    with FakeApi() as found:
        found.put(*(node(f"n{i}", cpu="200") for i in range(2)))
        found.put(*(pod(f"p{i}", group="g") for i in range(SIZE)))
        for name in ("slow-a", "slow-b", "slow-c"):
            found.put(*(_in(name, pod(f"s{i}")) for i in range(MANY)))
        yield found


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write counts as unanswered soon."""
    monkeypatch.setattr("tierwise.kube.write_slots.PROMPT", 0.05)


def _begin(cluster: KubeCluster, namespace: str) -> Begun:
    """Bind all pods of a namespace with many."""
    return cluster.begin([Bind(Key("", "Pod", namespace, f"s{i}"), "n0") for i in range(MANY)])


def _begin_gang(cluster: KubeCluster) -> Begun:
    return cluster.begin([Bind(Key("", "Pod", "default", f"p{i}"), "n0", gang="default/g") for i in range(SIZE)])


def test_binds_of_one_namespace_that_hang_keep_no_other_waiting(api: FakeApi, cluster: KubeCluster) -> None:
    """More binds than there are slots hang in one namespace; a gang of another is bound meanwhile."""
    api.fail("POST", "/slow-a/.*/binding", "freeze", times=10**6)
    slow = _begin(cluster, "slow-a")
    assert api.frozen.wait(60)

    assert [True] * SIZE == [outcome.ok for outcome in _begin_gang(cluster)()]
    assert not slow.done()
    api.thaw()


def test_several_namespaces_that_hang_do_not_hold_all_slots(api: FakeApi, cluster: KubeCluster) -> None:
    """Three namespaces with more binds than slots each hang; what has no answer for long no longer holds a slot."""
    api.fail("POST", "/slow-.*/binding", "freeze", times=10**6)
    slow = [_begin(cluster, name) for name in ("slow-a", "slow-b", "slow-c")]
    assert api.frozen.wait(60)

    assert [True] * SIZE == [outcome.ok for outcome in _begin_gang(cluster)()]
    assert not any(begun.done() for begun in slow)
    api.thaw()


def test_one_namespace_has_at_most_half_of_the_slots(api: FakeApi, cluster: KubeCluster) -> None:
    """However many binds of it hang, no more than half as many as there are slots are ever under way."""
    api.fail("POST", "/slow-a/.*/binding", "freeze", times=10**6)
    _begin(cluster, "slow-a")
    assert eventually(cluster, lambda: [one.writes for one in cluster.figures().slow] == [16])

    assert eventually(cluster, lambda: sum(request.endswith("/binding") for request in api.requests) == 16)
    api.thaw()


@pytest.mark.parametrize("status", [429, 503])
def test_who_is_told_to_come_back_later_holds_no_slot(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A bind that sleeps before another attempt lets others of its own namespace be sent, even with a single slot."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    api.fail("POST", "/slow-a/.*/s0/binding", status, times=10**6, headers={"Retry-After": "20"})
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        refused = cluster.begin([Bind(Key("", "Pod", "slow-a", "s0"), "n0")])
        other = cluster.begin([Bind(Key("", "Pod", "slow-a", "s1"), "n0")])

        assert [True] == [outcome.ok for outcome in other()]
        assert not refused.done()


def test_the_rest_of_a_gang_waits_until_a_bind_is_known(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer to one bind, those of its gang that were not sent yet are not sent; other gangs' are."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    api.fail("POST", "/p0/binding", "drop", times=10**6)
    api.fail("GET", "/pods/p0", "freeze", times=10**6)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        gang = _begin_gang(cluster)
        other = cluster.begin([Bind(Key("", "Pod", "slow-a", "s1"), "n0")])
        assert api.frozen.wait(60)

        assert [True] == [outcome.ok for outcome in other()]
        assert ["p0"] == [r.split("/")[-2] for r in api.requests if "/default/" in r and r.endswith("/binding")]
        assert not gang.done()
        api.thaw()


def test_slow_namespaces_are_named(api: FakeApi, cluster: KubeCluster) -> None:
    """Health and figures say whose writes have no answer, and no longer do once they are answered."""
    assert "" == cluster.slow()
    api.fail("POST", "/slow-a/.*/binding", "freeze", times=1)
    begun = cluster.begin([Bind(Key("", "Pod", "slow-a", "s0"), "n0")])
    assert eventually(cluster, lambda: bool(cluster.slow()))

    assert cluster.slow().startswith("1 writes of namespace slow-a have had no answer for ")
    assert [("slow-a", 1)] == [(one.name, one.writes) for one in cluster.figures().slow]
    api.thaw()
    begun()
    assert "" == cluster.slow()


def _until(condition: Callable[[], bool], then: Callable[[], None]) -> Callable[[], bool]:
    """Stop a loop once something holds, and do something before."""

    def stopping() -> bool:
        held = condition()
        if held:
            then()
        return held

    return stopping


def test_the_loop_goes_on_beside_a_namespace_that_hangs(api: FakeApi, cluster: KubeCluster) -> None:
    """Gangs that come later are bound and told that they run, while binds of an earlier cycle have no answer."""
    api.fail("POST", "/slow-a/.*/binding", "freeze", times=10**6)
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: START, ticks=lambda: START)
    assert eventually(cluster, lambda: len(cluster.read().every(Pod)) == SIZE + 3 * MANY)
    api.put(pod_group("g", SIZE))
    coming = [[pod_group("h", SIZE), *(pod(f"h{i}", group="h") for i in range(SIZE))]]

    def runs(name: str) -> bool:
        shown = [found for found in api.all("podgroups") if found["metadata"]["name"] == name]
        return bool(shown) and shown[0]["status"].get("phase") == "Running"

    def both_run() -> bool:
        if runs("g") and coming:
            api.put(*coming.pop())
        return runs("h")

    loop.run(period=0.05, pause=0.0, stopping=_until(both_run, api.thaw), may=lambda: True)

    bound = [found["metadata"]["name"] for found in api.all("pods") if found["spec"].get("nodeName")]
    assert {f"{gang}{i}" for gang in "ph" for i in range(SIZE)} <= {*bound}


def test_what_is_answered_late_is_seen_to(api: FakeApi, cluster: KubeCluster) -> None:
    """A gang whose bind is refused after long is told so, although its cycle was long over by then."""
    api.put(_in("slow-a", pod_group("late", 1)), _in("slow-a", pod("late", group="late")), pod_group("g", SIZE))
    assert eventually(cluster, lambda: "slow-a/late" in cluster.read().every(Pod))
    api.fail("POST", "/late/binding", "freeze", times=1)
    api.fail("POST", "/late/binding", 403, times=10**6, said={"message": "not for you"})
    own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
    loop = Loop(cluster, [own], clock=lambda: START, ticks=lambda: START)

    def told() -> bool:
        if api.get("podgroups", "g")["status"].get("phase") == "Running":
            api.thaw()
        conditions = api.get("podgroups", "late", "slow-a")["status"].get("conditions", [])
        return any("not for you" in condition.get("message", "") for condition in conditions)

    loop.run(period=0.05, pause=0.0, stopping=told, may=lambda: True)

    assert not api.get("pods", "late", "slow-a")["spec"].get("nodeName")
