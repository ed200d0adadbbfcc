"""Filling a cluster: pods that share GPUs arrive one by one and stay, until what arrived asks for a share of all GPUs.

Each pod has a cycle of its own, as it arrives; one that finds no place is gone. The order of arrival is drawn with the
seed: all pods of the trace in an order by chance, then, where they are too few, pods drawn from it with replacement.
A plugin of the cycle knows what is left of every device: it says which nodes fit, and what a pod would cost on each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.extension import Arguments, Ask, CycleView, Reach
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.queue import Queue
from tierwise.model.reason import Reason
from tierwise.model.resources import CPU, MEMORY, POD_SLOTS
from tierwise.model.shape import Shape, plain_shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.tree import grow
from tierwise.plugins import PLUGINS
from tierwise.replay.fabric import AXIS, GPU, NAMESPACE, table_of
from tierwise.replay.figures import Data
from tierwise.replay.gangs import Stand, gang
from tierwise.replay.openb import WHOLE, Pods
from tierwise.replay.sharing import State, after, fitting, fragmentation, options, stranded
from tierwise.replay.trace import QUEUE
from tierwise.scheduler import cycle

__all__ = ["POLICIES", "Filling", "order"]

_SHARED = "replay-shared-gpus"
_PODS = 10_000
_BINPACK = PluginChoice("binpack", {"binpack.resources": GPU})


def _profile(*scorers: PluginChoice) -> Profile:
    plugins = (PluginChoice("predicates"), PluginChoice(_SHARED, {"score": not scorers}), *scorers)
    return replace(DEFAULT, actions=("allocate",), tiers=((PluginChoice("gang"),), plugins))


POLICIES = {"fragmentation": _profile(), "stranding": _profile(), "best-fit": _profile(_BINPACK)}
"""Profiles by name: nodes by what a pod adds to fragmentation, to that and to what is stranded, or fullest first."""


def order(pods: Pods, load: float, gpus: int, seed: int) -> Ints:
    """The kinds of the pods that arrive, until they ask for so much of the GPUs."""
    rng = np.random.default_rng(seed)
    arriving = pods.kind[rng.permutation(len(pods.kind))]
    asked = (pods.kinds.devices * pods.kinds.each)[arriving].sum()
    while asked < load * gpus * WHOLE:
        more = pods.kind[rng.integers(len(pods.kind), size=len(pods.kind))]
        arriving = np.concatenate((arriving, more))
        asked += (pods.kinds.devices * pods.kinds.each)[more].sum()
    upto = np.cumsum((pods.kinds.devices * pods.kinds.each)[arriving])
    return arriving[: int(np.searchsorted(upto, load * gpus * WHOLE)) + 1]


class Filling:
    """A cluster as it fills up under one policy."""

    def __init__(self, names: tuple[str, ...], empty: State, pods: Pods, policy: str) -> None:
        self.policy = policy
        self._kinds = pods.kinds
        self._topology, rows = grow([], names)
        names, empty = tuple(names[row] for row in rows), empty.at(np.array(rows))
        self.state = State(empty.cpu.copy(), empty.memory.copy(), empty.left.copy())
        amounts = np.zeros((len(AXIS), len(names)), dtype=np.int64)
        index = AXIS.index
        amounts[index[CPU]], amounts[index[MEMORY]] = empty.cpu, empty.memory
        amounts[index[POD_SLOTS]], amounts[index[GPU]] = _PODS, empty.left.sum(axis=1)
        self._nodes = table_of(names, amounts)
        self._shapes = tuple(self._shape(kind) for kind in range(len(pods.kinds)))
        self._standing = np.zeros((len(self._shapes), len(names)), dtype=np.int64)
        self._costs: dict[int, Floats] = {}
        self._devices: dict[int, Ints] = {}
        self._seen: dict[int, int] = {}
        self._moved: list[int] = []
        self.arrived = self.placed = 0
        self._total = int(empty.left.sum())
        self._plugins = {**PLUGINS, _SHARED: lambda arguments, view: SharedGpus(self, arguments, view)}

    def _shape(self, kind: int) -> Shape:
        kinds = self._kinds
        amounts = {CPU: kinds.cpu[kind], MEMORY: kinds.memory[kind], GPU: kinds.devices[kind] * kinds.each[kind]}
        request = AXIS.vector({name: int(amount) for name, amount in amounts.items()} | {POD_SLOTS: 1})
        return plain_shape(kind, request, namespace=NAMESPACE)

    def arrive(self, kind: int) -> None:
        """A pod comes: it is placed by a cycle, or it is gone."""
        job = gang(Stand(self.arrived, 0, float(self.arrived)), [self._shapes[kind]])
        self.arrived += 1
        every = np.arange(len(self._nodes))
        snapshot = Snapshot(
            axis=AXIS,
            nodes=self._nodes,
            topology=self._topology,
            queues={QUEUE: Queue(QUEUE)},
            jobs=(job,),
            shapes=self._shapes,
            others=(),
            orphans={},
            faults=(),
            now=float(self.arrived),
            standing={n: np.repeat(every, counts) for n, counts in enumerate(self._standing) if counts.any()},
        )
        for decision in cycle(snapshot, POLICIES[self.policy], plugins=self._plugins).decisions:
            self._place(kind, int(decision.placed[0].rows[0]))

    def _place(self, kind: int, row: int) -> None:
        self.costs(kind)  # says which device is best
        one = self.state.at(np.array([row]))
        now = after(one, self._kinds, kind, int(self._devices[kind][row]))
        self.state.cpu[row], self.state.memory[row], self.state.left[row] = now.cpu[0], now.memory[0], now.left[0]
        self._standing[kind, row] += 1
        self._moved.append(row)
        self.placed += 1

    def fits(self, kind: int) -> Bools:
        return fitting(self.state, self._kinds, kind)

    def costs(self, kind: int) -> Floats:
        """What a pod of a kind would spoil of each node, by the measure of the policy, on its best device there."""
        if kind not in self._costs:
            self._costs[kind] = np.zeros(len(self._nodes))
            self._devices[kind] = np.full(len(self._nodes), -1)
            rows = list(range(len(self._nodes)))
        else:
            rows = sorted(set(self._moved[self._seen[kind] :]))
        self._seen[kind] = len(self._moved)
        known: dict[bytes, tuple[float, int]] = {}
        fits = self.fits(kind)
        for row in rows:
            if fits[row]:
                one = self.state.at(np.array([row]))
                key = one.cpu.tobytes() + one.memory.tobytes() + one.left.tobytes()
                if key not in known:
                    known[key] = self._cheapest(one, kind)
                self._costs[kind][row], self._devices[kind][row] = known[key]
        return self._costs[kind]

    def _cheapest(self, one: State, kind: int) -> tuple[float, int]:
        choices = options(one, self._kinds, kind)
        each = [after(one, self._kinds, kind, device) for device in choices]
        stacked = State(
            *(np.concatenate(parts) for parts in zip(*((s.cpu, s.memory, s.left) for s in (one, *each)), strict=True))
        )
        found = fragmentation(stacked, self._kinds)
        if self.policy == "stranding":
            found += stranded(stacked, self._kinds)
        best = int(np.argmin(found[1:]))
        return float(found[1 + best] - found[0]), choices[best]

    @property
    def allocated(self) -> float:
        """GPUs in use, parts of them counted as such."""
        return (self._total - int(self.state.left.sum())) / WHOLE

    @property
    def allocation(self) -> float:
        """The same as a share of all GPUs."""
        return self.allocated * WHOLE / self._total

    def outcome(self) -> Data:
        """How much of the cluster is in use."""
        return {
            "profile": self.policy,
            "pods": {"arrived": self.arrived, "placed": self.placed, "refused": self.arrived - self.placed},
            "gpus": {
                "total": self._total / WHOLE,
                "allocated": self.allocated,
                "allocation": round(self.allocation, 6),
            },
        }


class SharedGpus:
    """Which nodes have devices for a pod, and, where it is to score, those of which it spoils least first."""

    def __init__(self, filling: Filling, arguments: Arguments, view: CycleView) -> None:
        self._filling = filling
        self._scores = bool(arguments.get("score"))
        self._code = view.reasons.number(Reason("NoDevice", _SHARED, "no GPU has enough left"))

    def why_not(self, shape: Shape) -> Why:
        """Nodes on which no device, or not enough of them, has enough left."""
        return np.where(self._filling.fits(shape.number), 0, self._code).astype(np.uint16)

    def reach(self, ask: Ask) -> Reach:
        """One pod a cycle: nothing moves."""
        return Reach.FIXED

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The less a pod spoils, the better."""
        if not self._scores:
            return np.zeros(span.stop - span.start)
        return -self._filling.costs(ask.shape.number)[span]

    def stale(self, ask: Ask, row: int) -> slice:
        """Nothing."""
        return slice(row, row)
