"""One attempt to fetch a configured source, and the record of it for the controllers.

Called by `runtime.topology_sources` when `discovery.fetch_record.due` says so. Never raises for a source that fails: a
failure is recorded too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tierwise.api.errors import InputError
from tierwise.dialects.volcano.discovery import OtherSource
from tierwise.discovery import fetch_record
from tierwise.discovery.fetch_record import FetchRecord
from tierwise.fetch.origin import SourceLocation, discover
from tierwise.fetch.ufm import FetchError, Ufm, server_of
from tierwise.port import Objects

__all__ = ["refresh"]


def refresh(
    source: OtherSource, secret: Mapping[str, str], before: FetchRecord | None, now: float, *, files: Path | None
) -> FetchRecord:
    """Fetch and read a source; `secret` holds the credentials that its configuration refers to.

    Who writes that configuration is not who runs us: files are read below the folder `files` alone, or not at all.
    """
    try:
        origin = _server(source, secret) if source.kind == "ufm" else _file(source, files)
        discovered = discover(origin, Objects())
    except (FetchError, InputError) as error:
        return fetch_record.failed(before, str(error), now)
    if discovered.errors:
        return fetch_record.failed(before, "; ".join(map(str, discovered.errors)), now)
    return fetch_record.fetched(discovered.tree, now)


def _file(source: OtherSource, files: Path | None) -> SourceLocation:
    path = source.text("path")
    if not path:
        raise InputError("is missing", field="config.path")
    if files is None:
        raise InputError(
            "files are not read: --discovery-files DIR says below which folder they may be", field="config.path"
        )
    topology = source.text("topology")
    return SourceLocation(source.kind, path, source.text("hostColumn"), source.words("tiers"), topology, folder=files)


def _server(source: OtherSource, secret: Mapping[str, str]) -> SourceLocation:
    endpoint = source.text("endpoint")
    if not endpoint:
        raise InputError("is missing", field="config.endpoint")
    server = Ufm(
        endpoint,
        username=secret.get("username", ""),
        password=secret.get("password", ""),
        token=secret.get("token", ""),
        verify=source.settings.get("insecureSkipVerify") is not True,
    )
    if "endpoint" in secret and server_of(Ufm(secret["endpoint"])) != server_of(server):
        raise InputError("is not the server that the Secret is for", field="config.endpoint")
    return SourceLocation("ufm", endpoint, ufm=server)
