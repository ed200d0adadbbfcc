"""Which pending tasks of a cycle still wait to be placed. One for all actions of a cycle, so that none deals twice."""

from __future__ import annotations

from tierwise.model.job import Job, Part, Task

__all__ = ["Backlog"]


class Backlog:
    """How many tasks of each part were dealt out already; the next ones are dealt in rank order."""

    def __init__(self) -> None:
        self._dealt: dict[int, int] = {}
        self._held: set[int] = set()

    def left(self, part: Part) -> int:
        return len(part.tasks) - self._dealt.get(id(part), 0)

    def next(self, part: Part, count: int) -> tuple[Task, ...]:
        """The tasks that would be dealt next."""
        start = self._dealt.get(id(part), 0)
        return part.tasks[start : start + count]

    def deal(self, part: Part, count: int) -> tuple[Task, ...]:
        start = self._dealt.get(id(part), 0)
        self._dealt[id(part)] = start + count
        return part.tasks[start : start + count]

    def some_left(self, job: Job) -> bool:
        return any(self.left(part) for part in job.parts())

    def hold(self, job: Job) -> None:
        """A job was nominated: what is left of it waits until it stands."""
        self._held.add(job.number)

    def open(self, job: Job) -> bool:
        """Whether tasks of a job are left that may be placed in this cycle."""
        return job.number not in self._held and self.some_left(job)
