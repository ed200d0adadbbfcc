"""Keeps one kind up to date: a list, then a watch from there on.

A watch that breaks or ends is resumed from the last version seen, bookmarks included. Only if the server no longer
knows that version (410) is everything listed again, and then only differences reach the store. Failures are retried
with exponential back-off and jitter. Lists are consistent reads: a stale list could miss pods that already use
resources.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Container
from functools import partial
from typing import Final

from tierwise.api.core import ConfigMap
from tierwise.kube.client import Client, pause
from tierwise.kube.decoding import Entry, Event, event, page
from tierwise.kube.errors import ApiError, UnreachableError, understood
from tierwise.kube.kinds import Resource, of_interest
from tierwise.kube.store import Store, is_restored

__all__ = ["Reflector"]

log = logging.getLogger(__name__)

_PAGE: Final = "5000"
_REST: Final = 0.005
"""Seconds for which a watch that has shown something is not looked at: what comes in a row is taken up together.
Shorter than the lull that the loop waits for."""
_SHORTEST: Final = 1.0
"""Seconds below which a watch that ends is no normal end: something closes it on us."""
_STEADY: Final = 30.0
"""Seconds for which a watch must have gone on for the pauses before whole lists to begin anew."""
_NO_SERVER: Final = (502, 503, 504)
"""What is answered in the place of an API server that is not there."""
_FIRST_PAUSE: Final = 0.5


class Reflector:
    """Lists and watches one kind into a store."""

    def __init__(self, client: Client, resource: Resource, store: Store, trusted: Container[str] | None = None) -> None:
        """`trusted` are the namespaces in which the network may be described."""
        self._trusted = trusted
        self._client = client
        self._resource = resource
        self._store = store
        self._version = ""  # the last that we were told of
        self._watching: asyncio.Timeout | None = None
        self._outdated = False  # whether the server has gone back behind that
        self._opened = False  # whether the server has answered to the last watch
        self.synced = asyncio.Event()
        self.heard = time.monotonic()  # when the server last told us anything, be it that there is nothing new
        self.answered = self.heard  # when it last said anything at all about this kind, be it a refusal
        self.begun = float("-inf")  # when the last whole list was asked for
        self.missed = 0  # changes that a list showed and the watch had passed over: always 0, or something is wrong

    @property
    def plural(self) -> str:
        return self._resource.plural

    async def run(self) -> None:
        """List and watch until cancelled.

        Whatever makes us list again, be it a refusal or a server that knows no version for long, the pauses grow until
        a watch has gone on for a while: no server is asked for whole lists in a loop.
        """
        failures = 0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                self._version = await self._list()
            except (ApiError, UnreachableError) as error:
                self._note(error)
                log.warning("%s: cannot be listed: %s", self._resource.plural, error)
            else:
                begun = clock()
                await self._follow()
                failures = 0 if clock() - begun > _STEADY else failures
            await asyncio.sleep(pause(failures, shortest=_FIRST_PAUSE, longest=30.0))
            failures += 1

    def moved(self, resource: Resource) -> None:
        """The server serves the kind otherwise from now on."""
        if resource.collection != self._resource.collection:
            self._begin_anew()
        self._resource = resource

    async def check(self) -> None:
        """List everything while the watch runs, and mend what it should have told us but had not."""
        await self._list()

    async def _list(self) -> str:
        """List everything; the version from which to watch."""
        begun = time.monotonic()
        since = self._store.told(self._resource)
        entries: list[Entry] = []
        continue_token = ""
        while True:
            query = {"limit": _PAGE, **({"continue": continue_token} if continue_token else {})}
            answer = await self._client.ask("GET", self._resource.collection, query=query, expects="List")
            listing = understood(partial(page, self._resource), answer)
            entries += filter(self._counts, listing.entries)
            continue_token = listing.rest
            if not continue_token:
                break
        missed = self._store.listed(self._resource, entries, listing.version, since=since)
        if is_restored(listing.version, since):
            self._begin_anew()
        if missed and self.synced.is_set():
            log.error("%s: the watch had missed %d changes", self._resource.plural, missed)
        self.missed += missed
        self.heard = self.answered = time.monotonic()
        self.begun = begun
        self.synced.set()
        return listing.version

    async def _follow(self) -> None:
        """Watch through broken connections; returns where everything must be listed again.

        That is so, too, where no watch could be begun for want of a server: the one that answers next may have been
        restored from a backup, and would say nothing of what it no longer has.
        """
        failures = 0
        clock = asyncio.get_running_loop().time
        self._outdated = False
        while not self._outdated:
            begun = clock()
            self._opened = False
            try:
                async with asyncio.timeout(None) as self._watching:
                    await self._watch()
            except TimeoutError:
                return
            except ApiError as error:
                self._note(error)
                if error.status == 410:
                    log.info("%s: version %s is too old, listing again", self._resource.plural, self._version)
                    return
                log.warning("%s: cannot be watched: %s", self._resource.plural, error)
                if error.status in _NO_SERVER and not self._opened:
                    return
            except UnreachableError as error:
                log.info("%s: watch broken off: %s", self._resource.plural, error)
                if not self._opened:
                    return
            finally:
                self._watching = None
            failures = 0 if clock() - begun > _SHORTEST else failures + 1
            if failures:
                await asyncio.sleep(pause(failures, longest=30.0))

    def _begin_anew(self) -> None:
        """End the watch: a server that was restored from a backup may say nothing to one from a version ahead of it."""
        self._outdated = True
        if self._watching is not None:
            self._watching.reschedule(asyncio.get_running_loop().time())

    def _note(self, error: Exception) -> None:
        """A server that refuses is alive, and another replica would get the same answer."""
        if isinstance(error, ApiError):
            self.answered = time.monotonic()

    async def _watch(self) -> None:
        """One watch, from the last version that was told of until it ends."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(300, 600)),  # so that watches do not all end at once
        }
        async with self._client.stream(self._resource.collection, query) as batches:
            self._opened = True
            async for lines in batches:
                self.heard = self.answered = time.monotonic()
                for line in lines:
                    self._take(understood(partial(event, self._resource), line))
                await asyncio.sleep(_REST)

    def _take(self, event: Event) -> None:
        if event.entry is None:
            self._store.marked(self._resource, event.version)
        elif event.type == "DELETED" or not self._counts(event.entry):
            self._store.delete(self._resource, event.entry)
        else:
            self._store.put(self._resource, event.entry)
        self._version = event.version

    def _counts(self, entry: Entry) -> bool:
        record = entry[0]
        entries = record.data if isinstance(record, ConfigMap) else ()
        return of_interest(self._resource.group, self._resource.kind, record.metadata, entries, self._trusted)
