"""Tables of the pages: every row that matches, in the order asked for, as JSON and as CSV; and what a drain costs."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from tests.support.boards import scheduled
from tests.support.draw import draw, gang, objects_of

from tierwise.api.errors import InputError
from tierwise.explain.board import Board, TableQuery

RACKS = "s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]"
BOARD = Board(
    scheduled(
        objects_of(
            draw(RACKS, node="gpu=8", cordoned="n5"),
            gang("full", tasks=2, each="gpu=8", on="n0 n1"),
            gang("part", tasks=2, each="gpu=2", on="n2 n2"),
            gang("=wide", tasks=9, each="gpu=8", within=1),
        )
    )
)


def _rows(table: str, **asked: Any) -> list[dict[str, Any]]:
    found: Any = BOARD.table(TableQuery(table, **asked))
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("-share", ["r0", "r1", "r2"]),  # the fullest first
        ("share", ["r2", "r1", "r0"]),
        ("-shut,domain", ["r2", "r0", "r1"]),
        ("-pods,domain", ["r0", "r1", "r2"]),
    ],
)
def test_domains_are_ordered_by_any_columns(sort: str, names: list[str]) -> None:
    """Fullest and emptiest racks, and those that may be drained."""
    assert names == [row["domain"] for row in _rows("domains", sort=sort, tier="lowest")]


def test_a_domain_tells_what_draining_it_costs_by_counting() -> None:
    """Pods that restart, gangs that fall below their minimum, and whether their kinds of pods have room outside."""
    found = {row["domain"]: row for row in _rows("domains", tier="1")}

    assert (2, 1, 1) == tuple(found["r0"][name] for name in ("pods", "broken", "jobs"))
    assert ["enough", "enough", "nothing runs"] == [found[rack]["elsewhere"] for rack in ("r0", "r1", "r2")]
    assert (16, 12, 8) == tuple(found["r0" if i == 0 else f"r{i}"]["total" if i == 0 else "free"] for i in range(3))
    assert (1, 2) == (found["r2"]["shut"], found["r2"]["empty"] + found["r2"]["shut"])


def test_rows_are_selected_by_words_and_conditions() -> None:
    """All of them must hold; a number that none is compared with meets nothing."""
    assert ["n5"] == [row["node"] for row in _rows("nodes", text="state=cordoned")]
    assert ["n0", "n1"] == [row["node"] for row in _rows("nodes", text="r0 free<1")]
    assert ["n2"] == [row["node"] for row in _rows("nodes", text="pods>=2")]
    assert [] == _rows("nodes", text="free>many")
    assert ["default/full"] == [row["job"] for row in _rows("jobs", text="running full")]


@pytest.mark.parametrize(
    ("table", "asked", "said"),
    [
        ("nodes", {"sort": "fre"}, "fre is no column of nodes"),
        ("nodes", {"text": "fre>1"}, "fre is no column of nodes"),
        ("node", {}, "there is no table node"),
        ("domains", {"tier": "row"}, "row is none of the tiers"),
    ],
)
def test_what_cannot_be_read_is_told(table: str, asked: dict[str, Any], said: str) -> None:
    """With what was meant, where that is near."""
    with pytest.raises(InputError, match=said):
        BOARD.table(TableQuery(table, **asked))


def test_a_table_is_told_in_parts_and_counts_all() -> None:
    """So many rows at a time, from a place on."""
    found: Any = BOARD.table(TableQuery("nodes", offset=2, limit=2))

    assert (6, 6, ["n2", "n3"]) == (found["count"], found["of"], [row[0] for row in found["rows"]])


def test_csv_has_every_row_that_matches_and_no_formula() -> None:
    """What a tenant has named like a formula stays a text in a spreadsheet."""
    text: Any = BOARD.csv(TableQuery("jobs", sort="job"))["csv"]
    rows = list(csv.DictReader(io.StringIO(text)))

    assert 3 == len(rows)
    assert not any(value.startswith("=") for row in rows for value in row.values())
    assert "r0" in {row["domain"] for row in rows}


def test_queues_are_a_table_too() -> None:
    """With what they use of the resource that is shown, and nothing where there is no limit."""
    board = Board(
        scheduled(
            objects_of(
                draw(RACKS, node="gpu=8", queues="a b"),
                gang("full", tasks=2, each="gpu=8", on="n0 n1", queue="a"),
            )
        )
    )
    found: Any = board.table(TableQuery("queues", sort="-used"))
    names = [column["name"] for column in found["columns"]]
    first = dict(zip(names, found["rows"][0], strict=True))

    assert ("a", 16, None) == (first["queue"], first["used"], first["capability"])
