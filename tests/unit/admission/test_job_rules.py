"""What a batch job may ask for."""

import pytest
from tests.support.manifests import (
    hypernode,
    job,
    node,
    nodes,
    objects,
    part,
    partitions,
    queue,
    task,
    tier,
)
from tests.support.verdicts import errors, warnings

from tierwise.admission import validate
from tierwise.admission.job import check_change
from tierwise.api.codec import Raw
from tierwise.api.volcano import Job


def _job(*tasks: Raw, **spec: object) -> Raw:
    return job("train", *(tasks or (task("w", 2),)), **spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("batch", "path", "message"),
    [
        (job("train"), "spec.tasks", "at least one task is needed"),
        (_job(minAvailable=-1), "spec.minAvailable", "minAvailable is -1, it must be at least 0"),
        (_job(minAvailable=3), "spec.minAvailable", "minAvailable of 3 is more than the 2 replicas of all tasks"),
        (_job(minSuccess=0), "spec.minSuccess", "minSuccess is 0, it must be at least 1"),
        (_job(maxRetry=-1), "spec.maxRetry", "maxRetry is -1, it must be at least 0"),
        (
            _job(ttlSecondsAfterFinished=-1),
            "spec.ttlSecondsAfterFinished",
            "ttlSecondsAfterFinished is -1, it must be at least 0",
        ),
        (
            _job(task("a", 1), task("a", 1)),
            "spec.tasks[1].name",
            'duplicate task name "a": names must be unique',
        ),
        (
            _job(task("", 1), task("default0", 1)),
            "spec.tasks[1].name",
            'duplicate task name "default0": names must be unique',
        ),
        (
            _job(task("w", 2, minAvailable=3)),
            "spec.tasks[0].minAvailable",
            "minAvailable of 3 is more than the 2 replicas",
        ),
        (
            _job(task("w", 2, topologyPolicy="tight")),
            "spec.tasks[0].topologyPolicy",
            'topologyPolicy "tight" is not known: it must be one of best-effort, none, restricted, single-numa-node',
        ),
        (
            _job(task("w", 2, template={"spec": {}})),
            "spec.tasks[0].template.spec.containers",
            "at least one container is needed",
        ),
        (
            _job(networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}),
            "spec.networkTopology",
            "highestTierAllowed and highestTierName exclude each other",
        ),
        (_job(queue="root"), "spec.queue", "jobs cannot be submitted to the root queue"),
    ],
)
def test_a_field_out_of_range_is_an_error(batch: Raw, path: str, message: str) -> None:
    """Every rule names the field and what it found there."""
    assert [(path, message)] == errors(batch)


def test_names_must_make_names_of_pods() -> None:
    """A task is named like a DNS label, since it becomes part of the names of its pods."""
    assert {"spec.tasks[0].name"} == {path for path, _ in errors(_job(task("W_1", 1)))}
    assert ["metadata.name"] == [path for path, _ in errors(job("x" * 64, task("w", 1)))]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (partitions(2, 2), []),
        (partitions(2, 2, minPartitions=2), []),
        (partitions(0, 4), ["totalPartitions"]),
        (partitions(4, 0), ["partitionSize"]),
        ({"partitionSize": 4}, ["totalPartitions"]),
        (partitions(2, 3), [""]),
        (partitions(2, 2, minPartitions=3), ["minPartitions"]),
        (partitions(2, 2, minPartitions=-1), ["minPartitions"]),
        (
            partitions(2, 2, networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "r"}),
            ["networkTopology"],
        ),
        (partitions(2, 2, networkTopology=tier(3)), ["networkTopology"]),
    ],
)
def test_partitions_must_make_up_the_replicas(policy: Raw, expected: list[str]) -> None:
    """Their number and size are positive, make the replicas, and stay within the topology of the job."""
    found = errors(_job(task("w", 4, partitionPolicy=policy), networkTopology=tier(2)))

    root = "spec.tasks[0].partitionPolicy"
    assert [f"{root}.{field}" if field else root for field in expected] == [path for path, _ in found]


def test_a_task_minimum_must_agree_with_its_required_partitions() -> None:
    """Where both are given they must say the same."""
    policy = partitions(2, 2, minPartitions=1)
    [found] = errors(_job(task("w", 4, partitionPolicy=policy, minAvailable=3)))

    assert "minAvailable of 3 is not minPartitions * partitionSize, which is 2" == found[1]
    assert [] == errors(_job(task("w", 4, partitionPolicy=policy, minAvailable=2)))


def test_tier_names_are_compared_by_the_tiers_they_stand_for() -> None:
    """A partition that may span a spine in a job that may not is an error."""
    tree = [hypernode("r", 1, nodes("n0"), tier_name="rack"), hypernode("s", 2, nodes("n1"), tier_name="spine")]
    batch = _job(
        task("w", 4, partitionPolicy=partitions(2, 2, networkTopology=tier("spine"))), networkTopology=tier("rack")
    )

    assert ["tier 2 is above tier 1, the highest that the whole may use"] == [text for _, text in errors(*tree, batch)]


