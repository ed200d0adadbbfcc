"""axe finds nothing serious in any state of the page: while somebody asks, waits, is answered, or looks at the past."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.boards import Fixed, Growing, shown
from tests.support.browser import BROWSER, Page, in_browser, questions_process, serious
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster import rounds
from tierwise.web.app import pages

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

LOOKS = ((390, 844, "light"), (1280, 900, "dark"), (1920, 1080, "light"))
WHATIF = "document.getElementById('whatif').innerText"
TIME = "document.getElementById('time').innerText"
DRAWER = "document.getElementById('drawer').innerText"
RACKS = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="gpu=4")
RUNS = gang("runs", tasks=2, each="gpu=4", within=1)
WAITS = gang("waits", tasks=6, each="gpu=4")


def _begun(*more: object) -> Objects:
    """A gang that runs, and what comes later."""
    begun = rounds.schedule(objects_of(RACKS, RUNS), DEFAULT, now=0.0).cluster.read()
    later = objects_of(RACKS, *more)  # type: ignore[arg-type]  # gangs
    raws = {key: later.raw(key) for key in later if key.kind in ("Pod", "PodGroup")}
    return begun.changed({key: raw for key, raw in raws.items() if raw is not None})


async def _looked(page: Page, state: str) -> None:
    """The page as it is, at three widths, light and dark: nothing serious, and nothing beside the screen."""
    for width, height, scheme in LOOKS:
        await page.size(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await page.call("Emulation.setEmulatedMedia", features=features)
        assert await serious(page) == [], (state, width, scheme)
        await page.until("document.documentElement.scrollWidth <= innerWidth")


def test_states_of_questions(tmp_path: Path) -> None:
    """The form, a question that is worked on, its answer, a refusal, what can be drained, and questions of a job."""

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/?asking=1")
        await page.until(f"{WHATIF}.includes('submit manifests')")
        await _looked(page, "asking")
        await page.click("#whatif details[data-key=drains] summary")
        await page.until(f"{WHATIF}.includes('all restart elsewhere')")
        assert "r0\t2\t1" in await page.ask(f"{WHATIF}")
        await _looked(page, "what can be drained")
        await page.ask("location.hash = '#/?if=drain%3Dnowhere'")
        await page.until("document.querySelector('#whatif [role=alert]') !== null")
        await _looked(page, "refused")
        await page.ask("location.hash = '#/?if=drain%3Dr0'")
        await page.until(f"{WHATIF}.includes('The map and the lists show')")
        await _looked(page, "answered")
        worker = questions_process()
        os.kill(worker, signal.SIGSTOP)
        try:
            await page.ask("location.hash = '#/?if=drain%3Dr1'")
            await page.until(f"/Working it out, [1-9]/.test({WHATIF})")
            await _looked(page, "worked on")
        finally:
            os.kill(worker, signal.SIGCONT)
        await page.until(f"!/Working it out/.test({WHATIF})")
        await page.ask("location.hash = '#/jobs/default/waits'")
        for key in ("eta", "least", "nodes-for"):
            asked = f"document.querySelector('#drawer details[data-key={key}]')"
            await page.until(f"{asked} !== null")
            await page.ask(f"{asked}.querySelector('summary').click()")  # answers above it move it about
            await page.until(f"{asked}.open")
        await page.until("document.querySelector('#drawer [data-key=least] li') !== null")
        await page.until("document.querySelector('#drawer [data-key=eta] .said') !== null")
        await _looked(page, "a job with its questions answered")

    in_browser(tmp_path, pages(Fixed(shown(_begun(WAITS), questions=True))), act)


def test_states_of_time(tmp_path: Path) -> None:
    """Several moments, a while, a past moment, a job and a node of it, and a domain that is opened."""
    more = [gang(f"later-{number}", tasks=1, each="gpu=4", within=1) for number in range(4)]
    source = Growing(*(shown(_begun(WAITS, *more[:number])) for number in range(5)))

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for number in range(4):
            source.go_on()
            known = f"fetch('/api/history').then((r) => r.json()).then((h) => h.moments.length === {number + 2})"
            await page.until(known)
        await page.go(f"{at}?1")
        await page.until("document.querySelectorAll('#time .uplot canvas').length >= 4")
        await _looked(page, "series")
        first, last = await page.ask(
            "fetch('/api/history').then((r) => r.json()).then((h) => [h.moments[0].now, h.moments.at(-1).now])"
        )
        for state, there in (
            ("?at=2", f"{TIME}.includes('as it was')"),
            (f"?at=5&during={int(first)}-{int(last) + 1}", f"{TIME}.includes('What happened from')"),
            ("?at=2&in=r0", f"{TIME}.includes('as it was')"),
            ("jobs/default/runs?at=2", f"{DRAWER}.includes('Of past moments')"),
            ("nodes/n0?at=2", f"{DRAWER}.includes('told of now alone')"),
            ("nodes/nowhere?at=2", f"{DRAWER}.includes('no such node')"),
        ):
            await page.ask(f"location.hash = '#/{state}'")
            await page.until(there)
            await _looked(page, state)

    in_browser(tmp_path, pages(source), act)


def test_a_cluster_without_anything(tmp_path: Path) -> None:
    """Without nodes, and with nodes of which no job wants any."""
    for folder, objects in (("none", Objects()), ("idle", objects_of(RACKS))):

        async def act(page: Page, at: str) -> None:
            await page.go(at)
            await _looked(page, "empty")

        in_browser(tmp_path / folder, pages(Fixed(shown(objects))), act)
