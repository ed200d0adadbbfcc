"""podpreempt for single pods against the rule of Kubernetes written down plainly: node by node, pod by pod."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.quotas import nodes, settle, worker
from tests.support.sight import sees

from tierwise.api.codec import Raw
from tierwise.config.kube import read_kube

CARDS = 6
MINE = 5
"""The priority of the pod that waits."""

PROFILE = read_kube({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})


class Running(msgspec.Struct, frozen=True):
    """A pod that runs: its name, cards, priority, the hour at which it came, whether a budget covers it."""

    name: str
    cards: int
    priority: int
    hour: int
    covered: bool

    @property
    def importance(self) -> tuple[int, int, str]:
        return (-self.priority, self.hour, self.name)


class Scene(msgspec.Struct, frozen=True):
    standing: tuple[tuple[Running, ...], ...]  # by node
    cards: int
    allowed: int

    def manifests(self) -> list[Raw]:
        found = nodes(" ".join(f"n{i}" for i in range(len(self.standing))), gpu=CARDS)
        for i, pods in enumerate(self.standing):
            for pod in pods:
                raw = worker(pod.name, on=f"n{i}", gpu=pod.cards, priority=pod.priority)
                meta = raw["metadata"]
                assert isinstance(meta, dict)
                meta["creationTimestamp"] = f"2026-01-01T{pod.hour:02}:00:00Z"
                meta["labels"] = {"app": "kept"} if pod.covered else {}
                found.append(raw)
        spec = {"selector": {"matchLabels": {"app": "kept"}}}
        kind: Raw = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": spec}
        found.append({**kind, **budget, "status": {"disruptionsAllowed": self.allowed}})
        return [*found, worker("mine", gpu=self.cards, priority=MINE)]

    def victims(self, node: int) -> list[Running] | None:
        """Everybody less important is thought away, and comes back while there is room; None if that is not enough."""
        pods = self.standing[node]
        potential = sorted((pod for pod in pods if pod.priority < MINE), key=lambda pod: pod.importance)
        left = CARDS - self.cards - sum(pod.cards for pod in pods if pod.priority >= MINE)
        if left < 0:
            return None
        gone = []
        for pod in sorted(potential, key=lambda pod: pod not in self.beyond(potential)):
            if pod.cards <= left:
                left -= pod.cards
            else:
                gone.append(pod)
        return sorted(gone, key=lambda pod: pod.importance)

    def beyond(self, pods: list[Running]) -> list[Running]:
        """Those whom the budget does not let go any more, the most important of all having gone first."""
        return [pod for pod in pods if pod.covered][max(self.allowed, 0) :]

    def best(self) -> list[str] | None:
        """Who goes from the node that Kubernetes would take."""
        found = []
        for node in range(len(self.standing)):
            gone = self.victims(node)
            if gone is not None:
                highest = max((pod.priority for pod in gone), default=-1)
                first = min((pod.hour for pod in gone if pod.priority == highest), default=0)
                total = sum(pod.priority + 2**31 for pod in gone)
                found.append(((len(self.beyond(gone)), highest, total, len(gone), -first, node), gone))
        return sorted(pod.name for pod in min(found)[1]) if found else None


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Up to three nodes, none of them overfull."""
    standing = []
    for i in range(draw(st.integers(1, 3))):
        pods: list[Running] = []
        left = CARDS
        while left and draw(st.integers(0, 5)):
            cards = draw(st.integers(1, min(left, 3)))
            priority, hour = draw(st.integers(0, 6)), draw(st.integers(1, 3))
            pods.append(Running(f"v{i}-{len(pods)}", cards, priority, hour, draw(st.booleans())))
            left -= cards
        standing.append(tuple(pods))
    return Scene(tuple(standing), draw(st.integers(1, CARDS)), draw(st.integers(0, 2)))


@sees(evictions=4)
@given(scenes())
@examples(60)
def test_a_pod_evicts_whom_kubernetes_would(scene: Scene) -> None:
    """The same victims on the same node; nobody where a node has room, or none can be made."""
    outcome = settle(scene.manifests(), profile=PROFILE, cycles=1)
    free = any(CARDS - sum(pod.cards for pod in pods) >= scene.cards for pods in scene.standing)

    assert (scene.best() or []) * (not free) == outcome.evicted
    assert (scene.best() is not None) == bool(outcome.bound or outcome.nominated)
