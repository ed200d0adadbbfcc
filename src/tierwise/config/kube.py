"""Read a KubeSchedulerConfiguration: the file that drives Kubernetes' own scheduler drives tierwise.

Every version from v1beta2 to v1, several profiles, plugins by extension point, `multiPoint` and "*" are understood;
`config.kube_names` says what each plugin comes to. Gangs and the topology keep their rules under every such profile.
Pods are served by the profile of their scheduler's name, and by the first one where no profile has it.
Raises `InputError` for whatever is not such a configuration, or says what tierwise cannot do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.errors import InputError
from tierwise.api.mistakes import suggestion
from tierwise.config.kube_arguments import wrong_argument
from tierwise.config.kube_names import DEFAULTS, PLUGINS
from tierwise.config.kube_points import Points
from tierwise.config.profile import PluginChoice, Profile

__all__ = ["KIND", "read_kube"]

KIND: Final = "KubeSchedulerConfiguration"

_GROUP: Final = "kubescheduler.config.k8s.io/"
_DEFAULT_NAME: Final = "default-scheduler"
_FIELDS: Final = """
    apiVersion kind profiles extenders parallelism leaderElection clientConnection healthzBindAddress
    metricsBindAddress enableProfiling enableContentionProfiling percentageOfNodesToScore podInitialBackoffSeconds
    podMaxBackoffSeconds delayCacheUntilActive
"""
"""What may stand in the file; of all but the first three nothing is needed here."""
_OF_PROFILE: Final = ("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")
_TYPE: Final = ("apiVersion", "kind")
_GANG: Final = PluginChoice("gang", off=frozenset({"JobOrder"}))
"""Gangs start whole; turns go by priority, age and name alone, so a gang's surplus has its turn with the gang."""
_ALONE: Final = {"hypernode.binpack.normal-pod.enable": False}
"""Where Kubernetes' scores decide, pods without a gang are not packed by domain."""


class _KubeProfile(msgspec.Struct, frozen=True):
    """One profile of the file."""

    name: str
    path: str
    points: Points
    arguments: Mapping[str, Mapping[str, object]]


def read_kube(raw: object, file: str | None = None) -> Profile:
    """A profile from the parsed configuration file; several profiles become one that tells their pods apart."""
    if not isinstance(raw, Mapping):
        raise InputError(f"a {KIND} is a mapping", file=file)
    version = str(raw.get("apiVersion", "")).removeprefix(_GROUP)
    if not str(raw.get("apiVersion", "")).startswith(_GROUP) or version not in DEFAULTS:
        known = ", ".join(_GROUP + v for v in DEFAULTS)
        raise InputError(f"expected one of {known}", file=file, field="apiVersion")
    for key in raw:
        if key not in _FIELDS.split():
            raise InputError(f"unknown field {key}{suggestion(str(key), _FIELDS.split())}", file=file)
    if raw.get("extenders"):
        raise InputError("extenders cannot be asked: leave them out", file=file, field="extenders")
    profiles = list(_profiles(raw.get("profiles"), version, file))
    return _joined(profiles, file)


def _profiles(raw: object, version: str, file: str | None) -> Iterator[_KubeProfile]:
    entries = [{}] if raw is None or raw == [] else raw
    if not isinstance(entries, list):
        raise InputError("expected a list", file=file, field="profiles")
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        path = f"profiles[{i}]"
        if not isinstance(entry, Mapping):
            raise InputError("expected a mapping", file=file, field=path)
        for key in entry:
            if key not in _OF_PROFILE:
                raise InputError(f"unknown field {key}{suggestion(str(key), _OF_PROFILE)}", file=file, field=path)
        name = entry.get("schedulerName") or _DEFAULT_NAME
        if not isinstance(name, str):
            raise InputError("expected a text", file=file, field=f"{path}.schedulerName")
        if name in seen:
            raise InputError(f"{name} has a profile already", file=file, field=f"{path}.schedulerName")
        seen.add(name)
        yield _KubeProfile(
            name=name,
            path=path,
            points=Points(entry.get("plugins"), DEFAULTS[version], path=f"{path}.plugins", file=file),
            arguments=_arguments(entry.get("pluginConfig"), f"{path}.pluginConfig", file),
        )


def _arguments(raw: object, path: str, file: str | None) -> dict[str, dict[str, object]]:
    """The arguments of each plugin; those that change what is allowed, in ways not known here, are refused."""
    if raw is None:
        return {}
    if not isinstance(raw, list):
        raise InputError("expected a list", file=file, field=path)
    found: dict[str, dict[str, object]] = {}
    for i, entry in enumerate(raw):
        where = f"{path}[{i}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError("expected a mapping with a name", file=file, field=where)
        for key in entry:
            if key not in ("name", "args"):
                text = f"unknown field {key}{suggestion(str(key), ('name', 'args')) or ' (did you mean args?)'}"
                raise InputError(text, file=file, field=where)
        name, args = str(entry["name"]), entry.get("args") or {}
        if name in found:
            raise InputError(f"plugin {name} is configured twice", file=file, field=where)
        if not isinstance(args, Mapping):
            raise InputError("expected a mapping", file=file, field=f"{where}.args")
        if name not in PLUGINS:
            raise InputError(f"unknown plugin {name}{suggestion(name, PLUGINS)}", file=file, field=where)
        refused = next((key for key in PLUGINS[name].refused if args.get(key)), None)
        if refused is not None:
            raise InputError(f"{name} knows no {refused} here", file=file, field=f"{where}.args.{refused}")
        wrong = wrong_argument(name, args)
        if wrong is not None:
            raise InputError(wrong[1], file=file, field=f"{where}.args.{wrong[0]}")
        found[name] = {str(key): value for key, value in args.items() if key not in _TYPE}
    return found


