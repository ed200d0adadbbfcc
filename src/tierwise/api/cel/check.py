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
    """Known values of type variables; the changes of a failed attempt can be taken back."""

    def __init__(self) -> None:
        super().__init__()
        self._learnt: list[tuple[Type, Type | None]] = []

    def learn(self, variable: Type, type_: Type) -> None:
        """Let a variable be a type."""
        self._learnt.append((variable, self.get(variable)))
        self[variable] = type_

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
    types = {key: _substituted(checker.mapping, inferred, to_dyn=True) for key, inferred in checker.types.items()}
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


def _inner(inferred: Type, optional: bool) -> Type:  # noqa: FBT001
    if not optional:
        return inferred
    if inferred[0] != "optional":  # Kubernetes' own check ends here
        raise CompileError("the type of an optional entry must be known")
    return _type(inferred[1])


def _alike(types: Sequence[Type]) -> None:
    for next_type in types[1:]:
        if next_type != types[0]:
            raise _mismatch(types[0], next_type)


class _Checker:
    def __init__(self) -> None:
        self.mapping = Mapping()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self._scope: list[tuple[str, Type]] = [("device", library.DEVICE)]
        self._fresh = 0

    def check(self, node: Node) -> Type:
        inferred = self._type(node)
        if _size(inferred) > _LARGEST_TYPE:  # a map of itself has a type twice as large
            raise NotSupportedError("nested too deeply")
        self.types[id(node)] = inferred
        return inferred

    def _type(self, node: Node) -> Type:
        match node:
            case Literal():
                return _of_literal(node)
            case Name(name):
                return self._variable(name)
            case Select(of, field, test):
                field_type = self._field(self.check(of), field)
                if test:
                    return library.BOOL
                return _substituted(self.mapping, field_type)
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
        for variable_name, variable_type in reversed(self._scope):
            if variable_name == name:
                return variable_type
        raise CompileError(f"undeclared reference to '{name}'")

    def _variable_of_types(self) -> Type:
        self._fresh += 1
        return ("param", f"_{self._fresh}")

    def _unwrapped(self, inferred: Type, optional: bool) -> Type:  # noqa: FBT001
        if not optional:
            return inferred
        inferred = _substituted(self.mapping, inferred)
        if inferred[0] == "optional":
            return _type(inferred[1])
        if inferred != library.DYN:
            raise _mismatch(library.optional_of(inferred), inferred)
        return inferred

    def _field(self, operand: Type, field: str) -> Type:
        target = _substituted(self.mapping, operand)
        optional = target[0] == "optional"
        target = _type(target[1]) if optional else target
        match target[0]:
            case "map":
                field_type = _type(target[2])
            case "param":
                self._goes(library.DYN, target)
                field_type = library.DYN
            case "dyn":
                field_type = library.DYN
            case _ if target == library.DEVICE and field in library.FIELDS:
                field_type = library.FIELDS[field]
            case _ if target in _STRUCTS:
                raise CompileError(f"undefined field '{field}'")
            case _:
                raise CompileError(f"type '{library.shown(target)}' does not support field selection")
        if optional:
            return library.optional_of(field_type)
        return field_type

    def _joined(self, before: Type | None, inferred: Type) -> Type:
        if before is None:
            return inferred
        if not self._goes(before, inferred):
            raise _mismatch(self._settled(before), self._settled(inferred))
        if _is_less_specific(before, inferred):
            return before
        return inferred

    def _call(self, call: Call) -> Type:
        if call.function == "_?._":
            operand, field = call.arguments
            assert isinstance(field, Literal)
            self.check(field)
            result_type = self._field(self.check(operand), str(field.value))
            self.overloads[id(call)] = ("select_optional_field",)
            result_type = _substituted(self.mapping, result_type)
            if result_type[0] == "optional" and self._is_optional(operand):
                return result_type
            return library.optional_of(result_type)
        types = [self.check(argument) for argument in call.arguments]
        if call.target is not None:
            types.insert(0, self.check(call.target))
        if call.function in ("_&&_", "_||_"):
            for result_type in types:
                if not self._goes(result_type, library.BOOL):
                    raise _mismatch(library.BOOL, self._settled(result_type))
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

    def _settled(self, inferred: Type) -> Type:
        return _substituted(self.mapping, inferred, to_dyn=True)

    def _resolved(self, call: Call, declared: Sequence[library.Overload], types: list[Type]) -> Type:
        result: Type | None = None
        fitting: list[str] = []
        for overload in declared:
            if overload.is_method is (call.target is None) or len(overload.arguments) != len(types):
                continue
            renamed: dict[Type, Type] = {}
            arguments = [self._renamed(argument_type, renamed) for argument_type in overload.arguments]
            mark = self.mapping.mark()
            if not all(
                _goes(self.mapping, actual, expected) for actual, expected in zip(types, arguments, strict=True)
            ):
                self.mapping.take_back(mark)
                continue
            fitting.append(overload.id)
            overload_result = _substituted(self.mapping, self._renamed(overload.result, renamed))
            if result is None:
                result = overload_result
            elif result != library.DYN and overload_result != result:
                result = library.DYN
        if result is None:
            shown_types = ", ".join(library.shown(self._settled(argument_type)) for argument_type in types)
            raise CompileError(f"found no matching overload for '{call.function}' applied to '({shown_types})'")
        self.overloads[id(call)] = tuple(fitting)
        return result

    def _renamed(self, declared: Type, renamed: dict[Type, Type]) -> Type:
        """A declared type with variables of its own for its letters."""
        name, *inner = declared
        if not inner and isinstance(name, str) and len(name) == 1:
            if declared not in renamed:
                renamed[declared] = self._variable_of_types()
            return renamed[declared]
        return (name, *(self._renamed(_type(part), renamed) for part in inner))

    def _comprehension(self, node: Comprehension) -> Type:
        over = _substituted(self.mapping, self.check(node.over))
        start = self.check(node.start)
        item: Type
        match over[0]:
            case "list":
                item = _type(over[1])
                second = _type(over[1])
                item = library.INT if node.second else item
            case "map":
                item = _type(over[1])
                second = _type(over[2])
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
        result_type = _substituted(self.mapping, self.check(node.result))
        del self._scope[depth:]
        return result_type

    def _asserted(self, actual: Type, expected: Type) -> None:
        if not self._goes(expected, actual):
            raise _mismatch(self._settled(expected), self._settled(actual))

    def _goes(self, source: Type, target: Type) -> bool:
        mark = self.mapping.mark()
        if _goes(self.mapping, source, target):
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


