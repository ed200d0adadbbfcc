"""Certificates without outside help: made by the webhook, shared in a Secret, trusted by the API server.

The Secret is the one truth: whoever finds it missing or old writes a new one, and whoever loses that race takes the
winner's. The authority before the present one stays trusted, so that a replica which still shows the old certificate
is believed until it has seen the new one.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tierwise.kube.errors import ApiError
from tierwise.runtime.certificates import Bundle, expires, issue

__all__ = ["Names", "place_files", "secure"]

log = logging.getLogger(__name__)

_EARLY: Final = timedelta(days=120)
_ATTEMPTS: Final = 5
_END: Final = b"-----END CERTIFICATE-----\n"
_CONFIGURATIONS: Final = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


class Names(msgspec.Struct, frozen=True):
    """Which Secret and Service in which namespace, and which two configurations."""

    namespace: str
    secret: str = "tierwise-webhook"
    service: str = "tierwise-webhook"
    configuration: str = "tierwise"

    def hosts(self) -> list[str]:
        """The names by which the API server, and whoever tries it by hand, reach the Service."""
        inside = f"{self.service}.{self.namespace}.svc"
        return [inside, f"{inside}.cluster.local"]


class _Asks(Protocol):
    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> bytes:
        """The answer of the API server; ApiError for a no."""


async def secure(client: _Asks, names: Names, now: datetime) -> Bundle:
    """A certificate that is good for a while yet, known to the API server; made anew where there is none."""
    for _ in range(_ATTEMPTS):
        secret = await _find(client, names)
        present = _bundle(secret) if secret is not None else None
        if present is None or expires(present.certificate) - now < _EARLY:
            present = await _renew(client, names, secret, present, now)
        if present is not None:
            await _trust(client, names, present.authority)
            return present
    raise RuntimeError(f"Secret {names.namespace}/{names.secret} changes faster than it can be written")


def place_files(bundle: Bundle, folder: Path) -> None:
    """Put certificate and key where the server reads them, each file whole or not at all."""
    for name, content in (("tls.key", bundle.key), ("tls.crt", bundle.certificate)):
        fresh = folder / f".{name}"
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        fresh.replace(folder / name)


async def _find(client: _Asks, names: Names) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(await client.ask("GET", f"{_secrets(names)}/{names.secret}"))
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return found


def _bundle(secret: Mapping[str, Any]) -> Bundle | None:
    """What the Secret holds; None where that is no use."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[name]) for name in ("ca.crt", "tls.crt", "tls.key")]
        expires(parts[1])
    except (KeyError, ValueError):
        return None
    return Bundle(*parts)


async def _renew(
    client: _Asks, names: Names, secret: dict[str, Any] | None, present: Bundle | None, now: datetime
) -> Bundle | None:
    """A new certificate in the Secret; None where somebody else was faster."""
    made = issue(names.hosts(), now)
    before = present.authority.partition(_END) if present is not None else (b"", b"", b"")
    made = Bundle(made.authority + before[0] + before[1], made.certificate, made.key)
    texts = {"ca.crt": made.authority, "tls.crt": made.certificate, "tls.key": made.key}
    data = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data}
    try:
        if secret is None:
            await client.ask("POST", _secrets(names), {**kind, "metadata": {"name": names.secret}})
        else:
            await client.ask("PUT", f"{_secrets(names)}/{names.secret}", {**secret, **kind})
    except ApiError as error:
        if error.status != 409:
            raise
        return None
    log.info("a certificate for %s was made", ", ".join(names.hosts()))
    return made


async def _trust(client: _Asks, names: Names, authority: bytes) -> None:
    """Let the API server believe what the authority has signed; nothing is written where it does already."""
    wanted = base64.b64encode(authority).decode()
    for plural in _CONFIGURATIONS:
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{names.configuration}"
        try:
            found = msgspec.json.decode(await client.ask("GET", path))
        except ApiError as error:
            if error.status != 404:
                raise
            log.warning("there is no %s %s: nobody asks this webhook", plural.removesuffix("s"), names.configuration)
            continue
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted}
            for index, hook in enumerate(found.get("webhooks") or ())
            if hook.get("clientConfig", {}).get("caBundle") != wanted
        ]
        if patch:
            await client.ask("PATCH", path, patch, kind="application/json-patch+json")


def _secrets(names: Names) -> str:
    return f"/api/v1/namespaces/{names.namespace}/secrets"
