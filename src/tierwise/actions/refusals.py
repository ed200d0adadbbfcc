"""What was refused in this pass, so that asking again costs nothing.

While nothing is released, room only shrinks: a gang of the same kind that needs as much or more is refused for the
same reason. Kinds are remembered only where counting is exact and the answer depends on nothing but room.
"""

from __future__ import annotations

from dataclasses import replace

from tierwise.actions.demand import Demand
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job
from tierwise.model.reason import Rejection

__all__ = ["Refusals"]

Kind = tuple[object, ...]


class Refusals:
    """The smallest demand of each kind that found no place."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._known: dict[Kind, tuple[int, Rejection]] = {}
        self._releases = cycle.ledger.releases

    def known(self, job: Job, asked: Demand) -> Rejection | None:
        """The refusal of as much or less of the same kind, as it reads for this job."""
        found = self._found(job, asked)
        if found is None or asked.tasks < found[0]:
            return None
        rejection = found[1]
        tried = tuple(t if t.asked == asked.tasks else replace(t, asked=asked.tasks) for t in rejection.tried)
        return replace(rejection, subject=job.key, tried=tried)

    def like(self, job: Job, asked: Demand) -> Rejection | None:
        """A refusal of the same kind, however much was asked."""
        found = self._found(job, asked)
        return found[1] if found is not None else None

    def _found(self, job: Job, asked: Demand) -> tuple[int, Rejection] | None:
        if self._releases != self._cycle.ledger.releases:
            self._releases = self._cycle.ledger.releases
            self._known.clear()
        kind = self._kind(job, asked) if self._known else None
        return self._known.get(kind) if kind is not None else None

    def learn(self, job: Job, asked: Demand, rejection: Rejection) -> None:
        """Remember a refusal, unless one of less is remembered already."""
        kind = self._kind(job, asked)
        if kind is None or rejection.bounded:
            return
        known = self._known.get(kind)
        if known is None or asked.tasks < known[0]:
            self._known[kind] = (asked.tasks, rejection)

    def _kind(self, job: Job, asked: Demand) -> Kind | None:
        """What the answer depends on, apart from how much is asked; None where it depends on more."""
        first = asked.lots[0]
        if len(first.portions) != 1 or first.roles or job.min_resources is not None:
            return None
        shape = first.portions[0].part.shape
        if self._cycle.pipeline.moving(shape):
            return None
        if any(self._cycle.ledger.stands(sub) is not None for sub in job.subs):
            return None
        inner: Kind = ()
        if job.policies:
            if len(job.policies) > 1 or asked.spares:
                return None
            sizes = {(lot.need, lot.portions[0].part.shape.number, len(lot.portions)) for lot in asked.lots}
            if len(sizes) > 1:
                return None
            inner = (first.need, self._cycle.pipeline.limit(first.sub))
        elif first.portions[0].left < first.need:
            return None
        return (shape.number, self._cycle.pipeline.limit(job), inner)
