"""A site whose queues always have more jobs than nodes, cycle by cycle on a clock: for tests of shares over time.

site = SharedSite(remembers(plugin="proportion"), {"a": Demand(weight=3), "b": Demand()}, nodes=8)
site.run(hours=48)
assert site.share("a") ...

Jobs are gangs of whole nodes. Nothing is random but what a caller draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.support.draw import draw, gang
from tests.support.queue_worlds import queue

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.turns import NO_TURNS
from tierwise.model.usage import UsageState
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

__all__ = ["HOUR", "START", "Demand", "Running", "SharedSite", "remembers"]

HOUR = 3600.0
START = 1_700_000_000.0
_NODE = "cpu=8 mem=8"


def remembers(*plugins: str, half_life: str = "8h", forgets: bool = False, **arguments: Any) -> Profile:
    """The default profile with these plugins that share, and usage with a half-life unless it forgets."""
    actions = arguments.pop("actions", {})
    fair = () if forgets else (PluginChoice("fairshare", {"halfLife": half_life, **arguments}),)
    tier = (*(PluginChoice(name) for name in plugins), *fair)
    return replace(DEFAULT, tiers=(*DEFAULT.tiers, tier), action_arguments=actions)


class Demand(msgspec.Struct, frozen=True):
    """What a queue always has waiting."""

    weight: int = 1
    nodes: int = 1  # of a job
    lasts: float = 2 * HOUR
    waiting: int = 8  # jobs
    namespaces: tuple[str, ...] = ("default",)
    begins: float = 0.0  # hours after the start
    ends: float = 1e9
    parent: str = ""
    spec: Mapping[str, Any] = {}  # of the queue


class Running(msgspec.Struct, frozen=True):
    """A job that runs on nodes until a moment."""

    name: str
    namespace: str
    queue: str
    nodes: tuple[str, ...]
    created: float
    began: float
    ends: float


class SharedSite:
    """Queues, their jobs and a clock."""

    def __init__(
        self,
        profile: Profile,
        queues: Mapping[str, Demand],
        *,
        nodes: int = 8,
        step: float = HOUR / 2,
        parents: Sequence[Raw] = (),
        names: Callable[[str, int], str] = lambda queue, number: f"{queue}-{number}",
    ) -> None:
        self.profile = profile
        self.queues = queues
        self.step = step
        self.now = START
        self.turns = NO_TURNS
        self.running: list[Running] = []
        self.held: dict[tuple[str, str], float] = {}  # node-seconds by queue and namespace since `forget`
        self.waiting: list[tuple[str, str, str, int, float, float]] = []  # queue, namespace, name, nodes, lasts, made
        self.starts: dict[str, tuple[float, float]] = {}  # by name: when a job was made, and when it started
        self.last: CycleReport
        self._names = names
        self._number = 0
        self._fixed: list[Raw] = [*draw("n0.." + str(nodes - 1), node=_NODE).manifests, *parents]
        for name, demand in queues.items():
            spec = {"weight": demand.weight, "parent": demand.parent, **demand.spec}
            self._fixed.append(queue(name, **spec))

    @property
    def usage(self) -> UsageState:
        return self.turns.usage

    def forget(self) -> None:
        """Measure from now on."""
        self.held = {}

    def share(self, queue: str, namespace: str | None = None) -> float:
        """The part of all that was held which a queue held, or a namespace in it."""
        every = sum(self.held.values())
        own = sum(n for (q, ns), n in self.held.items() if q == queue and namespace in (None, ns))
        return own / every if every else 0.0

    def run(self, hours: float) -> None:
        for _ in range(round(hours * HOUR / self.step)):
            self.once()

    def submit(self, queue: str, name: str, nodes: int, lasts: float, namespace: str = "default") -> None:
        """One more job that waits."""
        self.waiting.append((queue, namespace, name, nodes, lasts, self.now))

    def once(self) -> None:
        """Jobs end and come, a cycle decides, and a step of time goes by."""
        self.running = [job for job in self.running if job.ends > self.now]
        self._demand()
        objects = self._objects()
        snapshot = replace(build(objects, self.now, self.profile), turns=self.turns)
        self.last = cycle(snapshot, self.profile)
        self.turns = self.last.turns
        self._carry_out()
        for job in self.running:
            key = (job.queue, job.namespace)
            self.held[key] = self.held.get(key, 0.0) + len(job.nodes) * self.step
        self.now += self.step

    def _demand(self) -> None:
        hour = (self.now - START) / HOUR
        for name, demand in self.queues.items():
            if not demand.begins <= hour < demand.ends:
                self.waiting = [one for one in self.waiting if one[0] != name]
                continue
            for namespace in demand.namespaces:
                here = sum(1 for one in self.waiting if one[:2] == (name, namespace))
                for _ in range(demand.waiting - here):
                    self._number += 1
                    self.submit(name, self._names(name, self._number), demand.nodes, demand.lasts, namespace)

    def _objects(self) -> Objects:
        raws = list(self._fixed)
        for job in self.running:
            raws += _placed(_gang(job.queue, job.namespace, job.name, len(job.nodes), job.created), job)
        for queue_name, namespace, name, nodes, _, made in self.waiting:
            raws += _gang(queue_name, namespace, name, nodes, made)
        return Objects.of((codec.decode(raw), raw) for raw in raws)

    def _carry_out(self) -> None:
        gone = {eviction.job.key for eviction in self.last.evictions}
        self.running = [job for job in self.running if f"{job.namespace}/{job.name}" not in gone]
        by_key = {f"{one[1]}/{one[2]}": one for one in self.waiting}
        for decision in self.last.decisions:
            waits = by_key.get(decision.job.key)
            if not decision.bound or waits is None:
                continue
            queue_name, namespace, name, _, lasts, made = waits
            rows = tuple(f"n{row}" for _, row in decision.places())
            self.waiting.remove(waits)
            self.running.append(Running(name, namespace, queue_name, rows, made, self.now, self.now + lasts))
            self.starts[name] = (made, self.now)


def _gang(queue_name: str, namespace: str, name: str, nodes: int, made: float) -> list[Raw]:
    raws = gang(name, tasks=nodes, each=_NODE, queue=queue_name).manifests()
    for raw in raws:
        body: Any = raw
        body["metadata"]["namespace"] = namespace
        body["metadata"]["creationTimestamp"] = format_time(made)
    return raws


def _placed(raws: list[Raw], job: Running) -> list[Raw]:
    nodes = list(job.nodes)
    for raw in raws:
        body: Any = raw
        if body["kind"] == "Pod":
            body["spec"]["nodeName"] = nodes.pop(0)
            body["status"] = {"phase": "Running", "startTime": format_time(job.began)}
    return raws
