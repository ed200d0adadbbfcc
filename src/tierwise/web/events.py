"""Server-sent events: a page that is open hears at once that there is something new, and asks for it as ever.

The events hold no data, so whatever protects the other routes protects these as well. The number of open streams is
bounded; a page that gets none asks every few seconds instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from tierwise.web.history import BoardHistory
from tierwise.web.views import RunSource

__all__ = ["add_events"]

_PERIOD: Final = 1.0
"""Seconds between two looks at the source, however many pages are open."""

_QUIET: Final = 15.0
"""Seconds after which a stream says that it is still there."""

_MOST: Final = 64
"""Streams that are open at a time."""


class _Listeners:
    """The open streams of an application, and the task that looks at the source for all of them."""

    def __init__(self, source: RunSource, history: BoardHistory) -> None:
        self._source = source
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
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        return changed

    def leave(self, changed: asyncio.Event) -> None:
        self._changed.discard(changed)

    async def _look(self) -> None:
        """Wake everybody when the source shows another state; ends with the last listener."""
        last: object = None
        while self._changed:
            show = await asyncio.to_thread(self._source.show)
            if show is not last:
                last = show
                if not isinstance(show, str):
                    await asyncio.to_thread(self._history.saw, show)
                for changed in self._changed:
                    changed.set()
            await asyncio.sleep(_PERIOD)

    async def end(self, _: web.Application) -> None:
        """Let every stream go when the server stops."""
        for changed in self._changed:
            changed.set()
        self._changed.clear()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def add_events(app: web.Application, source: RunSource, history: BoardHistory) -> None:
    """Let an application tell open pages of news, at /api/events."""
    listeners = _Listeners(source, history)
    app.router.add_get("/api/events", _stream(listeners))
    app.on_shutdown.append(listeners.end)


def _stream(listeners: _Listeners) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        if len(listeners) >= _MOST:
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
                await response.write(b"event: board\ndata:\n\n" if news else b": still here\n\n")
        except ConnectionError:
            pass  # the page was closed
        finally:
            listeners.leave(changed)
        return response

    return serve
