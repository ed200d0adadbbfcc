"""Selectors of devices drawn by a grammar, and devices to ask them about.

Used by a property and by tools/compare/device_selectors.py, which asks Kubernetes' own package the same. Most of what
is drawn has types that go together; some has not, on purpose. Nothing depends on the order of a map.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, Final

__all__ = ["DEVICES", "DRIVER", "draw", "kept"]

DRIVER: Final = "gpu.example.com"

DEVICES: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "full",
        "attributes": {
            "model": {"string": "NVIDIA-A100"},
            "index": {"int": 3},
            "neg": {"int": -3},
            "ecc": {"bool": True},
            "fw": {"version": "1.2.3-rc.1+build"},
            "nic.example.com/rail": {"int": 1},
            "ports": {"strings": ["a", "b", "b"]},
            "lanes": {"ints": [3, 1, 2]},
        },
        "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "108500m"}},
    },
    {"name": "bare"},
    {
        "name": "odd",
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": "ÿ x\t"}, "index": {"int": 9223372036854775807}, "ecc": {"bool": False}},
        "capacity": {"memory": {"value": "10E"}, "cores": {"value": "3n"}},
    },
)

_PLAIN: Final[dict[str, tuple[str, ...]]] = {
    "bool": (
        *("true", "false", 'device.driver == "gpu.example.com"', 'device.attributes["gpu.example.com"].ecc'),
        "device.allowMultipleAllocations",
    ),
    "int": (
        *("0", "1", "2", "3", "-1", "-3", "7", "0x1F", "-(2)", "-(-3)", "9223372036854775807", "-9223372036854775808"),
        *("- 5", "--5", "-(-(4))", "9223372036854775808"),
    ),
    "uint": ("0u", "1u", "3U", "18446744073709551615u", "0x1Fu"),
    "double": (
        *("0.0", "1.0", "1.5", "-2.5", "1e3", "1e21", "123456789.0", "0.00001", ".5", "-0.0", 'double("nan")'),
        "(1.0 / 0.0)",
    ),
    "string": (
        *('"a"', "'b'", '""', '"NVIDIA-A100"', 'r"\\d"', '"\\u00ff"', '"\\x41\\101\\n"', "'''it's'''"),
        *('"a,b,,c"', '"ÿ x\\t"', "device.driver", "device.driver"),
    ),
    "bytes": ('b"a"', 'b"\\xff"', 'b"\\377"', "b'ÿ'", 'bytes("ab")', 'b"\\u00ff"', "b''"),
    "null": ("null",),
    "ints": (
        *("[1, 2, 3]", "[]", "[3, 1, 2]", "[1, 1]", "[-1]", "[1, 2,]"),
        *['device.attributes["gpu.example.com"].lanes'] * 3,
    ),
    "strings": ('["a", "b"]', '["b"]', '["a", "a", ""]', 'device.attributes["gpu.example.com"].ports'),
    "quantity": ('quantity("$amount")', 'device.capacity["gpu.example.com"].$resource'),
    "semver": (*('semver("$version")', 'semver("$version", $truth)', 'device.attributes["gpu.example.com"].fw'),),
    "optional": (
        *("optional.none()", 'device.attributes["gpu.example.com"].?index', 'device.attributes[$domain][?"$name"]'),
    ),
    "dyn": (
        *("device.attributes[$domain].$name", 'device.attributes["gpu.example.com"]["$name"]'),
        'device.attributes["nic.example.com"].rail',
    ),
}
"""What can stand for a type without anything of another; `$` stands before what is drawn in turn."""

_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "truth": ("true", "false"),
    "amount": (
        *("1", "0", "-1", "1Gi", "40Gi", "1500m", "0.5", "1k", "10E", "100E", "16Ei", "0.1n", "1e3", "1E3", "1.5Gi"),
        *("9223372036854775807", "9223372036854775808", "123456789012345678901", "0.0000000001", "1.", ".5", "-", "Ki"),
        *("", " 1", "1 ", "1e", "1i", "0k", "00.50", "1u", "3n", "8Ei", "7Ei", "+2", "1Ko"),
    ),
    "resource": ("memory", "cores", "memory", "none"),
    "version": (
        *("1.2.3", "1.2.3-rc.1", "1.10.0", "2.0.0-alpha.beta", "1.2.3-rc.2", "1.2.3-rc.11", "1.2.3+b", "v1.2.3"),
        *("01.2.3", " 1.2.3", "1.2.3 ", "1..3", "1.2.3-", "1.2.3-a..b", "18446744073709551615.0.0", "1.2.3-01"),
        *("18446744073709551616.0.0", "1.2.3-+x", "v01.02", "1", "", "1.2.3-0", "9223372036854775808.1.2", "1.2"),
    ),
    "number": (
        *("5", "+5", "-5", "1_000", "1e3", " 1", "0x10", "٣", "1.5", "inf", "nan", "9223372036854775808", "1e400"),
        *("1_0", "0x1p4", "Infinity", "+nan", "1__0", "1e1_0"),
    ),
    "pattern": ("a", "^a", "[ab]+", "(?i)nvidia", "b*", "", "(", "\\\\d+", "a{2}"),
    "word": ('"true"', '"t"', '"1"', '"yes"', '"FALSE"', '"tRUE"'),
    "name": ("model", "index", "neg", "ecc", "fw", "ports", "lanes", "none"),
    "domain": ('"gpu.example.com"', '"nic.example.com"', '"nothere"', "device.driver"),
    "equals": ("==", "==", "!="),
    "less": ("<", "<=", ">", ">="),
    "sign": ("+", "-", "*", "/", "%"),
    "holds": ("contains", "startsWith", "endsWith"),
    "find": ("indexOf", "lastIndexOf"),
    "compare": ("isLessThan", "isGreaterThan"),
    "change": ("add", "sub"),
    "sets": ("contains", "intersects", "equivalent"),
    "quantifier": ("all", "exists", "exists_one"),
    "listed": ("[1, 3]", "[1.0, 2.5]", "[true]", "[1u]", "{1: 2}", "{true: 1}", "{1.5: 1}", "{1u: 1}", "{null: 1}"),
    "wrong": ('"\\q"', '"a\nb"', "rb'a'", '"\\ud800"'),
}
"""Texts that belong to no type."""

_MADE: Final[dict[str, tuple[str, ...]]] = {
    "bool": (
        *["($bool && $bool)", "($bool || $bool)"] * 2,
        *("!($bool)", "($bool ? $bool : $bool)", "$dyn $equals $dyn", "$dyn $less $int", "$int $less $double"),
        *[
            f"${kind} $equals ${kind}"
            for kind in ("int", "string", "double", "uint", "bytes", "bool", "ints", "strings")
        ],
        *("$quantity $equals $quantity", "$semver $equals $semver", "$uint $less $double", "$int $less $uint"),
        *[f"${kind} $less ${kind}" for kind in ("int", "double", "uint", "string", "bytes", "bool")],
        *("$int in $ints", "$string in $strings", "$dyn in $listed", "$string in device.attributes"),
        *(
            "$string in device.attributes[$domain]",
            "has(device.attributes[$domain].$name)",
            "has(device.attributes.foo)",
        ),
        *("$string.$holds($string)", '$string.matches("$pattern")', 'isQuantity("$amount")', 'isSemver("$version")'),
        *(
            "$ints.$quantifier($new_int, $in$bool)",
            "$strings.$quantifier($new_string, $in$bool)",
            "$optional.hasValue()",
        ),
        *("cel.bind($new_int, $int, $in$bool)", "cel.bind($new_dyn, $dyn, $in$bool)", 'isSemver("$version", $truth)'),
        *(
            "cel.bind($new_quantity, $quantity, $in$bool)",
            "cel.bind($new_ints, $ints, $in$bool)",
            "$quantity.isInteger()",
        ),
        *("device.attributes[?$domain].hasValue()", 'device.attributes[?$domain][?"$name"].hasValue()'),
        *("$quantity.$compare($quantity)", "$semver.$compare($semver)", "sets.$sets($ints, $ints)", "$ints.isSorted()"),
        *("$dyn.includes($string)", "$dyn.includes($int)", "bool($word)", "$int == {1: 2}[1]", "$int == {1: 2}[$int]"),
        *("$int == {true: 3}[$bool]", "$int == {1u: 2}[1u]", "{$string: $int} == {$string: $int}"),
        *("{'a': 1}.transformMap(k, v, v + $int) == {'a': $int}", "$ints.all(i, e, i + e > $int)"),
    ),
    "int": (
        *["($int $sign $int)"] * 3,
        *("-($int)", "-$int", "size($string)", "size($ints)", "$bytes.size()", "$string.size()", 'int("$number")'),
        *("$string.$find($string)", "$string.$find($string, $int)", "$ints.$find($int)", "int($double)", "int($dyn)"),
        *("int($uint)", "int($string)", "$ints[$int]", "$ints.sum()", "$ints.min()", "$ints.max()", "sign($quantity)"),
        *("$quantity.asInteger()", "$quantity.compareTo($quantity)", "$semver.major()", "$semver.patch()"),
        *("$semver.compareTo($semver)", "$optional.orValue($int)", "$optional.value()", "($bool ? $int : $int)"),
        "cel.bind($new_string, $string, $in$int)",
    ),
    "uint": ('uint("$number")', "uint($int)", "uint($double)", "($uint $sign $uint)"),
    "double": (
        *('double("$number")', "double($int)", "double($uint)", "($double $sign $double)", "-($double)"),
        "$quantity.asApproximateFloat()",
    ),
    "string": (
        *("$wrong", "($string + $string)", "string($int)", "string($double)", "string($uint)", "string($bool)"),
        *("string($bytes)", "string($dyn)", "string($double)", "$string.lowerAscii()", "$string.upperAscii()"),
        *("$string.trim()", "$string.charAt($int)", "$string.substring($int)", "$string.substring($int, $int)"),
        *("$string.replace($string, $string)", "$string.replace($string, $string, $int)", "$strings.join($string)"),
        *("$strings.join()", '$string.find("$pattern")', "strings.quote($string)", "($bool ? $string : $string)"),
        *('device.attributes["gpu.example.com"].model', 'device.attributes["gpu.example.com"].?model.orValue($string)'),
        "$strings[$int]",
    ),
    "bytes": ("($bytes + $bytes)", "bytes($string)"),
    "null": (),
    "ints": (
        *("[$int, $int]", "($ints + $ints)", "$ints.map($new_int, $in$int)", "$ints.map($new_int, $in$bool, $int)"),
        *("$ints.filter($new_int, $in$bool)", "$ints.sort()", "$ints.reverse()", "$ints.distinct()", "lists.range(3)"),
        *(
            "$ints.slice($int, $int)",
            "[$ints, $ints].flatten()",
            "$ints.sortBy(z, -z)",
            "$ints.transformList(i, e, i + e)",
        ),
        "[?$optional, ?optional.none()]",
    ),
    "strings": (
        *("[$string, $string]", "$string.split($string)", "$string.split($string, $int)"),
        *('$string.findAll("$pattern")', "$strings.map($new_string, $in$string)"),
    ),
    "quantity": ("$quantity.$change($quantity)", "$quantity.$change($int)"),
    "semver": (),
    "optional": (
        *("optional.of($int)", "optional.ofNonZeroValue($int)", "$ints[?$int]", "$ints.first()", "$ints.last()"),
        *("$optional.optMap(o, o + 1)", "$optional.or($optional)", "{'a': 1}.?b"),
    ),
    "dyn": tuple(f"dyn(${kind})" for kind in ("int", "uint", "double", "string", "bool", "bytes", "ints", "quantity")),
}
"""What can stand for a type besides, made of others; `$new_` names a variable that is known behind `$in`."""

_DRAWN: Final = re.compile(r"\$(new_|in(?![a-z]))?([a-z]*)")
_ASTRAY: Final = 0.015
"""How often something of another type is drawn than is wanted."""


class _Drawer:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._known: list[tuple[str, str]] = []
        self._named = 0

    def of(self, kind: str, depth: int) -> str:
        """An expression of a type, or now and then of another."""
        if kind in _WORDS:
            return self._dice.choice(_WORDS[kind])
        if self._dice.random() < _ASTRAY:
            kind = self._dice.choice(tuple(_PLAIN))
        known = [name for name, one in self._known if one == kind]
        if known and self._dice.random() < 0.35:
            return self._dice.choice(known)
        plain = depth <= 0 or not _MADE[kind] or self._dice.random() < 0.15
        return self._filled(self._dice.choice(_PLAIN[kind] if plain else _MADE[kind]), depth - 1)

    def _filled(self, form: str, depth: int) -> str:
        before, waiting = len(self._known), list[tuple[str, str]]()

        def draw_part(found: re.Match[str]) -> str:
            if found[1] == "new_":
                self._named += 1
                waiting.append((f"x{self._named}", found[2]))
                return waiting[-1][0]
            if found[1]:
                self._known.extend(waiting)
                return ""
            return self.of(found[2], depth)

        text = _DRAWN.sub(draw_part, form)
        del self._known[before:]
        return text


def draw(seed: int) -> tuple[str, dict[str, Any]]:
    """A selector, and a device to ask about it."""
    dice = random.Random(seed)
    return _Drawer(dice).of("bool", dice.choice((1, 2, 2, 3, 3, 4))), dice.choice(DEVICES)


def kept() -> list[tuple[str, dict[str, Any]]]:
    """Selectors that are asked about each time, of the first device: each shows one thing."""
    text = Path(__file__).with_name("kept_selectors.txt").read_text(encoding="utf-8")
    return [(line, DEVICES[0]) for line in text.splitlines()]
