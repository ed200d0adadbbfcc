"""Nothing is passed over without a word: verbs say which objects have no effect, or not the one that was meant."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang, objects_of


def test_a_limit_by_an_unknown_tier_name_is_told_of(tmp_path: Path) -> None:
    """It limits nothing, as in Volcano, so `schedule` lists it among the problems."""
    world = draw("r0[n0] r1[n1]", node="gpu=1", tier_names={1: "rack"})
    objects = objects_of(world, gang("train", tasks=2, each="gpu=1", within="rak"))
    file = manifests(tmp_path, *(objects.raw(key) for key in objects))

    found = answer("schedule", "-f", file)

    assert {"default/train-0": "n0", "default/train-1": "n1"} == found["bindings"]
    assert [("PodGroup default/train", "UnknownTierName")] == [(p["object"], p["code"]) for p in found["problems"]]
    assert "highestTierName rak is not the tierName" in run("schedule", "-f", file, width=160).stdout
