"""The status of AppGroups: when it changes, and when it is left alone."""

from __future__ import annotations

from tests.support.services import Raw, app_group, objects, pod

from tierwise.controllers.app_group import reconcile
from tierwise.port import Effect, PatchStatus, RecordEvent
from tierwise.sim.cluster.store import EmbeddedCluster

DAY = 24 * 3600.0


def _status(cluster: EmbeddedCluster, now: float) -> Raw:
    """The status fields that one pass changes."""
    asked = reconcile(cluster.read(), now)
    cluster.apply(asked)
    return {k: v for e in asked if isinstance(e, PatchStatus) for k, v in e.status.items()}


def _events(asked: list[Effect]) -> list[str]:
    return [e.message for e in asked if isinstance(e, RecordEvent)]


def test_the_time_changes_with_the_order_and_after_a_day() -> None:
    """Running pods come and go without touching it."""
    cluster = EmbeddedCluster(objects(app_group([("a", "b")])))

    assert {"runningWorkloads", "topologyOrder", "topologyCalculationTime"} == set(_status(cluster, 0.0))
    assert {} == _status(cluster, DAY)
    assert {"topologyOrder", "topologyCalculationTime"} == set(_status(cluster, DAY + 1))


def test_an_order_written_with_fewer_fields_is_brought_up_to_date() -> None:
    """What stands there must be what the spec gives now."""
    group = app_group([("a", "b")])
    refs = [{"workload": {"selector": s}, "index": i} for i, s in enumerate("ab", start=1)]
    group["status"] = {"runningWorkloads": 0, "topologyCalculationTime": "2099-01-01T00:00:00Z", "topologyOrder": refs}

    assert {"topologyOrder", "topologyCalculationTime"} == set(_status(EmbeddedCluster(objects(group)), 0.0))


def test_a_dependency_without_an_entry_is_ordered_too() -> None:
    """It is a leaf."""
    group = app_group([("a", "b")])
    group["spec"]["workloads"].pop()
    order = _status(EmbeddedCluster(objects(group)), 0.0)["topologyOrder"]

    assert [("a", 1), ("b", 2)] == [(entry["workload"]["selector"], entry["index"]) for entry in order]


def test_a_cycle_is_told_once_and_forgotten_when_it_is_gone() -> None:
    """The condition carries the cycle, others' conditions stay."""
    group = app_group([("a", "b"), ("b", "a")])
    group["status"] = {"conditions": [{"type": "Other", "status": "True"}]}
    cluster = EmbeddedCluster(objects(group))
    first = reconcile(cluster.read(), 0.0)
    cluster.apply(first)

    assert 1 == len(_events(first))
    assert "a -> b -> a" in _events(first)[0]
    assert [] == reconcile(cluster.read(), 60.0)

    mended = {**app_group([("a", "b")]), "status": next(iter(cluster.changed()))["status"]}
    again = EmbeddedCluster(objects(mended))
    assert [{"type": "Other", "status": "True"}] == _status(again, 0.0)["conditions"]


def test_running_pods_count_in_every_namespace() -> None:
    """Those in phase Running with the label, whatever their workload."""
    far = pod("p2", "b", on="n")
    far["metadata"]["namespace"] = "elsewhere"
    cluster = EmbeddedCluster(objects(app_group([("a", "b")]), pod("p1", "a", on="n"), far, pod("p3", "b")))

    assert 2 == _status(cluster, 0.0)["runningWorkloads"]


def test_the_start_is_written_with_the_first_pod_and_stays() -> None:
    """Whether the pod runs or not; a group without pods has none."""
    waiting = EmbeddedCluster(objects(app_group([("a", "b")])))
    cluster = EmbeddedCluster(objects(app_group([("a", "b")]), pod("p1", "a")))

    assert "scheduleStartTime" not in _status(waiting, 0.0)
    cluster.apply(reconcile(cluster.read(), 0.0))
    status = next(iter(cluster.changed()))["status"]
    assert isinstance(status, dict)
    assert "1970-01-01T00:00:00Z" == status["scheduleStartTime"]
    assert [] == reconcile(cluster.read(), 60.0)


def test_an_unknown_algorithm_is_told_once() -> None:
    """It is Kahn's that is used; a misspelt name must not go unnoticed."""
    group = app_group([("a", "b")])
    group["spec"]["topologySortingAlgorithm"] = "Bogosort"
    cluster = EmbeddedCluster(objects(group))
    first = reconcile(cluster.read(), 0.0)
    cluster.apply(first)

    assert 1 == len(_events(first))
    assert "Bogosort" in _events(first)[0]
    assert [] == reconcile(cluster.read(), 60.0)
