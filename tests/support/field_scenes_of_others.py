"""Small clusters around volumes, devices and the lives of pods, and what is written beside the cycle.

For `tests/support/field_pairs.py`; as in `tests/support/field_scenes.py` the subject is called v.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from tests.support import devices, volumes
from tests.support.field_scenes import FULL, NOW, Outcome, Scene, all_objects, other, own, scene, scene_of_one, tree
from tests.support.koordinator import hypernode, objects_of
from tests.support.languages import nodes, pod, volcano_gang

from tierwise.api.codec import Raw
from tierwise.api.definitions import DEFINITIONS
from tierwise.api.defrag_record import DefragRecord, MovePhase, record_manifest
from tierwise.explain.message import decision_id
from tierwise.kube.events import event_manifest
from tierwise.kube.lease import Lease, LeaseOptions
from tierwise.port import Evict, Key, RecordEvent
from tierwise.runtime.forecasts import forecast_effects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.scheduler.partial_gangs import release
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.sim.forecast.eta import forecasts, summary
from tierwise.snapshot.builder import build

__all__: list[str] = []


# -- gangs of which a part runs


def _released(marked: Sequence[Raw]) -> Outcome:
    """What a cycle makes of gangs of which a part runs."""
    objects = objects_of(list(marked))
    snapshot = build(objects, NOW)
    found = release(objects, snapshot, cycle(snapshot, FULL), partial(decision_id, NOW))
    embedded = EmbeddedCluster(objects, NOW)
    embedded.apply(found)
    evicted = sorted(effect.pod.path for effect in found if isinstance(effect, Evict))
    return Outcome(evicted, all_objects(embedded.read()), ())


@scene
def half_running_for_long(way: str) -> Scene:
    """One pod of v has run for an hour, and the other one has no place; v was never whole."""
    mine = own(way, {0: "n0"})
    for raw in mine:
        if raw["kind"] != "Pod":
            raw["status"] = {"phase": "Pending"} if "phase" in raw.get("status", {}) else {}  # type: ignore[operator]
    return Scene([*tree({"r0": "n0"}, cpu=1), *mine], play=_released)


def _decided(marked: Sequence[Raw]) -> Outcome:
    """What one cycle makes of a cluster in which nothing else acts."""
    objects = objects_of(list(marked))
    snapshot = build(objects, NOW)
    report = cycle(snapshot, FULL)
    reasons = sorted((job, rejection.reason.code) for job, rejection in report.rejections.items())
    return Outcome((reasons, [type(effect).__name__ for effect in effects(snapshot, report)]), all_objects(objects), ())


@scene_of_one
def a_role_is_missing() -> Scene:
    """V needs a pod of each of two tasks, and has one of the first."""
    group, member = volcano_gang("v", 1)
    spec: Raw = {"minMember": 2, "minTaskMember": {"server": 1, "worker": 1}}
    marks = {**member["metadata"]["annotations"], "volcano.sh/task-spec": "server"}  # type: ignore[index]
    meta = {**member["metadata"], "annotations": marks}  # type: ignore[dict-item]
    return Scene([*tree({"r0": "n0"}), {**group, "spec": spec}, {**member, "metadata": meta}])


# -- what is told of the time ahead


def _foretold(marked: Sequence[Raw]) -> Outcome:
    """What is written of when jobs are expected to start."""
    objects = objects_of(list(marked))
    snapshot = build(objects, NOW)
    embedded = EmbeddedCluster(objects, NOW)
    embedded.apply(forecast_effects(objects, summary(forecasts(snapshot, FULL), FULL)))
    return Outcome((), all_objects(embedded.read()), ())


@scene_of_one
def forecast() -> Scene:
    """V waits for others, who say how long they run."""
    busy = other("a", 2, {0: "n0", 1: "n0"}, expected_duration="2h")
    return Scene([*tree({"r0": "n0"}), *busy, *own("volcano")], play=_foretold)


@scene_of_one
def forecast_of_a_running_gang() -> Scene:
    """V runs."""
    return Scene([*tree({"r0": "n0"}), *own("volcano", {0: "n0", 1: "n0"})], play=_foretold)


# -- volumes and devices


def _claimed(**marks: str) -> list[Raw]:
    world = [volumes.node("n0", "a"), volumes.node("n1", "b"), volumes.storage_class()]
    mine = volumes.claim("v", annotations={f"tierwise.io/{key.replace('_', '-')}": text for key, text in marks.items()})
    return [*world, mine, volumes.pod("p", "v")]


@scene_of_one
def a_claim() -> Scene:
    """A pod waits with a claim, whose volume may be made for either of two nodes."""
    return Scene(_claimed())


@scene_of_one
def a_claim_that_was_given_a_node() -> Scene:
    """The same; the claim was given a node, and nobody has made its volume yet."""
    found = _claimed(selected_node="n1")
    marks: Any = found[3]["metadata"]["annotations"]  # type: ignore[index]
    marks["volume.kubernetes.io/selected-node"] = "n1"
    return Scene(found, play=_decided)


@scene_of_one
def a_device() -> Scene:
    """A pod waits with a claim of a device, which its driver has to prepare."""
    made = {**devices.device("d0"), "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    world = [devices.node("n0"), devices.resource_slice("n0", [made]), devices.device_class()]
    return Scene([*world, devices.claim("v", devices.exactly()), devices.pod("p", "v")], play=_decided)


# -- the lives of pods


def _living(name: str, **marks: str) -> Raw:
    annotations = {f"tierwise.io/{key.replace('_', '-')}": value for key, value in marks.items()}
    return pod(name, spec={"restartPolicy": "Never"}, annotations=annotations)


@scene_of_one
def a_life() -> Scene:
    """V-0 is looked at after eight seconds; it starts after one and runs on."""
    return Scene([*tree({"r0": "n0"}), _living("v-0")], lives=8)


@scene_of_one
def a_short_life() -> Scene:
    """V-0 runs for two seconds, and ends well."""
    return Scene([*tree({"r0": "n0"}), _living("v-0", run_for="2s")], lives=8)


@scene_of_one
def a_life_that_is_ended() -> Scene:
    """V-0 runs, and makes way for a more important gang; it stops in a second."""
    (_, mine), wants = own("volcano", {0: "n0"}, pods=1), other("w", 2, priority=9)
    return Scene([*tree({"r0": "n0"}), volcano_gang("v", 1)[0], mine, *wants], lives=5)


@scene_of_one
def a_volume_to_be_made() -> Scene:
    """A pod waits with a claim of class v, whose volumes are made at once."""
    return Scene(
        [
            volumes.node("n0"),
            volumes.storage_class("v"),
            volumes.claim("c", storageClassName="v"),
            volumes.pod("p", "c"),
        ],
        lives=5,
    )


# -- topology


@scene_of_one
def a_hypernode_of_nobody() -> Scene:
    """The topology is made of labels of nodes; v is a hyperNode that these do not have."""
    text = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      topologyA3:
      - nodeLabel: example.com/rack
      - nodeLabel: kubernetes.io/hostname
"""
    config: Raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-controller-configmap", "namespace": "volcano-system"},
        "data": {"volcano-controller.conf": text},
    }
    return Scene([*nodes({"s0": {"r0": "n0"}}), config, hypernode("v", 1, [("Node", "n9")])])


