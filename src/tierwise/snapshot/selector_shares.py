"""How much of the selectors of claims one cycle looks at: a bound on all of them, shared fairly between namespaces.

Kubernetes bounds what one selector costs, and a tenant can write any number of them. Shares follow from the claims that
wait and from nothing else, so a snapshot that was kept agrees with a fresh one (docs/decisions/0124). Every
namespace gets a little, then each that needs it more, so that what costs as little as people's selectors do is served
whatever others have written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Final, TypeVar

from tierwise.api.natural import natural
from tierwise.api.resource import DeviceClaim
from tierwise.dialects.kubernetes.devices import ANY_CLAIM, Planner, expressions

__all__ = ["MOST_BYTES", "MOST_COST", "beyond_evaluating", "beyond_reading"]

MOST_BYTES: Final = 65_536
"""How much text of selectors a cycle reads, with `_EACH` for each: some 300 of what people write."""

MOST_COST: Final = 2_000_000
"""What a cycle spends on asking them: twice what Kubernetes allows one of them."""

_EACH: Final = 64
_SHARES: Final = (8192, 65_536)
"""What every namespace may spend before any spends more: of cost for some hundred requests as people write them."""

_WAITS: Final = (
    "ResourceClaim {} waits for its turn: a cycle {} selectors of devices, shared fairly between namespaces,"
    " and what this namespace may have of it is used up"
)

Part = TypeVar("Part", bound=Hashable)


def beyond_reading(claims: Sequence[tuple[str, DeviceClaim]]) -> dict[str, str]:
    """Claims, by path, whose selectors are not even read, and what their pods are told."""
    parts = [(path, tuple(chain.from_iterable(expressions(spec)))) for path, spec in claims]

    def pay(text: str, budget: int) -> tuple[bool, int]:
        length = _EACH + len(text.encode(errors="replace"))
        return (True, length) if length <= budget else (False, 0)

    return _told(_beyond(parts, pay, MOST_BYTES), f"reads {MOST_BYTES} bytes of")


def beyond_evaluating(claims: Sequence[tuple[str, DeviceClaim]], planner: Planner) -> dict[str, str]:
    """Claims, by path, whose selectors are not asked about devices, and what their pods are told."""
    parts = [(path, tuple(expressions(spec))) for path, spec in claims]

    def pay(texts: tuple[str, ...], budget: int) -> tuple[bool, int]:
        cost = planner.cost(texts, ANY_CLAIM, budget)
        return (False, budget) if cost is None else (True, cost)

    return _told(_beyond(parts, pay, MOST_COST), f"spends {MOST_COST} units of cost on")


def _told(paths: Sequence[str], what: str) -> dict[str, str]:
    return {path: _WAITS.format(path.rpartition("/")[2], what) for path in paths}


def _beyond(
    claims: Sequence[tuple[str, tuple[Part, ...]]], pay: Callable[[Part, int], tuple[bool, int]], most: int
) -> list[str]:
    """Serve claims until so much is spent; who is left out.

    In each round a namespace may spend so much in all, and in the last one whatever is left. `pay` says whether a part
    was to be had for what is left, and what was spent on it. What was paid for once is free for everybody.
    """
    waiting: dict[str, list[tuple[Part, ...]]] = {}
    for path, parts in claims:
        waiting.setdefault(path.partition("/")[0], []).append(parts)
    namespaces = sorted(waiting, key=natural)
    queues = {name: list(dict.fromkeys(chain.from_iterable(waiting[name])))[::-1] for name in namespaces}
    paid: set[Part] = set()
    too_little: dict[Part, int] = {}  # it costs more than that
    spent = dict.fromkeys(namespaces, 0)
    total = 0
    for limit in (*(share for share in _SHARES if share < most), most):
        for name in namespaces:
            queue = queues[name]
            while queue:
                part = queue[-1]
                if part not in paid:
                    budget = min(limit - spent[name], most - total)
                    done, cost = pay(part, budget) if budget > too_little.get(part, 0) else (False, 0)
                    total += cost
                    if done:
                        paid.add(part)
                        spent[name] += cost
                    elif limit < most:
                        too_little[part] = max(budget, too_little.get(part, 0))
                        break
                queue.pop()
    return [path for path, parts in claims if not paid.issuperset(parts)]
