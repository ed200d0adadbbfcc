"""Writes that must stand before a pod is bound, as an API server meets them: first, in order, and whole or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Bind, Cluster, Effect, Key, Nominate, Objects, Prepare
from tierwise.sim.cluster.store import EmbeddedCluster

Make = Callable[..., Cluster]
CLAIM = Key("resource.k8s.io", "ResourceClaim", "default", "c0")
VOLUME = Key("", "PersistentVolumeClaim", "default", "v0")
OTHER = Key("", "PersistentVolumeClaim", "default", "v1")
ABSENT = Key("", "PersistentVolumeClaim", "default", "absent")
UNSERVED = Key("scheduling.x-k8s.io", "Nothing", "default", "x")


def _claim(name: str = "c0", users: Sequence[str] = ()) -> Json:
    status: Json = {"reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
        "status": status,
    }


def _volume(name: str) -> Json:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {}}


WORLD = (node("n0"), *(pod(f"{gang}{i}") for gang in "gh" for i in range(3)), _claim(users=["other"]))
WORLD += (_volume("v0"), _volume("v1"))


def _pod(name: str) -> Key:
    return Key("", "Pod", "default", name)


def _reserve(user: str, gang: str = "g", version: str = "") -> Prepare:
    users = [{"resource": "pods", "name": user, "uid": user}]
    return Prepare(CLAIM, {"status": {"reservedFor": users}}, gang, version, status=True)


def _mark(value: str, gang: str = "g", key: Key = VOLUME) -> Prepare:
    return Prepare(key, {"metadata": {"annotations": {"mark": value}}}, gang)


def _starts(gang: str) -> list[Effect]:
    """Two pods of a gang are bound, a third one is nominated."""
    binds = [Bind(_pod(f"{gang}{i}"), "n0", gang=gang) for i in range(2)]
    return [*binds, Nominate(_pod(f"{gang}2"), "n0", gang=gang)]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with pods of two gangs, a claim that another pod uses as well, and a volume's claim."""
    with FakeApi() as found:
        found.put(*WORLD)
        yield found


