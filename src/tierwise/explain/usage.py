"""How much of the cluster is in use: per node, and by plain sums for every domain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Final

import msgspec
import numpy as np

from tierwise.api.quantity import show
from tierwise.dialects.kubernetes.requests import nominal
from tierwise.model.arrays import CPU, Ints
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Status
from tierwise.model.snapshot import Snapshot

__all__ = ["Usage", "held", "scarce", "scarce_of", "short", "usage"]

_ACCELERATOR: Final = re.compile(r"gpu|npu|tpu|ascend|gaudi|neuron|mlu|dcu", re.IGNORECASE)
_BYTES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Usage(msgspec.Struct, frozen=True):
    """One resource on every row of a snapshot."""

    resource: str
    total: Ints
    before: Ints
    after: Ints


def scarce(snapshot: Snapshot) -> str:
    """The resource that people look at first: accelerators where nodes have any, else cpu."""
    return scarce_of(dict(zip(snapshot.axis.names, snapshot.nodes.allocatable.sum(axis=1).tolist(), strict=True)))


def scarce_of(totals: Mapping[str, int]) -> str:
    """The scarce resource, given the amount of each resource that all nodes have together."""
    candidates = []
    for name, total in totals.items():
        if "/" in name and total > 0 and nominal(name) and _ACCELERATOR.search(name):
            candidates.append((not name.endswith("/gpu"), -total, name))
    return min(candidates)[2] if candidates else CPU


def held(snapshot: Snapshot, resource: str) -> Ints:
    """Sum of the requests of the pods on each row, for one resource."""
    used = np.zeros(len(snapshot.nodes), dtype=np.int64)
    index = snapshot.axis.index.get(resource)
    if index is None:
        return used
    for status in (Status.RUNNING, Status.RELEASING):
        tasks = chain(*(job.tasks for job in snapshot.jobs), snapshot.others)
        for number, rows in rows_by_shape(snapshot.nodes, tasks, status).items():
            used += int(snapshot.shapes[number].request[index]) * np.bincount(rows, minlength=len(used))
    for number, rows in snapshot.standing.items():
        used += int(snapshot.shapes[number].request[index]) * np.bincount(rows, minlength=len(used))
    return used


def usage(before: Snapshot, after: Snapshot, resource: str = "") -> Usage:
    """The scarce (or the named) resource in both snapshots, on the rows of the later one."""
    resource = resource or scarce(after)
    used = held(before, resource)
    row = before.nodes.row
    old = np.array([used[row[name]] if name in row else 0 for name in after.nodes.names], dtype=np.int64)
    index = after.axis.index.get(resource)
    total = after.nodes.allocatable[index] if index is not None else np.zeros(len(after.nodes), dtype=np.int64)
    return Usage(resource, total, old, held(after, resource))


def short(resource: str, amount: int) -> str:
    """An amount that people can take in at a glance: three digits or so, rounded."""
    if resource == CPU:
        return _digits(amount / 1000)
    exact = show(resource, amount)
    if exact.isdigit() and exact == str(amount) and not resource.endswith(("memory", "storage")):
        return exact
    value = float(amount)
    suffix = ""
    for larger in _BYTES:
        if value < 1024:
            break
        value = value / 1024
        suffix = larger
    return f"{_digits(value)}{suffix}"


def _digits(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0")
