"""Read a KubeSchedulerConfiguration: the file that drives Kubernetes' own scheduler drives tierwise.

Every version from v1beta2 to v1, several profiles, plugins by extension point, `multiPoint` and "*" are understood;
`config.kube_names` says what each plugin comes to. Gangs and the topology keep their rules under every such profile.
Pods are served by the profile of their scheduler's name, and by the first one where no profile has it.
Raises `InputError` for whatever is not such a configuration, or says what tierwise cannot do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.core import NodeAffinity
from tierwise.api.duration import seconds
from tierwise.api.errors import InputError, suggestion
from tierwise.api.quantity import amount
from tierwise.config.features import read_gates
from tierwise.config.given import as_written, check_fields, entries, mapping, named
from tierwise.config.idle_room import IDLE_ROOM, wrong_idle_room
from tierwise.config.kube_names import ALIASES, DEFAULTS, PLUGINS, KubePlugin, of_another_package
from tierwise.config.profile import Installed, Offer, PluginChoice, Profile
from tierwise.config.searches import NAMES, wrong_steps
from tierwise.config.volcano import ARGUMENTS

__all__ = ["KIND", "read_kube"]


# What arguments of plugins must look like, by name: what has another type is bad input, not a default.
#
# Called by `config.kube` for every plugin that a KubeSchedulerConfiguration configures. Kubernetes' scheduler reads
# these arguments strictly, so a file that it would refuse is refused here, and so is an argument that no plugin of
# that name has. Plugins that have no effect may be given anything.


_TYPE: Final = ("apiVersion", "kind")
_POLICIES: Final = ("only-waiting", "waiting-and-running", "once-satisfied")


def wrong_argument(plugin: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """The first argument of a plugin that cannot be read, and why; None where all of them can."""
    checks = _CHECKS.get(plugin)
    if checks is None:
        return None
    argument_names = (*checks, *_TYPE)
    unknown = next((str(name) for name in arguments if name not in argument_names), None)
    if unknown is not None:
        return unknown, f"{plugin} has no such argument{suggestion(unknown, argument_names)}"
    for name, problem in checks.items():
        fault = problem(arguments[name]) if arguments.get(name) is not None else ""
        if fault:
            return name, fault
    return None


def _flag(value: object) -> str:
    if isinstance(value, bool):
        return ""
    return f"expected true or false, not {as_written(value)}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return ""
    return f"expected a text, not {as_written(value)}"


def _texts(value: object) -> str:
    fine = isinstance(value, list) and all(isinstance(text, str) for text in value)
    if fine:
        return ""
    return f"expected a list of texts, not {as_written(value)}"


def _duration(value: object) -> str:
    if seconds(str(value)) is not None:
        return ""
    return f'expected a duration such as "90s", not {as_written(value)}'


def _policy(value: object) -> str:
    if value in ("", *_POLICIES):
        return ""
    return f"expected one of {', '.join(_POLICIES)}, not {as_written(value)}"


def _amounts(value: object) -> str:
    if not isinstance(value, Mapping):
        return "expected a mapping of resources and quantities"
    for resource, quantity in value.items():
        try:
            amount(str(resource), quantity)
        except (ValueError, TypeError):
            return f"{resource}: {quantity} is not a quantity"
    return ""


def _whole(low: int, high: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        fine = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        if fine:
            return ""
        return f"expected a whole number from {low} to {high}, not {as_written(value)}"

    return check


def _resources(value: object) -> str:
    """Return what is wrong with an argument that lists resources with weights, "" where nothing is.

    Each needs a name of its own and may have a weight from 0 to 100.
    """
    if not isinstance(value, list):
        return "expected a list of resources"
    seen: set[str] = set()
    for entry in value:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            return "expected resources with a name"
        if name in seen:
            return f"resource {name} is listed twice"
        seen.add(name)
        wrong = _whole(0, 100)(entry.get("weight", 1))
        unknown = next((key for key in entry if key not in ("name", "weight")), None)
        if wrong or unknown is not None:
            if unknown is not None:
                return f"resource {name}: unknown field {unknown}"
            return f"weight of {name}: {wrong}"
    return ""


def _strategy(value: object) -> str:
    """How NodeResourcesFit scores."""
    if not isinstance(value, Mapping):
        return "expected a mapping"
    unknown = next((key for key in value if key not in ("type", "resources", "requestedToCapacityRatio")), None)
    if unknown is not None:
        return f"unknown field {unknown}"
    kind = value.get("type", "LeastAllocated")
    if kind not in _STRATEGIES:
        return f"type: expected one of {', '.join(_STRATEGIES)}, not {kind}"
    wrong = _resources(value["resources"]) if value.get("resources") is not None else ""
    if wrong or kind != "RequestedToCapacityRatio":
        return f"resources: {wrong}" if wrong else ""
    ratio = value.get("requestedToCapacityRatio")
    return _shape(ratio.get("shape") if isinstance(ratio, Mapping) else None)


def _shape(value: object) -> str:
    """A broken line over utilization, which must grow from point to point."""
    if not isinstance(value, list) or not value:
        return "requestedToCapacityRatio.shape: expected at least one point"
    previous = -1
    for point in value:
        if not isinstance(point, Mapping):
            return "requestedToCapacityRatio.shape: expected points with utilization and score"
        place = point.get("utilization", 0)
        score = point.get("score", 0)
        wrong = _whole(0, 100)(place) or _whole(0, 10)(score)
        if wrong:
            return f"requestedToCapacityRatio.shape: {wrong}"
        if place <= previous:
            return "requestedToCapacityRatio.shape: utilization must grow from point to point"
        previous = place
    return ""


def _node_affinity(value: object) -> str:
    if not isinstance(value, Mapping):
        return "expected a mapping"
    try:
        msgspec.convert(value, NodeAffinity)
    except msgspec.ValidationError as error:
        return f"not a node affinity: {error}"
    return ""


def _unread(names: str) -> dict[str, Callable[[object], str]]:
    """Arguments that are refused elsewhere, or have no effect: they may be anything."""
    return dict.fromkeys(names.split(), lambda _: "")


def _defaulting(value: object) -> str:
    if value in ("List", "System"):
        return ""
    return f"expected List or System, not {as_written(value)}"


_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

_VOLUMES: Final = "a pod that is bound against the rules of its volumes could not start"
_KEPT_RULES: Final = {
    **dict.fromkeys(("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"), _VOLUMES),
    "DynamicResources": "a pod that is bound without its devices could not start",
}
"""Filters that are kept whatever a profile says, and why."""

_RULES_AT: Final = ("multiPoint", "preFilter", "filter", "reserve", "preBind")

_IDLE_ARGUMENTS: Final = {
    ("VolumeBinding", "shape"): "nodes are not ranked by the storage that they have left",
    ("DynamicResources", "filterTimeout"): "a search for devices is given up after a number of steps",
}

_CHECKS: Final[Mapping[str, Mapping[str, Callable[[object], str]]]] = {
    "DynamicResources": {"bindingTimeout": _duration, "filterTimeout": _duration},
    "DefaultPreemption": {
        "minCandidateNodesPercentage": _whole(0, 100),
        "minCandidateNodesAbsolute": _whole(0, 2**31 - 1),
    },
    "InterPodAffinity": {"hardPodAffinityWeight": _whole(0, 100), "ignorePreferredTermsOfExistingPods": _flag},
    "NodeAffinity": {"addedAffinity": _node_affinity},
    "NodeResourcesBalancedAllocation": {"resources": _resources},
    "NodeResourcesFit": {"scoringStrategy": _strategy, **_unread("ignoredResources ignoredResourceGroups")},
    "PodTopologySpread": {"defaultingType": _defaulting, **_unread("defaultConstraints")},
    "VolumeBinding": _unread("bindTimeoutSeconds shape"),
    "Coscheduling": {
        "awareNetworkTopology": _flag,
        "enablePreemption": _flag,
        "defaultMatchPolicy": _policy,
        "defaultTimeout": _duration,
        "crossNamespaceGangGroups": _flag,
        **_unread(
            "controllerWorkers skipCheckScheduleCycle permitWaitingTimeSeconds podGroupBackoffSeconds"
            " podGroupRejectPercentage denyPGExpirationTimeSeconds deniedPGExpirationTimeSeconds"
            " kubeConfigPath kubeMaster kubeConfig"
        ),
    },
    "ElasticQuota": {
        "enableRuntimeQuota": _flag,
        "enableCheckParentQuota": _flag,
        "enableMinQuotaScale": _flag,
        "disableDefaultQuotaPreemption": _flag,
        "monitorAllQuotas": _flag,
        "delayEvictTime": _duration,
        "revokePodInterval": _duration,
        "defaultQuotaGroupMax": _amounts,
        "systemQuotaGroupMax": _amounts,
        "quotaGroupNamespace": _text,
        "trustedNamespaces": _texts,
        **_unread("enableQueueHint quotaSnapshotUpdateInterval hookPlugins"),
    },
    "NetworkOverhead": {
        "namespaces": _texts,
        "weightsName": _text,
        "networkTopologyName": _text,
        "strict": _flag,
        "bothWays": _flag,
        "lookAhead": _flag,
    },
    "PrioritySort": {},
    "QOSSort": {},
    "TopologicalSort": {"namespaces": _texts},
}
"""Plugins of which all arguments are known, each with what says what is wrong with a value."""


# Which plugins a profile of a KubeSchedulerConfiguration enables at which extension point, and with what weight.
#
# The rules are Kubernetes': what `multiPoint` enables is at every point that the plugin has, the defaults first;
# what a point disables (by name, or all with "*") is taken off that point; what a point enables is added, or its
# weight replaces that of multiPoint.


POINTS: Final = (
    *("queueSort", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score"),
    *("reserve", "permit", "preBind", "bind", "postBind"),
)

_CHANGES: Final = ("enabled", "disabled")
_OF_PLUGIN: Final = ("name", "weight")

Weights = dict[str, int]
"""Plugins in their order with their weights; 0 where none was given."""


class _Change(msgspec.Struct, frozen=True):
    """Settings of a profile for one extension point, or for all of them."""

    enabled: Weights
    disabled: frozenset[str]

    def applied(self, to: Weights) -> Weights:
        plugins = {} if "*" in self.disabled else {n: w for n, w in to.items() if n not in self.disabled}
        for name, weight in self.enabled.items():
            plugins[name] = weight or plugins.get(name, 0)
        return plugins


class _Names:
    """Plugins by the names that one file may use: those of Kubernetes' world, and those of other packages."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._offers: dict[str, Offer | None] = {}
        self._others: dict[str, KubePlugin] = {}

    def __getitem__(self, name: str) -> KubePlugin:
        return self._others.get(name) or PLUGINS[name]

    def offer(self, name: str, path: str) -> Offer | None:
        """Offer of another package under this name, or None for a known name. Raises InputError for an unknown name."""
        if name not in self._offers:
            try:
                offer = self._offers[name] = self._installed.get(name)
            except InputError as error:
                raise InputError(error.message, field=path) from None
            if offer is not None:
                self._others[name] = of_another_package(name, offer.switches)
            elif name not in PLUGINS:
                names = sorted({*PLUGINS, *self._installed})
                text = f"unknown plugin {name}{suggestion(name, names)} (there are {', '.join(names)})"
                raise InputError(text, field=path)
        return self._offers[name]


