"""How Koordinator's pod groups and annotations become jobs."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.support.koordinator import (
    annotated,
    cluster,
    gang,
    objects_of,
    pod,
    run,
)

from tierwise.admission import passed_over, validate
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.dialects.languages import every_group
from tierwise.model.job import Phase
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise.status.conditions import phase_after

FLAT = {"s0": {"b0": "n0 n1 n2 n3"}}
GROUPS = "gang.scheduling.koordinator.sh/groups"
POLICY = "gang.scheduling.koordinator.sh/match-policy"


def test_gangs_of_a_group_are_roles_of_one_job() -> None:
    """Where each names the same group; each gang keeps its minimum."""
    together = {GROUPS: '["default/master", "default/worker"]'}
    master, worker = gang("master", 1, annotations=together), gang("worker", 2, annotations=together)
    (job,) = build(objects_of(cluster(FLAT), master, worker), now=0.0).jobs

    assert ("default/master", "default/worker") == job.gangs
    assert 3 == job.minimum
    assert {"default/master": 1, "default/worker": 2} == {job.role_names[n]: least for n, least in job.roles.items()}


def test_a_claim_that_is_not_returned_is_a_fault() -> None:
    """The gangs are jobs of their own, and the one that claims is told."""
    master = gang("master", 1, annotations={GROUPS: '["default/master", "default/worker"]'})
    snapshot = build(objects_of(cluster(FLAT), master, gang("worker", 2)), now=0.0)

    assert {"default/master": 1, "default/worker": 2} == {job.key: job.minimum for job in snapshot.jobs}
    assert [("Gang default/master", "OneSidedGangGroup")] == [(f.subject, f.code) for f in snapshot.faults]


def test_only_pods_of_the_own_namespace_draw_others() -> None:
    """The same selector on a pod elsewhere moves nobody."""
    world = cluster({"s0": {"b0": "n0", "b1": "n1"}}, cpu=4)
    lured = annotated(pod("lured"), selector="app")
    elsewhere = annotated(pod("bait", on="n1"), selector="app")
    meta = elsewhere["metadata"]
    assert isinstance(meta, dict)
    bait = {**elsewhere, "metadata": {**meta, "namespace": "evil"}}

    assert {"lured": "n1"} == run(world, [lured, elsewhere])[0]
    assert {"lured": "n0"} == run(world, [lured, bait, pod("stands", on="n0")])[0]


def test_a_missing_gang_keeps_its_group_waiting() -> None:
    """The reason names the gang that does not exist."""
    _, waiting = run(cluster(FLAT), gang("master", 1, annotations={GROUPS: '["default/worker"]'}))

    assert "GangGroupIncomplete" in waiting["master-0"]
    assert "default/worker" in waiting["master-0"]


def test_a_missing_gang_keeps_its_group_waiting_under_every_profile() -> None:
    """Gangs are whole or not at all, also where the profile does not name Koordinator's plugin."""
    plain = replace(DEFAULT, tiers=tuple(tuple(p for p in tier if p.name != "coscheduling") for tier in DEFAULT.tiers))
    bound, waiting = run(cluster(FLAT), gang("master", 1, annotations={GROUPS: '["default/worker"]'}), profile=plain)

    assert {} == bound
    assert "GangGroupIncomplete" in waiting["master-0"]


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "jobpreempt", "podpreempt"])
def test_no_action_starts_a_group_that_lacks_a_gang(action: str) -> None:
    """An action that evicts binds who needs nobody's room, and asks first what allocate asks."""
    first = replace(DEFAULT, actions=(action, "allocate"))
    bound, waiting = run(cluster(FLAT), gang("master", 1, annotations={GROUPS: '["default/worker"]'}), profile=first)

    assert {} == bound
    assert "GangGroupIncomplete" in waiting["master-0"]


def test_too_few_pods_of_one_gang_are_named() -> None:
    """A group waits for the pods of each of its gangs."""
    together = {GROUPS: '["default/a", "default/b"]'}
    _, waiting = run(cluster(FLAT), gang("a", 1, annotations=together), gang("b", 1, least=2, annotations=together))

    assert "not enough pods of gang default/b: 1 exist, minimum 2" in waiting["a-0"]


