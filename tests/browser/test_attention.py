"""What deserves attention, tables and near misses in a real browser: each leads to its story, by clicks and links."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from tests.support.boards import Fixed, shown
from tests.support.browser import BROWSER, Page, in_browser, serious
from tests.support.commands import ROOT
from tests.support.draw import draw, gang, objects_of

from tierwise.cli.inputs import load, profile_of
from tierwise.port import Objects
from tierwise.web.app import pages

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

GOLDEN = ROOT / "tests" / "golden"
RACKS = "r0[n0 n1 n2 n3] r1[n4 n5 n6 n7]"
SHORT = objects_of(
    draw(RACKS, node="gpu=8", cordoned="n7"),
    gang("small", tasks=4, each="gpu=2", on="n0 n0 n0 n0"),
    gang("large", tasks=1, each="gpu=8", on="n1"),
    gang("firm", tasks=3, each="gpu=8", on="n4 n5 n6", priority=2000),
    gang("urgent", tasks=3, each="gpu=8", within=1, priority=1000),
)


def _asked(objects: Objects) -> web.Application:
    return pages(Fixed(shown(objects, questions=True)))


def test_attention_is_first_and_each_line_leads_to_its_story(tmp_path: Path) -> None:
    """A queue over its share and a rack with bad nodes; a cluster where all is well says so."""
    objects = load([str(GOLDEN / "attention.yaml")])
    app = pages(Fixed(shown(objects, profile_of(str(GOLDEN / "attention.conf")))))

    async def act(page: Page, at: str) -> None:
        for width in (1440, 390):
            await page.size(width, 900)
            await page.go(f"{at}?{width}")
            assert await page.ask("document.querySelector('main').firstElementChild.id") == "attention"
            told = await page.ask("document.getElementById('attention').innerText")
            assert "research uses 3.00 times its share" in told
            assert "rack-a 2 of its 4 nodes" in told
            assert await serious(page) == []
            await page.until("document.documentElement.scrollWidth <= innerWidth")
        await page.click("#attention li[data-key=BadNodes] a")
        await page.until("location.hash === '#/?in=rack-a'")
        await page.click("#attention li[data-key=OverShare] a")
        await page.until("location.hash.includes('queue=research')")

    in_browser(tmp_path, app, act)


def test_a_quiet_cluster_says_that_nothing_deserves_attention(tmp_path: Path) -> None:
    """In one line."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        assert "nothing deserves attention" in await page.ask("document.getElementById('attention').innerText")

    in_browser(tmp_path, pages(Fixed(shown(objects_of(draw("r0[n0 n1]", node="gpu=4"))))), act)


_FIRST = "[...document.querySelectorAll('#table tbody tr')].map((row) => row.cells[0].innerText).join(' ')"


def test_tables_are_sorted_and_filtered_in_the_address(tmp_path: Path) -> None:
    """By clicks and by what is typed; what cannot be read is told; a file has the same rows; cells lead on."""

    async def act(page: Page, at: str) -> None:
        await page.size(1440, 900)
        await page.go(at)
        await page.click("#tables")
        await page.until(f"{_FIRST} === 'r1 r0'")  # the fullest first
        await page.click("#table nav a[href*='table=nodes']")
        await page.until(f"{_FIRST}.startsWith('n0 n1 n2')")
        await page.ask("document.getElementById('find').value = 'free>0 state=ready'")
        await page.ask("document.getElementById('find').form.requestSubmit()")
        await page.until(f"{_FIRST} === 'n2 n3'")
        assert await page.ask("location.hash.includes('table=nodes')")
        await page.click("#table th a[href*='by=-free'], #table th a[href*='by=free']")
        await page.until("document.querySelector('#table th[aria-sort]')?.innerText.startsWith('free')")
        assert await serious(page) == []
        file = "document.querySelector('#table a[download]').getAttribute('href')"
        text = await page.ask(f"fetch({file}).then((answer) => answer.text())")
        assert ["node", "n2", "n3"] == [line.split(",")[0] for line in text.splitlines()]
        await page.ask("document.getElementById('find').value = 'fre>0'")
        await page.ask("document.getElementById('find').form.requestSubmit()")
        await page.until("document.querySelector('#table [role=alert]')?.innerText.includes('is no column of nodes')")
        await page.go(f"{at}?2#/?table=jobs&by=job&find=running")
        await page.until(f"{_FIRST} === 'default/firm default/large default/small'")
        await page.size(390, 844)
        await page.until("document.documentElement.scrollWidth <= innerWidth")
        assert await serious(page) == []
        await page.size(1440, 900)
        await page.click("#table tbody a")
        await page.until("!document.getElementById('drawer').hidden")

    in_browser(tmp_path, _asked(SHORT), act)


def test_a_job_that_waits_is_told_at_once_where_it_nearly_fits(tmp_path: Path) -> None:
    """In its drawer, and where a shape fits nowhere; what can be drained is counted before any run."""

    async def act(page: Page, at: str) -> None:
        await page.size(1440, 900)
        await page.go(f"{at}#/jobs/default/urgent")
        drawer = "document.getElementById('drawer').innerText"
        await page.until(f"{drawer}.includes('2 of 3 in r0, 1 node short')")
        assert "1 pod of 1 job of lower priority in r0" in await page.ask(drawer)
        await page.ask("location.hash = '#/?fits=' + encodeURIComponent('4 × 8 gpu in one tier 1')")
        await page.until("document.getElementById('fabric').innerText.includes('2 of 4 in r0, 2 nodes short')")
        await page.ask("location.hash = '#/?asking=1'")
        await page.click("#whatif details[data-key=drains] summary")
        rows = "document.querySelectorAll('#whatif table tbody tr').length"
        await page.until(f"{rows} === 2")

    in_browser(tmp_path, _asked(SHORT), act)
