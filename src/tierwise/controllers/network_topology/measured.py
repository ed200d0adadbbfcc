"""Costs from measurements: per ordered pair of zones and of regions, the median of the measured pairs of nodes.

Measurements are entries of a ConfigMap, one for each ordered pair of nodes. Two spellings are about, one in
milliseconds and one in microseconds; both are read. The 90th percentile counts. What was not measured is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Final

from tierwise.api.core import Node
from tierwise.dialects.services import spot_of
from tierwise.model.services import Link, link_between

__all__ = ["KEY", "measured"]

KEY: Final = "netperf.p{percentile}.latency.milliseconds.origin.{origin}.destination.{destination}"
"""How a measurement is named."""

_KEY: Final = re.compile(
    r"netperf[._]p90[._]latency[._](milliseconds|microseconds)\.origin\.(.+)\.destination\.(.+)", re.ASCII
)
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_PER_MILLISECOND: Final = {"milliseconds": 1, "microseconds": 1000}


def measured(data: Mapping[str, str], nodes: Mapping[str, Node]) -> dict[Link, int]:
    """Milliseconds, rounded up, by link."""
    samples: dict[Link, list[Fraction]] = {}
    for origin, destination, time in _samples(data):
        if origin in nodes and destination in nodes:
            link = link_between(spot_of(nodes[origin]), spot_of(nodes[destination]))
            if link is not None and link.origin and link.destination:
                samples.setdefault(link, []).append(time)
    return {link: ceil(_median(times)) for link, times in samples.items()}


def _samples(data: Mapping[str, str]) -> Iterator[tuple[str, str, Fraction]]:
    for key, value in data.items():
        form = _KEY.fullmatch(key)
        if form is not None and _NUMBER.fullmatch(value.strip()):
            unit, origin, destination = form.groups()
            yield origin, destination, Fraction(value.strip()) / _PER_MILLISECOND[unit]


def _median(times: list[Fraction]) -> Fraction:
    times.sort()
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
