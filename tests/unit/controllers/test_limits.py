"""Objects beyond a limit are named and not served, whoever let them in."""

from __future__ import annotations

import pytest
from tests.support.manifests import (
    NOW,
    children,
    hypernode,
    node,
    nodes,
    objects,
    settled,
)

from tierwise.admission import validate
from tierwise.api import limits
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.volcano import Job, PodGroup
from tierwise.audit import audit
from tierwise.controllers import run
from tierwise.port import PatchStatus, RecordEvent
from tierwise.snapshot.builder import build


def _job(*replicas: int, resources: int = 1) -> Raw:
    asked = {f"example.com/r{i}": "1" for i in range(resources)}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}
    tasks = [{"name": f"t{i}", "replicas": number, "template": template} for i, number in enumerate(replicas)]
    spec = {"minAvailable": 1, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


@pytest.mark.parametrize(
    "job",
    [
        _job(2_000_000_000),
        _job(99_999_999_999_999),
        _job(2**63 - 1, 2**63 - 1),
        _job(limits.PODS, 1),
        _job(limits.PODS, 5, -5),
        _job(*[1] * (limits.TASKS + 1)),
        _job(1, resources=limits.RESOURCES + 1),
    ],
    ids=["replicas", "far beyond", "64 bits", "sum", "negative", "tasks", "resources"],
)
def test_a_job_beyond_a_limit_gets_no_pods(job: Raw) -> None:
    """Admission refuses it; where it is there all the same, its state and an event say why, once."""
    world = objects(job)
    effects = run(world, NOW)

    assert not validate(world).valid
    assert [PatchStatus, RecordEvent] == [type(effect) for effect in effects]
    after = settled(world)
    assert ({}, {}) == (dict(after.every(Pod)), dict(after.every(PodGroup)))
    assert [] == run(after, NOW)


def test_resources_of_init_containers_count_as_well() -> None:
    """Wherever a container stands, it asks for no more than so many resources."""
    job = _job(1, resources=limits.RESOURCES + 1)
    spec = job["spec"]["tasks"][0]["template"]["spec"]  # type: ignore[index]
    spec["initContainers"], spec["containers"] = spec["containers"], [{"name": "main"}]

    assert [PatchStatus, RecordEvent] == [type(effect) for effect in run(objects(job), NOW)]


def test_a_job_at_the_limits_is_valid() -> None:
    """The limit itself is allowed."""
    assert [] == list(limits.beyond(objects(_job(limits.PODS, resources=limits.RESOURCES)).every(Job)["default/j"]))


@pytest.mark.parametrize("length", [limits.DEPTH + 1, 2_000])
def test_a_chain_that_is_too_deep_loses_its_outer_part(length: int) -> None:
    """The inner hyperNodes stay in use, the others are set aside as one problem; nothing raises, the audit neither."""
    chain = [hypernode("h0", 1, nodes("n0"))]
    chain += [hypernode(f"h{i}", i + 1, children(f"h{i - 1}")) for i in range(1, length)]
    world = objects(node("n0"), *chain)
    topology = build(world, NOW).topology

    assert ["TooDeep"] == [problem.code for problem in topology.problems]
    assert (limits.DEPTH, length - limits.DEPTH) == (len(topology) - 1, len(topology.set_aside))
    assert not validate(world).valid
    assert [] == list(audit(world))


@pytest.mark.parametrize("tier", [2**31, 2**63 - 1])
def test_a_tier_beyond_32_bits_is_a_problem_of_its_hypernode(tier: int) -> None:
    """It is set aside, and the others are not."""
    world = objects(node("n0"), node("n1"), hypernode("h", tier, nodes("n0")), hypernode("r", 1, nodes("n1")))
    topology = build(world, NOW).topology

    assert [("h", "TierOutOfRange")] == [(problem.domain, problem.code) for problem in topology.problems]
    assert ("h",) == topology.set_aside
    assert not validate(world).valid
