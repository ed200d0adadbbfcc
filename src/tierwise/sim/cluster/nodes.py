"""The hosts behind the nodes with their kubelets, and the node controller that watches them.

Pods leave a node whose NoExecute taints they do not tolerate, or no longer. A lost host stops reporting. After a while
its node becomes not ready and is tainted; its pods are evicted when their tolerations end, and are removed after their
grace period, as on a cluster whose provider deletes lost hosts. A host that comes back has lost its containers. Pods of
a node that is deleted are removed a while later, as Kubernetes' garbage collector of pods does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.core import Node, Pod, Taint, parse_time
from tierwise.api.natural import natural
from tierwise.api.selector import stays_for, tolerates
from tierwise.controllers.stamp import stamp
from tierwise.controllers.workqueue import Index, Requeue, WorkQueue
from tierwise.port import Delete, Effect, Key, Objects, RecordEvent, Update, key_of
from tierwise.scheduler.guard import Guard
from tierwise.sim.cluster.kubelet import killed, sync_pod
from tierwise.sim.cluster.pod_behaviour import PodSpeed

__all__ = ["SimNodes"]

NOTICED_AFTER: Final = 40
"""Seconds of silence after which a node counts as lost: Kubernetes' node-monitor-grace-period."""

TOLERATED_FOR: Final = 300
"""Seconds that a pod stays on a lost node where it names no other time: what Kubernetes' admission puts on pods."""

_LOST: Final = "lost"
"""The key of nodes that are marked as lost."""

_BARRED: Final = "barred"
"""The key of nodes with taints that drive pods away."""

_TAINT: Final = "node.kubernetes.io/unreachable"
_TOLERATED: Final = (_TAINT, "node.kubernetes.io/not-ready")
_UNREACHABLE: Final = Taint(_TAINT, effect="NoExecute")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_LOST_FOR_GOOD: Final = 255
"""The exit code of a container whose host went down: what a kubelet reports after a reboot."""


class NodeSync(msgspec.Struct, frozen=True):
    """Effects of the node controller, pods that are lost for good, and the time of its next look."""

    effects: tuple[Effect, ...] = ()
    gone: tuple[Key, ...] = ()
    wake: float | None = None


