"""Read Volcano's scheduler configuration: an existing `volcano-scheduler.conf` works unchanged.

Raises `InputError` for whatever is not a configuration; which names exist is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, PluginChoice, Profile

__all__ = ["read_volcano"]

_SWITCHES = """
    Allocatable BestNode ClusterOrder Hierarchy HierarchicalQueue HyperNodeGradient HyperNodeOrder HyperNodeProposal
    JobEnqueued JobOrder JobPipelined JobReady JobStarving JobValid NodeOrder Overused Predicate Preemptable
    PreemptableUnified Preemptive QueueOrder Reclaimable ReclaimableUnified ReservedNodes SubJobOrder SubJobPipelined
    SubJobReady TargetJob TaskOrder Victim VictimQueueOrder
"""
_POINTS = {point.lower(): point for point in _SWITCHES.split()}
"""The switches of a plugin, spelled `enable<Point>` or `enabled<Point>`."""


def read_volcano(raw: object, file: str | None = None) -> Profile:
    """A profile from the parsed configuration file; what it leaves out is as in the default profile."""
    if not isinstance(raw, Mapping):
        raise InputError("a scheduler configuration is a mapping with actions and tiers", file=file)
    actions = _actions(raw.get("actions"), file)
    return Profile(
        actions=actions if actions is not None else DEFAULT.actions,
        tiers=_tiers(raw.get("tiers"), file) if raw.get("tiers") is not None else DEFAULT.tiers,
        action_arguments=_action_arguments(raw.get("configurations"), file),
    )


def _actions(raw: object, file: str | None) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise InputError("expected a comma-separated text", file=file, field="actions")
    names = tuple(word.strip() for word in raw.split(",") if word.strip())
    if not names:
        raise InputError("names no action", file=file, field="actions")
    return names


def _tiers(raw: object, file: str | None) -> tuple[tuple[PluginChoice, ...], ...]:
    tiers = []
    for i, tier in enumerate(_list(raw, "tiers", file)):
        if not isinstance(tier, Mapping):
            raise InputError("expected a mapping with plugins", file=file, field=f"tiers[{i}]")
        path = f"tiers[{i}].plugins"
        tiers.append(
            tuple(_plugin(p, f"{path}[{j}]", file) for j, p in enumerate(_list(tier.get("plugins") or [], path, file)))
        )
    return tuple(tiers)


def _plugin(raw: object, path: str, file: str | None) -> PluginChoice:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise InputError("expected a mapping with a name", file=file, field=path)
    arguments = raw.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise InputError("expected a mapping", file=file, field=f"{path}.arguments")
    off = set()
    for key, value in raw.items():
        if key in ("name", "arguments"):
            continue
        point = _POINTS.get(str(key).removeprefix("enabled").removeprefix("enable").lower())
        if point is None or not str(key).startswith("enable"):
            raise InputError(f"unknown field {key}", file=file, field=path)
        if not isinstance(value, bool):
            raise InputError("expected true or false", file=file, field=f"{path}.{key}")
        if not value:
            off.add(point)
    return PluginChoice(str(raw["name"]), {str(k): v for k, v in arguments.items()}, frozenset(off))


def _action_arguments(raw: object, file: str | None) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for i, entry in enumerate(_list(raw or [], "configurations", file)):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError("expected a mapping with a name", file=file, field=f"configurations[{i}]")
        arguments = entry.get("arguments") or {}
        if not isinstance(arguments, Mapping):
            raise InputError("expected a mapping", file=file, field=f"configurations[{i}].arguments")
        found[str(entry["name"])] = {str(k): v for k, v in arguments.items()}
    return found


def _list(raw: object, path: str, file: str | None) -> Sequence[object]:
    if not isinstance(raw, list):
        raise InputError("expected a list", file=file, field=path)
    return raw