class Points:
    """The plugins of one profile, point by point."""

    def __init__(self, raw: object, defaults: Mapping[str, int], names: _Names, *, path: str) -> None:
        plugins = mapping({} if raw is None else raw, path, what="a mapping of extension points")
        check_fields(plugins, path, (*POINTS, "multiPoint"), "extension point")
        self._changes = {str(p): _change(raw_change, str(p), names, f"{path}.{p}") for p, raw_change in plugins.items()}
        nothing = _Change({}, frozenset())
        everywhere = self._changes.get("multiPoint", nothing).applied(dict(defaults))
        self._at: dict[str, Weights] = {}
        for point in POINTS:
            enabled_everywhere = {name: w for name, w in everywhere.items() if names[name].stands_at(point)}
            self._at[point] = self._changes.get(point, nothing).applied(enabled_everywhere)

    def at(self, point: str) -> Weights:
        """The plugins at a point, in order."""
        return self._at[point]

    def named(self, point: str) -> tuple[str, ...]:
        """The names of the plugins that the profile itself enables and that stand at this point: first those under
        multiPoint, then those of the point, each once. Plugins that are there by default alone are not among them.
        """
        changes = (self._changes.get("multiPoint"), self._changes.get(point))
        names: list[str] = []
        for change in changes:
            if change is not None:
                names.extend(change.enabled)
        return tuple(name for name in dict.fromkeys(names) if name in self._at[point])

    def enabled(self) -> tuple[str, ...]:
        """Every plugin that the profile itself enables, wherever."""
        return tuple(dict.fromkeys(name for change in self._changes.values() for name in change.enabled))

    def disabled(self) -> tuple[str, ...]:
        """The rules of volumes and devices that the profile would do without, which are kept all the same."""
        rules_off: dict[str, None] = {}
        enabled_again = {name for point in _RULES_AT if point in self._changes for name in self._changes[point].enabled}
        for point in _RULES_AT:
            gone = self._changes[point].disabled if point in self._changes else ()
            rules_off |= {
                name: None for name in _KEPT_RULES if name in gone or ("*" in gone and name not in enabled_again)
            }
        return tuple(rules_off)

    def names(self) -> tuple[str, ...]:
        """Every plugin at any point."""
        return tuple(dict.fromkeys(name for weights in self._at.values() for name in weights))


