"""Credentials from a program, as `exec` in a kubeconfig asks for them (client.authentication.k8s.io v1 and v1beta1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

import msgspec

from tierwise.kube.kubeconfig import Server, User

__all__ = ["ExecPlugin"]

_BEFOREHAND: Final = timedelta(seconds=60)
"""How long before its end a credential is renewed."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """The program's last answer, for as long as it is good; `show` is given client certificates, as PEM."""

    def __init__(self, user: User, server: Server, show: Callable[[bytes, bytes], None]) -> None:
        assert user.exec is not None
        self._user, self._server, self._asked, self._show = user, server, user.exec, show
        self._last: _Status | None = None
        self._lock = Lock()

    def token(self) -> str | None:
        """The header; OSError where the program gives nothing that can be used."""
        with self._lock:
            last = self._last
            ends = last.expiration_timestamp if last is not None else None
            if last is None or (ends is not None and datetime.now(UTC) > ends - _BEFOREHAND):
                last = self._last = self._ask()
            return f"Bearer {last.token}" if last.token else None

    def forget(self) -> None:
        """The server does not accept the last answer."""
        with self._lock:
            self._last = None

    def _ask(self) -> _Status:
        asked = self._asked
        interactive = asked.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if asked.interactive_mode == "Always" and not interactive:
            raise self._failed("it wants to ask a person, and standard input is no terminal")
        spec: dict[str, object] = {"interactive": interactive}
        if asked.provide_cluster_info:
            spec["cluster"] = self._cluster()
        told = {"apiVersion": asked.api_version, "kind": "ExecCredential", "spec": spec}
        variables = {**os.environ, **{entry.name: entry.value for entry in asked.env or []}}
        try:
            done = subprocess.run(
                [asked.command, *(asked.args or [])],
                env={**variables, "KUBERNETES_EXEC_INFO": json.dumps(told)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            hint = f"; {asked.install_hint}" if asked.install_hint else ""
            raise self._failed(f"{error.strerror}{hint}") from None
        if done.returncode:
            said = (done.stderr or b"").decode(errors="replace")
            raise self._failed(f"exit status {done.returncode}{f': {said}' if said.strip() else ''}")
        try:
            found = msgspec.json.decode(done.stdout, type=_Credential)
        except msgspec.MsgspecError as error:
            raise self._failed(f"its answer is not an ExecCredential: {error}") from None
        if (found.api_version, found.kind) != (asked.api_version, "ExecCredential") or found.status is None:
            raise self._failed(f"its answer is not an ExecCredential of {asked.api_version} with a status")
        status = found.status
        if not status.token and not status.client_certificate_data:
            raise self._failed("its answer has neither a token nor a certificate")
        if status.client_certificate_data:
            try:
                self._show(status.client_certificate_data.encode(), status.client_key_data.encode())
            except (OSError, ValueError) as error:
                raise self._failed(f"its certificate cannot be used: {error}") from None
        return status

    def _cluster(self) -> dict[str, object]:
        """What the program may know of the server."""
        server = self._server
        wanted = {
            "server": server.server,
            "tls-server-name": server.tls_server_name,
            "insecure-skip-tls-verify": server.insecure_skip_tls_verify,
            "certificate-authority-data": b64encode(server.authority()).decode(),
            "proxy-url": server.proxy_url,
            "disable-compression": server.disable_compression,
        }
        named = (
            e.get("extension") for e in server.extensions or () if e.get("name") == "client.authentication.k8s.io/exec"
        )
        found: dict[str, object] = {key: value for key, value in wanted.items() if value}
        config = next(named, None)
        return found if config is None else {**found, "config": config}

    def _failed(self, why: str) -> OSError:
        return OSError(f"{self._user.at}.exec: {self._asked.command}: {' '.join(why.split())}")
