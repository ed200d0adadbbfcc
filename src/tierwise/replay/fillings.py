"""Several policies that fill the same nodes with the same pods, one after the other; interruptible as replays are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tierwise.config.profile import Profile
from tierwise.model.arrays import Ints
from tierwise.replay.checkpoint import Checkpoint, digest
from tierwise.replay.figures import Data
from tierwise.replay.filling import Filling
from tierwise.replay.openb import WHOLE, Pods
from tierwise.replay.run import Progress
from tierwise.replay.sharing import State

__all__ = ["Fillings"]


class Fillings:
    """The same pods on the same nodes under each policy."""

    def __init__(
        self, names: tuple[str, ...], empty: State, pods: Pods, arriving: Ints, policies: Mapping[str, Profile]
    ) -> None:
        self._nodes, self._empty, self._pods, self._arriving = names, empty, pods, arriving
        self._policies = dict(policies)
        self.names, self.total = tuple(policies), len(arriving)
        kinds = pods.kinds
        columns = [arriving, kinds.cpu, kinds.memory, kinds.devices, kinds.each, kinds.weight]
        self.digest = digest([*columns, empty.cpu, empty.memory, empty.left], names, self._policies)
        self._done: list[Data] = []
        self._filling: Filling | None = None

    def resume(self, point: Checkpoint) -> None:
        """Go on from a checkpoint of the same inputs."""
        self._done = list(point.done)
        if point.state is not None:
            self._filling = self._begin()
            self._filling.restore(point.state)

    def _begin(self) -> Filling:
        name = self.names[len(self._done)]
        return Filling(self._nodes, self._empty, self._pods, name, self._policies[name])

    def run(self) -> Iterator[None]:
        """Fill what is left to be filled; yields after every pod."""
        while len(self._done) < len(self.names):
            if self._filling is None:
                self._filling = self._begin()
            for kind in self._arriving[self._filling.arrived :].tolist():
                self._filling.arrive(kind)
                yield
            self._done.append(self._filling.outcome())
            self._filling = None

    def progress(self) -> Progress:
        """Pods that arrived, and what is allocated."""
        name = self.names[min(len(self._done), len(self.names) - 1)]
        if self._filling is None:
            return Progress(name, 0, "")
        told = f"{self._filling.arrived:,} pods, {100 * self._filling.allocation:.1f} % of GPUs allocated"
        return Progress(name, self._filling.arrived, told)

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.digest, self._done, self._filling.kept() if self._filling else None)

    def results(self) -> Data:
        """Everything, as JSON data."""
        asked = (self._pods.kinds.devices * self._pods.kinds.each)[self._arriving].sum()
        gpus = int(self._empty.left.sum()) // WHOLE
        inputs = {
            "nodes": len(self._nodes),
            "gpus": gpus,
            "pods": len(self._arriving),
            "arrived_load": round(float(asked) / (gpus * WHOLE), 6) if gpus else None,
            "kinds": len(np.unique(self._arriving)),
        }
        return {"inputs": inputs, "outcomes": self._done}
