"""What the auditor finds among Koordinator's gangs and quotas: each promise kept, and each broken once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.koordinator import annotated, cluster, gang, objects_of, pod
from tests.support.quotas import koordinator, nodes, quota, worker

from tierwise.api.codec import Raw
from tierwise.audit import audit
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import schedule

CLUSTER = cluster({"s0": {"b0": "n0 n1", "b1": "n2"}, "s1": {"b2": "n3"}}, cpu=4)
TOGETHER = {"gang.scheduling.koordinator.sh/groups": '["default/a", "default/b"]'}
EARLY, BOUND, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


def _found(*manifests: list[Raw]) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.subject, finding.text) for finding in audit(objects_of(*manifests))]


def _meta(raw: Raw) -> Raw:
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    return meta


@pytest.mark.parametrize(("standing", "broken"), [(0, False), (1, True), (2, False)])
def test_gang_with_an_object_is_whole_or_absent(standing: int, broken: bool) -> None:
    """Nothing between none and the minimum."""
    part = [("part-of-gang", "PodGroup default/g", "1 of 2 pods are placed")]

    assert (part if broken else []) == _found(CLUSTER, gang("g", 2, running=dict.fromkeys(range(standing), "n0")))


@pytest.mark.parametrize(
    ("phase", "mark", "broken"),
    [
        ("Running", "", False),
        ("Unknown", "", False),
        ("Unknown", "partial-since", True),
        ("Pending", "diminished-since", False),
        ("Scheduling", "", True),
    ],
)
def test_what_a_gang_was_is_told_by_phase_and_marks(phase: str, mark: str, broken: bool) -> None:
    """One that ran may lose pods; that it never was whole is remembered whatever its phase is now."""
    marks = {f"tierwise.io/{mark}": EARLY} if mark else {}

    assert broken == bool(_found(CLUSTER, gang("g", 2, running={0: "n0"}, phase=phase, annotations=marks)))


def test_gangs_of_a_group_stand_together() -> None:
    """One of them whole, the other absent or not even made, is a part."""
    alone = gang("a", 2, running={0: "n0", 1: "n1"}, annotations=TOGETHER)

    absent = [("part-of-gang", "PodGroup default/b", "0 of 2 pods are placed")]
    assert absent == _found(CLUSTER, alone, gang("b", 2, annotations=TOGETHER))
    missing = [("part-of-gang", "Gang default/b", "does not exist, and gangs that start with it are placed")]
    assert missing == _found(CLUSTER, alone)
    assert [] == _found(CLUSTER, alone, gang("b", 2, running={0: "n0", 1: "n1"}, annotations=TOGETHER))


def test_a_group_that_only_one_side_names_is_none() -> None:
    """Each of the two gangs stands or falls by itself."""
    alone = gang("a", 2, running={0: "n0", 1: "n1"}, annotations=TOGETHER)

    assert [] == _found(CLUSTER, alone, gang("b", 2))


def _annotated_gang(standing: int, *, last_made: str = EARLY, ended: bool = False) -> list[Raw]:
    """A gang of three that annotations declare, of which so many stand."""
    pods = [
        annotated(pod(f"p{i}", on="n0" if i < standing else ""), name="g", min_available="3") for i in range(3 + ended)
    ]
    for i, raw in enumerate(pods):
        _meta(raw)["creationTimestamp"] = last_made if i == 2 else EARLY
        if i < standing:
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
            raw["status"] = {"phase": "Running", "conditions": [condition]}
    if ended:
        pods[-1]["status"] = {"phase": "Failed"}
    return pods


def test_gang_of_annotations_is_whole_or_absent() -> None:
    """Its pods tell whether it was whole once: a younger one came for one that was lost, an ended one has run."""
    part = [("part-of-gang", "Gang default/g", "2 of 3 pods are placed")]

    assert part == _found(CLUSTER, _annotated_gang(2))
    assert [] == _found(CLUSTER, _annotated_gang(2, last_made=LATE))
    assert [] == _found(CLUSTER, _annotated_gang(2, ended=True))
    assert [] == _found(CLUSTER, _annotated_gang(2)[:2])
    assert [] == _found(CLUSTER, _annotated_gang(3))


@pytest.mark.parametrize(
    ("must", "on", "said"),
    [
        ("BlockLayer", "n0 n1", ""),
        ("BlockLayer", "n0 n2", "2 pods must gather in one BlockLayer, and are in 2: b0, b1"),
        ("SpineLayer", "n0 n2", ""),
        ("SpineLayer", "n0 n3", "2 pods must gather in one SpineLayer, and are in 2: s0, s1"),
        ("", "n0 n3", ""),
        ("RackLayer", "n0 n3", ""),
    ],
)
def test_gangs_gather_where_they_must(must: str, on: str, said: str) -> None:
    """All pods stand in one domain of the layer; a layer that is not there limits nothing that can be checked."""
    found = _found(CLUSTER, gang("g", 2, must=must, running=dict(enumerate(on.split()))))

    assert ([("too-wide", "PodGroup default/g", said)] if said else []) == found


@pytest.mark.parametrize("ended", [0, 1])
def test_pods_that_have_ended_gather_nowhere(ended: int) -> None:
    """A pod that has done its work counts for its gang, and the others may go on in another domain."""
    group, *pods = gang("g", 2, must="BlockLayer", running={0: "n0", 1: "n2"})
    pods[ended]["status"] = {"phase": "Succeeded"}

    assert [] == _found(CLUSTER, [group, *pods])


def test_quotas_keep_to_their_max_along_the_hierarchy() -> None:
    """A quota may be filled to the last; what its pods hold counts for those above it."""
    tree = [quota("top", most=6, is_parent=True), quota("a", most=4, parent="top"), quota("b", most=4, parent="top")]
    machines = nodes("n0 n1")
    full = [worker("p0", quota="a", gpu=4, on="n0"), worker("p1", quota="b", gpu=2, on="n0")]
    assert [] == _found(machines, tree, full)

    above = [("over-max", "ElasticQuota top", "uses 7 of nvidia.com/gpu, and its max is 6")]
    assert above == _found(machines, tree, full, [worker("p2", quota="b", gpu=1, on="n1")])
    leaf = [("over-max", "ElasticQuota a", "uses 5 of nvidia.com/gpu, and its max is 4")]
    assert leaf == _found(machines, tree, full[:1], [worker("p2", quota="a", gpu=1, on="n1")])
    assert [] == _found(machines, tree, full, [worker("p2", quota="b", gpu=1, on="n1!")])  # it is leaving


def test_pods_of_a_queue_that_always_exists_are_in_their_quota() -> None:
    """A group that names the queue `default` chose nothing: its pods count in a quota, and else in that queue."""
    machines = nodes("n0 n1")
    tree = [quota("e", most=2)]
    queue: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    queue["spec"] = {"weight": 1, "capability": {"nvidia.com/gpu": "2"}}
    group: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    group |= {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 1, "queue": "default"}}
    in_quota = [worker("p0", quota="e", gpu=2, on="n0"), worker("p1", gpu=1, on="n0")]
    for raw in in_quota:
        _meta(raw)["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    elsewhere = worker("p2", gpu=2, on="n1")
    _meta(elsewhere)["annotations"] = {"scheduling.volcano.sh/queue-name": "default"}

    assert [] == _found(machines, [*tree, queue, group], in_quota[:1], [elsewhere])
    above = [("over-max", "ElasticQuota e", "uses 3 of nvidia.com/gpu, and its max is 2")]
    assert above == _found(machines, [*tree, queue, group], in_quota)
    crowded = [("over-capability", "Queue default", "uses 3 of nvidia.com/gpu, and its capability is 2")]
    assert crowded == _found(machines, [queue, group], in_quota)


def test_pods_are_in_the_quota_of_label_namespace_or_list() -> None:
    """The label counts, then a quota called like the namespace, then one that lists it; gangs count as their first."""
    lists = {"quota.scheduling.koordinator.sh/namespaces": json.dumps(["other"])}
    root = "koordinator-system"
    tree = [
        quota("named", most=0),
        quota("team", most=0, namespace=root),
        quota("listed", most=0, annotations=lists, namespace=root),
    ]
    pods = [
        worker("p0", quota="named", on="n0"),
        worker("p1", namespace="team", on="n0"),
        worker("p2", namespace="other", on="n0"),
        worker("p3", quota="nobody", on="n0"),
    ]
    assert ["listed", "named", "team"] == sorted(
        subject.split()[1] for _, subject, _ in _found(nodes("n0"), tree, pods)
    )
    members = [worker("q0", quota="roomy", of="g", on="n0"), worker("q1", quota="named", of="g", on="n0")]
    group = gang("g", 2)[:1]
    assert [] == _found(nodes("n0"), tree, [quota("roomy", most=8)], group, members)


def test_a_quota_counts_for_its_own_namespace_alone() -> None:
    """Called like another namespace, listing it, or named by its pods: none of it brings its pods in."""
    lists = {"quota.scheduling.koordinator.sh/namespaces": json.dumps(["other"])}
    tree = [quota("team", most=0), quota("listed", most=0, annotations=lists)]
    pods = [
        worker("p0", namespace="team", on="n0"),
        worker("p1", namespace="other", on="n0"),
        worker("p2", namespace="other", quota="listed", on="n0"),
    ]

    assert [] == _found(nodes("n0"), tree, pods)


def test_pods_that_may_not_be_preempted_fit_into_min() -> None:
    """Others may hold more than min, up to max."""
    tree, firm = [quota("a", most=8, least=2)], worker("p0", quota="a", gpu=3, on="n0", firm=True)

    over = [("over-min", "ElasticQuota a", "non-preemptible pods use 3 of nvidia.com/gpu, and its min is 2")]
    assert over == _found(nodes("n0"), tree, [firm])
    assert [] == _found(nodes("n0"), tree, [worker("p0", quota="a", gpu=3, on="n0")])


def _broken(objects: Objects) -> set[tuple[str, str]]:
    return {(finding.rule, finding.subject) for finding in audit(objects)}


@given(st.data())
def test_a_run_breaks_no_quota(data: st.DataObject) -> None:
    """Whatever quotas and workers there are, the scheduler keeps to what the auditor looks at."""
    numbers = st.integers(0, 8)
    tree = [quota("top", most=data.draw(numbers), least=0, is_parent=True)]
    for name in ("a", "b"):
        most = data.draw(numbers)
        tree.append(quota(name, most=most, least=data.draw(st.integers(0, most)), parent="top"))
    workers = [
        worker(
            f"p{i}",
            quota=data.draw(st.sampled_from(["a", "b"])),
            gpu=data.draw(st.integers(1, 4)),
            firm=data.draw(st.booleans()),
            of=data.draw(st.sampled_from(["", "g"])),
        )
        for i in range(data.draw(st.integers(1, 6)))
    ]
    objects = objects_of(nodes("n0 n1"), tree, gang("g", 2)[:1], workers)
    after = schedule(objects, koordinator(enableCheckParentQuota=True), now=0.0).cluster.read()

    assert set() == _broken(after)
