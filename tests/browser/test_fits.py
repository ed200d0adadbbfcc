"""What fits where in a real browser; long lists by reason; and the same page on narrow screens and for odd names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.boards import Fixed, shown
from tests.support.browser import BROWSER, Page, in_browser, serious
from tests.support.draw import World, draw, gang, objects_of

from tierwise.api.codec import Raw
from tierwise.port import Objects
from tierwise.web.app import pages

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

RACKS = "s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]"


def _asked(objects: Objects) -> web.Application:
    """The pages of objects, which may be asked questions."""
    return pages(Fixed(shown(objects, questions=True)))


_LIT = "[...document.querySelectorAll('#fabric .map .fits.block')].map((b) => b.dataset.key).join(' ')"


def test_a_typed_shape_lights_up_the_domains_that_take_it(tmp_path: Path) -> None:
    """By keys, with an address; what cannot be read is told with an example; slots and an opened job lead there."""
    world = draw(RACKS, node="gpu=8", running="n0:gpu=8 n2:gpu=4")
    waits = gang("waits", tasks=3, each="gpu=8", within=1)

    async def act(page: Page, at: str) -> None:
        await page.size(1400, 900)
        await page.go(at)
        await page.ask("document.getElementById('shape').focus()")
        await page.type("2 × 8 gpu in one tier 1")
        await page.press("Enter")
        await page.until(f"{_LIT} === 's0 r2'")
        assert "1 of 3 domains takes 2 pods of 8 nvidia.com/gpu each in one tier 1: r2" in await page.ask(
            "document.querySelector('#fabric [role=status]').innerText"
        )
        assert await serious(page) == []
        await page.ask("(f => { f.value = 'a lot'; f.form.requestSubmit(); })(document.getElementById('shape'))")
        await page.until("document.querySelector('#fabric [role=alert]')?.innerText.includes('write for example')")
        await page.press("Escape")
        await page.until("location.hash === '#/'")
        await page.click("#slots td.num a[href*=fits]")
        await page.until("document.querySelectorAll('#fabric .map .fits').length > 0")
        await page.go(f"{at}?1#/jobs/default/waits")
        await page.click("#fabric form button[type=button]")
        told = "document.querySelector('#fabric [role=status]')?.innerText"
        await page.until(f"{told}.includes('No domain takes 3 pods')")

    in_browser(tmp_path, _asked(objects_of(world, waits)), act)


def test_hundreds_that_wait_are_one_row_for_each_reason(tmp_path: Path) -> None:
    """With counts, and those that wait longest; one click lists all of a reason."""
    gangs = [gang(f"wide-{i:02d}", tasks=3, each="gpu=8", within=1) for i in range(40)]
    gangs += [gang(f"big-{i:02d}", tasks=1, each="gpu=9") for i in range(20)]

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        rows = "[...document.querySelectorAll('#waiting .reason')].map((r) => r.innerText.replace(/\\s+/g, ' '))"
        assert ["never larger than any domain 40 jobs 120 pods", "never no feasible node 20 jobs 20 pods"] == (
            await page.ask(rows)
        )
        assert await page.ask("document.querySelectorAll('#waiting a.entry').length") == 6
        assert "needs 3 whole nodes in one hyperNode of tier 1; no hyperNode of tier 1 has more than 2" in (
            await page.ask("document.querySelector('#waiting a.entry').innerText")
        )
        assert await serious(page) == []
        await page.click("#waiting a.more")
        await page.until("document.querySelectorAll('#waiting a.entry').length === 40")

    in_browser(tmp_path, _asked(objects_of(draw(RACKS, node="gpu=8"), *gangs)), act)


def test_the_drawer_stands_beside_the_list_that_it_came_from(tmp_path: Path) -> None:
    """From 901 px on nothing that can be reached lies under it."""
    gangs = [gang(f"job-{i}", tasks=1, each="gpu=1", within=1) for i in range(8)]
    hidden = (
        "[...document.querySelectorAll('main a[href], main button, header a, header input')].filter((e) => {"
        " const r = e.getBoundingClientRect(); return r.width && r.right >"
        " document.getElementById('drawer').getBoundingClientRect().left + 1; }).length"
    )

    async def act(page: Page, at: str) -> None:
        for width in (1024, 1280, 1400, 1920):
            await page.size(width, 900)
            await page.go(f"{at}?{width}#/jobs/default/job-3")
            await page.until("!document.getElementById('drawer').hidden")
            await page.until(f"({hidden}) === 0")
            await page.until("document.documentElement.scrollWidth <= innerWidth")

    in_browser(tmp_path, _asked(objects_of(draw(RACKS, node="gpu=8"), *gangs)), act)


def test_a_phone_gets_cards_and_targets_for_fingers(tmp_path: Path) -> None:
    """Cells of tables say their titles, nothing is cut off, and what is pressed measures 24 px."""
    gangs = [gang(f"job-{i}", tasks=2, each="gpu=8", within=1) for i in range(4)]
    small = (
        "[...document.querySelectorAll('#fabric .stop, main td a, #waiting a.entry, summary')].filter((e) => {"
        " const r = e.getBoundingClientRect(); return r.width && (r.width < 24 || r.height < 24); })"
        ".map((e) => e.outerHTML.slice(0, 90))"
    )

    async def act(page: Page, at: str) -> None:
        await page.size(390, 844)
        for state in ("#/", "#/jobs/default/job-3"):
            await page.go(f"{at}?{len(state)}{state}")
            await page.until("document.documentElement.scrollWidth <= innerWidth")
            wide = "[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth).length"
            assert await page.ask(wide) == 0
            assert [] == await page.ask(small)
            assert await serious(page) == []
        assert await page.ask("getComputedStyle(document.querySelector('#cycles td'), '::before').content") == '"job"'

    in_browser(tmp_path, _asked(objects_of(draw(RACKS, node="gpu=8"), *gangs)), act)


def test_names_of_any_letters_scramble_nothing(tmp_path: Path) -> None:
    """Right-to-left letters and marks stay inside their name, in sentences, too; regions have names of their own."""
    odd = [gang("مهمة", tasks=1, each="gpu=1", within=1), gang("\u202eabc", tasks=1, each="gpu=1", within=1)]
    odd += [gang("waits", tasks=2, each="gpu=8", within=1)]
    loose = (
        "(() => { const found = [], all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
        " while (all.nextNode()) if (/[\\u0590-\\u08ff\\u202e]/.test(all.currentNode.data)"
        " && !all.currentNode.parentNode.closest('bdi, option, code, #spoken')) found.push(all.currentNode.data);"
        " return found; })()"
    )

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        assert await page.ask(
            "[...document.querySelectorAll('#running a.entry b, #cycles td:first-child a')]"
            ".every((e) => e.firstElementChild?.localName === 'bdi')"
        )
        assert [] == await page.ask(loose)
        await page.go(f"{at}?1#/jobs/default/waits")
        assert "رف" in await page.ask("document.querySelector('#drawer .said').innerText")
        assert [] == await page.ask(loose)
        labels = await page.ask("[...document.querySelectorAll('[role=region]')].map((e) => e.ariaLabel)")
        assert len(set(labels)) == len(labels)

    world = draw("s0: رف-0[n0 n1] رف-1[n2 n3]", node="gpu=8", running="n0:gpu=1 n2:gpu=1")
    in_browser(tmp_path, _asked(objects_of(world, *odd)), act)


def test_what_names_share_is_told_once(tmp_path: Path) -> None:
    """Where there is little room, domains are named by what tells them apart, and the rest stands above them."""
    racks = [f"leaf-{n}[rack-{2 * n}[n{2 * n}] rack-{2 * n + 1}[n{2 * n + 1}]]" for n in range(50)]
    spines = [f"spine-{n}[{' '.join(racks[10 * n : 10 * n + 10])}]" for n in range(5)]
    block = "document.querySelector('#fabric .block[data-key=spine-4]')"

    async def act(page: Page, at: str) -> None:
        await page.size(1280, 900)
        await page.go(at)
        await page.until(f"{block}?.innerText.includes('leaf-…')")
        await page.until(
            f"[...{block}.querySelectorAll('.whose, .label b, .block .name a bdi')]"
            ".map((e) => e.innerText).join(' ').includes('40 41 42')"
        )
        await page.until(f"{block}.getBoundingClientRect().height < 900")
        await page.until("document.documentElement.scrollWidth <= innerWidth")
        # a phone lists them by their whole names
        await page.size(390, 844)
        listed = "[...document.querySelectorAll('#fabric .domains a')].map((a) => a.innerText).join(' ')"
        await page.until(f"{listed} === 'spine-0 spine-1 spine-2 spine-3 spine-4'")
        await page.click("#fabric .domains li[data-key=spine-4] a")
        await page.until(f"{listed}.startsWith('leaf-40 leaf-41')")
        await page.until("document.documentElement.scrollWidth <= innerWidth")

    in_browser(tmp_path, _asked(objects_of(draw(" ".join(spines), node="gpu=8"))), act)


def test_a_cluster_without_nodes_says_what_to_do(tmp_path: Path) -> None:
    """With a command to copy, and without tables that have nothing in them."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        assert "tierwise serve -f examples/01-llm-training" == await page.ask(
            "document.querySelector('#fabric .command code').innerText"
        )
        assert await page.ask("document.getElementById('slots').hidden")
        assert await serious(page) == []

    in_browser(tmp_path, _asked(Objects()), act)


