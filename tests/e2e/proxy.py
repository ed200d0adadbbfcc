"""Something between tierwise and the API server that misbehaves: late, silent, cut off, or lying about the state."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from tests.e2e.control_plane import ControlPlane

__all__ = ["FAULTS", "Proxy"]

FAULTS = ("late", "dropped", "lost", "half", "409", "429", "500", "503", "410", "page")
_PAGE = "<html><head><title>Sign in</title></head><body>Your session has expired.</body></html>"


class Proxy:
    """A reverse proxy in a thread of its own; each request goes wrong with a probability, by a seeded choice."""

    def __init__(self, plane: ControlPlane, faults: tuple[str, ...], share: float, seed: int = 0) -> None:
        self._plane = plane
        self._faults = faults
        self._share = share
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.done: Counter[str] = Counter()  # how often each fault was committed
        self.quiet = False  # while true all goes well
        self.blind = False  # while true nothing is told of pods that change
        self.silent = False  # while true watches that stand are told nothing, for good, and stay open
        self.freezes_at = ""  # how the path of the write ends at whose arrival everything stands still
        self.frozen = threading.Event()  # while set nothing is passed on, in either direction
        self.since: list[str] = []  # writes that have come since the last thaw

    def __enter__(self) -> Proxy:
        self._thread.start()
        self.url = self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self) -> str:
        file = self._plane.folder / "proxied"
        file.write_text(json.dumps(self._plane.describe(self.url)))
        return str(file)

    def thaw(self) -> None:
        """Pass on what comes from now on; requests that were held meanwhile are lost, and nobody is told."""
        self.freezes_at = ""
        self.since.clear()
        self.frozen.clear()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _start(self) -> str:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._plane.tls())
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _end(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.2)  # transports close one turn of the event loop after they are told to

    def _draw(self, request: web.Request) -> str:
        if self.quiet or self._chance.random() >= self._share:
            return ""
        fault = self._chance.choice(self._faults)
        if fault == "410" and "watch" not in request.query:
            return ""
        if fault == "409" and request.method == "GET":
            return ""
        self.done[fault] += 1
        return fault

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fault = self._draw(request)
        body = await request.read()
        assert request.transport is not None
        if await self._held(request):
            request.transport.abort()
            return web.Response()
        if fault == "late":
            await asyncio.sleep(self._chance.uniform(0.05, 0.5))
        elif fault == "dropped":
            request.transport.abort()
            return web.Response()
        elif fault == "page":
            return web.Response(text=_PAGE, content_type="text/html")
        elif fault.isdecimal():
            said = {"kind": "Status", "code": int(fault), "reason": "Expired", "message": f"injected {fault}"}
            return web.json_response(said, status=int(fault), headers={"Retry-After": "0"})
        headers = {k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length")}
        url = f"https://127.0.0.1:{self._plane.port}{request.path_qs}"
        try:
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                return await self._pass_on(request, answer, fault)
        except (aiohttp.ClientError, OSError):
            request.transport.abort()  # the server is down
            return web.Response()

    async def _held(self, request: web.Request) -> bool:
        """Wait where everything stands still; whether it did."""
        if request.method == "POST":
            self.since.append(request.path)
            if self.freezes_at and request.path.endswith(self.freezes_at):
                self.frozen.set()
        held = self.frozen.is_set()
        while self.frozen.is_set():
            await asyncio.sleep(0.05)
        return held

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse, fault: str) -> web.StreamResponse:
        assert request.transport is not None
        skipped = ("transfer-encoding", "connection")
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in skipped}
        passed = web.StreamResponse(status=answer.status, headers=kept)
        if fault == "lost":
            await answer.read()
            request.transport.abort()
            return web.Response()
        await passed.prepare(request)
        left = self._chance.randint(1, 2000) if fault == "half" else 2**60
        watches_pods = request.path.endswith("/pods") and "watch" in request.query
        async for chunk in answer.content.iter_any():
            while self.frozen.is_set() or (self.blind and watches_pods):
                await asyncio.sleep(0.05)
            if self.silent and "watch" in request.query:
                await asyncio.Event().wait()
            await passed.write(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                request.transport.abort()
                return passed
        await passed.write_eof()
        return passed
