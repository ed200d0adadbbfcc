"""What is kept between readings: values that declare what they are made from, and nothing that is invalidated by hand.

A graph is declared once and read again and again. Each value names its inputs and the function that makes it; where no
input is another since the reading before, the value stays, and where the function makes an equal one, it stays too, so
that nothing behind it runs. The forms:

- `kinds`: objects of some types, as they are now; another where one of these has come, gone or become another record.
- `records`: the same of one type by path, with those that are others; with a `Facet`, in these fields alone.
- `whole`: one value, made again as a whole; `struct`: a record, of which each field is a value.
- `Each`: one value for each record, made again for those that are others.
- `Rows`: columns in the order of nodes, read again for the rows that are others.
- `follow`: what a follower with a memory makes of its inputs. Its value may depend on the past in numbers alone.

Values are brought up to date in the order in which they were declared. A function that raises empties the graph: the
next reading begins from nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import repeat
from operator import attrgetter, eq, is_
from typing import Any, Generic, TypeVar

import numpy as np

from tierwise.api.codec import Object
from tierwise.model.arrays import NDArray
from tierwise.port import Objects

__all__ = ["Derived", "Each", "Facet", "Graph", "Index", "Kinds", "Order", "Records", "Rows"]

V = TypeVar("V")
W = TypeVar("W")
S = TypeVar("S")
R = TypeVar("R", bound=Object)
A = TypeVar("A", bound=np.generic)
K = TypeVar("K", "Kinds", "Records[Any]")


class Facet:
    """Fields of a record, by their paths: all of it that those who declare it may look at."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self._get = attrgetter(*paths)

    def same(self, a: object, b: object) -> bool:
        """Whether two records are the same in these fields."""
        return bool(self._get(a) == self._get(b))


class Derived(ABC, Generic[V]):
    """A value, and the number of the reading at which it last became another."""

    value: V

    def __init__(self, graph: Graph, inputs: Sequence[Derived[Any]] = ()) -> None:
        self.graph = graph
        self.inputs = inputs
        self.dependents: list[Derived[Any]] = []
        self.at = -1  # it has never been made
        self.due = True  # whether an input is another since it was made
        for source in inputs:
            source.dependents.append(self)
        graph.add(self)

    @property
    def changed(self) -> bool:
        """Whether this reading has made it another."""
        return self.at == self.graph.reading

    @abstractmethod
    def make(self, reading: int) -> None:
        """Make it again, and say so where it is another now."""

    def forget(self) -> None:
        """Begin from nothing."""
        self.at = -1
        self.due = True


class Kinds(Derived[Objects]):
    """The objects of a reading, for whoever looks at some types of them alone."""

    def __init__(self, graph: Graph, types: tuple[type[Object], ...]) -> None:
        super().__init__(graph)
        self.types = types

    def make(self, reading: int) -> None:
        self.value = self.graph.objects
        self.at = reading


class Records(Derived[Mapping[str, R]]):
    """The records of a type by path, in natural order."""

    def __init__(self, graph: Graph, kind: type[R], facet: Facet | None) -> None:
        super().__init__(graph)
        self.types = (kind,)
        self.facet = facet
        self._kind = kind
        self._latest: Mapping[str, R | None] = {}

    @property
    def latest(self) -> Mapping[str, R | None]:
        """Those that this reading has made others, as they are now; None for one that is gone."""
        return self._latest if self.changed else {}

    def make(self, reading: int) -> None:
        now = self.graph.objects
        before = self.graph.before
        latest = now.latest(before, self._kind)
        records = now.every(self._kind)
        if self.facet is not None:
            is_same = self.facet.same
            previous = before.every(self._kind)
            latest = {
                path: record
                for path, record in latest.items()
                if record is None or path not in previous or not is_same(record, previous[path])
            }
        if latest or self.at < 0:
            self.value = records
            self.at = reading
            self._latest = latest


