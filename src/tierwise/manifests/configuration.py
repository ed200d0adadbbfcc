"""A profile from a file: a SchedulerProfile, Volcano's configuration or a KubeSchedulerConfiguration.

Each may be plain, or inside a ConfigMap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tierwise.api.errors import InputError
from tierwise.api.yaml_text import documents
from tierwise.config.kube import KIND, read_kube
from tierwise.config.profile import Profile
from tierwise.config.scheduler_profile import KIND as OWN
from tierwise.config.scheduler_profile import read_own
from tierwise.config.volcano import read_volcano
from tierwise.plugins import PLUGINS
from tierwise.scheduler import check_profile

__all__ = ["configuration", "profile_in", "read_profile"]

_READERS: Final = {None: read_volcano, KIND: read_kube, OWN: read_own}
"""By the kind of a document."""


def read_profile(file: str) -> tuple[Profile, str]:
    """The profile in a file, and its place there; InputError where there is none, or one that cannot be used."""
    raw, where = configuration(file)
    return profile_in(raw, where), where


def profile_in(raw: object, where: str) -> Profile:
    """The profile that a configuration of any format comes to; InputError where it cannot be used."""
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str | None) or kind not in _READERS:
        raise InputError(f"an object of kind {kind} is not a scheduler configuration", file=where)
    if isinstance(raw, dict) and kind is None and "profiles" in raw:
        raise InputError(f"the kind is missing: {KIND}?", file=where, field="kind")
    try:
        return check_profile(_READERS[kind](raw, PLUGINS.offers))
    except InputError as error:
        raise error.inside(file=where) from None


def configuration(file: str) -> tuple[object, str]:
    """The one configuration in a file (a hyphen is standard input), or in a ConfigMap there, and its place."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file) from None
    contents = _unpacked([document for document, _ in documents(data, file=file) if document is not None])
    maps = [document for document in contents if _is_config_map(document)]
    configurations = _beside_maps([document for document in contents if not _is_config_map(document)], file, maps)
    inside: list[tuple[object, str]] = []
    for document in maps:
        inside += _inside(document, file)
    configurations += inside
    if len(configurations) > 1:
        names = f": {', '.join(where for _, where in configurations)}" if inside else ""
        raise InputError(f"one configuration is expected, not {len(configurations)}{names}", file=file)
    if configurations:
        return configurations[0]
    if maps:
        raise _no_key_configures(maps, file)
    return None, file


def _beside_maps(contents: Sequence[object], file: str, maps: Sequence[object]) -> list[tuple[object, str]]:
    """Documents that may be the configuration: of several, or beside ConfigMaps, those of a kind that configures."""
    if maps or (len(contents) > 1 and any(map(_configures, contents))):
        contents = [document for document in contents if _configures(document)]
    return [(document, file) for document in contents]


def _no_key_configures(maps: Sequence[object], file: str) -> InputError:
    """Error for ConfigMaps without a scheduler configuration, with the names of their keys."""
    keys: list[str] = []
    for document in maps:
        keys += map(str, _data(document))
    names = ", ".join(sorted(keys)) or "none"
    return InputError(
        f"a ConfigMap is here, but no key of it holds a scheduler configuration (keys: {names})", file=file
    )


def _unpacked(documents: list[object]) -> list[object]:
    """Documents, and instead of lists the objects in them."""
    unpacked: list[object] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        unpacked += items if isinstance(items, list) else [document]
    return unpacked


def _is_config_map(document: object) -> bool:
    return isinstance(document, dict) and document.get("kind") == "ConfigMap"


def _data(document: object) -> dict[str, object]:
    data = document.get("data") if isinstance(document, dict) else None
    return data if isinstance(data, dict) else {}


def _inside(config_map: object, file: str) -> list[tuple[object, str]]:
    """The configurations among the texts of a ConfigMap, each with its place; one key alone is taken for one."""
    data = {key: text for key, text in _data(config_map).items() if isinstance(text, str)}
    configurations: list[tuple[object, str]] = []
    for key, text in data.items():
        where = f"{file} ({key})"
        try:
            parsed = [document for document, _ in documents(text.encode(), file=where) if document is not None]
        except InputError:
            if len(data) == 1:
                raise
            continue  # some other file of theirs
        if len(parsed) == 1 and (_configures(parsed[0]) or (len(data) == 1 and isinstance(parsed[0], dict))):
            configurations.append((parsed[0], where))
    return configurations


def _configures(document: object) -> bool:
    """Whether a document looks like a scheduler configuration."""
    if not isinstance(document, dict):
        return False
    return document.get("kind") in (KIND, OWN) or bool({"actions", "tiers"} & set(document))
