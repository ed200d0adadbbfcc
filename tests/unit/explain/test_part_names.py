"""Parts of gangs are called as their language calls them: by explain, audit, status and validate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.commands import answer, manifests, run
from tests.support.koordinator import hypernode
from tests.support.languages import (
    RACK,
    composite,
    grove_gang,
    kai_gang,
    kubernetes_gang,
    near,
    nodes,
    objects_of,
    packed,
    pod,
    topology,
)
from tests.support.workloads import expanded

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.explain.terms import because
from tierwise.framework.report import Term
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise.status.pod import pod_conditions
from tierwise.status.pod_group import statuses

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
TREE = [
    hypernode(rack, 1, [("Node", name) for name in names])
    for rack, names in (("r0", ("n0", "n1")), ("r1", ("n2", "n3")))
]
TEMPLATE: Raw = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}}


class Spoken(msgspec.Struct, frozen=True):
    """A gang of a language: one that finds no place, one that stands in part, one that is written wrongly."""

    waits: Sequence[Raw]
    job: str
    part: str  # as `explain` and statuses call the part that is in the way
    stands: Sequence[Raw]
    audited: str  # as the audit calls what is missing
    wrong: Sequence[Raw]
    refused: str  # as `validate` calls what is wrong
    told: str = ""  # as pods are told, where these alone have a status


def _volcano(size: int, on: Sequence[str] = (), *, key: str = "volcano.sh/partition-id") -> list[Raw]:
    """A podGroup as Volcano's job controller makes it of a task with partitions."""
    policy: Raw = {
        "name": "worker",
        "subGroupSize": size,
        "minSubGroups": 1,
        "matchLabelKeys": [key],
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    group: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "minTaskMember": {"worker": 1}, "subGroupPolicy": [policy], "queue": "default"},
    }
    marks: Any = {
        "labels": {key: "0", "volcano.sh/task-spec": "worker"},
        "annotations": {"scheduling.k8s.io/group-name": "g"},
    }
    members = [pod(f"g-{i}", on=on[i] if i < len(on) else "", **marks) for i in range(size)]
    return [*TREE, group, *members]


def _with_a_driver(least: int = 2, on: str = "") -> list[Raw]:
    """A gang that needs a pod of a task that has none."""
    group: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": least, "minTaskMember": {"worker": 1, "driver": 1}, "queue": "default"},
    }
    marks: Any = {"labels": {"volcano.sh/task-spec": "worker"}, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    return [group, pod("g-0", on=on, **marks)]


def _composite(sizes: Sequence[int], least: int, *, on: dict[int, str] | None = None) -> list[Raw]:
    groups = [
        kubernetes_gang(f"g-{i}", size, key=RACK, on=on if not i else None, parentCompositePodGroupName="g")
        for i, size in enumerate(sizes)
    ]
    return [composite("g", least), *(raw for group in groups for raw in group)]


def _kai(**sizes: int) -> list[Raw]:
    subs = [{"name": name, "minMember": size, "topologyConstraint": near(RACK)} for name, size in sizes.items()]
    return [topology(), *kai_gang("g", sizes, subGroups=subs)]


def _kueue(size: int, pods: int, on: Sequence[str] = (), first: int = 0) -> list[Raw]:
    """A pod group of a JobSet, which is one of slices in the pod set `workers`."""
    marks = {
        "kueue.x-k8s.io/pod-group-total-count": str(pods),
        "kueue.x-k8s.io/podset-slice-required-topology": RACK,
        "kueue.x-k8s.io/podset-slice-size": str(size),
    }
    labels = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/podset": "workers"}
    labels |= {"jobset.sigs.k8s.io/replicatedjob-replicas": "1", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    levels = topology(of="kueue.x-k8s.io/v1beta2")
    return [
        levels,
        *(
            pod(
                f"g-{i}",
                on=on[i] if i < len(on) else "",
                annotations=marks,
                labels={**labels, "kueue.x-k8s.io/pod-group-pod-index": str(first + i)},
            )
            for i in range(pods)
        ),
    ]


def _koordinator(sizes: Sequence[int], on: dict[str, str] | None = None, total: int = 2) -> list[Raw]:
    """Gangs that start together."""
    names = "[" + ", ".join(f'"default/g{i}"' for i in range(total)) + "]"
    found: list[Raw] = []
    for i, size in enumerate(sizes):
        marks = {"gang.scheduling.koordinator.sh/name": f"g{i}", "gang.scheduling.koordinator.sh/groups": names}
        marks["gang.scheduling.koordinator.sh/min-available"] = "3"
        found += [pod(f"g{i}-{j}", on=(on or {}).get(f"g{i}-{j}", ""), annotations=marks) for j in range(size)]
    return found


def _leader_worker_set(size: int) -> Raw:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "g"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": TEMPLATE}},
    }


def _job_set(replicas: int) -> Raw:
    jobs = [
        {
            "name": name,
            "replicas": replicas,
            "template": {"spec": {"parallelism": 1, "completions": 1, "template": TEMPLATE}},
        }
        for name in ("driver", "workers")
    ]
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "g", "labels": labels},
        "spec": {"replicatedJobs": jobs},
    }


