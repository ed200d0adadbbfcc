"""What an expression can cost at most, in the units in which the API server counts before it stores one.

The sizes of a device's parts are known by their limits; those of literals by their values; where nothing is known
a size is beyond all bounds, and so is what is done with it.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tierwise.api.cel.check import Checked
from tierwise.api.cel.library import BOOL, DOUBLE, DURATION, INT, QUANTITY, SEMVER, TIMESTAMP, UINT, Type
from tierwise.api.cel.syntax import Call, Comprehension, ListOf, Literal, MapOf, Name, Node, Select

__all__ = ["LIMIT", "PATTERN_FACTOR", "TEXT_FACTOR", "estimate"]

LIMIT: Final = 1_000_000
"""What one selector may cost, estimated and when it is evaluated (CELSelectorExpressionMaxCost of Kubernetes)."""

TEXT_FACTOR: Final = 0.1
"""The cost of going over one character of a text."""

PATTERN_FACTOR: Final = 0.25
"""The cost of one character of a pattern, for each unit that the text costs."""

_LIST, _MAP = 10, 30
_ENDLESS: Final = 2**64 - 1
_MOST_LISTED: Final = 48

_Path = tuple[str, ...]


class _Size(msgspec.Struct, frozen=True):
    """The least and the largest size of a value."""

    least: int
    most: int

    def union(self, other: _Size) -> _Size:
        return _Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: _Size) -> _Size:
        return _Size(_capped(self.least + other.least), _capped(self.most + other.most))

    def times(self, other: _Size) -> _Size:
        return _Size(_capped(self.least * other.least), _capped(self.most * other.most))

    def cost(self, factor: float) -> int:
        """The most that it costs, at so much for each."""
        return _by(self.most, factor)


class _Entries(msgspec.Struct, frozen=True):
    """The sizes of what a list or a map holds."""

    kind: str
    key: _Size
    value: _Size


class _Local(msgspec.Struct, frozen=True):
    path: _Path
    size: _Size | None
    entries: _Entries | None = None


_UNKNOWN: Final = _Size(0, _ENDLESS)
_ONE: Final = _Size(1, 1)

_Tree = tuple[int | None, dict[str, "_Tree"]]
"""The size of a part of a device, and its parts: by field, or those of keys and values."""

_VALUE: Final[_Tree] = (64, {})
_NAMED: Final[_Tree] = (32, {"@keys": (32, {}), "@values": _VALUE, "@items": _VALUE, "*": _VALUE})
_AMOUNTS: Final[_Tree] = (32, {"@keys": (32, {}), "@values": (0, {}), "@items": (0, {})})
_DEVICE: Final[_Tree] = (
    0,
    {
        "driver": (63, {}),
        "allowMultipleAllocations": (1, {}),
        "attributes": (32, {"@keys": (63, {}), "@values": _NAMED, "@items": _NAMED}),
        "capacity": (32, {"@keys": (63, {}), "@values": _AMOUNTS, "@items": _AMOUNTS}),
    },
)


def estimate(root: Node, checked: Checked) -> int:
    """The most that a tree can cost."""
    return _Coster(checked).cost(root)


def _capped(number: int) -> int:
    return min(number, _ENDLESS)


def _by(number: int, factor: float) -> int:
    if number:
        return _capped(math.ceil(float(number) * factor))
    return 0


def _known(path: _Path) -> _Size | None:
    """The size of a part of the device by its path."""
    if not path or path[0] != "device":
        return None
    tree = _DEVICE
    for step in path[1:]:
        subtree = tree[1].get(step) or (tree[1].get("*") if not step.startswith("@") else None)
        if subtree is None:
            return None
        tree = subtree
    return _Size(0, tree[0] or 0)


class _Coster:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, _Size] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        match node:
            case Literal():
                return 0
            case Name(name):
                local = self._local(name)
                self._paths[id(node)] = local.path if local is not None else (name,)
                return 1
            case Select(of, field, test):
                node_cost = self.cost(of)
                if test:
                    return node_cost
                self._paths[id(node)] = (*self._path(of), field)
                kind = self._checked.type_of(of)[0]
                return _capped(node_cost + (kind == "map" or str(kind).startswith("kubernetes.")))
            case ListOf(items, _):
                costs = sum(map(self.cost, items))
                self._entries[id(node)] = _Entries("list", _ONE, self._united(items))
                return _capped(costs + _LIST)
            case MapOf(entries):
                costs = sum(self.cost(key) + self.cost(value) for key, value, _ in entries)
                keys = [key for key, _, _ in entries]
                values = [value for _, value, _ in entries]
                self._entries[id(node)] = _Entries("map", self._united(keys), self._united(values))
                return _capped(costs + _MAP)
            case Comprehension("bind"):
                return self._bind(node)
            case Comprehension():
                return self._loop(node)
            case Call():
                return self._call(node)

    def _united(self, nodes: list[Node] | tuple[Node, ...]) -> _Size:
        sizes = [self._size(node) for node in nodes]
        if not sizes:
            return _Size(0, 0)
        return _Size(min(size.least for size in sizes), max(size.most for size in sizes))

    # -- loops

    def _bind(self, node: Comprehension) -> int:
        costs = self.cost(node.over) + self.cost(node.start)
        local = _Local(self._path(node.start), self._computed(node.start), self._held(node.start))
        costs += self._within(node.accumulator, local, node.result)
        self._copy(node, node.result)
        return _capped(costs)

    def _loop(self, node: Comprehension) -> int:
        costs = self.cost(node.over) + self.cost(node.start)
        entries = self._held(node.over)
        path = self._path(node.over)
        kind = entries.kind if entries is not None else str(self._checked.type_of(node.over)[0])
        is_list = kind == "list"
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.key if entries is not None else None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.value if entries is not None else None)
        start = _Local(self._path(node.start), self._computed(node.start), self._held(node.start))
        local_sizes = {node.accumulator: start, node.name: key if node.second or not is_list else value}
        if node.second:
            local_sizes[node.second] = value
        for name, local in local_sizes.items():
            self._locals.setdefault(name, []).append(local)
        cost_each = self.cost(node.goes_on) + self.cost(node.step)
        for name in local_sizes:
            if name != node.accumulator:
                self._locals[name].pop()
        costs += self.cost(node.result)
        self._locals[node.accumulator].pop()
        number = self._size(node.over)
        costs += _capped(number.most * _capped(cost_each))
        if isinstance(node.start, Literal):
            self._set(node, self._computed(node.start))
        else:
            self._sizes[id(node)] = number
            step = self._held(node.step)
            if step is not None:
                self._entries[id(node)] = step
        return _capped(costs)

    def _within(self, name: str, local: _Local, node: Node) -> int:
        self._locals.setdefault(name, []).append(local)
        node_cost = self.cost(node)
        self._locals[name].pop()
        return node_cost

    # -- calls

    def _call(self, call: Call) -> int:
        if call.function == "dyn":
            argument_cost = self.cost(call.arguments[0])
            self._copy(call, call.arguments[0])
            return _capped(argument_cost + 1)
        costs = [self.cost(argument) for argument in call.arguments]
        of_target = self.cost(call.target) if call.target is not None else 0
        dearest = 0
        size: _Size | None = None
        for overload in self._checked.overloads[id(call)]:
            own_cost, sized = self._overload(call, overload, costs)
            dearest = max(dearest, own_cost)
            if sized is not None:
                size = sized if size is None else size.union(sized)
            if overload in ("index_list", "index_map"):
                entries = self._held(call.arguments[0])
                size = entries.value if entries is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(call)] = (*self._path(call.arguments[0]), step)
            if size is None:
                size = self._computed(call)
        self._set(call, size)
        return _capped(of_target + dearest)

    def _overload(self, call: Call, overload: str, costs: list[int]) -> tuple[int, _Size | None]:
        """Cost of a call with its arguments, and the size of its result (None if unknown)."""
        arguments = call.arguments
        spent = sum(costs)
        if overload == "conditional":
            entries = self._held(arguments[1])
            more_entries = self._held(arguments[2])
            if entries is not None and more_entries is not None:
                self._entries[id(call)] = _union(entries, more_entries)
            size = self._size(arguments[1]).union(self._size(arguments[2]))
            return _capped(costs[0] + max(costs[1:])), size
        if call.function in ("_&&_", "_||_"):
            return _capped(spent), None
        own_cost, result_size = self._own(call, overload)
        return _capped(own_cost + spent), result_size

    def _own(self, call: Call, overload: str) -> tuple[int, _Size | None]:
        """Cost of the function alone, and the size of its result (None if unknown)."""
        function = call.function
        target = call.target
        arguments = call.arguments
        sizes = [self._size(argument) for argument in arguments]
        of = self._size(target) if target is not None else None
        match function:
            case "sets.contains" | "sets.intersects":
                return sizes[0].times(sizes[1]).cost(1) + 1, None
            case "sets.equivalent":
                return sizes[0].times(sizes[1]).cost(2) + 1, None
            case "slice" if of is not None:
                number = _number(arguments[1], of.most) - _number(arguments[0], 0)
                return _made(_Size(number % (_ENDLESS + 1), number % (_ENDLESS + 1)), 1)
            case "lists.range":
                number = _number(arguments[0], _ENDLESS)
                return _made(_Size(number, number), 1)
            case "reverse" if of is not None:
                return _made(of, 1)
            case "flatten" if of is not None:
                return _made(of, _number(arguments[0], _ENDLESS) if arguments else 1)
            case "distinct" if of is not None:
                return _made(of.times(of), 2)
            case "sort" if of is not None:
                return _made(of.times(of), 2 + TEXT_FACTOR * (overload.split("_")[1] in ("string", "bytes")))
            case "@sortByAssociatedKeys":
                return _made(
                    sizes[0].times(sizes[0]), 2 + TEXT_FACTOR * (overload.split("_")[1] in ("string", "bytes"))
                )
            case "includes":
                return _MOST_LISTED, None
            case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" if (
                target is not None and of is not None
            ):
                return self._traversed(target, of), None
            case "lowerAscii" | "upperAscii" | "substring" | "trim" if of is not None:
                return of.cost(TEXT_FACTOR), of
            case "replace" if of is not None:
                return of.cost(2 * TEXT_FACTOR), _replaced(of, sizes[0], sizes[1])
            case "split" if of is not None:
                largest = of.most
                if len(arguments) > 1 and isinstance(arguments[1], Literal) and isinstance(arguments[1].value, int):
                    largest = arguments[1].value % (_ENDLESS + 1)
                return of.cost(2 * TEXT_FACTOR), _Size(0, largest)
            case "join" if target is not None and of is not None:
                size = self._joined(target, of, sizes[0] if sizes else None)
                return size.cost(TEXT_FACTOR), size
            case "find" | "findAll" if of is not None:
                return _capped(of.plus(_ONE).cost(TEXT_FACTOR) * sizes[0].cost(PATTERN_FACTOR)), _Size(0, of.most)
            case "quantity" | "isQuantity" | "semver" | "isSemver":
                return sizes[0].cost(TEXT_FACTOR), None
            case "_==_" if (
                self._checked.type_of(arguments[0]) == self._checked.type_of(arguments[1]) in (QUANTITY, SEMVER)
            ):
                return 1, None
            case _:
                return self._standard(overload, of, sizes, call)

    def _standard(self, overload: str, of: _Size | None, sizes: list[_Size], call: Call) -> tuple[int, _Size | None]:
        match overload:
            case "string_to_bytes":
                return sizes[0].cost(TEXT_FACTOR), _Size(sizes[0].least, sizes[0].most * 4 % (_ENDLESS + 1))
            case "bytes_to_string":
                return sizes[0].cost(TEXT_FACTOR), _Size(sizes[0].least // 4, sizes[0].most)
            case "strings_quote":
                largest = (sizes[0].most * 2 + 2) % (_ENDLESS + 1)
                return sizes[0].cost(TEXT_FACTOR), _Size((sizes[0].least + 2) % (_ENDLESS + 1), largest)
            case "starts_with_string" | "ends_with_string":
                return sizes[0].cost(TEXT_FACTOR), None
            case "in_list":
                return sizes[1].most, None
            case "matches_string" if of is not None:
                return _capped(of.plus(_ONE).cost(TEXT_FACTOR) * sizes[0].cost(PATTERN_FACTOR)), None
            case "contains_string" if of is not None:
                return _capped(of.cost(TEXT_FACTOR) * sizes[0].cost(TEXT_FACTOR)), None
            case "add_string" | "add_bytes" | "add_list":
                size = sizes[0].plus(sizes[1])
                entries = self._held(call.arguments[0])
                more_entries = self._held(call.arguments[1])
                if entries is not None and more_entries is not None:
                    self._entries[id(call)] = _union(entries, more_entries)
                return 1 if overload == "add_list" else size.cost(TEXT_FACTOR), size
            case "equals" | "not_equals":
                return _by(min(sizes[0].most, sizes[1].most), TEXT_FACTOR), None
            case _ if overload.startswith(("less_", "greater_")) and overload.endswith(("_string", "_bytes")):
                return _by(min(sizes[0].most, sizes[1].most), TEXT_FACTOR), None
            case _:
                return 1, None

    def _traversed(self, target: Node, of: _Size) -> int:
        """Going over a list, and over its texts; or over a text."""
        target_type = self._checked.type_of(target)
        if target_type[0] not in ("list", "map", "optional"):
            return of.cost(TEXT_FACTOR)
        cost_each = 1
        if target_type[1] in (("string",), ("bytes",)):
            cost_each += (_known((*self._path(target), "@items")) or _UNKNOWN).cost(TEXT_FACTOR)
        return _capped(of.most * _capped(cost_each))

    def _joined(self, target: Node, of: _Size, separator: _Size | None) -> _Size:
        size = _Size(0, 0)
        if len(self._checked.type_of(target)) > 1:
            size = of.times(_known((*self._path(target), "@items")) or _UNKNOWN)
        if separator is not None:
            size = size.plus(separator.times(_Size(max(of.least - 1, 0), max(of.most - 1, 0))))
        return size

    # -- sizes

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, node: Node) -> _Path:
        if isinstance(node, Name) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(id(node), ())

    def _size(self, node: Node) -> _Size:
        return self._computed(node) or _UNKNOWN

    def _set(self, node: Node, size: _Size | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size

    def _copy(self, node: Node, original: Node) -> None:
        self._set(node, self._computed(original))
        entries = self._held(original)
        if entries is not None:
            self._entries[id(node)] = entries

    def _computed(self, node: Node) -> _Size | None:
        computed = self._sizes.get(id(node))
        if computed is not None:
            return computed
        match node:
            case Literal(value):
                number = len(value) if isinstance(value, str | bytes) else 1
                return _Size(number, number)
            case ListOf(items, _):
                return _Size(len(items), len(items))
            case MapOf(entries):
                return _Size(len(entries), len(entries))
            case _:
                pass
        computed = _known(self._path(node))
        if computed is not None:
            self._sizes[id(node)] = computed
            return computed
        if _is_scalar(self._checked.type_of(node)):
            return _ONE
        if isinstance(node, Name) and (local := self._local(node.name)) is not None:
            return local.size
        return None

    def _held(self, node: Node) -> _Entries | None:
        entries = self._entries.get(id(node))
        if entries is None and isinstance(node, Name) and (local := self._local(node.name)) is not None:
            return local.entries
        return entries


def _union(entries: _Entries, more_entries: _Entries) -> _Entries:
    return _Entries(entries.kind, entries.key.union(more_entries.key), entries.value.union(more_entries.value))


def _is_scalar(value_type: Type) -> bool:
    if value_type[0] == "optional":
        return isinstance(value_type[1], tuple) and _is_scalar(value_type[1])
    return value_type in (BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT)


def _number(node: Node, otherwise: int) -> int:
    """Value of an integer literal, 0 for negative ones; `otherwise` if the node is no such literal."""
    if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return max(node.value, 0)
    return otherwise


def _made(size: _Size, factor: float) -> tuple[int, _Size]:
    """The cost of making a list of so many entries."""
    return _capped(size.cost(factor) + 1 + _LIST), size


def _replaced(of: _Size, old: _Size, new: _Size) -> _Size:
    """How large a text is in which parts were replaced."""
    bounds = [of.least, of.most]
    if old.least == 0:
        largest = _capped(of.most + 1)
    elif new.most <= old.least:
        largest = 0
    else:
        largest, bounds[1] = math.ceil(of.most / old.least), 0
    if old.most == 0:
        smallest = _capped(of.least + 1)
    elif old.most <= new.least:
        smallest = 0
    else:
        smallest, bounds[0] = math.ceil(of.least / old.most), 0
    return _Size(smallest, largest).times(new).plus(_Size(bounds[0], bounds[1]))
