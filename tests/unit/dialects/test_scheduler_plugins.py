"""PodGroups of scheduling.x-k8s.io: gangs by label, and the status that their controller writes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.languages import nodes, objects_of, plugin_gang, pod, run, volcano_gang

from tierwise import audit
from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.api.scheduler_plugins import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import build

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2"}})
LABEL = "scheduling.x-k8s.io/pod-group"


def _after(*manifests: list[Raw]) -> PodGroup:
    """The group g after scheduling."""
    return schedule(objects_of(*manifests), DEFAULT, now=0.0).cluster.read().every(PodGroup)["default/g"]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    """Three nodes hold three pods, and of a gang of four none starts."""
    assert 3 == len(run(WORLD, plugin_gang("g", 3))[0])

    bound, why = run(WORLD, plugin_gang("g", 4))
    assert ({}, 4) == (bound, len(why))


def test_pods_beyond_the_minimum_come_as_room_allows() -> None:
    """A gang of four that needs two starts with three."""
    assert 3 == len(run(WORLD, plugin_gang("g", 4, least=2))[0])


def test_a_pod_waits_for_its_group() -> None:
    """A label alone makes no gang, and its pods are not placed one by one."""
    bound, why = run(WORLD, plugin_gang("g", 2)[1:])

    assert {} == bound
    assert {"PodGroupNotFound"} == {text.partition(":")[0] for text in why.values()}


def test_what_the_minimum_needs_may_be_stated() -> None:
    """`minResources` are what the job needs to be let into its queue."""
    group, *pods = plugin_gang("g", 2)
    spec: Raw = {"minMember": 2, "minResources": {"cpu": "2"}}
    (job,) = build(objects_of(WORLD, [group | {"spec": spec}, *pods]), 0.0).jobs

    assert job.min_resources is not None
    assert 2000 == job.min_resources.max()


def test_one_name_in_two_languages_is_two_gangs() -> None:
    """Each has its own pods, and neither completes the other."""
    theirs = [p | {"metadata": {**p["metadata"], "name": f"x{i}"}} for i, p in enumerate(plugin_gang("g", 2)[1:])]  # type: ignore[dict-item]
    world = [*WORLD, plugin_gang("g", 2)[0], *theirs]

    bound, _ = run(world, volcano_gang("g", 2))
    assert 2 == len(bound)
    assert 1 == len({name[0] for name in bound})
    assert {"default/g", "PodGroup.scheduling.x-k8s.io default/g"} == {
        job.key for job in build(objects_of(world, volcano_gang("g", 2)), 0.0).jobs
    }


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        (["", ""], "Scheduling"),
        ([""], "Pending"),
        (["Running", "Running"], "Running"),
        (["Running", "Succeeded"], "Running"),
        (["Succeeded", "Succeeded"], "Finished"),
        (["Running", "Failed"], "Failed"),
    ],
)
def test_the_phase_is_that_of_its_controller(pods: list[str], phase: str) -> None:
    """By how many pods exist, run and have ended; nothing is left to place here."""
    group = plugin_gang("g", 2)[0]
    own = [pod(f"g-{i}", on="n0" if state else "", phase=state, labels={LABEL: "g"}) for i, state in enumerate(pods)]
    none = [n | {"spec": {"unschedulable": True}} for n in WORLD]

    assert phase == _after(none, [group, *own]).status.phase


def test_counts_and_owner_are_written() -> None:
    """As `kubectl get podgroups` shows them."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    group, *pods = plugin_gang("g", 2)
    owned = [p | {"metadata": {**p["metadata"], "ownerReferences": [owner]}} for p in pods]  # type: ignore[dict-item]

    status = _after(WORLD, [group, *owned]).status

    assert ("Running", 2, 0, 0, "default/train") == (
        status.phase,
        status.running,
        status.succeeded,
        status.failed,
        status.occupied_by,
    )


def test_a_group_that_has_ended_stays_so() -> None:
    """Its pods may be gone by then."""
    assert "Finished" == _after(WORLD, plugin_gang("g", 2, phase="Finished")[:1]).status.phase


def test_a_group_that_waits_says_why() -> None:
    """Its status has no place for a message, so an annotation keeps it."""
    group = _after(WORLD, plugin_gang("g", 4))

    assert "4 pods" in group.metadata.annotations["tierwise.io/unschedulable"]


def test_what_cannot_be_is_refused_and_what_is_missing_is_told() -> None:
    """A minimum of none is no gang; a group that does not exist keeps its pods waiting."""
    group = plugin_gang("g", 1)[0] | {"spec": {"minMember": 0, "scheduleTimeoutSeconds": -1}}
    verdict = validate(objects_of([group], plugin_gang("h", 1)[1:]))

    assert ["spec.minMember", "spec.scheduleTimeoutSeconds"] == [finding.path for finding in verdict.errors]
    assert ["the group default/h of scheduling.x-k8s.io does not exist: the pod waits for it"] == [
        finding.message for finding in verdict.warnings
    ]


def test_a_pod_of_several_languages_is_told_which_counts() -> None:
    """Volcano's comes first."""
    both = [p | {"metadata": {**p["metadata"], "labels": {LABEL: "x"}}} for p in volcano_gang("g", 1)[1:]]  # type: ignore[dict-item]

    (told,) = validate(objects_of(volcano_gang("g", 1)[:1], both)).warnings

    assert (
        "the pod names several groups: default/g counts, and default/x (scheduling.x-k8s.io) does not" == told.message
    )


def test_the_auditor_finds_a_part_of_a_gang() -> None:
    """Unless its phase says that it was whole once."""

    def found(objects: Objects) -> list[str]:
        return [str(finding) for finding in audit.audit(objects) if finding.rule == "part-of-gang"]

    part = {0: "n0"}
    assert ["PodGroup default/g: 1 of 2 pods are placed (part-of-gang)"] == found(
        objects_of(WORLD, plugin_gang("g", 2, on=part))
    )
    assert [] == found(objects_of(WORLD, plugin_gang("g", 2, on=part, phase="Running")))
    assert [] == found(objects_of(WORLD, plugin_gang("g", 2, on={0: "n0", 1: "n1"})))


def test_controllers_make_no_group_for_its_pods() -> None:
    """A pod of the scheduler tierwise that names a group has one."""
    served = [
        raw | {"spec": {**raw["spec"], "schedulerName": "tierwise"}} if raw["kind"] == "Pod" else raw  # type: ignore[dict-item]
        for raw in plugin_gang("g", 4)
    ]

    assert {} == run(WORLD, served, profile=replace(DEFAULT))[0]