def _change(raw: object, point: str, names: _Names, path: str) -> _Change:
    change = mapping({} if raw is None else raw, path, _CHANGES, "a mapping with enabled and disabled")
    enabled: Weights = {}
    for where, name, weight in _entries(change.get("enabled"), f"{path}.enabled"):
        if name in enabled:
            raise InputError(f"plugin {name} is enabled twice", field=where)
        if names.offer(name, where) is not None and point != "multiPoint" and not names[name].stands_at(point):
            points = ", ".join(sorted(set(names[name].switches.values())))
            raise InputError(f"plugin {name} has no part in {point}, but in {points}", field=where)
        enabled[name] = weight
    disabled = frozenset(name for _, name, _ in _entries(change.get("disabled"), f"{path}.disabled"))
    return _Change(enabled, disabled)


def _entries(raw: object, path: str) -> Iterator[tuple[str, str, int]]:
    """Yield (path, plugin name, weight) of each entry of a list of plugins.

    The weight is 0 where none is given; a name that is an alias is replaced. InputError where an entry cannot be read.
    """
    for where, raw_entry in entries(raw, path):
        entry = named(raw_entry, where, _OF_PLUGIN)
        weight = entry.get("weight", 0)
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
            raise InputError("expected a whole number that is not negative", field=f"{where}.weight")
        yield where, ALIASES.get(entry["name"], entry["name"]), weight


