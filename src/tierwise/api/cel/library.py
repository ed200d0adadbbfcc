"""What selectors of devices may call: the functions of CEL and of Kubernetes' libraries, with their types.

A type is a tuple: its name, and what it is made of; a capital letter means any type. Times are declared, because
types are told by them, but nothing makes one. What functions do, and what a call costs, is in `functions`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = [
    "BOOL",
    "BYTES",
    "DEVICE",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ELSEWHERE",
    "FIELDS",
    "INT",
    "NULL",
    "OVERLOADS",
    "QUANTITY",
    "SEMVER",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Overload",
    "Type",
    "list_of",
    "map_of",
    "optional_of",
    "shown",
]

Type = tuple[object, ...]

BOOL: Final[Type] = ("bool",)
BYTES: Final[Type] = ("bytes",)
DURATION: Final[Type] = ("duration",)
TIMESTAMP: Final[Type] = ("timestamp",)
DOUBLE: Final[Type] = ("double",)
DYN: Final[Type] = ("dyn",)
INT: Final[Type] = ("int",)
NULL: Final[Type] = ("null",)
STRING: Final[Type] = ("string",)
UINT: Final[Type] = ("uint",)
QUANTITY: Final[Type] = ("kubernetes.Quantity",)
SEMVER: Final[Type] = ("kubernetes.Semver",)
DEVICE: Final[Type] = ("kubernetes.DRADevice",)


def list_of(item: Type) -> Type:
    """The type of lists of a type."""
    return ("list", item)


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return ("map", key, value)


def optional_of(inner: Type) -> Type:
    """The type of values that may not be there."""
    return ("optional", inner)


FIELDS: Final[dict[str, Type]] = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
"""What a device shows of itself."""


class Overload(msgspec.Struct, frozen=True):
    """One way to call a function."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    is_method: bool


