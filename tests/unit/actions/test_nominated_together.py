"""The pods of a nominated gang are judged together, each beside those that go to their nodes before it."""

from __future__ import annotations

import pytest
from tests.support.affinity import HOST, ZONE, near, zoned
from tests.support.draw import draw, gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.port import Bind, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build

_OWN: Raw = {"matchLabels": {"app": "g"}}


def _spread(key: str, skew: int = 1, **more: int) -> Raw:
    rule = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _OWN, **more}
    return {"topologySpreadConstraints": [rule]}


def _apart(key: str) -> Raw:
    term: Raw = {"labelSelector": _OWN, "topologyKey": key}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


_PORT: Raw = {"containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]}


def _bound(rule: Raw, *nominated: str) -> list[str]:
    """Where the pods of a gang are bound, of which each is nominated for a node: n0 and n1 are in one zone, n2 in
    another.
    """
    world = zoned(draw("n0 n1 n2", node="cpu=4"), {"n0": "a", "n1": "a", "n2": "b"})
    number = len(nominated)
    labels = {f"g-{i}": {"app": "g"} for i in range(number)}
    group, *pods = gang("g", tasks=number, spec=rule, labels=labels).manifests()
    waiting: list[Raw] = [
        pod | {"status": {"phase": "Pending", "nominatedNodeName": node}}
        for pod, node in zip(pods, nominated, strict=True)
    ]
    manifests = [*world.manifests, group, *waiting]
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in manifests), now=0.0)
    found = {e.pod.name: e.node for e in effects(snapshot, cycle(snapshot, DEFAULT)) if isinstance(e, Bind)}
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize(
    ("rule", "nominated"),
    [
        (_spread(ZONE, skew=2), ("n0", "n0", "n0")),
        (_spread(ZONE), ("n0", "n1")),
        (_spread(ZONE), ("n0", "n1", "n1", "n2")),
        (_spread(ZONE, minDomains=3), ("n0", "n2", "n1")),
        (_spread(HOST), ("n0", "n0", "n1")),
        (_apart(HOST), ("n0", "n1", "n1")),
        (_apart(ZONE), ("n0", "n1")),
        (_PORT, ("n0", "n0")),
        (near(ZONE, app="g"), ("n0", "n2")),
    ],
)
def test_nodes_that_take_each_pod_but_not_all_are_left(rule: Raw, nominated: tuple[str, ...]) -> None:
    """Every node takes one more pod as things are, and the pods together would break the rule."""
    assert list(nominated) != _bound(rule, *nominated)


@pytest.mark.parametrize(
    ("rule", "nominated"),
    [
        (_spread(ZONE, skew=2), ("n0", "n1")),
        (_spread(ZONE), ("n0", "n1", "n2", "n2")),
        (_spread(ZONE), ("n0", "n0", "n0", "n2", "n2")),
        (_spread(HOST), ("n0", "n0", "n1", "n2")),
        (_apart(HOST), ("n2", "n1", "n0")),
        (_apart(ZONE), ("n2", "n1")),
        (_PORT, ("n2", "n0")),
        (near(ZONE, app="g"), ("n1", "n0")),
    ],
)
def test_nodes_that_take_all_pods_in_some_order_are_kept(rule: Raw, nominated: tuple[str, ...]) -> None:
    """The order in which pods are counted is not the order of their names."""
    assert list(nominated) == _bound(rule, *nominated)
