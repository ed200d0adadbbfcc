"""Fabrics and gangs of sets, short enough for a test to show them whole.

racks, why = stand(fabric({"s0": "r0 r1"}), part("a", 2, "serve", apart("serve"), within="rack"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.support.drawn_gang import Gang
from tests.support.koordinator import hypernode, run

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile

__all__ = ["CONSTRAINTS", "SET", "apart", "fabric", "named_tier", "node", "part", "racks_of", "stand", "together"]

CONSTRAINTS = "tierwise.io/topology-constraints"
SET = "tierwise.io/set"


def node(name: str, cpu: int = 1) -> Raw:
    """A node with so many cpus."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
    }


def fabric(spines: Mapping[str, str], size: int = 2) -> list[Raw]:
    """Spines of racks of so many nodes of one cpu each, or of the number behind a colon: `{"s0": "r0 r1:3"}`.

    Node 1 of rack r0 is r0n1.
    """
    found: list[Raw] = []
    for spine, racks in spines.items():
        parts = [entry.partition(":")[::2] for entry in racks.split()]
        for rack, number in parts:
            nodes = [f"{rack}n{i}" for i in range(int(number or size))]
            found += map(node, nodes)
            found.append(named_tier(hypernode(rack, 1, [("Node", one) for one in nodes]), "rack"))
        found.append(named_tier(hypernode(spine, 2, [("HyperNode", rack) for rack, _ in parts]), "spine"))
    return found


def named_tier(raw: Raw, tier: str) -> Raw:
    """A hyperNode whose tier has a name."""
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return {**raw, "spec": {**spec, "tierName": tier}}


def part(name: str, tasks: int, of: str, *rules: Raw, start: int = 0, **rest: object) -> list[Raw]:
    """A gang of a set with its rules."""
    marks = {SET: of, **({CONSTRAINTS: json.dumps(list(rules))} if rules else {})}
    marks |= {"tierwise.io/set-start": str(start)} if start else {}
    return Gang(name, tasks=tasks, marks=marks, **rest).manifests()  # type: ignore[arg-type]


def apart(of: str, most: int | str = 1, tier: str | int = "rack", **more: object) -> Raw:
    """A rule: so many parts of a set in one domain."""
    return {"tier": tier, "set": of, "apart": most, **more}


def together(of: str, tier: str | int = "rack", **more: object) -> Raw:
    """A rule: all parts of a set in one domain."""
    return {"tier": tier, "set": of, **more}


def racks_of(bound: Mapping[str, str]) -> dict[str, str]:
    """The racks of each gang's pods, in order: "r0 r1"."""
    found: dict[str, set[str]] = {}
    for pod, where in bound.items():
        found.setdefault(pod.rpartition("-")[0], set()).add(where.rpartition("n")[0])
    return {gang: " ".join(sorted(racks)) for gang, racks in sorted(found.items())}


def stand(*objects: list[Raw], profile: Profile = DEFAULT) -> tuple[dict[str, str], dict[str, str]]:
    """The racks of every gang that was placed, and why each of the others waits."""
    bound, why = run(*objects, profile=profile)
    reasons: dict[str, str] = {}
    for pod, text in why.items():
        reasons.setdefault(pod.rpartition("-")[0], text)
    return racks_of(bound), reasons
