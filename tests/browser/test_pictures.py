"""The pictures of README and guides are the page as it is: taken here, and compared with those in the repository.

Fonts differ between machines, so squares of 8 by 8 pixels are compared, and one in twelve may differ.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.boards import Fixed, scheduled
from tests.support.browser import BROWSER, Act, Page, in_browser
from tests.support.commands import EXAMPLES, ROOT
from tests.support.draw import World, draw, gang, objects_of
from tests.support.pictures import MOST_BYTES, animated, differing, first_frame, photo

from tierwise.cli.inputs import load
from tierwise.config.profile import DEFAULT
from tierwise.explain.board import Board
from tierwise.port import Objects
from tierwise.web.app import pages
from tierwise.web.views import Basis, RunSource, RunView

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

IMAGES = ROOT / "docs" / "images"
TOLERANCE = 1 / 12
NOW = 1_772_443_800.0  # 2026-03-02T09:30:00Z
NAMES = {1: "rack", 2: "leaf", 3: "spine"}


def _view(objects: Objects, title: str) -> Fixed:
    """What `serve` shows for objects on an autumn day."""
    board = Board(scheduled(objects, now=NOW))
    return Fixed(RunView(board, mode="manifests", title=title, basis=Basis(objects, DEFAULT, NOW)))


def _large() -> Objects:
    """A thousand nodes, most of them full, and many jobs that wait for three reasons."""
    chance, running, shut, spines = random.Random(1), list[str](), list[str](), list[str]()
    for spine in range(5):
        leaves = []
        for leaf in range(spine * 10, spine * 10 + 10):
            racks = []
            for rack in range(leaf * 2, leaf * 2 + 2):
                nodes = [f"node-{rack * 10 + i}" for i in range(10)]
                full = chance.random() < 0.75
                for node in nodes:
                    drawn = chance.random()
                    if full or drawn < 0.3:
                        running.append(f"{node}:gpu=8")
                    elif drawn < 0.5:
                        running.append(f"{node}:gpu={chance.randint(1, 7)}")
                    elif drawn < 0.53:
                        shut.append(node)
                racks.append(f"rack-{rack}[{' '.join(nodes)}]")
            leaves.append(f"leaf-{leaf}[{' '.join(racks)}]")
        spines.append(f"spine-{spine}[{' '.join(leaves)}]")
    world = _named(draw(" ".join(spines), node="gpu=8", running=" ".join(running), cordoned=" ".join(shut)))
    gangs = [gang(f"team-{'abc'[i % 3]}-train-{i}", tasks=1 + i % 4, each="gpu=8", within=1) for i in range(12)]
    gangs += [gang(f"eval-{i:02d}", tasks=14, each="gpu=8", within=1) for i in range(30)]
    gangs += [gang(f"pretrain-{i:02d}", tasks=10, each="gpu=8", within=1) for i in range(24)]
    gangs += [gang(f"wide-{i:02d}", tasks=1, each="gpu=16") for i in range(9)]
    return objects_of(world, *gangs)


def _named(world: World) -> World:
    for manifest in world.manifests:
        if manifest["kind"] == "HyperNode":
            manifest["spec"]["tierName"] = NAMES[manifest["spec"]["tier"]]  # type: ignore[index]  # as it was drawn
    return world


async def _hold(page: Page, request: pytest.FixtureRequest, name: str, taken: bytes) -> None:
    """Compare a picture with the one that is kept, or keep it."""
    file = IMAGES / name
    assert len(taken) <= MOST_BYTES, name
    if request.config.getoption("--update-pictures"):
        file.write_bytes(taken)
    still = [first_frame(picture) for picture in (taken, file.read_bytes())]
    assert await differing(page, *still) <= TOLERANCE, f"{name}: make browser ARGS=--update-pictures"


def _take(folder: Path, source: RunSource, act: Act) -> None:
    async def without_bars(page: Page, at: str) -> None:
        await page.call("Emulation.setScrollbarsHidden", hidden=True)
        await act(page, at)

    in_browser(folder, pages(source), without_bars)


def test_pictures_of_the_first_example(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The board as it is opened, and the story of the job that waits."""
    source = _view(load([str(EXAMPLES / "01-llm-training")]), "examples/01-llm-training")

    async def act(page: Page, at: str) -> None:
        await page.size(1280, 800)
        await page.go(at)
        await _hold(page, request, "pages-overview.png", await photo(page))
        await page.go(f"{at}?1#/jobs/default/pretrain")
        await page.until("!document.getElementById('drawer').hidden")
        await _hold(page, request, "pages-why.png", await photo(page))

    _take(tmp_path, source, act)


def test_pictures_of_a_thousand_nodes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What fits where, what is fragmented, jobs by reason, and all of it on a phone."""
    source = _view(_large(), "1,000 nodes")

    async def act(page: Page, at: str) -> None:
        await page.size(1280, 800)
        await page.go(f"{at}?1#/?fits=6 × 8 gpu in one rack")
        await page.until("document.querySelectorAll('#fabric .map .fits').length > 0")
        await _hold(page, request, "pages-fits.png", await photo(page))
        await page.go(f"{at}?2#/?show=fragmented")
        await _hold(page, request, "pages-fragmented.png", await photo(page, "#fabric"))
        await page.go(f"{at}?3")
        await _hold(page, request, "pages-reasons.png", await photo(page, "#waiting"))
        await page.size(390, 844)
        await page.go(f"{at}?4")
        await _hold(page, request, "pages-phone.png", await photo(page, "#fabric"))

    _take(tmp_path, source, act)


def test_a_gang_lights_up(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The map before a gang comes, with the gang placed, and with the gang chosen."""
    world = _named(
        draw(
            "spine-0[leaf-0[rack-0[n0..3] rack-1[n4..7] rack-2[n8..11] rack-3[n12..15]] "
            "leaf-1[rack-4[n16..19] rack-5[n20..23] rack-6[n24..27] rack-7[n28..31]]]",
            node="gpu=8",
            running="n0:gpu=8 n1:gpu=8 n5:gpu=4 n8:gpu=8 n9:gpu=8 n10:gpu=8 n17:gpu=2 n21:gpu=8 n29:gpu=8 n30:gpu=8",
        )
    )
    comes = gang("llm-train", tasks=10, each="gpu=8", within=2)
    frames: list[bytes] = []

    async def empty(page: Page, at: str) -> None:
        await page.size(1500, 760)
        await page.go(f"{at}#/jobs/default/nobody")  # a drawer is open in each, so that the map keeps its size
        frames.append(await photo(page, "#fabric .map"))

    async def placed(page: Page, at: str) -> None:
        await empty(page, at)
        await page.go(f"{at}?2#/jobs/default/llm-train")
        await page.until("document.querySelectorAll('#fabric .map .lit.cell').length === 10")
        frames.append(await photo(page, "#fabric .map"))
        await _hold(page, request, "pages-gang.png", animated(frames, (1.2, 1.2, 2.4)))

    _take(tmp_path / "empty", _view(objects_of(world), "32 nodes"), empty)
    _take(tmp_path / "placed", _view(objects_of(world, comes), "32 nodes"), placed)