class SimNodes:
    """Which hosts are down, and since when; pods and nodes to which nothing happens are not looked at."""

    def __init__(self, guard: Guard, timing: PodSpeed) -> None:
        self.down: dict[str, float] = {}
        self._deleted: dict[str, float] = {}  # nodes that were there, and since when they are not
        self._guard = guard
        self._timing = timing
        self._seen = Objects()
        self._pods = Index(Pod, lambda pod: pod.spec.node_name or None)
        self._lost = Index(Node, lambda node: _LOST if _lost_since(node) is not None else None)
        self._barred = Index(Node, lambda node: _BARRED if _driving(node) else None)
        self._since: dict[tuple[str, str, str], float] = {}  # when a taint was first seen: node, key and value
        self._queue = WorkQueue()  # of pods that a kubelet has something to do about

    def lose(self, node: str, now: float) -> None:
        """Let a host fall silent."""
        self.down.setdefault(node, now)
        self._queue.add(_paths(self._pods[node]))

    def restore(self, node: str, pods: Iterable[Pod], now: float) -> list[Effect]:
        """Let a host come back: what ran on it has ended."""
        if self.down.pop(node, None) is None:
            return []
        self._queue.add(_paths(self._pods[node]))
        ran = (pod for pod in pods if pod.spec.node_name == node and pod.status.phase == "Running")
        return [
            e for pod in ran if not pod.metadata.deletion_timestamp for e in killed(pod, now, _LOST_FOR_GOOD, "Unknown")
        ]

    def sync(self, objects: Objects, now: float) -> NodeSync:
        """Effects of the node controller and of the kubelets on living hosts."""
        self._follow(objects, now)
        well = not self.down and _LOST not in self._lost and _BARRED not in self._barred
        if well and self._queue.idle(now):
            return NodeSync(wake=self._queue.due())
        watch = NodeSync() if well else self._watch(objects, now)
        gone = list(watch.gone)
        nodes = objects.every(Node)
        pods = objects.every(Pod)

        def one(path: str) -> Requeue:
            pod = pods.get(path)
            if pod is None or not pod.spec.node_name or pod.spec.node_name in self.down:
                return (), None
            if pod.spec.node_name not in nodes:
                due = self._collected(pod)
                if due is None or now < due:
                    return (), due
                gone.append(key_of(pod))
                return (RecordEvent(key_of(pod), "Normal", "Gone", _removed(pod)),), None
            pod_sync = self._guard.call(f"running pod {path}", partial(sync_pod, pod, now, self._timing))
            if pod_sync is None:
                return (), None
            if pod_sync.gone:
                gone.append(key_of(pod))
            return pod_sync.effects, pod_sync.wake

        effects = (*watch.effects, *self._queue.run(now, one))
        wakes = [wake for wake in (watch.wake, self._queue.due()) if wake is not None]
        return NodeSync(effects, tuple(gone), min(wakes, default=None))

    def _collected(self, pod: Pod) -> float | None:
        """When a pod goes whose node is not there: once its grace is over, or after a while; None where it stays."""
        leaves = pod.metadata.deletion_timestamp
        deleted_at = self._deleted.get(pod.spec.node_name)
        moments = ([parse_time(leaves)] if leaves else []) + (
            [deleted_at + NOTICED_AFTER] if deleted_at is not None else []
        )
        return min(moments, default=None)

    def _follow(self, objects: Objects, now: float) -> None:
        if objects.alike(self._seen, Pod, Node):
            return
        changed = objects.changed_objects(self._seen, Pod, Node)
        self._pods.follow(changed)
        self._lost.follow(changed)
        self._barred.follow(changed)
        self._queue.add(key.path for key in changed.get(Pod, ()))
        for node, record in changed.get(Node, {}).items():
            self._queue.add(_paths(self._pods[node.name]))
            if record is not None:
                self._deleted.pop(node.name, None)
            elif self._seen.record(node) is not None:
                self._deleted[node.name] = now
                self.down.pop(node.name, None)
        self._seen = objects

    def _watch(self, objects: Objects, now: float) -> NodeSync:
        """Effects of the node controller."""
        effects: list[Effect] = []
        gone: list[Key] = []
        wakes: list[float] = []
        self._watch_hosts(objects, now, effects, wakes)
        self._watch_taints(now, effects, wakes)
        stranded = [pod for name in self.down for pod in self._pods[name]]
        for pod in sorted(stranded, key=lambda pod: natural(key_of(pod).path)):
            deed, wake = self._about(objects, pod, now)
            if isinstance(deed, Key):
                gone.append(deed)
                effects.append(RecordEvent(deed, "Normal", "Gone", _removed(pod)))
            effects += deed if isinstance(deed, tuple) else ()
            wakes += [wake] if wake is not None else []
        return NodeSync(tuple(effects), tuple(gone), min(wakes, default=None))

    def _watch_hosts(self, objects: Objects, now: float, effects: list[Effect], wakes: list[float]) -> None:
        """Mark nodes as lost some time after their host went down, and as well when it is back."""
        nodes = objects.every(Node)
        watched = {*self.down, *(node.metadata.name for node in self._lost[_LOST])}
        for name in sorted(watched & nodes.keys(), key=natural):
            node = nodes[name]
            since = _lost_since(nodes[name])
            if name in self.down and since is None:
                noticed = self.down[name] + NOTICED_AFTER
                if now >= noticed:
                    effects += _marked(objects, node, now, lost=True)
                else:
                    wakes.append(noticed)
            elif name not in self.down and since is not None:
                effects += _marked(objects, node, now, lost=False)

    def _watch_taints(self, now: float, effects: list[Effect], wakes: list[float]) -> None:
        """Evict the pods of nodes with a NoExecute taint that do not tolerate it, or not for longer."""
        barred = [node for node in self._barred[_BARRED] if node.metadata.name not in self.down]
        seen = [(node.metadata.name, taint.key, taint.value) for node in barred for taint in _driving(node)]
        self._since = {place: self._since.get(place, now) for place in seen}
        for node in sorted(barred, key=lambda node: natural(node.metadata.name)):
            for pod in sorted(self._pods[node.metadata.name], key=lambda pod: natural(key_of(pod).path)):
                deeds, wake = self._driven(node, pod, now)
                effects += deeds
                wakes += [wake] if wake is not None else []

    def _driven(self, node: Node, pod: Pod, now: float) -> tuple[tuple[Effect, ...], float | None]:
        """Effects on a pod whose living node has taints that evict pods, and the time of the next look."""
        if pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp:
            return (), None
        ends = []
        for taint in _driving(node):
            stays = _tolerated(pod, taint)
            if stays is not None:
                ends.append((self._since[node.metadata.name, taint.key, taint.value] + stays, taint))
        if not ends:
            return (), None
        due, taint = min(ends, key=lambda end: end[0])
        if now < due:
            return (), due
        text = f"Marking for deletion Pod {key_of(pod).path}: node {node.metadata.name} has the taint {taint.key}"
        return (RecordEvent(key_of(pod), "Normal", "TaintManagerEviction", text), Delete(key_of(pod))), None

    def _about(self, objects: Objects, pod: Pod, now: float) -> tuple[tuple[Effect, ...] | Key, float | None]:
        """Effects on one pod of a lost host, or its key if it is gone, and the time of the next look."""
        name = pod.spec.node_name
        if name not in self.down or pod.status.ended:
            return (), None
        if pod.metadata.deletion_timestamp:
            due = parse_time(pod.metadata.deletion_timestamp)
            return (key_of(pod), None) if now >= due else ((), due)
        node = objects.every(Node).get(name)
        since = None if node is None else _lost_since(node)
        stays = _tolerated(pod, _UNREACHABLE)
        if since is None or stays is None:
            return (), None
        if now < since + stays:
            return (), since + stays
        text = f"node {name} is lost, and it was tolerated for {stays}s"
        return (RecordEvent(key_of(pod), "Warning", "TaintManagerEviction", text), Delete(key_of(pod))), None


