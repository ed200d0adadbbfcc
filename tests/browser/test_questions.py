"""Questions in a real browser: a slow answer, a link that is shared, and what restarts beside what only plans."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.boards import Fixed, shown
from tests.support.browser import BROWSER, Page, in_browser, questions_process
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster import rounds
from tierwise.web.app import pages

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

WHATIF = "document.getElementById('whatif').innerText"


def _running() -> Objects:
    """A gang that runs, and two that would start."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="gpu=4")
    begun = rounds.schedule(objects_of(world, gang("runs", tasks=2, each="gpu=4", within=1)), DEFAULT, now=0.0)
    more = objects_of(world, gang("plans", tasks=2, each="gpu=4", within=1), gang("waits", tasks=6, each="gpu=4"))
    raws = {key: more.raw(key) for key in more if key.kind in ("Pod", "PodGroup")}
    return begun.cluster.read().changed({key: raw for key, raw in raws.items() if raw is not None})


def test_a_shared_link_draws_the_board_at_once_and_the_answer_when_it_is_there(tmp_path: Path) -> None:
    """What runs and what only plans are told apart, in a sentence, by chips and by arrows between two maps."""

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/?if=drain%3Dn5")
        await page.until(f"{WHATIF}.includes('The map and the lists show')")  # from now on there is a process
        worker = questions_process()
        os.kill(worker, signal.SIGSTOP)
        try:
            await page.go(f"{at}?1#/?if=drain%3Dr0")
            await page.until(f"/Working it out, [1-9]/.test({WHATIF})")
            assert "runs" in await page.ask("document.getElementById('running').innerText")
            assert "all take pods" in await page.ask("document.getElementById('figures').innerText")
            # another question, beside the first, which is ended
            await page.ask("location.hash = '#/?if=drain%3Dr1'")
            await page.until(f"{WHATIF}.includes('drain r1') && /Working it out/.test({WHATIF})")
            await page.ask("location.hash = '#/?if=drain%3Dr0'")
        finally:
            os.kill(worker, signal.SIGCONT)
        await page.until(f"{WHATIF}.includes('2 pods restart, 0 jobs stop')")
        await page.until("document.getElementById('figures').innerText.includes('2 take no pods')")
        text = await page.ask(WHATIF)
        assert "2 of 2 pods restart" in text
        assert await page.ask("document.querySelectorAll('#whatif svg.flows path.flow.runs').length") > 0
        for width in (400, 1400):
            await page.size(width, 900)
            await page.until("document.documentElement.scrollWidth <= innerWidth")

    in_browser(tmp_path, pages(Fixed(shown(_running(), questions=True))), act)


def test_a_question_that_is_closed_is_ended(tmp_path: Path) -> None:
    """The drawer of a job that waits: its question tells how far it is, and ends with the drawer; the next answers."""

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/jobs/default/waits")
        await page.click("#drawer details[data-key=eta] summary")
        await page.until("document.querySelector('#drawer [data-key=eta] .said') !== null")
        worker = questions_process()
        os.kill(worker, signal.SIGSTOP)
        await page.click("#drawer details[data-key=least] summary")
        await page.until("document.querySelector('#drawer [data-key=least]').innerText.includes('Working it out')")
        await page.press("Escape")
        await page.until("document.getElementById('drawer').hidden")
        os.kill(worker, signal.SIGCONT)
        await page.go(f"{at}?2#/jobs/default/waits")
        await page.click("#drawer details[data-key=least] summary")
        await page.until("document.querySelector('#drawer [data-key=least] li') !== null")

    in_browser(tmp_path, pages(Fixed(shown(_running(), questions=True))), act)
