"""Leader election: a Lease that one process holds and renews, and that others take over when it expires.

Clocks of different machines are never compared: a lease has expired if it has not changed for its whole duration by our
own clock. The holder stops acting some time before others may consider it expired (`held`), and releases the lease when
it ends, so that the next leader need not wait. Our term is measured from before the renewing request; others may count
from when the server wrote it, which is later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.core import format_micro_time
from tierwise.api.manifest import manifest
from tierwise.kube.client import Client
from tierwise.kube.errors import ApiError, UnreachableError, UnreadableError, understood

__all__ = ["Lease", "LeaseOptions", "LeaseTimes"]

log = logging.getLogger(__name__)

_API: Final = "coordination.k8s.io/v1"

_NOTE: Final = "tierwise.io/caught"
"""The annotation of the lease in which a holder leaves a note for the next one."""

_LAST: Final = 5.0
"""Seconds that a renewal which is under way has to end before the lease is given back."""


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds; the defaults are those of Kubernetes' own components."""

    duration: float = 15.0  # a lease that was not renewed for so long may be taken
    deadline: float = 10.0  # a holder that could not renew for so long stops
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry < self.deadline < self.duration:
            raise ValueError("the retry must be below the deadline, and that below the duration")


class LeaseOptions(msgspec.Struct, frozen=True):
    """The lease to hold before anything is written, and the identity of its holder."""

    name: str
    namespace: str
    identity: str
    times: LeaseTimes = msgspec.field(default_factory=LeaseTimes)


class Lease:
    """One candidate for a lease."""

    def __init__(self, client: Client, options: LeaseOptions, ticks: Callable[[], float]) -> None:
        """`ticks` gives seconds that never jump."""
        self._client = client
        self._ticks = ticks
        self._path = f"/apis/{_API}/namespaces/{options.namespace}/leases"
        self._namespace = options.namespace
        self._name = options.name
        self._identity = options.identity
        self._times = options.times
        self._renewed = float("-inf")
        self._seen: tuple[object, float] = (None, 0.0)  # the holder's last word, and when we first heard it
        self._over = False
        self._renewing = asyncio.Lock()
        self._unanswered = False  # whether a write of ours may have been carried out without our knowing
        self._told = False  # whether we held it when we last looked
        self.note = ""  # what a holder leaves for the next one: written with the lease
        self.holder = ""
        self.losses = 0  # how often it was lost; giving it back is no loss

    def held(self) -> bool:
        """Whether we may act now."""
        return not self._over and self._in_time()

    def _in_time(self) -> bool:
        return self._ticks() < self._renewed + self._times.deadline

    async def run(self, changed: Callable[[], None]) -> None:
        """Take the lease when it is free, and renew it while we hold it; `changed` is told when we begin or end."""
        while not self._over:
            # A process that was stopped for a while has lost the lease before it can try to renew it.
            self._look(changed)
            try:
                async with asyncio.timeout(self._times.deadline), self._renewing:
                    if not self._over:
                        await self.renew()
            except (ApiError, UnreachableError, TimeoutError) as error:
                log.warning("the lease %s cannot be renewed: %s", self._name, str(error) or "no answer in time")
            self._look(changed)
            await asyncio.sleep(self._times.retry)

    def _look(self, changed: Callable[[], None]) -> None:
        """Tell of a lease that we hold since we last looked, or no longer do."""
        is_held = self.held()
        if is_held == self._told:
            return
        self._told = is_held
        if is_held:
            log.info("holding the lease %s", self._name)
        elif not self._over:
            self.losses += 1
            log.warning("no longer holding the lease %s: it was not renewed in time", self._name)
        changed()

    async def release(self) -> None:
        """Give the lease back, and take it no more; also one that is being taken at this moment."""
        self._over = True  # nothing is done with it from here on
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST), self._renewing:
                pass
        was_held = self._unanswered or self._in_time()
        self._renewed = float("-inf")
        if not was_held:
            return
        for final in (False, False, True):
            try:
                lease = await self._read()
                if part(lease, "spec").get("holderIdentity") == self._identity:
                    await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})
            except (ApiError, UnreachableError) as error:
                # A renewal of our own may have been under way, or something has answered in the server's place.
                passing = error.status == 409 if isinstance(error, ApiError) else isinstance(error, UnreadableError)
                if final or not passing:
                    log.warning("the lease %s was not given back: %s", self._name, error)
                    return
            else:
                return

    async def renew(self) -> None:
        """Take the lease where it is free or has lapsed, renew it where it is ours; ApiError and UnreachableError."""
        begun = self._ticks()
        try:
            lease = await self._read()
        except ApiError as error:
            if error.status != 404:
                raise
            await self._create(begun)
            return
        spec = part(lease, "spec")
        self.holder = str(spec.get("holderIdentity") or "")
        if self.holder != self._identity:
            self.note = _note(lease)
        word = (self.holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if word != self._seen[0]:
            # Heard now: the word may be younger than our question, which was perhaps long under way.
            self._seen = (word, self._ticks())
        duration = spec.get("leaseDurationSeconds")
        patience = float(duration) if isinstance(duration, int) else self._times.duration
        if self.holder not in ("", self._identity) and begun < self._seen[1] + patience:
            return
        takes_over = self.holder != self._identity
        before = spec.get("leaseTransitions")
        transitions = before if isinstance(before, int) else 0
        change: Raw = {"renewTime": _now(), "leaseDurationSeconds": max(1, round(self._times.duration))}
        if takes_over:
            change |= {"holderIdentity": self._identity, "acquireTime": _now(), "leaseTransitions": transitions + 1}
        await self._write(lease, change)
        self._renewed, self.holder = begun, self._identity

    async def _read(self) -> Raw:
        answer = await self._client.send("GET", f"{self._path}/{self._name}", expects="Lease")
        answer_body: Raw = understood(msgspec.json.decode, answer)
        return answer_body

    async def _create(self, begun: float) -> None:
        now = _now()
        spec: Raw = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        await self._send("POST", self._path, manifest(_API, "Lease", self._name, self._namespace, spec=spec))
        self._renewed, self.holder = begun, self._identity

    async def _write(self, lease: Raw, change: Raw) -> None:
        """The resource version in the manifest makes sure that no other writer came in between (409)."""
        written = {**lease, "spec": {**part(lease, "spec"), **change}}
        if self.note != _note(lease):
            meta = part(lease, "metadata")
            written["metadata"] = {**meta, "annotations": {**part(meta, "annotations"), _NOTE: self.note}}
        await self._send("PUT", f"{self._path}/{self._name}", written)

    async def _send(self, method: str, path: str, lease: Raw) -> None:
        self._unanswered = True
        try:
            await self._client.send(method, path, lease, expects="Lease")
        except ApiError:
            self._unanswered = False
            raise
        self._unanswered = False


def _note(lease: Raw) -> str:
    return str(part(part(lease, "metadata"), "annotations").get(_NOTE) or "")


def _now() -> str:
    return format_micro_time(time.time())
