"""The admission webhook: reviews over TLS.

Two paths, /validate and /mutate, and nothing else on this port. A review that cannot be read is the sender's fault
(status 400), a defect of ours is a 500: what becomes of the object then is the failurePolicy of the configuration,
so the installer decides between failing open and failing closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from tierwise.api.codec import part
from tierwise.api.errors import InputError
from tierwise.runtime.certificates import Certificate, expires
from tierwise.runtime.listener import ConnectionLimiter, Limits, listen, runner_of
from tierwise.runtime.metrics import AdmissionMetrics
from tierwise.runtime.review import Request, Reviewer, ReviewResponse, read_request

__all__ = ["Webhook", "application"]

log = logging.getLogger(__name__)

_LARGEST: Final = 8 * 2**20
"""Bytes of a review: an object of the largest size that etcd takes, twice, and some more."""
_BODY: Final = 10.0
"""Seconds in which the body of a review must have come; the API server waits no longer for an answer than that."""
_LOOK: Final = 10.0


def application(reviewer: Reviewer, metrics: AdmissionMetrics) -> web.Application:
    """The two paths."""
    app = web.Application(client_max_size=_LARGEST)
    for path, review in (("validate", reviewer.validate), ("mutate", reviewer.mutate)):
        app.router.add_post(f"/{path}", _handler(path, review, metrics))
    return app


def _handler(path: str, review: Callable[[Request], ReviewResponse], metrics: AdmissionMetrics) -> Handler:
    async def handle(http: web.Request) -> web.Response:
        start = time.perf_counter()
        try:
            async with asyncio.timeout(_BODY):
                request = read_request(await http.read())
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="the review did not come in time\n") from None
        except InputError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        try:
            answer = review(request)
        except Exception:
            log.exception("a review failed", extra={"fields": {"path": path, "uid": request.uid}})
            raise
        seconds = time.perf_counter() - start
        metrics.reviewed(path, request.kind.get("kind", ""), allowed=answer.allowed, seconds=seconds)
        _tell(path, answer)
        return web.Response(body=msgspec.json.encode(answer.wire()), content_type="application/json")

    return handle


def _tell(path: str, answer: ReviewResponse) -> None:
    say = log.debug if answer.allowed else log.info
    name = part(answer.request.object, "metadata").get("name", "")
    fields: dict[str, object] = {
        "path": path,
        "kind": answer.request.kind.get("kind", ""),
        "namespace": answer.request.namespace,
    }
    fields |= {"name": name, "why": "; ".join(answer.errors)}
    say("reviewed" if answer.allowed else "denied", extra={"fields": fields})


class Webhook(msgspec.Struct, frozen=True):
    """A server that shows a certificate, and reads it again when its files change."""

    app: web.Application
    certificate: Certificate
    metrics: AdmissionMetrics

    async def serve(
        self, host: str, port: int, stop: asyncio.Event, *, look: float = _LOOK, limits: Limits | None = None
    ) -> None:
        """Answer until told to stop."""
        runner = runner_of(self.app, limits)
        await runner.setup()
        self._told()
        watching = asyncio.create_task(self.certificate.watch(look, self._told))
        entrance: ConnectionLimiter | None = None
        try:
            entrance = await listen(runner, host, port, self.certificate.context, limits)
            await stop.wait()
        finally:
            watching.cancel()
            if entrance is not None:
                await entrance.close()
            await runner.cleanup()

    def _told(self) -> None:
        expiry = expires(self.certificate.pem()).timestamp()
        self.metrics.set("tierwise_certificate_expiry_timestamp_seconds", expiry)
