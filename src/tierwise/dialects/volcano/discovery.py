"""The part of Volcano's controller configuration that names the sources of the network topology.

Read by the discovery controllers, by the fetching threads and by `validate`. A configuration that cannot be parsed
discovers nothing and, in particular, deletes nothing; its faults are reported to users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.core import ConfigMap
from tierwise.api.duration import seconds

__all__ = [
    "CONFIG_KEY",
    "SOURCE_LABEL",
    "LabelSource",
    "OtherSource",
    "TopologyType",
    "label_source",
    "other_sources",
    "read_label_source",
]

CONFIG_KEY: Final = "volcano-controller.conf"
SOURCE_LABEL: Final = "volcano.sh/network-topology-source"
"""Says which source made a hyperNode; a source changes and removes only its own."""
_NAME_ENDING: Final = "-controller-configmap"
_LONGEST_TYPE: Final = 20
_INTERVAL: Final = 3600.0


class TopologyType(msgspec.Struct, frozen=True):
    """A chain of node labels that describe one network; `keys` run from tier 1 outwards."""

    name: str
    keys: tuple[str, ...]


class LabelSource(msgspec.Struct, frozen=True):
    """The enabled label source of a configuration: its types, or what is wrong with it."""

    types: tuple[TopologyType, ...] = ()
    faults: tuple[str, ...] = ()


class OtherSource(msgspec.Struct, frozen=True):
    """An enabled source of another kind, as it was configured.

    `interval` is in seconds, `secret` is namespace and name of its credentials, and `namespace` is the configuration's
    own.
    """

    kind: str
    namespace: str
    interval: float = _INTERVAL
    settings: Mapping[str, object] = {}
    secret: tuple[str, str] | None = None

    def text(self, key: str) -> str:
        """A setting that is a text, "" where it is missing or something else."""
        value = self.settings.get(key)
        return value if isinstance(value, str) else ""

    def words(self, key: str) -> tuple[str, ...]:
        """A setting that is a list of texts."""
        value = self.settings.get(key)
        if isinstance(value, list):
            return tuple(word for word in value if isinstance(word, str))
        return ()


def label_source(configs: Iterable[ConfigMap]) -> LabelSource | None:
    """The first enabled label source among configurations, None where there is none or it is not understood."""
    for config in configs:
        source = read_label_source(config)
        if source is not None:
            return None if source.faults else source
    return None


def read_label_source(config: ConfigMap) -> LabelSource | None:
    """The enabled label source of one ConfigMap, None where it is no controller configuration or has none."""
    for source in _sources(config):
        if isinstance(source, str):
            return LabelSource(faults=(source,))
        if source.get("source") == "label" and source.get("enabled") is True:
            return _types(source.get("config"))
    return None


def other_sources(configs: Iterable[ConfigMap]) -> list[OtherSource]:
    """The enabled sources that are not `label`, of each kind the first."""
    by_kind: dict[str, OtherSource] = {}
    for config in configs:
        for source in _sources(config):
            kind = source.get("source") if isinstance(source, dict) else None
            if isinstance(source, dict) and isinstance(kind, str) and kind != "label" and source.get("enabled") is True:
                by_kind.setdefault(kind, _other(kind, source, config.metadata.namespace or "default"))
    return list(by_kind.values())


def _other(kind: str, source: Mapping[str, object], namespace: str) -> OtherSource:
    interval = seconds(str(source.get("interval", "")))
    settings = source.get("config")
    credentials = source.get("credentials")
    reference = credentials.get("secretRef") if isinstance(credentials, dict) else None
    secret = None
    if isinstance(reference, dict) and reference.get("name"):
        secret = str(reference.get("namespace") or namespace), str(reference["name"])
    return OtherSource(
        kind,
        namespace,
        interval=interval if interval and interval > 0 else _INTERVAL,
        settings=settings if isinstance(settings, dict) else {},
        secret=secret,
    )


def _sources(config: ConfigMap) -> Iterator[dict[str, object] | str]:
    """Every source that a configuration lists, or one text that says why it cannot be read."""
    text = config.data.get(CONFIG_KEY)
    if text is None or not config.metadata.name.endswith(_NAME_ENDING):
        return
    import yaml  # slow to import, and few clusters have such a configuration

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"cannot be read: {getattr(error, 'problem', None) or 'not YAML'}"
        return
    sources = parsed.get("networkTopologyDiscovery") if isinstance(parsed, dict) else None
    yield from (source for source in (sources if isinstance(sources, list) else ()) if isinstance(source, dict))


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
        yield f'type "{name}": a node label is listed twice'
