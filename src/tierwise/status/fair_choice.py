"""Which of many jobs are told first: so many at a time, of each namespace in turn.

A tenant who makes thousands of objects that cannot be scheduled has as many statuses written about them. To work all of
them out costs a third of a second, in which nothing is bound; and no server takes so many at once.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, islice, zip_longest

from tierwise.model.reason import namespace_of

__all__ = ["FairChoice"]


class FairChoice:
    """Chooses jobs by their keys; those that were chosen longest ago come first in their namespace."""

    def __init__(self) -> None:
        self._rounds = 0
        self._chosen: dict[str, int] = {}  # in which round each key that is still due was last chosen

    def choose(self, keys: Collection[str], most: int | None) -> set[str]:
        """At most so many of the keys, which are in order; all of them where there is no limit."""
        if most is None or len(keys) <= most:
            self._chosen = {}
            return set(keys)
        self._rounds += 1
        known = {key: self._chosen.get(key, 0) for key in keys}
        rows: dict[str, list[str]] = {}
        for key in sorted(known, key=lambda key: known[key]):
            rows.setdefault(namespace_of(key), []).append(key)
        in_turn = chain.from_iterable(zip_longest(*rows.values()))
        found = set(islice((key for key in in_turn if key is not None), most))
        self._chosen = known | dict.fromkeys(found, self._rounds)
        return found