def _joined(profiles: list[_KubeProfile], file: str | None) -> Profile:
    """All profiles in one: what they must agree on, and what each has for its own pods."""
    first, *rest = profiles
    sorts, actions = _sorts(first, file), _actions(first)
    for other in rest:
        if _sorts(other, file) != sorts:
            field = f"{other.path}.plugins.queueSort"
            raise InputError(
                "all profiles share one queue, so their queueSort must be the same", file=file, field=field
            )
        actions = tuple(dict.fromkeys((*actions, *_actions(other))))
    order = (*sorts, PluginChoice("priority"), _GANG, PluginChoice("conformance"))
    own: list[PluginChoice] = []
    for i, profile in enumerate(profiles):
        own += _own(profile, scheduler=None if not rest else profile.name if i else "")
    return Profile(
        actions=actions,
        tiers=(order, (*own, PluginChoice("network-topology-aware", _ALONE))),
        action_arguments=_action_arguments(first),
        schedulers=tuple(profile.name for profile in profiles),
        at_once=True,
        rescues={p.name if i else "": frozenset(_actions(p)) for i, p in enumerate(profiles)} if rest else {},
        backfills=False,
        notes=tuple(
            dict.fromkeys(
                f"plugin {name} has no effect: {PLUGINS[name].idle}"
                for profile in profiles
                for name in profile.points.enabled()
                if PLUGINS[name].idle
            )
        ),
    )


def _sorts(profile: _KubeProfile, file: str | None) -> tuple[PluginChoice, ...]:
    """The plugins that order the queue: one that the profile names stands in for the default one."""
    named = profile.points.named("queueSort")
    if len(named) > 1:
        field = f"{profile.path}.plugins.queueSort"
        raise InputError(f"one plugin orders the queue, not {' and '.join(named)}", file=file, field=field)
    found = named or tuple(profile.points.at("queueSort"))
    sorters = (name for name in found if PLUGINS[name].plugin and "queueSort" in PLUGINS[name].switches)
    return tuple(
        PluginChoice(PLUGINS[name].plugin, profile.arguments.get(name, {}), PLUGINS[name].off_but({"queueSort"}))
        for name in sorters
    )


def _actions(profile: _KubeProfile) -> tuple[str, ...]:
    """What the profile names under postFilter comes before the default: so it does in Koordinator's own profile."""
    actions = ["enqueue", "allocate"]
    actions += [PLUGINS[name].acts for name in profile.points.names() if PLUGINS[name].acts]
    for name in dict.fromkeys((*profile.points.named("postFilter"), *profile.points.at("postFilter"))):
        known = PLUGINS[name]
        if known.evicts and (not known.evicts_if or profile.arguments.get(name, {}).get(known.evicts_if) is True):
            actions.append(known.evicts)
    return tuple(dict.fromkeys(actions))


def _action_arguments(profile: _KubeProfile) -> dict[str, dict[str, object]]:
    """Which of the actions that plugins bring are to do their work."""
    found: dict[str, dict[str, object]] = {}
    for name in profile.points.names():
        known = PLUGINS[name]
        if known.acts_if:
            found[known.acts] = {"enabled": profile.arguments.get(name, {}).get(known.acts_if) is True}
    return found


def _own(profile: _KubeProfile, *, scheduler: str | None) -> Iterator[PluginChoice]:
    """The filters and scores of one profile."""
    points = profile.points
    filters, scores = points.at("filter"), points.at("score")
    flags: dict[str, object] = {k.filters: name in filters for name, k in PLUGINS.items() if k.filters}
    flags["kubernetes"] = True
    if "addedAffinity" in profile.arguments.get("NodeAffinity", {}):
        flags["addedAffinity"] = profile.arguments["NodeAffinity"]["addedAffinity"]
    yield PluginChoice("predicates", flags, scheduler=scheduler)
    for name in points.names():
        known = PLUGINS[name]
        if known.plugin and set(known.switches) != {"queueSort"}:
            on = {point for point in known.switches if point != "queueSort" and name in points.at(point)}
            yield PluginChoice(
                known.plugin,
                {**known.arguments, **profile.arguments.get(name, {})},
                known.off_but(on),
                weight=float(scores.get(name) or 1),
                scheduler=scheduler,
            )
