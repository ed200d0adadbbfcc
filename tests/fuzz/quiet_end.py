"""How every history of the one fuzzer ends: nothing happens any more, and the cluster must come to rest.

The clock goes past all moments that were stated; then there are twenty cycles, in which pods start and leave as they
are told and nothing else changes. Then

- nobody is evicted any more, and nobody is bound: what is evicted and bound in turn would be;
- nobody waits for a moment or for another's turn, which would never come;
- what the profile would bind without patience and reservations is bound.

*Never*, *not allowed* and what operators hold back say themselves that waiting does not help.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["AFTER", "QUIET", "circles", "ladderless", "left_behind", "waits_for_ever", "without_promises"]

Manifest = dict[str, Any]

QUIET: Final = 20
"""Cycles without news."""
AFTER: Final = 40 * 86_400.0
"""Seconds by which the clock goes ahead before: no world states a moment that is as far away."""
_AT_REST: Final = 14
"""From this one of them on nothing may happen: whoever is evicted for comes to run within a few cycles."""
_WITH_AN_END: Final = frozenset(
    (
        *("WaitsForCloserPlace", "PlaceIsKept", "WouldDelayReservation", "AwaitsNotice", "MovesForRepair"),
        *("NotLookedAtYet", "BindFailed", "WaitsForGang", "UplinkIsFull"),
    )
)
"""Reasons that name what will end the waiting; at rest there is nothing left that could."""

_SAYS_SO: Final = ("never", "not-allowed")


def circles(number: int, evicted: Sequence[str], bound: Sequence[str]) -> list[str]:
    """What is wrong with the evictions and binds of one of the quiet cycles."""
    if number < _AT_REST:
        return []
    moved = [f"{path} is evicted" for path in evicted] + [f"{path} is bound" for path in bound]
    return [f"circles: {one} in cycle {number} after the last event" for one in moved[:3]]


def waits_for_ever(pending: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Pods that wait at rest for what has no end, given what they are told."""
    faults = []
    for path, told in sorted(pending.items()):
        codes = _codes(told) & _WITH_AN_END
        if codes and told.get("verdict") not in _SAYS_SO:
            faults.append(f"waits for ever: {path} is told {', '.join(sorted(codes))}")
    return faults


def _codes(told: object) -> set[str]:
    """All codes of reasons in what a pod is told."""
    if isinstance(told, Mapping):
        own = {str(told["code"])} if "code" in told else set()
        return own.union(*map(_codes, told.values())) if told else own
    return set().union(*map(_codes, told)) if isinstance(told, (list, tuple)) else set()


def without_promises(config: Manifest) -> Manifest:
    """The same configuration without patience and reservations."""
    found = copy.deepcopy(config)
    for tier in found.get("tiers", ()):
        tier["plugins"] = [plugin for plugin in tier["plugins"] if plugin["name"] != "patience"]
    if "tiers" in found:
        found["tiers"][-1]["plugins"].append({"name": "patience", "arguments": {"share": 0}})
    for action in found.get("configurations", ()):
        action.get("arguments", {}).pop("reservations", None)
    return found


def ladderless(raws: Sequence[Manifest]) -> list[Manifest]:
    """The same objects without ladders of gangs."""
    found = []
    for raw in raws:
        if "tierwise.io/topology-ladder" in (raw["metadata"].get("annotations") or {}):
            raw = copy.deepcopy(raw)
            del raw["metadata"]["annotations"]["tierwise.io/topology-ladder"]
        found.append(raw)
    return found


def left_behind(pending: Mapping[str, Mapping[str, Any]], bound: Sequence[str]) -> list[str]:
    """Pods that wait at rest although a profile without promises would bind them, and that are not told it is vain."""
    left = [path for path in bound if pending.get(path, {}).get("verdict") not in _SAYS_SO]
    return [f"left behind: {path} would be bound without patience, reservations and ladders" for path in left[:3]]
