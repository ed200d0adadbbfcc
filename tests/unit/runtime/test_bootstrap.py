"""Certificates of the webhook's own: made once, shared by replicas, renewed in time, trusted by the API server."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tierwise.kube.errors import ApiError
from tierwise.runtime.certificates import Bundle, Certificate, CertificateNames, expires, issue, place_files, secure

NAMES = CertificateNames("tierwise")
NOW = datetime(2026, 6, 1, tzinfo=UTC)
SECRET = "/api/v1/namespaces/tierwise/secrets/tierwise-webhook"
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/tierwise"


class Server:
    """As much of an API server as is asked: objects by path, with versions that writers must know."""

    def __init__(self, *kinds: str) -> None:
        hook = {"webhooks": [{"name": "a", "clientConfig": {}}, {"name": "b", "clientConfig": {}}]}
        self.objects: dict[str, Any] = {HOOKS.format(kind): copy.deepcopy(hook) for kind in kinds}
        self.writes: list[str] = []
        self.before_write: Callable[[], None] = lambda: None

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        expects: str = "",
    ) -> bytes:
        if method == "GET":
            if path not in self.objects:
                raise ApiError(404, "NotFound", path)
            return json.dumps(self.objects[path]).encode()
        self.before_write()
        self.writes.append(f"{method} {path}")
        assert isinstance(body, dict | list)
        if isinstance(body, list):
            for change in body:
                self.objects[path]["webhooks"][int(change["path"].split("/")[2])]["clientConfig"] = {
                    "caBundle": change["value"]
                }
        elif method == "POST":
            path += f"/{body['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", path)
            self.put(path, body)
        elif body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        else:
            self.put(path, body)
        return b"{}"

    def put(self, path: str, body: dict[str, Any]) -> None:
        version = int(body["metadata"].get("resourceVersion", 0)) + 1
        self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}

    def trusted(self, kind: str) -> set[bytes]:
        hooks = self.objects[HOOKS.format(kind)]["webhooks"]
        return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}


def _secure(server: Server, now: datetime = NOW) -> Bundle:
    return asyncio.run(secure(server, NAMES, now))


def test_the_first_replica_makes_one_and_the_second_takes_it() -> None:
    """One Secret, written once, whose authority both configurations trust."""
    server = Server("validating", "mutating")

    first = _secure(server)
    writes = len(server.writes)
    second = _secure(server)

    assert first == second
    assert 3 == writes == len(server.writes)
    assert {first.authority} == server.trusted("validating") == server.trusted("mutating")


def test_whoever_loses_the_race_takes_the_winners() -> None:
    """Two replicas that start at once end up with one certificate."""
    server = Server("validating")
    made: list[Bundle] = []

    server.before_write = lambda: made.append(_at_the_same_time(server))
    found = _secure(server)

    assert [found] == made


def _at_the_same_time(server: Server) -> Bundle:
    """A second replica, with a loop of its own, while the first one's request is under way."""
    server.before_write = lambda: None
    found: list[Bundle] = []
    thread = threading.Thread(target=lambda: found.append(_secure(server)))
    thread.start()
    thread.join()
    return found[0]


def test_it_is_renewed_in_time_and_the_old_authority_is_still_trusted() -> None:
    """A replica that shows the old certificate a little longer is believed, but not the one before that."""
    server = Server("validating")
    first = _secure(server)

    second = _secure(server, NOW + timedelta(days=300))
    third = _secure(server, NOW + timedelta(days=600))

    assert expires(second.certificate) > expires(first.certificate)
    assert second.authority.endswith(first.authority)
    assert first.authority not in third.authority
    assert {third.authority} == server.trusted("validating")


def test_a_secret_that_holds_nothing_of_use_is_replaced() -> None:
    """Whatever stands there, a certificate comes of it."""
    server = Server("validating")
    server.put(SECRET, {"metadata": {"name": "tierwise-webhook"}, "data": {"tls.crt": "bm9uc2Vuc2U="}})

    assert expires(_secure(server).certificate) > NOW


def test_a_missing_configuration_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    """Who installs the webhook without one of the two is told."""
    _secure(Server("validating"))

    assert "mutatingwebhookconfiguration tierwise" in caplog.text


def test_the_files_are_what_the_server_reads(tmp_path: Path) -> None:
    """Certificate and key go together, and nobody else may read the key."""
    place_files(issue(["a"], NOW), tmp_path)

    Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert 0o600 == (tmp_path / "tls.key").stat().st_mode & 0o777
    assert ["tls.crt", "tls.key"] == sorted(file.name for file in tmp_path.iterdir())
