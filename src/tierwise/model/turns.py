"""What one cycle hands on to the next: who was not looked at, refusals that were cut, room kept idle, and usage."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tierwise.model.arrays import Ints
from tierwise.model.idle_room import NO_IDLE_ROOM, IdleRoomState
from tierwise.model.job import Job, Rejection, Task
from tierwise.model.node import NodeTable
from tierwise.model.usage import NO_USAGE, UsageState

__all__ = ["NO_TURNS", "CutRefusal", "Turns"]


class CutRefusal(msgspec.Struct, frozen=True, eq=False):
    """A job that was refused by one action after a whole budget of steps. It stands until room grows.

    While other jobs are late, so do refusals that took less: nobody has a second turn before each has had one.
    """

    tasks: tuple[Task, ...]  # of the job; another object once anything of the job has changed
    refusal: Rejection
    at: float  # when it was looked at, in seconds since the epoch
    of: Rejection | None = None  # what it was made of, where it is a verdict
    passing: bool = False  # it was not cut, and stands until no job is late

    def concerns(self, job: Job) -> bool:
        """Whether the job is still what it was when it was looked at."""
        return self.tasks is job.tasks


class Turns(msgspec.Struct, frozen=True, eq=False):
    """The state of searches and accounts after a cycle, which the next cycle takes from its snapshot."""

    cycles: int = 0  # cycles so far, by which `late` is counted
    late: Mapping[str, int] = {}  # by key of a job that was not looked at: the first cycle that left it out
    cut: Mapping[tuple[str, str], CutRefusal] = {}  # by key of a job and action
    nodes: NodeTable | None = None  # to which `room` belongs
    room: Ints | None = None  # the least that was free or leaving since the refusals in `cut`, (resources x rows)
    idle: IdleRoomState = NO_IDLE_ROOM  # what is kept idle, and what was
    turn: Mapping[str, int] = {}  # by namespace with late jobs: the last cycle in which one had the part for them
    done: frozenset[str] = frozenset()  # jobs that were late since others are; they are not late again before these
    usage: UsageState = NO_USAGE  # what everybody has used, where the profile remembers it


NO_TURNS = Turns()
"""Before the first cycle."""
