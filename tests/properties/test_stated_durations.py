"""What a gang states of its run time moves its place, and gains it nothing over others that are honest."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.batches import Batch, drawn_batch, found
from tests.support.depth import QUICK, size
from tests.support.draw import Gang, World, allocate, draw, placed

from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, PluginChoice, Profile

HONEST = "2h"
NOW, _SINCE = 7200.0, "1970-01-01T01:00:00Z"


def _stating(batch: Batch, number: int, text: str) -> Batch:
    """The same batch, whose gangs state their run time, one of them another than the others."""
    told = [text if i == number else HONEST for i in range(len(batch.gangs))]
    gangs = (replace(gang, marks={EXPECTED_DURATION: said}) for gang, said in zip(batch.gangs, told, strict=True))
    return replace(batch, gangs=tuple(gangs))


@pytest.mark.parametrize("lie", ["1m", "720h"])
@pytest.mark.parametrize("seed", range(size(10, 200, quick=3)))
def test_a_lie_starts_nobody_else_later_and_brings_no_closer_place(seed: int, lie: str) -> None:
    """Whatever one of three gangs states, the same gangs start, and its own place is of the same tier and as narrow."""
    batch = drawn_batch(seed)
    honest = found(_stating(batch, 2, HONEST))
    lying = found(_stating(batch, 2, lie))

    assert [gang.waiting for gang in honest] == [gang.waiting for gang in lying]
    assert honest[2] == lying[2]


def _beside_ends(batch: Batch) -> Batch:
    """The same batch with what runs on other devices of each second node, and ends one after the other."""
    nodes = list(batch.room)[::2]
    standing = [
        Gang(f"runs{i}", 2, "gpu=1", on=f"{node} {node}", since=_SINCE, marks={EXPECTED_DURATION: f"{61 + 2 * i}m"})
        for i, node in enumerate(nodes)
    ]
    return replace(batch, standing=tuple(standing), now=NOW)


@pytest.mark.parametrize("lie", ["1m", "720h"])
@pytest.mark.parametrize("seed", range(size(4, 200, quick=2)))
def test_a_lie_gains_nothing_where_it_is_known_when_others_end(seed: int, lie: str) -> None:
    """Others start as before, and where it starts either way its place is of the same tier and as narrow."""
    batch = _beside_ends(drawn_batch(seed))
    honest = found(_stating(batch, 2, HONEST))
    lying = found(_stating(batch, 2, lie))

    assert [gang.waiting for gang in honest[:2]] == [gang.waiting for gang in lying[:2]]
    assert honest[2].waiting or lying[2].waiting or honest[2] == lying[2]


CAME, _RAN = 3540, 58


def _with_cap(time: str) -> Profile:
    """The default profile, in which gangs hold out for a closer place for so long at most."""
    capped = PluginChoice("patience", {"time": time})
    tiers = (tuple(capped if plugin.name == "patience" else plugin for plugin in tier) for tier in DEFAULT.tiers)
    return replace(DEFAULT, tiers=tuple(tiers))


def _too_wide(seed: int) -> tuple[World, list[Gang], int]:
    """Racks that are in part use, by jobs that end within four hours, and a size that no rack takes now."""
    chance = random.Random(f"lie {seed}")
    number, racks, standing, idle = 0, [], [], []
    for rack, hosts in enumerate([chance.randint(2, 4) for _ in range(chance.randint(2, 4))]):
        own = [f"n{number + i}" for i in range(hosts)]
        number += hosts
        racks.append(f"r{rack}[{' '.join(own)}]")
        idle.append(chance.randint(1, hosts))
        for node in own[idle[-1] :]:
            lasts = {EXPECTED_DURATION: f"{_RAN + chance.randint(5, 240)}m"}
            standing.append(Gang(f"runs{node}", 1, "gpu=8", on=node, since="1970-01-01T00:01:00Z", marks=lasts))
    tasks = chance.randint(min(max(idle) + 1, sum(idle)), max(2, sum(idle)))
    return draw(f"s0[{' '.join(racks)}]", node="gpu=8"), standing, tasks


def test_a_lie_holds_out_for_no_longer_than_a_cap() -> None:
    """Who states a month waits for a closer place that an honest gang would not wait for, an hour at most and alone.

    Draws of both kinds are there: those in which the lie brings something within the hour, and those in which the cap
    takes back what it would have brought.
    """
    waits = taken_back = 0
    for seed in (2, 9, 20, 30) if QUICK else range(size(24, 200)):
        world, standing, tasks = _too_wide(seed)
        honest, lying, uncapped = (
            _after(world, standing, tasks, text, cap)
            for text, cap in ((HONEST, "1h"), ("720h", "1h"), ("720h", "1000h"))
        )

        assert honest.second <= lying.second
        if honest.first and not lying.first:
            assert f"it waits until {format_time(CAME + 3600)} at most" in lying.why
        waits += honest.first and not lying.first
        taken_back += lying.first and not uncapped.first

    assert waits
    assert taken_back


class _Seen(msgspec.Struct, frozen=True):
    """Whether two gangs start, and why the first one does not."""

    first: bool
    second: bool
    why: str


def _after(world: World, standing: Sequence[Gang], tasks: int, text: str, cap: str) -> _Seen:
    """What a cycle makes of a gang that states this and one behind it, with so much patience at most."""
    told = (("first", tasks, text), ("second", 2, HONEST))
    gangs = (
        Gang(name, number, "gpu=8", soft=True, created=CAME, marks={EXPECTED_DURATION: said})
        for name, number, said in told
    )
    outcome = allocate(world, *standing, *gangs, profile=_with_cap(cap), now=float(CAME))
    refused = outcome.report.rejections.get("default/first")
    first, second = (bool(placed(outcome, name)) for name, _, _ in told)
    return _Seen(first, second, refused.reason.text if refused else "")
