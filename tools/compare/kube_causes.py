"""Known causes of differences between Kubernetes' scheduler and tierwise: the case without each of them.

Their reasons stand in `kube_scheduler_differences.toml`. A case is the objects of a cluster, of which the last is the
pod to be placed, and a configuration.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass

from drawn_rules import PREFERRED, REQUIRED, Raw
from excuses import Cause

Fits = Callable[[list[Raw], str], list[str]]
IMPORTANT = 100_000
"""A priority beyond that of every pod that is drawn."""


@dataclass(frozen=True)
class Question:
    """A cluster with the pod to be placed as its last object, a configuration, and what is asked about it."""

    objects: list[Raw]
    config: str
    bind: bool = False
    preempt: bool = False

    def changed(self, change: Callable[[list[Raw]], bool]) -> Question | None:
        """The question about other objects, or nothing where the change finds nothing to do."""
        objects = copy.deepcopy(self.objects)
        return Question(objects, self.config, self.bind, self.preempt) if change(objects) else None


def _negated(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Terms that select namespaces which lack a label select those that have it."""
    del theirs, ours

    def change(objects: list[Raw]) -> bool:
        found = False
        for term in _terms(objects[-1]):
            for one in term.get("namespaceSelector", {}).get("matchExpressions", ()):
                found |= one["operator"] == "DoesNotExist"
                one["operator"] = "Exists"
        return found

    return case.changed(change)


def _terms(pod: Raw) -> list[Raw]:
    sides = [pod["spec"].get("affinity", {}).get(side, {}) for side in ("podAffinity", "podAntiAffinity")]
    terms = [wish["podAffinityTerm"] for side in sides for wish in side.get(PREFERRED, ())]
    return terms + [term for side in sides for term in side.get(REQUIRED, ())]


