"""Slurm's hostlist expressions: "tux[0-3,12]" for many names, and many names as one expression.

Used by the Slurm readers and writers, and to keep records of discovered trees small. What Slurm's parser reads is read
alike; brackets within brackets, which it refuses, are read as alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tierwise.api.natural import natural

__all__ = ["HostlistError", "compress", "expand", "fits"]

MOST: Final = 1 << 18
"""Names beyond which an expression is taken for a mistake."""

_RANGE: Final = re.compile(r"([0-9]+)-([0-9]+)(?=[,\]])")
_LITERAL: Final = re.compile(r"[^\[\],]+")
_NUMBERED: Final = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]{1,18})(?P<end>[^0-9]*)", re.DOTALL)
_UNFIT: Final = re.compile(r"[\[\],\s=\"'#\\]")


class HostlistError(ValueError):
    """An expression that means no list of names; the text says why."""


def expand(text: str) -> list[str]:
    """The names that an expression means, in its order, each once."""
    reader = _Reader(text)
    names = reader.alternatives(inside=False)
    if reader.rest:
        raise HostlistError(f'"{text}": "]" without "["')
    return list(dict.fromkeys(names))


class _Reader:
    """A cursor over an expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def alternatives(self, *, inside: bool) -> list[str]:
        names = self._one(inside=inside)
        while self.rest.startswith(","):
            self._at += 1
            names += self._one(inside=inside)
            self._refuse_many(len(names))
        return names

    def _one(self, *, inside: bool) -> list[str]:
        form = _RANGE.match(self._text, self._at) if inside else None
        if form is not None:
            self._at = form.end()
            return self._numbers(*form.groups())
        words = [""]
        start = self._at
        while self.rest and self.rest[0] not in ",]":
            tails = self._brackets() if self.rest[0] == "[" else [self._literal(inside=inside)]
            self._refuse_many(len(words) * len(tails))
            words = [word + tail for word in words for tail in tails]
        if self._at == start:
            raise HostlistError(f'"{self._text}": a name is empty')
        return words

    def _brackets(self) -> list[str]:
        self._at += 1
        alternatives = self.alternatives(inside=True)
        if not self.rest.startswith("]"):
            raise HostlistError(f'"{self._text}": "[" without "]"')
        self._at += 1
        return alternatives

    def _literal(self, *, inside: bool) -> str:
        form = _LITERAL.match(self._text, self._at)
        assert form is not None  # the character is none of those that end a literal
        self._at = form.end()
        word = form[0]
        if inside and not self.rest:
            raise HostlistError(f'"{self._text}": "[" without "]"')
        if inside and not (word.isascii() and word.isdigit()):
            raise HostlistError(f'"{self._text}": "{word}" in brackets is no number and no range')
        return word

    def _numbers(self, low: str, high: str) -> list[str]:
        count = int(high) - int(low) + 1 if max(len(low), len(high)) < 19 else MOST + 1
        if count < 1:
            raise HostlistError(f'"{self._text}": the range {low}-{high} runs backwards')
        self._refuse_many(count)
        return [str(number).zfill(len(low)) for number in range(int(low), int(low) + count)]

    def _refuse_many(self, count: int) -> None:
        if count > MOST:
            raise HostlistError(f'"{self._text[:60]}" stands for more than {MOST:,} names')


def compress(names: Iterable[str]) -> str:
    """One expression for these names, which must be `fit`: `expand` gives them back."""
    groups: dict[tuple[str, str | None], list[str]] = {}  # no end: a name without a number
    for name in sorted(set(names), key=natural):
        form = _NUMBERED.fullmatch(name)
        if form is None:
            groups[name, None] = []
        else:
            groups.setdefault((form["stem"], form["end"]), []).append(form["number"])
    return ",".join(_folded(stem, numbers, end or "") for (stem, end), numbers in groups.items())


def _folded(stem: str, numbers: list[str], end: str) -> str:
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    if len(numbers) < 2:
        return f"{stem}{shown}{end}"
    return f"{stem}[{shown}]{end}"


def fits(name: str) -> bool:
    """Whether a name can be part of an expression, and in a line of Slurm's configuration."""
    return bool(name) and name.isprintable() and not _UNFIT.search(name)
