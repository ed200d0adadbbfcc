"""One leader at a time: taken when free, kept while renewed, given back at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod

from tierwise.kube.auth import Access
from tierwise.kube.client import Client
from tierwise.kube.cluster import ClusterOptions, KubeCluster
from tierwise.kube.lease import Lease, LeaseOptions, LeaseTimes
from tierwise.port import Bind, Key

QUICK = LeaseTimes(duration=1.0, deadline=0.6, retry=0.05)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a pod to bind."""
    with FakeApi() as found:
        found.put(node("n0"), pod("p0"))
        yield found


def _candidate(api: FakeApi, name: str) -> KubeCluster:
    lease = LeaseOptions("tierwise", "kube-system", name, QUICK)
    return KubeCluster(Access(api.url), ClusterOptions(lease=lease))


def _leads(*clusters: KubeCluster) -> bool:
    """Whether one of them comes to lead."""
    until = time.monotonic() + 5
    while not any(cluster.leading() for cluster in clusters) and time.monotonic() < until:
        for cluster in clusters:
            cluster.wait(cluster.read().version, 0.02)
    return any(cluster.leading() for cluster in clusters)


def _holder(api: FakeApi) -> str:
    return str(api.get("leases", "tierwise", "kube-system")["spec"]["holderIdentity"])


def test_the_second_waits_and_takes_over_at_once(api: FakeApi) -> None:
    """While one leads the other does not; where the first ends in order, the second need not wait."""
    with _candidate(api, "b") as second:
        with _candidate(api, "a") as first:
            assert first.synced(timeout=60)
            assert second.synced(timeout=60)
            assert _leads(first, second)
            leaders = (first.leading(), second.leading())
            assert leaders in ((True, False), (False, True))
        assert _leads(second)
        assert "b" == _holder(api)
    assert "" == _holder(api)


def test_a_lease_is_given_back_in_spite_of_a_conflict(api: FakeApi) -> None:
    """A renewal that was under way changes the lease behind the back of who gives it back."""
    with _candidate(api, "a") as cluster:
        assert cluster.synced(timeout=60)
        assert _leads(cluster)
        api.fail("PUT", "leases", 409, times=2)

    assert ("", False) == (_holder(api), cluster.leading())


@pytest.mark.parametrize("sent", [True, False], ids=["the answer is under way", "the request is under way"])
def test_a_lease_that_is_being_taken_is_given_back(api: FakeApi, *, sent: bool) -> None:
    """Who is asked to end before it has heard that it leads leaves no lease behind that others would wait for."""

    class Slow(Client):
        async def send(self, method: str, *about: Any, **more: Any) -> bytes:
            if method == "POST" and not sent:
                await under_way()
            answer = await super().send(method, *about, **more)
            if method == "POST" and sent:
                await under_way()
            return answer

    async def under_way() -> None:
        taken.set()
        with suppress(TimeoutError):  # who gives it back has to wait for this
            await asyncio.wait_for(released.wait(), 0.1)

    async def end_early() -> None:
        async with Slow(Access(api.url)) as client:
            lease = Lease(client, LeaseOptions("tierwise", "kube-system", "a", QUICK), time.monotonic)
            running = asyncio.create_task(lease.run(lambda: None))
            await taken.wait()
            await lease.release()
            released.set()
            await running

    taken, released = asyncio.Event(), asyncio.Event()
    asyncio.run(end_early())

    assert "" == _holder(api)


def test_silent_leader_is_replaced(api: FakeApi) -> None:
    """A lease that nobody renews is taken once it has stood still for its duration, not before."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": now, "leaseTransitions": 3}
    meta = {"name": "tierwise", "namespace": "kube-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    api.put(lease)
    with _candidate(api, "a") as cluster:
        assert cluster.synced(timeout=60)
        assert not cluster.leading()
        assert _leads(cluster)
        assert 4 == api.get("leases", "tierwise", "kube-system")["spec"]["leaseTransitions"]


def test_leader_that_cannot_renew_stops(api: FakeApi) -> None:
    """Who cannot reach the lease for longer than the deadline writes no more, before anybody else may."""
    with ExitStack() as stack:
        cluster = stack.enter_context(_candidate(api, "a"))
        assert cluster.synced(timeout=60)
        assert _leads(cluster)
        api.fail("GET", "/leases/", 500, times=10_000)
        until = time.monotonic() + 5
        while cluster.leading() and time.monotonic() < until:
            cluster.wait(cluster.read().version, 0.02)

        assert not cluster.leading()
        outcomes = cluster.apply([Bind(Key("", "Pod", "default", "p0"), "n0")])
        assert [(False, "withheld: no longer the leader")] == [(o.ok, o.error) for o in outcomes]
        assert "nodeName" not in api.get("pods", "p0")["spec"]


def test_times_must_make_sense() -> None:
    """A leader that stops later than others take over would not be alone."""
    with pytest.raises(ValueError, match="deadline"):
        LeaseTimes(duration=10.0, deadline=12.0)
