"""What people see of a life, byte for byte: the lines of `submit`, and a frame of its live view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.support.commands import run

from tierwise.api.core import parse_time
from tierwise.cli.inputs import load
from tierwise.config.profile import DEFAULT
from tierwise.explain.page import ASCII, UNICODE, Page
from tierwise.explain.text.submit import View, frame
from tierwise.sim.cluster.agenda import Incident, NodeLost, PodFails
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import build

WORLD = Path(__file__).parent / "life.yaml"
WORDS = ("submit", "-f", WORLD, "--fail", "train-2=137@90s", "--lose-node", "n1@200s")
Golden = Callable[[str, str], str]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", ["submit", "submit-watch", "submit-all"])
def test_lines(name: str, width: int, golden: Golden) -> None:
    """A line for each thing that happens, and a summary; where there is no terminal, --watch changes nothing."""
    more = {"submit": (), "submit-watch": ("--watch",), "submit-all": ("--all",)}[name]
    result = run(*WORDS, *more, width=width)

    assert 0 == result.exit_code, result.stderr
    assert golden(f"{name.removesuffix('-watch')}.{width}.txt", result.stdout) == result.stdout
    assert width >= max(map(cell_len, result.stdout.splitlines()))


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json(form: str, golden: Golden) -> None:
    """The answer for programs."""
    actual = run(*WORDS, "-o", form).stdout

    assert golden(f"submit.{form}", actual) == actual


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50)])
def test_frame(width: int, height: int, golden: Golden) -> None:
    """One picture of the live view fits its terminal, and shows the moment and nothing later."""
    view = _view(250)
    lines = [line.plain.rstrip() for line in frame(Page(width, UNICODE), view, height, "30 times as fast")]
    actual = "\n".join(lines) + "\n"

    assert golden(f"submit-frame.{width}.txt", actual) == actual
    assert (True, True) == (len(lines) <= height, width >= max(map(cell_len, lines)))
    assert all(line.plain.isascii() for line in frame(Page(width, ASCII), view, height))


def _view(until: float) -> View:
    start = parse_time("2026-03-02T09:01:00Z")
    incidents: list[Incident] = [PodFails(90, "default/train-2", 137), NodeLost(200, "n1")]
    life = Simulation(load([str(WORLD)]), DEFAULT, start=start, incidents=incidents)
    last = list(life.run(until))[-1]
    after = build(last.objects, start + last.at)
    told = life.history
    return View(last.at, last.objects, after, last.report, told.events, told.places, life.cycles, life.unfinished)
