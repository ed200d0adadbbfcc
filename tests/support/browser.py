"""A real browser for tests: chromium without a window, driven over its DevTools protocol. No clock of its own:
every step waits for a condition of the page, and fails after a long time.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from tests.support.ports import HOST, free_port

from tierwise.runtime.listener import listening

__all__ = ["BROWSER", "Act", "Page", "browser", "in_browser", "questions_process", "serious"]

BROWSER = os.environ.get("CHROMIUM") or next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
_PATIENCE = 60.0
"""Seconds after which a condition counts as never fulfilled; a busy machine may need many."""

_KEYS = {"Escape": 27, "Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38}


_LOOK, _LOOKS = 0.05, 40
"""Seconds between two looks at what is to be clicked, and how many there are at most."""


class Page:
    """One page: go somewhere, press, type, click, and ask what is there."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.faults: list[str] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """One command; what the page says on its console meanwhile is kept if it is an error."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive(_PATIENCE)).data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._overhear(message)

    def _overhear(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(params["exceptionDetails"])[:500])
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            if params["entry"]["source"] == "network":
                return  # a request that was refused is for the page to tell of
            self.faults.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def size(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def go(self, address: str) -> None:
        """Open an address, and wait until the page has drawn something."""
        await self.call("Page.navigate", url=address)
        await self.until("document.querySelector('main')?.getAttribute('aria-busy') === 'false'")

    async def ask(self, expression: str) -> Any:
        """The value of an expression; of a promise, what it is in the end."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, expression: str, patience: float = _PATIENCE) -> None:
        """Wait for a condition."""
        end = time.monotonic() + patience
        while not await self.ask(expression):
            assert time.monotonic() < end, f"never: {expression}"
            await asyncio.sleep(0.05)

    async def click(self, selector: str) -> None:
        """Bring an element into view, and click its middle once it stays where it is and nothing covers it."""
        await self.until(f"document.querySelector({selector!r}) !== null")
        where = (
            f"(() => {{ const e = document.querySelector({selector!r}); if (!e) return null;"
            " e.scrollIntoView({block: 'center'});"
            " const r = e.getClientRects()[0], x = r.left + r.width / 2, y = r.top + r.height / 2;"
            " const hit = document.elementFromPoint(x, y); return [x, y, hit !== null && e.contains(hit)]; })()"
        )
        box = await self.ask(where)
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK)
            before, box = box, await self.ask(where)
            if box is not None and before == box and box[2]:
                break
        assert box is not None, f"gone: {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    async def press(self, key: str) -> None:
        code = _KEYS.get(key, 0)
        text = {} if code else {"text": key}
        if key == "Enter":
            text = {"text": "\r"}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)


Act = Callable[[Page, str], Awaitable[None]]
"""What somebody does with a page that is served at an address."""


def in_browser(folder: Path, app: web.Application, act: Act) -> None:
    """Serve an application, let somebody use its page, and see that the console stayed quiet."""
    port = free_port()

    async def use() -> None:
        async with browser(folder) as page:
            await act(page, f"http://{HOST}:{port}/")
            assert page.faults == []

    with listening(app, HOST, port):
        asyncio.run(use())


async def serious(page: Page) -> object:
    """What axe finds serious or worse in the page as it is; nothing where axe is not installed."""
    if find_spec("axe_core_python") is None:
        return []
    await page.ask("window.exports = undefined")
    await page.call("Runtime.evaluate", expression=files("axe_core_python").joinpath("axe.min.js").read_text())
    return await page.ask(
        "axe.run({resultTypes: ['violations']}).then((r) => r.violations"
        ".filter((v) => ['serious', 'critical'].includes(v.impact))"
        ".map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' ')}`))"
    )


def questions_process() -> int:
    """The process that answers questions: the only child of this one that runs Python, beside the browser."""
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"tierwise.web.questions" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("no process answers questions")


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A browser with one empty page, and a profile in a folder of its own."""
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    place = (f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank")
    process = subprocess.Popen([BROWSER, *words, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = await _port(folder / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                target = next(page for page in await answer.json() if page["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                yield page
    finally:
        process.kill()
        process.wait()


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and "\n" in (text := file.read_text()):
            return int(text.split("\n", 1)[0])
        await asyncio.sleep(0.05)
    raise AssertionError("the browser did not begin")