def _roles(size: int) -> Raw:
    roles = [
        {"name": name, "replicas": size, "standalonePattern": {"template": TEMPLATE}} for name in ("prefill", "decode")
    ]
    return {
        "apiVersion": "workloads.x-k8s.io/v1alpha2",
        "kind": "RoleBasedGroup",
        "metadata": {"name": "g", "annotations": {"rbg.workloads.x-k8s.io/group-gang-scheduling": "true"}},
        "spec": {"roles": roles},
    }


def _half(workload: Raw) -> list[Raw]:
    """The objects of a workload, the first of whose pods stands."""
    objects = expanded(workload)
    raws = [raw for key in objects if (raw := objects.raw(key)) is not None and key.kind in ("Pod", "PodGroup")]
    raws.sort(key=lambda raw: str(raw["metadata"]["name"]))  # type: ignore[index]
    bound = next(raw for raw in raws if raw["kind"] == "Pod")
    bound = {**bound, "spec": {**bound["spec"], "nodeName": "n0"}, "status": {"phase": "Running"}}  # type: ignore[dict-item]
    return [bound if raw["metadata"] == bound["metadata"] else raw for raw in raws]


SPOKEN = {
    "Volcano's tasks": Spoken(
        _with_a_driver(),
        "default/g",
        "task driver",
        _with_a_driver(on="n0"),
        "0 of 1 pods of task driver are placed",
        _with_a_driver(1),
        "the minimums of the tasks add up to more than minMember",
    ),
    "Volcano's partitions": Spoken(
        _volcano(3),
        "default/g",
        "partition worker-0",
        _volcano(2, ["n0"]),
        "0 of 1 partitions of worker are complete",
        _volcano(3),
        "3 pods of a partition",
    ),
    "Volcano's sub-groups": Spoken(
        _volcano(3, key="block"),
        "default/g",
        "sub-group worker-0",
        _volcano(2, ["n0"], key="block"),
        "0 of 1 sub-groups of worker are complete",
        _volcano(3, key="block"),
        "3 pods of a sub-group",
    ),
    "PodGroups of Kubernetes": Spoken(
        _composite((2, 3), 2),
        "default/g",
        "PodGroup g-1",
        _composite((2, 2), 2, on={0: "n0", 1: "n1"}),
        "1 of 2 PodGroups are complete",
        kubernetes_gang("g-0", 1, parentCompositePodGroupName="g"),
        "CompositePodGroup default/g does not exist",
    ),
    "sub-groups of KAI": Spoken(
        _kai(a=2, b=3),
        "default/g",
        "sub-group b",
        [
            topology(),
            *kai_gang(
                "g",
                {"a": 1, "b": 1},
                subGroups=[{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}],
                on={"g-a-0": "n0"},
            ),
        ],
        "0 of 1 pods of sub-group b are placed",
        [*_kai(a=1), *kai_gang("g", {"c": 1})[1:]],
        'no sub-group "c"',
    ),
    "Grove's PodCliques": Spoken(
        grove_gang("g", {"prefill": 2, "decode": 3}, keys={"prefill": RACK, "decode": RACK}),
        "default/g",
        "PodClique decode",
        grove_gang("g", {"prefill": 1, "decode": 1}, on={"g-prefill-0": "n0"}),
        "0 of 1 pods of PodClique decode are placed",
        grove_gang(
            "g",
            {"a": 1},
            topologyConstraintGroupConfigs=[{"name": "x", "podGroupNames": ["b"], "topologyConstraint": packed(RACK)}],
        ),
        'no PodClique of the name "b"',
    ),
    "Kueue's slices of a pod set": Spoken(
        _kueue(3, 3),
        "default/g",
        "slice workers-slice-0",
        _kueue(2, 2, ["n0", "n2"]),
        "replicated job workers, slice 0 of 2",
        _kueue(2, 2, first=8),
        'no slice "workers-slice-4"',
        "its 3 pods in their slice",
    ),
    "gangs of Koordinator": Spoken(
        _koordinator((3, 2)),
        "default/g0,default/g1",
        "gang default/g1",
        _koordinator((3, 3), on={"g0-0": "n0", "g1-0": "n1"}),
        "Gang default/g1: 1 of 3 pods are placed",
        [*_koordinator((3,), total=2), *_koordinator((0, 3), total=3)],
        "gang default/g1",
    ),
    "a LeaderWorkerSet's groups": Spoken(
        [_leader_worker_set(2)],
        "",
        "(group 0)",
        _half(_leader_worker_set(2)),
        "1 of 2 pods are placed (group 0)",
        [{**_leader_worker_set(2), "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2}}}],
        "workerTemplate",
    ),
    "a JobSet's replicated jobs": Spoken(
        [_job_set(2)],
        "",
        "(replicated job driver: 2, replicated job workers: 2)",
        _half(_job_set(1)),
        "1 of 2 pods are placed (replicated job driver)",
        [{**_job_set(2), "spec": {"replicatedJobs": [{"name": "workers", "replicas": "x"}]}}],
        "replicatedJobs[0]",
    ),
    "roles of a RoleBasedGroup": Spoken(
        [_roles(2)],
        "",
        "(role decode: 2, role prefill: 2)",
        _half(_roles(1)),
        "1 of 2 pods are placed (role decode)",
        [{**_roles(2), "spec": {"roles": [{"name": "decode"}]}}],
        "roles[0]",
    ),
}

each = pytest.mark.parametrize("spoken", SPOKEN.values(), ids=SPOKEN)


def _made(raws: Sequence[Raw]) -> Objects:
    return expanded(*WORLD, *raws)


@each
def test_explain_names_the_part_that_is_in_the_way(spoken: Spoken, tmp_path: Path) -> None:
    """For people and in JSON; where a job is not named, that of any of its pods."""
    objects = _made(spoken.waits)
    raws = [raw for key in objects if (raw := objects.raw(key)) is not None]
    file = manifests(tmp_path, *raws)
    job = spoken.job or next(iter(answer("schedule", "-f", file)["podGroups"]))

    said = answer("explain", "-f", file, "--job", job)

    assert spoken.part in said["message"]
    text = " ".join(run("explain", "-f", file, "--job", job, width=400).stdout.split())
    assert spoken.part in text


@each
def test_a_status_names_the_part_that_is_in_the_way(spoken: Spoken) -> None:
    """Of the group where its language has one, else of its pods."""
    objects = _made(spoken.waits)
    snapshot = build(objects, 0.0)
    report = cycle(snapshot, DEFAULT)

    effects = [*statuses(objects, snapshot, report), *pod_conditions(objects, snapshot, report)]

    told = [str(effect) for effect in effects]
    assert any((spoken.told or spoken.part) in text for text in told), told


@each
def test_the_audit_names_the_part_that_is_missing(spoken: Spoken) -> None:
    """A gang that stands in part says which of its parts do not."""
    from tierwise.audit import audit

    found = [str(finding) for finding in audit(objects_of(WORLD, list(spoken.stands)))]

    assert any(spoken.audited in text for text in found), found


@each
def test_validate_names_the_part_that_is_wrong(spoken: Spoken) -> None:
    """By its word, or by the field that its owner wrote."""
    verdict = validate(objects_of(WORLD, list(spoken.wrong)))

    said = [f"{issue.path}: {issue.message}" for issue in (*verdict.errors, *verdict.warnings)]
    assert any(spoken.refused in text for text in said), said


def test_limits_are_told_of_the_parts_as_their_language_calls_them(tmp_path: Path) -> None:
    """Where a gang was placed, and within which limits."""
    gang = grove_gang("g", {"prefill": 1, "decode": 1}, keys={"prefill": RACK, "decode": RACK})
    file = manifests(tmp_path, *nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1), *gang)

    text = " ".join(run("schedule", "-f", file, width=400).stdout.split())

    assert "each PodClique" in text
    assert "sub-group" not in text


def test_an_order_is_told_of_the_parts_as_their_language_calls_them() -> None:
    """Terms that speak of parts."""
    assert "r0 comes first by siblings: the gang's other PodCliques have their places beside it" == because(
        "r0", [Term.SIBLINGS], "PodClique"
    )
    assert "r0 comes first by previous: it is nearest to where the PodGroup ran before" == because(
        "r0", [Term.PREVIOUS], "PodGroup"
    )


def test_a_mark_that_names_no_part_is_told_as_the_language_calls_parts() -> None:
    """The annotation of a fabric for a part that does not exist."""
    gang = grove_gang("g", {"prefill": 1})
    marked = [
        {**raw, "metadata": {**raw["metadata"], "annotations": {"tierwise.io/fabric.decode": "power"}}}  # type: ignore[dict-item]
        if raw["kind"] == "PodGang"
        else raw
        for raw in gang
    ]

    report = cycle(build(objects_of(WORLD, marked), 0.0), DEFAULT)

    (refusal,) = report.rejections.values()
    assert 'there is no PodClique "decode"' in refusal.reason.text
