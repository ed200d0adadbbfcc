"""The syntax of CEL: text into a tree of nodes.

All of the language is parsed but for messages, which no selector of devices can hold. Whether functions and fields
exist is asked elsewhere. Depth is bounded, so that no expression is deeper than Python's stack.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tierwise.api.cel.errors import CompileError

__all__ = ["Call", "Index", "ListOf", "Literal", "MapOf", "Name", "Node", "Select", "parse"]

_MOST_DEEP: Final = 60
"""How deep expressions may be nested; cel-go's own limit is 250, and nobody comes near either."""

_LONGEST_CHAIN: Final = 200
"""How many operators may follow each other without parentheses."""


class Literal(msgspec.Struct, frozen=True):
    """A value that stands there as it is; `unsigned` tells 1u from 1."""

    value: bool | int | float | str | bytes | None
    unsigned: bool = False


class Name(msgspec.Struct, frozen=True):
    """A variable."""

    name: str


class Select(msgspec.Struct, frozen=True):
    """`of.field`, or `of.?field`."""

    of: Node
    field: str
    optional: bool = False


class Index(msgspec.Struct, frozen=True):
    """`of[key]`, or `of[?key]`."""

    of: Node
    key: Node
    optional: bool = False


class Call(msgspec.Struct, frozen=True):
    """A function or, with a target, a method; operators are functions with names such as "_+_"."""

    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


class ListOf(msgspec.Struct, frozen=True):
    """`[a, b]`."""

    items: tuple[Node, ...]


class MapOf(msgspec.Struct, frozen=True):
    """`{a: b}`."""

    entries: tuple[tuple[Node, Node], ...]


Node = Literal | Name | Select | Index | Call | ListOf | MapOf

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*)+)
      | (?P<string>(?P<prefix>[rR]?[bB]?|[bB][rR])(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
                     |\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))
      | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<int>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>?:,.()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW: Final = re.compile(r"([rR]?[bB]?|[bB][rR])(\"{3}|'{3}|\"|')(.*)\2", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
)
_ESCAPED: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"}
    | {"namespace", "return", "var", "void", "while"}
)
_TIGHTNESS: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_LARGEST: Final = 2**63


def parse(text: str) -> Node:
    """The tree of an expression; CompileError where it is none."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._at < len(self._tokens):
            raise CompileError(f"unexpected {self._tokens[self._at][1]!r}")
        return node

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEEP:
            raise CompileError("nested too deeply")
        condition = self._binary(1)
        if self._taken("?"):
            then = self._binary(1)
            self._expect(":")
            condition = Call("_?_:_", (condition, then, self._expression()))
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Node:
        """Operators that bind at least so tightly, the leftmost first."""
        node = self._unary()
        number = 0
        while (tightness := _TIGHTNESS.get(self._operator(), 0)) >= least:
            number += 1
            if number > _LONGEST_CHAIN:  # each one is a level of the tree
                raise CompileError("nested too deeply")
            sign = self._next()
            self._at += 1
            node = Call(f"_{sign}_", (node, self._binary(tightness + 1)))
        return node

    def _unary(self) -> Node:
        number = 0
        sign = self._next()
        while self._taken(sign) if sign in ("!", "-") else False:
            number += 1
        if not number:
            return self._member()
        node = self._negated() if sign == "-" else self._member()
        if sign == "-" and isinstance(node, Literal) and not isinstance(node.value, bool):
            number -= 1  # it is in the literal
        return Call(f"{sign}_", (node,)) if number % 2 else node

    def _negated(self) -> Node:
        """What a minus stands before; the smallest integer can be written only with one."""
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind in ("int", "float") and not text.endswith(("u", "U")):
            self._at += 1
            value = -(float(text) if kind == "float" else int(text, 0 if text[:2] in ("0x", "0X") else 10))
            if isinstance(value, int) and value < -_LARGEST:
                raise CompileError(f"{text} is beyond 64 bits")
            return self._postfix(Literal(value))
        return self._member()

    def _member(self) -> Node:
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        number = 0
        while (sign := self._next()) in (".", ".?", "[", "[?"):
            number += 1
            if number > _MOST_DEEP:
                raise CompileError("nested too deeply")
            self._at += 1
            if sign in ("[", "[?"):
                node = Index(node, self._expression(), optional=sign == "[?")
                self._expect("]")
                continue
            field = self._word()
            if sign == "." and self._taken("("):
                node = Call(field, self._arguments(")"), node)
            else:
                node = Select(node, field, optional=sign == ".?")
        return node

    def _primary(self) -> Node:
        if self._at >= len(self._tokens):
            raise CompileError("the expression ends too early")
        kind, text = self._tokens[self._at]
        self._at += 1
        match kind:
            case "string":
                return Literal(_string(text))
            case "int":
                return _integer(text)
            case "float":
                return Literal(float(text))
            case "word":
                return self._named(text)
            case _:
                pass
        if text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if text == "[":
            return ListOf(self._arguments("]"))
        if text == "{":
            return MapOf(self._entries())
        if text == "." and self._at < len(self._tokens) and self._tokens[self._at][0] == "word":
            return self._named(self._word())
        raise CompileError(f"unexpected {text!r}")

    def _named(self, word: str) -> Node:
        if word in ("true", "false"):
            return Literal(word == "true")
        if word == "null":
            return Literal(None)
        if word in _RESERVED or word == "in":
            raise CompileError(f'"{word}" is a reserved word')
        return Call(word, self._arguments(")")) if self._taken("(") else Name(word)

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._taken(end):
            if found:
                self._expect(",")
                if end == "]" and self._taken(end):
                    break
            found.append(self._expression())
        return tuple(found)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        found: list[tuple[Node, Node]] = []
        while not self._taken("}"):
            if found:
                self._expect(",")
                if self._taken("}"):
                    break
            key = self._expression()
            self._expect(":")
            found.append((key, self._expression()))
        return tuple(found)

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _operator(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind in ("sign", "word") else ""

    def _taken(self, sign: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign)
        self._at += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._taken(sign):
            raise CompileError(
                f"{sign!r} is missing before {self._next()!r}" if self._next() else f"{sign!r} is missing"
            )

    def _word(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "word":
            raise CompileError("a name is missing after a point")
        self._at += 1
        return text


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise CompileError(f"unexpected {text[at]!r}")
        at = token.end()
        kind = token.lastgroup if token.lastgroup != "prefix" else "string"
        if kind is not None and kind != "space":
            found.append((kind, token.group()))
    return found


def _integer(text: str) -> Literal:
    unsigned = text[-1] in "uU"
    digits = text[:-1] if unsigned else text
    value = int(digits, 0 if digits[:2] in ("0x", "0X") else 10) if len(digits) < 40 else _LARGEST * 2
    if value >= (2 * _LARGEST if unsigned else _LARGEST):
        raise CompileError(f"{text[:24]} is beyond 64 bits")
    return Literal(value, unsigned=unsigned)


def _string(text: str) -> str | bytes:
    found = _RAW.fullmatch(text)
    assert found is not None  # or it had been no token
    prefix, _, inner = found.groups()
    binary = "b" in prefix.lower()
    if "r" not in prefix.lower():
        inner = _ESCAPE.sub(_unescaped, inner)
    return inner.encode() if binary else inner


def _unescaped(found: re.Match[str]) -> str:
    simple, short, medium, long, octal, wrong = found.groups()
    if simple:
        return _ESCAPED[simple]
    if wrong is not None:
        raise CompileError(f"unknown escape \\{wrong}")
    code = int(octal, 8) if octal else int(short or medium or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CompileError("an escape that is no character")
    return chr(code)
