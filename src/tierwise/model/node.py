"""The nodes of a cycle as columns: amounts, labels, taints, in topology order.

Labels and taints are kept by distinct value: a selector is answered once per value and spread over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints, NDArray, seal

if TYPE_CHECKING:
    from tierwise.api.core import Taint

__all__ = ["LabelColumn", "LabelTable", "NodeTable", "plain_nodes"]


class LabelColumn(msgspec.Struct, frozen=True):
    """One label over all rows: `values[codes[row]]`, code -1 where a node lacks the label."""

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    index: dict[str, int]  # the code of each value

    def where(self, wanted: Sequence[bool], *, missing: bool) -> Bools:
        """Spread an answer per value (and one for "no such label") over the rows."""
        answers = np.array([*wanted, missing], dtype=bool)  # code -1 picks the last entry
        return answers[self.codes]


class LabelTable:
    """Node labels by key; a column is made when it is first asked for."""

    NAME = "metadata.name"  # the one node field that selectors may name

    def __init__(self, names: Sequence[str], labels: Sequence[dict[str, str]]) -> None:
        self._names = names
        self._labels = labels
        self._columns: dict[str, LabelColumn] = {}
        self._absent = LabelColumn(
            np.full(len(labels), -1, dtype=np.int32), (), {}
        )  # one for all labels that no node has

    def column(self, key: str) -> LabelColumn:
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self._make(key)
        return found

    def of(self, row: int) -> dict[str, str]:
        return self._labels[row]

    def __len__(self) -> int:
        return len(self._labels)

    def _make(self, key: str) -> LabelColumn:
        if key == self.NAME:
            found: list[str | None] = list(self._names)
        else:
            found = [labels.get(key) for labels in self._labels]
        values = tuple(value for value in dict.fromkeys(found) if value is not None)
        if not values:
            return self._absent
        index = {value: code for code, value in enumerate(values)}
        codes = np.fromiter((index.get(v, -1) if v is not None else -1 for v in found), np.int32, len(found))
        return LabelColumn(codes, values, index)


class NodeTable(msgspec.Struct, frozen=True, dict=True):
    """Every node of the cluster, row by row in topology order."""

    names: tuple[str, ...]
    row: dict[str, int]
    rank: Ints  # natural order of the names, for ties
    number: Ints  # by which tasks name the node of each row: it stays while rows change, see `rows`
    allocatable: Ints  # (resources x rows)
    labels: LabelTable
    taints: tuple[tuple[Taint, ...], ...]  # the distinct taint sets
    taint_set: NDArray[np.int32]  # which of them each row has
    cordoned: Bools
    ready: Bools
    unhealthy: dict[int, str] = {}  # row -> the condition by which the profile counts the node as unhealthy
    images: tuple[dict[str, int], ...] = ()  # image name -> bytes, per row; empty where no node lists images

    def __post_init__(self) -> None:
        seal(self.rank, self.number, self.allocatable, self.taint_set, self.cordoned, self.ready)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def rows(self) -> Ints:
        """By number of a node, its row; the last entry is that of -1, of no node: -1."""
        rows = np.full(int(self.number.max(initial=-1)) + 2, -1, dtype=np.int64)
        rows[self.number] = np.arange(len(self.number))
        return rows


def plain_nodes(names: tuple[str, ...], rank: Ints, allocatable: Ints) -> NodeTable:
    """Ready nodes with these amounts, and with nothing else: for clusters that are drawn and not read."""
    number = len(names)
    return NodeTable(
        names=names,
        row={name: i for i, name in enumerate(names)},
        rank=rank,
        number=np.arange(number),
        allocatable=allocatable,
        labels=LabelTable(names, [{}] * number),
        taints=((),),
        taint_set=np.zeros(number, dtype=np.int32),
        cordoned=np.zeros(number, dtype=bool),
        ready=np.ones(number, dtype=bool),
    )
