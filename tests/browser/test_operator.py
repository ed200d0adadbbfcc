"""Five questions of an operator about 5,000 nodes, in a real browser, each answered as the command line answers it.

How long each takes is printed (`-s`) and told in the guide; what is held here is that the answers are right.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import Fixed, scheduled
from tests.support.browser import BROWSER, Page, browser
from tests.support.commands import answer
from tests.support.large_cluster import GPU, IN_RACK, NOW, RACKS, large_cluster, written
from tests.support.ports import HOST, free_port

from tierwise.api.core import format_time
from tierwise.cli.inputs import load, profile_of
from tierwise.explain.board import Board
from tierwise.runtime.listener import listening
from tierwise.web.app import pages
from tierwise.web.views import Basis, RunView

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

NODES = 5000
DRAWER = "document.getElementById('drawer').innerText"


class Cluster:
    """The page of a cluster, and what commands say of the same files."""

    def __init__(self, folder: Path) -> None:
        self.file, self.config = written(folder, NODES)
        self.objects, self.profile = load([str(self.file)]), profile_of(str(self.config))
        self.outcome = self.told("schedule")

    def told(self, *words: object, config: bool = True) -> Any:
        """The answer of a command."""
        options = ("--config", self.config, "--now", format_time(NOW)) if config else ()
        return answer(*words, "-f", self.file, *options)

    def view(self) -> RunView:
        board = Board(scheduled(self.objects, self.profile, now=NOW))
        return RunView(board, mode="manifests", title="5,000 nodes", basis=Basis(self.objects, self.profile, NOW))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Made once: it takes a while."""
    return Cluster(tmp_path_factory.mktemp("large"))


@pytest.fixture(scope="module")
def address(cluster: Cluster) -> Iterator[str]:
    """Where its page is."""
    port = free_port()
    with listening(pages(Fixed(cluster.view())), HOST, port):
        yield f"http://{HOST}:{port}/"


@asynccontextmanager
async def _opened(folder: Path, address: str, task: str) -> AsyncIterator[Page]:
    """The page as an operator finds it; says how long the task took from there."""
    async with browser(folder) as page:
        await page.size(1280, 900)
        await page.go(address)
        begun = time.monotonic()
        yield page
        print(f"\n{task}: {time.monotonic() - begun:.1f} s")
        assert page.faults == []


async def _find(page: Page, name: str) -> None:
    """Open something by its name, as people do."""
    await page.press("/")
    await page.type(name)
    await page.until(f"document.querySelector('#hits [aria-selected=true]')?.textContent.includes('{name}')")
    await page.press("Enter")


def test_why_does_this_job_wait(tmp_path: Path, cluster: Cluster, address: str) -> None:
    """The reason, and of each tier the best domain with how many pods fit there, as `explain` and `why` say."""
    told = cluster.told("explain", "--job", "team-search/leaf-002")

    async def use() -> str:
        async with _opened(tmp_path, address, "why does this job wait") as page:
            await _find(page, "leaf-002")
            await page.until(f"{DRAWER}.includes('Why it waits')")
            return str(await page.ask(DRAWER))

    text = asyncio.run(use())

    assert told["reason"] == cluster.told("why", "team-search/leaf-002-0")["reason"]
    assert f"{told['reason']}: {told['message'].split(';')[0]}" in text
    for tier in told["tried"]:
        assert tier["best"] in text
        assert f"{tier['fits']} of {tier['asked']} pods" in text


def test_a_phone_has_a_layout_of_its_own(tmp_path: Path, address: str) -> None:
    """At most 4,000 pixels for 5,000 nodes; tables and counts of drains are there without a run."""

    async def use() -> tuple[int, str]:
        async with _opened(tmp_path, address, "a phone") as page:
            await page.size(390, 844)
            await page.go(f"{address}?phone")
            await page.until("document.querySelector('#fabric .domains') !== null")
            await page.until("document.documentElement.scrollWidth <= innerWidth")
            height = int(await page.ask("document.documentElement.scrollHeight"))
            await page.size(1440, 900)
            await page.go(f"{address}#/?table=domains&tier=lowest&by=broken,lost,pods")
            await page.until("document.querySelectorAll('#table tbody tr').length === 100")
            return height, str(await page.ask("document.querySelector('#table .head').innerText"))

    height, title = asyncio.run(use())

    print(f"a phone: {height} pixels")
    assert height <= 4000
    assert "500 of 500" in title


