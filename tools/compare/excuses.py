"""A difference is excused only where real code agrees once its cause is taken away.

A cause says what it touches in a drawn case, and gives the case without it. Both schedulers are asked again; where they
still differ, the next cause of that case is taken away as well. A difference that no chain of causes removes is not
explained, and makes a comparison fail. How many were excused, by which causes, is printed.
"""

from __future__ import annotations

import collections
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Case = TypeVar("Case")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Cause(Generic[Case, Answer]):
    """Why answers may differ: `without` gives the case without the cause, or nothing where it touches nothing."""

    name: str
    without: Callable[[Case, Answer, Answer], Case | None]


def explain(
    case: Case,
    answers: tuple[Answer, Answer],
    causes: list[Cause[Case, Answer]],
    ask: Callable[[Case], tuple[Answer, Answer, bool]],
    *,
    steps: int,
    far: Callable[[Case, Answer, Answer], int] = lambda *_: 0,
) -> tuple[str, ...] | None:
    """The causes whose absence makes both agree, found within so many further questions; nothing if there are none.

    `ask` gives both answers, and whether they agree; `far` how much is left to explain: the least comes first, and of
    as much what has few causes.
    """
    order, tried = itertools.count(), set[tuple[str, ...]]()
    left: list[tuple[int, int, Case, tuple[Answer, Answer], tuple[str, ...]]] = [(0, next(order), case, answers, ())]
    while left:
        _, _, case, answers, used = heapq.heappop(left)
        for cause in causes:
            together = tuple(sorted((*used, cause.name)))
            reduced = cause.without(case, *answers) if used.count(cause.name) <= 4 and together not in tried else None
            if reduced is None:
                continue
            tried.add(together)
            if not steps:
                return None
            steps -= 1
            *found, agree = ask(reduced)
            if agree:
                return (*used, cause.name)
            theirs, ours = found
            distance = far(reduced, theirs, ours) + len(used)
            heapq.heappush(left, (distance, next(order), reduced, (theirs, ours), (*used, cause.name)))
    return None


@dataclass
class Tally:
    """What a run saw, by class, with the seeds that show it."""

    reasons: dict[str, str]
    seen: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))
    excused: dict[tuple[str, ...], list[str]] = field(default_factory=lambda: collections.defaultdict(list))
    unexplained: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    def wire(self) -> dict[str, object]:
        """All of it but the reasons, as JSON can hold it."""
        excused = [[list(names), where] for names, where in self.excused.items()]
        return {"seen": self.seen, "excused": excused, "unexplained": self.unexplained}

    def add(self, wire: dict[str, Any]) -> None:
        """Count what another run saw."""
        for name, where in wire["seen"].items():
            self.seen[name] += where
        for names, where in wire["excused"]:
            self.excused[tuple(names)] += where
        for name, where in wire["unexplained"].items():
            self.unexplained[name] += where

    def lines(self, show: int) -> Iterator[str]:
        """The table: the same, excused by which causes, and not explained."""
        for name, where in sorted(self.seen.items()):
            yield f"  {len(where):6}  {name}"
        yield f"  {sum(map(len, self.excused.values())):6}  excused: real code agrees once the cause is taken away"
        by_cause: dict[str, list[str]] = collections.defaultdict(list)
        for names, where in self.excused.items():
            for name in dict.fromkeys(names):
                by_cause[name] += where
        for name, where in sorted(by_cause.items(), key=lambda entry: -len(entry[1])):
            yield f"  {'':6}  {len(where):6}  {name}: {self.reasons[name]}  ({', '.join(where[:show])})"
        yield f"  {sum(map(len, self.unexplained.values())):6}  NOT EXPLAINED"
        for name, where in sorted(self.unexplained.items(), key=lambda entry: -len(entry[1])):
            yield f"  {'':6}  {len(where):6}  {name}  ({', '.join(where[:show])})"
