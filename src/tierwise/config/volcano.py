"""Read Volcano's scheduler configuration: an existing `volcano-scheduler.conf` works unchanged.

A misspelt word would silently change what is scheduled, so every unknown key, switch and argument is an error, with a
suggestion. Known names that have no effect here are removed from the profile and noted in it. Raises `InputError` for
whatever is not a configuration; which plugins and actions exist is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from tierwise.api.domain_amounts import read_amounts
from tierwise.api.errors import InputError, suggestion
from tierwise.config.actions import ACTIONS
from tierwise.config.arguments import unread
from tierwise.config.features import read_gates
from tierwise.config.given import check_fields, entries, mapping, named
from tierwise.config.profile import DEFAULT, Installed, PluginChoice, Profile

__all__ = [
    "ARGUMENTS",
    "IDLE_PLUGINS",
    "POINTS",
    "check_action_arguments",
    "check_arguments",
    "plugins_of",
    "read_volcano",
    "spelled",
]

IDLE_PLUGINS: Final[Mapping[str, str]] = {
    "cdp": "pods that started recently are not protected",
    "deviceshare": "devices are counted as whole resources of nodes, and not shared",
    "extender": "extenders are not called",
    "numa-aware": "nothing inside a node is modelled, so NUMA policies are not kept",
    "rescheduling": "running pods are not moved",
    "reservation": "no nodes are kept free for a job that has waited long",
    "task-topology": "tasks of a job are not tied to each other",
    "tdm": "revocable zones are not kept",
    "usage": "no metrics are read, so nodes are ranked by requests alone",
}
"""Plugins of Volcano's that have no effect here, and what that means."""

_IDLE_ACTIONS: Final = {
    "elect": "no job is elected to have nodes kept free for it",
    "reserve": "no nodes are kept free for a job that has waited long",
    "shuffle": "running pods are not moved",
}
"""The same of its actions."""

_ELASTIC: Final = """
    enableMinQuotaScale enableRuntimeQuota enableCheckParentQuota disableDefaultQuotaPreemption delayEvictTime
    defaultQuotaGroupMax systemQuotaGroupMax monitorAllQuotas revokePodInterval quotaGroupNamespace trustedNamespaces
"""
_TRUST: Final = "trustPodGroupPriority"
_GAP: Final = "protectionGap"
_WAITING: Final = "maxWaitingPods"
_NUMBERS: Final = {_GAP: "a difference of priorities", _WAITING: "a number of pods"}
_GATES: Final = "featureGates"
_VOLUMES: Final = "volumebinding.bindTimeoutSeconds volumebinding.shape volumebinding.weight"
ARGUMENTS: Final[Mapping[str, str]] = {
    "ImageLocality": "",
    "InterPodAffinity": "hardPodAffinityWeight ignorePreferredTermsOfExistingPods",
    "NodeAffinity": "addedAffinity",
    "NodeResourcesBalancedAllocation": "resources",
    "NodeResourcesFit": "scoringStrategy",
    "PodTopologySpread": "defaultingType",
    "TaintToleration": "",
    "NetworkOverhead": "lookAhead namespaces weightsName networkTopologyName strict bothWays",
    "QOSSort": "",
    "TopologicalSort": "namespaces",
    "amounts": "amounts",
    "binpack": "binpack.weight binpack.cpu binpack.memory binpack.resources binpack.resources.*",
    "capacity": """
        ancestorReclaimLevel capacity.DynamicResourceAllocationEnable capacity.DRAConsumableCapacityEnable
    """,
    "conformance": "",
    "coscheduling": "awareNetworkTopology crossNamespaceGangGroups enablePreemption defaultMatchPolicy defaultTimeout",
    "drf": "",
    "elasticquota": _ELASTIC,
    "eviction-cost": """
        minimumRunTime minimumRunTime.* maxMinimumRunTime maxRestartCost maxNotice maxDecline horizon decline
    """,
    "fairshare": """
        halfLife weights entry aging record modelLabel
        fairshare.halfLifeMinutes fairshare.targetQueues fairshare.resourceKey fairshare.resourceKey.*
        fairshare.enableEnqueueGate fairshare.persistState fairshare.stateNamespace fairshare.stateConfigMap
        fairshare.flushIntervalSeconds
    """,
    "gang": "",
    "network-topology-aware": """
        weight unknownTierName hypernode.binpack.cpu hypernode.binpack.memory hypernode.binpack.resources
        hypernode.binpack.resources.* hypernode.binpack.normal-pod.enable hypernode.binpack.normal-pod.fading
        hypernode.gradient.*
    """,
    "nodegroup": "strict enablePreferredOrder",
    "nodeorder": """
        nodeaffinity.weight podaffinity.weight leastrequested.weight mostrequested.weight balancedresource.weight
        tainttoleration.weight imagelocality.weight podtopologyspread.weight selectorspread.weight
    """,
    "overcommit": "overcommit-factor max-queue-overcommit-factor",
    "patience": "share time stretch fromPods rings wait ladder",
    "places": "weight",
    "pdb": "",
    "predicates": f"""
        predicate.NodeAffinityEnable predicate.NodePortsEnable predicate.TaintTolerationEnable
        predicate.PodAffinityEnable predicate.NodeVolumeLimitsEnable predicate.VolumeZoneEnable
        predicate.PodTopologySpreadEnable predicate.VolumeBindingEnable predicate.DynamicResourceAllocationEnable
        predicate.CacheEnable predicate.GPUSharingEnable predicate.GPUNumberEnable predicate.ProportionalEnable
        predicate.resources predicate.resources.* predicate.MemoryPressureEnable predicate.DiskPressureEnable
        predicate.PIDPressureEnable dynamicresources.filterTimeoutSeconds
        dynamicresources.bindingTimeoutSeconds kubernetes addedAffinity {_VOLUMES}
    """,
    "priority": _TRUST,
    "proportion": "",
    "propose": "objective cells sortBySize",
    "repair": "conditions maxSpares onNodeLoss",
    "resource-strategy-fit": "resourceStrategyFitWeight resources sra proportional",
    "resourcequota": "",
    "sla": "sla-waiting-time",
    "volumes": "bindTimeoutSeconds",
}
"""The arguments that each plugin knows, here or in Volcano; a star means any ending."""

