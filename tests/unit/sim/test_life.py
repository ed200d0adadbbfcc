"""Whole lives: gangs that run, wait, fail and lose their machines."""

from __future__ import annotations

import pytest
from tests.support.lives import (
    gang,
    life,
    lived,
    machines,
    phases,
    reasons,
    workers,
)
from tests.support.manifests import job, task

from tierwise.api.core import Node, Pod
from tierwise.api.errors import InputError
from tierwise.api.volcano import Job, PodGroup
from tierwise.sim.cluster.agenda import Incident, NodeBack, NodeLost, PodFails, node_lost, pod_fails


def test_a_gang_runs_to_its_end() -> None:
    """Bound at once, started after a second, over after its time; then nothing is left to happen."""
    cluster, moments = lived(machines("n0", "n1"), gang("a", 2, run_for="60s"))

    assert [0, 1, 61] == [moment.at for moment in moments]
    assert ({"Succeeded": 2}, False) == (phases(moments[-1]), cluster.unfinished)
    assert "Completed" == moments[-1].objects.every(PodGroup)["default/a"].status.phase
    assert [(0, "Bound"), (1, "Started"), (61, "Completed")] == reasons(cluster, "a-0")


def test_the_next_gang_waits_for_room() -> None:
    """It is placed the moment that the first one ends."""
    cluster, _ = lived(machines("n0", "n1"), gang("a", 2, run_for="60s"), gang("b", 2, run_for="60s"))

    assert [(61, "Bound"), (62, "Started"), (122, "Completed")] == reasons(cluster, "b-1")


def test_a_gang_that_runs_on_leaves_nothing_to_happen() -> None:
    """The run ends, and the gang runs."""
    cluster, moments = lived(machines("n0"), gang("a", 1))

    assert (1, {"Running": 1}, False) == (moments[-1].at, phases(moments[-1]), cluster.unfinished)


def test_until_bounds_what_never_ends() -> None:
    """A pod that crashes for ever is left at that time, and the clock stands there."""
    cluster, moments = lived(machines("n0"), gang("a", 1, "Always", run_for="7s"), until=500)

    assert (500, True) == (moments[-1].at, cluster.unfinished)


def test_a_pod_fails_when_it_is_told_to() -> None:
    """The exit code is the one that was given, and the group is below its minimum."""
    _, moments = lived(machines("n0", "n1"), gang("a", 2), incidents=[PodFails(30, "default/a-1", 137)])

    pod = moments[-1].objects.every(Pod)["default/a-1"]
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert (30, "Failed", 137) == (moments[-1].at, pod.status.phase, ended.exit_code)
    group = moments[-1].objects.every(PodGroup)["default/a"].status
    assert ("Inqueue", 1, 1) == (group.phase, group.running, group.failed)


def test_a_pod_that_does_not_run_cannot_fail() -> None:
    """People hear that nothing came of it."""
    cluster, moments = lived(machines("n0"), gang("a", 2), incidents=[PodFails(30, "default/a-1", 1)])

    assert {"": 2} == phases(moments[-1])
    assert (30, "NotRunning") in reasons(cluster, "a-1")


def test_a_lost_node_is_noticed_and_its_pods_go() -> None:
    """Not ready after 40 seconds, its pods told to go after 300 more, and gone when their grace is over."""
    cluster, moments = lived(machines("n0"), gang("a", 1), incidents=[NodeLost(10, "n0")])

    assert [(10, "Lost"), (50, "NodeNotReady")] == reasons(cluster, "n0")
    assert [(350, "TaintManagerEviction"), (350, "Killing"), (380, "Gone")] == reasons(cluster, "a-0")[2:]
    node = moments[-1].objects.every(Node)["n0"]
    assert ["NoSchedule", "NoExecute"] == [taint.effect for taint in node.spec.taints]
    assert ["Unknown"] == [condition.status for condition in node.status.conditions]
    assert {} == phases(moments[-1])


def test_a_pod_may_tolerate_a_lost_node_for_longer() -> None:
    """With a time of its own, or for ever."""
    short, steady = gang("a", 1), gang("b", 1)
    key = "node.kubernetes.io/unreachable"
    short[1]["spec"] = {**_spec(short[1]), "tolerations": [{"key": key, "operator": "Exists", "tolerationSeconds": 5}]}
    steady[1]["spec"] = {**_spec(steady[1]), "tolerations": [{"operator": "Exists"}]}
    lost = [NodeLost(10, "n0"), NodeLost(10, "n1")]
    cluster, moments = lived(machines("n0", "n1"), short, steady, incidents=lost)

    assert (55, "TaintManagerEviction") in reasons(cluster, "a-0")
    assert ["default/b-0"] == list(moments[-1].objects.every(Pod))


