"""Small clusters in which one label, annotation or field decides: who is evicted, who waits, and where pods go.

The subject of each scene is called v: its gang and the pods v-0, v-1 of it, its volume, its quota. A scene is made
without the mark; `tests/support/field_pairs.py` says which mark of which object changes what comes of it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.support.koordinator import hypernode
from tests.support.languages import RACK, grove_gang, kai_gang, near, nodes, objects_of, topology, volcano_gang
from tests.support.marked_gangs import DECLARES, QUEUES, gang_in, with_mark, with_priority

from tierwise.admission import validate
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.port import Objects
from tierwise.sim.cluster import rounds
from tierwise.sim.cluster.simulation import Simulation

__all__ = [
    "FULL",
    "HOUR",
    "MINUTE",
    "NOW",
    "RESERVING",
    "SCENES",
    "WAYS",
    "Outcome",
    "Scene",
    "aged",
    "all_objects",
    "on_job",
    "on_pods",
    "other",
    "outcome",
    "own",
    "scene",
    "scene_in",
    "scene_of_one",
    "tree",
]

NOW: Final = 1_767_225_600.0  # 2026
MINUTE, HOUR = 60.0, 3600.0
FULL: Final = replace(
    DEFAULT,
    actions=("enqueue", "allocate", "gangpreempt"),
    tiers=(*DEFAULT.tiers, (PluginChoice("eviction-cost"), PluginChoice("repair", {"maxSpares": 2}))),
)
RESERVING: Final = replace(
    FULL, actions=("enqueue", "allocate"), action_arguments={"allocate": {"reservations": "easy"}}
)


class Scene(msgspec.Struct, frozen=True):
    """A cluster, and under which profile and for how many cycles it is looked at."""

    manifests: list[Raw]
    profile: Profile = FULL
    cycles: int | None = 1
    lives: float = 0.0  # for so many seconds, pods and volumes as they say themselves
    play: Callable[[Sequence[Raw]], Outcome] | None = None  # where it is no cycle that is looked at


class Outcome(msgspec.Struct, frozen=True):
    """What became of a cluster."""

    decision: Any  # pods bound, evicted and nominated, and their ranks
    objects: Mapping[str, Any]  # all of them afterwards
    told: Any  # why pods wait, and what admission says


def outcome(scene: Scene, marked: Sequence[Raw]) -> Outcome:
    """What becomes of a scene whose manifests have been marked."""
    if scene.play is not None:
        return scene.play(marked)
    given = objects_of(list(marked))
    if scene.lives:
        return _lived(scene, given)
    history = rounds.schedule(given, scene.profile, now=NOW, cycles=scene.cycles)
    evicted = sorted(eviction.task.key for eviction in history.evictions)
    waiting = list(pending_wire(history.after(NOW), history.report, history.nominations)) if history.report else []
    objects = all_objects(history.cluster.read())
    ranks = {
        name: {key: value for key, value in _annotations(raw).items() if key.startswith("tierwise.io/rank")}
        for name, raw in objects.items()
    }
    decision = (_plain(history.bindings), evicted, _plain(history.nominations), {n: r for n, r in ranks.items() if r})
    findings = validate(given)
    return Outcome(decision, objects, (waiting, findings.errors, findings.warnings))


def _plain(places: Mapping[str, str]) -> dict[str, str]:
    """The nodes of pods, whose names do not tell what the template of their Deployment says."""
    return {re.sub(r"-[0-9a-f]{10}-", "-", pod): node for pod, node in places.items()}


def _lived(scene: Scene, given: Objects) -> Outcome:
    """What becomes of it in so many seconds, as pods and volumes say themselves; nothing is decided otherwise."""
    life = Simulation(given, scene.profile, start=NOW)
    for _ in life.run(scene.lives):
        pass
    objects = all_objects(life.cluster.read())
    return Outcome({name: raw.get("status") for name, raw in objects.items()}, objects, ())


def all_objects(objects: Objects) -> dict[str, Any]:
    """The manifests of all objects, by their keys."""
    return {str(key): objects.raw(key) for key in objects}


def _annotations(raw: Any) -> Mapping[str, str]:
    return (raw or {}).get("metadata", {}).get("annotations") or {}


def aged(manifests: Iterable[Raw], seconds: float) -> list[Raw]:
    """The same objects, made so long ago; pods that run were started then."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        raw["metadata"]["creationTimestamp"] = format_time(NOW - seconds)
        if raw["kind"] == "Pod" and "nodeName" in raw["spec"]:
            raw["status"]["startTime"] = format_time(NOW - seconds)
    return found


