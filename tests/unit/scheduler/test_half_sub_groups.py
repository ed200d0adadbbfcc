"""Which sub-groups are released of which a part alone stands, in languages whose groups hold groups."""

from __future__ import annotations

from typing import Any

from tests.support.languages import composite, kubernetes_gang, nodes

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.controllers.stamp import stamp
from tierwise.port import Evict, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.partial_gangs import PATIENCE, release
from tierwise.snapshot.builder import build

NOW = 1_800_000_000.0
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


def _machine(cpu: int) -> Raw:
    (found,) = nodes({"s": {"r": "n0"}}, cpu=cpu)
    return found


def _told(raw: Any) -> Raw:
    """A pod as an API server shows it: when it was made, by whom, and when it was bound."""
    if raw["kind"] != "Pod":
        return dict(raw)
    meta = {**raw["metadata"], "ownerReferences": [OWNER], "creationTimestamp": stamp(NOW - 900)}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(NOW - PATIENCE)}
    status = {**raw["status"], "conditions": [scheduled]} if raw["spec"].get("nodeName") else raw["status"]
    return {**raw, "metadata": meta, "status": status}


def _released(*raws: Raw) -> list[str]:
    told = [_told(raw) for raw in raws]
    objects = Objects.of([(codec.decode(raw), raw) for raw in told])
    snapshot = build(objects, NOW)
    effects = release(objects, snapshot, cycle(snapshot, DEFAULT), lambda job: job)
    return sorted(effect.pod.name for effect in effects if isinstance(effect, Evict))


def _pair(name: str, first: str, second: str) -> list[Raw]:
    """A group of two groups of one pod each, both of which it needs."""
    parts = [
        kubernetes_gang(f"{name}{i}", 1, on={0: on} if on else {}, parentCompositePodGroupName=name)
        for i, on in enumerate((first, second))
    ]
    return [composite(name, 2, parent="top"), *parts[0], *parts[1]]


def test_a_group_of_groups_is_released_as_one() -> None:
    """One of two pairs is all that the gang needs; of the other pair one group stands, whole, and goes."""
    world = [_machine(3), composite("top", 1), *_pair("a", "n0", "n0"), *_pair("b", "n0", "")]

    assert ["b0-0"] == _released(*world)


def test_what_is_whole_stays() -> None:
    """A pair of which nothing stands is no half, and neither is one whose rest has room."""
    assert [] == _released(_machine(2), composite("top", 1), *_pair("a", "n0", "n0"), *_pair("b", "", ""))
    assert [] == _released(_machine(4), composite("top", 1), *_pair("a", "n0", "n0"), *_pair("b", "n0", ""))