def test_where_would_64_gpus_in_one_leaf_go(tmp_path: Path, cluster: Cluster, address: str) -> None:
    """The leaves that light up are those with so many free GPUs on nodes that take pods."""
    placed = {**cluster.outcome["bindings"], **dict.fromkeys(e["pod"] for e in cluster.outcome["evictions"])}
    free: Counter[str] = Counter()
    for raw in large_cluster(NODES):
        spec: Any = raw.get("spec")
        meta: Any = raw["metadata"]
        if raw["kind"] == "Node" and not spec["unschedulable"]:
            free[meta["name"]] += 8
        elif raw["kind"] == "Pod":
            node = placed.get(f"{meta['namespace']}/{meta['name']}", spec.get("nodeName"))
            free[node or ""] -= int(spec["containers"][0]["resources"]["requests"][GPU])
    leaves: Counter[str] = Counter()
    for node, gpus in free.items():
        leaves[f"leaf-{int(node[5:]) // (IN_RACK * RACKS)}" if node else ""] += max(0, gpus)
    lit = "[...document.querySelectorAll('#fabric .map .fits.block')].map((b) => b.dataset.key)"

    async def use() -> list[str]:
        async with _opened(tmp_path, address, "where would 64 GPUs in one leaf go") as page:
            await page.ask("document.getElementById('shape').focus()")
            await page.type("64 × 1 gpu in one leaf")
            await page.press("Enter")
            await page.until(f"{lit}.length > 0")
            return list(await page.ask(lit))

    found = asyncio.run(use())

    assert {leaf for leaf, gpus in leaves.items() if gpus >= 64} == {name for name in found if name[:4] == "leaf"}


def test_who_evicted_this_job_and_for_whom(tmp_path: Path, cluster: Cluster, address: str) -> None:
    """The action and the preemptor of each victim, as `schedule` says."""
    (first, *_) = cluster.outcome["evictions"]

    async def use() -> str:
        async with _opened(tmp_path, address, "who evicted this job and for whom") as page:
            await _find(page, first["podGroup"].partition("/")[2])
            await page.until(f"{DRAWER}.includes('Evicted pods')")
            return str(await page.ask(DRAWER))

    text = asyncio.run(use())

    assert "team-search/urgent" == first["by"]
    assert f"{first['pod'].partition('/')[2]} by {first['action']} for {first['by']}: {first['reason']}" in text


def test_what_does_draining_this_rack_break(tmp_path: Path, cluster: Cluster, address: str) -> None:
    """Which jobs restart with how many pods, as `drainable` says."""
    (told,) = cluster.told("drainable", "rack-40")["drains"]
    rows = "[...document.querySelectorAll('#whatif td[data-title=job]')].map((c) => c.closest('tr').innerText)"

    async def use() -> tuple[str, list[str]]:
        async with _opened(tmp_path, address, "what does draining this rack break") as page:
            await _find(page, "rack-40")
            await page.until("location.hash.includes('in=rack-40')")
            await page.click("#fabric .questions a.facet")
            await page.until(
                "document.getElementById('whatif').innerText.includes('The map and the lists show')", patience=300
            )
            return str(await page.ask("document.querySelector('#whatif .said').innerText")), await page.ask(rows)

    sentence, jobs = asyncio.run(use())

    assert sentence.startswith(f"{told['pods']} pods restart")
    for job in told["jobs"]:
        (row,) = [text for text in jobs if text.startswith(f"{job['podGroup']}\t")]
        assert f"{job['podsRestarting']} of {job['podsRunning']} pod" in row


def test_which_queue_is_above_its_share(tmp_path: Path, cluster: Cluster, address: str) -> None:
    """Those that are marked use more than they deserve, and no other does, as `top` counts."""
    used: Counter[str] = Counter()
    for job in cluster.told("top", config=False)["podGroups"].values():
        used[job["queue"]] += job["used"]
    queues: list[Any] = [raw for raw in large_cluster(NODES) if raw["kind"] == "Queue"]
    above = {q["metadata"]["name"] for q in queues if used[q["metadata"]["name"]] > int(q["spec"]["deserved"][GPU])}
    marked = (
        "[...document.querySelectorAll('#queues td.queue')].filter((c) => c.innerText.includes('above its share'))"
        ".map((c) => c.querySelector('a').innerText)"
    )

    async def use() -> list[str]:
        async with _opened(tmp_path, address, "which queue is above its share") as page:
            assert not await page.ask(r"/\d{4,}/.test(document.getElementById('about').innerText)")  # 4,760
            return list(await page.ask(marked))

    found = asyncio.run(use())

    assert {"evals"} == above
    assert above == set(found)
