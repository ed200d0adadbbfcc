"""Clusters of Kubernetes' own pod groups, drawn at random for the comparison with its workload-aware scheduling.

The same `World` as that of Volcano's gangs, with nodes below racks and spines, and no queues. A pod of no group is a
gang of one whose kind is `single`. Features are switched on and off by name (`CHANCES`).
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from typing import cast

from drawn import Dice
from drawn_gangs import (
    PRIORITIES,
    Gang,
    Pod,
    World,
    as_object,
    as_time,
    ask_of,
    budgets,
    cluster,
    complete,
    draw_nodes,
    fill,
    put,
    rules_of,
)
from drawn_rules import Raw

CHANCES = {
    "crowded": 0.75,
    "starving": 0.7,
    "topology": 0.4,
    "surplus": 0.5,
    "singles": 0.7,
    "basic": 0.4,
    "roles": 0.3,
    "half-running": 0.4,
    "whole": 0.4,
    "incomplete": 0.3,
    "taints": 0.35,
    "affinity": 0.3,
    "spread": 0.25,
    "budgets": 0.3,
    "never": 0.2,
    "leaving": 0.2,
    "workloads": 0.5,
    "packing": 0.3,
}
API = "scheduling.k8s.io/v1alpha2"
KEYS = {1: "example.com/rack", 2: "example.com/spine"}
PROTECTED = 100_000
"""The priority of those whom nobody may evict."""


@dataclass
class Group(Gang):
    """A PodGroup: a gang, a `basic` one, one that is `missing`, or a `single` pod of none."""

    kind: str = "gang"
    whole: bool = False  # whoever evicts one of its pods evicts all
    never: bool = False  # its pods evict nobody
    workload: bool = False


def group_of(world: World, key: str) -> Group:
    """A group by its key."""
    return cast(Group, world.gangs[key])


def draw(seed: int, without: tuple[str, ...] = ()) -> World:
    """One cluster of up to sixteen nodes, with running and waiting groups and single pods."""
    dice = Dice(seed, CHANCES, without)
    base = dice.of("base")
    world = World(seed, "podpreempt", "", dice.on, budgets_bind=False)
    draw_nodes(world, base)
    fill(world, dice, base, _draw_group, waiting="wait", most=5, leave=0.15)
    return world


def _draw_group(world: World, dice: Dice, name: str, *, running: bool) -> None:
    base = dice.of(name)
    own = {feature: dice.of(f"{feature} {name}") for feature in CHANCES}

    def drawn(feature: str, chance: float) -> bool:
        return feature in dice.on and own[feature].random() < chance

    key = f"ns/{name}"
    group = Group(name, "", base.choice(sorted(PRIORITIES)), 0, len(world.gangs))
    if drawn("starving", 0.8):
        group.priority = own["starving"].choice(("low", "middle") if running else ("high", "high", "middle"))
    if drawn("singles", 0.4):
        group.kind = "single"
    elif drawn("basic", 0.3):
        group.kind = "basic"
    elif not running and drawn("incomplete", 0.15):
        group.kind = "missing"
    size = 1 if group.kind == "single" else base.choice((1, 2, 2, 3, 4, 5))
    asks = [ask_of(base)] * size
    if drawn("roles", 0.6):
        asks = [ask_of(own["roles"]), *asks[1:]]
    group.minimum = size if group.kind == "gang" else 1
    if group.kind == "gang" and drawn("surplus", 0.5):
        group.minimum = own["surplus"].randint(1, size)
    elif group.kind == "gang" and not running and drawn("incomplete", 0.2):
        group.minimum = size + 1
    group.whole, group.workload = drawn("whole", 0.5), drawn("workloads", 0.5)
    group.never = not running and drawn("never", 0.4)
    if group.kind in ("gang", "basic") and not running and drawn("topology", 0.5):
        group.limit = ("hard", own["topology"].choice((1, 2) if len(world.domains) > 1 else (1,)))
    pods = _pods(key, name, asks, rules_of(name, base, own, dice.on, spread=0.5))
    if running and not _let_run(world, group, pods, own, half=drawn("half-running", 0.4)):
        return
    world.gangs[key] = group
    world.pods.update(pods)


def _pods(key: str, name: str, asks: list[dict[str, int]], rules: Pod) -> dict[str, Pod]:
    found = {}
    for number, ask in enumerate(asks):
        pod = copy.deepcopy(rules)
        pod.ask = dict(ask)
        found[key if len(asks) == 1 else f"ns/{name}-{number}"] = pod
    return found


def _let_run(world: World, group: Group, pods: dict[str, Pod], own: dict[str, random.Random], *, half: bool) -> bool:
    """Let the pods of a group run where there is room, all that find some; or, of half a group, all but one."""
    for key in [key for key, pod in pods.items() if not put(world, own["crowded"], key, pod)]:
        del pods[key]
    for key in pods:
        del world.pods[key]
    if not pods:
        return False
    group.minimum = min(group.minimum, len(pods))
    if half and len(pods) > 1:
        pods[own["half-running"].choice(sorted(pods))].node = ""
    return True


def config(world: World) -> str:
    """The configuration of both schedulers."""
    profile: Raw = {"schedulerName": "default-scheduler"}
    if "packing" in world.features:
        strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
        profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    version = "kubescheduler.config.k8s.io/v1"
    return json.dumps({"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]})


def manifests(world: World) -> list[Raw]:
    """The world as objects; those who wait are the last ones, in the order in which they came."""
    objects = cluster(world)
    for node in objects[1:]:
        for domain, (tier, _) in world.domains.items():
            if node["metadata"]["name"] in world.inside(domain):
                node["metadata"]["labels"] = {**node["metadata"]["labels"], KEYS[tier]: domain}
    objects += budgets(world)
    moments = {key: number for number, key in enumerate(world.pods)}
    for key in world.gangs:
        if group_of(world, key).kind in ("gang", "basic"):
            objects += _group(world, key, min(moments[pod] for pod in world.members(key)))
    for key in sorted(world.pods, key=lambda key: (not world.pods[key].node, moments[key])):
        objects.append(_pod(world, key, moments[key]))
    return objects


def _priority(world: World, key: str) -> int:
    guarded = any(world.pods[pod].protected for pod in world.members(key))
    return PROTECTED if guarded else PRIORITIES[world.gangs[key].priority]


def _group(world: World, key: str, moment: int) -> list[Raw]:
    group = group_of(world, key)
    policy: Raw = {"gang": {"minCount": group.minimum}} if group.kind == "gang" else {"basic": {}}
    spec: Raw = {"schedulingPolicy": policy, "priority": _priority(world, key)}
    if group.whole:
        spec["disruptionMode"] = "PodGroup"
    if group.limit is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": KEYS[group.limit[1]]}]}
    found = []
    if group.workload:
        template = {"name": "workers", **{name: part for name, part in spec.items() if name != "priority"}}
        found.append(
            as_object(API, "Workload", f"of-{group.name}", namespace="ns", spec={"podGroupTemplates": [template]})
        )
        named = {"workloadName": f"of-{group.name}", "podGroupTemplateName": "workers"}
        spec["podGroupTemplateRef"] = {"workload": named}
    made = as_object(API, "PodGroup", group.name, namespace="ns", spec=spec)
    made["metadata"]["creationTimestamp"] = as_time(moment)
    return [*found, made]


def _pod(world: World, key: str, moment: int) -> Raw:
    pod = world.pods[key]
    group = group_of(world, pod.gang)
    labels = {"gang": group.name, "app": pod.app}
    made = as_object("v1", "Pod", key.partition("/")[2], namespace="ns", labels=labels)
    spec: Raw = {"schedulerName": "default-scheduler", "priority": _priority(world, pod.gang)}
    if group.kind != "single":
        spec["schedulingGroup"] = {"podGroupName": group.name}
    if group.never:
        spec["preemptionPolicy"] = "Never"
    return complete(made, pod, spec, moment)
