"""Never half a gang, and never a guess: what becomes of binds when the API server misbehaves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Bind, Create, Evict, Key, Nominate, Outcome

SIZE = 4


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two attempts."""
    for module in ("client", "binder"):
        monkeypatch.setattr(f"tierwise.kube.{module}.pause", lambda *_, **__: 0.01)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a few objects."""
    with FakeApi() as found:
        found.put(*(node(f"n{i}") for i in range(2)), *(pod(f"p{i}", group="g") for i in range(SIZE)))
        yield found


def _key(number: int) -> Key:
    return Key("", "Pod", "default", f"p{number}")


def _bind(cluster: KubeCluster, node: str = "n0") -> list[Outcome]:
    return cluster.apply([Bind(_key(i), node, gang="default/g") for i in range(SIZE)])


def _nodes(api: FakeApi) -> list[str]:
    return [api.get("pods", f"p{i}")["spec"].get("nodeName", "") for i in range(SIZE)]


def _binds(api: FakeApi) -> int:
    return sum(request.endswith("/binding") for request in api.requests)


def test_a_gang_is_bound(api: FakeApi, cluster: KubeCluster) -> None:
    """All binds succeed, each with one request."""
    assert all(outcome.ok for outcome in _bind(cluster))
    assert (["n0"] * SIZE, SIZE) == (_nodes(api), _binds(api))


def test_binds_under_way_are_assumed(api: FakeApi, cluster: KubeCluster) -> None:
    """Before the server has answered, pods are read as standing on their nodes; those that are refused no longer."""
    api.fail("POST", "/p2/binding", "freeze")
    api.fail("POST", "/p3/binding", 404)
    outcomes = cluster.begin([Bind(_key(i), "n0", gang=f"default/g{i // 2}") for i in range(SIZE)])
    under_way = cluster.read().every(Pod)["default/p2"].spec.node_name
    api.thaw()
    answers = [outcome.ok for outcome in outcomes()]

    assert ("n0", [True, True, True, False]) == (under_way, answers)
    assert ["n0", "n0", "n0", ""] == [pod.spec.node_name for pod in cluster.read().every(Pod).values()]


def test_further_binds_do_not_wait_for_those_under_way(api: FakeApi, cluster: KubeCluster) -> None:
    """Each batch has its own outcomes: what fails in one keeps nothing back in another."""
    api.fail("POST", "/p0/binding", "freeze")
    api.fail("POST", "/p1/binding", 404)
    first = cluster.begin([Bind(_key(0), "n0", gang="default/f"), Bind(_key(1), "n0", gang="default/g")])
    second = cluster.begin([Bind(_key(i), "n0", gang="default/g") for i in (2, 3)])
    answers = [outcome.ok for outcome in second()]
    under_way = first.done(), second.done()
    api.thaw()

    assert ([True, True], (False, True)) == (answers, under_way)
    assert [True, False] == [outcome.ok for outcome in first()]


def test_batches_together_send_so_many_at_once(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """More at once costs the server more than it gains, however many cycles have asked for it."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    api.fail("POST", "/p0/binding", "freeze")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        batches = [cluster.begin([Bind(_key(i), "n0", gang=f"default/g{i}")]) for i in range(SIZE)]
        assert api.frozen.wait(60)
        cluster.refresh()  # what comes later has been answered, and they still wait
        sent = _binds(api)
        api.thaw()

        assert [True] * SIZE == [outcome.ok for batch in batches for outcome in batch()]
        assert 1 == sent


def test_withheld_binds_are_not_assumed(api: FakeApi, cluster: KubeCluster) -> None:
    """A gang that cannot be whole any more is not sent, and nobody reads its pods as placed."""
    binds = [*(Bind(_key(i), "n0", gang="default/g") for i in range(SIZE)), Bind(_key(9), "n0", gang="default/g")]
    outcomes = cluster.begin(binds)()

    assert ([False] * 5, 0) == ([outcome.ok for outcome in outcomes], _binds(api))
    assert [""] * SIZE == [pod.spec.node_name for pod in cluster.read().every(Pod).values()]


@pytest.mark.parametrize("how", ["drop", 429, 500, 503, "lose", "half"])
def test_passing_failures_pass(api: FakeApi, cluster: KubeCluster, how: int | str) -> None:
    """Refused for a moment, dropped before or after it happened: in the end each pod is bound once, and known to be."""
    api.fail("POST", "/binding", how, times=3, headers={"Retry-After": "0"})

    assert all(outcome.ok for outcome in _bind(cluster))
    assert ["n0"] * SIZE == _nodes(api)


