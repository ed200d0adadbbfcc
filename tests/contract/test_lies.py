"""A yes that is none: a gateway's page, JSON that is cut, an object of another kind, wherever an answer is read.

Nothing is believed of it, the log has a line, and the request is made again; nothing ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.contract.fake_api import LIES, FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually
from tests.support.depth import QUICK

from tierwise.api.core import Pod
from tierwise.api.volcano import Queue
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import ClusterOptions, KubeCluster
from tierwise.kube.errors import UnreachableError
from tierwise.kube.lease import LeaseOptions, LeaseTimes
from tierwise.port import Bind, Key, Outcome, RecordEvent
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile

QUEUE: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
P0 = Key("", "Pod", "default", "p0")


def lies(first: int) -> pytest.MarkDecorator:
    """Every lie; in `make test` some of them, others in the next test."""
    every = [*LIES, *LIES][first % len(LIES) :]
    return pytest.mark.parametrize("lie", every[: 3 if QUICK else len(LIES)])


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two attempts."""
    for module in ("client", "reflector", "cluster", "binder"):
        monkeypatch.setattr(f"tierwise.kube.{module}.pause", lambda *_, **__: 0.0)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a few objects."""
    with FakeApi() as found:
        found.put(node("n0"), pod("p0"), QUEUE)
        yield found


def _pods(cluster: KubeCluster) -> list[str]:
    return list(cluster.read().every(Pod))


def _until(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold that the client does not tell of."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


@lies(0)
@pytest.mark.parametrize("path", [r"^/api/v1$", r"^/apis/scheduling.volcano.sh/v1beta1$"])
def test_which_kinds_are_served(api: FakeApi, lie: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind is not taken for one that is not served."""
    api.fail("GET", path, lie)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert {"q"} == set(cluster.read().every(Queue))


@lies(3)
def test_lists(api: FakeApi, lie: str, caplog: pytest.LogCaptureFixture) -> None:
    """An empty list is not believed of anybody who says no version."""
    api.fail("GET", r"/pods\?limit", lie)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert ["default/p0"] == _pods(cluster)
        assert "GET /api/v1/pods" in caplog.text


@lies(6)
def test_watches(api: FakeApi, lie: str) -> None:
    """What is no event breaks the watch off, and the next one goes on where it was."""
    api.fail("GET", r"/pods\?.*watch=true", lie)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(pod("p1"))

        assert eventually(cluster, lambda: _pods(cluster) == ["default/p0", "default/p1"])


@lies(9)
def test_kinds_that_are_installed_later(api: FakeApi, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look for further kinds goes on."""
    monkeypatch.setattr("tierwise.kube.cluster._LATE", 0.02)
    api.unserved.add("queues")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.fail("GET", "^/apis/scheduling.volcano.sh/v1beta1$", lie, times=8)
        api.unserved.clear()

        assert eventually(cluster, lambda: "q" in cluster.read().every(Queue))


@lies(12)
def test_checks_against_fresh_lists(api: FakeApi, lie: str) -> None:
    """A check that hears nonsense mends nothing and forgets nobody; the next one does."""
    with KubeCluster(Access(api.url), ClusterOptions(check_every=0.05)) as cluster:
        assert cluster.synced(timeout=60)
        api.fail("GET", r"/pods\?limit", lie, times=8)
        api.silently(pod("p1"))
        api.put(node("n1"))
        api.put(pod("p2"))

        assert eventually(cluster, lambda: _pods(cluster) == ["default/p0", "default/p1", "default/p2"])


@lies(15)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_the_lease(api: FakeApi, lie: str, method: str) -> None:
    """It is taken, renewed and given back once the server is heard again."""
    times = LeaseTimes(duration=3.0, deadline=2.0, retry=0.01)
    options = ClusterOptions(lease=LeaseOptions("tierwise", "kube-system", "we", times))
    api.fail(method, "/leases", lie, times=2)
    with KubeCluster(Access(api.url), options) as cluster:
        assert eventually(cluster, cluster.leading)
    held = api.get("leases", "tierwise", "kube-system")["spec"]

    assert "" == held["holderIdentity"]


@lies(18)
def test_giving_the_lease_back(api: FakeApi, lie: str) -> None:
    """Who ends does not fail because the last answer was none."""
    options = ClusterOptions(lease=LeaseOptions("tierwise", "kube-system", "we"))
    with KubeCluster(Access(api.url), options) as cluster:
        assert eventually(cluster, cluster.leading)
        api.fail("GET", "/leases", lie, times=10**9)

    assert "we" == api.get("leases", "tierwise", "kube-system")["spec"]["holderIdentity"]


@lies(21)
@pytest.mark.parametrize("method", ["POST", "GET", "PATCH"])
def test_events(api: FakeApi, lie: str, method: str) -> None:
    """One event may be lost; those after it are written."""
    told = RecordEvent(P0, "Normal", "Scheduled", "on n0")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        cluster.apply([told])
        assert _until(lambda: len(api.all("events")) == 1)
        api.fail(method, "/events", lie, times=6)
        cluster.apply([told])
        cluster.apply([RecordEvent(P0, "Normal", "Later", "on n1")])

        assert _until(lambda: len(api.all("events")) == 2)


@lies(24)
def test_binds(api: FakeApi, lie: str) -> None:
    """The pod is looked up, because nobody knows whether it was bound, and bound again."""
    api.fail("POST", "/binding", lie)
    api.fail("GET", "/pods/p0$", lie)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        bind = Bind(P0, "n0")

        assert [Outcome(bind, ok=True)] == cluster.apply([bind])
        assert "n0" == api.get("pods", "p0")["spec"]["nodeName"]


@lies(27)
def test_statuses(api: FakeApi, lie: str) -> None:
    """A status whose answer was none is written again, and a cycle goes on."""
    api.put(pod_group("g", 1), pod("p1", group="g"))
    api.fail("PATCH", "/podgroups/g", lie, times=3)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        scheduler = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
        Loop(cluster, [scheduler], clock=lambda: 1e9, ticks=lambda: 1e9).run_once()

        assert _until(lambda: "Running" == api.get("podgroups", "g")["status"]["phase"])
        assert "n0" == api.get("pods", "p1")["spec"]["nodeName"]


@lies(30)
def test_secrets(api: FakeApi, lie: str) -> None:
    """Who asks for one hears that the server cannot be heard, and nothing else."""
    api.fail("GET", "/secrets/s", lie, times=6)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        with pytest.raises(UnreachableError):
            cluster.secret("default", "s")


def test_a_defect_in_the_background_is_told_and_gone_on_from(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody has foreseen ends no process, either."""
    monkeypatch.setattr("tierwise.kube.cluster._BROKEN", 0.0)
    monkeypatch.setattr("tierwise.kube.cluster._LATE", 0.02)
    api.unserved.add("queues")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        failures = iter([ZeroDivisionError("nobody's fault")])

        async def broken(*_: object) -> dict[tuple[str, str], object]:
            monkeypatch.undo()
            raise next(failures)

        monkeypatch.setattr("tierwise.kube.cluster.discover", broken)
        assert _until(lambda: "further kinds: broke off, and goes on" in caplog.text)

        assert cluster.synced()