_NESTED: Final[Mapping[tuple[str, str], str]] = {
    ("resource-strategy-fit", "sra"): "enable resources weight resourceWeight",
    ("resource-strategy-fit", "proportional"): "enable resources resourceProportion",
}
"""What arguments that are mappings themselves know."""

_READ: Final[Mapping[tuple[str, str], Callable[[object], object]]] = {("amounts", "amounts"): read_amounts}
"""Arguments that are more than a value, with what reads them and raises an InputError."""

_IDLE_ARGUMENTS: Final[Mapping[str, str]] = {
    "predicate.GPUSharingEnable": "devices are counted as whole resources of nodes, and not shared",
    "predicate.GPUNumberEnable": "devices are counted as whole resources of nodes, and not shared",
    "predicate.ProportionalEnable": "no cpu and memory are kept back for devices: resource-strategy-fit does",
    "volumebinding.shape": "nodes are not ranked by the storage that they have left",
    "volumebinding.weight": "nodes are not ranked by the storage that they have left",
    "dynamicresources.filterTimeoutSeconds": "a search for devices is given up after a number of steps",
}
"""Arguments that have no effect where they are set, and what that means."""

_VOLUMES_STAY: Final = "a pod that is bound against the rules of its volumes could not start"
_DEVICES_STAY: Final = "a pod that is bound without its devices could not start"
_KEPT_RULES: Final[Mapping[str, str]] = {
    "predicate.NodeVolumeLimitsEnable": _VOLUMES_STAY,
    "predicate.VolumeZoneEnable": _VOLUMES_STAY,
    "predicate.VolumeBindingEnable": _VOLUMES_STAY,
    "predicate.DynamicResourceAllocationEnable": _DEVICES_STAY,
    "predicate.NodePortsEnable": "a pod that is bound where its host ports are taken could not start",
    "capacity.DynamicResourceAllocationEnable": "quotas of device classes are kept where queues have them",
}
"""Switches of rules that are kept, and why: what is off in a configuration is on all the same."""

_POINTS: Final = """
    Allocatable BestNode ClusterOrder Hierarchy HierarchicalQueue HyperNodeGradient HyperNodeOrder HyperNodeProposal
    JobEnqueued JobOrder JobPipelined JobReady JobStarving JobValid NodeOrder Overused Predicate Preemptable
    PreemptableUnified Preemptive QueueOrder Reclaimable ReclaimableUnified ReservedNodes SubJobOrder SubJobPipelined
    SubJobReady TargetJob TaskOrder Victim VictimQueueOrder
"""
POINTS: Final = tuple(_POINTS.split())
"""What may be switched off for a plugin."""
_SWITCHES: Final = {point.lower(): point for point in POINTS}
"""The same as switches, spelled `enable<Point>` or `enabled<Point>`."""