def own(
    way: str, on: Mapping[int, str] | None = None, *, pods: int = 2, priority: int = 1, ago: float = HOUR
) -> list[Raw]:
    """The subject: a gang of v in one language."""
    found: list[Any] = aged(with_priority(gang_in(way, "v", pods, on or {}), priority), ago)
    for raw in found:
        if raw["kind"] == "Pod":
            owner = {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "v", "uid": "v", "controller": True}
            raw["metadata"]["ownerReferences"] = [owner]
    return found


def other(
    name: str, pods: int, on: Mapping[int, str] | None = None, *, priority: int = 1, ago: float = HOUR, **marks: str
) -> list[Raw]:
    """Another gang, of Volcano's, with annotations under tierwise's prefix."""
    found = aged(with_priority(volcano_gang(name, pods, on=on or {}), priority), ago)
    for key, value in marks.items():
        found = with_mark(found, "PodGroup", "annotation", f"tierwise.io/{key.replace('_', '-')}", value)
    return found


def on_job(manifests: Iterable[Raw], way: str, form: str, key: str, value: str) -> list[Raw]:
    """The same objects with a mark on the object that declares v; where there is none, on its pods."""
    if way in DECLARES:
        return with_mark(manifests, DECLARES[way], form, key, value, "v-part" if "part" in way else "v")
    return on_pods(manifests, form, key, value)


def on_pods(manifests: Iterable[Raw], form: str, key: str, value: str) -> list[Raw]:
    """The same objects with a mark on the pods of v."""
    found: list[Any] = list(manifests)
    for name in [raw["metadata"]["name"] for raw in found if raw["kind"] == "Pod"]:
        if name.startswith("v-"):
            found = with_mark(found, "Pod", form, key, value, name)
    return found


def tree(racks: Mapping[str, str], cpu: int = 2) -> list[Raw]:
    """Nodes in racks, told by labels and by hyperNodes."""
    domains = [hypernode(name, 1, [("Node", member) for member in members.split()]) for name, members in racks.items()]
    spine = hypernode("s0", 2, [("HyperNode", name) for name in racks])
    return [*nodes({"s0": racks}, cpu=cpu), *domains, spine]


SCENES: Final[dict[str, Callable[[str], Scene]]] = {}
"""By name: the scene for a gang that is declared in one way, for one kind of queue or of workload, or for "" alone."""
WAYS: Final[dict[str, tuple[str, ...]]] = {}
"""By name of a scene: the ways for which it is played where pods say something; () for all of them."""


def _listed(made: Callable[..., Scene], *ways: str) -> str:
    name = made.__name__.replace("_", " ")
    WAYS[name] = ways
    return name


def scene(made: Callable[[str], Scene]) -> Callable[[str], Scene]:
    """List a scene that is played for every way in which a gang, a queue or a workload can be written."""
    SCENES[_listed(made)] = made
    return made


def scene_in(*ways: str) -> Callable[[Callable[[str], Scene]], Callable[[str], Scene]]:
    """The same where only some ways are to be played for what pods say."""

    def listed(made: Callable[[str], Scene]) -> Callable[[str], Scene]:
        SCENES[_listed(made, *ways)] = made
        return made

    return listed


def scene_of_one(made: Callable[[], Scene]) -> Callable[[], Scene]:
    """List a scene in words of one language."""
    SCENES[_listed(made, "")] = lambda _: made()
    return made


# Gangs that run, and others that want their room.


@scene
def evicted(way: str) -> Scene:
    """V runs on the only node, for a minute so far; a more important gang, of its queue if it is in one, wants it."""
    wants = other("w", 2, priority=9)
    if QUEUES.get(way) in ("Queue", "ElasticQuota"):
        wants[0]["spec"] |= {"queue": "v"}  # type: ignore[operator]
    return Scene([*tree({"r0": "n0"}), *own(way, {0: "n0", 1: "n0"}, ago=MINUTE), *wants])


@scene
def evicted_first(way: str) -> Scene:
    """V and u run on a node each, and a more important gang needs one of them: v has run for a shorter time."""
    running = [*own(way, {0: "n0", 1: "n0"}, ago=HOUR), *other("u", 2, {0: "n1", 1: "n1"}, ago=2 * HOUR)]
    return Scene([*tree({"r0": "n0", "r1": "n1"}), *running, *other("w", 2, priority=9)])


@scene
def evicted_last(way: str) -> Scene:
    """V and u run on a node each, and a more important gang needs one of them: v has run for longer."""
    running = [*own(way, {0: "n0", 1: "n0"}, ago=2 * HOUR), *other("u", 2, {0: "n1", 1: "n1"}, ago=HOUR)]
    return Scene([*tree({"r0": "n0", "r1": "n1"}), *running, *other("w", 2, priority=9)])