@pytest.mark.parametrize(
    ("depends", "message"),
    [
        (["b"], None),
        (["gone"], 'task "gone" does not exist'),
        (["a"], "cyclic dependency: a -> a"),
        (["c"], "cyclic dependency: a -> c -> a"),
    ],
)
def test_tasks_wait_for_each_other_without_going_in_circles(depends: list[str], message: str | None) -> None:
    """What a task depends on exists and does not depend on it."""
    batch = _job(
        task("a", 1, dependsOn={"name": depends}), task("b", 1), task("c", 1, dependsOn={"name": ["a"]}), minAvailable=1
    )
    found = [text for path, text in errors(batch) if path == "spec.tasks[0].dependsOn.name"]

    assert ([] if message is None else [message]) == found


def test_jobs_go_to_leaf_queues() -> None:
    """A queue with queues below it takes no jobs."""
    [found] = errors(_job(queue="a"), queue("a"), queue("b", parent="a"))

    assert ("spec.queue", 'queue "a" has queues below it: jobs can be submitted to leaf queues only') == found


def test_a_job_that_fits_nowhere_is_a_warning() -> None:
    """Tasks of several shapes are judged together, partitions by themselves."""
    rack = [node("n0", "cpu=4"), node("n1", "cpu=4"), node("n2", "cpu=4"), hypernode("r", 1, nodes("n0", "n1"))]
    fits = _job(task("a", 1, "cpu=4"), task("b", 1, "cpu=4"), networkTopology=tier(1))
    large = _job(task("a", 1, "cpu=4"), task("b", 2, "cpu=3"), networkTopology=tier(1))
    split = _job(task("a", 3, "cpu=3", partitionPolicy=partitions(1, 3, networkTopology=tier(1))))

    assert [] == warnings(*rack, fits)
    assert ["spec.minAvailable"] == [path for path, _ in warnings(*rack, large)]
    assert ["spec.tasks[0].partitionPolicy.partitionSize"] == [path for path, _ in warnings(*rack, split)]


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({"minAvailable": 1}, True),
        ({"priorityClassName": "high"}, True),
        ({"tasks": [task("w", 5)]}, True),
        ({"tasks": [task("w", 2, "cpu=2")]}, False),
        ({"queue": "other"}, False),
        ({"networkTopology": tier(1)}, False),
    ],
)
def test_few_fields_may_change(change: Raw, allowed: bool) -> None:
    """A live job may grow, shrink and be given another priority; anything else needs a new one."""
    old = _job()
    [before] = objects(old).every(Job).values()
    [after] = objects(old | {"spec": part(old, "spec") | change}).every(Job).values()

    assert allowed == (not list(check_change(before, after)))


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (
            {"plugins": {"hcclrank": []}},
            "spec.plugins.hcclrank",
            'job plugin "hcclrank" is not supported: Volcano alone provides it; the pod will wait (NotSupported)',
        ),
        ({"plugins": {"x": []}}, "spec.plugins.x", 'job plugin "x" is not known: it is ignored'),
        ({"volumes": [{"mountPath": "/data"}]}, "spec.volumes", "volume claims are not supported"),
    ],
)
def test_people_are_told_what_is_not_carried_out(fields: Raw, path: str, message: str) -> None:
    """Rather than that a job starts without it."""
    [found] = warnings(_job(**fields))

    assert (path, True) == (found[0], found[1].startswith(message))


def test_mpi_needs_the_task_that_starts_the_others() -> None:
    """Under its usual name, or the one that the job says."""
    ((path, _),) = errors(_job(task("w", 1), plugins={"mpi": []}))

    assert "spec.plugins.mpi" == path
    assert [] == errors(_job(task("w", 1), plugins={"mpi": ["--master=w"]}))


def test_a_job_with_a_service_needs_a_name_for_it() -> None:
    """Services are named more strictly than jobs."""
    plain, served = job("4train", task("w", 1)), job("4train", task("w", 1), plugins={"svc": []})

    assert [] == errors(plain)
    assert ["metadata.name"] == [path for path, _ in errors(served)]


@pytest.mark.parametrize(("policy", "warned"), [("none", False), ("best-effort", True), ("single-numa-node", True)])
def test_a_numa_policy_is_warned_of(policy: str, *, warned: bool) -> None:
    """The pods of the task carry it as an annotation, and wait."""
    verdict = validate(objects(_job(task("w", 2, topologyPolicy=policy))))

    assert verdict.valid
    assert warned == any("topologyPolicy" in found.path for found in verdict.warnings)


def test_a_circle_of_many_tasks_is_told_in_short() -> None:
    """Each task of it is told, with the first few names."""
    found = errors(
        _job(*(task(f"t{i}", 1, dependsOn={"name": [f"t{(i + 1) % 20}"]}) for i in range(20)), minAvailable=1)
    )

    assert [f"spec.tasks[{i}].dependsOn.name" for i in range(20)] == [path for path, _ in found]
    assert "cyclic dependency: t3 -> t4 -> t5 -> t6 -> t7 -> t8 -> t9 -> t10 -> 12 more -> t3" == found[3][1]
