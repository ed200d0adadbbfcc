"""What fits where: a typed shape, or a job, against the domains of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.boards import scheduled
from tests.support.draw import draw, gang, objects_of

from tierwise.explain.board import Board

FABRIC = "s0: r0[n0 n1] r1[n2 n3]"
RACKS = {"r0": ("n0", "n1"), "r1": ("n2", "n3")}


def _board(running: str = "", *gangs: Any, cordoned: str = "") -> Board:
    return Board(scheduled(objects_of(draw(FABRIC, node="gpu=8", running=running, cordoned=cordoned), *gangs)))


def _lit(board: Board, shape: str) -> dict[str, int]:
    """The domains that light up, by name, with the gangs that each takes."""
    names: Any = board.wire()["fabrics"]
    found: Any = board.fits(shape)
    return {names[0]["name"][d]: gangs for d, gangs in found["trees"][0]["lit"]}


@given(used=st.lists(st.integers(0, 8), min_size=4, max_size=4), pods=st.integers(1, 5), each=st.integers(1, 8))
def test_a_domain_lights_up_where_the_gang_fits(used: list[int], pods: int, each: int) -> None:
    """As many gangs as the free GPUs of its nodes, node by node, make room for; wider domains have those inside."""
    running = " ".join(f"n{i}:gpu={amount}" for i, amount in enumerate(used) if amount)
    free = {f"n{i}": (8 - amount) // each for i, amount in enumerate(used)}
    racks = {rack: sum(free[node] for node in nodes) // pods for rack, nodes in RACKS.items()}
    both = sum(racks.values())
    told = {"cluster": both, "s0": both, **racks}

    assert {name: n for name, n in told.items() if n} == _lit(_board(running), f"{pods} × {each} gpu in one tier 1")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("64 × 1 gpu in one tier 1", "64 pods of 1 nvidia.com/gpu each in one tier 1"),
        ("2x4 GPUs in a leaf", "2 pods of 4 nvidia.com/gpu each in one tier 1"),
        ("  3 *  2  gpus ", "3 pods of 2 nvidia.com/gpu each"),
        (
            "2 pods of 1 nvidia.com/gpu + 500m cpu each in one tier 2",
            "2 pods of 1 nvidia.com/gpu and 500m cpu each in one tier 2",
        ),
        ("8 gpu", "1 pod of 8 nvidia.com/gpu"),
        ("12 gpus in one leaf", "12 pods of 1 nvidia.com/gpu each in one tier 1"),
        ("2 x 2 cores", "2 pods of 2 cpu each"),
    ],
)
def test_a_shape_is_read_as_people_write_it(text: str, asked: str) -> None:
    """Counts with a cross or in words, plurals, the last part of a name, several resources; it is told in full."""
    found: Any = _board().fits(text)

    assert asked == found["asked"]


@pytest.mark.parametrize(
    "text", ["", "nonsense", "4 × 1 zorg", "4 ×", "4 × 0 gpu", "0 × 1 gpu", "2 × 1 gpu in one galaxy", "1..2 gpu"]
)
def test_what_cannot_be_read_is_told_with_an_example(text: str) -> None:
    """And the example can be read."""
    board = _board()
    said: Any = board.fits(text)
    example: Any = board.fits(said["fault"].split("“")[-1].rstrip("”"))

    assert ("write for example", True) == (said["fault"][said["fault"].index("write") :][:17], "asked" in example)


def test_nodes_that_take_no_pods_have_no_room() -> None:
    """A cordoned node is not counted, as the scheduler does not use it."""
    assert {"cluster": 1, "s0": 1, "r1": 1} == _lit(_board(cordoned="n0"), "2 × 8 gpu in one tier 1")


def test_this_job_lights_up_the_domains_that_take_it() -> None:
    """What it still waits for, in the tier that it must stay in; one that waits for nothing says so."""
    job = gang("waits", tasks=2, each="gpu=8", within=1)
    board = _board("n0:gpu=1 n2:gpu=1", job)
    nowhere: Any = board.fits("", "default/waits")
    elsewhere = Board(scheduled(objects_of(draw(FABRIC, node="gpu=8"), job)))

    assert ("2 pods of waits in one tier 1", 0) == (nowhere["asked"], nowhere["trees"][0]["taking"])
    assert {"fault": "waits waits for no place"} == elsewhere.fits("", "default/waits")
    assert elsewhere.fits("", "nobody") is None
