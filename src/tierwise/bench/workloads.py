"""Gangs as jobs of the model: the seeded heavy-tailed mix, or whatever gangs a row lists.

Every workload starts with the lead, a gang of one small pod: its outcome is the first stamp of a timed pass, so that
opening the cycle is not charged to the first gang that counts. Gangs ask for their whole number or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.api.natural import natural
from tierwise.bench.worlds import CLASSES, LEAD
from tierwise.model.job import Constraint, Job, Part, Phase, Policy, Status, SubJob, Task
from tierwise.model.shape import Shape

__all__ = ["Gang", "jobs", "mix"]

_TAIL = 0.7
"""The exponent of the distribution of gang sizes: the median is 2 pods, the mean about 12."""

_LARGEST = 512
_PARTITIONED = 0.4
_SPLIT_FROM = 16
_GROUP_SIZES = (4, 8, 16)


class Gang(msgspec.Struct, frozen=True):
    """What is drawn of a gang; `group` is 0 for a gang that is not partitioned."""

    shape: Shape
    pods: int
    tier: int  # the highest that it may span
    group: int = 0  # pods per group, each confined to a rack


def mix(number: int, *, top: int, seed: int = 1) -> list[Gang]:
    """1 to 512 pods, most of them small; eight classes; a tier limit from a rack to the root, at random.

    A smaller mix of the same seed is the beginning of a larger one.
    """
    rng = np.random.default_rng(seed)
    return [_draw(rng, top) for _ in range(number)]


def _draw(rng: np.random.Generator, top: int) -> Gang:
    span = 1.0 - float(_LARGEST + 1) ** -_TAIL
    pods = min(_LARGEST, int((1.0 - rng.random() * span) ** (-1.0 / _TAIL)))
    shape = CLASSES[int(rng.integers(len(CLASSES)))]
    tier = int(rng.integers(1, top + 1))
    split, size = rng.random() < _PARTITIONED, int(rng.choice(_GROUP_SIZES))
    return Gang(shape, pods, tier, size if split and pods >= _SPLIT_FROM else 0)


def jobs(gangs: Sequence[Gang]) -> list[Job]:
    """The lead, and the gangs as jobs in the order in which they were made."""
    counter = _Counter()
    return [counter.job(gang) for gang in (Gang(LEAD, 1, 1), *gangs)]


class _Counter:
    """Numbers jobs and their sub-jobs."""

    def __init__(self) -> None:
        self._jobs = 0
        self._subs = 0

    def job(self, gang: Gang) -> Job:
        number = self._jobs
        self._jobs += 1
        key = f"bench/g{number}"
        groups = gang.pods // gang.group if gang.group else 1
        pods = groups * gang.group if gang.group else gang.pods
        tasks = tuple(Task(f"{key}-{i}", gang.shape, "", Status.PENDING) for i in range(pods))
        limit = Constraint(hard=True, tier=gang.tier)
        rack = Constraint(hard=True, tier=1)
        if gang.group:
            policies: tuple[Policy, ...] = (Policy("group", gang.group, groups, rack),)
            size = gang.group
            subs = tuple(
                self._sub(f"{key}/group-{i}", number, tasks[i * size : (i + 1) * size], rack, policy=0)
                for i in range(groups)
            )
        else:
            policies = ()
            subs = (self._sub(key, number, tasks, limit, policy=-1),)
        return Job(
            key=key,
            number=number,
            queue="default",
            priority=0,
            created=float(number),
            order=natural(key),
            phase=Phase.PENDING,
            declared=True,
            minimum=pods,
            roles={},
            constraint=limit,
            policies=policies,
            min_resources=None,
            subs=subs,
            tasks=tasks,
        )

    def _sub(self, key: str, job: int, tasks: tuple[Task, ...], limit: Constraint, *, policy: int) -> SubJob:
        number = self._subs
        self._subs += 1
        shape = tasks[0].shape
        return SubJob(
            key=key,
            number=number,
            job_number=job,
            policy=policy,
            minimum=len(tasks),
            constraint=limit,
            match_index=0,
            order=natural(key),
            priority=0,
            parts=(Part(shape, "", -1, tasks),),
            total=len(tasks),
            request=shape.request * len(tasks),
            held=np.zeros(0, dtype=np.int64),
            ready=0,
        )
