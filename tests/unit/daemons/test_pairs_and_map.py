"""Who measures whom, and how measurements are written down beside those of others."""

from __future__ import annotations

from tests.support.services import Raw, node, objects

from tierwise.api.core import Node
from tierwise.api.manifest import manifest
from tierwise.daemons.latency_map import entries, publish
from tierwise.daemons.pairs import address_of, pairs
from tierwise.port import Create, Update


def _pairs(*nodes: Raw) -> set[str]:
    return {f"{a}>{b}" for a, b in pairs(objects(*nodes).every(Node))}


def test_one_pair_for_each_two_zones_and_regions() -> None:
    """However many nodes they have; between regions one pair, not one for each two zones."""
    nodes = [node(f"n{i}", spot) for i, spot in enumerate(["ra/z1", "ra/z1", "ra/z2", "rb/z3", "rb/z4", ""])]

    assert {"n0>n2", "n2>n0", "n3>n4", "n4>n3", "n0>n3", "n3>n0"} == _pairs(*nodes)


def test_a_node_that_is_not_ready_does_not_speak_for_its_zone() -> None:
    """The next one does."""
    down = node("n0", "r/z1")
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    assert {"n1>n2", "n2>n1"} == _pairs(down, node("n1", "r/z1"), node("n2", "r/z2"))


def test_addresses() -> None:
    """The internal one first, the name where there is none."""
    made = node("n1")
    made["status"]["addresses"] = [
        {"type": t, "address": a} for t, a in (("Hostname", "h"), ("InternalIP", "10.0.0.1"))
    ]
    found = objects(made, node("n2")).every(Node)

    assert ("10.0.0.1", "n2") == (address_of(found["n1"]), address_of(found["n2"]))


def test_percentiles_are_measured_values_in_milliseconds() -> None:
    """The smallest that so many round trips do not exceed."""
    found = entries("a", "b", [i / 1000 for i in range(1, 101)])

    assert ["50.000", "90.000", "99.000"] == list(found.values())
    assert {} == entries("a", "b", [])


def test_publishing_replaces_ones_own_and_keeps_the_others() -> None:
    """Entries about nodes that are gone are dropped, strangers' entries stay."""
    first = entries("a", "b", [0.001])
    (made,) = publish(objects(), "default", "m", origin="a", data=first, nodes=["a", "b"])
    assert Create(manifest("v1", "ConfigMap", "m", "default", data=first)) == made

    theirs, gone = entries("b", "a", [0.002]), entries("b", "x", [0.003])
    data = {**first, **theirs, **gone, "note": "hand-made"}
    held = objects(manifest("v1", "ConfigMap", "m", "default", data=data))
    again = entries("a", "b", [0.005])
    (changed,) = publish(held, "default", "m", origin="a", data=again, nodes=["a", "b"])
    assert isinstance(changed, Update)
    assert {**again, **theirs, "note": "hand-made"} == changed.raw["data"]
    held = objects(changed.raw)
    assert [] == publish(held, "default", "m", origin="a", data=again, nodes=["a", "b"])