_NOBODY: Final[Installed] = {}


def spelled(action: str) -> str:
    """The name of an action however it is written: gangPreempt, gang-preempt and gang_preempt are one."""
    return action.strip().replace("-", "").replace("_", "").lower()


def _tiers(raw: object, installed: Installed) -> tuple[tuple[PluginChoice, ...], ...]:
    return tuple(tuple(_plugin(plugin, path, installed) for path, plugin in tier) for tier in plugins_of(raw))


def read_volcano(raw: object, installed: Installed = _NOBODY) -> Profile:
    """A profile from the parsed configuration file; what it leaves out is as in the default profile.

    `installed` knows the plugins of other packages: one of them may bear a name that else has no effect.
    """
    if not isinstance(raw, Mapping) or not raw:
        raise InputError("a scheduler configuration is a mapping with actions and tiers")
    _check_settings(raw)
    actions = _actions(raw.get("actions"))
    tiers = _tiers(raw["tiers"], installed) if raw.get("tiers") is not None else DEFAULT.tiers
    arguments = _action_arguments(raw.get("configurations"))
    if not isinstance(raw.get("metrics"), Mapping | None):
        raise InputError("expected a mapping", field="metrics")
    named = {plugin.name for plugin in chain.from_iterable(tiers)}
    idle = {name for name in named if name in IDLE_PLUGINS and name not in installed}
    effective_tiers = tuple(tuple(plugin for plugin in tier if plugin.name not in idle) for tier in tiers)
    return Profile(
        actions=tuple(a for a in actions if a not in _IDLE_ACTIONS) if actions is not None else DEFAULT.actions,
        tiers=effective_tiers,
        action_arguments=arguments,
        trust_pod_group_priority=bool(raw.get(_TRUST, False)),
        protection_gap=raw.get(_GAP, 0),
        max_waiting_pods=raw.get(_WAITING, DEFAULT.max_waiting_pods),
        feature_gates=read_gates(raw.get(_GATES), _GATES),
        notes=tuple(dict.fromkeys((*_notes(actions or (), tiers, idle), *_notes_on_actions(arguments)))),
    )


def _check_settings(raw: Mapping[object, object]) -> None:
    """Raise InputError for an unknown top-level field, and for a wrong value of the settings that are plain values:
    _TRUST must be true or false, _GAP and _WAITING whole numbers from 0 on. Lists and mappings are checked where they
    are read.
    """
    check_fields(raw, None, ("actions", "tiers", "configurations", "metrics", _TRUST, _GAP, _WAITING, _GATES))
    if not isinstance(raw.get(_TRUST, False), bool):
        raise InputError("expected true or false", field=_TRUST)
    for field in (_GAP, _WAITING):
        number = raw.get(field, 0)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"expected {_NUMBERS[field]}, a whole number from 0 on", field=field)


def _notes(actions: Sequence[str], tiers: Sequence[Sequence[PluginChoice]], without: Collection[str]) -> list[str]:
    """A sentence for each part of a configuration that has no effect."""
    notes = [f"action {name} has no effect: {_IDLE_ACTIONS[name]}" for name in actions if name in _IDLE_ACTIONS]
    for tier in tiers:
        for plugin in tier:
            if plugin.name in without:
                notes.append(f"plugin {plugin.name} has no effect: {IDLE_PLUGINS[plugin.name]}")
            else:
                notes += _notes_on_arguments(plugin)
    return notes


def _notes_on_arguments(plugin: PluginChoice) -> list[str]:
    """A sentence for each argument of a plugin that has no effect."""
    notes = []
    arguments = plugin.arguments
    for name, value in arguments.items():
        if name in _IDLE_ARGUMENTS and value:
            notes.append(f"argument {name} has no effect: {_IDLE_ARGUMENTS[name]}")
    for name, value in arguments.items():
        if why := unread(name, value):
            notes.append(f"argument {name} of {plugin.name} has no effect: {why}")
    if plugin.name == "fairshare":
        from tierwise.config.usage import notes_on_usage  # few profiles remember usage

        notes += notes_on_usage(arguments)
    for name in _KEPT_RULES:
        if str(arguments.get(name, "")).lower() in ("false", "f", "0"):
            notes.append(f"argument {name} has no effect: {_KEPT_RULES[name]}")
    return notes


