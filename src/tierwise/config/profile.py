"""A profile: the configuration of one scheduler, whatever file it was read from.

Every format is converted into this record before anything reads it; `config.scheduler_profile` is the same record as a
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import msgspec

from tierwise.api.limits import WAITING
from tierwise.config.features import FEATURES

__all__ = ["DEFAULT", "Installed", "Offer", "PluginChoice", "Profile"]


class Offer(Protocol):
    """Settings that a configuration may make for a plugin of another package."""

    @property
    def switches(self) -> frozenset[str]:
        """Names of the parts that can be switched off."""

    def wrong_argument(self, arguments: Mapping[str, object]) -> tuple[str, str] | None:
        """The first argument that cannot be read, and why."""


Installed = Mapping[str, Offer]
"""Plugins of other packages by name; one that cannot be used is an InputError when it is looked up."""


def _says(text: str, **bounds: Any) -> msgspec.Meta:
    """Description of a field, also for the JSON schema of the file."""
    return msgspec.Meta(description=text, **bounds)


class PluginChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin with its arguments and the extension points that are switched off for it."""

    name: str
    arguments: Annotated[Mapping[str, Any], _says("see the page of the plugin")] = {}
    off: Annotated[frozenset[str], _says("extension points that are switched off for it")] = msgspec.field(
        name="disabled",  # YAML reads a bare off as false
        default=frozenset(),
    )
    weight: Annotated[float, _says("weight of its node scores among those of the other plugins", ge=0)] = 1.0
    scheduler: Annotated[str | None, _says("whose pods it serves; empty for the first listed, null for all")] = None

    def enabled(self, point: str) -> bool:
        return point not in self.off


class Profile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Actions in their order, plugins in their tiers."""

    actions: Annotated[tuple[str, ...], _says("in the order in which they run", min_length=1)]
    tiers: Annotated[tuple[tuple[PluginChoice, ...], ...], _says("plugins in their order")]
    action_arguments: Annotated[Mapping[str, Mapping[str, Any]], _says("by action: see its page")] = {}
    schedulers: Annotated[
        tuple[str, ...], _says("names with plugins of their own; the first one's serve all other pods too")
    ] = ()
    immediate_preemption: Annotated[
        bool, _says("a job without a place evicts before the next job's turn (Kubernetes), not in a later action")
    ] = False
    preempt_actions: Annotated[
        Mapping[str, frozenset[str]], _says("by scheduler: the actions that preempt at once; else all")
    ] = {}
    backfills: Annotated[
        bool, _says("best-effort pods are left to backfill (Volcano); else they wait in line with the rest")
    ] = True
    trust_pod_group_priority: Annotated[
        bool, _says("a podGroup's class counts although its pods were admitted with less")
    ] = False
    protection_gap: Annotated[
        int, _says("a job whose priority is so much higher evicts in spite of budgets and marks; 0: never", ge=0)
    ] = 0
    max_waiting_pods: Annotated[
        int, _says("pods of a namespace that wait and are looked at, the first in line; 0: all", ge=0)
    ] = WAITING
    feature_gates: Annotated[
        Mapping[str, bool], _says("feature gates that are set; the others follow their stage")
    ] = {}
    notes: Annotated[tuple[str, ...], _says("settings of its file that have no effect here, for messages")] = ()
    spelled: Annotated[Mapping[str, str], _says("plugins that its file calls by other names, for messages")] = {}

    def feature(self, name: str) -> bool:
        """Whether a feature is on."""
        return self.feature_gates.get(name, FEATURES[name].default)

    @property
    def tiers_in_force(self) -> tuple[tuple[PluginChoice, ...], ...]:
        """The tiers without plugins of features that are off.

        A tier that loses all its plugins stays, empty, so the tiers keep their numbers.
        """
        off = {FEATURES[name].plugin for name in self.feature_gates if not self.feature(name)}
        if off:
            return tuple(tuple(c for c in tier if c.name not in off) for tier in self.tiers)
        return self.tiers

    def plugins(self) -> tuple[PluginChoice, ...]:
        return tuple([plugin for tier in self.tiers_in_force for plugin in tier])

    def enables(self, plugin: str, switch: str) -> bool:
        """Whether the profile has a plugin, and does not switch this off for it."""
        return any(choice.enabled(switch) for choice in self.plugins() if choice.name == plugin)

    def switched_on(self, plugin: str, argument: str) -> bool:
        """Whether an argument that is off by default is true; for those that matter before plugins exist."""
        values = (choice.arguments.get(argument) for choice in self.plugins() if choice.name == plugin)
        return any(value is True or str(value).lower() in ("true", "t", "1") for value in values)

    def listed(self, plugin: str, argument: str) -> tuple[str, ...]:
        """The texts that an argument lists, as a list or with commas; likewise."""
        parts: list[str] = []
        for value in (choice.arguments.get(argument) for choice in self.plugins() if choice.name == plugin):
            parts += value if isinstance(value, list) else str(value or "").split(",")
        return tuple(text for text in (str(part).strip() for part in parts) if text)


DEFAULT = Profile(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        (PluginChoice("priority"), PluginChoice("gang"), PluginChoice("conformance")),
        (
            PluginChoice("predicates"),
            # Preferences only: a cluster of gangs is packed, and least-requested would undo what binpack does.
            PluginChoice("nodeorder", {"leastrequested.weight": 0, "balancedresource.weight": 0}),
            PluginChoice("binpack"),
            PluginChoice("coscheduling", {"awareNetworkTopology": True}),
            PluginChoice("network-topology-aware"),
            PluginChoice("places"),
            PluginChoice("patience"),
            PluginChoice("elasticquota"),
        ),
    ),
)
"""The default profile; docs/decisions says why."""
