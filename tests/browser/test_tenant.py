"""The page for one namespace in a real browser: what a user sees with a token, and what happens without the right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.boards import HOSTILE
from tests.support.browser import BROWSER, Page, in_browser, serious
from tests.support.draw import draw, gang
from tests.support.tenants import KnownUsers, in_namespace, shared_objects

from tierwise.answers.app import application
from tierwise.answers.service import AnswerService
from tierwise.config.profile import DEFAULT
from tierwise.web.views import Basis

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

OBJECTS = shared_objects(
    draw("r0[n0 n1] r1[n2 n3]", node="gpu=4"),
    {
        "blue": [
            gang("runs", tasks=2, each="gpu=4", within=1, on="n0 n1"),
            gang("waits", tasks=4, each="gpu=4", queue=HOSTILE),
            gang("large", tasks=3, each="gpu=4", within=1),
        ],
        "red": [gang("red-runs", tasks=1, each="gpu=4", on="n2")],
    },
)


def _service() -> AnswerService:
    return AnswerService(lambda: Basis(OBJECTS, DEFAULT, 1_767_225_600.0))


async def _enter(page: Page, at: str, namespace: str) -> None:
    await page.go(at)
    await page.click("#namespace")
    await page.type(namespace)
    await page.click("#token")
    await page.type("t-ann")
    await page.press("Enter")


def test_a_user_sees_the_jobs_of_the_namespace_and_why_they_wait(tmp_path: Path) -> None:
    """Jobs, one job's story, queues, free room and a dry run, at three widths; nothing of another namespace."""
    manifests = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": in_namespace(gang("new", tasks=1, each="gpu=4").manifests(), "blue"),
        }
    )

    async def act(page: Page, at: str) -> None:
        await _enter(page, at, "blue")
        await page.until("document.getElementById('jobs').innerText.includes('large')")
        for width, height in ((390, 844), (1440, 900)):
            await page.size(width, height)
            assert not await page.ask("document.documentElement.scrollWidth > innerWidth + 1")
        await page.click("#jobs tbody tr:nth-child(1) button")
        await page.until("document.getElementById('job').innerText.includes('what to do')")
        story = await page.ask("document.getElementById('job').innerText")
        assert "never" in story
        assert "red" not in (await page.ask("document.querySelector('main').innerText")).replace("required", "")
        await page.click("#manifests")
        await page.type(manifests)
        await page.click("#try button")
        await page.until("document.getElementById('tried').innerText.includes('would start')")
        assert [] == await serious(page)

    in_browser(tmp_path, application(_service(), KnownUsers({"ann": ["blue"]})), act)


def test_who_may_not_list_pods_is_told_so(tmp_path: Path) -> None:
    """In one sentence, and the page stays usable."""

    async def act(page: Page, at: str) -> None:
        await _enter(page, at, "red")
        await page.until("document.getElementById('fault').innerText.includes('may not list pods')")

    in_browser(tmp_path, application(_service(), KnownUsers({"ann": ["blue"]})), act)
