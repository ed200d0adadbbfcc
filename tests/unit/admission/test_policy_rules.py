"""What a life-cycle policy may say."""

import pytest
from tests.support.manifests import job, task
from tests.support.verdicts import errors, warnings

from tierwise.api.codec import Raw


def _found(*policies: Raw) -> list[tuple[str, str]]:
    """Errors about policies of a job, less the part of the path that all share."""
    listed = list(policies)
    return [
        (path.removeprefix("spec.policies"), text) for path, text in errors(job("j", task("w", 1), policies=listed))
    ]


@pytest.mark.parametrize(
    "policy",
    [
        {"event": "PodFailed", "action": "RestartJob"},
        {"events": ["PodEvicted", "PodFailed"], "action": "RestartTask"},
        {"event": "*", "action": "AbortJob"},
        {"exitCode": 3, "action": "TerminateJob"},
        {"event": "PodPending", "action": "RestartPod", "timeout": "1h30m"},
        {"event": "TaskCompleted", "action": "CompleteJob", "timeout": "0"},
    ],
)
def test_sound_policies_pass(policy: Raw) -> None:
    """Events, exit codes and timeouts as users write them."""
    assert [] == _found(policy)


@pytest.mark.parametrize(
    ("policy", "path", "message"),
    [
        ({"event": "PodFailed"}, "[0].action", 'action "" is not known'),
        ({"event": "PodFailed", "action": "SyncJob"}, "[0].action", 'action "SyncJob" is not known'),
        ({"event": "OutOfSync", "action": "AbortJob"}, "[0].event", 'event "OutOfSync" is not known'),
        ({"action": "AbortJob"}, "[0]", "an event or an exitCode is needed"),
        ({"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}, "[0]", "event and exitCode exclude each other"),
        ({"exitCode": 0, "action": "AbortJob"}, "[0].exitCode", "exitCode 0 means success"),
        ({"event": "PodPending", "action": "AbortJob"}, "[0].timeout", "event PodPending needs a timeout"),
        (
            {"event": "PodFailed", "action": "AbortJob", "timeout": "soon"},
            "[0].timeout",
            'timeout "soon" is not a duration such as',
        ),
        ({"event": "PodFailed", "action": "AbortJob", "timeout": "-5s"}, "[0].timeout", 'timeout "-5s" is negative'),
    ],
)
def test_a_policy_needs_a_trigger_and_an_action(policy: Raw, path: str, message: str) -> None:
    """Each policy by itself."""
    [found] = _found(policy)

    assert (path, True) == (found[0], found[1].startswith(message))


def test_no_trigger_stands_twice() -> None:
    """Of two policies for one event only one could be obeyed."""
    failed: Raw = {"event": "PodFailed", "action": "RestartPod"}
    code: Raw = {"exitCode": 3, "action": "RestartPod"}

    assert [("[1]", 'there are two policies for "PodFailed"')] == _found(failed, {**failed, "action": "AbortJob"})
    assert [("[2]", 'there are two policies for "3"')] == _found(failed, code, code)


def test_any_event_stands_alone() -> None:
    """The event that means every event leaves nothing to others."""
    any_event: Raw = {"event": "*", "action": "RestartJob"}

    assert [""] == [path for path, _ in _found(any_event, {"event": "PodFailed", "action": "RestartPod"})]


def test_policies_of_tasks_are_judged_too() -> None:
    """The path leads to the task."""
    policy: Raw = {"event": "PodFailed", "action": "RestartRack"}

    assert ["spec.tasks[0].policies[0].action"] == [
        path for path, _ in errors(job("j", task("w", 1, policies=[policy])))
    ]


@pytest.mark.parametrize(
    ("policy", "of_job", "of_task"),
    [
        (
            {"event": "PodFailed", "action": "RestartPartition"},
            "RestartPartition does nothing: no task of the job has a partitionPolicy",
            "RestartPartition does nothing: the task has no partitionPolicy",
        ),
        ({"event": "JobUpdated", "action": "RestartJob"}, "", "JobUpdated concerns no task"),
        ({"event": "PodFailed", "action": "ResumeJob"}, "ResumeJob does nothing", "ResumeJob does nothing"),
        ({"event": "*", "action": "RestartJob"}, '"*" includes TaskCompleted', '"*" includes TaskCompleted'),
        ({"event": "*", "action": "AbortJob"}, "", ""),
    ],
)
def test_people_are_told_of_policies_that_make_no_sense(policy: Raw, of_job: str, of_task: str) -> None:
    """Sound policies that do nothing, or more than they seem to."""
    for expected, path, batch in (
        (of_job, "spec.policies[0]", job("j", task("w", 1), policies=[policy])),
        (of_task, "spec.tasks[0].policies[0]", job("j", task("w", 1, policies=[policy]))),
    ):
        found = [text for where, text in warnings(batch) if where == path]
        assert ([expected] if expected else []) == [text[: len(expected)] for text in found]


@pytest.mark.parametrize(
    ("wish", "action", "warned"),
    [
        ("replace", "RestartPod", False),
        ("replace", "RestartJob", True),
        ("restart-subgroup", "RestartTask", False),
        ("restart-all", "RestartJob", False),
        ("restart-all", "AbortJob", True),
    ],
)
def test_policies_and_the_annotation_agree(wish: str, action: str, warned: bool) -> None:
    """A policy for evicted pods that does something else than the job wants when it loses nodes is told."""
    marks: Raw = {"annotations": {"tierwise.io/on-node-loss": wish}}
    raw = job("j", task("w", 1), metadata=marks, policies=[{"event": "PodEvicted", "action": action}])

    assert warned == any(path == "spec.policies[0].action" for path, _ in warnings(raw))


def test_what_a_job_wants_on_node_loss_must_be_known() -> None:
    """One line names the annotation and the value."""
    raw = job("j", task("w", 1), metadata={"annotations": {"tierwise.io/on-node-loss": "reboot"}})

    assert [
        (
            "metadata.annotations[tierwise.io/on-node-loss]",
            '"reboot" is not one of replace, restart-subgroup, restart-all',
        )
    ] == errors(raw)
