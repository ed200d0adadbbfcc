"""An HTTP server beside a program that is not asynchronous: a thread of its own, for as long as the context lasts."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Coroutine, Iterator

from aiohttp import web

from tierwise.api.errors import InputError

__all__ = ["listen", "listening", "place"]


def place(text: str) -> tuple[str, int]:
    """Host and port of "HOST:PORT" or ":PORT"; ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'"{text}" is not HOST:PORT')
    return host.strip("[]") or "0.0.0.0", int(port)


async def listen(runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
    """Open the place to callers; InputError where it is taken or cannot be had."""
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


@contextlib.contextmanager
def listening(app: web.Application, host: str, port: int) -> Iterator[None]:
    """Serve an application meanwhile; InputError where the place is taken or cannot be had."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app, access_log=None)

    async def start() -> None:
        await runner.setup()
        await listen(runner, host, port)

    def do(work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    thread = threading.Thread(target=loop.run_forever, name="listener", daemon=True)
    thread.start()
    try:
        do(start())
        yield
    finally:
        do(runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
