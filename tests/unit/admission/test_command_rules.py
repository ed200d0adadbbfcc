"""What a command may say, and what a webhook answers for one object."""

import pytest
from tests.support.job_life import command
from tests.support.manifests import job, objects, partitions, task, tier
from tests.support.verdicts import errors, warnings

from tierwise.admission import review
from tierwise.api.codec import Raw


def test_a_command_for_a_job_passes() -> None:
    """As `vcctl` makes them."""
    assert ([], []) == (errors(command("c", "AbortJob")), warnings(command("c", "AbortJob")))


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"action": "ExplodeJob"}, "action", 'action "ExplodeJob" is not known'),
        ({"target": None}, "target", "target.name is missing"),
    ],
)
def test_a_command_needs_an_action_and_a_target(change: Raw, path: str, message: str) -> None:
    """Otherwise nobody can carry it out."""
    [found] = errors(command("c", "AbortJob") | change)

    assert (path, True) == (found[0], found[1].startswith(message))


def test_a_command_without_effect_is_a_warning() -> None:
    """For a job that does not exist, or a part of a job that it does not name."""
    batch = job("other", task("w", 1))
    found = review(objects(batch), command("c", "RestartPod")).warnings

    assert ["action", "target.name"] == [finding.path for finding in found]


def test_a_review_looks_at_one_object() -> None:
    """What is wrong with others is not its business."""
    broken, sound = job("broken", task("w", 1), minAvailable=5), job("sound", task("w", 1))

    assert review(objects(broken), sound).valid
    assert ["Job default/broken"] == [finding.object for finding in review(objects(sound), broken).errors]


@pytest.mark.parametrize(
    ("before", "after", "valid"),
    [
        (task("w", 2), task("w", 3), True),
        (task("w", 2), task("v", 2), False),
        (task("w", 2), task("w", 2, "cpu=2"), False),
        (task("w", 4, partitionPolicy=partitions(2, 2)), task("w", 6, partitionPolicy=partitions(3, 2)), True),
        (task("w", 4, partitionPolicy=partitions(2, 2)), task("w", 4, partitionPolicy=partitions(1, 4)), False),
        (
            task("w", 2, partitionPolicy=partitions(1, 2)),
            task("w", 2, partitionPolicy=partitions(1, 2, networkTopology=tier(1))),
            False,
        ),
    ],
)
def test_a_job_changes_in_size_only(before: Raw, after: Raw, valid: bool) -> None:
    """Replicas and whole partitions come and go; what they are made of stays."""
    assert valid is review(objects(job("j", before)), job("j", after)).valid
