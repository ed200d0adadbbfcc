"""By label, annotation or field of a tenant: the scene in which it decides, and the value that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tierwise.api.keys import spelled

__all__ = ["PAIRS", "Pair"]


class Pair(NamedTuple):
    """A scene and a value that changes what comes of it."""

    scene: str
    value: str


PAIRS: Final[Mapping[str, Pair]] = {
    spelled(key): pair
    for key, pair in {
        "/spares": Pair("neighbour", "1"),
        "/borrows-spares": Pair("borrower", "true"),
        "/on-node-loss": Pair("lost node", "restart-all"),
        "/expected-duration": Pair("before a reservation", "10m"),
        "/hold": Pair("alone", "until Monday"),
        "/minimum-run-time": Pair("evicted", "30m"),
        "/restart-cost": Pair("evicted first", "5h"),
        "/eviction-notice": Pair("evicted", "2m"),
        "/checkpointed-at": Pair("evicted last", "2025-12-31T23:59:50Z"),
        "/topology-ladder": Pair("torn", "1=2h,any"),
        "/fabric": Pair("two fabrics", "nvlink"),
        "/topology-constraints": Pair("torn", '[{"tier": 1}]'),
        "/pattern": Pair("alone", "ring"),
        "volcano.sh/preemptable": Pair("evicted", "false"),
    }.items()
}
