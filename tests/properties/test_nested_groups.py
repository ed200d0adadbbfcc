"""A nested gang starts exactly when an exact search finds a way to, and gets one place in every language."""

from __future__ import annotations

import random

import pytest
from tests.support.depth import DEEP
from tests.support.languages import objects_of, run
from tests.support.nested_oracle import kai, kubernetes, leaves, random_scene, solvable, standing

from tierwise.audit import audit
from tierwise.config.profile import DEFAULT
from tierwise.sim.rounds import schedule

BATCHES, SIZE = (20, 200) if DEEP else (2, 60)
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