KIND: Final = "KubeSchedulerConfiguration"

_NOBODY: Final[Installed] = {}

_GROUP: Final = "kubescheduler.config.k8s.io/"
_DEFAULT_NAME: Final = "default-scheduler"
_FIELDS: Final = """
    apiVersion kind profiles extenders parallelism leaderElection clientConnection healthzBindAddress
    metricsBindAddress enableProfiling enableContentionProfiling percentageOfNodesToScore podInitialBackoffSeconds
    podMaxBackoffSeconds delayCacheUntilActive
"""
"""The fields of the file; only the first three matter here."""
_OF_PROFILE: Final = ("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")
_OWN: Final = "Tierwise"
"""The name under which `pluginConfig` says what is for no plugin."""
_GATES: Final = "featureGates"
_GANG: Final = PluginChoice("gang", off=frozenset({"JobOrder"}))
"""Gangs start whole; turns go by priority, age and name alone, so a gang's surplus has its turn with the gang."""
_ALONE: Final = {"hypernode.binpack.normal-pod.enable": False}
"""Where Kubernetes' scores decide, pods without a gang are not packed by domain."""


class _KubeProfile(msgspec.Struct, frozen=True):
    """One profile of the file."""

    name: str
    path: str
    names: _Names
    points: Points
    arguments: Mapping[str, Mapping[str, object]]


