"""Filling a cluster: pods that share GPUs arrive one by one and stay, until what arrived asks for a share of all GPUs.

Each pod has a cycle of its own, as it arrives; one that finds no place is gone.
A plugin of the cycle knows what is left of every device: it says which nodes fit, and what a pod would cost on each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tierwise.config.profile import Profile
from tierwise.framework.registry import extended
from tierwise.model.arrays import CPU, MEMORY, POD_SLOTS, Bools, Floats, Ints, distinct
from tierwise.model.job import Queue, Shape, plain_shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.tree import build_tree
from tierwise.plugins import PLUGINS
from tierwise.scheduler import cycle
from tierwise_lab.replay.engine.checkpoint import digest
from tierwise_lab.replay.engine.gangs import RunningGang, gang, job_key
from tierwise_lab.replay.engine.run import Replay
from tierwise_lab.replay.report.outcome import Data
from tierwise_lab.replay.shared_gpu import devices
from tierwise_lab.replay.shared_gpu.devices import DeviceState
from tierwise_lab.replay.shared_gpu.openb import WHOLE, Pods
from tierwise_lab.replay.shared_gpu.policies import SHARED, SharedGpus, strands
from tierwise_lab.replay.traces.fabric import AXIS, GPU, NAMESPACE, table_of
from tierwise_lab.replay.traces.trace import QUEUE

__all__ = ["Filling", "Fillings"]


_PODS = 10_000
_SAMPLES = 100
"""How often the cluster is looked at while it fills, at equal steps of what was asked for."""

_SIZES = ((0, 0, "0"), (1, 999, "<1"), (1000, 1000, "1"), (1001, 7999, "2-7"), (8000, None, "8+"))
"""Classes of pods by what they ask for in thousandths of a GPU, both ends included."""


class Filling:
    """A cluster as it fills up under one policy."""

    def __init__(
        self, names: tuple[str, ...], empty: DeviceState, pods: Pods, arriving: Ints, name: str, profile: Profile
    ) -> None:
        self.name, self._profile, self._strands = name, profile, strands(profile)
        self._arriving = arriving
        self._kinds = pods.kinds
        self._topology, rows = build_tree([], names)
        names = tuple(names[row] for row in rows)
        empty = empty.at(rows)
        self.state = DeviceState(empty.cpu.copy(), empty.memory.copy(), empty.left.copy())
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
        self._total = int(empty.left.sum())
        self._came = np.zeros(len(pods.kinds), dtype=np.int64)  # pods that arrived, by kind
        self._samples: list[list[float]] = []
        self._plugins = extended(PLUGINS, {SHARED: lambda arguments, view: SharedGpus(self, arguments, view)})

    @property
    def arrived(self) -> int:
        """Pods that came."""
        return int(self._came.sum())

    @property
    def placed(self) -> int:
        """Pods that found a place."""
        return int(self._standing.sum())

    def run(self) -> Iterator[None]:
        """Fill what is left to be filled; yields after every pod."""
        for kind in self._arriving[self.arrived :].tolist():
            self.arrive(kind)
            yield

    def progress(self) -> tuple[int, str]:
        """Pods that arrived, and what is allocated."""
        return self.arrived, f"{self.arrived:,} pods, {100 * self.allocation:.1f} % of GPUs allocated"

    def _shape(self, kind: int) -> Shape:
        kinds = self._kinds
        amounts = {CPU: kinds.cpu[kind], MEMORY: kinds.memory[kind], GPU: kinds.devices[kind] * kinds.each[kind]}
        request = AXIS.vector({name: int(amount) for name, amount in amounts.items()} | {POD_SLOTS: 1})
        return plain_shape(kind, request, namespace=NAMESPACE)

    def arrive(self, kind: int) -> None:
        """A pod comes: it is placed by a cycle, or it is gone."""
        arrived = self.arrived
        job = gang(RunningGang(job_key(arrived), arrived, 0, float(arrived)), [self._shapes[kind]])
        self._came[kind] += 1
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
            now=float(arrived),
            standing={n: np.repeat(every, counts) for n, counts in enumerate(self._standing) if counts.any()},
        )
        for decision in cycle(snapshot, self._profile, plugins=self._plugins).decisions:
            self._place(kind, int(decision.placed[0].rows[0]))
        self._look()

    def _look(self) -> None:
        """Note how full and how fragmented the cluster is, where a step of what is asked for was passed."""
        demand = int((self._came * self._kinds.devices * self._kinds.each).sum())
        if demand * _SAMPLES >= len(self._samples) * self._total:
            spoilt = float(devices.fragmentation(self.state, self._kinds).sum())
            figures = (demand / self._total, self.allocation, spoilt / self._total)
            self._samples.append([round(value, 6) for value in figures])

    def _place(self, kind: int, row: int) -> None:
        self.costs(kind)  # says which device is best
        node_state = self.state.at(np.array([row]))
        now = devices.after(node_state, self._kinds, kind, int(self._devices[kind][row]))
        self.state.cpu[row], self.state.memory[row], self.state.left[row] = now.cpu[0], now.memory[0], now.left[0]
        self._standing[kind, row] += 1
        self._moved.append(row)

    def fits(self, kind: int) -> Bools:
        return devices.fitting(self.state, self._kinds, kind)

    def costs(self, kind: int) -> Floats:
        """Fragmentation that a pod of a kind would cause on each node, by the policy's measure, on the best device
        there.
        """
        if kind not in self._costs:
            self._costs[kind] = np.zeros(len(self._nodes))
            self._devices[kind] = np.full(len(self._nodes), -1)
            rows = list(range(len(self._nodes)))
        else:
            rows = sorted(set(self._moved[self._seen[kind] :]))
        self._seen[kind] = len(self._moved)
        cost_by_key: dict[bytes, tuple[float, int]] = {}
        fits = self.fits(kind)
        for row in rows:
            if fits[row]:
                node_state = self.state.at(np.array([row]))
                key = node_state.cpu.tobytes() + node_state.memory.tobytes() + node_state.left.tobytes()
                if key not in cost_by_key:
                    cost_by_key[key] = self._cheapest(node_state, kind)
                self._costs[kind][row], self._devices[kind][row] = cost_by_key[key]
        return self._costs[kind]

    def _cheapest(self, node_state: DeviceState, kind: int) -> tuple[float, int]:
        choices = devices.options(node_state, self._kinds, kind)
        states_after = [devices.after(node_state, self._kinds, kind, device) for device in choices]
        stacked = DeviceState(
            *(
                np.concatenate(parts)
                for parts in zip(*((s.cpu, s.memory, s.left) for s in (node_state, *states_after)), strict=True)
            )
        )
        costs = devices.fragmentation(stacked, self._kinds)
        if self._strands:
            costs += devices.stranded(stacked, self._kinds)
        best = int(np.argmin(costs[1:]))
        return float(costs[1 + best] - costs[0]), choices[best]

    @property
    def allocated(self) -> float:
        """GPUs in use, parts of them counted as such."""
        return (self._total - int(self.state.left.sum())) / WHOLE

    @property
    def allocation(self) -> float:
        """Allocated GPUs as a share of all GPUs."""
        return self.allocated * WHOLE / self._total

    def kept(self) -> Data:
        """All that changes, as JSON data."""
        arrays = (self.state.cpu, self.state.memory, self.state.left, self._standing, self._came)
        return {"arrays": [array.tolist() for array in arrays], "samples": self._samples}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from there."""
        arrays = (self.state.cpu, self.state.memory, self.state.left, self._standing, self._came)
        for array, values in zip(arrays, saved["arrays"], strict=True):
            array[...] = values
        self._samples = saved["samples"]

    def outcome(self) -> Data:
        """How much of the cluster is in use, who was refused, and how it came to that."""
        return {
            "profile": self.name,
            "pods": {"arrived": self.arrived, "placed": self.placed, "refused": self.arrived - self.placed},
            "gpus": {
                "total": self._total / WHOLE,
                "allocated": self.allocated,
                "allocation": round(self.allocation, 6),
            },
            "pods_by_size": [self._size(low, high, name) for low, high, name in _SIZES],
            "samples": [dict(zip(("asked", "allocated", "fragmented"), s, strict=True)) for s in self._samples],
        }

    def _size(self, low: int, high: int | None, name: str) -> Data:
        demand = self._kinds.devices * self._kinds.each
        of_size = (demand >= low) & (demand <= (self._total if high is None else high))
        came = int(self._came[of_size].sum())
        stand = int(self._standing[of_size].sum())
        return {"gpus": name, "arrived": came, "refused": came - stand}


