"""Several contenders on one trace, one after the other: what a caller sees on the way, and what comes out.

A caller may stop after any moment; what it then keeps (`checkpoint`) is enough to go on later to the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from tierwise_lab.replay.engine.checkpoint import Checkpoint, digest
from tierwise_lab.replay.engine.cluster import ReplayEvent
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.embedded import EmbeddedReplay
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.engine.state import ReplayState
from tierwise_lab.replay.report.outcome import CLASSES, Data, outcome
from tierwise_lab.replay.traces.fabric import GPU, Fabric
from tierwise_lab.replay.traces.trace import Trace

__all__ = ["Comparison", "Progress", "Replay"]


class Progress(msgspec.Struct, frozen=True):
    """How far the contender at work is, and a few words on it."""

    name: str
    done: int
    told: str


class Contest(Protocol):
    """One contender at work."""

    def run(self) -> Iterator[object]:
        """Do what is left; yields where a caller may look or stop."""

    def kept(self) -> Data:
        """All that is needed to go on, as JSON data."""

    def progress(self) -> tuple[int, str]:
        """How much of the run is done, and a few words on it."""


C = TypeVar("C", bound=Contest)


class Replay(ABC, Generic[C]):
    """Contenders one after the other, which may be interrupted; the same for jobs that end and pods that stay."""

    def __init__(self, names: tuple[str, ...], total: int, inputs: str) -> None:
        """`total` is what is done when a contender is through, and `inputs` is a digest of them."""
        self.names = names
        self.total = total
        self.digest = inputs
        self._done: list[Data] = []
        self._current: C | None = None

    @abstractmethod
    def _begin(self, number: int, state: Data | None) -> C:
        """The contender of a number, from the beginning or from a state that was kept."""

    @abstractmethod
    def _outcome(self, current: C) -> Data:
        """Result of a contender that is through."""

    @abstractmethod
    def _inputs(self) -> Data:
        """Inputs that all contenders share."""

    def resume(self, point: Checkpoint) -> None:
        """Go on from a checkpoint of the same inputs."""
        self._done = list(point.done)
        if point.state is not None:
            self._current = self._begin(len(self._done), point.state)

    def run(self) -> Iterator[None]:
        """Do what is left; yields where a caller may look or stop."""
        while len(self._done) < len(self.names):
            current = self._current = self._current or self._begin(len(self._done), None)
            for _ in current.run():
                yield
            self._done.append(self._outcome(current))
            self._current = None

    def progress(self) -> Progress:
        """How far it is; only asked while it runs."""
        done, current_text = self._current.progress() if self._current is not None else (0, "")
        return Progress(self.names[min(len(self._done), len(self.names) - 1)], done, current_text)

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on."""
        return Checkpoint(self.digest, self._done, self._current.kept() if self._current is not None else None)

    def results(self) -> Data:
        """Everything, as JSON data."""
        return {"inputs": self._inputs(), "outcomes": self._done}


class Comparison(Replay[Engine | EmbeddedReplay]):
    """A replay of one trace on one fabric under several contenders."""

    def __init__(
        self, fabric: Fabric, trace: Trace, contenders: Sequence[Contender], rules: Rules, *, record: bool = False
    ) -> None:
        """With `record`, what happens under each contender is kept in `logs`."""
        self.logs: list[list[ReplayEvent]] = []
        self._record = record
        self.fabric, self.trace, self.contenders, self.rules = fabric, trace, tuple(contenders), rules
        jobs = [trace.arrival, trace.duration, trace.gpus, trace.priority, trace.queue]
        columns = [*jobs, fabric.topology.leaf, fabric.host_gpus]
        pods = (trace.queues, trace.least, trace.pods)
        tree = (fabric.nodes.names, fabric.topology.name)
        inputs = digest([*columns], pods, tree, self.contenders, rules)
        super().__init__(tuple(contender.name for contender in contenders), 2 * len(trace), inputs)

    def _begin(self, number: int, state: Data | None) -> Engine | EmbeddedReplay:
        inputs = self.fabric, self.trace, self.contenders[number], self.rules
        restored = ReplayState.restored(state) if state is not None else None
        engine = EmbeddedReplay(*inputs) if self.rules.controllers else Engine(*inputs, restored)
        if self._record:
            self.logs.append(engine.record())
        return engine

    def _outcome(self, current: Engine | EmbeddedReplay) -> Data:
        return outcome(current)

    def _inputs(self) -> Data:
        topology = self.fabric.topology
        return {
            "trace": self.trace.name,
            "jobs": len(self.trace),
            "span_seconds": round(self.trace.span, 3),
            "offered_load": round(self.trace.work / (self.trace.span * self.fabric.gpus), 6)
            if self.trace.span
            else None,
            "hosts": len(self.fabric.nodes),
            "gpus": self.fabric.gpus,
            "domains": {str(tier): len(domains) for tier, domains in topology.at_tier.items()},
            "leaves": [topology.name[d] for d in topology.at_tier.get(1, ())],
            "leaf_gpus": topology.totals(self.fabric.host_gpus)[topology.at_tier.get(1, [])].tolist(),
            "through": "controllers" if self.rules.controllers else "cycle",
            "period_seconds": 1.0 if self.rules.controllers else self.rules.period,
            "look_ahead": self.rules.look_ahead,
            "restart_cost_seconds": self.rules.restart_cost,
            **(
                {"checkpoint_interval_seconds": self.rules.checkpoint_interval}
                if self.rules.checkpoint_interval
                else {}
            ),
            "incidents": len(self.rules.incidents),
            "queues": [
                {"queue": q.name, "weight": q.weight, "deserved_gpus": q.deserved.get(GPU)} for q in self.rules.queues
            ],
            "seed": self.rules.seed,
            "classes": [list(bounds) for bounds in CLASSES],
        }
