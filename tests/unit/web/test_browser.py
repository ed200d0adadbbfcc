"""The page in a real browser: that its scripts run under their own policy, and what a reader finds there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.boards import HOSTILE, Fixed, shown
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.runtime.listener import listening
from tierwise.web.app import LOOPBACK, pages

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

OBJECTS = objects_of(
    draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4"),
    gang("fits", tasks=2, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
    gang("astray", tasks=1, each="gpu=4", queue=HOSTILE),
)


def _text(folder: Path, port: int, address: str) -> str:
    """The page as it stands after a moment, without tags."""
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=2500")
    url = f"http://{HOST}:{port}/{address}"
    run = subprocess.run(
        [BROWSER, *words, f"--user-data-dir={folder}", url], capture_output=True, text=True, timeout=60, check=True
    )
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", run.stdout))


def test_the_page_shows_the_board_and_a_link_leads_to_a_job(tmp_path: Path) -> None:
    """Domains with their use, who waits and why, the job of the address; a hostile name is text."""
    port = free_port()
    with listening(pages(Fixed(shown(OBJECTS)), LOOPBACK), HOST, port):
        text = _text(tmp_path, port, "#/jobs/default/waits")

    assert "8 of 16 gpu in use, 8 free on 4 nodes" in text
    assert "r0 8/8" in text
    assert "Why it waits" in text
    assert "2 of 4" in text  # pods that fit in the best rack
    assert "queue &lt;script&gt;alert(1)&lt;/script&gt;" in text