def test_annotations_of_pods_declare_a_gang() -> None:
    """Without an object the pods say how many of them start together."""
    pods = [annotated(pod(f"w-{i}"), name="w", min_available="3") for i in range(2)]
    bound, waiting = run(cluster(FLAT), pods)

    assert {} == bound
    assert "2 exist, minimum 3" in waiting["w-0"]


def test_once_satisfied_lets_later_pods_in_alone() -> None:
    """A gang that has run needs no second gang of new pods."""
    bound, _ = run(cluster(FLAT), gang("g", 2, least=4, running={0: "n0"}, phase="Running"))

    assert {"g-1": "n1"} == bound


def test_a_gang_that_was_whole_once_stays_running() -> None:
    """One pod of four is left, and the gang need not be whole again."""
    snapshot = build(objects_of(cluster(FLAT), gang("g", 1, least=4, running={0: "n0"}, phase="Running")), now=0.0)
    (job,) = snapshot.jobs

    assert Phase.RUNNING is phase_after(job, cycle(snapshot, DEFAULT), 0)


def test_running_pods_count_only_where_the_policy_says_so() -> None:
    """With only-waiting as many new pods must start together as the minimum says."""
    together = gang("g", 3, least=2, running={0: "n0", 1: "n1"}, annotations={POLICY: "waiting-and-running"})
    anew = gang("g", 3, least=2, running={0: "n0", 1: "n1"}, annotations={POLICY: "only-waiting"})

    assert {"g-2": "n2"} == run(cluster(FLAT), together)[0]
    assert {} == run(cluster(FLAT), anew)[0]


def test_a_gang_that_runs_needs_no_second_minimum() -> None:
    """With only-waiting, running pods are added to the minimum only where new ones wait."""
    whole = gang("g", 2, least=2, running={0: "n0", 1: "n1"}, annotations={POLICY: "only-waiting"})
    more = gang("g", 3, least=2, running={0: "n0", 1: "n1"}, annotations={POLICY: "only-waiting"})

    assert [2] == [job.minimum for job in build(objects_of(cluster(FLAT), whole), now=0.0).jobs]
    assert [4] == [job.minimum for job in build(objects_of(cluster(FLAT), more), now=0.0).jobs]


def test_a_pod_of_an_unknown_gang_waits() -> None:
    """The pod says which group it waits for."""
    _, waiting = run(cluster(FLAT), [pod("p", of="nobody")])

    assert {"p": "PodGroupNotFound: podGroup default/nobody does not exist"} == waiting


@pytest.mark.parametrize(
    ("mode", "pattern"), [("AllRingDuce", "ring"), ("Ring", "ring"), ("all-to-all", "all-to-all"), ("odd", "")]
)
@pytest.mark.parametrize("by_annotation", [False, True])
def test_a_communication_mode_is_a_pattern(mode: str, pattern: str, by_annotation: bool) -> None:
    """In the field or in the annotation; the annotation of tierwise comes first, and an unknown word is told."""
    asks = {"gatherStrategy": [{"layer": "BlockLayer", "strategy": "PreferGather"}], "communicationMode": mode}

    def group(**annotations: str) -> Raw:
        noted = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(asks)} if by_annotation else {}
        spec: Raw = {"minMember": 2} if by_annotation else {"minMember": 2, "networkTopologyAware": asks}
        meta = {"name": "g", "namespace": "default", "annotations": {**annotations, **noted}}
        return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "spec": spec}

    plain, own = objects_of([group()]), objects_of([group(**{"tierwise.io/pattern": "dp=2"})])

    assert pattern == next(iter(every_group(plain).values())).marks.get("tierwise.io/pattern", "")
    assert "dp=2" == next(iter(every_group(own).values())).marks["tierwise.io/pattern"]
    told = [one for one in validate(plain).warnings if one.path.endswith("communicationMode")]
    assert len(told) == (not pattern)
    assert [one.message for one in told] == [f.message for f in passed_over(plain) if "communicationMode" in f.path]
