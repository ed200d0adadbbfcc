"""namespace-order: when a gang makes room by evicting, pods of some namespaces go first."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.bundle import Bundles
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, VictimSelector
from tierwise.model.arrays import Ints


class NamespaceArguments(msgspec.Struct, frozen=True):
    """What a configuration may say."""

    first: tuple[str, ...] = ()  # the namespaces whose pods go first, in this order


@takes_part(VictimSelector, arguments=NamespaceArguments)
class NamespaceOrder:
    """Chooses victims by their namespace, before priority and cost."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        first = msgspec.convert(arguments, NamespaceArguments).first
        places = {namespace: place for place, namespace in enumerate(first)}
        self._place = [places.get(job.key.partition("/")[0]) for job in view.jobs]

    def select_victims(self, preemptor: Preemptor, bundles: Bundles) -> Ints | None:
        """The bundles in the order in which they go: safe ones first, which leave their gang whole."""
        places = [self._place[job] for job in bundles.job.tolist()]
        if all(place is None for place in places):
            return None  # no opinion: the built-in order decides
        last = len(self._place)
        order = np.array([last if place is None else place for place in places])
        return np.lexsort((-bundles.efficiency(), order, ~bundles.safe))
