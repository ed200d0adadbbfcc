"""The part of Volcano's controller configuration that says how to read the network from node labels.

Read by the label discovery controller and by `validate`. A configuration that cannot be understood discovers
nothing, and in particular deletes nothing: the faults are for people to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from tierwise.api.core import ConfigMap

__all__ = ["CONFIG_KEY", "LabelSource", "TopologyType", "label_source", "read_label_source"]

CONFIG_KEY: Final = "volcano-controller.conf"
_NAME_ENDING: Final = "-controller-configmap"
_LONGEST_TYPE: Final = 20


@dataclass(frozen=True, slots=True)
class TopologyType:
    """A chain of node labels that describe one network; `keys` run from tier 1 outwards."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelSource:
    """The enabled label source of a configuration: its types, or what is wrong with it."""

    types: tuple[TopologyType, ...] = ()
    faults: tuple[str, ...] = ()


def label_source(configs: Iterable[ConfigMap]) -> LabelSource | None:
    """The first enabled label source among configurations, None where there is none or it is not understood."""
    for config in configs:
        found = read_label_source(config)
        if found is not None:
            return None if found.faults else found
    return None


def read_label_source(config: ConfigMap) -> LabelSource | None:
    """The enabled label source of one ConfigMap, None where it is no controller configuration or has none."""
    text = config.data.get(CONFIG_KEY)
    if text is None or not config.metadata.name.endswith(_NAME_ENDING):
        return None
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not YAML"
        return LabelSource(faults=(f"cannot be read: {problem}",))
    sources = parsed.get("networkTopologyDiscovery") if isinstance(parsed, dict) else None
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict) and source.get("source") == "label" and source.get("enabled") is True:
            return _types(source.get("config"))
    return None


def _types(config: object) -> LabelSource:
    listed = config.get("networkTopologyTypes") if isinstance(config, dict) else None
    if not isinstance(listed, dict) or not listed:
        return LabelSource(faults=("config.networkTopologyTypes must name at least one type",))
    types: list[TopologyType] = []
    faults: list[str] = []
    for name, entries in listed.items():
        keys = list(_keys(entries))
        faults += _faults(str(name), keys)
        # Entries run from the outermost to the host itself, which is no domain of its own: the last one is dropped.
        types.append(TopologyType(str(name), tuple(key for key in reversed(keys[:-1]) if key)))
    return LabelSource(tuple(sorted(types, key=lambda type_: type_.name)), tuple(faults))


def _keys(entries: object) -> Iterator[str]:
    """The node label of each entry, "" for an entry without one."""
    for entry in entries if isinstance(entries, list) else ():
        key = entry.get("nodeLabel") if isinstance(entry, dict) else None
        yield key if isinstance(key, str) else ""


def _faults(name: str, keys: list[str]) -> Iterator[str]:
    if not name or len(name) > _LONGEST_TYPE:
        yield f'type "{name}": the name must have 1 to {_LONGEST_TYPE} characters'
    if len(keys) < 2:
        yield f'type "{name}": at least two node labels are needed, the last one being the host'
    if "" in keys:
        yield f'type "{name}": every entry needs a nodeLabel'
    if len(set(keys)) < len(keys):
        yield f'type "{name}": a node label stands there twice'