_DECLARED: Final = """
!_: logical_not(bool) bool
@not_strictly_false: not_strictly_false(bool) bool
_&&_: logical_and(bool, bool) bool
_||_: logical_or(bool, bool) bool
_?_:_: conditional(bool, A, A) A
_==_: equals(A, A) bool
_!=_: not_equals(A, A) bool
_+_: add_bytes(bytes, bytes) bytes; add_double(double, double) double
_+_: add_duration_duration(duration, duration) duration; add_duration_timestamp(duration, timestamp) timestamp
_+_: add_timestamp_duration(timestamp, duration) timestamp; add_int64(int, int) int
_+_: add_list(list(A), list(A)) list(A); add_string(string, string) string; add_uint64(uint, uint) uint
_-_: subtract_double(double, double) double; subtract_duration_duration(duration, duration) duration
_-_: subtract_int64(int, int) int; subtract_timestamp_duration(timestamp, duration) timestamp
_-_: subtract_timestamp_timestamp(timestamp, timestamp) duration; subtract_uint64(uint, uint) uint
_*_: multiply_double(double, double) double; multiply_int64(int, int) int; multiply_uint64(uint, uint) uint
_/_: divide_double(double, double) double; divide_int64(int, int) int; divide_uint64(uint, uint) uint
_%_: modulo_int64(int, int) int; modulo_uint64(uint, uint) uint
-_: negate_double(double) double; negate_int64(int) int
_[_]: index_list(list(A), int) A; index_map(map(A, B), A) B
_[_]: optional_list_index_int(optional(list(A)), int) optional(A)
_[_]: optional_map_index_value(optional(map(A, B)), A) optional(B)
_[?_]: list_optindex_optional_int(list(A), int) optional(A)
_[?_]: optional_list_optindex_optional_int(optional(list(A)), int) optional(A)
_[?_]: map_optindex_optional_value(map(A, B), A) optional(B)
_[?_]: optional_map_optindex_optional_value(optional(map(A, B)), A) optional(B)
@in: in_list(A, list(A)) bool; in_map(A, map(A, B)) bool
size: size_bytes(bytes) int; .size_bytes_inst(bytes) int; size_list(list(A)) int; .size_list_inst(list(A)) int
size: size_map(map(A, B)) int; .size_map_inst(map(A, B)) int; size_string(string) int; .size_string_inst(string) int
bool: bool_to_bool(bool) bool; string_to_bool(string) bool
bytes: bytes_to_bytes(bytes) bytes; string_to_bytes(string) bytes
double: double_to_double(double) double; int64_to_double(int) double; string_to_double(string) double
double: uint64_to_double(uint) double
dyn: to_dyn(A) dyn
int: int64_to_int64(int) int; double_to_int64(double) int; duration_to_int64(duration) int
int: string_to_int64(string) int; timestamp_to_int64(timestamp) int; uint64_to_int64(uint) int
string: string_to_string(string) string; bool_to_string(bool) string; bytes_to_string(bytes) string
string: double_to_string(double) string; duration_to_string(duration) string; int64_to_string(int) string
string: timestamp_to_string(timestamp) string; uint64_to_string(uint) string
uint: uint64_to_uint64(uint) uint; double_to_uint64(double) uint; int64_to_uint64(int) uint
uint: string_to_uint64(string) uint
contains: .contains_string(string, string) bool
endsWith: .ends_with_string(string, string) bool
startsWith: .starts_with_string(string, string) bool
matches: matches(string, string) bool; .matches_string(string, string) bool
charAt: .string_char_at_int(string, int) string
indexOf: .string_index_of_string(string, string) int; .string_index_of_string_int(string, string, int) int
indexOf: .list_a_index_of_int(list(A), A) int
lastIndexOf: .string_last_index_of_string(string, string) int
lastIndexOf: .string_last_index_of_string_int(string, string, int) int; .list_a_last_index_of_int(list(A), A) int
lowerAscii: .string_lower_ascii(string) string
upperAscii: .string_upper_ascii(string) string
trim: .string_trim(string) string
replace: .string_replace_string_string(string, string, string) string
replace: .string_replace_string_string_int(string, string, string, int) string
split: .string_split_string(string, string) list(string); .string_split_string_int(string, string, int) list(string)
substring: .string_substring_int(string, int) string; .string_substring_int_int(string, int, int) string
join: .list_join(list(string)) string; .list_join_string(list(string), string) string
strings.quote: strings_quote(string) string
find: .string_find_string(string, string) string
findAll: .string_find_all_string(string, string) list(string)
findAll: .string_find_all_string_int(string, string, int) list(string)
slice: .list_slice(list(T), int, int) list(T)
flatten: .list_flatten(list(list(T))) list(T); .list_flatten_int(list(dyn), int) list(dyn)
lists.range: lists_range(int) list(int)
reverse: .list_reverse(list(T)) list(T)
distinct: .list_distinct(list(T)) list(T)
sets.contains: list_sets_contains_list(list(T), list(T)) bool
sets.equivalent: list_sets_equivalent_list(list(T), list(T)) bool
sets.intersects: list_sets_intersects_list(list(T), list(T)) bool
cel.@mapInsert: @mapInsert_map_key_value(map(K, V), K, V) map(K, V)
optional.of: optional_of(V) optional(V)
optional.ofNonZeroValue: optional_ofNonZeroValue(V) optional(V)
optional.none: optional_none() optional(V)
value: .optional_value(optional(V)) V
hasValue: .optional_hasValue(optional(V)) bool
or: .optional_or_optional(optional(V), optional(V)) optional(V)
orValue: .optional_orValue_value(optional(V), V) V
first: .list_first(list(V)) optional(V)
last: .list_last(list(V)) optional(V)
optional.unwrap: optional_unwrap(list(optional(V))) list(V)
unwrapOpt: .optional_unwrapOpt(list(optional(V))) list(V)
quantity: string_to_quantity(string) kubernetes.Quantity
isQuantity: is_quantity_string(string) bool
sign: quantity_sign(kubernetes.Quantity) int
isGreaterThan: .quantity_is_greater_than(kubernetes.Quantity, kubernetes.Quantity) bool
isGreaterThan: .semver_is_greater_than(kubernetes.Semver, kubernetes.Semver) bool
isLessThan: .quantity_is_less_than(kubernetes.Quantity, kubernetes.Quantity) bool
isLessThan: .semver_is_less_than(kubernetes.Semver, kubernetes.Semver) bool
compareTo: .quantity_compare_to(kubernetes.Quantity, kubernetes.Quantity) int
compareTo: .semver_compare_to(kubernetes.Semver, kubernetes.Semver) int
asApproximateFloat: .quantity_get_float(kubernetes.Quantity) double
asInteger: .quantity_get_int(kubernetes.Quantity) int
isInteger: .quantity_is_integer(kubernetes.Quantity) bool
add: .quantity_add(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
add: .quantity_add_int(kubernetes.Quantity, int) kubernetes.Quantity
sub: .quantity_sub(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
sub: .quantity_sub_int(kubernetes.Quantity, int) kubernetes.Quantity
semver: string_to_semver(string) kubernetes.Semver; string_bool_to_semver(string, bool) kubernetes.Semver
isSemver: is_semver_string(string) bool; is_semver_string_bool(string, bool) bool
major: .semver_major(kubernetes.Semver) int
minor: .semver_minor(kubernetes.Semver) int
patch: .semver_patch(kubernetes.Semver) int
includes: .dra_includes_dyn_dyn(dyn, dyn) bool
"""
ELSEWHERE: Final = frozenset(
    {"format", "format.named", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "duration", "timestamp", "type"}
    | {"transformMapEntry", "validate"}
)
"""Functions that an API server knows and that say nothing about devices; their users are told, and wait."""

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE: Final = ("int", "uint", "double", "duration")
_NUMBERS: Final = {"int": "int64", "uint": "uint64", "double": "double"}


