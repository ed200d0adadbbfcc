"""The syntax of CEL: text into a tree of nodes, in which macros are written out.

All of the language is parsed but for messages, which no selector of devices can hold. Whether functions and fields
exist and types go together is asked elsewhere. Depth is bounded, so that no expression is deeper than Python's stack.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tierwise.api.cel.errors import CompileError, NotSupportedError
from tierwise.api.cel.values import UInt

__all__ = ["Call", "Comprehension", "ListOf", "Literal", "MapOf", "Name", "Node", "Select", "children", "parse"]

_MOST_DEEP: Final = 60
"""How deep expressions may be nested; cel-go's own limit is 250; real selectors come near neither."""

_DEEPEST_TREE: Final = 150
"""How many nodes may lie below each other, with operators that follow each other and macros written out."""

_MOST_NODES: Final = 40_000
"""How many nodes a tree may have; only macros that are written out to more and more text come near."""

_ACCUMULATOR: Final = "@result"
_UNUSED: Final = "#unused"


class Literal(msgspec.Struct, frozen=True, eq=False):
    """A literal."""

    value: bool | int | float | str | bytes | None


class Name(msgspec.Struct, frozen=True, eq=False):
    """A variable."""

    name: str


class Select(msgspec.Struct, frozen=True, eq=False):
    """`of.field`, or with `test` `has(of.field)`."""

    of: Node
    field: str
    test: bool = False


class Call(msgspec.Struct, frozen=True, eq=False):
    """A function or, with a target, a method; operators are functions with names such as "_+_"."""

    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


class ListOf(msgspec.Struct, frozen=True, eq=False):
    """`[a, b]`; those at the places in `optional` are left out where they have no value."""

    items: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


class MapOf(msgspec.Struct, frozen=True, eq=False):
    """`{a: b}`; entries with True are left out where they have no value."""

    entries: tuple[tuple[Node, Node, bool], ...]


class Comprehension(msgspec.Struct, frozen=True, eq=False):
    """Loop that a macro expands to: over a range, each step makes a new `accumulator` from the previous one. `kind` is
    the macro; "bind" has no loop, and its start is evaluated when the result asks for it.
    """

    kind: str
    over: Node
    name: str
    accumulator: str
    start: Node
    goes_on: Node
    step: Node
    result: Node
    second: str = ""


