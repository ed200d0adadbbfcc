"""Preempt for a rejected job at once, with the preempting actions of a profile in order.

Kubernetes and Koordinator preempt for a pod in the same attempt in which it found no node, and later pods see the
nominated resources as taken. `allocate` calls this where a profile says so; in other profiles each evicting action runs
over all jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierwise.actions.eviction.gang import EvictionOptions, GangPreemptor
from tierwise.actions.eviction.preemptors import may_evict
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Purpose
from tierwise.model.job import Job

__all__ = ["ImmediatePreemption"]


class ImmediatePreemption:
    """The actions by name, in the order in which they are tried; `only` says which serve the pods of a scheduler."""

    def __init__(self, cycle: Cycle, actions: Sequence[str], only: Mapping[str, frozenset[str]]) -> None:
        self._cycle = cycle
        self._actions = tuple(actions)
        self._only = only
        self._makers: dict[str, GangPreemptor] = {}

    def preempt_for(self, job: Job) -> None:
        """Let the first action that can make room for the job; a job that nothing but room would help is served."""
        own = self._only.get(job.scheduler)
        for action in self._actions if own is None else (action for action in self._actions if action in own):
            if not may_evict(self._cycle, job):
                return
            if action not in self._makers:
                self._makers[action] = GangPreemptor(self._cycle, Purpose.PREEMPT, EvictionOptions.of(action, {}))
            self._makers[action].serve_safely(job)
