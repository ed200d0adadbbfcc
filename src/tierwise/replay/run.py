"""Several contenders on one trace, one after the other: what a caller sees on the way, and what comes out.

A caller may stop after any moment; what it then keeps (`checkpoint`) is enough to go on later to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierwise.replay.checkpoint import Checkpoint, digest
from tierwise.replay.contenders import Contender
from tierwise.replay.engine import Engine
from tierwise.replay.fabric import GPU, Fabric
from tierwise.replay.figures import Data
from tierwise.replay.lived import Lived
from tierwise.replay.outcome import CLASSES, outcome
from tierwise.replay.rules import Rules
from tierwise.replay.trace import Trace

__all__ = ["Comparison"]


class Comparison:
    """The same jobs on the same fabric under each contender."""

    def __init__(self, fabric: Fabric, trace: Trace, contenders: Sequence[Contender], rules: Rules) -> None:
        self.fabric, self.trace, self.contenders, self.rules = fabric, trace, tuple(contenders), rules
        self.digest = digest(fabric, trace, self.contenders, rules)
        self._done: list[Data] = []
        self._engine: Engine | Lived | None = None

    def resume(self, point: Checkpoint) -> None:
        """Go on from a checkpoint of the same inputs."""
        self._done = list(point.done)
        if point.state is not None:
            self._engine = self._begin(point)

    def _begin(self, point: Checkpoint | None = None) -> Engine | Lived:
        contender = self.contenders[len(self._done)]
        if self.rules.controllers:
            return Lived(self.fabric, self.trace, contender, self.rules)
        return Engine(self.fabric, self.trace, contender, self.rules, point.state if point else None)

    def run(self) -> Iterator[Engine | Lived]:
        """Replay what is left; yields the engine at work after every moment."""
        while len(self._done) < len(self.contenders):
            if self._engine is None:
                self._engine = self._begin()
            for _ in self._engine.run():
                yield self._engine
            self._done.append(outcome(self._engine))
            self._engine = None

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.digest, self._done, self._engine.state if self._engine else None)

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
                "leaf_gpus": [
                    int(topology.end[d] - topology.start[d]) * self.fabric.gpus_per_host
                    for d in topology.at_tier.get(1, ())
                ],
                "through": "controllers" if self.rules.controllers else "cycle",
                "period_seconds": 1.0 if self.rules.controllers else self.rules.period,
                "look_ahead": self.rules.look_ahead,
                "restart_cost_seconds": self.rules.restart_cost,
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
