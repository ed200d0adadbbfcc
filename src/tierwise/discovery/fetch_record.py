"""The record of the last attempts to fetch a source, kept in a ConfigMap beside the configuration.

The process that fetches writes it and the discovery controllers read it, so these stay functions of a cluster's
objects. It keeps the last tree that was read, however many attempts have failed since, and the time of the next
attempt.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, format_time, parse_time
from tierwise.api.natural import natural
from tierwise.discovery.hostlist import compress, expand, fits
from tierwise.discovery.tree import Path, PathElement, Tree

__all__ = ["FetchRecord", "due", "failed", "fetched", "manifest", "next_try", "read", "record_name"]

_FIRST_WAIT: Final = 30.0
"""Seconds to wait after a first failure; each further one doubles it, up to the source's interval."""


class FetchRecord(msgspec.Struct, frozen=True):
    """The last tree, and how fetching goes; times are in seconds since the epoch, 0 for never."""

    tree: Tree | None = None
    fetched_at: float = 0.0
    tried_at: float = 0.0
    failures: int = 0
    error: str = ""


def record_name(kind: str) -> str:
    """The name of the ConfigMap that keeps the record of a source."""
    return f"tierwise-discovery-{kind}"


def fetched(tree: Tree, now: float) -> FetchRecord:
    """The record of a try that gave a tree."""
    return FetchRecord(tree, fetched_at=now, tried_at=now)


def failed(before: FetchRecord | None, error: str, now: float) -> FetchRecord:
    """The record of a try that gave none: the old tree stays."""
    before = before or FetchRecord()
    return replace(before, tried_at=now, failures=before.failures + 1, error=" ".join(error.split()))


def next_try(record: FetchRecord, interval: float) -> float:
    """When to try again: 30 s after a failure, then 1, 2, 4 … minutes, never later than the interval."""
    if not record.failures:
        return record.tried_at + interval
    doubled = float(2 ** min(record.failures - 1, 32))
    return record.tried_at + min(_FIRST_WAIT * doubled, interval)


def due(record: FetchRecord | None, interval: float, now: float) -> bool:
    """Whether it is time to try; a try in the future was noted by a clock that was wrong, and tells nothing."""
    return record is None or now >= next_try(record, interval) or now < record.tried_at


def manifest(record: FetchRecord, kind: str, namespace: str) -> Raw:
    """The ConfigMap of a record."""
    data = {"triedAt": format_time(record.tried_at), "failures": str(record.failures), "error": record.error}
    if record.tree is not None:
        data |= {
            "fetchedAt": format_time(record.fetched_at),
            "tree": json.dumps(_packed(record.tree), ensure_ascii=False),
        }
    metadata = {"name": record_name(kind), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def read(config: ConfigMap) -> FetchRecord:
    """The record in a ConfigMap; ValueError where it is no such record."""
    data = config.data
    try:
        text = data.get("tree")
        return FetchRecord(
            tree=_unpacked(text) if text else None,
            fetched_at=parse_time(data["fetchedAt"]) if text else 0.0,
            tried_at=parse_time(data["triedAt"]),
            failures=int(data.get("failures", "0")),
            error=data.get("error", ""),
        )
    except (KeyError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"ConfigMap {config.metadata.name} is not a record of discovery: {error}") from None


class _Place(msgspec.Struct):
    """A path, tier and name of each domain from the outside, and the nodes there: a list, or an expression."""

    path: list[tuple[int, str]]
    nodes: str | list[str]


class _Packed(msgspec.Struct, rename="camel"):
    """A tree as the record keeps it."""

    tier_names: dict[int, str]
    unique: bool
    places: list[_Place]


def _packed(tree: Tree) -> Raw:
    homes: dict[Path, list[str]] = {}
    for node in sorted(tree.places, key=natural):
        homes.setdefault(tree.places[node], []).append(node)
    places = [_Place([(s.tier, s.name) for s in path], _folded(nodes)) for path, nodes in homes.items()]
    packed: Raw = msgspec.to_builtins(
        _Packed(dict(sorted(tree.tier_names.items())), tree.unique, places), str_keys=True
    )
    return packed


def _folded(nodes: list[str]) -> str | list[str]:
    """Nodes as an expression, or as a list where one of them cannot be part of it."""
    return compress(nodes) if all(map(fits, nodes)) else nodes


def _unpacked(text: str) -> Tree:
    packed = msgspec.json.decode(text, type=_Packed)
    places: dict[str, Path] = {}
    for place in packed.places:
        if not place.path:
            raise ValueError("a path is empty")
        nodes = expand(place.nodes) if isinstance(place.nodes, str) else place.nodes
        places |= dict.fromkeys(nodes, tuple(PathElement(tier, name) for tier, name in place.path))
    return Tree(places, packed.tier_names, unique=packed.unique)
