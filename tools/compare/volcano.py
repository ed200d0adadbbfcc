"""Volcano and tierwise on the same random clusters: what each binds and evicts, audited by counting, and compared.

Both schedulers run one cycle on the same manifests with the same configuration; then pods start, end and fail, victims
go, new gangs come, and the next cycle is compared. `beside` says how; `volcano_differences.toml` has the reasons of the
causes that excuse a difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drawn_gangs
import go_programs
from beside import Rival, compare
from counting import Answer, broken
from drawn_gangs import World
from volcano_causes import CAUSES


def _answer(world: World, given: drawn_gangs.Raw) -> Answer:
    del world
    return Answer(given["bound"], given["pipelined"], given["evicted"])


def _counted(world: World, answer: Answer) -> dict[str, int]:
    return {"nominated": len(answer.nominated), "broken gangs": len(broken(world, answer))}


def _drawn(world: World) -> Iterator[str]:
    yield from world.features
    yield from world.actions.split(", ")
    waiting = {gang: [not world.pods[key].node for key in world.members(gang)] for gang in world.gangs}
    if any(any(pods) and not all(pods) for pods in waiting.values()):
        yield "gangs of which a part stands"


VOLCANO = Rival(
    name="Volcano",
    program=go_programs.volcano,
    differences="volcano_differences.toml",
    causes=CAUSES,
    chances=drawn_gangs.CHANCES,
    draw=drawn_gangs.draw,
    manifests=drawn_gangs.manifests,
    config=World.config,
    answer=_answer,
    counted=_counted,
    drawn=_drawn,
    times=4,
    steps=120,
    lots=150,  # some are rare
    advance=lambda world, ours: drawn_gangs.advance(world, ours.bound, ours.nominated, ours.evicted),
    from_checkout=lambda folder: go_programs.volcano(folder.resolve()),
)


def main() -> int:
    """Compare from the command line."""
    return compare(VOLCANO, __doc__)


if __name__ == "__main__":
    sys.exit(main())
