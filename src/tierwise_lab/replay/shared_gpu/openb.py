"""Reader of Alibaba's GPU cluster trace of 2023 ("openb"): nodes of several sizes, and pods that share GPUs."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.api.errors import InputError
from tierwise.model.arrays import Ints
from tierwise_lab.replay.shared_gpu.devices import DeviceState, PodKinds
from tierwise_lab.replay.traces.readers import Table

__all__ = ["WHOLE", "Pods", "is_openb", "order", "read_nodes", "read_pods"]

WHOLE = 1000
"""A GPU, in thousandths."""

_NODES = ("sn", "cpu_milli", "memory_mib", "gpu")
_PODS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class Pods(msgspec.Struct, frozen=True):
    """The kinds of pods that occur, and the kind of every pod in the order of the file."""

    kinds: PodKinds
    kind: Ints


def is_openb(table: Table) -> bool:
    """Whether a table lists nodes with their amounts, and not hosts below switches."""
    return set(_NODES) <= set(table.titles)


def read_nodes(table: Table) -> tuple[tuple[str, ...], DeviceState]:
    """The names of the nodes, and what they have when nothing runs."""
    names = tuple(table.column("sn", str))
    if len(set(names)) < len(names):
        raise InputError("a node is given twice", file=table.file, field="sn")
    gpus = _column(table, "gpu")
    free_parts = np.where(np.arange(max(1, int(gpus.max())))[None, :] < gpus[:, None], WHOLE, 0)
    return names, DeviceState(_column(table, "cpu_milli"), _column(table, "memory_mib"), free_parts)


def read_pods(table: Table) -> Pods:
    """Pods by kind; a pod's share of a GPU counts only where it asks for one."""
    missing = [title for title in _PODS if title not in table.titles]
    if missing:
        raise InputError(f"columns {', '.join(_PODS)} are expected; {missing[0]} is missing", file=table.file)
    columns = np.stack([_column(table, title) for title in _PODS], axis=1)
    columns[columns[:, 2] == 0, 3] = 0
    kinds, kind, count = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    return Pods(PodKinds(kinds[:, 0], kinds[:, 1], kinds[:, 2], kinds[:, 3], count / len(kind)), kind.reshape(-1))


def order(pods: Pods, load: float, gpus: int, seed: int) -> Ints:
    """The kinds of the pods that arrive, until they ask for so much of the GPUs.

    All pods of the trace in an order by chance, then, where they are too few, pods drawn from it with replacement.
    """
    rng = np.random.default_rng(seed)
    arriving = pods.kind[rng.permutation(len(pods.kind))]
    demand = (pods.kinds.devices * pods.kinds.each)[arriving].sum()
    while demand < load * gpus * WHOLE:
        extra_pods = pods.kind[rng.integers(len(pods.kind), size=len(pods.kind))]
        arriving = np.concatenate((arriving, extra_pods))
        demand += (pods.kinds.devices * pods.kinds.each)[extra_pods].sum()
    upto = np.cumsum((pods.kinds.devices * pods.kinds.each)[arriving])
    return arriving[: int(np.searchsorted(upto, load * gpus * WHOLE)) + 1]


def _column(table: Table, title: str) -> Ints:
    return np.array(table.column(title, _natural), dtype=np.int64)


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value