def read_kube(raw: object, installed: Installed = _NOBODY) -> Profile:
    """A profile from the parsed configuration file; several profiles become one that tells their pods apart.

    `installed` knows the plugins of other packages: one of them may bear a name that else has no effect.
    """
    if not isinstance(raw, Mapping):
        raise InputError(f"a {KIND} is a mapping")
    version = str(raw.get("apiVersion", "")).removeprefix(_GROUP)
    if not str(raw.get("apiVersion", "")).startswith(_GROUP) or version not in DEFAULTS:
        versions = ", ".join(_GROUP + v for v in DEFAULTS)
        raise InputError(f"expected one of {versions}", field="apiVersion")
    check_fields(raw, None, _FIELDS.split())
    if raw.get("extenders"):
        raise InputError("extenders are not supported: remove them", field="extenders")
    profiles = list(_profiles(raw.get("profiles"), version, _Names(installed)))
    return _joined(profiles)


def _profiles(raw: object, version: str, names: _Names) -> Iterator[_KubeProfile]:
    seen: set[str] = set()
    for path, raw_profile in entries([{}] if raw is None or raw == [] else raw, "profiles"):
        entry = mapping(raw_profile, path, _OF_PROFILE)
        name = entry.get("schedulerName") or _DEFAULT_NAME
        if not isinstance(name, str):
            raise InputError("expected a text", field=f"{path}.schedulerName")
        if name in seen:
            raise InputError(f"{name} has a profile already", field=f"{path}.schedulerName")
        seen.add(name)
        yield _KubeProfile(
            name=name,
            path=path,
            names=names,
            points=Points(entry.get("plugins"), DEFAULTS[version], names, path=f"{path}.plugins"),
            arguments=_arguments(entry.get("pluginConfig"), names, f"{path}.pluginConfig"),
        )


def _arguments(raw: object, names: _Names, path: str) -> dict[str, dict[str, object]]:
    """The arguments of each plugin; those that change what is allowed, in ways not known here, are refused."""
    by_plugin: dict[str, dict[str, object]] = {}
    for where, raw_entry in entries(raw, path):
        entry = named(raw_entry, where, ())
        for key in entry:
            if key not in ("name", "args"):
                text = f"unknown field {key}{suggestion(str(key), ('name', 'args')) or ' (did you mean args?)'}"
                raise InputError(text, field=where)
        name = str(entry["name"])
        if name in by_plugin:
            raise InputError(f"plugin {name} is configured twice", field=where)
        args = mapping(entry.get("args") or {}, f"{where}.args")
        if name == _OWN:
            by_plugin[name] = _own_arguments(args, f"{where}.args")
            continue
        offer = names.offer(name, where)
        refused = next((key for key in names[name].refused if args.get(key)), None)
        if refused is not None:
            raise InputError(f"{name} knows no {refused} here", field=f"{where}.args.{refused}")
        by_plugin[name] = {str(key): value for key, value in args.items() if key not in _TYPE}
        wrong = wrong_argument(name, args) if offer is None else offer.wrong_argument(by_plugin[name])
        if wrong is not None:
            raise InputError(wrong[1], field=f"{where}.args.{wrong[0]}")
    return by_plugin


