"""One try to fetch a configured source, and the record that it leaves for the controllers.

Called by `runtime.fetching` when `discovery.record.due` says so. Never raises for a source
that fails: a failure is a record too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.api.errors import InputError
from tierwise.dialects.discovery import OtherSource
from tierwise.discovery import record
from tierwise.discovery.record import Record
from tierwise.fetch.origin import Origin, discover
from tierwise.fetch.ufm import FetchError, Ufm
from tierwise.port import Objects

__all__ = ["refresh"]


def refresh(source: OtherSource, secret: Mapping[str, str], before: Record | None, now: float) -> Record:
    """Fetch and read a source; `secret` holds the credentials that its configuration refers to."""
    try:
        found = discover(_origin(source, secret), Objects())
    except (FetchError, InputError) as error:
        return record.failed(before, str(error), now)
    if found.errors:
        return record.failed(before, "; ".join(map(str, found.errors)), now)
    return record.fetched(found.tree, now)


def _origin(source: OtherSource, secret: Mapping[str, str]) -> Origin:
    if source.kind != "ufm":
        if not source.text("path"):
            raise InputError("is missing", field="config.path")
        return Origin(
            source.kind, source.text("path"), source.text("hostColumn"), source.words("tiers"), source.text("topology")
        )
    if not source.text("endpoint"):
        raise InputError("is missing", field="config.endpoint")
    server = Ufm(
        source.text("endpoint"),
        username=secret.get("username", ""),
        password=secret.get("password", ""),
        token=secret.get("token", ""),
        verify=source.settings.get("insecureSkipVerify") is not True,
    )
    return Origin("ufm", source.text("endpoint"), ufm=server)
