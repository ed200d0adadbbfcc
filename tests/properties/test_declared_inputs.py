"""What a snapshot is made from is declared: what is read besides is named, and what is declared is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from tests.support.field_walk import PARTS, changes, world

from tierwise.api.codec import Object
from tierwise.api.core import Node, PodDisruptionBudget
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.volcano import HyperNode
from tierwise.port import Objects
from tierwise.snapshot.budgets import SCOPE
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences
from tierwise.snapshot.derive import Facet, Graph, Kinds, Records
from tierwise.snapshot.nodes import LAYERED, OF_HYPERNODES, OF_TREES

IDENTITY = ("metadata.name", "metadata.namespace")
"""A record of another name is another record."""

FACETS: dict[type[Object], tuple[Facet, str]] = {
    Node: (OF_TREES, "pods"),
    HyperNode: (OF_HYPERNODES, "pods"),
    ClusterNetworkTopology: (LAYERED, "gangs"),
    PodDisruptionBudget: (SCOPE, "pods"),
}
"""With the part of the world in which each matters."""


class View:
    """A record that notes which fields are looked at besides those that are declared."""

    def __init__(self, record: object, paths: tuple[str, ...], read: set[str], at: str) -> None:
        self._seen = record, paths, read, at

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # what it stands for, to whoever asks
        return type(self._seen[0])

    def __getattr__(self, name: str) -> Any:
        record, paths, read, at = self._seen
        path = f"{at}.{name}" if at else name
        if path in paths:
            return getattr(record, name)
        if any(one.startswith(f"{path}.") for one in paths):
            return View(getattr(record, name), paths, read, path)
        read.add(path)
        return getattr(record, name)


class WatchedObjects(Objects, frozen=True, dict=True):
    """Objects that note which types are looked at besides those that are declared."""

    def watch(self, types: tuple[type[Object], ...], read: set[str]) -> WatchedObjects:
        self.__dict__.update(types=types, read=read)
        return self

    def every(self, record: type[Any]) -> Mapping[str, Any]:
        if record not in self.__dict__["types"]:
            self.__dict__["read"].add(record.__name__)
        return super().every(record)


class WatchedKinds(Kinds):
    """The objects of some types, watched."""

    def make(self, reading: int) -> None:
        super().make(reading)
        if self.at == reading:
            fields = {name: getattr(self.value, name) for name in Objects.__struct_fields__}
            self.value = WatchedObjects(**fields).watch(self.types, self.graph.read_besides)  # type: ignore[attr-defined]


class WatchedRecords(Records[Any]):
    """The records of a type, watched where some fields alone are declared."""

    def make(self, reading: int) -> None:
        super().make(reading)
        if self.at == reading and self.facet is not None:
            read: set[str] = self.graph.read_besides  # type: ignore[attr-defined]
            paths = (*self.facet.paths, *IDENTITY)
            self.value = {path: View(record, paths, read, "") for path, record in self.value.items()}


class WatchingGraph(Graph):
    """A graph that notes what functions look at besides what they declare."""

    def __init__(self) -> None:
        super().__init__()
        self.read_besides: set[str] = set()

    def kinds(self, *types: type[Object]) -> WatchedKinds:
        return WatchedKinds(self, types)

    def records(self, kind: type[Any], facet: Facet | None = None) -> WatchedRecords:
        return WatchedRecords(self, kind, facet)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_read_besides(part: str) -> None:
    """Each function is given the types and fields that it declares; the snapshot is the same."""
    graph = WatchingGraph()

    watched = Reader(graph=graph).read(world(part), 0.0)

    assert set() == graph.read_besides
    assert [] == differences(watched, build(world(part), 0.0))


@pytest.mark.parametrize(
    ("kind", "path"), [(kind, path) for kind, (facet, _) in FACETS.items() for path in facet.paths], ids=str
)
def test_each_declared_field_is_needed(kind: type[Object], path: str) -> None:
    """Without it the walk over the fields of a record finds a snapshot that was kept and is not as a fresh one."""
    facet, part = FACETS[kind]
    less = Facet(*(one for one in facet.paths if one != path), "metadata.name")
    objects = world(part)
    with patch.object(facet, "same", less.same):
        reader = Reader()
        reader.read(objects, 0.0)
        assert any(
            differences(reader.read(changed, 0.0), build(changed, 0.0)) for changed in _changed(objects, kind, path)
        )


def _changed(objects: Objects, kind: type[Object], path: str) -> Any:
    """The objects with another value of a field of one of these records."""
    for key in objects:
        record = objects.record(key)
        if isinstance(record, kind):
            for where, records in changes(record):
                if where.startswith(path):
                    for other in records:
                        yield objects.updated({key: (other, None)}, (), objects.version + 1)
