"""Policies for GPUs that pods share: profiles of the cycle, and the plugin that knows what is left of every device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Filter, ScoreEffect, Scorer
from tierwise.model.arrays import Bools, Floats, Why
from tierwise.model.job import Reason, Shape
from tierwise_lab.replay.traces.fabric import GPU

__all__ = ["POLICIES", "SHARED", "SharedGpus", "sharing", "strands"]

SHARED = "replay-shared-gpus"
_BINPACK = PluginChoice("binpack", {"binpack.resources": GPU})


def _profile(*scorers: PluginChoice, **arguments: bool) -> Profile:
    plugins = (PluginChoice("predicates"), PluginChoice(SHARED, arguments), *scorers)
    return replace(DEFAULT, actions=("allocate",), tiers=((PluginChoice("gang"),), plugins))


def sharing(profile: Profile) -> Profile:
    """A profile of the product where GPUs are shared: nodes without a device for a pod are out."""
    *other_tiers, last_tier = profile.tiers or ((),)
    return replace(profile, tiers=(*other_tiers, (*last_tier, PluginChoice(SHARED))))


POLICIES: Mapping[str, Profile] = {
    "default": sharing(DEFAULT),
    "fragmentation": _profile(score=True),
    "stranding": _profile(score=True, stranding=True),
    "best-fit": _profile(_BINPACK),
}
"""Profiles by name: the product's own; nodes by what a pod adds to fragmentation, to that and to what is stranded, or
fullest first."""


def strands(profile: Profile) -> bool:
    """Whether a policy counts what is stranded."""
    return any(choice.name == SHARED and bool(choice.arguments.get("stranding")) for choice in profile.plugins())


class Devices(Protocol):
    """Interface for the plugin: nodes where a kind of pod fits, and the fragmentation that it would cause on each."""

    def fits(self, kind: int) -> Bools: ...

    def costs(self, kind: int) -> Floats: ...


@takes_part(Scorer, Filter)
class SharedGpus:
    """Which nodes have devices for a pod, and, where it is to score, those of which it spoils least first."""

    def __init__(self, devices: Devices, arguments: Arguments, view: CycleView) -> None:
        self._devices = devices
        self._scores = bool(arguments.get("score"))
        self._code = view.reasons.number(Reason("NoDevice", SHARED, "no GPU has enough left"))

    def why_not(self, shape: Shape) -> Why:
        """An array with a number for each node: 0 where a pod of this shape fits on its devices, else this filter's
        code for too little left on any device, or on enough of them.
        """
        return np.where(self._devices.fits(shape.number), 0, self._code).astype(np.uint16)

    def effect(self, ask: Ask) -> ScoreEffect:
        """One pod a cycle: nothing moves."""
        return ScoreEffect.FIXED

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The less a pod spoils, the better."""
        if not self._scores:
            return np.zeros(span.stop - span.start)
        return -self._devices.costs(ask.shape.number)[span]

    def stale(self, ask: Ask, row: int) -> slice:
        """Nothing."""
        return slice(row, row)
