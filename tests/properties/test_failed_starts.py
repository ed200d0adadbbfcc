"""A memory of failed starts: no tenant blackens a node for others, and nobody waits because of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.draw import draw
from tests.support.reservations import NOW, in_namespace, job
from tests.support.sight import saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

TREE = "s0[r0[n0 n1 n2] r1[n3 n4 n5]]"
REMEMBERS = replace(DEFAULT, action_arguments={"allocate": {"failedStarts": "tierwise"}})

STARTS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 5), st.integers(0, 7200), st.booleans()),
    min_size=8,
    max_size=40,
)
GANGS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=3)


def _report(gangs: list[tuple[int, int]], starts: list[Any], mine: str, theirs: str) -> CycleReport:
    """Gangs of one namespace, and a record of starts that failed in another, or in several."""
    raws: list[Raw] = list(draw(TREE, node="gpu=8").manifests)
    for number, (tasks, tier) in enumerate(gangs):
        raws += in_namespace(mine, job(f"g{number}", tasks, within=tier, turn=number))
    lines = [
        json.dumps([f"u{i}", f"{theirs.format(i % 3)}/{gang}", f"n{node}", NOW - ago, "OutOfcpu", alone])
        for i, (gang, node, ago, alone) in enumerate(starts)
    ]
    metadata = {"name": "tierwise-failed-starts", "namespace": "tierwise"}
    record: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"starts": "\n".join(lines)}}
    objects = Objects.of((codec.decode(raw), raw) for raw in [*raws, record])
    return cycle(build(objects, NOW, REMEMBERS), REMEMBERS)


def _bound(found: CycleReport) -> dict[str, int]:
    return {task.key: row for one in found.decisions if one.bound for task, row in one.places()}


@sees(starts=8, bound=1)
@given(gangs=GANGS, starts=STARTS)
def test_no_tenant_blackens_a_node_for_others(gangs: list[tuple[int, int]], starts: list[Any]) -> None:
    """Whatever one namespace has failed, gangs of another are placed as if nothing had been."""
    clean, after = _report(gangs, [], "mine", "theirs"), _report(gangs, starts, "mine", "theirs")

    saw(starts=len(starts), bound=len(_bound(after)))
    assert _bound(clean) == _bound(after)


@sees(starts=8)
@given(gangs=GANGS, starts=STARTS)
def test_nobody_waits_because_of_it(gangs: list[tuple[int, int]], starts: list[Any]) -> None:
    """What gangs failed themselves, and what several namespaces did: the first gang that found a place finds one."""
    clean = _bound(_report(gangs[:1], [], "n0", "n{}"))
    after = _bound(_report(gangs[:1], starts, "n0", "n{}"))
    own = _bound(_report(gangs[:1], [("g0", node, ago, alone) for _, node, ago, alone in starts], "n0", "n0"))

    saw(starts=len(starts), moved=int(clean != after or clean != own))
    assert clean.keys() == after.keys() == own.keys()
