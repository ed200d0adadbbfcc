"""Reservations on the command line: schedule, explain, top, the board, simulate, and settings that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.boards import scheduled
from tests.support.commands import EXAMPLES, ROOT, answer, manifests, run
from tests.support.reservations import BIG, BUSY, NOW, TWO_RACKS, job, profile

from tierwise.api import codec
from tierwise.explain.board import Board
from tierwise.port import Objects

EXAMPLE = EXAMPLES / "16-reservations"
WITH = ("-f", EXAMPLE / "cluster.yaml", "--config", EXAMPLE / "reservations.conf", "--now", "2026-01-01T12:00:00Z")
RESERVED = (
    "reserved rack-b from 2026-01-01T12:20:00Z; ml/tune ends then (it states 1h); "
    "it holds back only jobs of its namespace, as no deadline ensures that the jobs before it end by then"
)


def test_schedule_lists_reservations() -> None:
    """Where, from when, on which nodes, after whom."""
    expected = {
        "podGroup": "ml/train",
        "hyperNode": "rack-b",
        "from": "2026-01-01T12:20:00Z",
        "until": None,
        "nodes": {"b0": 1, "b1": 1, "b2": 1},
        "awaits": ["ml/tune"],
        "quotas": [],
        "after": [],
        "lapses": "2026-01-01T12:26:00Z",
        "message": RESERVED,
    }
    found = answer("schedule", *WITH)

    assert [expected] == found["reservations"]
    assert {"ml/quick-0", "ml/sweep-0"} == found["bindings"].keys()
    assert expected == answer("explain", *WITH, "--job", "ml/train")["reservation"]


def test_nothing_is_said_without_reservations() -> None:
    """A profile without them prints what it always printed."""
    without = ("-f", EXAMPLE / "cluster.yaml", "--now", "2026-01-01T12:00:00Z")

    assert "reservations" not in answer("schedule", *without)
    assert "reservation" not in answer("explain", *without, "--job", "ml/train")
    assert "reserv" not in run("schedule", *without).stdout.lower()


def test_why_tells_of_both_sides() -> None:
    """The gang hears of its reservation, and the pod that is held back of the gang."""
    assert RESERVED in answer("why", *WITH, "ml/train-0")["message"]
    assert "WouldDelayReservation" == answer("why", *WITH, "ml/notebook-0")["reason"]


def test_top_shows_what_is_written_on_groups(tmp_path: Path) -> None:
    """A table by time, and the same as JSON; a group that runs by now is not in it."""
    marks = {"tierwise.io/reservation": '{"domain": "r1", "from": "2026-01-01T12:20:00Z"}'}
    unknown = {"tierwise.io/reservation": '{"domain": "<cluster-top-hypernode>"}'}
    file = manifests(tmp_path, *TWO_RACKS.manifests, *BUSY, *job("big", 2, marks=marks), *job("wide", 4, marks=unknown))
    page = run("top", "-f", file).stdout

    assert "Reservations" in page
    assert ["big", "r1", "2026-01-01T12:20:00Z"] in [line.split() for line in page.splitlines()]
    assert ["wide", "several", "not", "known"] in [line.split() for line in page.splitlines()]
    assert {
        "default/big": {"hyperNode": "r1", "from": "2026-01-01T12:20:00Z"},
        "default/wide": {"hyperNode": "<cluster-top-hypernode>", "from": None},
    } == answer("top", "-f", file)["reservations"]
    assert "reservations" not in answer("top", "-f", manifests(tmp_path, *TWO_RACKS.manifests, *BUSY, *BIG))


def test_wrong_settings_are_one_line(tmp_path: Path) -> None:
    """File and field, and exit status 2."""
    file = tmp_path / "wrong.conf"
    file.write_text('actions: "allocate"\nconfigurations:\n- name: allocate\n  arguments: {reservations: maybe}\n')
    result = run("schedule", "-f", EXAMPLE / "cluster.yaml", "--config", file)

    assert 2 == result.exit_code
    assert result.stderr.strip().endswith(
        'wrong.conf: configurations.allocate.reservations: "maybe" is none of off, easy and conservative'
    )


def test_off_is_off(tmp_path: Path) -> None:
    """YAML reads a bare `off` as false, and both mean the same."""
    for word in ("off", '"off"', "false"):
        file = tmp_path / "off.conf"
        text = (EXAMPLE / "reservations.conf").read_text().replace("easy", word)
        file.write_text(text)
        assert "reservations" not in answer("schedule", *WITH[:2], "--config", file, *WITH[4:])


def test_simulate_compares_modes() -> None:
    """Both modes are contenders, and what they know of durations is an option."""
    words = ("simulate", "--topology", "synthetic:spines=1,leaves=2,hosts=2", "--trace", "synthetic:jobs=20,gap=60")
    outcomes = {
        how: answer(*words, "--profile", "easy", "--profile", "conservative", "--durations", how)["outcomes"]
        for how in ("stated", "history", "unknown")
    }

    for found in outcomes.values():
        assert ["easy", "conservative"] == [outcome["profile"] for outcome in found]
        assert all(20 == outcome["jobs"]["finished"] for outcome in found)


def test_the_board_has_what_a_page_draws() -> None:
    """The reservation with the numbers of the domains around it, one for each tree."""
    every = [*TWO_RACKS.manifests, *BUSY, *BIG]
    found: Any = Board(scheduled(Objects.of((codec.decode(raw), raw) for raw in every), profile(), now=NOW)).wire()
    (one,) = found["reservations"]

    assert ("default/big", "r1", [3]) == (one["podGroup"], one["hyperNode"], one["hyperNodes"])
    assert {"n2": 1, "n3": 1} == one["nodes"]


@pytest.mark.parametrize(
    ("plugin", "figures"),
    [
        ("capacity", "(cpu: 1 asked, 2 used, 3 reserved, 4 allowed)"),
        ("proportion", "(cpu: 1 asked, 2 used, 3 reserved, 4 deserved)"),
    ],
)
def test_what_is_only_reserved_is_not_called_used(tmp_path: Path, plugin: str, figures: str) -> None:
    """A queue pays for the reservation of its gang: two cpus run, three are reserved, and one more has no room."""
    name = "b1-reservation-for-a-quota-with-a-moment-to-come-is-charged-control"
    case = yaml.safe_load((ROOT / f"tests/conformance/cases/findings-3/{name}.yaml").read_text())
    config = tmp_path / "scheduler.conf"
    config.write_text(case["config"].replace("capacity", plugin))
    words = ["schedule", "-f", manifests(tmp_path, *case["objects"]), "--config", config, "--cycles", 1, *case["args"]]
    told = {row["pod"]: row["message"] for row in answer(*words)["pending"]}

    assert figures in told["team/small-0"]
    assert "reserved, " not in told["team/gang-0"]  # it does not pay for its own