_OF_ALLOCATE: Final[dict[str, Callable[[object], str]]] = {
    **dict.fromkeys(NAMES, wrong_steps),
    IDLE_ROOM: wrong_idle_room,
}
"""Arguments of the action allocate that are said of the scheduler itself, and why a value is none."""


def _own_arguments(args: Mapping[str, object], path: str) -> dict[str, object]:
    """Arguments for the scheduler itself."""
    check_fields(args, path, (*_OF_ALLOCATE, _GATES))
    for name, wrong_value in _OF_ALLOCATE.items():
        wrong = wrong_value(args[name]) if name in args else ""
        if wrong:
            raise InputError(wrong, field=f"{path}.{name}")
    read_gates(args.get(_GATES), f"{path}.{_GATES}")
    return dict(args)


def _joined(profiles: list[_KubeProfile]) -> Profile:
    """All profiles in one: what they must agree on, and what each has for its own pods."""
    lead, *further = profiles
    sorts = _sorts(lead)
    actions = _actions(lead)
    for other in further:
        if _sorts(other) != sorts:
            field = f"{other.path}.plugins.queueSort"
            raise InputError("all profiles share one queue, so their queueSort must be the same", field=field)
        if _OWN in other.arguments:
            text = f"all profiles share one cycle: {_OWN} is configured in the first of them"
            raise InputError(text, field=f"{other.path}.pluginConfig")
        actions = tuple(dict.fromkeys((*actions, *_actions(other))))
    order = (*sorts, PluginChoice("priority"), _GANG, PluginChoice("conformance"))
    choices: list[PluginChoice] = []
    for i, profile in enumerate(profiles):
        scheduler = profile.name if i else ""  # the first profile serves whoever names no other
        choices += _own(profile, scheduler=scheduler if further else None)
    return Profile(
        actions=actions,
        tiers=(order, (*choices, PluginChoice("network-topology-aware", _ALONE))),
        action_arguments=_action_arguments(lead),
        schedulers=tuple(profile.name for profile in profiles),
        immediate_preemption=True,
        preempt_actions={p.name if i else "": frozenset(_actions(p)) for i, p in enumerate(profiles)}
        if further
        else {},
        backfills=False,
        feature_gates=read_gates(lead.arguments.get(_OWN, {}).get(_GATES), _GATES),
        notes=tuple(dict.fromkeys(note for profile in profiles for note in _notes(profile))),
        spelled=_spelled(profiles),
    )


def _spelled(profiles: list[_KubeProfile]) -> dict[str, str]:
    """The names that the file has for plugins of other names; where it has several for one, it keeps its own."""
    names: dict[str, set[str]] = {}
    for profile in profiles:
        for name in profile.points.names():
            names.setdefault(profile.names[name].plugin, set()).add(name)
    return {
        plugin: next(iter(ours)) for plugin, ours in names.items() if plugin and ours != {plugin} and len(ours) == 1
    }


def _notes(profile: _KubeProfile) -> Iterator[str]:
    """Notes about settings of a profile that have no effect."""
    for name in profile.points.enabled():
        if profile.names[name].idle:
            yield f"plugin {name} has no effect: {profile.names[name].idle}"
    for name in profile.points.disabled():
        yield f"disabling plugin {name} has no effect: {_KEPT_RULES[name]}"
    for (name, argument), why in _IDLE_ARGUMENTS.items():
        if argument in profile.arguments.get(name, {}):
            yield f"argument {argument} of plugin {name} has no effect: {why}"


