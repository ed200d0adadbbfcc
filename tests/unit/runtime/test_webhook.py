"""The webhook as the API server sees it: over TLS, with certificates that change while it runs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from tests.support.ports import free_port

from tierwise.api.errors import InputError
from tierwise.port import Objects
from tierwise.runtime.certificates import Bundle, Certificate, expires, issue
from tierwise.runtime.listener import listening
from tierwise.runtime.logs import JsonLines
from tierwise.runtime.metrics import AdmissionMetrics
from tierwise.runtime.review import Reviewer
from tierwise.runtime.webhook import Webhook, application

NOW = datetime.now(UTC)
HOST = "localhost"
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u1",
        "operation": "CREATE",
        "kind": {"kind": "Queue"},
        "object": {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "q"},
            "spec": {"weight": -1},
        },
    },
}


class Scene:
    """A webhook on a free port, with a certificate in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = io.StringIO()
        self.registry = CollectorRegistry()
        self.port = 0

    def install(self, bundle: Bundle) -> None:
        (self.folder / "tls.crt").write_bytes(bundle.certificate)
        (self.folder / "tls.key").write_bytes(bundle.key)

    def run(self, visit: Callable[[Scene], Awaitable[None]]) -> None:
        handler = logging.StreamHandler(self.out)
        handler.setFormatter(JsonLines())
        logger = logging.getLogger("tierwise")
        logger.addHandler(handler)
        logger.setLevel("INFO")
        try:
            asyncio.run(self._run(visit))
        finally:
            logger.removeHandler(handler)
            logger.setLevel("NOTSET")

    async def _run(self, visit: Callable[[Scene], Awaitable[None]]) -> None:
        metrics = AdmissionMetrics(self.registry)
        self.certificate = Certificate(self.folder / "tls.crt", self.folder / "tls.key")
        app = application(Reviewer(Objects), metrics)
        stop = asyncio.Event()
        self.port = free_port()
        serving = asyncio.create_task(Webhook(app, self.certificate, metrics).serve(HOST, self.port, stop, look=0.01))
        try:
            await self._listening()
            await visit(self)
        finally:
            stop.set()
            await serving

    async def _listening(self) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, self.port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return

    async def post(self, authority: bytes, path: str = "/validate", body: Any = None) -> tuple[int, str]:
        trust = ssl.create_default_context(cadata=authority.decode())
        connector = aiohttp.TCPConnector(ssl=trust, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(f"https://{HOST}:{self.port}{path}", data=json.dumps(body or REVIEW)) as answer,
        ):
            return answer.status, await answer.text()

    async def trusted(self, authority: bytes) -> bool:
        try:
            await self.post(authority)
        except aiohttp.ClientConnectorCertificateError:
            return False
        return True


def test_reviews_are_answered_over_tls(tmp_path: Path) -> None:
    """A wrong queue is denied, its defaults are filled in, the rest is refused, and metrics and logs tell of it."""
    bundle = issue([HOST], NOW)
    scene = Scene(tmp_path)
    scene.install(bundle)

    async def visit(scene: Scene) -> None:
        status, body = await scene.post(bundle.authority)
        response = json.loads(body)["response"]
        assert (200, "u1", False) == (status, response["uid"], response["allowed"])
        assert "spec.weight" in response["status"]["message"]
        assert json.loads((await scene.post(bundle.authority, "/mutate"))[1])["response"]["allowed"]
        assert 400 == (await scene.post(bundle.authority, body={"kind": "Pod"}))[0]
        assert 404 == (await scene.post(bundle.authority, "/other"))[0]

    scene.run(visit)

    labels = {"path": "validate", "kind": "Queue", "allowed": "false"}
    ends = expires(bundle.certificate).timestamp()
    assert 1 == scene.registry.get_sample_value("tierwise_admission_reviews_total", labels)
    assert ends == scene.registry.get_sample_value("tierwise_certificate_expiry_timestamp_seconds")
    denied = [json.loads(line) for line in scene.out.getvalue().splitlines() if '"denied"' in line]
    assert [("info", "Queue", "q")] == [(line["level"], line["kind"], line["name"]) for line in denied]


def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    """Whoever trusts the new authority gets through once the files have changed, and the old one no longer does."""
    first, second = issue([HOST], NOW), issue([HOST], NOW)
    scene = Scene(tmp_path)
    scene.install(first)

    async def visit(scene: Scene) -> None:
        assert (True, False) == (await scene.trusted(first.authority), await scene.trusted(second.authority))
        scene.install(second)
        async with asyncio.timeout(10):
            while not await scene.trusted(second.authority):
                await asyncio.sleep(0.01)
        assert not await scene.trusted(first.authority)

    scene.run(visit)


def test_a_pair_that_does_not_match_is_not_taken(tmp_path: Path) -> None:
    """Half a change of the files leaves the old certificate in place, and says so."""
    first, second = issue([HOST], NOW), issue([HOST], NOW)
    scene = Scene(tmp_path)
    scene.install(first)

    async def visit(scene: Scene) -> None:
        (scene.folder / "tls.crt").write_bytes(second.certificate)
        async with asyncio.timeout(10):
            while "not taken" not in scene.out.getvalue():
                await asyncio.sleep(0.01)
        assert await scene.trusted(first.authority)
        (scene.folder / "tls.key").write_bytes(second.key)
        async with asyncio.timeout(10):
            while not await scene.trusted(second.authority):
                await asyncio.sleep(0.01)

    scene.run(visit)


def test_a_certificate_is_for_its_hosts_and_its_time() -> None:
    """Other names are not covered, and the end is where it was asked for."""
    bundle = issue(["tierwise-webhook.tierwise.svc"], NOW, timedelta(days=2))

    assert NOW + timedelta(days=2) - expires(bundle.certificate) < timedelta(seconds=1)
    assert bundle.key.startswith(b"-----BEGIN PRIVATE KEY-----")


def test_a_place_that_is_taken_is_bad_input(tmp_path: Path) -> None:
    """One line says which, and the certificate is watched no longer."""
    scene = Scene(tmp_path)
    scene.install(issue([HOST], NOW))
    certificate = Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    metrics = AdmissionMetrics(scene.registry)
    webhook = Webhook(application(Reviewer(Objects), metrics), certificate, metrics)

    async def serve(port: int) -> None:
        await webhook.serve("127.0.0.1", port, asyncio.Event())

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            asyncio.run(serve(port))


def _broken() -> Objects:
    raise RuntimeError("no cluster")


def _asked(app: web.Application, body: bytes) -> int:
    """The status of the answer to a review over plain HTTP."""
    port = free_port()
    with listening(app, "127.0.0.1", port), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        length = len(json.dumps(REVIEW).encode())
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return int(connection.makefile("rb").readline().split()[1])


def test_defect_is_no_yes() -> None:
    """Where a review raises, the failurePolicy decides: the answer is an error, and never that the object may pass."""
    app = application(Reviewer(_broken), AdmissionMetrics(CollectorRegistry()))

    assert 500 == _asked(app, json.dumps(REVIEW).encode())


def test_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a review does not hold a connection for longer than its time."""
    monkeypatch.setattr("tierwise.runtime.webhook._BODY", 0.05)
    app = application(Reviewer(Objects), AdmissionMetrics(CollectorRegistry()))

    assert 408 == _asked(app, b'{"apiVersion"')
