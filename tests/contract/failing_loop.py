"""A program: the live loop with the plugin `faulty`, which another package offers, failing at each method in turn.

Prints what became of three passes, as JSON by method, or by method and answer: `score=nan`.
Run by `test_plugin_failures` where the package is installed.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence

from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from tests.support.draw import draw, objects_of
from tests.support.faulty import TREE, busy_gangs

from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.declaration import METHODS
from tierwise.port import Effect, Outcome, RecordEvent
from tierwise.runtime.loop import Loop
from tierwise.runtime.metrics import Metrics
from tierwise.runtime.profile_run import LoopPass, SchedulerProfile
from tierwise.scheduler import check_profile
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.store import EmbeddedCluster

GANG = ("enqueue", "allocate", "backfill", "gangpreempt", "gangreclaim", "giveback")
CLASSIC = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
OTHERS = tuple(PluginChoice(name) for name in ("conformance", "priority", "gang", "predicates"))
PASSES = 3


class _Cluster(EmbeddedCluster):
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__(objects_of(draw(TREE, queues="default q r"), *busy_gangs()))
        self.asked: list[Effect] = []

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        self.asked += effects
        return super().apply(effects)


class _Observer:
    """Counts as the live scheduler does."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics = Metrics(self.registry)
        self.passes, self.crashes = 0, 0

    def saw(self, turn: LoopPass) -> None:
        self._metrics.observe(turn.snapshot, turn.report, turn.seconds)
        self.passes += 1

    def crashed(self, crash: Crash) -> None:
        self.crashes += 1


def _lived(asked: str, actions: tuple[str, ...]) -> dict[str, object]:
    method, _, answer = asked.partition("=")
    first = PluginChoice("faulty", {"method": method, "answer": answer})
    profile = check_profile(replace(DEFAULT, actions=actions, tiers=((first,), OTHERS)))
    cluster, observer = _Cluster(), _Observer()
    scheduler = SchedulerProfile(frozenset({""}), profile)  # drawn pods name no scheduler
    loop = Loop(cluster, [scheduler], clock=lambda: 1e9, ticks=lambda: 1e9, observers=(observer,))
    for _ in range(PASSES):
        loop.run_once()
    labels = {"plugin": "faulty", "point": METHODS[method].__name__}
    told = [e for e in cluster.asked if isinstance(e, RecordEvent) and e.about.kind == "Namespace"]
    return {
        "counted": observer.registry.get_sample_value("tierwise_plugin_failures_total", labels) or 0,
        "events": [f"{event.reason}: {event.message}" for event in told],
        "passes": observer.passes,
        "crashes": observer.crashes,
        "bound": sum(bool(pod.spec.node_name) for pod in cluster.read().every(Pod).values()),
    }


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    lives = {method: _lived(method, GANG) for method in sys.argv[1:]}
    lives |= {method: _lived(method, CLASSIC) for method, lived in lives.items() if not lived["events"]}
    print(json.dumps(lives))
