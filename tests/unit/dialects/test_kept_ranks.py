"""Ranks of a gang that has lost pods: those that run keep theirs, and an index has the rank that it had."""

from __future__ import annotations

import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.model.job import Job
from tierwise.snapshot.builder import build

GRID = {"tierwise.io/pattern": "dp=2,tp=3"}
INDEX = "volcano.sh/task-index"
COMPLETION = "batch.kubernetes.io/job-completion-index"
JOB = "jobset.sigs.k8s.io/job-index"


def _told(ranks: dict[int, int], size: int = 6) -> dict[str, dict[str, str]]:
    """What pods with these numbers were told of their ranks."""
    return {f"train-{i}": {"tierwise.io/rank": str(r), "tierwise.io/ranks": str(size)} for i, r in ranks.items()}


def _job(on: str, tasks: int, told: dict[str, dict[str, str]], labels: dict[str, dict[str, str]]) -> Job:
    world = objects_of(
        draw("r0[n0 n1 n2 n3 n4 n5]"), gang("train", tasks=tasks, on=on, marks=GRID, told=told, labels=labels)
    )
    (found,) = build(world, 0.0).jobs
    return found


def _ranks(job: Job) -> dict[str, int]:
    return {key.removeprefix("default/train-"): rank for key, rank in job.ranks.items()}


def test_a_replacement_gets_the_rank_of_its_index() -> None:
    """Of pods 1 and 4 the second is made anew first: it has rank 4, not that of the gap before it."""
    labels = {f"train-{i}": {INDEX: str(index)} for i, index in enumerate((0, 2, 3, 5, 4))}
    job = _job("n0 n1 n2 n3 -", 5, _told({0: 0, 1: 2, 2: 3, 3: 5}), labels)

    assert ({"0": 0, "1": 2, "2": 3, "3": 5, "4": 4}, 6) == (_ranks(job), job.world_size)


def test_indexes_count_within_a_job_of_a_job_set() -> None:
    """Two jobs of three pods: index 1 of the second one is rank 4."""
    places = ((0, 0), (0, 2), (1, 0), (1, 2), (1, 1))
    labels = {f"train-{i}": {JOB: str(j), COMPLETION: str(index)} for i, (j, index) in enumerate(places)}
    job = _job("n0 n1 n2 n3 -", 5, _told({0: 0, 1: 2, 2: 3, 3: 5}), labels)

    assert 4 == _ranks(job)["4"]


def test_without_an_index_the_gaps_are_filled() -> None:
    """Pods that nobody counts get the ranks that are left, in order."""
    job = _job("n0 n1", 4, _told({0: 3, 1: 1}, 4), {})

    assert {"0": 3, "1": 1, "2": 0, "3": 2} == _ranks(job)


def test_a_pod_that_is_going_keeps_nobody_off_its_rank() -> None:
    """The replacement of a terminating pod has its rank although both exist."""
    labels = {"train-0": {INDEX: "0"}, "train-1": {INDEX: "1"}, "train-2": {INDEX: "1"}}
    job = _job("n0 n1! -", 3, _told({0: 0, 1: 1}, 2), labels)

    assert (1, 2) == (_ranks(job)["2"], job.world_size)


@pytest.mark.parametrize("told", [{0: 1, 1: 1}, {}])
def test_ranks_that_contradict_each_other_are_counted_anew(told: dict[int, int]) -> None:
    """Two pods that were told the same rank are asked no more."""
    assert {"0": 0, "1": 1, "2": 2} == _ranks(_job("n0 n1", 3, _told(told), {}))


def test_a_gang_that_has_shrunk_counts_its_pods() -> None:
    """What running pods were told of a larger gang does not outlive it."""
    job = _job("n0 n1", 3, _told({0: 0, 1: 1}, 6), {f"train-{i}": {INDEX: str(i)} for i in range(3)})

    assert ({"0": 0, "1": 1, "2": 2}, 3) == (_ranks(job), job.world_size)
