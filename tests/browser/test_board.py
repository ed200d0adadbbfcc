"""The page in a real browser, by clicks and keys, at three widths: what was clicked is in view, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.boards import HOSTILE, Fixed, Growing, shown
from tests.support.browser import BROWSER, Page, in_browser, serious
from tests.support.commands import EXAMPLES
from tests.support.draw import draw, gang, objects_of

from tierwise.cli.inputs import load, profile_of
from tierwise.web.app import pages

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

WORLD = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4")
GANGS = (
    gang("fits", tasks=2, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
    gang("astray", tasks=1, each="gpu=4", queue=HOSTILE),
)
OBJECTS = objects_of(WORLD, *GANGS)
MANY = objects_of(
    draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=64"),
    *(gang(f"job-{number:03d}", tasks=1, each="gpu=1", within=1) for number in range(120)),
)
SIZES = ((400, 800), (1280, 900), (1920, 1080))


def _growing() -> Growing:
    """A board that gets another job."""
    return Growing(shown(OBJECTS), shown(objects_of(WORLD, *GANGS, gang("later", tasks=1, each="gpu=1"))))


def test_the_page_shows_the_board_and_a_link_leads_to_a_job(tmp_path: Path) -> None:
    """Domains with their use, who waits and why, the job of the address; a hostile name is text."""

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/jobs/default/waits")
        text = await page.ask("document.body.innerText")
        assert "8 of 16 gpu in use, 8 free on 4 nodes" in text
        assert "Why it waits" in text
        assert "2 of 4" in text  # pods that fit in the best rack
        assert f"queue {HOSTILE}" in text
        assert await page.ask("[...document.querySelectorAll('.block')].some((b) => b.innerText.includes('r0'))")

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS))), act)


def test_what_was_clicked_is_in_view_has_the_focus_and_closes(tmp_path: Path) -> None:
    """A job far down a list, at three widths: its story is seen at once, Escape closes it and leads back."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for width, height in SIZES:
            await page.size(width, height)
            await page.ask("document.querySelector('#running details.fold')?.setAttribute('open', '')")  # on a phone
            await page.click("#running li:nth-child(45) a.entry")
            await page.until("!document.getElementById('drawer').hidden")
            box = await page.ask(
                "(() => { const r = document.querySelector('#drawer h2').getBoundingClientRect();"
                " return [r.top, r.bottom, r.left, r.right, innerHeight, innerWidth]; })()"
            )
            assert 0 <= box[0] < box[1] <= box[4]
            assert 0 <= box[2] < box[3] <= box[5]
            assert await page.ask("document.activeElement.closest('#drawer') !== null")
            assert "is open" in await page.ask("document.getElementById('spoken').textContent")
            await page.until("document.documentElement.scrollWidth <= innerWidth")
            await page.press("Escape")
            await page.until("document.getElementById('drawer').hidden")
            assert await page.ask("document.activeElement.matches('a.entry')")

    in_browser(tmp_path, pages(Fixed(shown(MANY))), act)


def test_a_search_finds_whatever_has_a_name(tmp_path: Path) -> None:
    """Jobs beyond the first page, nodes and domains, by keys alone; the last hit narrows the lists, in the address."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for text, state in (("job-117", "#/jobs/default/job-117"), ("n3", "#/nodes/n3"), ("r1", "#/?in=r1")):
            await page.press("/")
            await page.type(text)
            await page.until(f"document.querySelector('#hits [aria-selected=true]')?.textContent.includes('{text}')")
            await page.press("Enter")
            await page.until(f"location.hash === '{state}'")
            await page.go(f"{at}?{text}")  # from the beginning
        await page.press("/")
        await page.type("job-00")
        await page.until("document.querySelectorAll('#hits [role=option]').length > 5")
        await page.press("ArrowUp")
        await page.press("Enter")
        await page.until("location.hash === '#/?q=job-00'")
        await page.until("document.querySelectorAll('#running a.entry').length === 10")

    in_browser(tmp_path, pages(Fixed(shown(MANY))), act)


def test_enter_opens_what_is_in_the_field_and_not_an_older_answer(tmp_path: Path) -> None:
    """However fast somebody types: what was listed for fewer letters is left, and nothing opens again afterwards."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for number in (117, 23, 104, 7):
            name = f"job-{number:03d}"
            await page.press("/")
            await page.type("job-")
            await page.until("document.querySelectorAll('#hits [role=option]').length > 5")
            await page.type(name.removeprefix("job-"))
            await page.press("Enter")  # before the answer to all of it
            await page.until(f"location.hash === '#/jobs/default/{name}'")
            await page.until("document.activeElement.closest('#drawer') !== null")  # it is open, and has the focus
            await page.until("document.getElementById('hits').hidden")
            await page.go(f"{at}?{number}")
        await page.press("/")
        await page.type("job-1")
        await page.press("Escape")  # before any answer
        await page.ask("new Promise((done) => setTimeout(done, 300))")
        assert await page.ask("document.getElementById('hits').hidden")

    in_browser(tmp_path, pages(Fixed(shown(MANY))), act)


