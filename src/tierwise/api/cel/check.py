"""Whether the types of an expression go together, as the API server asks before it stores one.

Types are found bottom up. A variable of types is a type that is not known yet; what is learnt of it is kept in
a mapping. `dyn` goes with everything: it is asked about when the expression is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tierwise.api.cel import library
from tierwise.api.cel.errors import CompileError, NotSupportedError
from tierwise.api.cel.library import Type
from tierwise.api.cel.syntax import Call, Comprehension, ListOf, Literal, MapOf, Name, Node, Select, children
from tierwise.api.cel.values import UInt

__all__ = ["Checked", "check"]

_STRUCTS: Final = (library.QUANTITY, library.SEMVER, library.DEVICE)


class Mapping(dict[Type, Type]):
    """What is known of variables of types; what an attempt has learnt can be taken back."""

    def __init__(self) -> None:
        super().__init__()
        self._learnt: list[tuple[Type, Type | None]] = []

    def learn(self, variable: Type, found: Type) -> None:
        """Let a variable be a type."""
        self._learnt.append((variable, self.get(variable)))
        self[variable] = found

    def mark(self) -> int:
        """How much has been learnt."""
        return len(self._learnt)

    def take_back(self, mark: int) -> None:
        """Forget what was learnt since."""
        while len(self._learnt) > mark:
            variable, before = self._learnt.pop()
            if before is None:
                del self[variable]
            else:
                self[variable] = before


class Checked(msgspec.Struct, frozen=True, eq=False):
    """The types of a tree's nodes, and which overloads its calls can be."""

    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]

    def type_of(self, node: Node) -> Type:
        """The type of a node."""
        return self.types[id(node)]


def check(root: Node) -> Checked:
    """The types of a tree; CompileError where they do not go together, or the answer is no bool."""
    checker = _Checker()
    checker.check(root)
    types = {key: _substituted(checker.mapping, found, to_dyn=True) for key, found in checker.types.items()}
    checked = Checked(types, checker.overloads)
    _ask_alike(root, checked)
    if types[id(root)] not in (library.BOOL, library.DYN):
        raise CompileError(f"must evaluate to bool, not {library.shown(types[id(root)])}")
    return checked


