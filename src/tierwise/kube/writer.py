"""Effects as requests to the API server; one outcome each.

Effects are carried out in order, but neighbours of one kind at the same time. The server's answer goes into the store,
so a read after `apply` sees what was written even if the watch lags behind. Every attempt of every write asks
whether we still lead; events alone may tell late what was done in time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from functools import partial
from itertools import groupby
from typing import Final, assert_never
from urllib.parse import quote

from msgspec.structs import replace

from tierwise import port
from tierwise.api.codec import Raw, part
from tierwise.api.core import format_time
from tierwise.api.manifest import manifest
from tierwise.kube.behind_binds import BindsUnderWay
from tierwise.kube.binder import Binder
from tierwise.kube.client import PATIENT, Client
from tierwise.kube.decoding import LEAN, read
from tierwise.kube.errors import ApiError, NotLeadingError, UnreachableError
from tierwise.kube.events import Recorder
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots

__all__ = ["Writer", "by_gang", "by_namespace"]

_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_POD: Final = ("", "Pod")
_SECRET: Final = ("", "Secret")


_Written = tuple[type[port.Effect], port.Key]


def by_gang(effects: Sequence[port.Effect]) -> list[list[int]]:
    """Lists of indexes into effects, to be written apart from each other.

    Each gang has a list, if anything but binds happens to it; the binds of all other gangs share one list; every other
    effect is in the list of the object that it is about, so that an event comes with its object's status.
    """
    several = {gang for effect in effects if not isinstance(effect, port.Bind) and (gang := port.gang_of(effect))}
    groups: dict[object, list[int]] = {}
    for number, effect in enumerate(effects):
        gang = port.gang_of(effect)
        alone = isinstance(effect, port.Bind) and gang not in several
        groups.setdefault(None if alone else gang or port.about(effect), []).append(number)
    return list(groups.values())


def by_namespace(effects: Sequence[port.Effect]) -> list[list[int]]:
    """The numbers of effects about objects of each namespace."""
    groups: dict[str, list[int]] = {}
    for number, effect in enumerate(effects):
        groups.setdefault(port.about(effect).namespace, []).append(number)
    return list(groups.values())


class _Turn:
    """When a write about an object may be sent: after the one before, if that has succeeded."""

    def __init__(self, before: asyncio.Future[port.Outcome] | None) -> None:
        self.before = before
        self.ended: asyncio.Future[port.Outcome] = asyncio.get_running_loop().create_future()

    def end(self, outcome: port.Outcome | None) -> None:
        """Let the next one be sent; None where this one was given up."""
        if outcome is None:
            self.ended.cancel()
        elif not self.ended.done():
            self.ended.set_result(outcome)


class Writer:
    """Carries out effects on a real cluster."""

    def __init__(
        self,
        client: Client,
        store: Store,
        resources: Mapping[tuple[str, str], Resource],
        *,
        recorder: Recorder,
        binds: BindsUnderWay,
        slots: WriteSlots,
        may: Callable[[], bool],
        by_eviction: bool,
    ) -> None:
        self._client = client
        self._store = store
        self._resources = resources
        self._recorder = recorder
        self._may = may
        self._by_eviction = by_eviction
        self._slots = slots
        self._binder = Binder(client, store, resources[_POD], binds, slots)
        self._last: dict[_Written, _Turn] = {}  # of the writes of each object, where it has not ended
        self._telling: dict[port.Key, set[port.Key]] = {}  # objects whose status is being written -> by which group

    def only(self, may: Callable[[], bool]) -> Writer:
        """A copy of this writer that writes only while `may` returns True."""
        writer = copy(self)
        writer._may = may
        return writer

    def assume(self, effects: Sequence[port.Effect]) -> list[Callable[[port.Outcome], None] | None]:
        """Let reads show effects as done before they are sent; may be called from any thread.

        What is to be called with the outcome of each, once that is known; None where nothing is.
        """
        return [self._assume(effect) for effect in effects]

    def _assume(self, effect: port.Effect) -> Callable[[port.Outcome], None] | None:
        match effect:
            case port.Bind(pod, node, annotations):
                entry = self._store.pod(pod)
                if entry is not None and effect.uid in ("", entry.metadata.uid):
                    self._store.assume(pod, entry.metadata.uid, node=node, marks=annotations)
                return None  # the binder knows when that has not come to be
            case port.Evict(pod):
                uid = effect.uid or self._uid(pod)
                self._store.assume(pod, uid, leaving=_now())
                return lambda outcome: None if outcome.ok else self._store.forget(pod, uid, "leaving")
            case port.Nominate(pod, node):
                uid = effect.uid or self._uid(pod)
                if not self._store.nominate(pod, uid, node):
                    return None
                return lambda _: self._store.forget(pod, uid, "nominated")
            case port.Prepare(key, patch):
                number = self._store.patch(key, patch, create=effect.create)
                if number is not None:
                    return partial(self._end_patch, key, number)
                return None
            case _:
                return None

    def _end_patch(self, key: port.Key, number: int, _: port.Outcome) -> None:
        self._store.end_patch(key, number)

    async def carry_out(
        self,
        effects: Sequence[port.Effect],
        groups: Iterable[Sequence[int]],
        ended: Callable[[int, port.Outcome], None],
    ) -> list[port.Outcome]:
        """Carry out effects, those of each group by themselves, as `apply` does; `ended` hears of each outcome at once.

        `groups` are numbers of effects.
        """
        turns = self._turns(effects)
        outcomes: list[port.Outcome | None] = [None] * len(effects)

        async def group(numbers: Sequence[int]) -> None:
            def told(number: int, outcome: port.Outcome) -> None:
                outcomes[numbers[number]] = outcome
                ended(numbers[number], outcome)

            await self._in_order([effects[number] for number in numbers], [turns.get(n) for n in numbers], told)

        try:
            await asyncio.gather(*map(group, groups))
        finally:
            for turn in turns.values():
                turn.end(None)
        return [outcome for outcome in outcomes if outcome is not None]

    async def apply(self, effects: Sequence[port.Effect]) -> list[port.Outcome]:
        """Carry out effects in order, neighbours of one kind at the same time.

        A gang for which an eviction failed is not nominated: its room will not come. One for which something could not
        be written first is neither nominated nor bound.
        """
        return await self.carry_out(effects, [range(len(effects))], lambda *_: None)

    def _turns(self, effects: Sequence[port.Effect]) -> dict[int, _Turn]:
        """Writes and nominations of one object follow each other, whichever effects they were begun with."""
        turns: dict[int, _Turn] = {}
        for number, effect in enumerate(effects):
            if isinstance(effect, port.Prepare | port.Nominate):
                written = type(effect), port.about(effect)
                previous = self._last.get(written)
                turn = turns[number] = self._last[written] = _Turn(previous.ended if previous is not None else None)
                turn.ended.add_done_callback(partial(self._forget_turn, written, turn))
        return turns

    def _forget_turn(self, written: _Written, turn: _Turn, _: asyncio.Future[port.Outcome]) -> None:
        if self._last.get(written) is turn:
            del self._last[written]

    async def _in_order(
        self,
        effects: Sequence[port.Effect],
        turns: Sequence[_Turn | None],
        report_outcome: Callable[[int, port.Outcome], None],
    ) -> None:
        stuck: dict[str, str] = {}  # gangs that are not nominated -> why
        unprepared: dict[str, str] = {}  # gangs that are not bound -> why
        failed: set[port.Key] = set()  # objects whose status is not written
        after: dict[port.Key, asyncio.Future[port.Outcome]] = {}  # the first write of each object

        async def one(number: int) -> None:
            effect = effects[number]
            turn = turns[number]
            if turn is not None and isinstance(effect, port.Prepare):
                outcome = await self._prepare(effect, turn, after)
            elif isinstance(effect, port.PatchStatus | port.RecordEvent):
                outcome = await self._tell(effect, failed)
            else:
                if turn is not None and turn.before is not None:
                    await asyncio.wait([turn.before])
                outcome = await self._guarded(effect, stuck)
            if turn is not None:
                turn.end(outcome)
            report_outcome(number, outcome)
            match outcome.effect:
                case port.Evict(by=gang) if not outcome.ok:
                    stuck[gang] = f"withheld, because an eviction for it failed: {outcome.error}"
                case port.Prepare(key=key, gang=gang) if not outcome.ok and gang not in unprepared:
                    why = f"withheld, because {key} could not be written: {outcome.error}"
                    unprepared[gang] = stuck[gang] = why

        for kind, stretch in groupby(range(len(effects)), lambda number: type(effects[number])):
            numbers = list(stretch)
            if kind is port.Bind:
                await self._bind(
                    [(n, effect) for n in numbers if isinstance(effect := effects[n], port.Bind)],
                    unprepared,
                    report_outcome,
                )
                continue
            for number in numbers:
                turn = turns[number]
                if turn is not None:
                    after.setdefault(port.about(effects[number]), turn.ended)
            await asyncio.gather(*map(one, numbers))

    async def _bind(
        self,
        binds: Sequence[tuple[int, port.Bind]],
        unprepared: Mapping[str, str],
        report_outcome: Callable[[int, port.Outcome], None],
    ) -> None:
        """Bind those whose gangs are prepared."""
        sent = [(number, bind) for number, bind in binds if bind.gang not in unprepared]
        for number, bind in binds:
            if bind.gang in unprepared:
                outcome = port.Outcome(bind, ok=False, error=unprepared[bind.gang], withheld=True)
                self._binder.forget(bind)
                report_outcome(number, outcome)
        await self._binder.bind(
            [bind for _, bind in sent], self._may, lambda i, outcome: report_outcome(sent[i][0], outcome)
        )

    async def _prepare(
        self, effect: port.Prepare, turn: _Turn, after: Mapping[port.Key, asyncio.Future[port.Outcome]]
    ) -> port.Outcome:
        """Write what builds on earlier writes of the object, and on the object that it comes `after`: once they are."""
        required = after.get(effect.after) if effect.after is not None else None
        for before in (turn.before, required):
            if before is not None:
                await asyncio.wait([before])
                if before.cancelled():
                    return port.Outcome(effect, ok=False, error=str(NotLeadingError()), withheld=True)
                if not before.result().ok:
                    return replace(before.result(), effect=effect)
        return await self._guarded(effect, {})

    async def _tell(self, effect: port.PatchStatus | port.RecordEvent, failed: set[port.Key]) -> port.Outcome:
        """Write a status, unless one of the object is being written: what still holds then is asked for again.

        What people are told together with a status that is not written is not told either.
        """
        key = port.about(effect)
        if isinstance(effect, port.RecordEvent):
            if key in failed:
                return port.Outcome(effect, ok=False, error="withheld with a status", withheld=True)
            return await self._guarded(effect, {})
        if self._telling.setdefault(key, failed) is not failed:
            failed.add(key)
            return port.Outcome(effect, ok=False, error=f"withheld: a status of {key} is being written", withheld=True)
        try:
            return await self._guarded(effect, {})
        finally:
            self._telling.pop(key, None)

    async def _guarded(self, effect: port.Effect, stuck: Mapping[str, str]) -> port.Outcome:
        if isinstance(effect, port.Nominate) and effect.node and effect.gang in stuck:
            return port.Outcome(effect, ok=False, error=stuck[effect.gang], withheld=True)
        if not self._may():
            return port.Outcome(effect, ok=False, error=str(NotLeadingError()), withheld=True)
        try:
            await self._one(effect)
        except NotLeadingError as error:
            return port.Outcome(effect, ok=False, error=str(error), withheld=True)
        except UnreachableError as error:
            return port.Outcome(effect, ok=False, error=str(error))
        except ApiError as error:
            changed = error.status in (404, 409)  # since it was decided: the next decision knows
            return port.Outcome(effect, ok=False, error=str(error), lasting=not changed)
        except KeyError as error:
            return port.Outcome(effect, ok=False, error=f"the API server does not serve {error}")
        return port.Outcome(effect, ok=True)

    def _one(self, effect: port.Effect) -> Awaitable[None]:
        match effect:
            case port.Nominate(pod, node):
                body = port.with_uid({"status": {"nominatedNodeName": node or None}}, effect.uid)
                return self._patch(pod, body, kind=_MERGE, status=True)
            case port.Prepare(key, patch):
                if effect.create:
                    return self._create(patch)
                # Several schedulers may reserve one claim: the server merges the lists.
                kind = _STRATEGIC if key.group == "resource.k8s.io" else _MERGE
                return self._patch(key, _only_of(effect.version, patch), kind=kind, status=effect.status)
            case port.Evict(pod):
                asks = self._by_eviction and not effect.past_budgets
                if asks:
                    return self._evict(pod, effect.uid)
                return self._delete(pod, effect.uid)
            case port.Create(raw):
                return self._create(raw)
            case port.Update(key, raw):
                return self._answered(key, "PUT", self._resource(key).at(key), raw)
            case port.Delete(key):
                return self._delete(key, effect.uid)
            case port.PatchStatus(key, status, annotations):
                return self._patch_status(key, status, annotations)
            case port.RecordEvent():
                return self._record(effect)
            case port.Bind():
                raise AssertionError("the binder's")
            case _:
                assert_never(effect)

    async def status(self, effect: port.PatchStatus) -> port.Outcome:
        """Write one status."""
        return await self._guarded(effect, {})

    async def _record(self, event: port.RecordEvent) -> None:
        self._recorder.record(event)

    async def _create(self, raw: Raw) -> None:
        """Make an object; where the answer to an earlier attempt was lost, it is there by now."""
        key = port.key_of_raw(raw)
        if (key.group, key.kind) == _SECRET:
            await self._create_unread(key, raw)
            return
        path = self._resource(key).path(key.namespace)
        try:
            await self._answered(key, "POST", path, raw, once=True)
        except UnreachableError:
            try:
                await self._answered(key, "POST", path, raw)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def _create_unread(self, key: port.Key, raw: Raw) -> None:
        """Make a Secret, which may not be read: one that is there, whoever made it, does as well."""
        path = f"/api/v1/namespaces/{quote(key.namespace)}/secrets"
        try:
            slot = self._slot(key)
            await self._client.ask("POST", path, raw, within=PATIENT, may=self._may, expects="Secret", slot=slot)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _patch_status(self, key: port.Key, status: Raw, annotations: Mapping[str, str]) -> None:
        """Fields of a status are replaced one by one; conditions of pods belong to several writers, and are merged."""
        resource = self._resource(key)
        if status:
            merged = (key.group, key.kind) in LEAN
            entry = self._store.find(key)
            shown = part(entry[1], "status") if entry is not None else {}
            body = status if merged else _replacing(status, shown)
            await self._patch(key, {"status": body}, kind=_STRATEGIC if merged else _MERGE, status=resource.status)
        if annotations:
            await self._patch(key, {"metadata": {"annotations": dict(annotations)}}, kind=_MERGE, status=False)

    async def _patch(self, key: port.Key, body: Raw, *, kind: str, status: bool) -> None:
        path = self._resource(key).at(key) + ("/status" if status else "")
        await self._answered(key, "PATCH", path, body, kind=kind)

    def _uid(self, key: port.Key) -> str:
        entry = self._store.find(key)
        return entry[0].metadata.uid if entry is not None else ""

    async def _evict(self, key: port.Key, uid: str) -> None:
        """Ask for an eviction: disruption budgets may refuse it, and that is final for this cycle.

        So is a 500, with which the server refuses pods under two budgets, some of which were made since the decision.
        """
        uid = uid or self._uid(key)
        body = manifest("policy/v1", "Eviction", key.name, key.namespace, deleteOptions=_only(uid))
        path = f"{self._resource(key).at(key)}/eviction"
        answers = ("Status", "Eviction")
        slot = self._slot(key)
        await self._client.ask("POST", path, body, within=PATIENT, may=self._may, expects=answers, final=500, slot=slot)
        self._store.assume(key, uid, leaving=_now())

    async def _delete(self, key: port.Key, uid: str) -> None:
        uid = uid or self._uid(key)
        body: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body |= _only(uid)
        path = self._resource(key).at(key)
        answers = ("Status", key.kind)
        slot = self._slot(key)
        await self._client.ask("DELETE", path, body, within=PATIENT, may=self._may, expects=answers, slot=slot)
        if (key.group, key.kind) == _POD:
            self._store.assume(key, uid, leaving=_now())

    async def _answered(
        self, key: port.Key, method: str, path: str, body: Raw, *, kind: str = "application/json", once: bool = False
    ) -> None:
        """Send, and put the object that comes back into the store."""
        resource = self._resource(key)
        slot = self._slot(key)
        if once:
            async with slot():
                answer = await self._client.send(
                    method, path, body, kind=kind, within=PATIENT, may=self._may, expects=resource.kind
                )
        else:
            answer = await self._client.ask(
                method, path, body, kind=kind, within=PATIENT, may=self._may, expects=resource.kind, slot=slot
            )
        entry = read(resource, answer)
        if entry is not None:
            self._store.answered(resource, entry)

    def _slot(self, key: port.Key) -> Callable[[], AbstractAsyncContextManager[None]]:
        """A slot for each attempt of a write about an object."""
        return partial(self._slots.of, key.namespace)

    def _resource(self, key: port.Key) -> Resource:
        try:
            return self._resources[key.group, key.kind]
        except KeyError:
            raise KeyError(f"{key.kind}.{key.group}" if key.group else key.kind) from None


def _replacing(fields: Raw, shown: Raw) -> Raw:
    """A merge patch that replaces: what a field holds now and shall no longer hold is taken away by name."""
    patch: Raw = {}
    for name, value in fields.items():
        current = shown.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            patch[name] = dict.fromkeys(current.keys() - value.keys()) | _replacing(value, current)
        else:
            patch[name] = value
    return patch


def _only_of(version: str, patch: Raw) -> Raw:
    """A merge patch of an object as it was at a version, and of no later one."""
    if version:
        return {**patch, "metadata": {**part(patch, "metadata"), "resourceVersion": version}}
    return patch


def _only(uid: str) -> Raw:
    """Delete this very object, and not another of the same name."""
    return {"preconditions": {"uid": uid}} if uid else {}


def _now() -> str:
    return format_time(time.time())
