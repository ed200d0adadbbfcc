"""Shapes: equivalence classes of tasks.

Plugins are handed a shape, never a pod, so whatever a plugin can see is part of the class, and tasks of one
shape cannot be told apart. A field joins `Shape` when a plugin first needs it; names and indexes never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tierwise.model.arrays import Ints, seal
from tierwise.model.resources import UNOFFERED, Axis

if TYPE_CHECKING:
    from tierwise.api.core import Affinity, Toleration, TopologySpreadConstraint
    from tierwise.model.devices import DeviceAsk
    from tierwise.model.services import Service
    from tierwise.model.volumes import PodVolumes

__all__ = ["Shape", "plain_shape"]

_NAMED = 3
"""How many of the resources that no node has a message names."""


class Shape(msgspec.Struct, frozen=True, eq=False):
    """All that scheduling sees of a task. Interned per cycle: two equal tasks share one object."""

    number: int
    request: Ints  # per resource of the axis, pod slot and host ports included
    asked: Ints  # indexes of the resources it asks for
    namespace: str
    labels: dict[str, str]  # only the keys that some selector of this cycle looks at
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    images: tuple[str, ...]
    priority: int
    best_effort: bool  # asks for nothing but a pod slot, and is left to backfill unless it is part of a gang
    never_preempts: bool
    qos: int = 0  # quality-of-service class; 0 for guaranteed, which goes first
    service: Service | None = None  # the workload of an application that it is one of
    scheduler: str = ""  # by name, where the profile has plugins for that scheduler's pods alone
    unasked: tuple[int, int] = (0, 0)  # cpu and memory that Kubernetes' scores take it to use besides its request
    guessed: tuple[int, int] = (0, 0)  # cpu and memory that Kubernetes' scores take it to ask for as it comes
    namespace_labels: dict[str, str] = {}  # of its namespace, only the keys that some selector of this cycle looks at
    volumes: PodVolumes | None = None  # what its volumes allow; None where it has none that matter
    unoffered: tuple[str, ...] = ()  # resources it asks for that no node has; on the axis they are one
    written: dict[str, int] = {}  # what it asks for in truth, where that is cut down to what can be added up
    devices: DeviceAsk | None = None  # what it asks of devices beyond their number

    def __post_init__(self) -> None:
        seal(self.request, self.asked)

    def __hash__(self) -> int:
        return self.number

    def names(self, axis: Axis) -> list[str]:
        """The resources it asks for as people call them, in the order of `asked`."""
        named = ", ".join(self.unoffered[:_NAMED])
        more = len(self.unoffered) - _NAMED
        spelled = named if more <= 0 else f"{named} and {more} more"
        return [spelled if axis.names[r] == UNOFFERED else axis.names[r] for r in self.asked.tolist()]

    def max_tasks(self, free: Ints) -> Ints:
        """How many tasks each column of `free`, (asked resources x rows), takes. Uses `free` up."""
        free //= self.request[self.asked, None]
        result: Ints = free.min(axis=0)
        np.maximum(result, 0, out=result)
        return result


def plain_shape(number: int, request: Ints, *, namespace: str, priority: int = 0) -> Shape:
    """Tasks that ask for these amounts, and for nothing else."""
    return Shape(
        number=number,
        request=request,
        asked=np.flatnonzero(request),
        namespace=namespace,
        labels={},
        node_selector={},
        affinity=None,
        tolerations=(),
        spread=(),
        images=(),
        priority=priority,
        best_effort=False,
        never_preempts=False,
    )
