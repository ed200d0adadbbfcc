"""Jobs of pods that belong to no group, one each: few of very many change from one reading to the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from tierwise.api.natural import NaturalKey, natural
from tierwise.dialects.jobs import JobBuilder, Member
from tierwise.model.job import Job

__all__ = ["SingleJobs"]


class SingleJobs:
    """They stand in natural order of their pods' names, under numbers that follow each other."""

    def __init__(self) -> None:
        self._ranks: list[NaturalKey] = []  # of the names of pods, in order
        self._jobs: list[Job] = []  # of the same pods
        self._fresh: dict[str, Member] = {}  # by key of the pod: those that came or changed since they were numbered
        self._gone: set[str] = set()
        self._start = (0, 0)  # the numbers of the first job and of its sub-job

    def replace(self, before: Iterable[Member], now: Iterable[Member]) -> None:
        """Some of the pods are others now; who is in both lists has not changed."""
        last = {member.task.key: member for member in before}
        for member in now:
            if last.pop(member.task.key, None) is not member:
                self._fresh[member.task.key] = member
        self._gone |= last.keys()

    def follow(self, builder: JobBuilder, build: Callable[[Member], Job]) -> list[Job]:
        """All of them, numbered from the builder's next numbers on."""
        job, sub, role = builder.next_numbers
        jobs, ranks = self._jobs, self._ranks
        first = len(jobs) if self._start == (job, sub) else 0  # from where on numbers are others
        for rank in map(natural, self._gone - self._fresh.keys()):
            at = bisect_left(ranks, rank)
            del ranks[at], jobs[at]
            first = min(first, at)
        for rank, member in sorted((natural(key), member) for key, member in self._fresh.items()):
            at = bisect_left(ranks, rank)
            builder.begin(job + at, sub + at, role)
            if at < len(ranks) and ranks[at] == rank:
                jobs[at] = build(member)
            else:
                ranks.insert(at, rank)
                jobs.insert(at, build(member))
                first = min(first, at + 1)
        builder.begin(job + first, sub + first, role)
        jobs[first:] = map(builder.again, jobs[first:])
        self._fresh, self._gone, self._start = {}, set(), (job, sub)
        return jobs
