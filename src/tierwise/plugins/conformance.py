"""conformance: system pods are never victims. It filters victims only and does not affect placement.

System pods are those of namespace kube-system and of the classes system-cluster-critical and system-node-critical.
"""

from __future__ import annotations

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, Purpose, VictimFilter
from tierwise.model.arrays import Bools, Ints

__all__ = ["Conformance"]


@takes_part(VictimFilter, by_amounts=True)
class Conformance:
    """Known to every profile; its victim filter comes into play where a profile evicts."""

    answers = frozenset(Purpose)
    counts = False

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """System pods."""
        return preemptor.running.critical[victims]
