"""The pod group that a batch job becomes."""

import pytest
from tests.support.manifests import (
    NOW,
    job,
    manifest,
    names,
    objects,
    part,
    partitions,
    settled,
    spec,
    task,
    tier,
)

from tierwise.api.codec import Raw
from tierwise.controllers import Controllers
from tierwise.port import Create, Update, key_of_raw

GROUP = "default/train-u1"
HIGH: Raw = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


def test_a_job_becomes_a_pod_group_of_its_name_and_uid() -> None:
    """The pod group belongs to the job and carries its marks."""
    marks: Raw = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    world = settled(objects(job("train", task("w", 2), metadata=marks)))
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }

    expected = {"name": "train-u1", "namespace": "default", **marks, "ownerReferences": [owner]}
    assert expected == manifest(world, "PodGroup", GROUP)["metadata"]


@pytest.mark.parametrize("mark", ["", "Pod train", "Job other", "Job train"])
def test_a_mark_that_is_copied_from_a_job_makes_its_group_nobody_elses(mark: str) -> None:
    """Whatever a user writes there: the group is not taken for one that was made for pods, and stays."""
    marks: Raw = {"annotations": {"tierwise.io/made-for": mark}}
    world = settled(objects(job("train", task("w", 2), metadata=marks)))

    assert [GROUP] == names(world, "PodGroup")
    assert [] == Controllers().run(world, NOW)


def test_defaults_make_every_pod_part_of_the_gang() -> None:
    """Without a word on minimums all replicas of all tasks start together, in the default queue."""
    world = settled(objects(job("train", task("", 2), task("ps", 1, "memory=512Mi"))))

    assert {
        "minMember": 3,
        "minTaskMember": {"default0": 2, "ps": 1},
        "minResources": {"cpu": "2", "memory": "512Mi"},
        "queue": "default",
    } == spec(world, "PodGroup", GROUP)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"minAvailable": 2}, 2),
        ({"partitionPolicy": partitions(3, 2, minPartitions=2)}, 4),
        ({"partitionPolicy": partitions(3, 2)}, 6),
        ({"partitionPolicy": partitions(3, 2, minPartitions=2), "minAvailable": 5}, 5),
    ],
)
def test_the_minimum_of_a_task(fields: Raw, expected: int) -> None:
    """A task's own minimum, else its required partitions, else all its replicas."""
    world = settled(objects(job("train", task("w", 6) | fields)))

    assert {"w": expected} == spec(world, "PodGroup", GROUP)["minTaskMember"]


def test_partitions_become_a_sub_group_policy() -> None:
    """Pods are told apart by task and partition; the partition keeps its topology."""
    policy = partitions(2, 4, minPartitions=1, networkTopology=tier("rack"))
    world = settled(objects(job("train", task("w", 8, partitionPolicy=policy), networkTopology=tier(2))))

    assert tier(2) == spec(world, "PodGroup", GROUP)["networkTopology"]
    assert [
        {
            "name": "w",
            "subGroupSize": 4,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": tier("rack"),
        }
    ] == spec(world, "PodGroup", GROUP)["subGroupPolicy"]


@pytest.mark.parametrize(
    ("minimum", "cpu"),
    [
        (2, "16"),  # fewer than the tasks' minimums: two pods of the task that comes first
        (3, "17"),  # the minimums themselves: 2 x 8 + 1 x 1
        (5, "26"),  # topped up: one more of the first task, then one of the second
        (9, "28"),  # there is no more to count
    ],
)
def test_minimum_resources_follow_priority(minimum: int, cpu: str) -> None:
    """Pods of the task with the highest priority class are counted first."""
    first = task("first", 3, minAvailable=2)
    first["template"] = {
        "spec": {"priorityClassName": "high", "containers": [{"resources": {"requests": {"cpu": "8"}}}]}
    }
    batch = job("train", task("last", 4, minAvailable=1), first, minAvailable=minimum)
    world = settled(objects(HIGH, batch))

    assert {"cpu": cpu} == spec(world, "PodGroup", GROUP)["minResources"]


def test_amounts_are_spelled_canonically() -> None:
    """Sums are shown as Kubernetes would show them."""
    world = settled(objects(job("train", task("w", 3, "cpu=500m memory=1073741824 nvidia.com/gpu=8"))))

    expected = {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "24"}
    assert expected == spec(world, "PodGroup", GROUP)["minResources"]


def test_the_pod_group_follows_its_job() -> None:
    """A change of the job reaches the pod group; what others wrote there stays."""
    world = settled(objects(job("train", task("w", 2), networkTopology=tier(1))))
    group = manifest(world, "PodGroup", GROUP)
    grown = {"minMember": 2, "foreign": "kept"}
    group = {**group, "spec": {**spec(world, "PodGroup", GROUP), **grown}, "status": {"phase": "Pending"}}
    world = settled(objects(job("train", task("w", 4), queue="research", priorityClassName="high"), group))

    assert {
        "minMember": 4,
        "minTaskMember": {"w": 4},
        "minResources": {"cpu": "4"},
        "queue": "research",
        "priorityClassName": "high",
        "foreign": "kept",
    } == spec(world, "PodGroup", GROUP)
    assert {"phase": "Pending"} == manifest(world, "PodGroup", GROUP)["status"]


def test_amounts_spelled_otherwise_are_no_change() -> None:
    """A pod group that says 2000m where the job asks for 2 is left as it is."""
    world = settled(objects(job("train", task("w", 2))))
    group = manifest(world, "PodGroup", GROUP)
    group = {**group, "spec": {**spec(world, "PodGroup", GROUP), "minResources": {"cpu": "2000m"}}}
    world = settled(objects(job("train", task("w", 2)), group))

    assert {"cpu": "2000m"} == spec(world, "PodGroup", GROUP)["minResources"]


def test_a_job_without_uid_gets_a_stable_one() -> None:
    """Manifests from a file have no uid: the same name gives the same pod group in every run."""
    first = names(settled(objects(job("train", task("w", 1), metadata={"uid": ""}))), "PodGroup")
    again = names(settled(objects(job("train", task("w", 1), metadata={"uid": ""}))), "PodGroup")

    assert first == again
    assert first != names(settled(objects(job("other", task("w", 1), metadata={"uid": ""}))), "PodGroup")


def test_a_job_on_its_way_out_is_left_alone() -> None:
    """Nothing is made for a job that is being deleted."""
    leaving = job("train", task("w", 1), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})

    assert [] == names(settled(objects(leaving)), "PodGroup")


def test_a_job_that_is_scaled_before_its_group_is_seen() -> None:
    """The group that was asked for follows the job as it is now."""
    remembering, before = Controllers(), objects(job("train", task("w", 2)))
    (made,) = [e.raw for e in remembering.run(before, NOW) if isinstance(e, Create) and e.raw["kind"] == "PodGroup"]
    scaled = job("train", task("w", 3))
    after = before.changed({key_of_raw(made): made, key_of_raw(scaled): scaled})

    (updated,) = [effect.raw for effect in remembering.run(after, NOW) if isinstance(effect, Update)]

    assert 3 == part(updated, "spec")["minMember"]
