"""Notice that a cluster goes in circles: pods are placed and evicted in turn, and nothing ends meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tierwise.api.core import Pod
from tierwise.api.plurals import count
from tierwise.explain.naming import full_name
from tierwise.explain.problems import GOES_IN_CIRCLES
from tierwise.framework.report import Eviction
from tierwise.model.job import Job
from tierwise.model.snapshot import Fault
from tierwise.port import Objects

__all__ = ["Circles"]

_TIMES: Final = 10
"""Evictions of one pod, without a pod that ends between them, after which its job is taken to go in circles."""
_NAMED: Final = 3


class Circles:
    """Counts how often each pod is evicted without anything ending between."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()  # by path of the pod
        self._jobs: dict[str, Job] = {}  # by path of the pod
        self._ended: frozenset[str] = frozenset()
        self._cycles = 0

    def note(self, evictions: Iterable[Eviction], objects: Objects) -> None:
        """A cycle asked for these evictions, in a cluster that looked like this."""
        self._cycles += 1
        fresh = [(eviction.task.key, eviction.job) for eviction in evictions]
        if not fresh:
            return
        ended = frozenset(path for path, pod in objects.every(Pod).items() if pod.status.ended)
        if not ended <= self._ended:
            self._times.clear()
            self._jobs.clear()
        self._ended = ended
        self._times.update(path for path, _ in fresh)
        self._jobs.update(fresh)

    @property
    def found(self) -> bool:
        """True if some pod was evicted so often that it will be evicted again."""
        return max(self._times.values(), default=0) >= _TIMES

    def fault(self, jobs: Iterable[Job] = ()) -> Fault:
        """Which jobs go in circles; `jobs` are those to name if none was evicted often enough."""
        crossed_jobs = {
            self._jobs[path].key: self._jobs[path] for path, times in self._times.items() if 2 * times >= _TIMES
        }
        named = list((crossed_jobs or {job.key: job for job in jobs}).values())
        names = ", ".join(full_name(job) for job in named[:_NAMED])
        more_names = f" and {count(len(named) - _NAMED, 'other job')}" if len(named) > _NAMED else ""
        if self.found:
            most = max(self._times.values())
            text = (
                f"stopped, as it goes in circles: a pod was bound and evicted {most} times, and nothing ended between"
            )
        else:
            text = f"stopped, as it goes in circles: the cluster still changes after {count(self._cycles, 'cycle')}"
        return Fault(f"{names}{more_names}" or "cluster", GOES_IN_CIRCLES, text)
