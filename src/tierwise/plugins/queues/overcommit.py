"""overcommit: admit no more jobs than a somewhat larger cluster could run.

    used + unmet minResources of admitted jobs + this job's minResources <= total x factor

per resource that the job's minResources name. Used is what every pod on a node holds, also pods that are leaving or
are no concern of this scheduler. Jobs without minResources pass.

Arguments: `overcommit-factor` (1.2) and `overcommit-factor.<resource>` for single resources; a factor below 1, or one
that is no number, is 1.2.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, EnqueueGate
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason
from tierwise.plugins.queues.table import UNLIMITED, counted, figures, owed, total

__all__ = ["Overcommit"]

_KEY = "overcommit-factor"
_DEFAULT = 1.2


@takes_part(EnqueueGate)
class Overcommit:
    """Holds jobs in phase Pending while the cluster has more than enough to do."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._names = view.axis.names
        self._counted = counted(view.axis)
        used = (view.nodes.allocatable - view.ledger.idle)[:, view.nodes.ready].sum(axis=1)
        self._open: Ints = _stretched(arguments, view) - used - owed(view)
        self._granted: dict[int, Ints] = {}

    def may_enqueue(self, job: Job) -> Reason | None:
        """A job that passes counts for those after it; once, however often it asks."""
        if job.min_resources is None or job.number in self._granted:
            return None
        remaining = self._open - sum(self._granted.values(), start=np.zeros_like(self._open))
        short = self._counted & (job.min_resources > 0) & (job.min_resources > remaining)
        if not short.any():
            self._granted[job.number] = job.min_resources
            return None
        names = ", ".join(self._names[r] for r in np.flatnonzero(short).tolist())
        figures_text = figures(self._names, short, asked=job.min_resources, left=np.maximum(remaining, 0))
        text = f"jobs that were admitted earlier claim what is left of {names} {figures_text}"
        return Reason("ClusterOvercommitted", "overcommit", text)


def _stretched(arguments: Arguments, view: CycleView) -> Ints:
    """The total times the factors, in whole units: a factor is taken by its digits, so 1.2 is six fifths."""
    general = _factor(arguments, _KEY, _DEFAULT)
    limits = []
    for name, amount in zip(view.axis.names, total(view.nodes).tolist(), strict=True):
        factor = _factor(arguments, f"{_KEY}.{name}", general)
        limits.append(min(int(amount * Fraction(str(factor))), UNLIMITED))
    return np.array(limits, dtype=np.int64)


def _factor(arguments: Arguments, key: str, default: float) -> float:
    if key not in arguments:
        return default
    factor = number(arguments, key, _DEFAULT)
    return factor if factor >= 1 else _DEFAULT