class Whole(Derived[V]):
    """One value that is made again as a whole, by a function that may have a memory."""

    def __init__(
        self,
        graph: Graph,
        function: Callable[..., V],
        inputs: Sequence[Derived[Any]],
        is_same: Callable[[V, V], bool],
        start: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(graph, inputs)
        self._function = function
        self._same = is_same
        self._start = start
        self._memory = () if start is None else (start(),)

    def make(self, reading: int) -> None:
        result = self._function(*self._memory, *[source.value for source in self.inputs])
        if self.at < 0 or not self._same(self.value, result):
            self.value = result
            self.at = reading

    def forget(self) -> None:
        super().forget()
        self._memory = () if self._start is None else (self._start(),)


class Each(Derived[dict[str, V]]):
    """Result of a function for each record, in order; equal values are kept."""

    def __init__(self, source: Records[Any], function: Callable[[Any], V]) -> None:
        super().__init__(source.graph, (source,))
        self.value = {}
        self._others: Collection[str] = ()
        self._source = source
        self._function = function

    @property
    def others(self) -> Collection[str]:
        """The paths that have come, gone or got another value in this reading."""
        return self._others if self.changed else ()

    def make(self, reading: int) -> None:
        values = self.value
        function = self._function
        removed = []
        came = False
        for path, record in self._source.latest.items():
            if record is None:
                if path in values:
                    del values[path]
                    removed.append(path)
                continue
            value = function(record)
            if path not in values:
                came = True
            elif values[path] == value:
                continue
            values[path] = value
            removed.append(path)
        if came:
            self.value = {path: values[path] for path in self._source.value}
        if removed or self.at < 0:
            self._others = removed
            self.at = reading

    def forget(self) -> None:
        super().forget()
        self.value = {}


class Order:
    """The order of rows, and the place of each of them in the order before."""

    def __init__(self, names: tuple[str, ...], previous: Order | None = None) -> None:
        self.names = names
        self.row = dict(zip(names, range(len(names)), strict=True))
        previous_rows: Mapping[str, int] = previous.row if previous is not None else {}
        self.previous = np.fromiter(map(previous_rows.get, names, repeat(-1)), np.int64, len(names))


class Rows(Derived[NDArray[A]]):
    """A column with an entry for each row, or several of them: the last dimension is that of rows.

    What is read of some rows is what is read of all of them there: `read(a + b)` is `read(a)` and then `read(b)`.
    """

    def __init__(
        self,
        order: Derived[Order],
        source: Each[V],
        read_values: Callable[..., NDArray[A]],
        *shared: Derived[Any],
        patch: Callable[..., NDArray[A] | None] | None = None,
    ) -> None:
        """It is read from the values of rows, and by what they share.

        Where that is another, `patch` makes the column from the last one and from both, or says that all is to be read.
        """
        super().__init__(source.graph, (order, source, *shared))
        self._order = order
        self._source = source
        self._shared = shared
        self._read = read_values
        self._patch = patch
        self._by: list[Any] = []  # the shared inputs that the value was made by

    def make(self, reading: int) -> None:
        order = self._order.value
        values = self._source.value
        by = [source.value for source in self._shared]
        previous: NDArray[A] | None = self.value if self.at >= 0 else None
        if previous is not None and any(source.changed for source in self._shared):
            previous = self._patch(previous, self._by, by) if self._patch is not None else None
        self._by = by
        if previous is None or not previous.shape[-1]:
            self.value = self._read([values[name] for name in order.names], *by)
            self.at = reading
            return
        dirty = [order.row[name] for name in self._source.others if name in order.row]
        if self._order.changed:
            result = previous[..., order.previous]
            dirty = [*{*dirty, *np.flatnonzero(order.previous < 0).tolist()}]
        else:
            result = previous.copy() if previous is self.value else previous
        if dirty:
            result[..., dirty] = self._read([values[order.names[row]] for row in dirty], *by)
        if (
            self._order.changed
            or previous is not self.value
            or not np.array_equal(result[..., dirty], previous[..., dirty])
        ):
            self.value = result
            self.at = reading


class Index(Generic[W]):
    """By key, its paths; a path may have several keys."""

    def __init__(self) -> None:
        self._keys: dict[str, Collection[W]] = {}
        self._paths: dict[W, set[str]] = {}

    def __getitem__(self, key: W) -> Set[str]:
        return self._paths.get(key, _NO_PATHS)

    def __iter__(self) -> Iterator[W]:
        return iter(self._paths)

    def keys(self, path: str) -> Collection[W]:
        """The keys of a path."""
        return self._keys.get(path, ())

    def put(self, path: str, keys: Collection[W]) -> None:
        """Put a path under these keys, which are distinct, and under no others."""
        for key in self._keys.pop(path, ()):
            paths = self._paths[key]
            paths.discard(path)
            if not paths:
                del self._paths[key]
        if keys:
            self._keys[path] = keys
            for key in keys:
                self._paths.setdefault(key, set()).add(path)


_NO_PATHS: Set[str] = frozenset()


class Graph:
    """Values in the order in which they were declared."""

    def __init__(self) -> None:
        self.objects = self.before = Objects()  # of this reading and of the one before
        self.reading = 0
        self._kept: list[Derived[Any]] = []
        self._known: dict[tuple[type[Object], ...], Kinds] = {}
        self._sources: dict[type[Object], list[Derived[Any]]] = {}

    def add(self, derived: Derived[Any]) -> None:
        self._kept.append(derived)

    def _source(self, source: K) -> K:
        for kind in source.types:
            self._sources.setdefault(kind, []).append(source)
        return source

    def read(self, objects: Objects) -> None:
        """Bring all values up to date."""
        self.before = self.objects
        self.objects = objects
        self.reading += 1
        reading = self.reading
        sources = self._sources
        for kind in objects.differing_types(self.before):
            for source in sources.get(kind, ()):
                source.due = True
        try:
            for node in self._kept:
                if node.due:
                    node.make(reading)
                    node.due = False
                    if node.at == reading:
                        for dependent in node.dependents:
                            dependent.due = True
        except BaseException:
            self.objects = Objects()
            for node in self._kept:
                node.forget()
            raise

    def close(self) -> None:
        """Let go of all values at once: they refer to each other, and would wait for the collector."""
        for node in self._kept:
            node.__dict__.clear()
        self.__dict__.clear()

    def kinds(self, *types: type[Object]) -> Derived[Objects]:
        """The objects, of which these types alone are looked at."""
        if types not in self._known:
            self._known[types] = self._source(Kinds(self, types))
        return self._known[types]

    def records(self, kind: type[R], facet: Facet | None = None) -> Records[R]:
        """The records of a type, of which these fields alone are looked at."""
        return self._source(Records(self, kind, facet))

    def whole(self, function: Callable[..., V], *inputs: Derived[Any]) -> Derived[V]:
        """Result of a function of these inputs, computed again when one of them changes."""
        return Whole(self, function, inputs, is_)

    def equal(
        self, function: Callable[..., V], *inputs: Derived[Any], is_equal: Callable[[V, V], bool] = eq
    ) -> Derived[V]:
        """A derived value that keeps the last one where the new one equals it."""
        return Whole(self, function, inputs, is_equal)

    def follow(self, start: Callable[[], S], step: Callable[..., V], *inputs: Derived[Any]) -> Derived[V]:
        """Result of a follower of these inputs, which may remember earlier ones."""
        return Whole(self, step, inputs, is_, start)

    def struct(self, record: Callable[..., V], /, **fields: Derived[Any]) -> Derived[V]:
        """A record of which each field is one of these values."""
        return self.whole(lambda *values: record(**dict(zip(fields, values, strict=True))), *fields.values())
