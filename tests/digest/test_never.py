"""Who is told never fits no empty cluster either, however early its search stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.digest.scenes import KINDS, Case, cases
from tests.support.depth import size

from tierwise.api import codec
from tierwise.config.searches import STEPS
from tierwise.model.job import Job, Verdict
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import Rounds, schedule

LEFT_OUT = ("evicting", "half", "jobpreempt", "everything", "mixed", "plain", "lost")
"""Scenes in which never may be about more than room: quotas, pods that stand where they may not stay, repair."""


def _run(case: Case, objects: Objects, steps: int) -> Rounds:
    arguments = {**case.profile.action_arguments, "allocate": {"searchSteps": steps}}
    return schedule(objects, replace(case.profile, action_arguments=arguments), now=case.now, cycles=1)


def _never(history: Rounds) -> Iterator[Job]:
    """The gangs of which nothing was placed, and that are told never."""
    snapshot, report = history.reports[0]
    placed = {decision.job.key for decision in report.decisions}
    for job in snapshot.jobs:
        refused = report.rejections.get(job.key)
        if refused is not None and refused.verdict is Verdict.NEVER and job.key not in placed:
            yield job


def _alone(objects: Objects, job: Job) -> Objects:
    """The cluster with no pods but those of one gang."""
    own = {task.key for task in job.tasks}
    kept = [(key, raw) for key in objects if (raw := objects.raw(key)) is not None]
    raws = (raw for key, raw in kept if key.kind != "Pod" or f"{key.namespace or 'default'}/{key.name}" in own)
    return Objects.of((codec.decode(raw), raw) for raw in raws)


@pytest.mark.parametrize("steps", [STEPS, 100, 1])
def test_never_is_said_only_of_gangs_that_no_empty_cluster_holds(steps: int) -> None:
    """Whatever the budget: a search that was cut short may say not now."""
    wrong, told = [], 0
    for name, make in cases(size(len(KINDS), 60 * len(KINDS))):
        if name.startswith(LEFT_OUT):
            continue
        case = make()
        for job in _never(_run(case, case.objects, steps)):
            told += 1
            if _run(case, _alone(case.objects, job), STEPS).bindings:
                wrong.append(f"{name} {job.key}")

    assert [] == wrong
    assert told >= 5


@pytest.mark.parametrize(
    ("scene", "gang", "expected"),
    [
        ("everything/21", "team-b/g11", Verdict.NOT_ALLOWED),  # it lacks a pod of a role
        ("everything/48", "default/g5-0,default/g5-1", Verdict.NEVER),  # two nodes alone reach its volume
    ],
)
def test_roles_decide_about_room_only_once_their_pods_exist(scene: str, gang: str, expected: Verdict) -> None:
    """Of two gangs whose roles are not met, the one whose pods all exist is told never."""
    case = next(make() for name, make in cases(1500) if name == scene)
    history = schedule(case.objects, case.profile, now=case.now, cycles=case.cycles)

    assert [expected] * len(history.reports) == [report.rejections[gang].verdict for _, report in history.reports]