def test_a_redraw_keeps_what_a_reader_has_chosen_and_opened(tmp_path: Path) -> None:
    """A newer board changes elements in place: selection, open details, focus and scroll survive it."""
    growing = _growing()

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/jobs/default/waits")
        await page.click("#drawer details[data-key=nodes-for] summary")
        await page.until(
            "document.querySelector('#drawer details[data-key=nodes-for]').innerText.includes('would take')"
        )
        await page.ask("getSelection().selectAllChildren(document.querySelector('#drawer .said'))")
        await page.ask("document.querySelector('#drawer h2').kept = true")
        growing.go_on()
        await page.until("document.getElementById('running').innerText.includes('later')")
        assert await page.ask("document.querySelector('#drawer h2').kept")
        assert await page.ask("document.querySelector('#drawer details[data-key=nodes-for]').open")
        assert "needs 4 whole nodes" in await page.ask("getSelection().toString()")

    in_browser(tmp_path, pages(growing), act)


def test_past_moments_are_shown_on_the_same_map(tmp_path: Path) -> None:
    """The page hears of a newer state by itself; the scrubber leads back, what has changed since is told."""
    growing = _growing()

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        assert await page.ask("document.getElementById('time').hidden")
        growing.go_on()
        await page.until("document.getElementById('running').innerText.includes('later')")
        await page.until("!document.getElementById('time').hidden")
        await page.until("document.querySelectorAll('#queues svg.spark').length > 0")
        await page.ask("document.querySelector('#time input[type=range]').focus()")
        await page.press("ArrowLeft")
        await page.until("location.hash === '#/?at=1'")
        await page.until("!document.getElementById('running').innerText.includes('later')")
        assert "1 job have started" not in await page.ask("document.getElementById('time').innerText")
        assert "later" in await page.ask("document.getElementById('time').innerText")
        await page.click("#time button[data-key=now]")
        await page.until("location.hash === '#/'")

    in_browser(tmp_path, pages(growing), act)


def test_what_if_shows_the_same_board_with_changes(tmp_path: Path) -> None:
    """A drained node by a link, a wrong change refused in place, manifests that are pasted, the least change."""
    pasted = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": gang("pasted", tasks=1, each="gpu=4").manifests()}
    )

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/nodes/n0")
        await page.click("#drawer a[href*='if=drain']")
        await page.until("document.getElementById('whatif').innerText.includes('drain n0')")
        await page.until("document.getElementById('whatif').innerText.includes('plans elsewhere')")
        await page.until("document.getElementById('figures').innerText.includes('1 take no pods')")
        await page.press("Escape")
        await page.ask("document.querySelector('#whatif form input').focus()")
        await page.type("nowhere")
        await page.press("Enter")
        await page.until("document.querySelector('#whatif [role=alert]')?.textContent.includes('nowhere')")
        await page.go(f"{at}?again#/?asking=1")
        await page.ask("document.querySelector('#whatif details').open = true")
        await page.ask("document.querySelector('#whatif textarea').focus()")
        await page.type(pasted)
        await page.click("#whatif details form button")
        await page.until("document.getElementById('running').innerText.includes('pasted')")
        await page.go(f"{at}?more#/jobs/default/waits")
        await page.click("#drawer details[data-key=least] summary")
        await page.until("document.querySelector('#drawer [data-key=least]').innerText.includes('add')")

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS, questions=True))), act)


