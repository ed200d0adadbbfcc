"""Figures of the pages at size, which the guide tells: `python -m tests.browser.figures [NODES]`.

How long questions take until the first word, the first part and the answer, and how many bytes an open page takes in a
minute while jobs come and go every second.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.boards import Fixed, scheduled
from tests.support.browser import browser
from tests.support.large_cluster import CONFIG, NOW, large_cluster
from tests.support.ports import HOST, free_port

from tierwise.api import codec
from tierwise.cli.inputs import profile_of
from tierwise.explain.board import Board
from tierwise.port import Create, Delete, Objects, key_of_raw
from tierwise.runtime.listener import listening
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import SCHEDULER_NAMES
from tierwise.web.app import pages
from tierwise.web.live import LiveRuns
from tierwise.web.views import Basis, RunView

QUESTIONS = {
    "what if a rack is drained": "what-if?if=drain%3Drack-40",
    "what if another rack is drained": "what-if?if=drain%3Drack-41",
    "what would start a job now": "least/team-search/leaf-002",
    "when does a job start": "eta/team-search/leaf-002",
    "what can be drained": "drainable",
}


def _asked(address: str) -> str:
    begun, times = time.monotonic(), dict[str, float]()
    request = Request(address, headers={"Accept": "application/x-ndjson"})
    with urlopen(request, timeout=600) as answer:
        for line in answer:
            message = json.loads(line)
            times.setdefault("first word", time.monotonic() - begun)
            if "part" in message:
                times.setdefault("first part", time.monotonic() - begun)
            if "answer" in message or "fault" in message:
                times["answer" if "answer" in message else message["fault"]] = time.monotonic() - begun
    return ", ".join(f"{what} after {seconds:.1f} s" for what, seconds in times.items())


async def _traffic(address: str, change: object, seconds: int) -> tuple[int, int]:
    """Bytes that an open page takes while something changes every second, and how many changes there were."""
    taken = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with browser(Path(folder)) as page:
            await page.size(1280, 900)
            await page.go(address)
            await page.ask("performance.setResourceTimingBufferSize(100000), performance.clearResourceTimings()")
            end, changes = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                await asyncio.to_thread(change)  # type: ignore[arg-type]  # a function without arguments
                changes += 1
                await asyncio.sleep(1.0)
            taken = await page.ask("performance.getEntriesByType('resource').reduce((s, e) => s + e.transferSize, 0)")
    return int(taken), changes


def main(nodes: int) -> None:
    """Print the figures."""
    raws = large_cluster(nodes)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(CONFIG)
        file.flush()
        profile = profile_of(file.name)
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    view = RunView(
        Board(scheduled(objects, profile, now=NOW)), mode="manifests", title="", basis=Basis(objects, profile, NOW)
    )
    port = free_port()
    with listening(pages(Fixed(view)), HOST, port):
        for what, path in QUESTIONS.items():
            print(f"{what}: {_asked(f'http://{HOST}:{port}/api/{path}')}", flush=True)
    live, cluster, chance, now = LiveRuns("measured"), EmbeddedCluster(objects), random.Random(1), NOW
    loop = Loop(
        cluster, [SchedulerProfile(SCHEDULER_NAMES, profile)], clock=lambda: now, ticks=lambda: 0.0, observers=[live]
    )
    loop.run_once()

    def change() -> None:
        """A gang that runs ends, and the next cycle gives its place to another."""
        nonlocal now
        now += 1.0
        running = [raw for raw in raws if raw["kind"] == "PodGroup" and key_of_raw(raw) in cluster.read()]
        gone = chance.choice(running)["metadata"]["name"]  # type: ignore[index]  # as it was made
        of_gang = [raw for raw in raws if raw["kind"] == "Pod" and raw["metadata"]["name"].rpartition("-")[0] == gone]  # type: ignore[index]
        cluster.apply([Delete(key_of_raw(raw)) for raw in of_gang])
        fresh = json.loads(json.dumps(of_gang))
        for raw in fresh:
            raw["spec"].pop("nodeName", None)
            raw["status"] = {"phase": "Pending"}
        cluster.apply([Create(raw) for raw in fresh])
        loop.run_once()
        cluster.advance_pods()

    port = free_port()
    with listening(pages(live), HOST, port):
        taken, changes = asyncio.run(_traffic(f"http://{HOST}:{port}/", change, 60))
    print(f"traffic of an open page: {taken / 1000:.0f} kB in a minute with {changes} changes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