def _ask_alike(node: Node, checked: Checked) -> None:
    """Refuse lists and maps of values of several types."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, ListOf):
            _alike([_inner(checked.type_of(item), i in one.optional) for i, item in enumerate(one.items)])
        if isinstance(one, MapOf):
            _alike([checked.type_of(key) for key, _, _ in one.entries])
            _alike([_inner(checked.type_of(value), optional) for _, value, optional in one.entries])
        waiting += children(one)


def _inner(found: Type, optional: bool) -> Type:  # noqa: FBT001
    if not optional:
        return found
    if found[0] != "optional":  # Kubernetes' own check ends here
        raise CompileError("the type of an optional entry must be known")
    return _type(found[1])


def _alike(types: Sequence[Type]) -> None:
    for other in types[1:]:
        if other != types[0]:
            raise _mismatch(types[0], other)


class _Checker:
    def __init__(self) -> None:
        self.mapping = Mapping()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self._scope: list[tuple[str, Type]] = [("device", library.DEVICE)]
        self._fresh = 0

    def check(self, node: Node) -> Type:
        found = self._type(node)
        if _size(found) > _LARGEST_TYPE:  # a map of itself has a type twice as large
            raise NotSupportedError("nested too deeply")
        self.types[id(node)] = found
        return found

    def _type(self, node: Node) -> Type:
        match node:
            case Literal():
                return _of_literal(node)
            case Name(name):
                return self._variable(name)
            case Select(of, field, test):
                found = self._field(self.check(of), field)
                return library.BOOL if test else _substituted(self.mapping, found)
            case ListOf(items, optional):
                joined: Type | None = None
                for i, item in enumerate(items):
                    joined = self._joined(joined, self._unwrapped(self.check(item), i in optional))
                return library.list_of(joined or self._variable_of_types())
            case MapOf(entries):
                keys: Type | None = None
                values: Type | None = None
                for key, value, optional_value in entries:
                    keys = self._joined(keys, self.check(key))
                    values = self._joined(values, self._unwrapped(self.check(value), optional_value))
                return library.map_of(keys or self._variable_of_types(), values or self._variable_of_types())
            case Call():
                return self._call(node)
            case Comprehension():
                return self._comprehension(node)

    def _variable(self, name: str) -> Type:
        for known, found in reversed(self._scope):
            if known == name:
                return found
        raise CompileError(f"undeclared reference to '{name}'")

    def _variable_of_types(self) -> Type:
        self._fresh += 1
        return ("param", f"_{self._fresh}")

    def _unwrapped(self, found: Type, optional: bool) -> Type:  # noqa: FBT001
        if not optional:
            return found
        found = _substituted(self.mapping, found)
        if found[0] == "optional":
            return _type(found[1])
        if found != library.DYN:
            raise _mismatch(library.optional_of(found), found)
        return found

    def _field(self, operand: Type, field: str) -> Type:
        target = _substituted(self.mapping, operand)
        optional = target[0] == "optional"
        target = _type(target[1]) if optional else target
        match target[0]:
            case "map":
                found = _type(target[2])
            case "param":
                self._goes(library.DYN, target)
                found = library.DYN
            case "dyn":
                found = library.DYN
            case _ if target == library.DEVICE and field in library.FIELDS:
                found = library.FIELDS[field]
            case _ if target in _STRUCTS:
                raise CompileError(f"undefined field '{field}'")
            case _:
                raise CompileError(f"type '{library.shown(target)}' does not support field selection")
        return library.optional_of(found) if optional else found

    def _joined(self, before: Type | None, found: Type) -> Type:
        if before is None:
            return found
        if not self._goes(before, found):
            raise _mismatch(self._settled(before), self._settled(found))
        return before if _is_less_specific(before, found) else found

    def _call(self, call: Call) -> Type:
        if call.function == "_?._":
            operand, field = call.arguments
            assert isinstance(field, Literal)
            self.check(field)
            found = self._field(self.check(operand), str(field.value))
            self.overloads[id(call)] = ("select_optional_field",)
            found = _substituted(self.mapping, found)
            return found if found[0] == "optional" and self._is_optional(operand) else library.optional_of(found)
        types = [self.check(argument) for argument in call.arguments]
        if call.target is not None:
            types.insert(0, self.check(call.target))
        if call.function in ("_&&_", "_||_"):
            for found in types:
                if not self._goes(found, library.BOOL):
                    raise _mismatch(library.BOOL, self._settled(found))
            self.overloads[id(call)] = ("logical_and" if call.function == "_&&_" else "logical_or",)
            return library.BOOL
        declared = library.OVERLOADS.get(call.function)
        if declared is None:
            if call.function in library.ELSEWHERE:
                raise NotSupportedError(f"the function '{call.function}' is not supported")
            raise CompileError(f"undeclared reference to '{call.function}'")
        return self._resolved(call, declared, types)

    def _is_optional(self, node: Node) -> bool:
        return _substituted(self.mapping, self.types[id(node)])[0] == "optional"

    def _settled(self, found: Type) -> Type:
        return _substituted(self.mapping, found, to_dyn=True)

    def _resolved(self, call: Call, declared: Sequence[library.Overload], types: list[Type]) -> Type:
        result: Type | None = None
        fitting: list[str] = []
        for overload in declared:
            if overload.is_method is (call.target is None) or len(overload.arguments) != len(types):
                continue
            own: dict[Type, Type] = {}
            arguments = [self._renamed(one, own) for one in overload.arguments]
            mark = self.mapping.mark()
            if not all(_goes(self.mapping, found, wanted) for found, wanted in zip(types, arguments, strict=True)):
                self.mapping.take_back(mark)
                continue
            fitting.append(overload.id)
            found = _substituted(self.mapping, self._renamed(overload.result, own))
            if result is None:
                result = found
            elif result != library.DYN and found != result:
                result = library.DYN
        if result is None:
            given = ", ".join(library.shown(self._settled(one)) for one in types)
            raise CompileError(f"found no matching overload for '{call.function}' applied to '({given})'")
        self.overloads[id(call)] = tuple(fitting)
        return result

    def _renamed(self, declared: Type, own: dict[Type, Type]) -> Type:
        """A declared type with variables of its own for its letters."""
        name, *inner = declared
        if not inner and isinstance(name, str) and len(name) == 1:
            if declared not in own:
                own[declared] = self._variable_of_types()
            return own[declared]
        return (name, *(self._renamed(_type(part), own) for part in inner))

    def _comprehension(self, node: Comprehension) -> Type:
        over = _substituted(self.mapping, self.check(node.over))
        start = self.check(node.start)
        item: Type
        match over[0]:
            case "list":
                item, second = _type(over[1]), _type(over[1])
                item = library.INT if node.second else item
            case "map":
                item, second = _type(over[1]), _type(over[2])
            case "dyn" | "param":
                self._goes(library.DYN, over)
                item = second = library.DYN
            case _:
                raise CompileError(
                    f"expression of type '{library.shown(self._settled(over))}' cannot be range of a macro"
                )
        depth = len(self._scope)
        self._scope.append((node.accumulator, start))
        self._scope.append((node.name, item))
        if node.second:
            self._scope.append((node.second, second))
        self._asserted(self.check(node.goes_on), library.BOOL)
        self._asserted(self.check(node.step), start)
        del self._scope[depth + 1 :]
        found = _substituted(self.mapping, self.check(node.result))
        del self._scope[depth:]
        return found

    def _asserted(self, found: Type, wanted: Type) -> None:
        if not self._goes(wanted, found):
            raise _mismatch(self._settled(wanted), self._settled(found))

    def _goes(self, one: Type, other: Type) -> bool:
        mark = self.mapping.mark()
        if _goes(self.mapping, one, other):
            return True
        self.mapping.take_back(mark)
        return False


def _of_literal(literal: Literal) -> Type:
    match literal.value:
        case None:
            return library.NULL
        case bool():
            return library.BOOL
        case UInt():
            return library.UINT
        case int():
            return library.INT
        case float():
            return library.DOUBLE
        case str():
            return library.STRING
        case bytes():
            return library.BYTES


def _mismatch(wanted: Type, found: Type) -> CompileError:
    return CompileError(f"expected type '{library.shown(wanted)}' but found '{library.shown(found)}'")


_LARGEST_TYPE: Final = 200


def _size(found: Type) -> int:
    """Of how many a type is made."""
    number, waiting = 0, [found]
    while waiting and number <= _LARGEST_TYPE:
        number += 1
        waiting += [part for part in waiting.pop() if isinstance(part, tuple)]
    return number


def _type(part: object) -> Type:
    assert isinstance(part, tuple)
    return part


def _goes(mapping: Mapping, one: Type, other: Type) -> bool:
    """Whether a value of one type can be used where the other is wanted; the mapping learns what that means."""
    if other[0] == "param":
        valid, known = _stands_for(mapping, one, other)
        if valid or known:
            return valid
    if one[0] == "param":
        return _stands_for(mapping, other, one)[0]
    if library.DYN in (one, other):
        return True
    if library.NULL in (one, other):
        rest = other if one == library.NULL else one
        return rest[0] == "optional" or rest in (library.NULL, *_STRUCTS, library.DURATION, library.TIMESTAMP)
    if len(one) > 1:
        return (
            one[0] == other[0]
            and len(one) == len(other)
            and all(_goes(mapping, _type(a), _type(b)) for a, b in zip(one[1:], other[1:], strict=True))
        )
    return one == other


def _stands_for(mapping: Mapping, found: Type, variable: Type) -> tuple[bool, bool]:
    """Whether a variable of types can be a type, and whether it was known before."""
    if found == variable:
        return True, True
    before = mapping.get(variable)
    if before is not None:
        if found == before:
            return True, True
        if _goes(mapping, found, before):
            wider = found if _is_less_specific(found, before) else before
            if _is_apart(mapping, variable, wider):
                mapping.learn(variable, wider)
            return True, True
        return False, True
    if _is_apart(mapping, variable, found):
        mapping.learn(variable, found)
        return True, False
    return False, False


def _is_apart(mapping: Mapping, variable: Type, within: Type) -> bool:
    """Whether a variable of types does not occur within a type."""
    if variable == within:
        return False
    if within[0] == "param":
        found = mapping.get(within)
        return found is None or _is_apart(mapping, variable, found)
    return all(_is_apart(mapping, variable, _type(part)) for part in within[1:])


def _is_less_specific(one: Type, other: Type) -> bool:
    if one[0] in ("dyn", "param"):
        return True
    if other[0] in ("dyn", "param"):
        return False
    if one[0] != other[0] or len(one) != len(other):
        return False
    return all(_is_less_specific(_type(a), _type(b)) for a, b in zip(one[1:], other[1:], strict=True))


def _substituted(mapping: Mapping, found: Type, *, to_dyn: bool = False) -> Type:
    """A type with what its variables are known to be; `to_dyn` lets the others be anything."""
    if found[0] == "param":
        known = mapping.get(found)
        if known is not None:
            return _substituted(mapping, known, to_dyn=to_dyn)
        return library.DYN if to_dyn else found
    return (found[0], *(_substituted(mapping, _type(part), to_dyn=to_dyn) for part in found[1:]))