def test_every_change_is_made_by_clicks(tmp_path: Path) -> None:
    """A rack added or cordoned, a tier relaxed, another priority or quota, an example; and a link for others."""
    effect = "document.querySelector('#whatif table + table, #whatif .scroll + .scroll')?.innerText ?? ''"

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/?asking=1")
        await page.click("#fabric .block[data-key=s0] a.add")
        await page.until(
            "location.hash.includes('add-domains') && document.querySelector('.block[data-key=r1-new-1]') !== null"
        )
        await page.go(f"{at}?1#/?in=r1")
        await page.click("#fabric .questions a[href*='if=cordon']")
        await page.until("document.getElementById('figures').innerText.includes('2 take no pods')")
        await page.go(f"{at}?2#/jobs/default/waits")
        await page.click("#drawer .questions a[href*='hard%253A2']")
        await page.until(f"({effect}).includes('another reason')")
        await page.until("document.getElementById('drawer').hidden")
        address = await page.ask("location.href")
        await page.go(address.replace("?2", "?3"))  # what somebody else opens
        await page.until(f"({effect}).includes('another reason')")
        await page.go(f"{at}?4#/jobs/default/waits")
        await page.click("#drawer .questions a[href*='asking=priority']")
        await page.until("document.activeElement.value === 'default/waits='")
        await page.type("9")
        await page.press("Enter")
        await page.until("document.getElementById('whatif').innerText.includes('priority default/waits=9')")
        await page.click("#queues a[href*='asking=quota'][aria-label*=default]")
        await page.until("document.activeElement.value === 'default:nvidia.com/gpu='")
        await page.type("1")
        await page.press("Enter")
        await page.until(f"({effect}).includes('waits longer')")
        await page.go(f"{at}?5#/?asking=1")
        await page.click("#whatif summary")
        await page.ask(
            "(() => { const s = document.querySelector('#whatif select[name=example]'); s.selectedIndex = 3;"
            " s.dispatchEvent(new Event('change')); })()"
        )
        await page.click("#whatif details form button")
        await page.until(f"({effect}).includes('example-0')")
        assert await serious(page) == []

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS, questions=True))), act)


def test_a_fabric_is_chosen_and_jobs_light_up_in_it(tmp_path: Path) -> None:
    """By a click, with an address; the drawer leads to each fabric that the job has a constraint on."""
    folder = str(EXAMPLES / "14-several-fabrics")

    async def act(page: Page, at: str) -> None:
        await page.go(f"{at}#/jobs/default/train")
        await page.click("#fabric nav[aria-label=Fabrics] li:nth-child(2) a")
        await page.until("location.hash === '#/jobs/default/train?fabric=nvlink'")
        lit = "[...document.querySelectorAll('#fabric .lit.block')].map((b) => b.dataset.key).join(' ')"
        await page.until(f"{lit} === 'nvl-3 nvl-4'")
        assert await serious(page) == []
        await page.click("#drawer td a[href*='fabric=power&in=feed-b']")
        await page.until("document.querySelector('#fabric .crumbs').innerText.includes('feed-b')")
        await page.until(f"document.querySelectorAll('#fabric .map .lit.cell').length === 4 && {lit} === ''")
        await page.press("Escape")
        await page.press("u")
        await page.until("location.hash === '#/?fabric=power'")
        await page.click("#fabric .block[data-key=feed-a] a")
        await page.click("#fabric a[href*='if=drain']")
        await page.until("document.getElementById('whatif').innerText.includes('waits longer')")

    in_browser(tmp_path, pages(Fixed(shown(load([folder]), questions=True))), act)


