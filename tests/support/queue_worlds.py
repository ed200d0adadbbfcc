"""Clusters with queues for the tests of quota and victim plugins, as drawings with a line per queue.

hall = hall_of("n0 n1", queue("a", deserved="cpu=1"), gang("train", tasks=2, on="n0", queue="a"))
plugin = Capacity({}, hall.view)
assert {"train-0": True} == hall.spared(plugin, by="other", of="train-0")
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace
from tests.support.draw import Gang, World, draw, objects_of
from tests.support.drawn_gang import amounts
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import CycleView, Preemptor, Purpose
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Queue, Reason
from tierwise.model.running import RunningTable, running_table
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

__all__ = ["Hall", "hall_of", "queue"]


def queue(name: str, *, capability: str = "", deserved: str = "", guarantee: str = "", **rest: object) -> Raw:
    """A queue; `open=False` closes it, `hierarchy` and `weights` are its annotations, the rest goes into its spec."""
    state = "Open" if rest.pop("open", True) else "Closed"
    annotations = {
        "volcano.sh/hierarchy": rest.pop("hierarchy", ""),
        "volcano.sh/hierarchy-weights": rest.pop("weights", ""),
    }
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": {k: v for k, v in annotations.items() if v}},
        "spec": {
            "capability": amounts(capability),
            "deserved": amounts(deserved),
            "guarantee": {"resource": amounts(guarantee)},
            **rest,
        },
        "status": {"state": state},
    }


class Sparing(Protocol):
    """A victim filter, as far as it is asked here."""

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools: ...


class Hall(msgspec.Struct, frozen=True):
    """A cycle with nothing done yet, and questions by name."""

    cycle: Cycle
    running: RunningTable

    @property
    def view(self) -> CycleView:
        return self.cycle.view

    @property
    def ledger(self) -> Ledger:
        return self.cycle.ledger

    def queue(self, name: str) -> Queue:
        return self.view.queues[name]

    def job(self, name: str) -> Job:
        return next(job for job in self.view.jobs if job.key == f"default/{name}")

    def vector(self, text: str) -> Ints:
        """Amounts such as "cpu=2 mem=1" in the units of the axis, one pod slot unless given."""
        units = {"cpu": 1000, "mem": 2**30}
        spelled = {"mem": "memory", "gpu": "nvidia.com/gpu"}
        given = {name: int(amount) for name, amount in (item.split("=") for item in text.split())}
        return self.view.axis.vector({"pods": 1} | {spelled.get(n, n): a * units.get(n, 1) for n, a in given.items()})

    def amounts(self, column: Ints, names: str = "cpu") -> dict[str, int]:
        """The amounts of some resources, by name."""
        return {name: int(column[self.view.axis.index[name]]) for name in names.split()}

    def positions(self, names: str) -> Ints:
        return np.array([self.running.position[f"default/{name}"] for name in names.split()], dtype=np.int64)

    def cause(
        self, by: str, *, purpose: Purpose = Purpose.RECLAIM, need: str = "cpu=1", gang: bool = True
    ) -> Preemptor:
        return Preemptor(purpose, self.job(by), self.vector(need), gang=gang, running=self.running)

    def go(self, plugin: Sparing, preemptor: Preemptor, names: str) -> str:
        """Who of these victims, in this order, may go."""
        spared = plugin.protect(preemptor, self.positions(names))
        return " ".join(name for name, safe in zip(names.split(), spared.tolist(), strict=True) if not safe)

    def evict(self, names: str) -> None:
        self.ledger.evict(self.running, self.positions(names))


def hall_of(nodes: str, *things: Raw | Gang, node: str = "cpu=1 mem=1", running: str = "", now: float = 0.0) -> Hall:
    """A cluster of alike nodes with queues, other objects and gangs."""
    raws = tuple(thing for thing in things if not isinstance(thing, Gang))
    world = draw(nodes, node=node, running=running)
    objects = objects_of(World((*world.manifests, *raws), world.drawing), *(t for t in things if isinstance(t, Gang)))
    snapshot = build(objects, now, replace(DEFAULT, actions=(*DEFAULT.actions, "preempt")))  # budgets are read
    return Hall(open_cycle(snapshot, profile("gang", "predicates")), running_table(snapshot))


def code(reason: Reason | None) -> str:
    """The code of a reason; empty where there is none."""
    return reason.code if reason is not None else ""
