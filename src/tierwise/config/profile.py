"""A profile: the configuration of one scheduler, whatever file it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

__all__ = ["DEFAULT", "Installed", "Offer", "PluginChoice", "Profile"]


class Offer(Protocol):
    """What a configuration may say of a plugin of another package."""

    @property
    def switches(self) -> frozenset[str]:
        """What may be switched off in it."""

    def wrong_argument(self, arguments: Mapping[str, object]) -> tuple[str, str] | None:
        """The first argument that cannot be read, and why."""


Installed = Mapping[str, Offer]
"""Plugins of other packages by name; one that cannot be used is an InputError when it is looked up."""


class PluginChoice(msgspec.Struct, frozen=True):
    """A plugin with its arguments and the extension points that are switched off for it."""

    name: str
    arguments: Mapping[str, object] = {}
    off: frozenset[str] = frozenset()
    weight: float = 1.0  # of its node scores among those of others
    scheduler: str | None = None  # whose pods it serves, as `Shape.scheduler` names them; None for all

    def enabled(self, point: str) -> bool:
        return point not in self.off


class Profile(msgspec.Struct, frozen=True):
    """Actions in their order, plugins in their tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginChoice, ...], ...]
    action_arguments: Mapping[str, Mapping[str, object]] = {}
    schedulers: tuple[str, ...] = ()  # names with plugins of their own; the first one's serve all other pods too
    immediate_preemption: bool = (
        False  # who finds no place makes room before the next one's turn (Kubernetes), not in a later action
    )
    preempt_actions: Mapping[str, frozenset[str]] = {}  # by scheduler: those that preempt at once; else all
    backfills: bool = True  # best-effort pods are left to backfill (Volcano); else they wait in line with the rest

    trust_pod_group_priority: bool = False  # a podGroup's class counts although its pods were admitted with less
    notes: tuple[str, ...] = ()  # settings of its file that have no effect here, for messages

    def plugins(self) -> tuple[PluginChoice, ...]:
        return tuple([plugin for tier in self.tiers for plugin in tier])

    def enables(self, plugin: str, switch: str) -> bool:
        """Whether the profile has a plugin, and does not switch this off for it."""
        return any(choice.enabled(switch) for tier in self.tiers for choice in tier if choice.name == plugin)

    def switched_on(self, plugin: str, argument: str) -> bool:
        """Whether an argument that is off by default is true; for those that matter before plugins exist."""
        given = (choice.arguments.get(argument) for choice in self.plugins() if choice.name == plugin)
        return any(value is True or str(value).lower() in ("true", "t", "1") for value in given)

    def listed(self, plugin: str, argument: str) -> tuple[str, ...]:
        """The texts that an argument lists, as a list or with commas; likewise."""
        found: list[str] = []
        for value in (choice.arguments.get(argument) for choice in self.plugins() if choice.name == plugin):
            found += value if isinstance(value, list) else str(value or "").split(",")
        return tuple(text for text in (str(part).strip() for part in found) if text)


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