def test_a_map_of_any_size_fits_one_screen(tmp_path: Path) -> None:
    """Trees of 64 to 10,000 nodes and up to 8 tiers have a layout that fits; equal domains are drawn equally large."""
    shapes = [[2, 4, 8], [7, 11, 11], [5, 25, 4], [10, 10, 10], [2, 2, 2, 2, 2, 2, 5, 5], [1400], [31, 47], [3, 3, 3]]
    fits = """(async () => {
      const { fitting } = await import('/static/layout.js');
      const below = (d, number) => [...Array(number).keys()].map((i) => d + String.fromCharCode(i));
      const tree = (shape) => ({
        inner: (d) => (d.length < shape.length - 1 ? below(d, shape[d.length]) : []), units: () => shape.at(-1),
        brief: (d) => d.slice(-1) });
      const fits = (shape) => fitting(tree(shape), '', WIDTH, HEIGHT, { tiles: false }).legible;
      return SHAPES.filter((shape) => !fits(shape) && !fits(shape.slice(0, -1))).map(String); // nodes, or their domains
    })()"""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for width, height in ((680, 570), (1100, 750), (1700, 970)):
            asked = (
                fits.replace("SHAPES", json.dumps(shapes)).replace("WIDTH", str(width)).replace("HEIGHT", str(height))
            )
            assert await page.ask(asked) == []
        for width, height in SIZES:
            await page.size(width, height)
            blocks = await page.ask(
                "[...document.querySelectorAll('#fabric .map .block')].map((b) => {"
                " const r = b.getBoundingClientRect();"
                " return [b.querySelectorAll('.block').length, Math.round(r.width), Math.round(r.height)]; })"
            )
            assert len({tuple(block) for block in blocks}) == len({block[0] for block in blocks})

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS))), act)


def test_the_map_shows_where_free_amounts_are_fragmented(tmp_path: Path) -> None:
    """From the account of a resource, with an address; the domains with most of it are named."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4", running="n2:gpu=2 n3:gpu=1")

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        await page.click("#figures .parts a")
        await page.until("location.hash === '#/?show=fragmented'")
        await page.until("document.querySelector('#fabric .note')?.innerText.includes('s0 (5)')")
        assert "5 of 16 gpu fragmented" in await page.ask("document.getElementById('fabric').innerText")
        assert await serious(page) == []

    in_browser(
        tmp_path,
        pages(Fixed(shown(objects_of(world, *GANGS[:1], gang("waits", tasks=1, each="gpu=4", within=1))))),
        act,
    )


def test_nodes_are_reached_by_keys(tmp_path: Path) -> None:
    """One tab stop for the map, arrows inside it; Enter opens a domain or a node with its facts."""

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        assert await page.ask("document.querySelectorAll('#fabric .stop[tabindex=\"0\"]').length") == 1
        await page.ask("document.querySelector('#fabric .stop[tabindex=\"0\"]').focus()")
        for _ in range(8):
            if await page.ask("document.activeElement.matches('a.cell')"):
                break
            await page.press("ArrowDown")
        await page.press("Enter")
        await page.until("location.hash.startsWith('#/nodes/n')")
        await page.until("document.querySelector('#drawer')?.innerText.includes('node in')")

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS))), act)


def test_services_are_drawn_on_their_zones(tmp_path: Path) -> None:
    """A chip for each workload, reached by keys, that leads to its job; a line for each call; the same as a table."""
    folder = EXAMPLES / "09-online-boutique"
    profile = profile_of(str(folder / "scheduler.conf"))

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        for width, height in SIZES:
            await page.size(width, height)
            await page.until("document.querySelectorAll('#services a.workload').length === 11")
            assert await page.ask("document.querySelectorAll('#services g.call').length") == 15
            await page.until("document.documentElement.scrollWidth <= innerWidth")
        await page.ask("document.querySelectorAll('#services details').forEach((d) => { d.open = true; })")
        assert await serious(page) == []
        assert await page.ask("document.querySelector('#services table').rows.length") == 16
        await page.ask("document.querySelector('#services a.workload[aria-label^=checkout]').focus()")
        await page.press("Enter")
        await page.until("location.hash === '#/jobs/default/checkout'")
        await page.until("document.getElementById('drawer').innerText.includes('z1 → z2')")

    in_browser(tmp_path, pages(Fixed(shown(load([str(folder)]), profile))), act)


def test_axe_has_nothing_serious_to_say(tmp_path: Path) -> None:
    """No serious finding on the page as it is opened, with a job, with a node, and in a domain."""

    async def act(page: Page, at: str) -> None:
        states = ("#/", "#/jobs/default/waits", "#/nodes/n0", "#/jobs/default/fits", "#/?in=r0")
        for (width, height), number in zip(SIZES, (2, 5, 1), strict=True):  # all of them at one width
            await page.size(width, height)
            for state in states[:number]:
                await page.go(f"{at}?{width}-{states.index(state)}{state}")
                assert await serious(page) == [], (width, state)

    in_browser(tmp_path, pages(Fixed(shown(OBJECTS))), act)
