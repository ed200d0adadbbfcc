"""A cluster with a history: gangs come and go, nodes too, evicted pods linger, and every cycle is looked at.

The cluster is the embedded one; what the scheduler asks for is applied to it, and read back from its manifests. The
scene beside it is what the auditor judges by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.support.evict_scenes import Dials, random_gang, random_scene
from tests.support.evict_world import (
    Gang,
    Pod,
    Scene,
    Step,
    node_manifest,
    objects,
    pod_group_manifest,
    pod_manifest,
    queue_manifest,
    steps,
)

from tierwise.config.profile import Profile
from tierwise.explain.wire import pending_wire
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Delete, Effect, Evict, Key, Update
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build
from tierwise.status.pod_group import statuses

__all__ = ["Act", "Stage"]

_GROUP = "scheduling.volcano.sh"


class Act(msgspec.Struct, frozen=True):
    """One cycle: the cluster before and after it, and what was decided."""

    number: int
    before: Scene
    after: Scene
    steps: tuple[Step, ...]
    evictions: tuple[tuple[str, str, str], ...]  # pod, beneficiary, action
    pending: tuple[dict[str, Any], ...]
    quiet: bool  # nothing new came since the cycle before
    fits: frozenset[str]  # pods that a profile without evicting actions would have bound


@dataclass
class Stage:
    """A history on its way."""

    pick: Random
    profile: Profile
    dials: Dials
    scene: Scene = field(init=False)
    cluster: EmbeddedCluster = field(init=False)
    number: int = 0
    _arrivals: int = 0
    _restarting: set[str] = field(default_factory=set)
    _lingering: dict[str, int] = field(default_factory=dict)
    _absent: dict[str, str] = field(default_factory=dict)  # nodes that are away

    def __post_init__(self) -> None:
        self.scene = random_scene(self.pick, self.dials)
        self.cluster = EmbeddedCluster(objects(self.scene))
        self._restarting = {gang.key for gang in self.scene.gangs if self.pick.random() < 0.7}
        self._lingering = {path: 1 for path, (_, pod) in self.scene.pods().items() if pod.leaving}

    # -- one cycle

    def play(self, *, quiet: bool) -> Act:
        """Let one cycle happen, after whatever else happens unless it is `quiet`."""
        self.number += 1
        self._clear()
        if not quiet:
            for _ in range(self.pick.choice((0, 0, 1, 1, 2))):
                self.pick.choice(self._happenings())()
            if self.dials.holds and self.pick.random() < 0.4:
                self._hold()
        before = self.scene
        snapshot = build(self.cluster.read(), float(self.number))
        report = cycle(snapshot, self.profile)
        placing = cycle(snapshot, replace(self.profile, actions=("enqueue", "allocate", "backfill")))
        self._carry_out(snapshot, report)
        made = tuple(steps(snapshot, report))
        placed = {path: node for step in made for path, node in step.placed.items()}
        return Act(
            self.number,
            before,
            self.scene,
            made,
            tuple((e.task.key, e.by.key if e.by else "", e.action) for e in report.evictions),
            tuple(pending_wire(snapshot, report, placed)),
            quiet,
            frozenset(path for step in steps(snapshot, placing) if step.bound for path in step.placed),
        )

    def _carry_out(self, snapshot: Snapshot, report: CycleReport) -> None:
        """Apply what was asked; evicted pods stay on their way out for a while."""
        asked: list[Effect] = []
        for effect in effects(snapshot, report):
            if isinstance(effect, Evict):
                path = effect.pod.path
                self._lingering[path] = self.pick.choice((1, 1, 1, 2, 3))
                gang, pod = self.scene.pods()[path]
                asked.append(Update(effect.pod, pod_manifest(gang, replace(pod, leaving=True))))
            else:
                asked.append(effect)
        self.cluster.apply(asked)
        self.cluster.apply(statuses(self.cluster.read(), snapshot, report))
        self._read_back()

    def _read_back(self) -> None:
        """The scene as the cluster's manifests have it."""

        def seen(gang: Gang, pod: Pod) -> Pod | None:
            raw: Any = self.cluster.read().raw(_pod_key(gang, pod))
            if raw is None:
                return None
            on, nominated = raw["spec"].get("nodeName", ""), raw["status"].get("nominatedNodeName", "")
            return replace(pod, on=on, nominated=nominated, leaving="deletionTimestamp" in raw["metadata"])

        for gang in self.scene.gangs:
            pods = tuple(now for pod in gang.pods if (now := seen(gang, pod)) is not None)
            if pods != gang.pods:
                self.scene = self.scene.with_gang(replace(gang, pods=pods))

    def _clear(self) -> None:
        """Pods that have left are gone, and those of gangs that restart come back."""
        for path in [path for path, left in self._lingering.items() if left <= 1]:
            del self._lingering[path]
            if path in self.scene.pods():
                self._lose(path)
        self._lingering = {path: left - 1 for path, left in self._lingering.items()}

    def _lose(self, path: str) -> None:
        gang, pod = self.scene.pods()[path]
        self.cluster.apply([Delete(_pod_key(gang, pod))])
        rest = tuple(other for other in gang.pods if other is not pod)
        if gang.key in self._restarting:
            back = replace(pod, on="", leaving=False, nominated="", created=self.number)
            self.cluster.apply([Create(pod_manifest(gang, back))])
            rest = (*rest, back)
        self.scene = self.scene.with_gang(replace(gang, pods=rest))

    # -- what else happens

    def _happenings(self) -> list[Callable[[], None]]:
        crowd = len(self.scene.gangs)
        arrivals = [self._arrive] * (6 if crowd < 7 else 3 if crowd < 10 else 0)
        ends = [self._end] * (1 if crowd < 7 else 4)
        rare = [self._crash, self._away if self.pick.random() < 0.5 or self._absent else self._cordon]
        return [*arrivals, *ends, *(rare if self.pick.random() < 0.5 else [])]

    def _arrive(self) -> None:
        name = f"late{self._arrivals}"
        self._arrivals += 1
        gang, priority = random_gang(self.pick, self.scene, name, self.dials, None), self.pick.randint(0, 9)
        pods = tuple(replace(pod, priority=priority, created=self.number) for pod in gang.pods)
        gang = replace(gang, pods=pods, priority=priority, created=self.number)
        if self.pick.random() < 0.7:
            self._restarting.add(gang.key)
        self.scene = self.scene.with_gang(gang)
        raws = [pod_group_manifest(gang), *(pod_manifest(gang, pod) for pod in gang.pods)]
        self.cluster.apply([Create(raw) for raw in raws])

    def _end(self) -> None:
        """A gang is done, or deleted, pending or not."""
        if not self.scene.gangs:
            return
        gang = self.pick.choice(self.scene.gangs)
        keys = [Key(_GROUP, "PodGroup", gang.namespace, gang.name), *(_pod_key(gang, pod) for pod in gang.pods)]
        self.cluster.apply([Delete(key) for key in keys])
        self.scene = replace(self.scene, gangs=tuple(other for other in self.scene.gangs if other is not gang))

    def _hold(self) -> None:
        """A gang or a queue is held, or released again."""
        if self.scene.gangs and self.pick.random() < 0.7:
            gang = self.pick.choice(self.scene.gangs)
            gang = replace(gang, held=not gang.held)
            self.scene = self.scene.with_gang(gang)
            key, raw = Key(_GROUP, "PodGroup", gang.namespace, gang.name), pod_group_manifest(gang)
        else:
            known = self.scene.queues
            queue = self.pick.choice(known)
            queue = replace(queue, held=not queue.held)
            self.scene = replace(self.scene, queues=tuple(queue if q.name == queue.name else q for q in known))
            key, raw = Key(_GROUP, "Queue", "", queue.name), queue_manifest(queue)
        self.cluster.apply([Update(key, raw)])

    def _crash(self) -> None:
        """One pod is lost."""
        running = [path for path, (_, pod) in self.scene.pods().items() if pod.stands]
        if running:
            self._lose(self.pick.choice(running))

    def _cordon(self) -> None:
        """A node is closed, or opened again."""
        known = self.scene.cordoned
        node = known[0] if known else self.pick.choice(list(self.scene.nodes))
        cordoned = tuple(n for n in known if n != node) if node in known else (*known, node)
        self.scene = replace(self.scene, cordoned=cordoned)
        self.cluster.apply([Update(Key("", "Node", "", node), node_manifest(self.scene, node))])

    def _away(self) -> None:
        """A node leaves with all that stands on it, or comes back."""
        if self._absent:
            node, has = self._absent.popitem()
            self.scene = replace(self.scene, nodes={**self.scene.nodes, node: has})
            self.cluster.apply([Create(node_manifest(self.scene, node))])
        elif len(self.scene.nodes) > 2:
            node = self.pick.choice(list(self.scene.nodes))
            self._absent[node] = self.scene.nodes[node]
            for path in [path for path, (_, pod) in self.scene.pods().items() if pod.on == node]:
                self._lingering.pop(path, None)
                self._lose(path)
            left = {name: has for name, has in self.scene.nodes.items() if name != node}
            self.scene = replace(self.scene, nodes=left, cordoned=tuple(n for n in self.scene.cordoned if n != node))
            self.cluster.apply([Delete(Key("", "Node", "", node))])


def _pod_key(gang: Gang, pod: Pod) -> Key:
    return Key("", "Pod", gang.namespace, pod.name)
