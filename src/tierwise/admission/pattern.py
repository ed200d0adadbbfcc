"""The annotation that says how the ranks of a job talk to each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tierwise.admission.verdict import Issue, error, warning
from tierwise.api.meta import ObjectMeta
from tierwise.api.pattern import FORMS, PATTERN, parse_pattern

__all__ = ["check"]


def check(meta: ObjectMeta, ranks: int) -> Iterator[Issue]:
    """Issues of the annotation on an object that stands for so many pods."""
    text = meta.annotations.get(PATTERN)
    if text is None:
        return
    path, pattern = f"metadata.annotations[{PATTERN}]", parse_pattern(text)
    if pattern is None:
        yield error(path, f'"{text}" is not a pattern: {FORMS}')
    elif pattern.grid and ranks and prod(size for _, size in pattern.grid) != ranks:
        yield warning(path, f"the grid {text} has another number of places than there are pods, {ranks}")
