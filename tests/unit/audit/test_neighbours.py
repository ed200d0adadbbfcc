"""Pods that stand beside one that they exclude, or that excludes them, until it is gone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.volumes import node, objects, pod

from tierwise.api.codec import Raw
from tierwise.audit import audit

ZONE = "topology.kubernetes.io/zone"
GOING: Any = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def _pod(name: str, on: str, *, away: str = "", port: int = 0, key: str = ZONE, **meta: Any) -> Raw:
    """A pod of an app of its own name, away from another app within a label."""
    raw: Any = pod(name, on=on, labels={"app": name}, **meta)
    if away:
        term = {"labelSelector": {"matchLabels": {"app": away}}, "topologyKey": key}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        raw["spec"]["affinity"] = {"podAntiAffinity": terms}
    if port:
        raw["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return raw  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("pods", "rules"),
    [
        ((_pod("p", "n0", away="q"), _pod("q", "n1")), ["excluded-neighbour"]),
        ((_pod("p", "n0", away="q"), _pod("q", "n1", **GOING)), ["excluded-neighbour"]),
        ((_pod("p", "n0", away="q", **GOING), _pod("q", "n1")), ["excluded-neighbour"]),
        ((_pod("p", "n0", away="q"), _pod("q", "n2")), []),
        ((_pod("p", "n0", away="q", key="kubernetes.io/hostname"), _pod("q", "n1")), []),
        ((_pod("p", "n0", away="r"), _pod("q", "n1")), []),
        ((_pod("p", "n0", away="q"), _pod("q", "")), []),
        ((_pod("p", "n0", port=80), _pod("q", "n0", port=80, **GOING)), ["port-taken"]),
        ((_pod("p", "n0", port=80), _pod("q", "n1", port=80)), []),
        ((_pod("p", "n0", port=80), _pod("q", "n0", port=81)), []),
    ],
)
def test_pods_that_exclude_each_other_are_found_until_one_is_gone(pods: tuple[Raw, ...], rules: list[str]) -> None:
    """Anti-affinity of either pod counts, and so do ports, also where one of the two is terminating."""
    nodes = node("n0", "z0"), node("n1", "z0"), node("n2", "z1")

    assert rules == [finding.rule for finding in audit(objects(*nodes, *pods))]