@scene
def neighbour(way: str) -> Scene:
    """V runs on a node that has room for one more pod, and a pod waits."""
    return Scene([*tree({"r0": "n0"}, cpu=3), *own(way, {0: "n0", 1: "n0"}), *other("w", 1)])


@scene
def borrower(way: str) -> Scene:
    """V waits, and the only room is what another gang keeps as spares."""
    return Scene([*tree({"r0": "n0"}, cpu=4), *other("u", 2, {0: "n0", 1: "n0"}, spares="2"), *own(way)])


@scene
def lost_node(way: str) -> Scene:
    """V runs on two nodes, one of which is gone."""
    return Scene([*tree({"r0": "n0 n1"}), *own(way, {0: "n0", 1: "n9"})])


# Gangs that wait.


@scene
def alone(way: str) -> Scene:
    """V waits, and there is room for it in either of two racks, and more than enough across them."""
    return Scene([*tree({"r0": "n0 n1", "r1": "n2 n3"}, cpu=1), *own(way)])


@scene
def torn(way: str) -> Scene:
    """V waits, and there is room for one of its pods in each of two racks."""
    return Scene([*tree({"r0": "n0", "r1": "n1"}, cpu=1), *own(way, ago=MINUTE)])


@scene_in("volcano", "scheduler-plugins")
def nodes_too_small(way: str) -> Scene:
    """V waits, and no node is large enough for any of its pods."""
    return Scene([*tree({"r0": "n0"}, cpu=0), *own(way)])


@scene
def before_a_reservation(way: str) -> Scene:
    """V waits behind a gang that has both nodes reserved from when one of them is free, in an hour."""
    busy = other("a", 2, {0: "n0", 1: "n0"}, expected_duration="2h")
    return Scene([*tree({"r0": "n0 n1"}), *busy, *other("big", 4, ago=HOUR - 1), *own(way, ago=MINUTE)], RESERVING)


@scene
def two_fabrics(way: str) -> Scene:
    """V waits and wants one domain of tier 1; racks and NVLink cut the nodes differently."""
    link = hypernode("v", 1, [("Node", "n1"), ("Node", "n2")])
    constrained = {"tierwise.io/topology-constraints": json.dumps([{"tier": 1}])}
    if way:
        link["metadata"]["labels"] = {"tierwise.io/fabric": "nvlink"}  # type: ignore[index]
    else:  # it is the tree that does not say so
        constrained["tierwise.io/fabric"] = "nvlink"
    found = _annotated(own(way or "volcano"), way or "volcano", constrained)
    return Scene([*tree({"r0": "n0 n1", "r1": "n2 n3"}, cpu=1), link, *found])


@scene
def rack_called_v(way: str) -> Scene:
    """V starts in the only rack, which is a hyperNode of its name."""
    return Scene([*tree({"v": "n0 n1"}, cpu=1), *own(way or "volcano")])


@scene
def rule_about_a_set(way: str) -> Scene:
    """V waits: it has a rule about a set that it is not in."""
    listed = [{"fabric": "HyperNode", "tier": 1, "set": "serve", "apart": 1}]
    found = _annotated(own(way), way, {"tierwise.io/topology-constraints": json.dumps(listed)})
    return Scene([*tree({"r0": "n0 n1", "r1": "n2 n3"}, cpu=1), *found])


@scene
def two_fabrics_of_a_part(way: str) -> Scene:
    """The same; a part of v wants one domain of tier 1, or one rack."""
    hard: Raw = {"mode": "hard", "highestTierAllowed": 1}
    group, *pods = own("volcano")
    part: Raw = {"minMember": 2, "subGroupPolicy": [{"name": "worker", "subGroupSize": 2, "networkTopology": hard}]}
    below: Raw = {"name": "worker", "minMember": 2, "topologyConstraint": near(RACK)}
    found = {
        "volcano": [{**group, "spec": part}, *pods],
        "kai": [topology(), *kai_gang("v", {"worker": 2}, subGroups=[below])],
        "grove": grove_gang("v", {"worker": 2}, keys={"worker": RACK}),
    }[way]
    return Scene([*two_fabrics("volcano").manifests[:-3], *found])


def _annotated(manifests: list[Raw], way: str, marks: Mapping[str, str]) -> list[Raw]:
    """The same objects; what declares v, or its pods, has these annotations."""
    for key, value in marks.items():
        manifests = on_job(manifests, way, "annotation", key, value)
    return manifests