def _sorts(profile: _KubeProfile) -> tuple[PluginChoice, ...]:
    """The plugins that order the queue: one that the profile names replaces the default one."""
    named = profile.points.named("queueSort")
    if len(named) > 1:
        field = f"{profile.path}.plugins.queueSort"
        raise InputError(f"one plugin orders the queue, not {' and '.join(named)}", field=field)
    sorter_names = named or tuple(profile.points.at("queueSort"))
    sorters = (profile.names[name] for name in sorter_names if profile.names[name].stands_at("queueSort"))
    return tuple(
        PluginChoice(sorter.plugin, profile.arguments.get(sorter.plugin, {}), sorter.off_but({"queueSort"}))
        for sorter in sorters
        if sorter.plugin
    )


def _actions(profile: _KubeProfile) -> tuple[str, ...]:
    """The actions of a profile in the order they run: enqueue, allocate, those that its plugins bring, and last those
    of its postFilter plugins that evict. Of the latter, those that the profile names come before the default ones. Each
    action is in it once.
    """
    actions = ["enqueue", "allocate"]
    actions += [profile.names[name].acts for name in profile.points.names() if profile.names[name].acts]
    for name in dict.fromkeys((*profile.points.named("postFilter"), *profile.points.at("postFilter"))):
        plugin = profile.names[name]
        if plugin.evicts and (not plugin.evicts_if or profile.arguments.get(name, {}).get(plugin.evicts_if) is True):
            actions.append(plugin.evicts)
    return tuple(dict.fromkeys(actions))


def _action_arguments(profile: _KubeProfile) -> dict[str, dict[str, object]]:
    """Which of the actions that plugins bring are to do their work, and what is said of searches and of idle room."""
    arguments = profile.arguments.get(_OWN, {})
    for_allocate = {name: arguments[name] for name in _OF_ALLOCATE if name in arguments}
    by_action: dict[str, dict[str, object]] = {"allocate": for_allocate} if for_allocate else {}
    for name in profile.points.names():
        plugin = profile.names[name]
        if plugin.acts_if:
            by_action[plugin.acts] = {"enabled": profile.arguments.get(name, {}).get(plugin.acts_if) is True}
    return by_action


def _own(profile: _KubeProfile, *, scheduler: str | None) -> Iterator[PluginChoice]:
    """The filters and scores of one profile."""
    points = profile.points
    filters = points.at("filter")
    scores = points.at("score")
    flags: dict[str, object] = {k.filters: name in filters for name, k in PLUGINS.items() if k.filters}
    flags["kubernetes"] = True
    if "addedAffinity" in profile.arguments.get("NodeAffinity", {}):
        flags["addedAffinity"] = profile.arguments["NodeAffinity"]["addedAffinity"]
    if "bindTimeoutSeconds" in profile.arguments.get("VolumeBinding", {}):
        flags["volumebinding.bindTimeoutSeconds"] = profile.arguments["VolumeBinding"]["bindTimeoutSeconds"]
    time = profile.arguments.get("DynamicResources", {}).get("bindingTimeout")
    if time is not None:
        flags["dynamicresources.bindingTimeoutSeconds"] = seconds(str(time))
    yield PluginChoice("predicates", flags, scheduler=scheduler)
    for name in points.names():
        plugin = profile.names[name]
        points_here = set(plugin.switches.values())
        if plugin.plugin and points_here != {"queueSort"}:
            on = {point for point in points_here if point != "queueSort" and name in points.at(point)}
            yield PluginChoice(
                plugin.plugin,
                _heard(plugin.plugin, {**plugin.arguments, **profile.arguments.get(name, {})}),
                plugin.off_but(on),
                weight=float(scores.get(name) or 1),
                scheduler=scheduler,
            )


def _heard(plugin: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments that a plugin reads: others of Kubernetes' plugin have no effect, and end here."""
    known_names = ARGUMENTS[plugin].split() if plugin in ARGUMENTS else arguments
    return {name: value for name, value in arguments.items() if name in known_names}
