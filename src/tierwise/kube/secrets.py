"""One Secret, read when it is needed and kept nowhere: informers never see any."""

from __future__ import annotations

from base64 import b64decode
from urllib.parse import quote

import msgspec

from tierwise.kube.client import Client

__all__ = ["read_secret"]


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


async def read_secret(client: Client, namespace: str, name: str) -> dict[str, str]:
    """The entries as text, without the line end that editors leave; ApiError or UnreachableError where it fails."""
    # Both are what somebody wrote into a configuration: a slash in them must not lead elsewhere.
    inside, own = (quote(part, safe="") for part in (namespace, name))
    path = f"/api/v1/namespaces/{inside}/secrets/{own}"
    found = msgspec.json.decode(await client.ask("GET", path), type=_Secret)
    entries = (found.data or {}).items()
    return {key: b64decode(value).decode(errors="replace").rstrip("\r\n") for key, value in entries}
