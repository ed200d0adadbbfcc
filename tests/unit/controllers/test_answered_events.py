"""Events of jobs that no policy answers are not worked out: the answers are those to all events."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace
from tests.support.manifests import job, task

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.volcano import Job
from tierwise.controllers.job import events, pods
from tierwise.controllers.job.controlled_resources import seen
from tierwise.controllers.job.events import EVENTS, JobEvent, job_events
from tierwise.controllers.job.job_pods import JobPods, pod_slots
from tierwise.controllers.job.policies import answered_events, policy_actions
from tierwise.dialects.volcano.job import defaulted

POLICIES = [{"event": event, "timeout": time} for event in (*sorted(EVENTS), "*") for time in ("", "60s")]
STATES = ("", "Pending", "Running", "Succeeded", "Failed", "leaving", "gone")
MEMORY: list[dict[str, str]] = [
    {},
    {"pods/w": "0-2 of 3"},
    {"pods/w": "0-1 of 2"},
    {"pods/w": "0-2 of 3", "lost/w/1": "2026-03-02T09:00:00Z"},
]


def _with(pod: Pod, state: str) -> Pod:
    if state == "leaving":
        return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-03-02T09:00:00Z"))
    return replace(pod, status=replace(pod.status, phase=state))


@pytest.mark.parametrize("policy", [*POLICIES, {"exitCode": 1}], ids=str)
def test_answers_are_those_to_all_events(policy: Raw) -> None:
    """Whatever has happened to the pods of a job, and whatever it remembers."""
    for state, others, memory in product(STATES, ("Running", "Succeeded"), MEMORY):
        _compare(policy, (others, state, others), memory)


def _compare(policy: Raw, states: tuple[str, ...], memory: dict[str, str]) -> None:
    raw = job(
        "train",
        task("w", 3),
        policies=[{**policy, "action": "RestartJob"}],
        status={"controlledResources": memory, "minAvailable": 3},
    )
    record = defaulted(codec.decode(raw))
    made = [codec.decode(pods._manifest(record, record.spec.tasks[0], index)) for index in range(3)]
    own = [_with(pod, state) for pod, state in zip(made, states, strict=True) if state != "gone"]
    job_pods = JobPods.of(record, own, pod_slots(record))

    quick = policy_actions(record, job_events(record, None, job_pods, answered_events(record.spec.policies)))
    slow = policy_actions(record, _every_event(record, job_pods))

    assert [*slow] == [*quick]


def _every_event(record: Job, job_pods: JobPods) -> list[JobEvent]:
    """All events, with a look at every pod."""
    found = {member.index: member for member in job_pods.current()}
    known = seen(record.status.controlled_resources, "w").indexes
    spec = record.spec.tasks[0]
    told = [e for i in range(3) for e in events._of_pod(record, spec, i, found.get(i), seen_before=i in known)]
    told += events._of_task(record, spec, [found[i] for i in sorted(found)])
    return told + [event for event in job_events(record, None, job_pods) if event.event == "JobUpdated"]
