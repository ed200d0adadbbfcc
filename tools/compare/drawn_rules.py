"""Rules of Kubernetes about where a pod may be, drawn at random: taints, node affinity, affinity of pods, spread.

Both comparisons draw their rules here, over the same few labels, so that rules meet: `disk` and `size` of nodes, zones
and hosts, `app` and `rev` of pods, `env` of namespaces.
"""

from __future__ import annotations

import random
from typing import Any

Raw = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def taint(dice: random.Random) -> Raw:
    """A taint of one of two keys, mostly one that only discourages."""
    effect = dice.choice(("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"))
    return {"key": dice.choice(("a", "b")), "value": dice.choice(("", "x")), "effect": effect}


def toleration(dice: random.Random) -> Raw:
    """A toleration of one of these taints, or of all."""
    found: Raw = {"operator": dice.choice(("Exists", "Equal"))}
    found["key"] = dice.choice(("a", "b", "node.kubernetes.io/unschedulable"))
    if found["operator"] == "Equal":
        found["value"] = dice.choice(("", "x"))
    elif dice.random() < 0.2:
        del found["key"]
    if dice.random() < 0.5:
        found["effect"] = dice.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
    return found


def node_term(dice: random.Random) -> Raw:
    """A term about nodes, with each operator."""
    if dice.random() < 0.1:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{dice.randint(0, 7)}"]}]}
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    key, values = ("size", [str(dice.randint(1, 9))]) if operator in ("Gt", "Lt") else ("disk", ["ssd"])
    found: Raw = {"key": key, "operator": operator}
    if operator not in ("Exists", "DoesNotExist"):
        found["values"] = values
    return {"matchExpressions": [found]}


def selector(dice: random.Random) -> Raw:
    """A selector of pods."""
    return dice.choice(
        (
            {},
            {"matchLabels": {"app": "x"}},
            {"matchLabels": {"app": "y"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
        )
    )


def pod_term(dice: random.Random) -> Raw:
    """A term about pods nearby, of one namespace or several."""
    term: Raw = {"topologyKey": dice.choice((ZONE, HOST, "disk")), "labelSelector": selector(dice)}
    if dice.random() < 0.3:
        term["namespaces"] = ["team-a"]
    if dice.random() < 0.3:
        operator = dice.choice(("Exists", "DoesNotExist"))
        expressions = {"matchExpressions": [{"key": "env", "operator": operator}]}
        term["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"env": "prod"}}, expressions))
    return term


def spread(dice: random.Random, key: str, when: str) -> Raw:
    """A constraint of topology spread."""
    found: Raw = {"maxSkew": dice.randint(1, 2), "topologyKey": key, "whenUnsatisfiable": when}
    found["labelSelector"] = selector(dice)
    if dice.random() < 0.2:
        found["nodeTaintsPolicy"] = "Honor"
    if dice.random() < 0.2:
        found["nodeAffinityPolicy"] = "Ignore"
    return found
