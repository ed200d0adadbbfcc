"""Binds, gang by gang: together, in bulk, and with an outcome that is known.

The rule for a gang of which some binds fail:

1. Before anything is sent, every pod, claim and node of the gang is looked at once more; where one is gone, also if
   another has its name by now, nothing is sent. Each is looked at again right before its own bind.
2. A refusal that may pass (429, 503) is waited out. Where it is not known whether a bind happened (time-out, broken
   connection, 409, 500) the pod is looked up, and bound again to the same node where it has none; binds of its gang
   that were not sent yet wait until it is known. Every attempt asks whether we still lead: the next leader may have
   given the node to others.
3. Once a bind of the gang has failed for good, those not yet sent are withheld: the fewer pods are bound, the less
   there is to mend. The next cycle, which comes at once, places what is missing beside what is bound, within the
   gang's domain; if that is not possible in time, what is bound is released (`scheduler.partial_gangs`).
4. A pod may be assumed on its node before its bind is sent. One that is refused or withheld is read again as
   the watch shows it.
5. A bind whose outcome stays unknown, because no answer came or the lease was lost before one did, is held as assumed
   and looked up until there is an answer; nothing is sent for that pod before.

Each attempt holds a slot of its namespace (`kube.write_slots`) while its request is under way, and waits for the answer
as long as a server may take for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tierwise.api.core import Pod
from tierwise.kube.behind_binds import BindsUnderWay
from tierwise.kube.client import PATIENT, Client, pause
from tierwise.kube.decoding import read
from tierwise.kube.errors import ApiError, NotLeadingError, UnreachableError
from tierwise.kube.kinds import Resource
from tierwise.kube.store import Store
from tierwise.kube.write_slots import WriteSlots
from tierwise.port import Bind, Key, Outcome, lone_gang

__all__ = ["Binder"]

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
_UNCHECKED: Final = {"fieldValidation": "Ignore"}
"""A Binding has no field that a server does not know: that it looks for one takes 4 in 100 of its time for a bind."""
_GONE: Final = "the pod is gone"
_UNKNOWN: Final = "the outcome is unknown: the pod is looked up until there is an answer"


class _Refusal(msgspec.Struct, frozen=True):
    """Outcome of an attempt that was neither carried out nor finally refused."""

    pod: Pod
    said: str
    wait: float | None = None  # seconds before another attempt, where the server says so
    unanswered: bool = False  # it may still be under way on the server
    certain: bool = False  # it did not happen


class _GangBinds:
    """The binds of one gang in one batch: whether the rest may still be sent."""

    def __init__(self) -> None:
        self.broken = ""  # which bind has failed for good, and why
        self._doubts = 0
        self._certain = asyncio.Event()
        self._certain.set()

    def begin_doubt(self) -> None:
        """It is not known whether a bind happened."""
        self._doubts += 1
        self._certain.clear()

    def end_doubt(self) -> None:
        """It is known what became of a bind, or it is looked up without its gang waiting for it."""
        self._doubts -= 1
        if not self._doubts:
            self._certain.set()

    @property
    def in_doubt(self) -> bool:
        """Whether it is not known of some bind whether it happened."""
        return bool(self._doubts)

    async def certain(self) -> None:
        """Return once it is known of every bind that was sent whether it happened."""
        await self._certain.wait()


class Binder:
    """Binds pods through an API server."""

    def __init__(
        self, client: Client, store: Store, pods: Resource, under_way: BindsUnderWay, slots: WriteSlots
    ) -> None:
        self._client = client
        self._store = store
        self._pods = pods
        self._slots = slots
        self._lookups: set[asyncio.Task[None]] = set()
        self._under_way = under_way

    async def bind(
        self, binds: Sequence[Bind], may: Callable[[], bool], ended: Callable[[int, Outcome], None]
    ) -> list[Outcome]:
        """Bind pods while we `may`; one outcome each, in order, and `ended` hears of each as soon as it is known.

        Others may be under way.
        """
        gangs: dict[str, _GangBinds] = {}
        for bind in binds:
            gang = gangs.setdefault(_gang(bind), _GangBinds())
            if not gang.broken and (fault := self._fault(bind)):
                gang.broken = f"{bind.pod}: {fault}"

        async def one(number: int, bind: Bind) -> Outcome:
            gang = gangs[_gang(bind)]
            outcome = await self._one(bind, gang, may)
            if not outcome.ok and not outcome.withheld and not gang.broken:
                gang.broken = f"{bind.pod}: {outcome.error}"
            ended(number, outcome)
            return outcome

        # A task for each: whoever sleeps before another attempt keeps nobody else from being sent.
        return await asyncio.gather(*(one(number, bind) for number, bind in enumerate(binds)))

    def _fault(self, bind: Bind) -> str:
        """Change since the decision that makes a bind pointless; "" without one."""
        pod = self._store.pod(bind.pod)
        if pod is None or pod.metadata.deletion_timestamp:
            return _GONE
        if bind.uid not in ("", pod.metadata.uid):
            return "the pod is gone, and another of its name is there"
        if pod.spec.node_name not in ("", bind.node):
            return f"the pod is on node {pod.spec.node_name}"
        if not self._store.has(Key("", "Node", "", bind.node)):
            return f"node {bind.node} is gone"
        return next((fault for key, uid in bind.claims if uid and (fault := self._claim_fault(key, uid))), "")

    def _claim_fault(self, key: Key, uid: str) -> str:
        """Text about a claim that is gone or was replaced since the decision; "" if it is the same claim."""
        entry = self._store.find(key)
        if entry is None:
            return f"{key} is gone"
        meta = entry[0].metadata
        if meta.uid != uid:
            return f"{key} is gone, and another of its name is there"
        if meta.deletion_timestamp:
            return f"{key} is leaving"
        return ""

    async def _one(self, bind: Bind, gang: _GangBinds, may: Callable[[], bool]) -> Outcome:
        """Bind one pod, unless its gang cannot be whole any more."""
        answer: Outcome | _Refusal | None = self._kept_back(bind, gang)
        while answer is None:
            await gang.certain()
            async with self._slots.of(bind.pod.namespace):
                if not gang.in_doubt:  # another may have become so meanwhile
                    answer = self._kept_back(bind, gang) or await self._attempt(bind, may)
        if isinstance(answer, Outcome):
            return answer
        if not answer.unanswered:
            return await self._again(bind, may, answer)
        gang.begin_doubt()
        try:
            return await self._again(bind, may, answer)
        finally:
            gang.end_doubt()

    def _kept_back(self, bind: Bind, gang: _GangBinds) -> Outcome | None:
        """The outcome of a bind that is not to be sent; None where it is."""
        if gang.broken:
            return self._withheld(bind, f"withheld, because its gang would not be whole: {gang.broken}")
        fault = self._fault(bind)
        return self._failed(bind, fault) if fault else None

    async def _again(self, bind: Bind, may: Callable[[], bool], refusal: _Refusal) -> Outcome:
        """Look a bind up that did not succeed at once, and try again while its refusal may pass."""
        pod = refusal.pod
        unanswered = False  # whether an attempt may still be under way on the server
        for attempt in range(_ATTEMPTS):
            unanswered = unanswered or refusal.unanswered
            if not refusal.certain:
                outcome = await self._look_up(bind, pod)
                if outcome is not None:
                    return outcome
            if attempt + 1 == _ATTEMPTS:
                break
            await asyncio.sleep(pause(attempt, shortest=0.05) if refusal.wait is None else refusal.wait)
            async with self._slots.of(bind.pod.namespace):
                answer = await self._attempt(bind, may, pod)
            if isinstance(answer, Outcome):
                return self._unknown(bind, pod) if unanswered and answer.withheld else answer
            refusal = answer
        if unanswered:
            return self._unknown(bind, pod)
        return self._failed(bind, refusal.said, lasting=True)

    async def _attempt(self, bind: Bind, may: Callable[[], bool], pod: Pod | None = None) -> Outcome | _Refusal:
        """Send a bind once, of the `pod` that was meant before; the refusal where it may pass or is none."""
        pod = pod or self._store.pod(bind.pod)
        if pod is None:
            return self._failed(bind, _GONE)
        try:
            await self._send(bind, pod, may)
        except NotLeadingError as error:
            return self._withheld(bind, str(error))
        except ApiError as error:
            if not (error.passing or error.status == 409):
                return self._failed(bind, str(error), lasting=True)
            gateway = error.status in (502, 504)  # whose word is no answer of the API server
            return _Refusal(pod, str(error), error.retry_after, unanswered=gateway, certain=error.status in (429, 503))
        except UnreachableError as error:
            return _Refusal(pod, str(error), unanswered=True)
        return self._done(bind, pod)

    def _unknown(self, bind: Bind, pod: Pod) -> Outcome:
        """An attempt may still be under way on the server: the pod keeps its place here until it is known."""
        self._store.assume(bind.pod, pod.metadata.uid, node=bind.node)
        task = asyncio.get_running_loop().create_task(self._settle(bind, pod))
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)
        return Outcome(bind, ok=False, error=_UNKNOWN)

    async def _send(self, bind: Bind, pod: Pod, may: Callable[[], bool]) -> None:
        """The uid makes sure that it is this pod, and not another of the same name."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": bind.pod.name,
                "namespace": bind.pod.namespace,
                "uid": pod.metadata.uid,
                "annotations": dict(bind.annotations),  # the server puts them on the pod
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        with self._under_way:
            await self._client.send(
                "POST",
                f"{self._pods.at(bind.pod)}/binding",
                body,
                query=_UNCHECKED,
                within=PATIENT,
                may=may,
                expects=("Status", "Binding"),
            )

    async def _look_up(self, bind: Bind, pod: Pod) -> Outcome | None:
        """Outcome of a bind by the server's state; None if the pod has no node, or the server does not answer."""
        try:
            answer = await self._client.ask("GET", self._pods.at(bind.pod), expects="Pod")
        except ApiError as error:
            if error.status == 404:
                return self._failed(bind, "the pod is gone")
            return None
        except UnreachableError:
            return None
        entry = read(self._pods, answer)
        shown = entry[0] if entry is not None else None
        if not isinstance(shown, Pod):
            return None
        if shown.metadata.uid != pod.metadata.uid:
            return self._failed(bind, "the pod is gone, and another of its name is there")
        if shown.spec.node_name == bind.node:
            return self._done(bind, pod)
        if shown.metadata.deletion_timestamp:
            return self._failed(bind, "the pod is leaving")
        if shown.spec.node_name:
            return self._failed(bind, f"the pod is on node {shown.spec.node_name}")
        return None

    async def _settle(self, bind: Bind, pod: Pod) -> None:
        """Look a bind up until there is an answer; a pod without a node counts once the server has given up."""
        clock = asyncio.get_running_loop().time
        given_up = clock() + PATIENT
        for attempt in range(1000):
            certain = clock() >= given_up
            try:
                answer = await self._client.ask("GET", self._pods.at(bind.pod), expects="Pod")
            except ApiError as error:
                if error.status == 404:
                    break
            except UnreachableError:
                pass
            else:
                entry = read(self._pods, answer)
                if entry is not None and isinstance(entry[0], Pod) and entry[0].spec.node_name:
                    self._store.answered(self._pods, entry)
                    return
                if certain:
                    break
            seconds_left = given_up - clock()
            await asyncio.sleep(
                min(pause(attempt, longest=30.0), seconds_left) if seconds_left > 0.0 else pause(attempt, longest=30.0)
            )
        log.info("%s was not bound after all", bind.pod)
        self._store.forget(bind.pod, pod.metadata.uid)

    def _done(self, bind: Bind, pod: Pod) -> Outcome:
        self._store.assume(bind.pod, pod.metadata.uid, node=bind.node, marks=bind.annotations)
        return Outcome(bind, ok=True)

    def _failed(self, bind: Bind, error: str, *, lasting: bool = False) -> Outcome:
        self.forget(bind)
        return Outcome(bind, ok=False, error=error, lasting=lasting)

    def _withheld(self, bind: Bind, error: str) -> Outcome:
        self.forget(bind)
        return Outcome(bind, ok=False, error=error, withheld=True)

    def forget(self, bind: Bind) -> None:
        """The bind did not happen: it is no longer assumed."""
        pod = self._store.pod(bind.pod)
        if pod is not None:
            self._store.forget(bind.pod, pod.metadata.uid)


def _gang(bind: Bind) -> str:
    """The gang whose binds succeed or fail together; a pod of no gang is its own."""
    return bind.gang or lone_gang(bind.pod.path)