def _templates() -> str:
    """Functions that exist for each of some types."""
    lines = []
    for sign, name in (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals")):
        found = [f"{name}_bool(bool, bool) bool"]
        for one, own in _NUMBERS.items():
            others = sorted(_NUMBERS, key=lambda other: (other != one, other))
            found += [f"{name}_{own}({one}, {one}) bool"]
            found += [f"{name}_{own}_{_NUMBERS[other]}({one}, {other}) bool" for other in others[1:]]
        found += [f"{name}_{kind}({kind}, {kind}) bool" for kind in ("string", "bytes", "timestamp", "duration")]
        lines.append(f"_{sign}_: " + "; ".join(found))
    lines += [f"isSorted: .list_{kind}_is_sorted_bool(list({kind})) bool" for kind in _COMPARABLE]
    lines += [
        f"{way}: .list_{kind}_{way}_{kind}(list({kind})) {kind}" for way in ("max", "min") for kind in _COMPARABLE
    ]
    lines += [f"sum: .list_{kind}_sum_{kind}(list({kind})) {kind}" for kind in _SUMMABLE]
    lines += [f"sort: .list_{kind}_sort(list({kind})) list({kind})" for kind in _COMPARABLE]
    lines += [
        f"@sortByAssociatedKeys: .list_{kind}_sortByAssociatedKeys(list(T), list({kind})) list(T)"
        for kind in _COMPARABLE
    ]
    return "\n".join(lines)


_SIGNATURE: Final = re.compile(r"(\.?)([@\w]+)\((.*)\) ([^ ]*|map\(.*\))")
_WORD: Final = re.compile(r"[\w.]+|[(),]")


def _read(text: str) -> tuple[Type, ...]:
    """The types that a list of them spells."""
    found: list[list[object]] = [[]]
    for word in _WORD.findall(text):
        if word == "(":
            found.append([])
        elif word == ")":
            inner = found.pop()
            found[-1][-1] = (*found[-1][-1], *inner)  # type: ignore[misc]
        elif word != ",":
            found[-1].append((word,))
    return tuple(found[0])  # type: ignore[arg-type]


def _overloads() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    for line in (_DECLARED + _templates()).strip().splitlines():
        name, signatures = line.rsplit(": ", 1)
        for signature in signatures.split("; "):
            form = _SIGNATURE.fullmatch(signature)
            assert form is not None, signature
            (result,) = _read(form[4])
            found.setdefault(name, []).append(Overload(form[2], _read(form[3]), result, bool(form[1])))
    return {name: tuple(overloads) for name, overloads in found.items()}


OVERLOADS: Final = _overloads()
"""Every function with its overloads, in Kubernetes' order."""


def shown(one: Type) -> str:
    """A type as people write it."""
    name, *inner = one
    parts = ", ".join(shown(part) for part in inner if isinstance(part, tuple))
    return f"{name}({parts})" if parts else str(name)
