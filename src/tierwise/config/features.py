"""Feature gates: what may be switched off as a whole, or on before it is finished, and how far each feature is.

A profile sets them by name (`featureGates`), in every format. A feature begins in alpha, where it is off unless a
profile switches it on, or in beta; in beta it is on unless a profile switches it off; once it is stable its gate stays
on, and is removed two minor versions later. Each is asked for in one place, by `Profile.feature`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.api.errors import InputError, suggestion
from tierwise.config.given import as_written

__all__ = ["FEATURES", "Feature", "Stage", "read_gates"]


class Stage(enum.Enum):
    """How much may be built on a feature."""

    ALPHA = "alpha"  # may change or go without notice
    BETA = "beta"  # meant to stay; what is written for it keeps its meaning or is deprecated first
    STABLE = "stable"  # cannot be switched off


class Feature(msgspec.Struct, frozen=True):
    """A feature with a gate."""

    stage: Stage
    since: str  # the version in which it entered this stage
    what: str
    plugin: str = ""  # one that a profile does without where the gate is off

    @property
    def default(self) -> bool:
        return self.stage is not Stage.ALPHA


FEATURES: Final[Mapping[str, Feature]] = {
    "DefragmentationExecution": Feature(Stage.BETA, "0.2", "`tierwise run --defrag` moves pods to keep room open"),
    "EvictionCost": Feature(
        Stage.BETA, "0.2", "the plugin eviction-cost weighs what evictions lose", plugin="eviction-cost"
    ),
    "Journal": Feature(Stage.BETA, "0.2", "`--journal` records what cycles see and decide"),
    "Repair": Feature(
        Stage.BETA, "0.2", "gangs that lose nodes are repaired as they or the plugin repair say", plugin="repair"
    ),
    "Reservations": Feature(Stage.BETA, "0.2", "waiting jobs get reservations as arguments of allocate say"),
    "Spares": Feature(Stage.BETA, "0.2", "gangs that are repaired may keep spare nodes"),
    "VolcanoTopologyAffinity": Feature(
        Stage.ALPHA, "0.2", "`spec.topologyAffinity` of Volcano's podGroups, a draft there, is read"
    ),
}
"""Every gate by name. A new feature is a line here, in alpha; the reference page lists them all."""


def read_gates(raw: object, path: str, features: Mapping[str, Feature] = FEATURES) -> dict[str, bool]:
    """Which gates a configuration sets; InputError for one that does not exist or cannot be set so."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise InputError("expected a mapping of gates to true or false", field=path)
    for name, value in raw.items():
        if name not in features:
            raise InputError(f"unknown feature gate {name}{suggestion(str(name), features)}", field=path)
        if not isinstance(value, bool):
            raise InputError(f"expected true or false, not {as_written(value)}", field=f"{path}.{name}")
        if features[name].stage is Stage.STABLE and not value:
            raise InputError("the feature is stable and cannot be switched off", field=f"{path}.{name}")
    return dict(raw)