def test_a_queue_above_its_limit_is_marked(tmp_path: Path) -> None:
    """In words beside its name, and in its bar."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "bio"},
        "spec": {"capability": {"nvidia.com/gpu": "2"}},
    }
    running = gang("runs", tasks=2, each="gpu=8", queue="bio", on="n0 n1")

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        row = "[...document.querySelectorAll('#queues tr')].find((r) => r.innerText.includes('bio'))"
        assert "above its limit" in await page.ask(f"{row}.innerText")
        assert await page.ask(f"{row}.querySelector('.gauge.over') !== null")
        assert await serious(page) == []

    world = draw(RACKS, node="gpu=8")
    world = World((*world.manifests, queue), world.drawing)
    in_browser(tmp_path, _asked(objects_of(world, running)), act)


def test_a_wall_of_windows_shares_one_stream(tmp_path: Path) -> None:
    """Eight windows of one browser are all drawn, though it has six connections to a host."""
    world = draw(RACKS, node="gpu=8")

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/jobs/default/runs")
        for number in range(7):
            await page.call("Target.createTarget", url=f"{at}?{number}#/jobs/default/runs", newWindow=True)
        titles: list[str] = []
        for _ in range(1200):
            titles = [target["title"] for target in (await page.call("Target.getTargets"))["targetInfos"]]
            if titles.count("runs · tierwise") == 8:
                break
            await asyncio.sleep(0.05)
        assert titles.count("runs · tierwise") == 8
        assert (
            await page.ask("performance.getEntriesByType('resource').filter((e) => e.name.includes('events')).length")
            == 0
        )

    in_browser(tmp_path, _asked(objects_of(world, gang("runs", tasks=1, each="gpu=1"))), act)