def test_lost_answer_is_looked_up(api: FakeApi, cluster: KubeCluster) -> None:
    """A bind that happened although no answer came is found out by a look, not by another bind."""
    api.fail("POST", "/p2/binding", "lose")

    assert all(outcome.ok for outcome in _bind(cluster))
    assert SIZE == _binds(api)
    assert "GET /api/v1/namespaces/default/pods/p2" in api.requests


def test_refusal_that_does_not_pass_is_a_failure(api: FakeApi, cluster: KubeCluster) -> None:
    """Refused again and again with an answer each time: the bind has failed, and nobody assumes otherwise."""
    api.fail("POST", "/p2/binding", 500, times=100)
    outcomes = _bind(cluster)

    assert [True, True, False, True] == [outcome.ok for outcome in outcomes]
    assert "" == cluster.read().every(Pod)["default/p2"].spec.node_name


def test_pod_that_leaves_is_not_bound(api: FakeApi, cluster: KubeCluster) -> None:
    """A pod that is on its way out, of which we have not heard yet, is given up."""
    leaving = api.get("pods", "p0")
    api.silently({**leaving, "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    api.fail("POST", "/p0/binding", 409)
    outcomes = cluster.apply([Bind(_key(0), "n0", gang="default/g")])

    assert [(False, "the pod is leaving")] == [(outcome.ok, outcome.error) for outcome in outcomes]


def test_unanswered_bind_is_held_until_it_is_known(
    api: FakeApi, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bind that may still happen keeps its room, and gives it back when the server shows that it did not."""
    monkeypatch.setattr("tierwise.kube.binder.PATIENT", 0.3)
    api.fail("POST", "/p2/binding", "drop", times=100)
    outcomes = _bind(cluster)
    held = cluster.read().every(Pod)["default/p2"].spec.node_name

    assert (False, "n0") == (outcomes[2].ok, held)
    assert eventually(cluster, lambda: not cluster.read().every(Pod)["default/p2"].spec.node_name)


def test_look_ups_end_with_the_cluster(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    """Who leaves while a bind is still unknown leaves nothing behind that waits for ever."""
    api.fail("POST", "/p2/binding", "drop", times=100)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        outcomes = _bind(cluster)
    del cluster
    gc.collect()  # a task that is destroyed while it waits says so then

    assert not outcomes[2].ok
    assert [] == [record.message for record in caplog.records if record.name == "asyncio"]


def test_who_waits_for_binds_learns_that_the_cluster_has_ended(api: FakeApi) -> None:
    """The thread that decides does not wait for an answer that cannot come any more."""
    api.fail("POST", "/p2/binding", "freeze")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        outcomes = cluster.begin([Bind(_key(2), "n0", gang="default/g")])
        assert api.frozen.wait(60)
    api.thaw()

    with pytest.raises(CancelledError):
        outcomes()


@pytest.mark.parametrize("status", [502, 504])
def test_word_of_a_gateway_is_no_answer(
    api: FakeApi, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Whoever stands before the API server does not know what became of a bind: it keeps its room until it is known."""
    monkeypatch.setattr("tierwise.kube.binder.PATIENT", 0.3)
    api.fail("POST", "/p2/binding", status, times=100, headers={"Retry-After": "0"})
    outcomes = _bind(cluster)
    held = cluster.read().every(Pod)["default/p2"].spec.node_name

    assert (False, "n0") == (outcomes[2].ok, held)
    assert "the outcome is unknown" in outcomes[2].error
    assert eventually(cluster, lambda: not cluster.read().every(Pod)["default/p2"].spec.node_name)


def test_another_pod_of_the_name_is_not_taken_for_ours(api: FakeApi, cluster: KubeCluster) -> None:
    """A pod was made anew, and somebody has put it on the very node: that is no success of our bind."""
    other = api.get("pods", "p0")
    spec = {**other["spec"], "nodeName": "n0"}
    api.silently({**other, "metadata": {**other["metadata"], "uid": "another"}, "spec": spec})
    outcomes = cluster.apply([Bind(_key(0), "n0", gang="default/g")])

    assert [(False, "the pod is gone, and another of its name is there")] == [(o.ok, o.error) for o in outcomes]


def test_node_gone_before_sending_keeps_all_back(api: FakeApi, cluster: KubeCluster) -> None:
    """Nothing of a gang is sent once it is known that not all of it can be bound."""
    api.remove("nodes", "n1")
    assert eventually(cluster, lambda: len(cluster.read().every(Pod)) == SIZE and not _has_node(cluster, "n1"))
    asked = [Bind(_key(i), "n0" if i else "n1", gang="default/g") for i in range(SIZE)]
    outcomes = cluster.apply(asked)

    assert ([False] * SIZE, 0) == ([outcome.ok for outcome in outcomes], _binds(api))
    assert all("node n1 is gone" in outcome.error for outcome in outcomes)


def test_pod_that_is_known_to_leave_keeps_all_back(api: FakeApi, cluster: KubeCluster) -> None:
    """The same where a pod of the gang is on its way out."""
    leaving = api.get("pods", "p1")
    api.put({**leaving, "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert eventually(cluster, lambda: bool(cluster.read().every(Pod)["default/p1"].metadata.deletion_timestamp))

    assert ([False] * SIZE, 0) == ([outcome.ok for outcome in _bind(cluster)], _binds(api))


def test_pod_that_is_known_to_have_a_node_keeps_all_back(api: FakeApi, cluster: KubeCluster) -> None:
    """The same where somebody else has bound a pod of the gang, and we have heard of it."""
    taken = api.get("pods", "p1")
    api.put({**taken, "spec": {**taken["spec"], "nodeName": "n1"}})
    assert eventually(cluster, lambda: bool(cluster.read().every(Pod)["default/p1"].spec.node_name))

    assert ([False] * SIZE, 0) == ([outcome.ok for outcome in _bind(cluster)], _binds(api))


def test_unknown_outcome_withholds_the_rest(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nobody knows whether a bind happened, nothing more of its gang is sent."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    monkeypatch.setattr("tierwise.kube.binder.PATIENT", 0.3)
    api.fail("POST", "/p1/binding", "drop", times=100)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        outcomes = _bind(cluster)

        assert ["n0", "", "", ""] == _nodes(api)
        assert [True, False, False, False] == [outcome.ok for outcome in outcomes]
        assert outcomes[3].error.startswith("withheld")
        assert eventually(cluster, lambda: not cluster.read().every(Pod)["default/p1"].spec.node_name)


def test_pods_of_no_gang_do_not_wait_for_each_other(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that stands alone falls alone."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    api.fail("POST", "/p0/binding", 403, times=100)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        outcomes = cluster.apply([Bind(_key(i), "n0") for i in range(2)])

    assert [False, True] == [outcome.ok for outcome in outcomes]
    assert 2 == _binds(api)


def test_failure_for_good_withholds_the_rest(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal that stays, what was not sent yet is kept back, and the others' gangs are not touched."""
    monkeypatch.setattr("tierwise.kube.write_slots.IN_FLIGHT", 1)
    api.put(pod("other"))
    api.fail("POST", "/p1/binding", 403, said={"message": "exceeded quota"})
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        other = Key("", "Pod", "default", "other")
        outcomes = cluster.apply(
            [*(Bind(_key(i), "n0", gang="default/g") for i in range(SIZE)), Bind(other, "n0", gang="pod o")]
        )

    assert [True, False, False, False, True] == [outcome.ok for outcome in outcomes]
    assert ["n0", "", "", ""] == _nodes(api)
    assert "exceeded quota" == outcomes[1].error
    assert outcomes[2].withheld


def test_pod_of_another_scheduler_is_not_ours(api: FakeApi, cluster: KubeCluster) -> None:
    """A pod that somebody else has bound meanwhile stays where it is, and the outcome says where."""
    taken = api.get("pods", "p0")
    api.silently({**taken, "spec": {**taken["spec"], "nodeName": "n1"}})
    outcomes = cluster.apply([Bind(_key(0), "n0", gang="default/g")])

    assert [(False, "the pod is on node n1")] == [(outcome.ok, outcome.error) for outcome in outcomes]


def test_pod_of_the_same_name_is_another(api: FakeApi, cluster: KubeCluster) -> None:
    """A pod that was deleted and made anew is not bound by a decision about the old one."""
    del api._objects["pods", "default", "p0"]
    api.silently(pod("p0"))
    outcomes = cluster.apply([Bind(_key(0), "n0", gang="default/g")])

    assert [False] == [outcome.ok for outcome in outcomes]
    assert "" == _nodes(api)[0]


def test_accepted_bind_is_assumed_until_shown(api: FakeApi, cluster: KubeCluster) -> None:
    """A late event that still shows the pod without a node does not bring it back to the waiting ones."""
    before = api.get("pods", "p0")
    api.break_watches()
    api.fail("GET", "watch=true", "drop", times=40)
    assert all(outcome.ok for outcome in _bind(cluster))

    assert "n0" == cluster.read().every(Pod)["default/p0"].spec.node_name
    assert before["metadata"]["resourceVersion"] == cluster.read().every(Pod)["default/p0"].metadata.resource_version


def test_nomination_ends_with_the_bind(api: FakeApi, cluster: KubeCluster) -> None:
    """A pod that is on its way to one node keeps no room on another, though the watch still shows it."""
    api.put(pod("p9", nominated="n1"))
    assert eventually(cluster, lambda: "default/p9" in cluster.read().every(Pod))
    api.break_watches()
    api.fail("GET", "watch=true", "drop", times=40)
    cluster.apply([Bind(_key(9), "n0")])
    read = cluster.read().every(Pod)["default/p9"]

    assert ("n0", "") == (read.spec.node_name, read.status.nominated_node_name)


def test_budget_refuses_an_eviction(api: FakeApi, cluster: KubeCluster) -> None:
    """A disruption budget's no is taken as one, and nobody is nominated for room that will not come."""
    api.put(pod("victim", on="n0"))
    assert eventually(cluster, lambda: "default/victim" in cluster.read().every(Pod))
    said = {"message": "would violate the budget", "details": {"causes": [{"reason": "DisruptionBudget"}]}}
    api.fail("POST", "/eviction", 429, times=9, said=said)
    victim = Key("", "Pod", "default", "victim")
    outcomes = cluster.apply(
        [Evict(victim, "preempted", "default/g", "preempt"), Nominate(_key(0), "n0", gang="default/g")]
    )

    assert [False, False] == [outcome.ok for outcome in outcomes]
    assert 1 == sum(request.endswith("/eviction") for request in api.requests)
    assert "nominatedNodeName" not in api.get("pods", "p0")["status"]


def test_an_eviction_under_two_budgets_is_refused_once(api: FakeApi, cluster: KubeCluster) -> None:
    """The server answers 500 for such a pod and always will: it is asked once, and the refusal is one that stays."""
    api.put(pod("victim", on="n0"))
    assert eventually(cluster, lambda: "default/victim" in cluster.read().every(Pod))
    said = {"message": "This pod has more than one PodDisruptionBudget"}
    api.fail("POST", "/eviction", 500, times=9, said=said)
    victim = Key("", "Pod", "default", "victim")
    (outcome,) = cluster.apply([Evict(victim, "preempted", "default/g", "preempt")])

    assert (False, True, said["message"]) == (outcome.ok, outcome.lasting, outcome.error)
    assert 1 == sum(request.endswith("/eviction") for request in api.requests)


def test_a_pod_past_its_budgets_is_deleted(api: FakeApi, cluster: KubeCluster) -> None:
    """The Eviction API is not asked for what it would refuse."""
    api.kubelet = False  # else the pod may be gone before it is read as terminating
    api.put(pod("victim", on="n0"))
    assert eventually(cluster, lambda: "default/victim" in cluster.read().every(Pod))
    api.fail("POST", "/eviction", 429, times=9)
    victim = Key("", "Pod", "default", "victim")
    outcomes = cluster.apply([Evict(victim, "reclaimed", "default/g", "reclaim", past_budgets=True)])

    assert [True] == [outcome.ok for outcome in outcomes]
    assert 0 == sum(request.endswith("/eviction") for request in api.requests)
    assert cluster.read().every(Pod)["default/victim"].metadata.deletion_timestamp


def test_evicted_pod_is_leaving_before_the_watch_says_so(api: FakeApi, cluster: KubeCluster) -> None:
    """Nobody evicts more because an eviction does not show yet."""
    api.put(pod("victim", on="n0"))
    assert eventually(cluster, lambda: "default/victim" in cluster.read().every(Pod))
    api.kubelet = False
    api.break_watches()
    api.fail("GET", "watch=true", "drop", times=40)
    cluster.apply([Evict(Key("", "Pod", "default", "victim"), "preempted", "default/g", "preempt")])

    assert cluster.read().every(Pod)["default/victim"].metadata.deletion_timestamp


def test_what_webhooks_look_at_may_take_its_time(api: FakeApi, cluster: KubeCluster) -> None:
    """A write that webhooks hold up is waited for much longer than a bind, and made once."""
    api.fail("POST", r"/podgroups\?timeout=60s", 403, said={"message": "waited long"})
    api.fail("POST", r"/binding\?timeout=60s", 403, said={"message": "waited little"})
    outcomes = cluster.apply([Create(pod_group("made", 1)), Bind(_key(0), "n0", gang="default/g")])

    assert ["waited long", "waited little"] == [outcome.error for outcome in outcomes]


def _has_node(cluster: KubeCluster, name: str) -> bool:
    from tierwise.api.core import Node

    return name in cluster.read().every(Node)