def _removed(pod: Pod) -> str:
    return f"removed with node {pod.spec.node_name}"


def _paths(pods: Iterable[Pod]) -> list[str]:
    return [key_of(pod).path for pod in pods]


def _lost_since(node: Node) -> float | None:
    """When a node was found to be lost, in seconds since the epoch; 0 where it is lost and does not say since when,
    None where it is not lost.
    """
    for condition in node.status.conditions:
        if (condition.type, condition.status) == ("Ready", "Unknown"):
            if condition.last_transition_time:
                return parse_time(condition.last_transition_time)
            return 0.0
    return None


def _driving(node: Node) -> list[Taint]:
    """The taints of a node that drive pods away."""
    return [taint for taint in node.spec.taints if taint.effect == "NoExecute"]


def _tolerated(pod: Pod, taint: Taint) -> int | None:
    """How long a pod stays on a node with a taint that drives pods away; None for as long as that takes."""
    if not tolerates(pod.spec.tolerations, taint):
        return TOLERATED_FOR if taint.key in _TOLERATED else 0
    seconds = stays_for(pod.spec.tolerations, taint)
    return None if seconds == math.inf else int(seconds)


def _marked(objects: Objects, node: Node, now: float, *, lost: bool) -> list[Effect]:
    """A node whose conditions and taints say whether its kubelet is heard of."""
    raw = objects.raw(key_of(node)) or {}
    reason = ("NodeStatusUnknown", "Kubelet stopped posting node status.") if lost else ("KubeletReady", "")
    ready: Raw = {
        "type": "Ready",
        "status": "Unknown" if lost else "True",
        "reason": reason[0],
        "message": reason[1],
        "lastTransitionTime": stamp(now),
    }
    status = part(raw, "status")
    spec = part(raw, "spec")
    other_conditions = [c for c in _items(status, "conditions") if c.get("type") != "Ready"]
    taints = [t for t in _items(spec, "taints") if t.get("key") != _TAINT]
    if lost:
        taints += [{"key": _TAINT, "effect": effect, "timeAdded": stamp(now)} for effect in _EFFECTS]
    changed = {
        **raw,
        "spec": {**spec, "taints": taints},
        "status": {**status, "conditions": [*other_conditions, ready]},
    }
    text = f"not heard of for {NOTICED_AFTER}s" if lost else "heard of again"
    kind, word = ("Warning", "NodeNotReady") if lost else ("Normal", "NodeReady")
    return [Update(key_of(node), changed), RecordEvent(key_of(node), kind, word, text)]


def _items(raw: Raw, name: str) -> list[Raw]:
    items = raw.get(name)
    if isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return []
