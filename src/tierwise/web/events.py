"""Server-sent events, and the look at the source behind them.

A page that is open hears at once that there is something new, and asks for it as ever. Where the past is to be kept
though no page is open, the look goes on without listeners, at a bounded share of a processor.

The events hold no data, so whatever protects the other routes protects these as well. The number of open streams is
bounded; a page that gets none asks every few seconds instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from tierwise.web.history import History
from tierwise.web.views import RunSource, checked_ago

__all__ = ["add_events"]

_PERIOD: Final = 1.0
"""Seconds between two looks at the source, however many pages are open."""

_RECORD: Final = 5.0
"""The same, at least, while no page listens and moments are kept all the same."""

_SHARE: Final = 20
"""While no page listens, a look waits for so many times the processor time that the last one took."""

_QUIET: Final = 5.0
"""Seconds after which a stream says how long ago the source was looked at."""

_MOST: Final = 64
"""Streams that are open at a time."""


class _Listeners:
    """The open streams of an application, and the task that looks at the source for all of them.

    With `record` the task goes on while there are none.
    """

    def __init__(self, source: RunSource, history: History, *, record: bool) -> None:
        self._record = record
        self._came = asyncio.Event()
        self.source = source
        self._history = history
        self._changed: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._changed)

    def __contains__(self, changed: asyncio.Event) -> bool:
        return changed in self._changed

    def join(self) -> asyncio.Event:
        changed = asyncio.Event()
        self._changed.add(changed)
        self._came.set()
        self.start()
        return changed

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())

    def leave(self, changed: asyncio.Event) -> None:
        self._changed.discard(changed)

    async def _look(self) -> None:
        """Wake everybody when the source shows another state; ends with the last listener, unless all is recorded."""
        previous: object = None
        while self._changed or self._record:
            show, cost = await asyncio.to_thread(self._seen, previous)
            if show is not previous:
                previous = show
                for changed in self._changed:
                    changed.set()
            self._came.clear()
            if self._changed:
                await asyncio.sleep(_PERIOD)
            elif self._record:
                with contextlib.suppress(TimeoutError):  # a page that comes is served at once
                    await asyncio.wait_for(self._came.wait(), max(_RECORD, _SHARE * cost))

    def _seen(self, previous: object) -> tuple[object, float]:
        """View of the source, kept if it is new, and the processor time that it took."""
        begun = time.thread_time()
        show = self.source.show()
        if show is not previous and not isinstance(show, str):
            self._history.saw(show)
        return show, time.thread_time() - begun

    async def end(self, _: web.Application) -> None:
        """Let every stream go when the server stops."""
        for changed in self._changed:
            changed.set()
        self._changed.clear()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def add_events(app: web.Application, runs: Mapping[str, tuple[RunSource, History]], *, record: bool) -> None:
    """Let an application tell open pages of news, at /api/events; with `record` the past is kept though none is open.

    A page asks for one of the runs by name, and hears of the first where it knows of none.
    """
    listeners: dict[str, _Listeners] = {}

    async def start(_: web.Application) -> None:
        listeners.update({name: _Listeners(*run, record=record) for name, run in runs.items()})
        if record:
            for listener in listeners.values():
                listener.start()

    async def end(app: web.Application) -> None:
        for listener in listeners.values():
            await listener.end(app)

    app.on_startup.append(start)
    app.router.add_get("/api/events", _stream(listeners))
    app.on_shutdown.append(end)


def _stream(every: Mapping[str, _Listeners]) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        listeners = every.get(request.query.get("run", "")) or next(iter(every.values()))
        if sum(map(len, every.values())) >= _MOST:
            raise web.HTTPServiceUnavailable(text="too many pages listen already\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        changed = listeners.join()
        try:
            await response.prepare(request)
            while changed in listeners:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _QUIET)
                news = changed.is_set()
                changed.clear()
                still = b"event: checked\ndata: %.1f\n\n" % checked_ago(listeners.source)
                await response.write(b"event: board\ndata:\n\n" if news else still)
        except ConnectionError:
            pass  # the page was closed
        finally:
            listeners.leave(changed)
        return response

    return serve
