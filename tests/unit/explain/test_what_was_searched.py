"""`explain` shows the domains that the search compared, where it searched, with the scores that it saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.commands import answer, manifests
from tests.support.draw import Gang, World, draw, gang, groups

PROPOSING = """
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
  - name: propose
"""


def _explained(folder: Path, world: World, *gangs: Gang, pod: str, config: str = "") -> Any:
    objects = (*world.manifests, *(manifest for one in gangs for manifest in one.manifests()))
    words: list[object] = ["explain", "-f", manifests(folder, *objects), "--pod", f"default/{pod}"]
    if config:
        (folder / "scheduler.conf").write_text(config)
        words += ["--config", folder / "scheduler.conf"]
    return answer(*words)


def test_hypernodes_are_scored_together(tmp_path: Path) -> None:
    """Two racks are as full; the one with a pod of the gang has the tie, which is seen only where both are compared."""
    world = draw("r0[n0] r1[n1]", node="cpu=32", running="n1:cpu=8")
    seen = _explained(tmp_path, world, gang("g", tasks=2, each="cpu=8", soft=True, on="n0 -"), pod="g-1")

    assert {"r0": 125.0, "r1": 75.0} == seen["hyperNodeScores"]


def test_a_half_running_gang_is_searched_in_its_own_hypernode(tmp_path: Path) -> None:
    """Its job may use s0 alone: the free racks of s1 are no candidates for the sub-group that waits."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]] s1[r2[n4 n5] r3[n6 n7]]", node="cpu=8", running="n2:cpu=8")
    half = gang("g", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),), on="n0 n1")
    seen = _explained(tmp_path, world, half, pod="g-part-1-0")

    assert "s0" == seen["searchedIn"]
    assert [] == seen["gradients"]
    assert {} == seen["hyperNodeScores"]


def test_scores_are_those_before_the_proposal_was_placed(tmp_path: Path) -> None:
    """A recommended rack that the gang fills has no room afterwards, which would count as a score of 0."""
    world = draw("r0[n0 n1] r1[n2 n3]", node="cpu=8")
    seen = _explained(tmp_path, world, gang("g", tasks=2, each="cpu=8", within=1), pod="g-0", config=PROPOSING)

    assert {"r0": 100.0, "r1": 100.0} == seen["hyperNodeScores"]
