"""One contract, two clusters: effects mean the same on the embedded cluster and on an API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.api.volcano import PodGroup
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import (
    Bind,
    Cluster,
    Create,
    Delete,
    Effect,
    Evict,
    Key,
    Nominate,
    Objects,
    PatchStatus,
    Prepare,
    RecordEvent,
    Update,
)
from tierwise.sim.cluster.store import EmbeddedCluster

Make = Callable[..., Cluster]
P0 = Key("", "Pod", "default", "p0")
GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "g")


@pytest.fixture(params=["embedded", "kube"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """A way to a cluster that holds some objects."""
    with ExitStack() as stack:

        def start(*manifests: Json) -> Cluster:
            if request.param == "embedded":
                return EmbeddedCluster(Objects.of((codec.decode(m), m) for m in manifests))
            api = stack.enter_context(FakeApi())
            api.put(*manifests)
            cluster = stack.enter_context(KubeCluster(Access(api.url)))
            assert cluster.synced(timeout=60)
            return cluster

        yield start


def _pod(cluster: Cluster, name: str = "p0") -> Pod | None:
    return cluster.read().every(Pod).get(f"default/{name}")


def _ok(cluster: Cluster, *effects: Effect) -> list[bool]:
    return [outcome.ok for outcome in cluster.apply(effects)]


def test_bind_shows_at_once(make: Make) -> None:
    """Whoever reads after a bind sees the node, and no nomination any more."""
    cluster = make(node("n0"), pod("p0", nominated="n0"))

    assert [True] == _ok(cluster, Bind(P0, "n0", gang="pod default/p0"))
    found = _pod(cluster)
    assert found is not None
    assert ("n0", "") == (found.spec.node_name, found.status.nominated_node_name)


def test_binds_that_were_begun_show_at_once(make: Make) -> None:
    """Whoever reads while binds are under way sees the nodes; one that fails is without a node in the end."""
    cluster = make(node("n0"), pod("p0"))
    outcomes = cluster.begin([Bind(P0, "n0"), Bind(Key("", "Pod", "default", "ghost"), "n0")])
    found = _pod(cluster)

    assert found is not None
    assert ("n0", [True, False]) == (found.spec.node_name, [outcome.ok for outcome in outcomes()])


def test_annotations_come_with_the_bind(make: Make) -> None:
    """A pod is told where it stands in the same breath as it is put there."""
    cluster = make(node("n0"), pod("p0", group="g"))
    cluster.apply([Bind(P0, "n0", {"tierwise.io/hypernode": "r0"})])

    found = _pod(cluster)
    assert found is not None
    assert {"scheduling.k8s.io/group-name": "g", "tierwise.io/hypernode": "r0"} == dict(found.metadata.annotations)


def test_outcomes_come_in_order(make: Make) -> None:
    """One outcome for each effect, and a failed one does not keep the others back."""
    cluster = make(node("n0"), pod("p0"))
    ghost = Key("", "Pod", "default", "ghost")

    assert [False, True, False] == _ok(cluster, Nominate(ghost, "n0"), Nominate(P0, "n0"), Delete(ghost))


def test_nomination_is_written_and_taken_back(make: Make) -> None:
    """An empty node takes a nomination back."""
    cluster = make(node("n0"), pod("p0"))
    cluster.apply([Nominate(P0, "n0")])
    nominated = _pod(cluster)
    cluster.apply([Nominate(P0, "")])
    free = _pod(cluster)

    assert nominated is not None
    assert free is not None
    assert ("n0", "") == (nominated.status.nominated_node_name, free.status.nominated_node_name)


def test_evicted_pod_no_longer_stays(make: Make) -> None:
    """After an eviction a pod is gone or leaving, and a reader knows."""
    cluster = make(node("n0"), pod("p0", on="n0"))

    assert [True] == _ok(cluster, Evict(P0, "preempted", "default/g", "preempt"))
    found = _pod(cluster)
    assert found is None or found.metadata.deletion_timestamp


def test_create_fails_where_one_exists(make: Make) -> None:
    """An object is created once."""
    cluster = make(pod_group("g"))

    assert [True] == _ok(cluster, Create(pod("p1")))
    assert _pod(cluster, "p1") is not None
    assert [False, False] == _ok(cluster, Create(pod("p1")), Create(pod_group("g")))


def test_update_replaces_and_needs_an_object(make: Make) -> None:
    """A whole manifest takes the place of the one that was read."""
    cluster = make(pod_group("g", minimum=2))
    raw = cluster.read().raw(GROUP)
    assert raw is not None

    assert [True] == _ok(cluster, Update(GROUP, {**raw, "spec": {"minMember": 5}}))
    found = cluster.read().record(GROUP)
    assert isinstance(found, PodGroup)
    assert 5 == found.spec.min_member
    ghost = Key(GROUP.group, "PodGroup", "default", "ghost")
    assert [False] == _ok(cluster, Update(ghost, {**pod_group("ghost")}))


def test_status_fields_are_replaced_not_merged(make: Make) -> None:
    """A field of a status holds what was written, and nothing of what it held before; other fields stay."""
    cluster = make(pod_group("g", status={"phase": "Pending", "extra": {"old": 1, "same": {"deep": 1}}}))

    assert [True] == _ok(cluster, PatchStatus(GROUP, {"extra": {"new": 2, "same": {"other": 1}}}, {"tier": "1"}))
    raw = cluster.read().raw(GROUP)
    assert raw is not None
    assert {"phase": "Pending", "extra": {"new": 2, "same": {"other": 1}}} == raw["status"]
    record = cluster.read().record(GROUP)
    assert record is not None
    assert "1" == record.metadata.annotations["tier"]


def test_events_are_taken(make: Make) -> None:
    """An event always succeeds: nobody waits for it."""
    cluster = make(pod_group("g"))

    assert [True] == _ok(cluster, RecordEvent(GROUP, "Warning", "Unschedulable", "no room"))


def test_version_grows_with_changes(make: Make) -> None:
    """A change is seen by whoever waits for it; without one, time runs out."""
    cluster = make(node("n0"), pod("p0"))
    before = cluster.read().version
    cluster.apply([Bind(P0, "n0")])

    assert before < cluster.wait(before, 5.0)
    assert before < cluster.read().version


def test_what_is_written_on_a_version_is_refused_on_another(make: Make) -> None:
    """Somebody has changed the object in between: nothing of it is written."""
    cluster = make({**pod("p0"), "metadata": {"name": "p0", "namespace": "default", "resourceVersion": "7"}})
    version = cluster.read().every(Pod)["default/p0"].metadata.resource_version
    marked: Json = {"metadata": {"annotations": {"a": "b"}}}

    asked = [Prepare(P0, marked, version=f"{version}1"), Prepare(P0, marked, version=version)]

    assert [False, True] == [cluster.apply([effect])[0].ok for effect in asked]