# -- what is written beside the cycle


@scene_of_one
def a_defragmentation() -> Scene:
    """The record v of a defragmentation holds places."""
    record = DefragRecord(room="cpu=1x1@1", phase=MovePhase.RESERVING)
    return Scene([*tree({"r0": "n0"}), {**record_manifest(record, "kube-system")}])


@scene_of_one
def a_cluster_at_rest() -> Scene:
    """The record of a defragmentation that the scheduler has seen."""
    raw: Any = record_manifest(DefragRecord(room="cpu=1x1@1", phase=MovePhase.DONE, revision=0), "kube-system")
    return Scene([*tree({"r0": "n0"}), raw])


def _written(raws: Sequence[Raw], _: Sequence[Raw]) -> Outcome:
    return Outcome((), {raw["metadata"]["name"]: raw for raw in raws}, ())  # type: ignore[index]


def _event(decision: str) -> Scene:
    told = RecordEvent(Key("", "Pod", "default", "v-0"), "Normal", "Scheduled", "it is placed", decision)
    return Scene([], play=partial(_written, [event_manifest(told, "uid", NOW, 1, "tierwise")]))


@scene_of_one
def an_event() -> Scene:
    """An event about a decision."""
    return _event("0a1b2c3d4e")


@scene_of_one
def an_event_without_a_decision() -> Scene:
    """An event about something else."""
    return _event("")


class _Leases:
    """A server that keeps one lease."""

    def __init__(self) -> None:
        self.lease: Raw = {"metadata": {"name": "v"}, "spec": {}}

    async def send(self, method: str, path: str, body: Raw | None = None, **_: str) -> bytes:
        self.lease = body if body is not None else self.lease
        return msgspec.json.encode(self.lease)


def _leased(note: str) -> Scene:
    server: Any = _Leases()
    mine = Lease(server, LeaseOptions("v", "default", "me"), ticks=lambda: NOW)
    asyncio.run(mine.renew())
    mine.note = note
    asyncio.run(mine.renew())
    return Scene([], play=partial(_written, [{"kind": "Lease", **server.lease}]))


@scene_of_one
def a_lease_with_a_note() -> Scene:
    """The holder leaves a note for the next one."""
    return _leased('{"stage": "scheduling"}')


@scene_of_one
def a_lease_without_a_note() -> Scene:
    """It has nothing to say."""
    return _leased("")


def _definitions(family: str) -> Scene:
    first = next(definition for definition in DEFINITIONS if definition.family == family)
    return Scene([], play=partial(_written, [first.manifest]))


@scene_of_one
def definitions() -> Scene:
    """A kind of Volcano's."""
    return _definitions("volcano")


@scene_of_one
def definitions_of_another_family() -> Scene:
    """A kind of Koordinator's."""
    return _definitions("koordinator")