def _notes_on_actions(arguments: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """A sentence for each argument of an action whose value cannot be read, so that the default counts."""
    for action, settings in arguments.items():
        for name, value in settings.items():
            if why := unread(name, value):
                yield f"argument {name} of {action} has no effect: {why}"


def _actions(raw: object) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise InputError("expected a comma-separated text", field="actions")
    names = tuple(word.strip() for word in raw.split(",") if word.strip())
    names = tuple(
        spelled(name) if spelled(name) in ACTIONS or spelled(name) in _IDLE_ACTIONS else name for name in names
    )
    if not set(names) - set(_IDLE_ACTIONS):
        raise InputError("names no action that has an effect" if names else "names no action", field="actions")
    return names


def plugins_of(raw: object) -> Iterator[Iterator[tuple[str, object]]]:
    """The plugins of each tier, each with its path."""
    for path, raw_tier in entries(raw, "tiers"):
        tier = mapping(raw_tier, path, ("plugins",), "a mapping with plugins")
        yield entries(tier.get("plugins") or [], f"{path}.plugins")


def _plugin(entry: object, path: str, installed: Installed) -> PluginChoice:
    raw = named(entry, path, ())
    arguments = mapping(raw.get("arguments") or {}, f"{path}.arguments")
    name = "numa-aware" if raw["name"] == "numaaware" else str(raw["name"])
    off = set()
    for key, value in raw.items():
        if key in ("name", "arguments"):
            continue
        switch = str(key)
        disables = switch.startswith("disable")  # as before Volcano 1.0
        point = _SWITCHES.get(switch.removeprefix("disable").removeprefix("enabled").removeprefix("enable").lower())
        if point is None or not switch.startswith(("enable", "disable")):
            raise InputError(f"unknown field {key}{_meant(switch, ARGUMENTS.get(name, '').split())}", field=path)
        if not isinstance(value, bool):
            raise InputError("expected true or false", field=f"{path}.{key}")
        if value == disables:
            off.add(point)
    check_arguments(name, arguments, path, installed)
    arguments_here = {str(k): v for k, v in arguments.items()}
    if name == "nodegroup" and raw.get("enableHierarchy") is True:
        arguments_here["enableHierarchy"] = True  # a switch that is off unless it is on
    return PluginChoice(name, arguments_here, frozenset(off))


def check_arguments(name: str, arguments: Mapping[str, object], path: str, installed: Installed) -> None:
    """Refuse arguments that a plugin, ours or of another package, does not know."""
    if name in ARGUMENTS:
        check_fields(arguments, f"{path}.arguments", ARGUMENTS[name].split())
        for key, inner in arguments.items():
            if (name, key) in _READ:
                _check_read(name, key, inner, path)
            if (name, key) in _NESTED and isinstance(inner, Mapping):
                check_fields(inner, f"{path}.arguments.{key}", _NESTED[name, key].split())
        return
    try:
        offer = installed.get(name)
    except InputError as error:
        raise InputError(error.message, field=path) from None
    wrong = offer.wrong_argument(arguments) if offer is not None else None
    if wrong is not None:
        raise InputError(f"plugin {name}: {wrong[1]}", field=f"{path}.arguments.{wrong[0]}")


def _check_read(name: str, key: str, value: object, path: str) -> None:
    try:
        _READ[name, key](value)
    except InputError as error:
        raise InputError(error.message, field=f"{path}.arguments.{key}") from None


def _meant(key: str, arguments: Collection[str]) -> str:
    """Hint for an unknown field of a plugin; "" without one."""
    if key in arguments:
        return " (it belongs below arguments)"
    return suggestion(key, ("name", "arguments", *(f"enable{point}" for point in POINTS)))


def _action_arguments(raw: object) -> dict[str, dict[str, object]]:
    by_action: dict[str, dict[str, object]] = {}
    for path, raw_entry in entries(raw or [], "configurations"):
        entry = named(raw_entry, path, ("name", "arguments"))
        arguments = mapping(entry.get("arguments") or {}, f"{path}.arguments")
        name = spelled(entry["name"])
        if name in _IDLE_ACTIONS:
            continue
        check_action_arguments(entry["name"], arguments, f"{path}.name", f"{path}.arguments")
        by_action[name] = {str(k): v for k, v in arguments.items()}
    return by_action


def check_action_arguments(action: str, arguments: Mapping[str, object], name_path: str, path: str) -> None:
    """Refuse arguments of an action that does not exist, or does not know them."""
    name = spelled(action)
    if name not in ACTIONS:
        raise InputError(f"unknown action {action}{suggestion(name, (*ACTIONS, *_IDLE_ACTIONS))}", field=name_path)
    check_fields(arguments, path, ACTIONS[name].arguments.split())
