"""Kubernetes' own pod groups in its scheduler and in tierwise: who is placed, who makes room, and how many go for it.

The whole scheduler of Kubernetes runs, with its gates for workloads on, until everybody who waits has had a turn;
tierwise runs one cycle on the same manifests with the same configuration. `beside` says how they are compared;
`pod_groups_differences.toml` has the reasons of the causes that excuse a difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drawn_groups
import go_programs
from beside import Rival, compare
from counting import Answer
from drawn_gangs import World
from gang_causes import served
from group_causes import CAUSES


def _answer(world: World, given: drawn_groups.Raw) -> Answer:
    """Kubernetes' answer; a group that it evicts for is nominated, wherever that may be."""
    waiting = {pod.gang: key for key, pod in world.pods.items() if not pod.node and key not in given["bound"]}
    room = {waiting[whom]: "" for whom in sorted(set(given["victims"].values())) if whom in waiting}
    return Answer(given["bound"], room, sorted(given["victims"]), by=given["victims"])


def _counted(world: World, answer: Answer) -> dict[str, int]:
    gangs = {gang for gang in world.gangs if drawn_groups.group_of(world, gang).kind == "gang"}
    started = {world.pods[key].gang for key in answer.bound} & gangs
    return {"groups that start": len(started), "groups that make room": len(served(world, answer) & gangs - started)}


KUBERNETES = Rival(
    name="Kubernetes",
    program=lambda: go_programs.kubernetes("pod_groups.go", "api_server.go"),
    differences="pod_groups_differences.toml",
    causes=CAUSES,
    chances=drawn_groups.CHANCES,
    draw=drawn_groups.draw,
    manifests=drawn_groups.manifests,
    config=drawn_groups.config,
    answer=_answer,
    counted=_counted,
    drawn=lambda world: world.features,
    times=6,
    steps=32,
)


def main() -> int:
    """Compare from the command line."""
    return compare(KUBERNETES, __doc__)


if __name__ == "__main__":
    sys.exit(main())
