"""Effects as requests to the API server; one outcome each.

Effects are carried out in order, but neighbours of one kind at the same time. The server's answer goes into the store,
so a read after `apply` sees what was written even if the watch lags behind. Every attempt of every write asks
whether we still lead; events alone may tell late what was done in time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from tierwise.kube.client import IN_FLIGHT, PATIENT, Client, each
from tierwise.kube.decoding import LEAN, read
from tierwise.kube.errors import ApiError, NotLeadingError, UnreachableError
from tierwise.kube.events import Recorder
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots

__all__ = ["Writer"]

_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_POD: Final = ("", "Pod")
_SECRET: Final = ("", "Secret")


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
        self._binder = Binder(client, store, resources[_POD], binds, slots)

    def assume(self, binds: Sequence[port.Bind]) -> None:
        """Let reads show binds as done before they are sent; may be called from any thread."""
        for bind in binds:
            pod = self._store.pod(bind.pod)
            if pod is not None and bind.uid in ("", pod.metadata.uid):
                self._store.assume(bind.pod, pod.metadata.uid, node=bind.node, marks=bind.annotations)

    async def bind(
        self, binds: Sequence[port.Bind], may: Callable[[], bool], ended: Callable[[int, port.Outcome], None]
    ) -> list[port.Outcome]:
        """Bind pods while we `may`; `ended` hears of the outcome of each, by its number, as soon as it is known."""
        return await self._binder.bind(binds, may, ended)

    async def apply(self, effects: Sequence[port.Effect]) -> list[port.Outcome]:
        """Carry out effects.

        A gang for which an eviction failed is not nominated: its room will not come. One for which something could not
        be written first is neither nominated nor bound.
        """
        outcomes: list[port.Outcome] = []
        stuck: dict[str, str] = {}  # gangs that are not nominated -> why
        unprepared: dict[str, str] = {}  # gangs that are not bound -> why

        async def one(effect: port.Effect) -> port.Outcome:
            return await self._guarded(effect, stuck)

        for _, stretch in groupby(effects, type):
            some = list(stretch)
            binds = [effect for effect in some if isinstance(effect, port.Bind)]
            if binds:
                sent = [bind for bind in binds if bind.gang not in unprepared]
                bound = iter(await self._binder.bind(sent, self._may, lambda *_: None))
                for bind in binds:
                    said = unprepared.get(bind.gang)
                    outcomes.append(
                        next(bound) if said is None else port.Outcome(bind, ok=False, error=said, withheld=True)
                    )
                continue
            prepares = [effect for effect in some if isinstance(effect, port.Prepare)]
            done = await self._prepare(prepares, one) if prepares else await each(some, one, IN_FLIGHT)
            for outcome in done:
                match outcome.effect:
                    case port.Evict(by=gang) if not outcome.ok:
                        stuck[gang] = f"withheld, because an eviction for it failed: {outcome.error}"
                    case port.Prepare(key=key, gang=gang) if not outcome.ok and gang not in unprepared:
                        why = f"withheld, because {key} could not be written: {outcome.error}"
                        unprepared[gang] = stuck[gang] = why
            outcomes += done
        return outcomes

    async def _prepare(
        self, prepares: list[port.Prepare], one: Callable[[port.Effect], Awaitable[port.Outcome]]
    ) -> list[port.Outcome]:
        """Writes about different objects at the same time, those about one object in order until one fails.

        Those that come after others wait for these, and are not made where they failed.
        """

        async def in_order(own: list[port.Prepare]) -> list[port.Outcome]:
            done: list[port.Outcome] = []
            for effect in own:
                failed = next((outcome for outcome in done if not outcome.ok), None)
                done.append(await one(effect) if failed is None else replace(failed, effect=effect))
            return done

        stretches = [list(own) for _, own in groupby(prepares, lambda effect: effect.key)]
        found: list[list[port.Outcome]] = [[] for _ in stretches]
        failed: dict[port.Key | None, port.Outcome] = {}
        for later in (False, True):
            now = [i for i, own in enumerate(stretches) if (own[0].after is not None) is later]
            tried = [i for i in now if stretches[i][0].after not in failed]
            for i in set(now).difference(tried):
                found[i] = [replace(failed[effect.after], effect=effect) for effect in stretches[i]]
            for i, done in zip(tried, await each([stretches[i] for i in tried], in_order, IN_FLIGHT), strict=True):
                found[i] = done
                if not done[-1].ok:  # the last one fails with any before it
                    failed[stretches[i][0].key] = done[-1]
        return [outcome for done in found for outcome in done]

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
                return self._evict(pod, effect.uid) if asks else self._delete(pod, effect.uid)
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
            await self._client.ask("POST", path, raw, within=PATIENT, may=self._may, expects="Secret")
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _patch_status(self, key: port.Key, status: Raw, annotations: Mapping[str, str]) -> None:
        """Fields of a status are replaced one by one; conditions of pods belong to several writers, and are merged."""
        resource = self._resource(key)
        if status:
            merged = (key.group, key.kind) in LEAN
            known = self._store.find(key)
            shown = part(known[1], "status") if known is not None else {}
            body = status if merged else _replacing(status, shown)
            await self._patch(key, {"status": body}, kind=_STRATEGIC if merged else _MERGE, status=resource.status)
        if annotations:
            await self._patch(key, {"metadata": {"annotations": dict(annotations)}}, kind=_MERGE, status=False)

    async def _patch(self, key: port.Key, body: Raw, *, kind: str, status: bool) -> None:
        path = self._resource(key).at(key) + ("/status" if status else "")
        await self._answered(key, "PATCH", path, body, kind=kind)

    def _uid(self, key: port.Key) -> str:
        known = self._store.find(key)
        return known[0].metadata.uid if known is not None else ""

    async def _evict(self, key: port.Key, uid: str) -> None:
        """Ask for an eviction: disruption budgets may refuse it, and that is final for this cycle.

        So is a 500, with which the server refuses pods under two budgets, some of which were made since the decision.
        """
        uid = uid or self._uid(key)
        body = manifest("policy/v1", "Eviction", key.name, key.namespace, deleteOptions=_only(uid))
        path = f"{self._resource(key).at(key)}/eviction"
        await self._client.ask("POST", path, body, may=self._may, expects=("Status", "Eviction"), final=500)
        self._store.assume(key, uid, leaving=_now())

    async def _delete(self, key: port.Key, uid: str) -> None:
        uid = uid or self._uid(key)
        body: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body |= _only(uid)
        path, answers = self._resource(key).at(key), ("Status", key.kind)
        await self._client.ask("DELETE", path, body, within=PATIENT, may=self._may, expects=answers)
        if (key.group, key.kind) == _POD:
            self._store.assume(key, uid, leaving=_now())

    async def _answered(
        self, key: port.Key, method: str, path: str, body: Raw, *, kind: str = "application/json", once: bool = False
    ) -> None:
        """Send, and put the object that comes back into the store."""
        ask = self._client.send if once else self._client.ask
        resource = self._resource(key)
        answer = await ask(method, path, body, kind=kind, within=PATIENT, may=self._may, expects=resource.kind)
        entry = read(resource, answer)
        if entry is not None:
            self._store.answered(resource, entry)

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
    return {**patch, "metadata": {**part(patch, "metadata"), "resourceVersion": version}} if version else patch


def _only(uid: str) -> Raw:
    """Delete this very object, and not another of the same name."""
    return {"preconditions": {"uid": uid}} if uid else {}


def _now() -> str:
    return format_time(time.time())