Node = Literal | Name | Select | Call | ListOf | MapOf | Comprehension


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below one."""
    match node:
        case Select(of, _, _):
            return (of,)
        case Call(_, arguments, target):
            return arguments if target is None else (target, *arguments)
        case ListOf(items, _):
            return items
        case MapOf(entries):
            return tuple(part for key, value, _ in entries for part in (key, value))
        case Comprehension():
            return node.over, node.start, node.goes_on, node.step, node.result
        case _:
            return ()


_ESCAPE_FORM: Final = r"\\(?:[abfnrtv\\?\"'`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_TOKEN: Final = re.compile(
    rf"""(?P<space>(?:[\t\ \r\n\f]|//[^\n]*)+)
      | (?P<string>[bB]?(?:
          [rR](?:\"{{3}}.*?\"{{3}}|'{{3}}.*?'{{3}}|\"[^\"\n\r]*\"|'[^'\n\r]*')
          |\"{{3}}(?:{_ESCAPE_FORM}|[^\\])*?\"{{3}}|'{{3}}(?:{_ESCAPE_FORM}|[^\\])*?'{{3}}
          |\"(?:{_ESCAPE_FORM}|[^\"\\\n\r])*\"|'(?:{_ESCAPE_FORM}|[^'\\\n\r])*'))
      | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<int>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:,.()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"([bB]?)([rR]?)(\"{3}|'{3}|\"|')(.*)\3", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))|([0-3][0-7]{2}))"
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
    root = _Parser(text).whole()
    measured: dict[int, tuple[int, int]] = {}  # depth and number of nodes; macros use some of their arguments twice
    waiting: list[Node] = [root]
    while waiting:
        below = children(waiting[-1])
        missing = [part for part in below if id(part) not in measured]
        if missing:
            waiting += missing
            continue
        measures = [measured[id(part)] for part in below]
        depth = 1 + max((d for d, _ in measures), default=0)
        size = 1 + sum(n for _, n in measures)
        if depth > _DEEPEST_TREE or size > _MOST_NODES:
            raise NotSupportedError("nested too deeply")
        measured[id(waiting.pop())] = depth, size
    return root


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
            raise NotSupportedError("nested too deeply")
        condition = self._binary(1)
        if self._taken("?"):
            then = self._binary(1)
            self._expect(":")
            condition = Call("_?_:_", (condition, then, self._expression()))
        self._depth -= 1
        return condition

    def _binary(self, tightness_needed: int) -> Node:
        """Operators that bind at least so tightly, the leftmost first; and, or take as many sides as there are."""
        node = self._unary()
        while (tightness := _TIGHTNESS.get(self._operator(), 0)) >= tightness_needed:
            sign = self._next()
            sides = [node]
            while self._operator() == sign:
                self._at += 1
                sides.append(self._binary(tightness + 1))
                if sign not in ("&&", "||"):
                    break
            node = Call("@in" if sign == "in" else f"_{sign}_", tuple(sides))
        return node

    def _unary(self) -> Node:
        sign = self._next() if self._operator() in ("!", "-") else ""
        number = 0
        while sign and self._taken(sign):
            number += 1
        if sign == "-" and number == 1:
            kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
            if kind in ("int", "float") and text[-1] not in "uU":
                self._at += 1
                return self._postfix(Literal(-float(text)) if kind == "float" else _integer(text, -1))
        node = self._member()
        return Call(f"{sign}_", (node,)) if number % 2 else node

    def _member(self) -> Node:
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        number = 0
        while (sign := self._operator()) in (".", "["):
            number += 1
            if number > _MOST_DEEP:
                raise NotSupportedError("nested too deeply")
            self._at += 1
            optional = self._taken("?")
            if sign == "[":
                node = Call("_[?_]" if optional else "_[_]", (node, self._expression()))
                self._expect("]")
                continue
            field = self._word()
            if not optional and self._taken("("):
                node = _method(field, node, self._arguments(")"))
            elif optional:
                node = Call("_?._", (node, Literal(field)))
            else:
                node = Select(node, field)
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
                return _integer(text, 1)
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
            return self._list()
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
        if self._taken("("):
            return _function(word, self._arguments(")"))
        return Name(word)

    def _arguments(self, end: str) -> tuple[Node, ...]:
        arguments: list[Node] = []
        while not self._taken(end):
            if arguments:
                self._expect(",")
            arguments.append(self._expression())
        return tuple(arguments)

    def _list(self) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while not self._ends("]", items):
            if self._taken("?"):
                optional.add(len(items))
            items.append(self._expression())
        return ListOf(tuple(items), frozenset(optional))

    def _entries(self) -> tuple[tuple[Node, Node, bool], ...]:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._ends("}", entries):
            optional = self._taken("?")
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
        return tuple(entries)

    def _ends(self, sign: str, items: list[Node] | list[tuple[Node, Node, bool]]) -> bool:
        """Whether a list or a map ends here; a comma may come before."""
        if self._taken(sign):
            return True
        if not items and self._taken(","):
            self._expect(sign)
            return True
        if items:
            self._expect(",")
            return self._taken(sign)
        return False

    def _next(self) -> str:
        if self._at < len(self._tokens):
            return self._tokens[self._at][1]
        return ""

    def _operator(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind in ("sign", "word") else ""

    def _taken(self, sign: str) -> bool:
        matches_sign = self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign)
        self._at += matches_sign
        return matches_sign

    def _expect(self, sign: str) -> None:
        if not self._taken(sign):
            raise CompileError(
                f"{sign!r} is missing before {self._next()!r}" if self._next() else f"{sign!r} is missing"
            )

    def _word(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "word":
            raise CompileError("a name is missing after a point")
        if text in ("in", "true", "false", "null"):
            raise CompileError(f'"{text}" is a reserved word')
        self._at += 1
        return text


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens_read: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise CompileError(f"unexpected {text[at]!r}")
        at = token.end()
        kind = token.lastgroup
        if kind is not None and kind != "space":
            tokens_read.append((kind, token.group()))
    return tokens_read


def _integer(text: str, sign: int) -> Literal:
    unsigned = text[-1] in "uU"
    digits = text[:-1] if unsigned else text
    value = sign * (int(digits, 16 if digits.startswith("0x") else 10) if len(digits) < 4000 else _LARGEST * 2)
    if not (0 <= value < 2 * _LARGEST if unsigned else -_LARGEST <= value < _LARGEST):
        raise CompileError(f"{text[:24]} is beyond 64 bits")
    return Literal(UInt(value) if unsigned else value)


def _string(text: str) -> str | bytes:
    match = _QUOTED.fullmatch(text)
    assert match is not None  # or it had been no token
    binary, raw, _, inner = match.groups()
    inner = inner.replace("\r\n", "\n").replace("\r", "\n")
    if binary:
        return inner.encode() if raw else _bytes(inner)
    return inner if raw else _ESCAPE.sub(_unescaped, inner)


def _unescaped(match: re.Match[str]) -> str:
    simple, short, medium, long, octal = match.groups()
    if simple:
        return _ESCAPED[simple]
    code = int(octal, 8) if octal else int(short or medium or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CompileError("an escape that is no character")
    return chr(code)


def _bytes(text: str) -> bytes:
    """Bytes of a literal: an escaped number is one byte, and escaped characters are refused."""
    data = b""
    at = 0
    for escape in _ESCAPE.finditer(text):
        simple, short, medium, long, octal = escape.groups()
        if medium or long:
            raise CompileError("bytes hold no characters, so \\u and \\U are not allowed in them")
        escaped = _ESCAPED[simple].encode() if simple else bytes([int(octal, 8) if octal else int(short, 16)])
        data += text[at : escape.start()].encode() + escaped
        at = escape.end()
    return data + text[at:].encode()


# -- macros: they bind a name, or look at an argument without evaluating it


def _function(name: str, arguments: tuple[Node, ...]) -> Node:
    if name == "has" and len(arguments) == 1:
        if not isinstance(arguments[0], Select):
            raise CompileError("invalid argument to has() macro")
        return Select(arguments[0].of, arguments[0].field, test=True)
    return Call(name, arguments)


def _method(name: str, target: Node, arguments: tuple[Node, ...]) -> Node:
    match name, len(arguments):
        case ("all" | "exists" | "exists_one", 2 | 3) | ("existsOne", 3):
            return _quantified(name, target, arguments)
        case "map", 2 | 3:
            return _mapped("map", target, (_variable(arguments[0]), ""), arguments[1:])
        case "transformList", 3 | 4:
            return _mapped("map", target, _two(arguments), arguments[2:])
        case "filter", 2:
            name = _variable(arguments[0])
            return _loop("filter", target, (name, ""), ListOf(()), _kept(arguments[1], ListOf((Name(name),))))
        case "transformMap", 3 | 4:
            return _inserted(target, _two(arguments), arguments[2:])
        case "bind", 3 if isinstance(target, Name) and target.name == "cel":
            return _bound(_variable(arguments[0]), arguments[1], arguments[2])
        case "optMap" | "optFlatMap", 2:
            value = Call("value", (), target)
            inner: Node = _bound(_variable(arguments[0]), value, arguments[1])
            inner = Call("optional.of", (inner,)) if name == "optMap" else inner
            return Call("_?_:_", (Call("hasValue", (), target), inner, Call("optional.none", ())))
        case "sortBy", 2:
            accumulator = "@sorted"
            keys = _mapped("map", Name(accumulator), (_variable(arguments[0]), ""), arguments[1:])
            return _bound(accumulator, target, Call("@sortByAssociatedKeys", (keys,), Name(accumulator)))
        case _:
            parts = _path(target)
            if parts in _NAMESPACES:
                return Call(f"{parts}.{name}", arguments)
            return Call(name, arguments, target)


_NAMESPACES: Final = frozenset({"sets", "optional", "lists", "strings", "cel"})


def _path(node: Node) -> str:
    return node.name if isinstance(node, Name) else ""


def _variable(node: Node) -> str:
    if not isinstance(node, Name):
        raise CompileError("the first argument of a macro must be a simple name")
    if node.name == "__result__":
        raise CompileError("iteration variable overwrites accumulator variable")
    return node.name


def _two(arguments: tuple[Node, ...]) -> tuple[str, str]:
    names = _variable(arguments[0]), _variable(arguments[1])
    if names[0] == names[1]:
        raise CompileError("the two variables of a macro must differ")
    return names


def _bound(name: str, value: Node, result: Node) -> Comprehension:
    return Comprehension("bind", ListOf(()), _UNUSED, name, value, Literal(False), Name(name), result)


def _loop(kind: str, over: Node, names: tuple[str, str], start: Node, step: Node) -> Comprehension:
    return Comprehension(
        kind, over, names[0], _ACCUMULATOR, start, Literal(True), step, Name(_ACCUMULATOR), second=names[1]
    )


def _kept(condition: Node | None, item: Node) -> Node:
    """Expression for the collected list plus one more list, added only if a condition holds."""
    added = Call("_+_", (Name(_ACCUMULATOR), item))
    if condition is None:
        return added
    return Call("_?_:_", (condition, added, Name(_ACCUMULATOR)))


def _mapped(kind: str, over: Node, names: tuple[str, str], arguments: tuple[Node, ...]) -> Node:
    condition = arguments[0] if len(arguments) == 2 else None
    return _loop(kind, over, names, ListOf(()), _kept(condition, ListOf((arguments[-1],))))


def _inserted(over: Node, names: tuple[str, str], arguments: tuple[Node, ...]) -> Node:
    step: Node = Call("cel.@mapInsert", (Name(_ACCUMULATOR), Name(names[0]), arguments[-1]))
    if len(arguments) == 2:
        step = Call("_?_:_", (arguments[0], step, Name(_ACCUMULATOR)))
    return _loop("transformMap", over, names, MapOf(()), step)


def _quantified(kind: str, over: Node, arguments: tuple[Node, ...]) -> Node:
    names = _two(arguments) if len(arguments) == 3 else (_variable(arguments[0]), "")
    condition = arguments[-1]
    so_far = Name(_ACCUMULATOR)
    start: Node
    match kind:
        case "all":
            start = Literal(True)
            goes_on = Call("@not_strictly_false", (so_far,))
            step = Call("_&&_", (Name(_ACCUMULATOR), condition))
            result = Name(_ACCUMULATOR)
        case "exists":
            start = Literal(False)
            goes_on = Call("@not_strictly_false", (Call("!_", (so_far,)),))
            step = Call("_||_", (Name(_ACCUMULATOR), condition))
            result = Name(_ACCUMULATOR)
        case _:
            increased = Call("_+_", (so_far, Literal(1)))
            step = Call("_?_:_", (condition, increased, Name(_ACCUMULATOR)))
            is_one = Call("_==_", (Name(_ACCUMULATOR), Literal(1)))
            return Comprehension(
                "existsOne", over, names[0], _ACCUMULATOR, Literal(0), Literal(True), step, is_one, second=names[1]
            )
    return Comprehension(kind, over, names[0], _ACCUMULATOR, start, goes_on, step, result, second=names[1])
