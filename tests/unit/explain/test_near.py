"""Where there is nearly room, and whose leaving would make it: by counting."""

from __future__ import annotations

from typing import Any

from tests.support.boards import scheduled
from tests.support.draw import draw, gang, objects_of

from tierwise.explain.board import Board

RACKS = "s0: r0[n0 n1 n2 n3] s1: r1[n4 n5 n6 n7]"


def _board(*gangs: Any, tree: str = "r0[n0 n1 n2 n3] r1[n4 n5 n6 n7]") -> Board:
    return Board(scheduled(objects_of(draw(tree, node="gpu=8"), *gangs)))


def test_a_shape_that_fits_nowhere_is_told_where_it_nearly_does() -> None:
    """The domains that take most of it, and how many nodes they lack."""
    board = _board(gang("low", tasks=1, each="gpu=8", on="n0"), gang("other", tasks=2, each="gpu=8", on="n4 n5"))

    found: Any = board.fits("4 × 8 gpu in one tier 1")

    assert 0 == found["trees"][0]["taking"]
    assert ["3 of 4 in r0, 1 node short", "2 of 4 in r1, 2 nodes short"] == [one["text"] for one in found["near"]]


def test_pods_of_a_part_of_a_node_are_short_of_as_few_nodes_as_would_hold_them() -> None:
    """Eight pods of one GPU are one node."""
    board = _board(gang("low", tasks=1, each="gpu=8", on="n0"), gang("other", tasks=2, each="gpu=8", on="n4 n5"))

    found: Any = board.fits("64 × 1 gpu in one tier 1")

    assert ("24 of 64 in r0, 5 nodes short", 24, 5) == (
        *(found["near"][0][name] for name in ("text", "fits")),
        found["near"][0]["nodes"],
    )


def test_a_job_that_waits_is_told_the_fewest_to_evict() -> None:
    """Of lower priority only, on the nodes where most is gained for each that goes."""
    board = _board(
        gang("small", tasks=4, each="gpu=2", on="n0 n0 n0 n0"),
        gang("large", tasks=1, each="gpu=8", on="n1"),
        gang("firm", tasks=4, each="gpu=8", on="n4 n5 n6 n7", priority=2000),
        gang("urgent", tasks=3, each="gpu=8", within=1, priority=1000),
    )

    page: Any = board.job("default/urgent")

    assert ["2 of 3 in r0, 1 node short"] == [one["text"] for one in page["near"]]
    assert ["1 pod of 1 job of lower priority in r0"] == [one["text"] for one in page["victims"]]


def test_a_job_that_runs_is_told_nothing_of_it() -> None:
    """It has its place."""
    page: Any = _board(gang("runs", tasks=1, each="gpu=8", on="n0")).job("default/runs")

    assert {"near", "victims"}.isdisjoint(page)
