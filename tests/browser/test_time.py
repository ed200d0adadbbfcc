"""Time in a real browser: an axis of real time, a minute with all that happened in it, and what became of a victim."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.boards import Growing, shown
from tests.support.browser import BROWSER, Page, browser, in_browser
from tests.support.draw import draw, gang, objects_of
from tests.support.evict_world import profile_of
from tests.support.ports import HOST, free_port

from tierwise.port import Create
from tierwise.runtime.journal import JournalWriter
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import LoopPass, SchedulerProfile
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import SCHEDULER_NAMES
from tierwise.web.app import pages
from tierwise.web.journal import JournalRecording
from tierwise.web.recording import Recording

pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

TEXT = "document.getElementById('time').innerText"
DRAWER = "document.getElementById('drawer').innerText"


def test_a_time_after_the_last_change_is_of_today_and_a_while_can_be_written(tmp_path: Path) -> None:
    """What goes on has a past up to now though nothing changes; what is no time is told, with examples."""
    world = draw("r0[n0 n1]", node="gpu=4")
    views = Growing(shown(objects_of(world)), shown(objects_of(world, gang("later", tasks=1, each="gpu=4"))))

    async def act(page: Page, at: str) -> None:
        await page.go(at)
        views.go_on()
        await page.until("!document.getElementById('time').hidden")
        spans = (
            "(async () => { const { spanOf } = await import('/static/past.js');"
            " const day = Math.floor(Date.now() / 86400000) * 86400, now = Date.now() / 1000;"
            " const past = { moments: [{ now: day - 7200 }], elapsed: false, recorded: false };"
            " const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19);"
            " return [spanOf(past, clock(now)).from - Math.floor(now),"
            " spanOf(past, clock(now + 600)).from - Math.floor(now + 600) + 86400,"
            " spanOf({ ...past, recorded: true }, '23:00').from - (day - 90000),"
            " ...['last 10 minutes', 'the last hour', 'last 2h'].map((text) =>"
            " { const span = spanOf(past, text); return span && Math.round((span.to - span.from) / 60); }),"
            " spanOf(past, 'yesterday')]; })()"
        )
        assert [0, 0, 0, 10, 60, 120, None] == await page.ask(spans)
        await page.ask("document.querySelector('#time input[name=time]').value = 'yesterday'")
        await page.ask("document.querySelector('#time form').requestSubmit()")
        told = "document.querySelector('#time input[name=time]').validationMessage"
        assert "a time such as 14:20" in await page.ask(told)
        await page.ask("(f => { f.value = ''; f.focus(); })(document.querySelector('#time input[name=time]'))")
        await page.type("last 10 minutes")
        await page.ask("document.querySelector('#time form').requestSubmit()")
        await page.until("location.hash.includes('during=')")

    in_browser(tmp_path, pages(views), act)


def _manifests(name: str, priority: int) -> list[Create]:
    found: Any = gang(name, tasks=2, each="gpu=4").manifests()
    for raw in found:
        if raw["kind"] == "Pod":
            raw["spec"]["priority"] = priority
    return [Create(raw) for raw in found]


def _journal(folder: Path) -> Recording:
    """A gang that starts; an hour later another that displaces it, in two cycles of one second; a third much later."""
    profile = profile_of("gangpreempt")
    writer = JournalWriter(folder, 1 << 20, (SchedulerProfile(SCHEDULER_NAMES, profile),))

    class Written:
        def saw(self, iteration: LoopPass) -> None:
            writer.saw(replace(iteration, profile=profile))

        def crashed(self, crash: Crash) -> None:
            raise AssertionError(crash)

    begin = 1_794_900_000.0 - 1_794_900_000.0 % 86400
    now = begin
    cluster = EmbeddedCluster(objects_of(draw("r0[n0 n1]", node="gpu=4"), gang("low", tasks=2, each="gpu=4")))
    profiles = [SchedulerProfile(SCHEDULER_NAMES, profile)]
    loop = Loop(cluster, profiles, clock=lambda: now, ticks=lambda: 0.0, observers=[Written()])
    for seconds, effects in (
        (36000, []),
        (36001, []),
        (39605, _manifests("urgent", 100)),
        (39605.2, []),
        (39605.4, []),
        (39606, []),
        (61200, _manifests("late", 1)),
        (61201, []),
    ):
        now = begin + seconds
        cluster.apply(effects)
        loop.run_once()
        cluster.advance_pods()
    writer.close()
    return JournalRecording(folder)


MARKED = """(() => {
  const canvas = document.querySelector('#time .uplot canvas');
  const mark = getComputedStyle(document.querySelector('#time .plot')).borderBottomColor.match(/\\d+/g).map(Number);
  const drawn = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let i = 0; i < drawn.length; i += 4) found += mark.every((part, k) => Math.abs(drawn[i + k] - part) < 3);
  return found / (drawn.length / 4);
})()"""
"""The share of the first chart that has the colour of the mark."""


def test_a_minute_tells_all_of_its_moments_and_gaps_are_as_wide_as_they_lasted(tmp_path: Path) -> None:
    """Two events of one second are both told, evictions first; six idle hours take three quarters of the axis."""
    history = _journal(tmp_path / "journal")

    async def act(page: Page, at: str) -> None:
        await page.size(1400, 1000)
        await page.go(at)
        await page.until("document.querySelectorAll('#time .uplot canvas').length >= 4")
        # a click in the middle of the axis is in the idle hours: the moment before them is shown
        box = await page.ask(
            "(() => { const r = document.querySelector('#time .u-over').getBoundingClientRect();"
            " return [r.left, r.top + r.height / 2, r.width]; })()"
        )
        for share, clock in ((0.7, "11:00:0"), (0.05, "10:00:0"), (0.999, "17:00:0")):
            for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
                x = box[0] + share * box[2]
                await page.call("Input.dispatchMouseEvent", type=kind, x=x, y=box[1], button="left", clickCount=1)
            await page.until(f"{TEXT}.includes('recorded') && {TEXT}.includes('{clock}')")
        # the mark of the moment that is shown is as thin as it is drawn, and colours nothing else
        assert 0 < await page.ask(MARKED) < 0.02
        # the minute of the preemption
        await page.press("/")
        await page.type("11:00")
        await page.until("document.querySelector('#hits [aria-selected=true]')?.textContent.includes('11:00')")
        await page.press("Enter")
        await page.until(f"{TEXT}.includes('2 pods evicted of default/low for default/urgent')")
        first = await page.ask("document.querySelector('#time [data-key=happened] li').innerText")
        assert "evicted" in first
        assert "default/urgent" in await page.ask("document.querySelector('#time [data-key=started]').innerText")
        assert await page.ask("location.hash.includes('during=')")
        # who was displaced, and by whom, hours later
        await page.go(f"{at}?1#/jobs/default/urgent")
        await page.until(f"{DRAWER}.includes('2 pods evicted of default/low for it by gangpreempt')")

    in_browser(tmp_path / "browser", pages(history, recordings={"": history}), act)


@contextlib.contextmanager
def _up(folder: Path, port: int) -> Iterator[None]:
    config = folder / "scheduler.conf"
    config.write_text(
        'actions: "enqueue, allocate, gangpreempt, backfill"\ntiers:\n- plugins:\n'
        "  - name: priority\n  - name: gang\n  - name: predicates\n  - name: network-topology-aware\n"
    )
    words = [sys.executable, "-m", "tierwise", "up", "--listen", f"{HOST}:{port}", "--config", str(config)]
    with subprocess.Popen([*words, "--kubeconfig", str(folder / "kc")], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "is open" in process.stderr.readline()
            yield
        finally:
            process.terminate()


def _post(port: int, path: str, body: object) -> None:
    request = urllib.request.Request(
        f"http://{HOST}:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=60).close()


def _volcano_job(name: str, pods: int, priority: str) -> object:
    gpus = {"nvidia.com/gpu": "8"}
    main = {"name": "main", "image": "any", "resources": {"requests": gpus, "limits": gpus}}
    spec = {"restartPolicy": "Never", "priorityClassName": priority, "containers": [main]}
    template = {"metadata": {"annotations": {"tierwise.io/run-for": "1h"}}, "spec": spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": pods,
            "priorityClassName": priority,
            "schedulerName": "volcano",
            "tasks": [{"name": "w", "replicas": pods, "template": template}],
        },
    }


def test_a_victim_in_up_names_its_preemptor_and_the_other_way_round(tmp_path: Path) -> None:
    """A cluster in memory that is full; each drawer tells of the eviction, and the head when it was last checked."""
    port = free_port()

    async def act(page: Page) -> None:
        at = f"http://{HOST}:{port}/"
        for name, value in (("low", 1), ("high", 1000)):
            meta = {"name": name}
            await asyncio.to_thread(
                _post,
                port,
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value},
            )
        jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
        await asyncio.to_thread(_post, port, jobs, _volcano_job("low", 32, "low"))
        await page.go(at)
        await page.until("document.getElementById('running').innerText.includes('32 pods')")
        await asyncio.to_thread(_post, port, jobs, _volcano_job("urgent", 4, "high"))
        await page.until("document.getElementById('running').innerText.includes('urgent')")
        await page.ask("location.hash = '#/jobs/default/low'")
        await page.until(f"/evicted by gangpreempt for urgent/.test({DRAWER})")
        await page.ask("location.hash = '#/jobs/default/urgent'")
        await page.until(
            f"/evicted of low for it by gangpreempt/.test({DRAWER}) && {DRAWER}.includes('started, 4 pods')"
        )
        assert page.faults == []

    async def use() -> None:
        async with browser(tmp_path / "browser") as page:
            await act(page)

    with _up(tmp_path, port):
        asyncio.run(use())
