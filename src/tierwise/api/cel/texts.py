"""Functions of strings, and patterns in them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from tierwise.api.cel.cost import TEXT_FACTOR
from tierwise.api.cel.errors import CompileError, EvaluationError
from tierwise.api.cel.operators import Function, Work, integer_of, is_equal, items_of, no_overload, text_of
from tierwise.api.cel.values import Value
from tierwise.api.go_pattern import Pattern, compile_pattern

__all__ = [
    "LOWER",
    "SPACE",
    "UPPER",
    "PatternText",
    "char_at",
    "find",
    "find_all",
    "index_of",
    "joined",
    "matches",
    "quoted",
    "replaced",
    "split",
    "substring",
]


# -- patterns


_MOST_MEMORY: Final = 256 * 1024
"""How large a compiled pattern may be: enough for real patterns, and compiled in some thousandths of a second."""


@lru_cache(maxsize=256)
def _pattern(text: str) -> Pattern:
    try:
        compiled = compile_pattern(text, max_mem=_MOST_MEMORY)
        # Groups are never read, and thousands of them take long.
        if compiled.groups:
            return compile_pattern(text, max_mem=_MOST_MEMORY, never_capture=True)
        return compiled
    except ValueError:
        raise EvaluationError(f"{text[:64]!r} is not a regular expression") from None


class PatternText(str):
    """The text of a pattern that was compiled before."""

    pattern: Pattern

    def __new__(cls, text: str) -> PatternText:
        """Compile the literal pattern of an expression; CompileError where it is none."""
        pattern = super().__new__(cls, text)
        try:
            pattern.pattern = _pattern(text)
        except EvaluationError as error:
            raise CompileError(str(error)) from None
        return pattern


_STEPS_FOR_ONE: Final = 128
"""How many characters times states are matched for a unit of cost: the worst that a pattern can make of a text."""

_FOUND: Final = 20
"""What it costs to ask for a pattern, and to tell where it was found each time."""


def _asked(env: Work, text: Value, pattern_value: Value) -> Pattern:
    """A pattern for a text; one that is made when the expression is evaluated is charged for being compiled then."""
    if isinstance(pattern_value, PatternText):
        compiled = pattern_value.pattern
    else:
        env.work(1000 + 20 * len(text_of(pattern_value)))
        compiled = _pattern(text_of(pattern_value))
    env.work(_FOUND + len(text_of(text)) * compiled.programsize // _STEPS_FOR_ONE)
    return compiled


def matches(env: Work, text: Value, pattern_value: Value) -> Value:
    """Whether a pattern is found in a text."""
    return _asked(env, text, pattern_value).search(text_of(text)) is not None


def find(env: Work, text: Value, pattern_value: Value) -> Value:
    """First match of a pattern in a text, "" without one."""
    match = _asked(env, text, pattern_value).search(text_of(text))
    return "" if match is None else match.group()


def find_all(env: Work, text: Value, pattern_value: Value, limit: Value = -1) -> Value:
    """All matches of a pattern in a text, in order, up to the limit."""
    limit_number = integer_of(limit)
    matches_found: list[Value] = []
    end = -1
    for match in _asked(env, text, pattern_value).finditer(text_of(text)):
        if limit_number >= 0 and len(matches_found) >= limit_number:
            break
        env.work(_FOUND)
        start, stop = match.span()
        if start == stop == end:  # Go finds nothing right behind what it has found
            continue
        end = stop
        matches_found.append(match.group())
    return matches_found


# -- strings

SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
LOWER: Final = {upper: upper + 32 for upper in range(65, 91)}
UPPER: Final = {lower: lower - 32 for lower in range(97, 123)}


def replaced(env: Work, text: Value, old: Value, new: Value, limit: Value = -1) -> Value:
    """A text with another part for one, as often as it may be."""
    subject = text_of(text)
    part = text_of(old)
    by = text_of(new)
    limit_number = integer_of(limit)
    number = subject.count(part) if part else len(subject) + 1
    number = min(number, limit_number) if limit_number >= 0 else number
    env.work(math.ceil((len(subject) + number * len(by)) * TEXT_FACTOR))
    return subject.replace(part, by, number)


def split(env: Work, text: Value, by: Value, limit: Value = -1) -> Value:
    """A text in parts, at most so many."""
    subject = text_of(text)
    mark = text_of(by)
    limit_number = integer_of(limit)
    if limit_number == 0:
        return []
    env.work(subject.count(mark) + 1)
    parts: list[Value] = (
        list(subject) if not mark else list(subject.split(mark, limit_number - 1 if limit_number > 0 else -1))
    )
    if not mark and 0 < limit_number < len(parts):
        parts = [*parts[: limit_number - 1], subject[limit_number - 1 :]]
    return parts


def joined(env: Work, items: Value, by: Value = "") -> Value:
    """Texts as one."""
    parts = [text_of(item) for item in items_of(items)]
    between = text_of(by)
    size = sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0)
    env.work(max(math.ceil(size * 2 * TEXT_FACTOR), len(parts) // 2))
    return between.join(parts)


def substring(_: Work, text: Value, start: Value, end: Value = None) -> Value:
    """A part of a text."""
    subject = text_of(text)
    begin = integer_of(start)
    stop = len(subject) if end is None else integer_of(end)
    if not 0 <= begin <= stop <= len(subject):
        raise EvaluationError(f"index out of range: {begin}")
    return subject[begin:stop]


def char_at(_: Work, text: Value, at: Value) -> Value:
    """One character of a text; none behind the last."""
    subject = text_of(text)
    index = integer_of(at)
    if not 0 <= index <= len(subject):
        raise EvaluationError(f"index out of range: {index}")
    return subject[index : index + 1]


def index_of(*, from_end: bool) -> Function:
    """Where something is in a text or a list, from the start or from the end."""

    def find(env: Work, holder: Value, part_wanted: Value, start: Value = None) -> Value:
        if isinstance(holder, list):
            if start is not None:
                raise no_overload("indexOf", holder, part_wanted, start)
            order = range(len(holder) - 1, -1, -1) if from_end else range(len(holder))
            return next((i for i in order if is_equal(env, holder[i], part_wanted)), -1)
        subject = text_of(holder)
        part = text_of(part_wanted)
        if not part:
            if start is not None:
                return integer_of(start)
            return len(subject) if from_end else 0
        at = (len(subject) if from_end else 0) if start is None else integer_of(start)
        if at < 0:
            raise EvaluationError(f"index out of range: {at}")
        if start is not None and at >= len(subject):
            return -1
        if from_end:
            return subject.rfind(part, 0, at + len(part))
        return subject.find(part, at)

    return find


_QUOTES: Final = str.maketrans(
    {sign: f"\\{name}" for sign, name in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)


def quoted(_: Work, text: Value) -> Value:
    """A text in quotes, as it would be written."""
    return f'"{text_of(text).translate(_QUOTES)}"'