def _mismatch(expected: Type, actual: Type) -> CompileError:
    return CompileError(f"expected type '{library.shown(expected)}' but found '{library.shown(actual)}'")


_LARGEST_TYPE: Final = 200


def _size(inferred: Type) -> int:
    """How many types a type consists of, itself included: 1 for int, 2 for list(int).

    It stops counting at the first number above _LARGEST_TYPE.
    """
    number = 0
    waiting = [inferred]
    while waiting and number <= _LARGEST_TYPE:
        number += 1
        waiting += [part for part in waiting.pop() if isinstance(part, tuple)]
    return number


def _type(part: object) -> Type:
    assert isinstance(part, tuple)
    return part


def _goes(mapping: Mapping, source: Type, target: Type) -> bool:
    """Whether a value of one type can be used where the other is wanted; the mapping learns what that means."""
    if target[0] == "param":
        valid, resolved = _stands_for(mapping, source, target)
        if valid or resolved:
            return valid
    if source[0] == "param":
        return _stands_for(mapping, target, source)[0]
    if library.DYN in (source, target):
        return True
    if library.NULL in (source, target):
        concrete = target if source == library.NULL else source
        return concrete[0] == "optional" or concrete in (library.NULL, *_STRUCTS, library.DURATION, library.TIMESTAMP)
    if len(source) > 1:
        return (
            source[0] == target[0]
            and len(source) == len(target)
            and all(_goes(mapping, _type(a), _type(b)) for a, b in zip(source[1:], target[1:], strict=True))
        )
    return source == target


def _stands_for(mapping: Mapping, bound_type: Type, variable: Type) -> tuple[bool, bool]:
    """Whether a variable of types can be a type, and whether it was known before."""
    if bound_type == variable:
        return True, True
    before = mapping.get(variable)
    if before is not None:
        if bound_type == before:
            return True, True
        if _goes(mapping, bound_type, before):
            wider = bound_type if _is_less_specific(bound_type, before) else before
            if _is_apart(mapping, variable, wider):
                mapping.learn(variable, wider)
            return True, True
        return False, True
    if _is_apart(mapping, variable, bound_type):
        mapping.learn(variable, bound_type)
        return True, False
    return False, False


def _is_apart(mapping: Mapping, variable: Type, within: Type) -> bool:
    """Whether a variable of types does not occur within a type."""
    if variable == within:
        return False
    if within[0] == "param":
        bound_type = mapping.get(within)
        return bound_type is None or _is_apart(mapping, variable, bound_type)
    return all(_is_apart(mapping, variable, _type(part)) for part in within[1:])


def _is_less_specific(candidate: Type, reference: Type) -> bool:
    if candidate[0] in ("dyn", "param"):
        return True
    if reference[0] in ("dyn", "param"):
        return False
    if candidate[0] != reference[0] or len(candidate) != len(reference):
        return False
    return all(_is_less_specific(_type(a), _type(b)) for a, b in zip(candidate[1:], reference[1:], strict=True))


def _substituted(mapping: Mapping, inferred: Type, *, to_dyn: bool = False) -> Type:
    """A type with what its variables are known to be; `to_dyn` lets the others be anything."""
    if inferred[0] == "param":
        bound_type = mapping.get(inferred)
        if bound_type is not None:
            return _substituted(mapping, bound_type, to_dyn=to_dyn)
        return library.DYN if to_dyn else inferred
    return (inferred[0], *(_substituted(mapping, _type(part), to_dyn=to_dyn) for part in inferred[1:]))
