"""A cluster on which binds fail, answers get lost and the scheduler dies, and gangs in every language."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from tests.support.koordinator import hypernode, objects_of
from tests.support.languages import (
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    label_pods,
    nodes,
    plugin_gang,
    pod,
    volcano_gang,
)

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers.stamp import stamp
from tierwise.port import Bind, Create, Effect, Evict, Key, Outcome, PatchStatus
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster

__all__ = ["FAULTS", "LANGUAGES", "Gang", "ShakyWorld", "drawn"]

START = 1_800_000_000.0
FAULTS = ("refused", "lost", "died before", "died after")
RACKS = ("r0", "r1", "r2")

_PREFIX = "gang.scheduling.koordinator.sh"


def _annotated_gang(name: str, pods: int) -> list[Raw]:
    marks = {f"{_PREFIX}/name": name, f"{_PREFIX}/min-available": str(pods)}
    return [pod(f"{name}-{i}", annotations=marks) for i in range(pods)]


def _koordinator_gang(name: str, pods: int) -> list[Raw]:
    group: Raw = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": {f"{_PREFIX}/match-policy": "waiting-and-running"}},
        "spec": {"minMember": pods},
    }
    return [group, *label_pods(name, pods, "pod-group.scheduling.sigs.k8s.io")]


LANGUAGES: dict[str, Callable[[str, int], list[Raw]]] = {
    "volcano": volcano_gang,
    "kubernetes": kubernetes_gang,
    "scheduler-plugins": plugin_gang,
    "kai": kai_gang,
    "kueue": kueue_gang,
    "grove": lambda name, pods: grove_gang(name, {"w": pods}),
    "koordinator": _koordinator_gang,
    "koordinator by annotations": _annotated_gang,
}


class Gang(msgspec.Struct, frozen=True):
    """A gang of pods of one cpu each."""

    name: str
    size: int
    age: int  # seconds before the start at which it was made
    asks: bool = True  # False: its pods ask for nothing


class _DiedError(BaseException):
    """The process is gone; nothing in it gets to hear of that."""


class _ShakyCluster(EmbeddedCluster):
    """Binds go wrong at the numbers that a test names; whoever owns pods makes them anew."""

    def __init__(self, manifests: Sequence[Raw]) -> None:
        super().__init__(objects_of(list(manifests)))
        self.now = START
        self.faults: dict[int, str] = {}
        self.binds = 0
        self._first = {key: self.read().raw(key) for key in self.read()}

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        broken: set[str] = set()
        for effect in effects:
            if isinstance(effect, Bind):
                outcomes.append(self._bind(effect, broken))
            else:
                outcomes += super().apply([effect])
                if isinstance(effect, Evict):
                    self._made_anew(effect.pod)
        return outcomes

    def _bind(self, effect: Bind, broken: set[str]) -> Outcome:
        if effect.gang in broken:
            return Outcome(effect, ok=False, error="withheld", withheld=True)
        fault = self.faults.pop(self.binds, "")
        self.binds += 1
        if fault == "died before":
            raise _DiedError
        if fault == "refused":
            broken.add(effect.gang)
            return Outcome(effect, ok=False, error="422: not today")
        (outcome,) = super().apply([effect])
        condition: Raw = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.now)}
        super().apply([PatchStatus(effect.pod, {"phase": "Running", "conditions": [condition]}, {})])
        if fault == "died after":
            raise _DiedError
        if fault == "lost":
            broken.add(effect.gang)
            return Outcome(effect, ok=False, error="no answer")
        return outcome

    def lose(self, pod: Key) -> None:
        """A pod is evicted by somebody else."""
        super().apply([Evict(pod, "drained", "", "test")])
        self._made_anew(pod)

    def _made_anew(self, pod: Key) -> None:
        raw = self._first.get(pod)
        if raw is not None and self.read().raw(pod) is None:
            super().apply([Create(merged(raw, {"metadata": {"creationTimestamp": stamp(self.now)}}))])

    def come(self, manifests: Sequence[Raw]) -> None:
        """Further objects."""
        super().apply([Create(raw) for raw in manifests])
        self._first |= {key: self.read().raw(key) for key in self.read() if key not in self._first}


class ShakyWorld:
    """Three racks, gangs in one language, and a process that is started again when it dies."""

    def __init__(
        self, language: str, gangs: Sequence[Gang], *, cpus: int = 2, racks: bool = False, profile: Profile = DEFAULT
    ) -> None:
        self._language, self._racks, self._profile = language, racks, profile
        tree = {"s0": {rack: f"{rack}a {rack}b" for rack in RACKS}}
        found = nodes(tree, cpu=cpus)
        if racks:
            found += [hypernode(rack, 1, [("Node", f"{rack}{i}") for i in "ab"]) for rack in RACKS]
            found.append(hypernode("s0", 2, [("HyperNode", rack) for rack in RACKS]))
        self.gangs: dict[str, Gang] = {}
        self.cluster = _ShakyCluster(found)
        self.join(*gangs)
        self._most: int | None = None
        self._loop = self._process()

    def _process(self) -> Loop:
        scheduler = SchedulerProfile(frozenset({""}), self._profile)
        now = lambda: self.cluster.now  # noqa: E731
        return Loop(self.cluster, [scheduler], clock=now, ticks=now, most_pods=self._most)

    def join(self, *gangs: Gang) -> None:
        """Gangs that nobody has seen before, however old they are."""
        for gang in gangs:
            self.gangs[gang.name] = gang
            self.cluster.come([self._told(gang, raw) for raw in LANGUAGES[self._language](gang.name, gang.size)])

    def _told(self, gang: Gang, raw: Raw) -> Raw:
        meta: Raw = {"namespace": "default", "uid": f"u-{gang.name}", "creationTimestamp": stamp(START - gang.age)}
        if raw["kind"] == "Pod":
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": gang.name, "controller": True}
            raw = merged(raw, {"metadata": {**meta, "ownerReferences": [owner]}})
            spec = raw["spec"]
            assert isinstance(spec, dict)
            return raw if gang.asks else {**raw, "spec": {**spec, "containers": [{"name": "c"}]}}
        near: Raw = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}} if self._racks else {}
        return merged(raw, {"metadata": meta, **near})

    def crash_after(self, faults: Mapping[int, str], most: int | None = None) -> None:
        """What goes wrong at which of the binds to come; `most` pods are placed by one cycle from now on."""
        self.cluster.faults = {self.cluster.binds + number: fault for number, fault in faults.items()}
        if most != self._most:
            self._most, self._loop = most, self._process()

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.cluster.faults = {}

    def turn(self, after: float = 1.0) -> None:
        """Some time passes, and the process turns until it has nothing left to do at once."""
        self.cluster.now += after
        try:
            self._loop.run_once()
            while self._loop.unfinished:
                self._loop.run_once()
        except _DiedError:
            self._loop = self._process()

    def standing(self, gang: str) -> list[str]:
        """The nodes of its pods that have one."""
        return [pod.spec.node_name for pod in self.pods(gang) if pod.spec.node_name]

    def pods(self, gang: str) -> list[Pod]:
        every = self.cluster.read().every(Pod).values()
        return [pod for pod in every if pod.metadata.name.startswith(f"{gang}-")]

    def half(self) -> list[str]:
        """Gangs of which a part stands."""
        return [g.name for g in self.gangs.values() if 0 < len(self.standing(g.name)) < g.size]

    def rooms(self, gang: str) -> list[str]:
        """The nodes on which a pod of a gang that stands in part could stand beside the others, one for each cpu."""
        racks = {node[:-1] for node in self.standing(gang)} if self._racks else set(RACKS)
        return [node for node in self.free() if node[:-1] in racks]

    def free(self) -> list[str]:
        """Nodes that are idle, one for each cpu."""
        taken: list[str] = [node for gang in self.gangs.values() if gang.asks for node in self.standing(gang.name)]
        found: list[str] = []
        for name, node in self._nodes():
            found += [name] * (node - taken.count(name))
        return found

    def _nodes(self) -> Iterator[tuple[str, int]]:
        for key in self.cluster.read():
            raw = self.cluster.read().raw(key)
            if key.kind == "Node" and raw is not None:
                yield key.name, int(raw["status"]["allocatable"]["cpu"])  # type: ignore[index]


def drawn(seed: int) -> tuple[random.Random, list[Gang], list[Gang]]:
    """Gangs that are there from the beginning, and older ones that come while things go wrong."""
    chance = random.Random(seed)
    first = [Gang(f"g{i}", chance.randint(2, 4), chance.randint(0, 50)) for i in range(chance.randint(1, 3))]
    older = [Gang(f"o{i}", chance.randint(1, 4), 100 + i) for i in range(chance.randint(1, 3))]
    return chance, first, older
