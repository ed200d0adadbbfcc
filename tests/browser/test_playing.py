"""Recordings in a real browser: play, pause, step, speed, a time of day, two runs, and what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import BROWSER, Page, in_browser, serious

from tierwise.runtime.access import LOOPBACK, Access
from tierwise.sim.cluster.agenda import NodeBack, NodeLost
from tierwise.web.app import pages
from tierwise.web.recording import Recording
from tierwise_lab.replay.engine.contenders import BUILT_IN
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.engine.run import Comparison
from tierwise_lab.replay.recording import ReplayRecording
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")


def _histories() -> dict[str, Recording]:
    """The same dozen jobs under two profiles; a host fails and comes back."""
    fabric = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=2", 4)
    trace = synthetic_trace("synthetic:jobs=12,gap=300,mean=1800,largest=16", 3)
    rules = Rules(incidents=(NodeLost(600.0, fabric.nodes.names[0]), NodeBack(3000.0, fabric.nodes.names[0])))
    run = Comparison(fabric, trace, [BUILT_IN[name](1) for name in ("default", "random")], rules, record=True)
    for _ in run.run():
        pass
    return {
        contender.name: ReplayRecording(fabric, run.trace, contender, rules, log)
        for contender, log in zip(run.contenders, run.logs, strict=True)
    }


async def _choose(page: Page, key: str, value: str) -> None:
    """Pick an option of a list beside the scrubber."""
    found = f"document.querySelector('#time select[data-key={key}]')"
    await page.ask(f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})({found})")


def test_a_recording_plays_in_the_page(tmp_path: Path) -> None:
    """The end is shown first and called recorded; keys and buttons lead through time, on the same map."""
    histories = _histories()
    moments: Any = histories["default"].wire()["moments"]
    lost = next(moment["id"] for moment in moments if moment["evicted"])
    text = "document.getElementById('time').innerText"

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        last = await page.ask("Number(/moment \\d+ of (\\d+)/.exec(document.getElementById('time').innerText)[1])")
        assert f"moment {last} of {last}" in await page.ask(text)
        assert "recorded" in await page.ask("document.querySelector('.top').innerText")
        assert "ago" not in await page.ask("document.querySelector('.top').innerText")
        await page.press(",")
        await page.until(f"{text}.includes('moment {last - 1} of {last}')")
        assert await page.ask(f"{text}.includes('What happened here') && {text}.includes('From here to the end')")
        # play from the beginning, pause, and go on faster, to the end
        playing = "document.querySelector('#time button[data-key=play]').innerText"
        await page.click("#time button[data-key=now]")
        await page.until(f"{text}.includes('moment {last} of {last}')")
        await page.click("#time button[data-key=play]")
        await page.until(f"{playing} === 'pause' && /moment \\d of/.test({text})")
        await page.press("p")
        await page.until(f"{playing} === 'play'")
        assert f"moment {last} of" not in await page.ask(text)
        await _choose(page, "speed", "16")
        await page.press("p")
        await page.until(f"{playing} === 'play' && {text}.includes('moment {last} of {last}')")
        # what happened at a time: find it as anything else
        await page.press("/")
        await page.type("00:10")
        await page.until(
            "document.querySelector('#hits [aria-selected=true]')?.textContent === 'What happened at 00:10'"
        )
        await page.press("Enter")
        await page.until(f"{text}.includes('What happened from day 1, 00:10:00 on, in 60 s')")
        await page.until(f"{text}.includes('1 node stopped taking pods: ') && {text}.includes('(not ready)')")
        # who lost its place, and why
        await page.ask(f"location.hash = '#/?at={lost}'")
        await page.until(f"{text}.includes('evicted of replay/job-') && {text}.includes('its host failed')")
        # another run at the same time, and a job of that moment
        await _choose(page, "run", "random")
        await page.until("location.hash.includes('run=random') && !location.hash.includes('@')")
        await page.until(f"{text}.includes('day 1, 00:1') || {text}.includes('day 1, 00:0')")
        await page.click("#running a.entry")
        await page.until("document.querySelector('#drawer').innerText.includes('Where its pods are')")
        assert "On the command line" not in await page.ask("document.querySelector('#drawer').innerText")
        for width in (400, 1280, 2560):
            await page.size(width, 900)
            await page.until("document.documentElement.scrollWidth <= innerWidth")
        assert await serious(page) == []

    in_browser(tmp_path, pages(histories["default"], Access(LOOPBACK), histories), act)
