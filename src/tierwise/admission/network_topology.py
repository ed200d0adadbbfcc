"""Checks of `networkTopology`, the fields that pod groups, sub-groups, jobs and partitions share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.api.volcano import NetworkTopologySpec

__all__ = ["check", "limit", "within"]

_MODES: Final = frozenset({"hard", "soft"})


def check(path: str, topology: NetworkTopologySpec | None, tiers: Mapping[str, int]) -> Iterator[Issue]:
    """Issues of one topology; `tiers` are the tiers that have names."""
    if topology is None:
        return
    number, name = topology.highest_tier_allowed, topology.highest_tier_name
    yield from one_of(f"{path}.mode", topology.mode.lower(), _MODES)
    yield from at_least(f"{path}.highestTierAllowed", number, 0)
    if number is not None and name:
        yield error(path, "highestTierAllowed and highestTierName exclude each other")
    elif name and name not in tiers:
        yield warning(f"{path}.highestTierName", f'no hyperNode has the tierName "{name}": it sets no limit')
    elif number is None and not name and topology.mode.lower() == "hard":
        yield warning(path, "mode hard without highestTierAllowed or highestTierName sets no limit")


def limit(topology: NetworkTopologySpec | None, tiers: Mapping[str, int]) -> int | None:
    """The highest tier that a topology insists on, None where it insists on none."""
    if topology is None or topology.mode.lower() != "hard":
        return None
    number = topology.highest_tier_allowed
    return tiers.get(topology.highest_tier_name) if number is None else number


def within(path: str, inner: int | None, outer: int | None) -> Iterator[Issue]:
    """An error where a part of a gang may stand farther apart than the whole: one of the two is a mistake."""
    if inner is not None and outer is not None and inner > outer:
        yield error(path, f"tier {inner} is above tier {outer}, the highest that the whole may use")
