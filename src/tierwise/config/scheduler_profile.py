"""The configuration of tierwise's own: a `SchedulerProfile`, which is the record `Profile` as a file.

Volcano's and Kubernetes' formats are converted into the same record, so each of them can be printed in this form, and
what is printed configures the same scheduler. The JSON schema is that of the record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import fields, replace

from tierwise.api.codec import converted
from tierwise.api.errors import InputError
from tierwise.config.actions import ACTIONS
from tierwise.config.features import FEATURES, read_gates
from tierwise.config.given import check_fields, mapping
from tierwise.config.profile import DEFAULT, Installed, PluginChoice, Profile
from tierwise.config.volcano import POINTS, check_action_arguments, check_arguments, plugins_of

__all__ = ["API_VERSION", "KIND", "read_own", "schema", "written"]

API_VERSION: Final = "tierwise.io/v1alpha1"
KIND: Final = "SchedulerProfile"

_NOBODY: Final[Installed] = {}
_MESSAGES: Final = ("notes", "spelled")
"""The fields of the record that are no settings."""


def read_own(raw: object, installed: Installed = _NOBODY) -> Profile:
    """A profile from the parsed file; what it leaves out is as in the default profile.

    `installed` knows the plugins of other packages.
    """
    fields_given = dict(mapping(raw, None, what=f"a mapping with kind {KIND}"))
    if fields_given.pop("kind", None) != KIND or fields_given.pop("apiVersion", None) != API_VERSION:
        raise InputError(f"expected {API_VERSION}, with kind {KIND}", field="apiVersion")
    _check_names(fields_given, Profile, "", but=_MESSAGES)
    gates = read_gates(fields_given.pop("featureGates", None), "featureGates")
    listed = fields_given.pop("tiers", None)
    tiers = [tuple(_choice(plugin, path, installed) for path, plugin in tier) for tier in plugins_of(listed)]
    settings = {name: value for name, value in fields_given.items() if value is not None}
    profile = converted({"actions": DEFAULT.actions, "tiers": (), **settings}, Profile)
    for action, arguments in profile.action_arguments.items():
        check_action_arguments(action, arguments, "actionArguments", f"actionArguments.{action}")
    for scheduler, names in profile.preempt_actions.items():
        check_fields(dict.fromkeys(names), f"preemptActions.{scheduler}", tuple(ACTIONS), "action")
    tiers_read = tuple(tiers) if listed is not None else DEFAULT.tiers
    _check_schedulers(profile, tiers_read)
    return replace(profile, tiers=tiers_read, feature_gates=gates)


def _choice(raw: object, path: str, installed: Installed) -> PluginChoice:
    _check_names(mapping(raw, path, what="a mapping with a name"), PluginChoice, path)
    choice = converted(raw, PluginChoice, path)
    check_fields(dict.fromkeys(choice.off), f"{path}.disabled", POINTS, "switch")
    check_arguments(choice.name, choice.arguments, path, installed)
    return choice


def _check_schedulers(profile: Profile, tiers: tuple[tuple[PluginChoice, ...], ...]) -> None:
    """Raise InputError where a plugin or preemptActions is for a scheduler that the profile does not list.

    The first scheduler must be written "": its own name is refused. A plugin for None is for all.
    """
    scheduler_names = {"", *profile.schedulers[1:]} if profile.schedulers else {""}
    named = ((choice.scheduler, f"plugin {choice.name}") for tier in tiers for choice in tier)
    for scheduler, whose in (*named, *((name, "preemptActions") for name in profile.preempt_actions)):
        if scheduler is not None and scheduler not in scheduler_names:
            text = f"{whose} is for {scheduler}, which is not listed after the first (whose name is left empty)"
            raise InputError(text, field="schedulers")


def _check_names(raw: Mapping[Any, Any], kind: type[msgspec.Struct], path: str, *, but: Collection[str] = ()) -> None:
    names = (field.encode_name for field in fields(kind))
    check_fields(raw, path or None, tuple(name for name in names if name not in but))


def written(profile: Profile, *, every_field: bool = False) -> dict[str, object]:
    """A profile as its file, in one form: equal profiles give equal bytes. Defaults are in it where it is `whole`."""
    tiers = [{"plugins": [_stated(choice) for choice in tier]} for tier in profile.tiers]
    stated_fields = {
        name: value for name, value in _stated(profile, every_field=every_field).items() if name not in _MESSAGES
    }
    if every_field:
        stated_fields["featureGates"] = {name: profile.feature(name) for name in FEATURES}
    return {"apiVersion": API_VERSION, "kind": KIND, **stated_fields, "tiers": tiers}


def _stated(record: msgspec.Struct, *, every_field: bool = False) -> dict[str, object]:
    """Fields by their names in the file: all of them, or only those that differ from the defaults."""
    values = ((field, getattr(record, field.name)) for field in fields(record))
    return {
        field.encode_name: msgspec.to_builtins(value, str_keys=True, order="deterministic")
        for field, value in values
        if every_field or field.required or (value != field.default and value not in ({}, (), frozenset()))
    }


def schema() -> dict[str, Any]:
    """The JSON schema of the file."""
    document: dict[str, Any] = msgspec.json.schema(Profile)
    record = document["$defs"]["Profile"]
    plugin = document["$defs"]["PluginChoice"]
    properties = {name: kind for name, kind in record["properties"].items() if name not in _MESSAGES}
    properties["actions"]["items"]["enum"] = list(ACTIONS)
    properties["actionArguments"]["propertyNames"] = {"enum": list(ACTIONS)}
    properties["featureGates"]["propertyNames"] = {"enum": list(FEATURES)}
    properties["preemptActions"]["additionalProperties"]["items"]["enum"] = list(ACTIONS)
    plugin["properties"]["disabled"]["items"]["enum"] = sorted(POINTS)
    tier = {"type": "object", "properties": {"plugins": properties["tiers"]["items"]}, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "description": f"How tierwise schedules ({API_VERSION}).",
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            **properties,
            "tiers": {"type": "array", "items": tier},
        },
        "required": ["apiVersion", "kind"],
        "additionalProperties": False,
        "$defs": {"PluginChoice": plugin},
    }
