"""Checks of `networkTopology`, the fields that pod groups, sub-groups, jobs and partitions share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tierwise.admission.context import ClusterContext
from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.api import fabric as fabrics
from tierwise.api import sets
from tierwise.api.core import ObjectMeta
from tierwise.api.volcano import NetworkTopologySpec
from tierwise.model.part_names import PART_NAMES, PartNames
from tierwise.model.topology import fabric_kind

__all__ = ["check", "check_fabrics", "limit", "within"]

_MODES: Final = frozenset({"hard", "soft"})


def check(path: str, topology: NetworkTopologySpec | None, context: ClusterContext) -> Iterator[Issue]:
    """Issues of one topology."""
    if topology is None:
        return
    tiers = context.tiers
    highest = context.highest
    number = topology.highest_tier_allowed
    name = topology.highest_tier_name
    yield from one_of(f"{path}.mode", topology.mode.lower(), _MODES)
    yield from at_least(f"{path}.highestTierAllowed", number, 0)
    if number is not None and name:
        yield error(path, "highestTierAllowed and highestTierName exclude each other")
    elif name and name not in tiers:
        yield warning(f"{path}.highestTierName", f'no hyperNode has the tierName "{name}": it sets no limit')
    elif number is not None and highest is not None and number > highest:
        text = (
            f"highestTierAllowed {number} is above tier {highest}, the highest that a hyperNode has: it sets no limit"
        )
        yield warning(f"{path}.highestTierAllowed", text)
    elif number is None and not name and topology.mode.lower() == "hard":
        yield warning(path, "mode hard without highestTierAllowed or highestTierName sets no limit")


def check_fabrics(
    meta: ObjectMeta, sub_groups: Collection[str], context: ClusterContext, words: PartNames = PART_NAMES
) -> Iterator[Issue]:
    """Issues of the marks by which a group names fabrics; trees of other kinds are not looked at.

    `words` are those of its language for its parts.
    """
    name = fabrics.fabric_of(meta)
    text = meta.annotations.get(fabrics.CONSTRAINTS, "")
    if name:
        yield from _check_fabric(f"metadata.annotations[{fabrics.FABRIC}]", name, context)
    for sub_group, inner in fabrics.fabrics_of_sub_groups(meta).items():
        path = f"metadata.annotations[{fabrics.FABRIC}.{sub_group}]"
        if sub_group not in sub_groups:
            yield error(path, words.unknown(sub_group))
        yield from _check_fabric(path, inner, context)
    path, start = (meta.annotations.get(key, "").strip() for key in (sets.SET, sets.SET_START))
    if (wrong := sets.marks_fault(path, start)) is not None:
        yield error(f"metadata.annotations[{wrong[0]}]", wrong[1])
    elif start and not path:
        yield warning(f"metadata.annotations[{sets.SET_START}]", f"{sets.NO_SET}: its pods wait")
    where = f"metadata.annotations[{fabrics.CONSTRAINTS}]"
    listed = fabrics.parse_constraints(text)
    if isinstance(listed, str):
        yield error(where, listed)
        return
    for index, entry in enumerate(listed):
        if entry.set and (outside := sets.within(path, entry.set)):
            yield error(f"{where}[{index}].set", outside)
        at = f"{where}[{index}]"
        fabric = entry.fabric or name
        if entry.sub_group and entry.sub_group not in sub_groups:
            yield error(f"{at}.subGroup", words.unknown(entry.sub_group))
        if entry.fabric:
            yield from _check_fabric(f"{at}.fabric", entry.fabric, context)
        tiers = context.fabrics.get(fabric) if fabric else context.tiers
        if tiers is not None and isinstance(entry.tier, str) and entry.tier not in tiers:
            kind = f"of fabric {fabric} " if fabric else ""
            yield warning(f"{at}.tier", f'no hyperNode {kind}has the tierName "{entry.tier}": a hard job waits')
        elif isinstance(entry.tier, int) and fabric in context.numbers and entry.tier not in context.numbers[fabric]:
            yield warning(f"{at}.tier", f"no hyperNode of fabric {fabric} has the tier {entry.tier}: a hard job waits")


def _check_fabric(path: str, name: str, context: ClusterContext) -> Iterator[Issue]:
    fault = fabrics.fabric_name_fault(name)
    if fault:
        yield error(path, fault)
    elif fabric_kind(name) != name and name not in context.fabrics and name not in context.aliases:
        yield warning(path, f'no hyperNode belongs to fabric "{name}": a hard job waits')


def limit(topology: NetworkTopologySpec | None, tiers: Mapping[str, int]) -> int | None:
    """The highest tier that a topology insists on, None where it insists on none."""
    if topology is None or topology.mode.lower() != "hard":
        return None
    number = topology.highest_tier_allowed
    if number is None:
        return tiers.get(topology.highest_tier_name)
    return number


def within(path: str, inner: int | None, outer: int | None) -> Iterator[Issue]:
    """An error where a part of a gang may be farther apart than the whole: one of the two is a mistake."""
    if inner is not None and outer is not None and inner > outer:
        yield error(path, f"tier {inner} is above tier {outer}, the highest that the whole may use")