@pytest.mark.parametrize(
    ("seconds", "evicted"), [((30, 5), 55), ((5, None, 30), 55), ((-7,), 50), ((None,), None), ((400, 320), 370)]
)
def test_the_shortest_toleration_counts(seconds: tuple[int | None, ...], evicted: int | None) -> None:
    """Of several that match the taint; one without a time bounds nothing, and a negative time is none at all."""
    patient = gang("a", 1)
    times = [{"operator": "Exists"} | ({} if time is None else {"tolerationSeconds": time}) for time in seconds]
    others = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule", "tolerationSeconds": 1},
        {"key": "example.com/other", "operator": "Exists", "tolerationSeconds": 2},
    ]
    patient[1]["spec"] = {**_spec(patient[1]), "tolerations": [*others, *times]}
    cluster, _ = lived(machines("n0"), patient, incidents=[NodeLost(10, "n0")])
    told = [at for at, reason in reasons(cluster, "a-0") if reason == "TaintManagerEviction"]

    assert ([] if evicted is None else [evicted]) == told


def _spec(raw: dict[str, object]) -> dict[str, object]:
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return spec


def test_a_node_comes_back() -> None:
    """Ready and untainted again; what ran on it has died."""
    incidents: list[Incident] = [NodeLost(10, "n0"), NodeBack(100, "n0")]
    cluster, moments = lived(machines("n0"), gang("a", 1), incidents=incidents)

    assert [(10, "Lost"), (50, "NodeNotReady"), (100, "Back"), (100, "NodeReady")] == reasons(cluster, "n0")
    node = moments[-1].objects.every(Node)["n0"]
    assert ((), ["True"]) == (node.spec.taints, [condition.status for condition in node.status.conditions])
    ended = moments[-1].objects.every(Pod)["default/a-0"].status.container_statuses[0].state.terminated
    assert ended is not None
    assert 255 == ended.exit_code


def test_a_short_outage_is_not_noticed() -> None:
    """A pod that restarts its containers runs on."""
    incidents: list[Incident] = [NodeLost(10, "n0"), NodeBack(20, "n0")]
    cluster, moments = lived(machines("n0"), gang("a", 1, "Always"), incidents=incidents)

    assert [(10, "Lost"), (20, "Back")] == reasons(cluster, "n0")
    assert {"Running": 1} == phases(moments[-1])


def test_a_node_may_be_lost_twice() -> None:
    """Each time is told of."""
    twice: list[Incident] = [NodeLost(10, "n0"), NodeBack(20, "n0"), NodeLost(30, "n0"), NodeBack(40, "n0")]
    cluster, _ = lived(machines("n0"), gang("a", 1, "Always"), incidents=twice)

    assert [(10, "Lost"), (20, "Back"), (30, "Lost"), (40, "Back")] == reasons(cluster, "n0")


def test_pods_of_a_job_are_made_again_elsewhere() -> None:
    """A job whose node is lost gets its pod back on another one, once the old one is gone."""
    batch = job("a", task("w", 1))
    cluster, moments = lived(machines("n0", "n1"), [batch], incidents=[NodeLost(10, "n0")])

    assert (380, "Created") in reasons(cluster, "a-w-0")
    pod = moments[-1].objects.every(Pod)["default/a-w-0"]
    assert ("n1", "Running") == (pod.spec.node_name, pod.status.phase)
    assert "Running" == moments[-1].objects.every(Job)["default/a"].status.state.phase


def test_plain_pods_live_as_well() -> None:
    """They get groups of their own, and the groups go with them."""
    plain = workers("x", 2, run_for="10s")
    for raw in plain:
        metadata = raw["metadata"]
        assert isinstance(metadata, dict)
        raw["metadata"] = {**metadata, "annotations": {"tierwise.io/run-for": "10s"}}
    _, moments = lived(machines("n0", "n1"), plain)

    assert {"Succeeded": 2} == phases(moments[-1])
    assert {"Completed"} == {group.status.phase for group in moments[-1].objects.every(PodGroup).values()}


def test_a_node_that_is_not_there_cannot_be_lost() -> None:
    """One clear line."""
    with pytest.raises(InputError, match="Node n7"):
        life(machines("n0"), incidents=[NodeLost(1, "n7")])


@pytest.mark.parametrize("text", ["", "p", "p=1", "p@5s", "=1@5s", "p=0@5s", "p=x@5s", "p=1@soon", "p=256@1s"])
def test_odd_failures_are_refused(text: str) -> None:
    """Pod, exit code and time are all needed."""
    with pytest.raises(ValueError, match="POD=EXIT@TIME"):
        pod_fails(text)


def test_incidents_are_read() -> None:
    """A pod without a namespace is in the default one; times are rounded up to whole seconds."""
    assert PodFails(90, "default/p", 137) == pod_fails("p=137@1m30s")
    assert PodFails(2, "lab/p", 1) == pod_fails("lab/p=1@1.5s")
    assert NodeLost(120, "n7") == node_lost("n7@2m")
