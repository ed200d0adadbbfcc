"""The same work on many items, so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

__all__ = ["each"]

T = TypeVar("T")
R = TypeVar("R")


async def each(items: Sequence[T], work: Callable[[T], Awaitable[R]], width: int) -> list[R]:
    """The results in the order of the items; the first items are begun first.

    A few workers that take item after item cost less than a task for each item, and nobody waits inside a time limit.
    """
    results: list[R | None] = [None] * len(items)
    numbers = iter(range(len(items)))

    async def worker() -> None:
        for number in numbers:
            results[number] = await work(items[number])

    await asyncio.gather(*(worker() for _ in range(min(width, len(items)))))
    return cast(list[R], results)
