"""Several contenders on one trace, one after the other: what a caller sees on the way, and what comes out.

A caller may stop after any moment; what it then keeps (`checkpoint`) is enough to go on later to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from tierwise.replay.engine.checkpoint import Checkpoint, digest
from tierwise.replay.engine.cluster import ReplayEvent
from tierwise.replay.engine.contenders import Contender
from tierwise.replay.engine.embedded import EmbeddedReplay
from tierwise.replay.engine.engine import Engine
from tierwise.replay.engine.rules import Rules
from tierwise.replay.engine.state import ReplayState
from tierwise.replay.report.outcome import CLASSES, Data, outcome
from tierwise.replay.traces.fabric import GPU, Fabric
from tierwise.replay.traces.trace import Trace

__all__ = ["Comparison", "Progress", "Replay"]


class Progress(msgspec.Struct, frozen=True):
    """How far the contender at work is, and a few words on it."""

    name: str
    done: int
    told: str


class Replay(Protocol):
    """Contenders one after the other, which may be interrupted; the same for jobs that end and pods that stay."""

    names: tuple[str, ...]
    total: int  # what is done when a contender is through
    digest: str

    def run(self) -> Iterator[None]:
        """Do what is left; yields where a caller may look or stop."""

    def progress(self) -> Progress:
        """How far it is; only asked while it runs."""

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on."""

    def resume(self, point: Checkpoint) -> None:
        """Go on from a checkpoint of the same inputs."""

    def results(self) -> Data:
        """Everything, as JSON data."""


class Comparison:
    """The same jobs on the same fabric under each contender."""

    def __init__(
        self, fabric: Fabric, trace: Trace, contenders: Sequence[Contender], rules: Rules, *, record: bool = False
    ) -> None:
        """With `record`, what happens under each contender is kept in `logs`."""
        self.logs: list[list[ReplayEvent]] = []
        self._record = record
        self.fabric, self.trace, self.contenders, self.rules = fabric, trace, tuple(contenders), rules
        self.names, self.total = tuple(contender.name for contender in contenders), 2 * len(trace)
        jobs = [trace.arrival, trace.duration, trace.gpus, trace.priority, trace.queue]
        columns = [*jobs, fabric.topology.leaf, fabric.host_gpus]
        pods = (trace.queues, trace.least, trace.pods)
        tree = (fabric.nodes.names, fabric.topology.name)
        self.digest = digest([*columns], pods, tree, self.contenders, rules)
        self._done: list[Data] = []
        self._engine: Engine | EmbeddedReplay | None = None

    def resume(self, point: Checkpoint) -> None:
        """Go on from a checkpoint of the same inputs."""
        self._done = list(point.done)
        if point.state is not None:
            self._engine = self._begin(ReplayState.restored(point.state))

    def _begin(self, state: ReplayState | None = None) -> Engine | EmbeddedReplay:
        contender = self.contenders[len(self._done)]
        if self.rules.controllers:
            return EmbeddedReplay(self.fabric, self.trace, contender, self.rules)
        return Engine(self.fabric, self.trace, contender, self.rules, state)

    def run(self) -> Iterator[None]:
        """Replay what is left; yields after every moment."""
        while len(self._done) < len(self.contenders):
            if self._engine is None:
                self._engine = self._begin()
                if self._record:
                    self.logs.append(self._engine.record())
            for _ in self._engine.run():
                yield
            self._done.append(outcome(self._engine))
            self._engine = None

    def progress(self) -> Progress:
        """Events, simulated time, and who waits."""
        name = self.names[min(len(self._done), len(self.names) - 1)]
        if self._engine is None:
            return Progress(name, 0, "")
        state = self._engine.state
        return Progress(name, state.events, f"day {state.clock / 86400:.1f}, {len(state.waiting):,} waiting")

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.digest, self._done, self._engine.state.kept() if self._engine else None)

    def results(self) -> Data:
        """Everything, as JSON data."""
        topology = self.fabric.topology
        return {
            "inputs": {
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
                    {"queue": q.name, "weight": q.weight, "deserved_gpus": q.deserved.get(GPU)}
                    for q in self.rules.queues
                ],
                "seed": self.rules.seed,
                "classes": [list(bounds) for bounds in CLASSES],
            },
            "outcomes": self._done,
        }
