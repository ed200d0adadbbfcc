"""What the controller remembers of a job between two looks, kept in the job's own status.

`status.controlledResources` is the one free-form map of Volcano's status: the API server keeps what it does not know
there, and it is written in one piece with phase and retry count. So a decision and the memory of it cannot part.

    pods/worker: 0-3 of 4          indexes of the task's pods that were seen, and its replicas then
    restart/worker/partition/1: 2  the partition was restarted; its pods of fewer than 2 retries belong to the past
    lost/worker/3: 2026-01-01T…    since when a pod is missing that a policy gives time to come back
    command/stop: AbortJob         a command that was carried out and is to be deleted

Keys of others, such as `plugin-svc` and `volume-pvc-…`, are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.core import read_number
from tierwise.api.limits import PODS

__all__ = [
    "Target",
    "forget",
    "losses",
    "lost_key",
    "pods_key",
    "restarted_at",
    "restarts",
    "restarts_part",
    "seen",
    "seen_text",
]

_PODS: Final = "pods/"
_RESTART: Final = "restart/"
_LOST: Final = "lost/"


class Target(msgspec.Struct, frozen=True, order=True):
    """A part of a job: a task, one of its partitions, or one of its pods."""

    task: str
    partition: str = ""
    index: int = -1

    @property
    def key(self) -> str:
        """Under which a restart of it is remembered."""
        if self.index >= 0:
            return f"{_RESTART}{self.task}/pod/{self.index}"
        if self.partition:
            return f"{_RESTART}{self.task}/partition/{self.partition}"
        return f"{_RESTART}{self.task}"

    def covers(self, task: str, partition: str, index: int) -> bool:
        """Whether a pod belongs to it."""
        if self.task != task:
            return False
        if self.index >= 0:
            return self.index == index
        return self.partition in ("", partition)

    def __str__(self) -> str:
        if self.index >= 0:
            return f"pod {self.index} of task {self.task}"
        if self.partition:
            return f"partition {self.partition} of task {self.task}"
        return f"task {self.task}"


class Seen(msgspec.Struct, frozen=True):
    """Which pods of a task were there at the last look, and how many there should have been."""

    indexes: frozenset[int] = frozenset()
    replicas: int = -1


def pods_key(task: str) -> str:
    """Under which the pods of a task are remembered."""
    return f"{_PODS}{task}"


def lost_key(task: str, index: int) -> str:
    """Under which the loss of a pod is remembered."""
    return f"{_LOST}{task}/{index}"


def losses(memory: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """Key, task and index of every pod whose loss is remembered."""
    for key in memory:
        if key.startswith(_LOST):
            task, _, index = key.removeprefix(_LOST).rpartition("/")
            number = read_number(index)
            if number is not None:
                yield key, task, number


def seen(memory: Mapping[str, str], task: str) -> Seen:
    """Remembered pods of a task; empty if the entry is missing or foreign."""
    return _parsed(memory.get(pods_key(task), ""))


@lru_cache(maxsize=1 << 12)
def _parsed(text: str) -> Seen:
    listed, _, replicas = text.partition(" of ")
    number = read_number(replicas)
    if number is not None:
        return Seen(frozenset(_numbers(listed)), number)
    return Seen()


def seen_text(indexes: Iterable[int], replicas: int) -> str:
    """The entry for a task's pods: runs of indexes, and how many there should be."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    listed = ",".join([str(begin) if begin == end else f"{begin}-{end}" for begin, end in runs])
    return f"{listed or 'none'} of {replicas}"


def restarts(memory: Mapping[str, str]) -> dict[str, int]:
    """The retry count at the last restart of every part that was restarted, by the part's key."""
    numbers: dict[str, int] = {}
    for key, count in memory.items():
        if key.startswith(_RESTART) and (number := read_number(count)) is not None:
            numbers[key] = number
    return numbers


def restarted_at(restarts_by_target: Mapping[str, int], task: str, partition: str, index: int) -> int:
    """The retry count at the last restart of a part that covers a pod; 0 where there was none."""
    if not restarts_by_target:
        return 0
    targets = [Target(task), Target(task, index=index)] + ([Target(task, partition)] if partition else [])
    return max(restarts_by_target.get(target.key, 0) for target in targets)


def restarts_part(memory: Mapping[str, str], retry_count: int) -> bool:
    """Whether the restart that gave a job this retry count concerned a part of it (a task, partition or pod), and not
    the whole job. memory is the job's status.controlledResources.
    """
    return retry_count in restarts(memory).values()


def forget(memory: Mapping[str, str]) -> dict[str, str]:
    """The memory without everything about pods: they all belong to the past."""
    return {key: value for key, value in memory.items() if not key.startswith((_PODS, _RESTART, _LOST))}


def _numbers(listed: str) -> Iterator[int]:
    for run in listed.split(","):
        begin_text, _, end_text = run.partition("-")
        begin = read_number(begin_text)
        end = read_number(end_text or begin_text)
        if begin is not None and end is not None:
            yield from range(begin, min(end, PODS) + 1)  # no job has more