# Several policies that fill the same nodes with the same pods, one after the other; interruptible as replays are.


class Fillings(Replay[Filling]):
    """A replay that fills the same nodes with the same pods under several policies."""

    def __init__(
        self, names: tuple[str, ...], empty: DeviceState, pods: Pods, arriving: Ints, policies: Mapping[str, Profile]
    ) -> None:
        self._nodes = names
        self._empty = empty
        self._pods = pods
        self._arriving = arriving
        self._policies = dict(policies)
        kinds = pods.kinds
        columns = [arriving, kinds.cpu, kinds.memory, kinds.devices, kinds.each, kinds.weight]
        inputs = digest([*columns, empty.cpu, empty.memory, empty.left], names, self._policies)
        super().__init__(tuple(policies), len(arriving), inputs)

    def _begin(self, number: int, state: Data | None) -> Filling:
        name = self.names[number]
        filling = Filling(self._nodes, self._empty, self._pods, self._arriving, name, self._policies[name])
        if state is not None:
            filling.restore(state)
        return filling

    def _outcome(self, current: Filling) -> Data:
        return current.outcome()

    def _inputs(self) -> Data:
        demand = (self._pods.kinds.devices * self._pods.kinds.each)[self._arriving].sum()
        gpus = int(self._empty.left.sum()) // WHOLE
        return {
            "nodes": len(self._nodes),
            "gpus": gpus,
            "pods": len(self._arriving),
            "arrived_load": round(float(demand) / (gpus * WHOLE), 6) if gpus else None,
            "kinds": len(distinct(self._arriving)),
        }
