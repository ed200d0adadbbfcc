"""The pods that a batch job makes, and when."""

from typing import Any

import pytest
from tests.support.job_life import Simulation
from tests.support.manifests import (
    job,
    manifest,
    names,
    objects,
    part,
    partitions,
    pod_group,
    settled,
    spec,
    task,
)

from tierwise.api.codec import Raw
from tierwise.port import Objects

GROUP = pod_group("train-u1")


def _made(*raws: Raw) -> Objects:
    return settled(objects(*raws))


def _with_phase(world: Objects, name: str, phase: str) -> Objects:
    """The objects once a pod has reached a phase."""
    [key] = [key for key in world if (key.kind, key.name) == ("Pod", name)]
    return settled(world.changed({key: {**(world.raw(key) or {}), "status": {"phase": phase}}}))


@pytest.mark.parametrize(
    ("phase", "count"), [("", 0), ("Pending", 0), ("Inqueue", 2), ("Running", 2), ("Unknown", 2), ("Completed", 0)]
)
def test_pods_are_made_once_the_pod_group_may_start(phase: str, count: int) -> None:
    """A job that waits for its queue has no pods yet."""
    world = _made(job("train", task("w", 2)), pod_group("train-u1", phase=phase))

    assert count == len(names(world, "Pod"))


def test_a_pod_carries_the_marks_of_its_place() -> None:
    """Scheduler and controllers know a pod by its labels and annotations."""
    batch = job("train", task("w", 4, partitionPolicy=partitions(2, 2)), queue="research")
    metadata = part(manifest(_made(batch, GROUP), "Pod", "default/train-w-3"), "metadata")

    assert {
        "volcano.sh/task-index": "3",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "w",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "research",
        "volcano.sh/partition-id": "1",
    } == metadata["labels"]
    assert {
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "w",
        "scheduling.k8s.io/group-name": "train-u1",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "research",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "train-w",
        "volcano.sh/job-retry-count": "0",
    } == metadata["annotations"]
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    assert [("Job", "train", "u1")] == [(owner["kind"], owner["name"], owner["uid"]) for owner in owners]


def test_a_pod_keeps_everything_that_its_template_says() -> None:
    """Fields that tierwise does not know are passed on, and so are the template's own labels."""
    template: Raw = {"metadata": {"labels": {"app": "x"}}, "spec": {"volumes": [{"name": "v"}], "containers": []}}
    world = _made(job("train", task("w", 1, template=template)), GROUP)

    assert {"volumes": [{"name": "v"}], "containers": [], "schedulerName": "volcano"} == spec(
        world, "Pod", "default/train-w-0"
    )
    assert "x" == part(part(manifest(world, "Pod", "default/train-w-0"), "metadata"), "labels")["app"]


@pytest.mark.parametrize(("own", "of_job", "expected"), [("", "", "volcano"), ("", "a", "a"), ("b", "a", "b")])
def test_the_scheduler_is_the_templates_or_else_the_jobs(own: str, of_job: str, expected: str) -> None:
    """The nearest word on the scheduler counts; without one it is volcano."""
    template = {"spec": {"schedulerName": own}}
    world = _made(job("train", task("w", 1, template=template), schedulerName=of_job), GROUP)

    assert expected == spec(world, "Pod", "default/train-w-0")["schedulerName"]


def test_marks_of_the_job_that_hold_for_pods_are_handed_on() -> None:
    """Whether pods may be preempted is said once, at the job; so is their priority."""
    marks: Raw = {"annotations": {"volcano.sh/preemptable": "true", "other": "x"}}
    world = _made(job("train", task("w", 1), metadata=marks, priorityClassName="high"), GROUP)
    annotations = part(part(manifest(world, "Pod", "default/train-w-0"), "metadata"), "annotations")

    assert ("true", False) == (annotations["volcano.sh/preemptable"], "other" in annotations)
    assert "high" == spec(world, "Pod", "default/train-w-0")["priorityClassName"]


def test_scaling_makes_and_deletes_the_pods_at_the_end() -> None:
    """Replicas are numbered from zero: growth adds the next numbers, shrinking takes the last."""
    world = _made(job("train", task("w", 3)), GROUP)
    [key] = [key for key in world if key.kind == "Job"]
    shrunk = settled(world.changed({key: job("train", task("w", 1))}))
    grown = settled(shrunk.changed({key: job("train", task("w", 2), task("ps", 1))}))

    assert ["default/train-w-0"] == names(shrunk, "Pod")
    assert ["default/train-ps-0", "default/train-w-0", "default/train-w-1"] == names(grown, "Pod")


def test_a_lost_pod_is_made_anew_and_an_ended_one_is_not() -> None:
    """Evicted pods come back; pods that ran to their end stay as they are."""
    world = _with_phase(_made(job("train", task("w", 2)), GROUP), "train-w-0", "Failed")
    [key] = [key for key in world if key.name == "train-w-1"]

    assert ["default/train-w-0", "default/train-w-1"] == names(settled(world.changed({}, [key])), "Pod")
    assert {"phase": "Failed"} == manifest(world, "Pod", "default/train-w-0")["status"]


def test_pods_of_others_are_not_touched() -> None:
    """A pod that another controller owns is not deleted, even where it bears the job's label."""
    foreign: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "other-0",
            "namespace": "default",
            "labels": {"volcano.sh/job-name": "train"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "other", "controller": True}],
        },
    }
    world = _made(job("train", task("w", 1)), GROUP, foreign)

    assert ["default/other-0", "default/train-w-0"] == names(world, "Pod")


def test_a_job_whose_pods_cannot_be_called_so_says_which() -> None:
    """Somebody else's pod has the name: the job tells, once, and goes on when the name is free again."""
    foreign: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-w-1", "namespace": "default"}}
    life = Simulation(job("train", task("w", 2)), foreign)
    told = [(event.reason, event.message) for event in life.told if event.type == "Warning"]
    text = "pod train-w-1 cannot be made: a pod of that name is not the job's"

    assert [("PodNameTaken", text)] == told
    assert ("PodNameTaken", text) == (life.state["reason"], life.state["message"])

    life.lose(("w", 1))
    assert ["w-0", "w-1"] == life.pods
    assert "reason" not in life.state


@pytest.mark.parametrize(("iteration", "started"), [("any", True), ("all", False)])
def test_a_task_waits_for_those_it_depends_on(iteration: str, started: bool) -> None:
    """Its pods are made once one of them, or all of them, run."""
    depends: Raw = {"name": ["a", "b"], "iteration": iteration}
    world = _made(job("train", task("a", 1), task("b", 1), task("c", 1, dependsOn=depends)), GROUP)
    assert ["default/train-a-0", "default/train-b-0"] == names(world, "Pod")

    one = _with_phase(world, "train-a-0", "Running")
    both = _with_phase(one, "train-b-0", "Running")
    assert (started, True) == ("default/train-c-0" in names(one, "Pod"), "default/train-c-0" in names(both, "Pod"))


def test_volumes_of_a_job_are_claims_of_its_pods() -> None:
    """By the name that the job gives, else by one that follows from the job's own."""
    batch = job("train", task("w", 1))
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}, {"mountPath": "/out"}]
    batch["spec"] = part(batch, "spec") | {"volumes": volumes}
    made: Any = spec(_made(batch, GROUP), "Pod", "default/train-w-0")

    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in made["volumes"]]
    mounts = [mount["mountPath"] for mount in made["containers"][0]["volumeMounts"]]
    assert (["data", "train-volume-1"], ["/data", "/out"]) == (claims, mounts)
