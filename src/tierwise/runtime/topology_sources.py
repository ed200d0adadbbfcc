"""Keeps the records of discovery sources up to date: fetches due sources in threads, and returns the writes.

Called by the loop in each iteration of the leader, and never blocks: a thread that ends wakes the loop, and the next
iteration writes the record, from which controllers make hyperNodes. All state is in the records, so the next leader
continues where this process stopped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.controllers.discovery.sources import FETCHED
from tierwise.dialects.volcano.discovery import OtherSource, other_sources
from tierwise.discovery import fetch_record
from tierwise.discovery.fetch_record import FetchRecord
from tierwise.kube.errors import ApiError, UnreachableError
from tierwise.port import Create, Effect, Key, Objects, Update

__all__ = ["Fetching"]

log = logging.getLogger(__name__)


class _Known(msgspec.Struct, frozen=True):
    """A source as it is configured now, and the record of it in the cluster."""

    source: OtherSource
    manifest: Raw | None
    record: FetchRecord | None  # None as well where another wrote the manifest


class _Ended(msgspec.Struct, frozen=True):
    """A try that is over, and the record that it began with."""

    source: OtherSource
    before: FetchRecord | None
    result: FetchRecord


class Fetching:
    """The fetches of one process, at most one of each kind of source at a time."""

    def __init__(
        self,
        secret: Callable[[str, str], Mapping[str, str]],
        *,
        clock: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
        files: Path | None = None,
    ) -> None:
        """`secret` reads the Secret of a namespace and name, in any thread; `wake` brings about another iteration.

        `files` is the folder below which file sources may be; without one they are refused.
        """
        self._secret = secret
        self._clock = clock
        self._wake = wake
        self._files = files
        self._tries: dict[str, _Ended | None] = {}  # by kind; None while a thread is at it, which then puts its end
        self._last: dict[str, OtherSource] = {}  # as each was when it was last tried by us
        self._seen: tuple[Objects, list[_Known]] | None = None

    def step(self, objects: Objects) -> list[Effect]:
        """Begin whatever is due; the records to write of what has ended."""
        effects: list[Effect] = []
        for state in self._known(objects):
            kind = state.source.kind
            if kind in self._tries:
                ended = self._tries[kind]
                if ended is None:
                    continue
                effect = _written(state, ended)
                if effect is not None:
                    effects.append(effect)  # again in the next iteration if it cannot be written in this one
                    continue
                del self._tries[kind]
            if self._is_due(state):
                self._begin(state)
        return effects

    def due(self, objects: Objects) -> float | None:
        """When the next fetch is to begin; None where nothing waits for its time."""
        waiting = (state for state in self._known(objects) if state.source.kind not in self._tries)
        moments = [fetch_record.next_try(k.record, k.source.interval) if k.record is not None else 0.0 for k in waiting]
        return min(moments, default=None)

    def _known(self, objects: Objects) -> list[_Known]:
        """The sources that are fetched; read again where a ConfigMap has changed."""
        if self._seen is None or not objects.alike(self._seen[0], ConfigMap):
            configs = objects.every(ConfigMap).values()
            states = []
            for source in other_sources(configs):
                if source.kind in FETCHED:
                    states.append(_look(objects, source))
            self._seen = objects, states
        return self._seen[1]

    def _is_due(self, state: _Known) -> bool:
        """At its time, and at once where its configuration has changed: the old failures tell nothing about it."""
        changed = self._last.get(state.source.kind, state.source) != state.source
        return changed or fetch_record.due(state.record, state.source.interval, self._clock())

    def _begin(self, state: _Known) -> None:
        source = state.source
        self._last[source.kind] = source
        # Not waited for at the end of the process either: a server that hangs shall not hold it up.
        self._tries[source.kind] = None
        threading.Thread(target=self._fetch, args=(source, state.record), name=source.kind, daemon=True).start()

    def _fetch(self, source: OtherSource, before: FetchRecord | None) -> None:
        """The thread."""
        now = self._clock()
        try:
            # Imported when a source is due: few clusters have one, and every start would wait for its readers.
            from tierwise.fetch.refresh import refresh

            result = refresh(source, self._credentials(source), before, now, files=self._files)
        except _CredentialsError as error:
            result = fetch_record.failed(before, str(error), now)
        except Exception:  # whatever it is, the source must not be taken for busy for ever
            log.exception("fetching %s failed", source.kind)
            result = fetch_record.failed(before, "a bug in tierwise: see the log", now)
        if result.failures:
            log.warning("%s cannot be fetched: %s", source.kind, result.error)
        else:
            log.info("%s was fetched", source.kind)
        self._tries[source.kind] = _Ended(source, before, result)
        with contextlib.suppress(RuntimeError):  # the cluster's own thread has ended before this one
            self._wake()

    def _credentials(self, source: OtherSource) -> Mapping[str, str]:
        if source.secret is None:
            return {}
        namespace, name = source.secret
        # Otherwise any author of a ConfigMap could have our credentials sent to an address of their choice.
        if namespace != source.namespace:
            raise _CredentialsError(f"Secret {namespace}/{name}: must be in the configuration's namespace")
        try:
            return self._secret(namespace, name)
        except (ApiError, UnreachableError) as error:
            raise _CredentialsError(f"Secret {namespace}/{name}: {error}") from None


class _CredentialsError(Exception):
    """The Secret that a configuration names cannot be read, or must not be."""


def _look(objects: Objects, source: OtherSource) -> _Known:
    key = Key("", "ConfigMap", source.namespace, fetch_record.record_name(source.kind))
    config_map = objects.every(ConfigMap).get(key.path)
    try:
        record = fetch_record.read(config_map) if config_map is not None else None
    except ValueError:  # the controllers tell people
        record = None
    return _Known(source, objects.raw(key), record)


def _written(state: _Known, ended: _Ended) -> Effect | None:
    """Effect that records an attempt; None if it is recorded already, or no longer fits the source."""
    if ended.source != state.source or ended.before != state.record:
        return None
    source = state.source
    present = state.manifest
    content = fetch_record.manifest(ended.result, source.kind, source.namespace)
    if present is None:
        return Create(content)
    key = Key("", "ConfigMap", source.namespace, fetch_record.record_name(source.kind))
    if present.get("data") != content["data"]:
        return Update(key, {**present, "data": content["data"]})
    return None
