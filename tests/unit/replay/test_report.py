"""The report of a simulation: a verdict first, differences, overlaps in words, units, and how to repeat it."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import BROWSER, browser
from tests.support.commands import run

from tierwise_lab.replay.report.plots import Series, bars, coincidences
from tierwise_lab.replay.report.table import FIGURES, verdict

SMALL = ("--topology", "synthetic:spines=1,leaves=2,hosts=2", "--trace", "synthetic:jobs=12,gap=60,mean=900,largest=32")


def _outcome(name: str, *, occupancy: float = 0.9, wait: float = 60.0, leaves: float = 2.0, lost: float = 0.0) -> Any:
    """What a verdict looks at."""
    return {
        "profile": name,
        "jobs": {"arrived": 9, "finished": 8},
        "gpus": {"occupancy": occupancy},
        "times": {"wait_seconds": {"mean": wait}},
        "spread": {"leaves": {"mean": leaves}},
        "gpu_hours": {"lost": lost},
    }


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([_outcome("a")], ["a: 8 of 9 jobs finished; GPU occupancy 90.00 %, wait, mean 1.0 min"]),
        ([_outcome("a"), _outcome("b")], ["No difference: GPU occupancy, wait, mean, leaves per gang, mean"]),
        (
            [_outcome("a", wait=90.0), _outcome("b", leaves=1.0)],
            ["b is best in 2 of 2 figures: wait, mean 1.0 min (a 1.5 min); leaves per gang, mean 1.00 (a 2.00)."],
        ),
        (
            [_outcome("a", wait=90.0), _outcome("b", occupancy=0.8, lost=3.0)],
            [
                "a is best in 2 of 3 figures: GPU occupancy 90.00 % (b 80.00 %)",
                "b is best in wait, mean 1.0 min (a 1.5",
            ],
        ),
        ([_outcome("a", wait=100.0), _outcome("b", wait=100.9)], ["No difference"]),  # a seed's worth
        (
            [_outcome("a"), _outcome("b", occupancy=0.899), _outcome("c", occupancy=0.5)],
            ["a is best in 1 of 1 figures: GPU occupancy 90.00 % (c 50.00 %)."],
        ),
    ],
)
def test_the_verdict_says_who_is_best_in_what(outcomes: list[Any], said: list[str]) -> None:
    """With the numbers of the others, and with what another profile does better; what is as good counts as such."""
    found = verdict(outcomes)

    assert len(said) == len(found)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("title", "base", "other", "apart", "better"),
    [
        ("GPU occupancy", _outcome("a"), _outcome("b", occupancy=0.925), "+2.50 points", True),
        ("wait, mean", _outcome("a"), _outcome("b", wait=69.0), "+15 %", False),
        ("wait, mean", _outcome("a"), _outcome("b", wait=60.001), "", None),
        ("wait, mean", _outcome("a"), _outcome("b", wait=6000.0), "×100", False),
        ("GPU time lost", _outcome("a"), _outcome("b", lost=2.0), "+2.0 h", False),
        ("leaves per gang, mean", _outcome("a"), _outcome("b", leaves=1.0), "-50 %", True),
    ],
)
def test_differences_have_units_and_a_direction(title: str, base: Any, other: Any, apart: str, better: Any) -> None:
    """Points of a share, else a share of the first profile's number; more is not always better."""
    figure = next(figure for figure in FIGURES if figure.title == title)

    assert (apart, better) == (figure.difference(other, base), figure.is_better(other, base))


def test_lines_that_cover_each_other_are_told() -> None:
    """All of the time, most of it, or not at all."""
    one, same = Series("one", [1.0] * 10), Series("same", [1.0] * 10)
    mostly, other = Series("mostly", [1.0] * 9 + [5.0]), Series("other", [2.0] * 10)

    assert "one and same coincide." == coincidences([one, same])
    assert "one and mostly coincide 90 % of the time." == coincidences([one, mostly])
    assert "" == coincidences([one, other])


def test_bars_have_their_numbers_beside_them() -> None:
    """In a table for those who do not see colours or drawings, and with a number for each contender."""
    drawn = bars(["1 GPU"], [Series("<a>", [1.5]), Series("b", [2.0])], label="Wait", unit="min")

    assert 'aria-label="Wait, in min' in drawn
    assert "<th scope='col'>&lt;a&gt;</th>" in drawn
    assert "<td>1.50</td><td>2.00</td>" in drawn


def test_the_command_repeats_the_run(tmp_path: Path) -> None:
    """What is printed and what the report says gives the same numbers, whatever was asked for besides."""
    asked = ("simulate", *SMALL, "--profile", "best-fit", "--profile", "random", "--seed", "7", "--restart-cost", "90")
    first = run(*asked, "--html", str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    command = re.search(r"<code>tierwise (.*?)</code>", text)
    assert command is not None
    again = run(*command[1].split())

    assert "--html" not in command[1]
    assert first.stdout == again.stdout
    assert command[1].split()[-1] in first.stdout


def test_short_waits_have_a_short_unit(tmp_path: Path) -> None:
    """Waits of seconds are not thousandths of an hour."""
    run("simulate", *SMALL, "--html", str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert "Wait by size, in s," in text or "Wait by size, in min," in text
    assert "0.00" not in re.findall(r"Wait by size.*?</svg>", text, flags=re.DOTALL)[0]


@pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")
def test_the_report_in_a_browser(tmp_path: Path) -> None:
    """Nothing is wider than the window at three widths, and axe has nothing serious to say, light and dark."""
    file = tmp_path / "report.html"
    run("simulate", *SMALL, "--profile", "default", "--profile", "random", "--html", str(file))
    axe = files("axe_core_python").joinpath("axe.min.js").read_text() if find_spec("axe_core_python") else ""

    async def look() -> None:
        async with browser(tmp_path / "profile") as page:
            await page.call("Page.navigate", url=file.as_uri())
            await page.until("document.readyState === 'complete' && document.querySelector('main') !== null")
            await page.ask("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            for width, scheme in ((400, "light"), (1280, "dark"), (2560, "light")):
                await page.size(width, 900)
                await page.call(
                    "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
                )
                assert await page.ask("document.documentElement.scrollWidth <= innerWidth"), width
                if axe:
                    await page.call("Runtime.evaluate", expression=axe)
                    found = await page.ask(
                        "axe.run({resultTypes: ['violations']}).then((r) => r.violations"
                        ".filter((v) => ['serious', 'critical'].includes(v.impact))"
                        ".map((v) => `${v.id}: ${v.nodes.slice(0, 2).map((n) => n.html).join(' ')}`))"
                    )
                    assert found == [], (width, scheme)
            assert page.faults == []

    asyncio.run(look())
