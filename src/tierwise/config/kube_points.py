"""Which plugins a profile of a KubeSchedulerConfiguration enables at which extension point, and with what weight.

The rules are Kubernetes': what `multiPoint` enables stands at every point that the plugin has, the defaults first;
what a point disables (by name, or all with "*") is taken off that point; what a point enables is added, or its weight
replaces that of multiPoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.errors import InputError
from tierwise.api.mistakes import suggestion
from tierwise.config.kube_names import ALIASES, PLUGINS

__all__ = ["POINTS", "Points"]

POINTS: Final = (
    *("queueSort", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score"),
    *("reserve", "permit", "preBind", "bind", "postBind"),
)

_CHANGES: Final = ("enabled", "disabled")
_OF_PLUGIN: Final = ("name", "weight")

Weights = dict[str, int]
"""Plugins in their order with their weights; 0 where none was given."""


class _Change(msgspec.Struct, frozen=True):
    """What a profile says about one point, or about all of them."""

    enabled: Weights
    disabled: frozenset[str]

    def applied(self, to: Weights) -> Weights:
        kept = {} if "*" in self.disabled else {n: w for n, w in to.items() if n not in self.disabled}
        for name, weight in self.enabled.items():
            kept[name] = weight or kept.get(name, 0)
        return kept


class Points:
    """The plugins of one profile, point by point."""

    def __init__(self, raw: object, defaults: Mapping[str, int], *, path: str, file: str | None) -> None:
        plugins = {} if raw is None else raw
        if not isinstance(plugins, Mapping):
            raise InputError("expected a mapping of extension points", file=file, field=path)
        unknown = next((str(key) for key in plugins if key not in (*POINTS, "multiPoint")), None)
        if unknown is not None:
            text = f"unknown extension point {unknown}{suggestion(unknown, (*POINTS, 'multiPoint'))}"
            raise InputError(text, file=file, field=path)
        self._changes = {str(p): _change(given, f"{path}.{p}", file) for p, given in plugins.items()}
        nothing = _Change({}, frozenset())
        everywhere = self._changes.get("multiPoint", nothing).applied(dict(defaults))
        self._at: dict[str, Weights] = {}
        for point in POINTS:
            standing = {name: w for name, w in everywhere.items() if PLUGINS[name].stands_at(point)}
            self._at[point] = self._changes.get(point, nothing).applied(standing)

    def at(self, point: str) -> Weights:
        """The plugins at a point, in order."""
        return self._at[point]

    def named(self, point: str) -> tuple[str, ...]:
        """The plugins that the profile itself enables at a point, there or everywhere."""
        changes = (self._changes.get("multiPoint"), self._changes.get(point))
        names = [name for change in changes if change is not None for name in change.enabled]
        return tuple(name for name in dict.fromkeys(names) if name in self._at[point])

    def enabled(self) -> tuple[str, ...]:
        """Every plugin that the profile itself enables, wherever."""
        return tuple(dict.fromkeys(name for change in self._changes.values() for name in change.enabled))

    def names(self) -> tuple[str, ...]:
        """Every plugin that stands anywhere."""
        return tuple(dict.fromkeys(name for weights in self._at.values() for name in weights))


def _change(raw: object, path: str, file: str | None) -> _Change:
    given = {} if raw is None else raw
    if not isinstance(given, Mapping):
        raise InputError("expected a mapping with enabled and disabled", file=file, field=path)
    for key in given:
        if key not in _CHANGES:
            raise InputError(f"unknown field {key}{suggestion(str(key), _CHANGES)}", file=file, field=path)
    enabled: Weights = {}
    for where, name, weight in _entries(given.get("enabled"), f"{path}.enabled", file):
        if name in enabled:
            raise InputError(f"plugin {name} is enabled twice", file=file, field=where)
        if name not in PLUGINS:
            known = ", ".join(sorted(PLUGINS))
            text = f"unknown plugin {name}{suggestion(name, PLUGINS)} (there are {known})"
            raise InputError(text, file=file, field=where)
        enabled[name] = weight
    disabled = frozenset(name for _, name, _ in _entries(given.get("disabled"), f"{path}.disabled", file))
    return _Change(enabled, disabled)


def _entries(raw: object, path: str, file: str | None) -> Iterator[tuple[str, str, int]]:
    """Place, name and weight of each entry of a list of plugins."""
    if raw is None:
        return
    if not isinstance(raw, list):
        raise InputError("expected a list", file=file, field=path)
    for i, entry in enumerate(raw):
        where = f"{path}[{i}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError("expected a mapping with a name", file=file, field=where)
        for key in entry:
            if key not in _OF_PLUGIN:
                raise InputError(f"unknown field {key}{suggestion(str(key), _OF_PLUGIN)}", file=file, field=where)
        weight = entry.get("weight", 0)
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
            raise InputError("expected a whole number that is not negative", file=file, field=f"{where}.weight")
        name = str(entry["name"])
        yield where, ALIASES.get(name, name), weight