def _twice(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Each claim of the pod is named once."""
    del theirs, ours

    def change(objects: list[Raw]) -> bool:
        spec, seen, kept = objects[-1]["spec"], set(), []
        for volume in spec.get("volumes", ()):
            name = volume.get("persistentVolumeClaim", {}).get("claimName")
            if name is None or name not in seen:
                kept.append(volume)
            seen.add(name)
        found = len(kept) < len(spec.get("volumes", ()))
        spec["volumes"] = kept
        return found

    return case.changed(change)


def _other_pools(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Pools of other nodes that keep a node from giving all of its devices are not there."""
    del ours
    pools = set()
    for node, refusal in (theirs.get("refused") or {}).items():
        _, mark, rest = refusal.partition("asks for all devices, but resource pool ")
        pool = rest.partition("/")[2].split(" ")[0].rstrip(",.:")
        if mark and not pool.startswith(node):
            pools.add(pool)

    def hinders(one: Raw) -> bool:
        return one["kind"] == "ResourceSlice" and one["spec"]["pool"]["name"] in pools

    return case.changed(lambda objects: _drop(objects, hinders))


def _fully_reserved(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Claims are reserved for fewer pods than they can be."""
    del theirs, ours

    def change(objects: list[Raw]) -> bool:
        found = False
        for claim in (o for o in objects if o["kind"] == "ResourceClaim"):
            holders = claim.get("status", {}).get("reservedFor", [])
            found |= len(holders) >= 256
            del holders[255:]
        return found

    return case.changed(change)


def _empty_claim(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """The pod asks for no extended resources of devices."""
    del ours
    if "reserved for 1" not in (theirs.get("writes") or {}).values():
        return None

    def change(objects: list[Raw]) -> bool:
        found = False
        spec = objects[-1]["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for amounts in container.get("resources", {}).values():
                for name in [name for name in amounts if "/" in name]:
                    del amounts[name]
                    found = True
        return found

    return case.changed(change)


def _nominees_in_scores(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Where the same nodes take the pod and scores alone differ, nobody is nominated."""
    fit = {name for name, node in ours["nodes"].items() if node["now"]}
    if fit != set(theirs.get("feasible") or ()):
        return None

    return case.changed(lambda objects: _drop(objects, lambda o: bool(o.get("status", {}).get("nominatedNodeName"))))


def _normalised_over_later_nodes(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Where the same nodes take the pod now and scores alone differ, nobody leaves a node that takes it later."""
    fit = {name for name, node in ours["nodes"].items() if node["now"]}
    later = {name for name, node in ours["nodes"].items() if node["feasible"]} - fit
    if fit != set(theirs.get("feasible") or ()):
        return None
    return case.changed(lambda objects: _drop(objects, lambda one: _leaves(one, later)))


def _nominees_elsewhere(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Nobody is nominated elsewhere, where all nodes in question are refused here for rules between pods."""
    fit = {name for name, node in ours["nodes"].items() if node["now"]}
    wrong = fit ^ set(theirs.get("feasible") or ())
    refused = [ours["nodes"].get(name, {"reasons": ()})["reasons"] for name in wrong - fit]
    if not wrong or not all(set(reasons) & _BETWEEN_PODS for reasons in refused):
        return None

    def elsewhere(one: Raw) -> bool:
        node = one.get("status", {}).get("nominatedNodeName")
        return node is not None and node not in wrong

    return case.changed(lambda objects: _drop(objects, elsewhere))


_BETWEEN_PODS = {
    "did not satisfy the pod affinity",
    "had pods nearby which the pod anti-affinity excludes",
    "had pods nearby whose anti-affinity excludes this one",
    "would exceed the allowed skew of the topology spread",
}


def _stale_nominations(fits: Fits) -> Callable[[Question, Raw, Raw], Question | None]:
    """Nobody is nominated to a node that real code would not give him even once all have left who leave."""

    def without(case: Question, theirs: Raw, ours: Raw) -> Question | None:
        del theirs, ours
        waiting = [o for o in case.objects if o.get("status", {}).get("nominatedNodeName")]
        there = [o for o in case.objects[:-1] if o not in waiting and "deletionTimestamp" not in o["metadata"]]
        stale = [o for o in waiting if o["status"]["nominatedNodeName"] not in fits([*there, o], case.config)]
        return case.changed(lambda objects: _drop(objects, lambda one: one in stale)) if stale else None

    return without


def _drop(objects: list[Raw], goes: Callable[[Raw], bool]) -> bool:
    kept = [one for one in objects if not goes(one)]
    found = len(kept) < len(objects)
    objects[:] = kept
    return found


def _victims_elsewhere(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Victims on other nodes than the one that the pod gets are too important to be any."""
    del theirs

    def change(objects: list[Raw]) -> bool:
        found = False
        for pod in (o for o in objects if o["kind"] == "Pod"):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if key in ours.get("victims", ()) and pod["spec"]["nodeName"] != ours["chosen"]:
                pod["spec"]["priority"] = IMPORTANT
                found = True
        return found

    return case.changed(change)


def _needed_neighbours(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """On the node that a pod with required affinity gets, those who stay are too important to be taken away."""
    del theirs
    if not case.objects[-1]["spec"].get("affinity", {}).get("podAffinity", {}).get(REQUIRED):
        return None

    def change(objects: list[Raw]) -> bool:
        found = False
        for pod in (o for o in objects[:-1] if o["kind"] == "Pod"):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            stays = key not in ours.get("victims", ()) and pod["spec"].get("nodeName") == ours.get("chosen")
            if stays and pod["spec"].get("priority", 0) < IMPORTANT:
                pod["spec"]["priority"] = IMPORTANT
                found = True
        return found

    return case.changed(change)


def _empty_spread(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Where somebody is nominated, no spread of the pod selects with an empty selector."""
    del theirs, ours

    def change(objects: list[Raw]) -> bool:
        rules = objects[-1]["spec"].get("topologySpreadConstraints", [])
        kept = [rule for rule in rules if rule["labelSelector"]]
        found = len(kept) < len(rules) and any(o.get("status", {}).get("nominatedNodeName") for o in objects)
        rules[:] = kept
        return found

    return case.changed(change)


def _released_first(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Nodes that nominated pods wait for lose nothing but the slots that these wait for."""
    del theirs, ours

    def change(objects: list[Raw]) -> bool:
        waited = {o.get("status", {}).get("nominatedNodeName") for o in objects} - {None}
        return _drop(objects, lambda one: _leaves(one, waited))

    return case.changed(change)


def _lesser_nominees(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Where victims are looked for, no less important pod is nominated, and nobody leaves its node."""
    del theirs, ours
    own = case.objects[-1]["spec"].get("priority", 0)
    waiting = [o for o in case.objects if o.get("status", {}).get("nominatedNodeName")]
    lesser = [o for o in waiting if o["spec"].get("priority", 0) < own]
    nodes = {o["status"]["nominatedNodeName"] for o in lesser}

    def goes(one: Raw) -> bool:
        leaves = one["kind"] == "Pod" and "deletionTimestamp" in one["metadata"]
        return one in lesser or (leaves and one["spec"].get("nodeName") in nodes)

    return case.changed(lambda objects: _drop(objects, goes)) if case.preempt else None


def _leaving_is_room(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Where victims are looked for, nobody leaves but for those whose slots nominated pods wait for."""
    del theirs, ours
    nodes = {o["metadata"]["name"] for o in case.objects if o["kind"] == "Node"}
    return case.changed(lambda objects: _drop(objects, lambda one: _leaves(one, nodes))) if case.preempt else None


def _devices_of_victims(case: Question, theirs: Raw, ours: Raw) -> Question | None:
    """Victims that hold devices are too important to be any."""
    del theirs

    def change(objects: list[Raw]) -> bool:
        found = False
        for pod in (o for o in objects[:-1] if o["kind"] == "Pod" and o["spec"].get("resourceClaims")):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if key in ours.get("victims", ()) and pod["spec"].get("priority", 0) < IMPORTANT:
                pod["spec"]["priority"] = IMPORTANT
                found = True
        return found

    return case.changed(change)


def _leaves(one: Raw, nodes: set[str]) -> bool:
    meta = one["metadata"]
    going = one["kind"] == "Pod" and "deletionTimestamp" in meta and not meta["name"].startswith("victim")
    return going and one["spec"].get("nodeName") in nodes


def causes(fits: Fits) -> list[Cause[Question, Raw]]:
    """All known causes; `fits` says which nodes real code gives the last of some objects."""
    return [
        Cause("a nomination that cannot be met is released", _stale_nominations(fits)),
        Cause("scores count what is kept for nominated pods", _nominees_in_scores),
        Cause("scores are weighed with nodes that take the pod later", _normalised_over_later_nodes),
        Cause("rules between pods see nominated pods of other nodes", _nominees_elsewhere),
        Cause("victims on other nodes", _victims_elsewhere),
        Cause("a less important pod that the pod must be near", _needed_neighbours),
        Cause("room of pods on their way out comes before victims", _leaving_is_room),
        Cause("a less important nominated pod is a neighbour", _lesser_nominees),
        Cause("victims give their devices back", _devices_of_victims),
        Cause("a nominated pod takes what is being released first", _released_first),
        Cause("an empty selector of topology spread, and nominated pods", _empty_spread),
        Cause("negated namespace selector", _negated),
        Cause("a claim that a pod names twice", _twice),
        Cause("all devices of a node, and a pool with counters of another", _other_pools),
        Cause("a claim that is reserved for as many pods as it can be", _fully_reserved),
        Cause("an empty claim for extended resources", _empty_claim),
    ]


def as_file(case: Question) -> str:
    """The case as manifests."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": case.objects}, indent=1)
