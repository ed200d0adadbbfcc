"""What is kept about gangs that never fit says what finding it out anew says, whatever has changed in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.properties.test_reader import EVICTING, manifest, moved, seldom, some, with_devices
from tests.support.depth import seeds, size
from tests.support.sight import cycle, saw, sees
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.model.snapshot import Snapshot
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import Reader

PROFILES = {
    "usual": DEFAULT,
    "evicting": EVICTING,
    "queues tied to nodes": profile("predicates", PluginChoice("nodegroup", {"strict": False}), "gang"),
}
_VOLCANO = "scheduling.volcano.sh/v1beta1"
_GANGS = 9
_READY: Raw = {"allocatable": {"cpu": "1", "pods": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
_SMALL_NODES = [manifest("v1", "Node", f"small{number}", status=_READY) for number in range(2)]
"""Nodes that every world has, and on which hardly anything fits."""
_PHASES = ("Inqueue", "Inqueue", "Pending")


def _large(pick: Random) -> list[Raw]:
    """A gang that waits, and that few clusters of a handful of nodes have room for: whole, of two roles, or in parts.

    Few sizes, so that several gangs ask for the same.
    """
    name, pods = f"l{pick.randrange(_GANGS)}", pick.choice([2, 4])
    roles, parts = pick.choice([(["w"], 0), (["w", "ps"], 0), (["ps", "w"], 0), (["w"], 2)])
    least = pick.choice([pods, pods, pods + 1])  # one of them may never come
    spec: dict[str, Any] = {"minMember": least, "queue": pick.choice(["default", "default", "q", "nowhere"])}
    if len(roles) > 1:
        spec["minTaskMember"] = dict.fromkeys(roles, pods // 2)
    if parts or pick.random() < 0.5:
        field, value = pick.choice([("highestTierAllowed", 1), ("highestTierAllowed", 2), ("highestTierName", "x")])
        spec["networkTopology"] = {"mode": "hard", field: value}
    if parts:
        near = {"mode": "hard", "highestTierAllowed": 1}
        spec["subGroupPolicy"] = [
            {"name": "s", "subGroupSize": parts, "matchLabelKeys": ["slice"], "networkTopology": near}
        ]
    if pick.random() < 0.2:
        spec["minResources"] = {"cpu": pick.choice(["8", "300"])}
    made: list[Raw] = [manifest(_VOLCANO, "PodGroup", name, "d", spec=spec, status={"phase": pick.choice(_PHASES)})]
    cpu = pick.choice(["3", "30", "90", "90"])
    for i in range(pods):
        meta = {
            "labels": {"slice": f"{name}-{i // (parts or pods)}"},
            "annotations": {
                "scheduling.k8s.io/group-name": name,
                "volcano.sh/task-spec": roles[i * len(roles) // pods],
            },
        }
        body: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
        body["schedulerName"] = "volcano"
        if pick.random() < 0.05:
            body["nodeName"] = f"n{pick.randrange(5)}"
        if pick.random() < 0.05:
            body["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
        phase = "Running" if "nodeName" in body else "Pending"
        made.append(manifest("v1", "Pod", f"{name}-{i}", "d", meta=meta, spec=body, status={"phase": phase}))
    return made


def _grouped(pick: Random) -> Raw:
    """A queue with an affinity to a group of nodes, a node in a group, or a volume and the claim that it is for."""
    group = pick.choice(["fast", "slow"])
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [group]}}
    number, on = pick.randrange(5), [f"n{pick.randrange(5)}"]
    status = {"allocatable": {"cpu": "40", "pods": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": on}
    local = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"name": "disk", "namespace": "d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
    }
    claim = {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}
    labels = {"volcano.sh/nodegroup-name": group, "rack": "x", "kubernetes.io/hostname": f"n{number}"}
    return pick.choice(
        [
            manifest(_VOLCANO, "Queue", "q", spec={"weight": 1, "affinity": affinity}),
            manifest("v1", "Node", f"n{number}", meta={"labels": labels}, status=status),
            manifest("v1", "PersistentVolume", "disk", spec=local, status={"phase": "Bound"}),
            manifest("v1", "PersistentVolumeClaim", "disk", "d", spec=claim, status={"phase": "Bound"}),
        ]
    )


DRAWN: Mapping[str, Callable[[Random], Raw]] = {
    "what often changes": some,
    "what seldom changes": seldom,
    "devices": with_devices,
    "groups of nodes and volumes": _grouped,
}


def _told(snapshot: Snapshot, by: Profile) -> tuple[object, ...]:
    report = cycle(snapshot, by)
    in_order = list(report.rejections.items())
    return in_order, list(effects(snapshot, report)), pending_wire(snapshot, report, {})


@pytest.mark.parametrize("by", PROFILES)
@pytest.mark.parametrize("what", DRAWN)
@sees(refusals=30, taken_over=5, repeated=5)
@given(pick=seeds())
@settings(max_examples=size(15, 450, quick=3))
def test_kept_verdicts_say_what_new_ones_say(by: str, what: str, pick: Random) -> None:
    """Nodes, trees, pods, queues, quotas, classes, volumes and devices come, change and go between cycles."""
    reader, objects = Reader(PROFILES[by]), Objects()
    present: dict[Key, dict[str, Any]] = {}
    for step in range(pick.randrange(4, 15)):
        puts = {key: moved(raw, pick) for key, raw in present.items() if key.kind == "Pod" and pick.random() < 0.05}
        drawn = [DRAWN[what](pick) for _ in range(pick.choice([0, 0, 1, 5]) if step else 25)]
        drawn += [raw for _ in range(pick.choice([0, 0, 1]) if step else _GANGS) for raw in _large(pick)]
        drawn += _SMALL_NODES if not step else []  # without any, no verdict is asked
        puts |= {key_of_raw(raw): raw for raw in drawn}
        gone = [key for key in present if key not in puts and pick.random() < 0.03]
        objects = objects.changed(puts, gone)
        present = {key: raw for key, raw in {**present, **puts}.items() if key not in gone}
        kept = reader.read(objects, float(step))
        assert kept.kept_verdicts is not None
        before = {id(found): found for mapping in kept.kept_verdicts.last[:2] for found in mapping.values()}

        assert _told(replace(kept, kept_verdicts=None), PROFILES[by]) == _told(kept, PROFILES[by])

        kinds, jobs = (mapping.values() for mapping in kept.kept_verdicts.last[:2])
        saw(taken_over=sum(not isinstance(one, int) and id(one) in before for one in kinds))
        saw(repeated=sum(id(one) in before for one in jobs))
