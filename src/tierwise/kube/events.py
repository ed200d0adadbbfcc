"""Events on their way to the API server, behind everything that matters more.

They are written by a few workers in the background; `apply` does not wait for them. The same thing said again about the
same object counts up the event that is there, also after a restart, because its name follows from what it says. The
decision that an event tells of comes after its text, where `kubectl describe` shows it, and in an annotation; said
again, it is the last one's.
"""

from __future__ import annotations

import hashlib
import logging
import time
from functools import partial
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.explain.message import DECISION
from tierwise.kube.behind_binds import BehindBinds, BindsUnderWay
from tierwise.kube.client import Client
from tierwise.kube.errors import ApiError, UnreachableError
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots
from tierwise.port import RecordEvent

__all__ = ["Recorder"]

log = logging.getLogger(__name__)

_WORKERS: Final = 2
_PAUSE: Final = 0.005
"""Seconds that a worker rests after an event."""
_LONGEST: Final = 8_000


class _Told(msgspec.Struct, frozen=True):
    """An event that waits: of which object by its uid, and when it was."""

    event: RecordEvent
    uid: str
    at: float  # seconds since the epoch
    times: int = 1  # said so often while it waited


class Recorder(BehindBinds[tuple[str, ...], _Told]):
    """Writes events in the background, of one namespace after the other; the oldest are dropped where far too many
    wait.
    """

    def __init__(self, client: Client, store: Store, identity: str, *, binds: BindsUnderWay, slots: WriteSlots) -> None:
        super().__init__(binds, workers=_WORKERS, pause=_PAUSE)
        self._slots = slots
        self._client = client
        self._store = store
        self._identity = identity
        self._told = False  # whether people were told that we may not write events

    def record(self, event: RecordEvent) -> None:
        """Queue an event; the time is now. What waits already and is said again is said with the latest decision."""
        entry = self._store.find(event.about)  # now: by the time that it is written the object may be gone
        uid = entry[0].metadata.uid if entry is not None else ""
        about = event.about
        identity = about.group, about.kind, about.name, uid, event.type, event.reason, event.message
        before = self._waiting.get(about.namespace, identity)
        times = before.times + 1 if before is not None else 1
        self._put(about.namespace, identity, _Told(event, uid, time.time(), times))
        self._wake()

    async def _write(self, _: tuple[str, ...], value: _Told) -> None:
        try:
            await self._send(event_manifest(value.event, value.uid, value.at, value.times, self._identity), value.times)
        except (ApiError, UnreachableError) as error:
            self._lost(error)

    def _lost(self, error: ApiError | UnreachableError) -> None:
        """Events may be lost, but not without a word: the first permanent refusal is logged."""
        refused = isinstance(error, ApiError) and error.status in (401, 403)
        log.log(logging.WARNING if refused and not self._told else logging.DEBUG, "an event is lost: %s", error)
        self._told = self._told or refused

    async def _send(self, manifest: Raw, times: int) -> None:
        meta = manifest["metadata"]
        assert isinstance(meta, dict)
        path = f"/api/v1/namespaces/{meta['namespace']}/events"
        slot = partial(self._slots.of, str(meta["namespace"]))
        try:
            await self._client.ask("POST", path, manifest, expects="Event", slot=slot)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            path = f"{path}/{meta['name']}"
            shown = msgspec.json.decode(await self._client.ask("GET", path, expects="Event"))
            count = shown.get("count")
            update = {field: manifest[field] for field in ("lastTimestamp", "message")}
            update["count"] = (count if isinstance(count, int) else 1) + times
            if "annotations" in meta:
                update["metadata"] = {"annotations": meta["annotations"]}
            await self._client.ask(
                "PATCH", path, update, kind="application/merge-patch+json", expects="Event", slot=slot
            )


def event_manifest(event: RecordEvent, uid: str, at: float, times: int, by: str) -> Raw:
    """An event as the API has it: said so often, for the last time then, about the object with this uid."""
    about = event.about
    now = format_time(at)
    version = codec.version_of(about.group, about.kind)
    identity = "\n".join((uid, event.type, event.reason, event.message))
    name = f"{about.name[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": about.namespace or "default",
            **({"annotations": {DECISION: event.decision}} if event.decision else {}),
        },
        "involvedObject": {
            "apiVersion": f"{about.group}/{version}" if about.group else version,
            "kind": about.kind,
            "name": about.name,
            "uid": uid,
            **({"namespace": about.namespace} if about.namespace else {}),
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:_LONGEST] + (f" (decision {event.decision})" if event.decision else ""),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": times,
        "source": {"component": by},
        "reportingComponent": by,
        "reportingInstance": by,
    }
