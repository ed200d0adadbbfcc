"""Measurements as entries of a ConfigMap, in the form that the NetworkTopology controller reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Final

from tierwise.api.codec import part
from tierwise.api.manifest import manifest
from tierwise.port import Create, Effect, Key, Objects, Update

__all__ = ["entries", "publish"]

_PERCENTILES: Final = (50, 90, 99)
_KEY: Final = "netperf.p{percentile}.latency.milliseconds.origin.{origin}.destination.{destination}"
_ORIGIN: Final = re.compile(r"netperf\.p\d+\.latency\.milliseconds\.origin\.(.+)\.destination\.(.+)")


def entries(origin: str, destination: str, seconds: Sequence[float]) -> dict[str, str]:
    """The entries of the ConfigMap for the round trips from origin to destination: a key for each percentile, and its
    milliseconds as a text ("0.123"). The round trips are in seconds; without any the map is empty.
    """
    times = sorted(seconds)
    percentiles = {}
    for percentile in _PERCENTILES if times else ():
        time = times[max(0, ceil(len(times) * percentile / 100) - 1)]
        percentiles[_KEY.format(percentile=percentile, origin=origin, destination=destination)] = f"{time * 1000:.3f}"
    return percentiles


def publish(
    objects: Objects, namespace: str, name: str, *, origin: str, data: Mapping[str, str], nodes: Collection[str]
) -> list[Effect]:
    """Effects that write the latest measurements of a node into the ConfigMap. Entries of other nodes stay, those of
    this node are replaced, and those about nodes that are gone are dropped.
    """
    key = Key("", "ConfigMap", namespace, name)
    raw = objects.raw(key)
    kept_entries = {key: str(time) for key, time in part(raw, "data").items() if _stays(key, origin, nodes)}
    data_after = dict(sorted({**kept_entries, **data}.items()))
    if raw is None:
        return [Create(manifest("v1", "ConfigMap", name, namespace, data=data_after))]
    if data_after == raw.get("data"):
        return []
    return [Update(key, {**raw, "data": data_after})]


def _stays(key: str, origin: str, nodes: Collection[str]) -> bool:
    form = _ORIGIN.fullmatch(key)
    return form is None or (form[1] != origin and form[1] in nodes and form[2] in nodes)
