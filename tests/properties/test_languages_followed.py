"""A reader that follows groups of every language tells what reading them anew tells, whatever happened in between."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_reader import decided, moved
from tests.support import koordinator
from tests.support.depth import examples
from tests.support.koordinator import hypernode
from tests.support.languages import (
    RACK,
    SPINE,
    composite,
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    near,
    nodes,
    packed,
    plugin_gang,
    pod,
    topology,
    volcano_gang,
)

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.port import Key, Objects, key_of_raw
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

KUEUE = "kueue.x-k8s.io/v1beta2"


def _some(pick: Random) -> list[Raw]:
    """An object of a small world, or a gang, drawn anew each time; names are few, so they meet."""
    name, size = f"g{pick.randrange(2)}", pick.randrange(1, 4)
    key = pick.choice(["", RACK, SPINE, "example.com/none"])
    parts = {"a": size, "b": pick.randrange(1, 3)}
    reference: Raw = {"workloadRef": {"name": name, "podGroup": "w", "podGroupReplicaKey": pick.choice(["", "x"])}}
    parent: Any = {"parentCompositePodGroupName": "c"} if pick.random() < 0.5 else {}
    told = [{"type": "PodGroupInitiallyScheduled", "status": pick.choice(["True", "False"]), "reason": "r"}]
    nested = [{"name": "top", "topologyConstraint": near(key)}, {"name": "a", "minMember": 1, "parent": "top"}]
    nested += [{"name": "b", "minMember": 1, **({"parent": "top"} if pick.random() < 0.5 else {})}]
    workload: Raw = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": size}}}]},
    }
    admitted: Raw = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podSets": [{"name": "main", "count": size}]},
    }
    flavor: Raw = {
        "apiVersion": KUEUE,
        "kind": "ResourceFlavor",
        "metadata": {"name": "f"},
        "spec": {"topologyName": "net", "nodeLabels": {SPINE: pick.choice(["s0", "s1"])}},
    }
    policy = pick.choice(["", "only-waiting", "waiting-and-running"])
    partners = pick.choice(["", '["default/g0","default/g1"]', '["default/g1"]'])
    noted = {"match-policy": policy, "groups": partners}
    noted = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in noted.items() if value}
    lone = koordinator.pod(f"{name}-lone", of="")
    drawn: list[list[Raw]] = [
        volcano_gang(name, size),
        koordinator.gang(name, size, annotations=noted, phase=pick.choice(["", "Running"])),
        [koordinator.annotated(lone, name=name, min_available=str(size), groups=partners, selector="x")],
        plugin_gang(name, size, phase=pick.choice(["", "Running"])),
        kubernetes_gang(name, size, key=key, status={"conditions": told}, **parent),
        [composite("c", pick.randrange(1, 3), key=pick.choice(["", SPINE]), parent=pick.choice(["", "", "d"]))],
        [composite("d", 1, key=pick.choice(["", SPINE]))],
        [workload, pod(f"{name}-ref", spec=reference)],
        kai_gang(name, parts, subGroups=[{"name": n, "minMember": 1} for n in parts]),
        kai_gang(name, parts, subGroups=nested, minSubGroup=pick.choice([1, 2])),
        kai_gang(name, size, topologyConstraint=near(key)),
        grove_gang(name, parts, topologyConstraint=packed(key)),
        kueue_gang(name, size, **({"required_topology": key} if key else {})),  # type: ignore[arg-type]
        [admitted, pod(f"{name}-w", annotations={"kueue.x-k8s.io/workload": name})],
        [topology(levels=pick.choice([(SPINE, RACK), (RACK,)]))],
        [topology(of=KUEUE), flavor],
        [hypernode("h", 1, [("Node", "n0"), ("Node", "n1")])],
        nodes({pick.choice(["s0", "s1"]): {"r0": "n0 n1", "r1": "n2"}}, cpu=2),
    ]
    return pick.choice(drawn)


@given(pick=st.randoms(use_true_random=False), steps=st.integers(1, 20))
@examples(30)
def test_following_equals_reading_anew(pick: Random, steps: int) -> None:
    """Groups come, change and go, and so do their pods, trees and nodes."""
    reader = Reader()
    first = nodes({"s0": {"r0": "n0 n1", "r1": "n2"}, "s1": {"r2": "n3"}}, cpu=2)
    objects = Objects()
    present: dict[Key, dict[str, Any]] = {}
    for step in range(steps):
        found = first if step == 0 else [raw for _ in range(pick.choice([0, 1, 2])) for raw in _some(pick)]
        puts: dict[Key, Any] = {
            key: moved(raw, pick) for key, raw in present.items() if key.kind == "Pod" and pick.random() < 0.2
        }
        puts |= {key_of_raw(raw): raw for raw in found}
        gone = [key for key in present if key not in puts and pick.random() < 0.08]
        objects = objects.changed(puts, gone)
        present = {key: raw for key, raw in {**present, **puts}.items() if key not in gone}

        kept, fresh = reader.read(objects, float(step)), build(objects, float(step))

        assert [] == differences(kept, fresh)
        assert decided(fresh, DEFAULT) == decided(kept, DEFAULT)