@pytest.fixture(params=["embedded", "kube"])
def either(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The same world on both kinds of cluster."""
    with ExitStack() as stack:
        if request.param == "embedded":
            yield EmbeddedCluster(Objects.of((codec.decode(raw), raw) for raw in WORLD))
        else:
            api = stack.enter_context(FakeApi())
            api.put(*WORLD)
            cluster = stack.enter_context(KubeCluster(Access(api.url)))
            assert cluster.synced(timeout=60)
            yield cluster


def _placed(cluster: Cluster, gang: str) -> list[str]:
    """Where the pods of a gang are, or are nominated for."""
    pods = cluster.read().every(Pod)
    found = [pods[f"default/{gang}{i}"] for i in range(3)]
    return [pod.spec.node_name or pod.status.nominated_node_name for pod in found]


FAILING = [
    [_mark("1", key=ABSENT)],
    [_mark("1", key=UNSERVED)],
    [Prepare(VOLUME, _volume("v0"), "g", create=True)],
    [_reserve("g0"), _mark("1", key=ABSENT)],
    [_mark("1", key=ABSENT), _reserve("g0")],
]


@pytest.mark.parametrize("writes", FAILING)
def test_a_gang_that_is_not_prepared_does_not_start(either: Cluster, writes: list[Effect]) -> None:
    """None of its pods is bound or nominated, whichever write failed; a gang beside it has all that it asked for."""
    asked = [*writes, _mark("2", "h", OTHER), *_starts("g"), *_starts("h")]
    outcomes = either.apply(asked)

    assert asked == [outcome.effect for outcome in outcomes]
    assert (["", "", ""], ["n0", "n0", "n0"]) == (_placed(either, "g"), _placed(either, "h"))
    starts = outcomes[len(writes) + 1 :]
    assert [False] * 3 + [True] * 3 == [outcome.ok for outcome in starts]
    assert [True] * 3 + [False] * 3 == [outcome.withheld for outcome in starts]


def test_a_nomination_is_given_up_though_nothing_could_be_written(either: Cluster) -> None:
    """Room that will not come is withheld, not its being given up."""
    either.apply([Nominate(_pod("g2"), "n0", gang="g")])
    outcomes = either.apply([_mark("1", key=ABSENT), Nominate(_pod("g2"), "", gang="g")])

    assert ([False, True], ["", "", ""]) == ([outcome.ok for outcome in outcomes], _placed(either, "g"))


def test_all_is_written_before_anything_is_bound(api: FakeApi, cluster: KubeCluster) -> None:
    """Whoever starts the pod finds its devices and its volume: the first bind is sent after the last write."""
    asked = [_reserve("g0"), _mark("1"), Prepare(ABSENT, _volume("absent"), "g", create=True), *_starts("g")]
    outcomes = cluster.apply(asked)

    writes = [r.rpartition("default/")[2] for r in api.requests if not r.startswith("GET") and "/events" not in r]
    prepared = ["persistentvolumeclaims", "persistentvolumeclaims/v0", "resourceclaims/c0/status"]
    assert all(outcome.ok for outcome in outcomes)
    assert (prepared, ["pods/g0/binding", "pods/g1/binding"]) == (sorted(writes[:3]), sorted(writes[3:5]))


def test_who_else_uses_a_claim_stays_written(api: FakeApi, cluster: KubeCluster) -> None:
    """The server merges the users of a claim, as several schedulers may reserve it."""
    assert [True] == [outcome.ok for outcome in cluster.apply([_reserve("g0")])]
    assert ["other", "g0"] == [user["uid"] for user in api.get("resourceclaims", "c0")["status"]["reservedFor"]]


@pytest.mark.parametrize("changed", [False, True])
def test_what_was_decided_on_an_older_claim_is_not_written(api: FakeApi, cluster: KubeCluster, changed: bool) -> None:
    """A claim that somebody has changed since is decided on anew, and its gang with it."""
    version = api.get("resourceclaims", "c0")["metadata"]["resourceVersion"]
    if changed:
        api.silently(_claim(users=["another"]))
    outcomes = cluster.apply([_reserve("g0", version=version), *_starts("g")])

    users = [user["uid"] for user in api.get("resourceclaims", "c0")["status"]["reservedFor"]]
    assert (["another"] if changed else ["other", "g0"]) == users
    assert [not changed] * 4 == [outcome.ok for outcome in outcomes]
    assert [not changed] * 2 == ["nodeName" in api.get("pods", name)["spec"] for name in ("g0", "g1")]


def test_writes_about_one_object_end_with_the_first_that_fails(api: FakeApi, cluster: KubeCluster) -> None:
    """A claim is allocated before it is reserved: what builds on a write that failed is not sent."""
    api.fail("PATCH", r"/resourceclaims/c0(\?|$)", 422)
    finalizer = Prepare(CLAIM, {"metadata": {"finalizers": ["f"]}}, "g")
    outcomes = cluster.apply([finalizer, _reserve("g0"), _mark("1", "h"), *_starts("g"), *_starts("h")])

    assert [False, False, True, *[False] * 3, *[True] * 3] == [outcome.ok for outcome in outcomes]
    assert [] == [r for r in api.requests if r.endswith("/resourceclaims/c0/status")]


@pytest.mark.parametrize("effect", [_reserve("g0"), Prepare(ABSENT, _volume("absent"), "g", create=True)])
def test_a_write_whose_answer_was_lost_has_happened(api: FakeApi, cluster: KubeCluster, effect: Prepare) -> None:
    """It is sent again, and the gang starts."""
    for method in ("PATCH", "POST"):
        api.fail(method, "/(resourceclaims|persistentvolumeclaims)", "lose")
    outcomes = cluster.apply([effect, *_starts("g")])

    assert [True] * 4 == [outcome.ok for outcome in outcomes]
    assert ["n0"] * 3 == _placed(cluster, "g")


def test_what_was_prepared_is_read_at_once(api: FakeApi, cluster: KubeCluster) -> None:
    """The next cycle decides on the claim as it was written, however far the watch is behind."""
    api.mute_watches()
    cluster.apply([_mark("1")])
    raw = cluster.read().raw(VOLUME)

    assert raw is not None
    assert {"mark": "1"} == raw["metadata"]["annotations"]  # type: ignore[index]
