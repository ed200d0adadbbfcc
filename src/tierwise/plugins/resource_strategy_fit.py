"""resource-strategy-fit: resource by resource, spread or pack; keep scarce devices and what they need free for others.

    score     = 100 * resourceStrategyFitWeight * sum(w * part) / sum(w)
    part      = (used + request) / allocatable      MostAllocated
              = 1 - (used + request) / allocatable  LeastAllocated

The sums run over the resources that the task asks for and that `resources` names, by themselves or by a prefix with a
star, of which the longest counts; cpu and memory are spread where nothing is named. A node that the task would overfill
scores 0. Used is what is not idle, as in binpack.

`sra` (scarce resources are avoided) adds 100 * weight * (1 - weights of the listed resources that the node has / all
weights), so that tasks which need no device leave nodes with devices to others; 0 on nodes that lack what is asked for.

`proportional` keeps, for every idle unit of a listed resource, so many cores and GB of memory from tasks that do not
ask for such a resource.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tierwise.config.arguments import flag, number, words
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Filter, ScoreEffect, Scorer
from tierwise.framework.node_scores import OwnScores
from tierwise.model.arrays import CPU, MEMORY, Floats, Ints, Rows, Why, of_rows
from tierwise.model.job import Reason, Shape

__all__ = ["ResourceStrategyFit"]

_MOST = "MostAllocated"
_SPREAD = {"type": "LeastAllocated", "weight": 1}
_CORE = 1000
_GIGABYTE = 10**9


@takes_part(Filter, Scorer, scores_by_shape=True)
class ResourceStrategyFit(OwnScores):
    """Ranks nodes by a strategy for each resource, and keeps cpu and memory for devices."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._ledger = view.ledger
        self._nodes = view.nodes
        self._axis = view.axis
        self._reasons = view.reasons
        self._weight = number(arguments, "resourceStrategyFitWeight", 10.0)
        self._strategies = _strategies(arguments, view.axis.names)
        self._scarce = _scarce(_part(arguments, "sra"), view)
        self._kept = _kept(_part(arguments, "proportional"), view)
        self._fixed: dict[int, Floats] = {}

    # -- scores

    def effect(self, ask: Ask) -> ScoreEffect:
        """A task raises its own node where all is packed, and lowers it where something is spread."""
        most = {self._strategies[r][0] for r in self._counted(ask.shape).tolist()}
        if not most or not self._weight:
            return ScoreEffect.FIXED
        return ScoreEffect.ROW if most == {True} else ScoreEffect.FREE

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        total = self._spared(ask.shape)[rows].copy()
        counted = self._counted(ask.shape)
        if not len(counted) or not self._weight:
            return total
        weights = np.array([[self._strategies[r][1]] for r in counted.tolist()])
        most = np.array([[self._strategies[r][0]] for r in counted.tolist()])
        there = of_rows(self._nodes.allocatable, counted, rows)
        left = of_rows(self._ledger.idle, counted, rows) - ask.shape.request[counted, None]
        rest = np.divide(left, there, out=np.zeros(there.shape), where=there > 0)
        part = np.where(most, 1.0 - rest, rest) * (there > 0)
        own = (weights * part).sum(axis=0) * (100.0 * self._weight / weights.sum())
        total += np.where(((left < 0) & (there > 0)).any(axis=0), 0.0, own)
        return total

    def _counted(self, shape: Shape) -> Ints:
        return np.array([r for r in shape.asked.tolist() if r in self._strategies], dtype=np.int64)

    def _spared(self, shape: Shape) -> Floats:
        """What nodes score for having no scarce resources; the same whatever is placed."""
        found = self._fixed.get(shape.number)
        if found is None:
            lacks = (self._nodes.allocatable[shape.asked] == 0).any(axis=0)
            found = self._fixed[shape.number] = np.where(lacks, 0.0, self._scarce)
        return found

    # -- filter

    def concerns(self, shape: Shape) -> bool:
        """Whether something is kept from the shape: it asks for none of the devices."""
        return bool(self._kept) and not any(shape.request[device] for device, _, _ in self._kept)

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        cpu, memory = (self._axis.index[name] for name in (CPU, MEMORY))
        idle = self._ledger.idle[:, span]
        for device, cores, gigabytes in reversed(self._kept):
            units = np.maximum(idle[device], 0).astype(np.float64)
            short = idle[cpu] - shape.request[cpu] < units * (cores * _CORE)
            short |= idle[memory] - shape.request[memory] < units * (gigabytes * _GIGABYTE)
            text = f"keep the rest of their cpu and memory for {self._axis.names[device]}"
            reason = Reason("KeptForDevices", "resource-strategy-fit", text)
            np.copyto(why, np.uint16(self._reasons.number(reason)), where=short & (units > 0))
        return why


def _part(arguments: Arguments, name: str) -> Mapping[str, object]:
    """A group of arguments that takes part only where it is enabled."""
    given = arguments.get(name)
    if isinstance(given, Mapping) and flag(given, "enable", default=False):
        return given
    return {}


def _strategies(arguments: Arguments, names: tuple[str, ...]) -> dict[int, tuple[bool, float]]:
    """By resource: whether it is packed, and its weight."""
    given = arguments.get("resources")
    named = {str(key): entry for key, entry in given.items()} if isinstance(given, Mapping) else {}
    asked = named or {CPU: _SPREAD, MEMORY: _SPREAD}
    prefixes = sorted(
        (key[:-1] for key in asked if key.endswith("*") and key.count("*") == 1 and len(key) > 1), key=len
    )
    found: dict[int, tuple[bool, float]] = {}
    for resource, name in enumerate(names):
        prefix = next((p for p in reversed(prefixes) if name.startswith(p)), None)
        entry = asked.get(name, asked.get(f"{prefix}*") if prefix is not None else None)
        if isinstance(entry, Mapping):
            found[resource] = (entry.get("type") == _MOST, number(entry, "weight", 1.0) or 1.0)
    return found


def _scarce(given: Mapping[str, object], view: CycleView) -> Floats:
    """What each node scores for the scarce resources that it has not."""
    weights = given.get("resourceWeight")
    by_name = weights if isinstance(weights, Mapping) else {}
    listed = {name: number(by_name, name, 1.0) for name in words(given, "resources")}
    whole = sum(listed.values())
    if not whole:
        return np.zeros(len(view.nodes))
    has = np.zeros(len(view.nodes))
    for name, weight in listed.items():
        if name in view.axis.index:
            has += weight * (view.nodes.allocatable[view.axis.index[name]] > 0)
    result: Floats = 100.0 * number(given, "weight", 0.0) * (1.0 - has / whole)
    return result


def _kept(given: Mapping[str, object], view: CycleView) -> tuple[tuple[int, float, float], ...]:
    """Devices with the cores and the GB of memory that are kept for each of their units."""
    shares = given.get("resourceProportion")
    by_name = shares if isinstance(shares, Mapping) else {}
    return tuple(
        (view.axis.index[name], number(by_name, f"{name}.cpu", 1.0), number(by_name, f"{name}.memory", 1.0))
        for name in words(given, "resources")
        if name in view.axis.index
    )
