"""A nested gang starts exactly when an exact search finds a way to, and gets one place in every language."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.depth import size
from tests.support.languages import (
    RACK,
    SPINE,
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    near,
    objects_of,
    packed,
    pod,
    run,
    topology,
)
from tests.support.nested_oracle import (
    LEVELS,
    ZONE,
    Leaf,
    Nest,
    kai,
    kubernetes,
    leaves,
    random_scene,
    solvable,
    standing,
)

from tierwise.api.codec import Raw
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.scheduler import cycle
from tierwise.sim.cluster.rounds import schedule
from tierwise.snapshot.builder import build

BATCHES, SIZE = size(2, 20), size(36, 200, quick=12)
KINDS = ("alike", "unlike", "choosing", "elastic", "running", "shapes")


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", KINDS)
def test_yes_exactly_when_there_is_a_way(kind: str, batch: int) -> None:
    """Three levels of groups: neither a place is missed nor one invented, and every limit holds at every level."""
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        scene = random_scene(random.Random(seed), kind)
        bound, why = run(scene.manifests(), kai(scene.gang))
        faults = standing(scene, bound)
        started = bool(bound) or all(len(leaf.on) == leaf.total for leaf in leaves(scene.gang))
        if solvable(scene) != started or faults:
            wrong.append((len(str(scene)), f"{kind} {seed}: placed {bound}, {faults}\n{why}\n{scene}"))

    assert [] == [text for _, text in sorted(wrong)][:1]


@pytest.mark.parametrize("kind", ["alike", "unlike", "choosing", "shapes"])
def test_room_that_is_being_released_counts(kind: str) -> None:
    """A gang that fits once pods have left is nominated; one that fits now is bound."""
    wrong = []
    for seed in range(3000, 3000 + SIZE // 2):
        chance = random.Random(seed)
        scene = random_scene(chance, kind)
        leaving = [
            pod(f"old-{name}-{i}", on=name, deletionTimestamp="1970-01-01T00:00:00Z")
            for name, (_, room) in scene.nodes.items()
            for i in range(chance.randint(0, room))
        ]
        report = cycle(build(objects_of(scene.manifests(), kai(scene.gang), leaving), now=0.0), DEFAULT)
        if solvable(scene) != any(decision.job.key == "default/g" for decision in report.decisions):
            wrong.append(f"{kind} {seed}")

    assert [] == wrong


@pytest.mark.parametrize("kind", KINDS)
def test_a_nested_gang_gets_one_place_in_every_language(kind: str) -> None:
    """Sub-groups of KAI's that name their parents, and composites of composites of Kubernetes' own."""
    for seed in range(1000, 1000 + SIZE // 2):
        scene = random_scene(random.Random(seed), kind)

        assert run(scene.manifests(), kai(scene.gang))[0] == run(scene.manifests(), kubernetes(scene.gang))[0], seed


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "running"])
def test_the_auditor_finds_nothing(kind: str) -> None:
    """It counts parts and domains at every level by itself."""
    for seed in range(2000, 2000 + SIZE // 4):
        scene = random_scene(random.Random(seed), kind)
        for write in (kai, kubernetes):
            history = schedule(objects_of(scene.manifests(), write(scene.gang)), DEFAULT, now=0.0)

            assert [] == list(audit(history.cluster.read())), seed


@pytest.mark.parametrize("seed", range(SIZE // 3))
def test_slices_and_cliques_get_the_place_of_sub_groups(seed: int) -> None:
    """Slices of slices of Kueue's, and cliques of Grove's that share a domain, are sub-groups in KAI's words."""
    chance = random.Random(seed)
    scene = random_scene(chance, "alike")
    outer, inner, total = chance.choice((2, 4)), chance.choice((1, 2)), chance.randint(2, 8)
    slices = [{"topology": SPINE, "size": outer}, {"topology": RACK, "size": inner}]
    kueue = [
        topology(of="kueue.x-k8s.io/v1beta2", levels=LEVELS),
        *kueue_gang("g", total, slice_required_topology_constraints=json.dumps(slices)),
    ]
    subs: list[Raw] = []
    for first in range(0, total, outer):
        last = min(first + outer, total)
        subs.append({"name": f"pods-{first}-{last - 1}", "topologyConstraint": near(SPINE)})
        for start in range(first, last, inner):
            part = {"name": f"slice-{start // inner}", "parent": f"pods-{first}-{last - 1}"}
            subs.append({**part, "minMember": min(inner, last - start), "topologyConstraint": near(RACK)})
    group, *_ = kai_gang("g", 0, subGroups=subs)
    marks = {"pod-group-name": "g"}
    pods = [
        pod(f"g-{i}", labels={"kai.scheduler/subgroup-name": f"slice-{i // inner}"}, annotations=marks)
        for i in range(total)
    ]
    assert run(scene.manifests(), kueue)[0] == run(scene.manifests(), [topology(levels=LEVELS), group, *pods])[0]

    sizes = {name: chance.randint(1, 2) for name in "abc"}
    shared = [{"name": "unit", "podGroupNames": ["a", "b"], "topologyConstraint": packed(RACK)}]
    grove = grove_gang("g", sizes, topologyConstraintGroupConfigs=shared, topologyConstraint=packed(ZONE))
    gang = Nest(
        "g", (Nest("unit", (Leaf("a", sizes["a"]), Leaf("b", sizes["b"])), 2, RACK), Leaf("c", sizes["c"])), 2, ZONE
    )
    assert run(scene.manifests(), grove, _every_key())[0] == run(scene.manifests(), kai(gang))[0]


def _every_key() -> list[Raw]:
    """Groups without pods that name all keys, so that all of them are in the tree."""
    return [raw for key in LEVELS for raw in kubernetes_gang(f"idle-{key[-4:]}", 0, least=1, key=key)]
