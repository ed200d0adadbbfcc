"""`KubeCluster`: a real cluster behind the port.

An event loop in a thread of its own keeps one reflector for each kind, the event recorder and the lease; `read`,
`apply` and `wait` are plain calls from the scheduler's thread. Leaving the context ends the loop.

Who takes the lease looks at all pods and nodes once more before it acts, however well its watches seem to run: what the
leader before, be it we ourselves, has bound up to its last moment is known then. Leading begins between two iterations
of the loop (`wait`): what was decided in one term is never sent in a later one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import partial
from types import TracebackType
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from tierwise.api import codec
from tierwise.kube.auth import Access
from tierwise.kube.behind_binds import BindsUnderWay, Waiting
from tierwise.kube.client import Client, pause
from tierwise.kube.errors import ApiError, UnreachableError, understood
from tierwise.kube.events import Recorder
from tierwise.kube.kinds import Resource, discover
from tierwise.kube.lease import Lease, LeaseOptions
from tierwise.kube.publisher import Publisher
from tierwise.kube.reflector import Reflector
from tierwise.kube.store import Store
from tierwise.kube.write_slots import SlowNamespace, WriteSlots
from tierwise.kube.writer import Writer, by_gang, by_namespace
from tierwise.port import Begun, Bind, Effect, Ended, Objects, Outcome, PatchStatus, RecordEvent, Version, about

__all__ = ["ClusterOptions", "ConnectionFigures", "KubeCluster"]


# One Secret, read when it is needed and kept nowhere: informers never see any.


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


async def read_secret(client: Client, namespace: str, name: str) -> dict[str, str]:
    """The entries as text, without the line end that editors leave; ApiError or UnreachableError where it fails."""
    # Both come from a configuration: a slash in them must not lead elsewhere.
    inside, name_in_path = (quote(part, safe="") for part in (namespace, name))
    path = f"/api/v1/namespaces/{inside}/secrets/{name_in_path}"
    return understood(_entries, await client.ask("GET", path, expects="Secret"))


def _entries(answer: bytes) -> dict[str, str]:
    entries = (msgspec.json.decode(answer, type=_Secret).data or {}).items()
    return {key: b64decode(value).decode(errors="replace").rstrip("\r\n") for key, value in entries}


log = logging.getLogger(__name__)

T = TypeVar("T")

_LATE: Final = 30.0
"""Seconds between looks for kinds that were not served before, or are served otherwise."""
_NEEDED: Final = (("", "Pod"), ("", "Node"))
_DEAF: Final = 180.0
"""Seconds without a word of the server about a kind after which we no longer know what there is to schedule: longer
than a watch that says nothing is kept and begun again."""
_NAMED: Final = 5
"""Slow namespaces that health names."""
_LAST_WORDS: Final = 2.0
"""Seconds for statuses and events that wait when we end."""
_BROKEN: Final = 5.0
"""Seconds after which a background task that raised is begun again."""


class ClusterOptions(msgspec.Struct, frozen=True):
    """How to behave towards a cluster."""

    component: str = "tierwise"  # who events are from
    by_eviction: bool = True  # else evicted pods are deleted, whatever budgets say
    lease: LeaseOptions | None = None  # None: act without asking
    trusted: frozenset[str] | None = None  # namespaces whose ConfigMaps may describe the network; None: all
    check_every: float = 1800.0  # seconds between checks of the caches against fresh lists


class ConnectionFigures(msgspec.Struct, frozen=True):
    """Figures of a connection to a cluster, by kind where there are several."""

    leading: bool
    binds: int  # that await their answer
    lag: Mapping[str, float]  # seconds since the watch was last heard of
    missed: Mapping[str, int]  # changes that fresh lists showed and the watch had not
    losses: int = 0  # how often the lease was lost
    slow: Sequence[SlowNamespace] = ()  # namespaces of which writes have had no answer for a while
    behind: Mapping[str, Waiting] = {}  # what waits behind binds: events, statuses


class _StoppedError(Exception):
    """We were asked to end."""


class _BegunWrites:
    """Writes that are under way in the other thread, and what is known of them so far."""

    def __init__(self, effects: Sequence[Effect], groups: Iterable[Sequence[int]], slots: WriteSlots) -> None:
        """Those of a group may wait for each other, so a slow namespace of one of them makes all of them slow."""
        self._slots = slots
        self._namespaces = [frozenset[str]()] * len(effects)
        for numbers in groups:
            names = [about(effects[number]).namespace for number in numbers]
            alone = all(isinstance(effects[number], Bind) for number in numbers)  # binds wait for their own gang alone
            every = frozenset(names)
            for number, name in zip(numbers, names, strict=True):
                self._namespaces[number] = frozenset((name,)) if alone else every
        self._outcomes: list[Outcome | None] = [None] * len(effects)
        self._left = Counter(self._namespaces)  # outcomes that are not known, by the namespaces that they depend on
        self._answers: Future[list[Outcome]]

    def follow(self, answers: Future[list[Outcome]]) -> None:
        """All outcomes, once they are known."""
        self._answers = answers

    def ended(self, number: int, outcome: Outcome) -> None:
        """The outcome of one of them is known; called in the other thread."""
        self._outcomes[number] = outcome
        self._left[self._namespaces[number]] -= 1

    def done(self) -> bool:
        return self._answers.done()

    def waits(self) -> int:
        slow = self._slots.slow
        if self.done():
            return 0
        return sum(estimate for names, estimate in self._left.items() if not names & slow)

    def so_far(self) -> list[Outcome | None]:
        return [*self._outcomes]

    def pause(self, seconds: float) -> None:
        wait_for((self._answers,), seconds)

    def __call__(self) -> list[Outcome]:
        return self._answers.result()


class KubeCluster:
    """Objects from informers, effects as requests."""

    def __init__(
        self, access: Access, options: ClusterOptions | None = None, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        """`ticks` gives seconds that never jump; the lease is counted in them."""
        self._access = access
        self._options = options or ClusterOptions()
        self._ticks = ticks
        self._store = Store()
        self._resources: dict[tuple[str, str], Resource] = {}
        self._reflectors: dict[tuple[str, str], Reflector] = {}
        self._lease: Lease | None = None
        self._binds = BindsUnderWay(time.monotonic)
        self._following = asyncio.Event()  # set once there is a reflector for each kind that is served
        self._terms = 0  # how often we took the lease or lost it
        self._term = 0  # the term in which pods and nodes have been listed; 0 while there is none
        self._deciding = 0  # the term that the scheduler's thread acts in
        self._slots = WriteSlots()
        self._behind: dict[str, Callable[[], Waiting]] = {}
        self._catching_up: asyncio.Task[None] | None = None
        self._synced = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kube", daemon=True)
        self._failure: BaseException | None = None
        self._entered = 0  # it may be entered early, and again by who uses it

    def __enter__(self) -> KubeCluster:
        if not self._entered:
            self._thread.start()
        self._entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered -= 1
        if self._entered:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of its thread, for those who look what is under way there."""
        return self._loop

    def read(self) -> Objects:
        """Objects as the informers last saw them, with our own writes applied."""
        return self._store.read()

    def wait(self, since: Version, timeout: float) -> Version:
        """Return once something has changed since, or the time is over; called between iterations, never within one."""
        version = self._store.wait(since, timeout)
        self._deciding = self._term  # what was begun in an earlier term is not sent in this one: see `begin`
        return version

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Carry out effects; returns when the outcome of each is known, or known to be unknown."""
        if effects:
            return self._call(self._writer.apply(effects))
        return []

    def begin(self, effects: Sequence[Effect]) -> Begun:
        """Begin effects, which are assumed to be done until their outcomes are known."""
        return self._begin(effects, by_gang(effects), self._writer.assume(effects))

    def begin_in_order(self, effects: Sequence[Effect]) -> Begun:
        """Begin effects, those of each namespace in order."""
        return self._begin(effects, by_namespace(effects), [None] * len(effects))

    def _begin(
        self,
        effects: Sequence[Effect],
        groups: Sequence[Sequence[int]],
        ends: Sequence[Callable[[Outcome], None] | None],
    ) -> Begun:
        """Begin effects in groups that wait for nothing else; what `ends` hears of the outcome of each."""
        if not effects:
            return Ended(())
        term = self._deciding
        begun = _BegunWrites(effects, groups, self._slots)

        def ended(number: int, outcome: Outcome) -> None:
            begun.ended(number, outcome)
            end = ends[number]
            if end is not None:
                end(outcome)

        writer = self._writer.only(lambda: self._deciding == term and self.leading())
        begun.follow(asyncio.run_coroutine_threadsafe(writer.carry_out(effects, groups, ended), self._loop))
        return begun

    def tell(self, effects: Sequence[PatchStatus | RecordEvent], by: str = "") -> None:
        """Write statuses and events in the background; see the port."""
        self._loop.call_soon_threadsafe(self._publisher.tell, effects, by)

    def flush(self, timeout: float) -> bool:
        """Wait until all that was told is written; whether it is in time."""
        return self._call(self._flushed(timeout))

    def synced(self, timeout: float = 0.0) -> bool:
        """Whether every kind that is served has been listed, after waiting that long for it; raises what ended us."""
        done = self._synced.wait(timeout)
        if self._failure is not None:
            raise self._failure
        return done

    def leading(self) -> bool:
        """Whether we may write."""
        if self._options.lease is None:
            return True
        led = 0 != self._term == self._deciding
        return led and self._lease is not None and self._lease.held()

    def note(self) -> str:
        """Note that the previous holder of the lease left; "" without a lease."""
        return self._lease.note if self._lease is not None else ""

    def leave_note(self, text: str) -> None:
        """Leave a note for the next holder of the lease; written when the lease is renewed or given back."""
        if self._lease is not None:
            self._lease.note = text

    def give_up(self, within: float) -> None:
        """Give the lease back at once, with our note; from another thread than the one that acts, which may hang."""
        if self._lease is not None:
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._lease.release(), self._loop).result(within)

    def secret(self, namespace: str, name: str) -> dict[str, str]:
        """The entries of one Secret, asked for now; ApiError and UnreachableError. May be called from any thread."""
        return self._call(read_secret(self._client, namespace, name))

    def refresh(self) -> None:
        """Look at all pods and nodes once more: reads after this know all that was written before it.

        ApiError and UnreachableError.
        """
        for kind in _NEEDED:
            self._call(self._reflectors[kind].check())

    def wake(self) -> None:
        """Make `wait` return; may be called from a signal handler's thread."""
        self._loop.call_soon_threadsafe(self._store.nudge)

    def missed(self) -> int:
        """Changes that a check against fresh lists showed and the watches had not."""
        return sum(self.figures().missed.values())

    def figures(self) -> ConnectionFigures:
        """How we are at the moment; may be called from any thread."""
        now = time.monotonic()
        reflectors = dict(self._reflectors)
        return ConnectionFigures(
            leading=self.leading(),
            binds=self._binds.number,
            lag={kind: now - reflector.heard for (_, kind), reflector in reflectors.items()},
            missed={kind: reflector.missed for (_, kind), reflector in reflectors.items()},
            losses=self._lease.losses if self._lease is not None else 0,
            slow=self._slots.unanswered(),
            behind={what: waiting() for what, waiting in self._behind.items()},
        )

    def deaf(self) -> str:
        """Of what we have heard nothing for too long; "" where the server tells us all. May be called from any thread.

        A refusal is an answer: its log line says what is missing, and another replica would get the same answer.
        """
        now = time.monotonic()
        reflectors = list(self._reflectors.values())
        silent = {reflector.plural: now - reflector.answered for reflector in reflectors}
        if not silent or max(silent.values()) <= _DEAF:
            return ""
        plural = max(silent, key=lambda name: silent[name])
        return f"nothing was heard of {plural} for {silent[plural]:.0f} seconds"

    def slow(self) -> str:
        """The namespaces whose writes are not answered, and for how long; "" where all are. Any thread may ask.

        That is for their owners to mend, mostly a webhook of theirs: no other replica would be answered sooner.
        """
        namespaces = self._slots.unanswered()
        sentences = [_told_slow(namespace) for namespace in namespaces[:_NAMED]]
        if len(namespaces) > _NAMED:
            sentences.append(f"and of {len(namespaces) - _NAMED} more namespaces")
        return "; ".join(sentences)

    def _call(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        """The thread: the event loop until it is told to stop, or something breaks that should not."""
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised by the next call
            self._failure = error
            self._synced.set()
            self._store.nudge()
        finally:
            self._loop.run_until_complete(_end_tasks())

    async def _serve(self) -> None:
        """Everything until it ends, for whatever reason; look-ups of binds may outlast it."""
        with contextlib.suppress(_StoppedError):
            try:
                # The lease has a client of its own, so that nothing that is slow keeps it from being renewed.
                async with (
                    Client(self._access) as client,
                    Client(self._access) as leader,
                    asyncio.TaskGroup() as tasks,
                ):
                    self._recorder = Recorder(
                        client, self._store, self._options.component, binds=self._binds, slots=self._slots
                    )
                    self._publisher = Publisher(
                        lambda message: self._writer.status(message), self._recorder, self._binds
                    )
                    self._behind = {"events": self._recorder.waiting, "statuses": self._publisher.waiting}
                    tasks.create_task(self._end())
                    tasks.create_task(_kept("events", self._recorder.run))
                    tasks.create_task(_kept("statuses", self._publisher.run))
                    if self._options.lease is not None:
                        self._lease = Lease(leader, self._options.lease, self._ticks)
                        changed = partial(self._lease_changed, tasks)
                        tasks.create_task(_kept("the lease", partial(self._lease.run, changed)))
                    await self._open(tasks, client)
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from None

    async def _open(self, tasks: asyncio.TaskGroup, client: Client) -> None:
        """Start everything, and wait until every kind has been listed."""
        self._client = client
        self._resources = await self._discover(client)
        self._writer = Writer(
            client,
            self._store,
            self._resources,
            recorder=self._recorder,
            binds=self._binds,
            slots=self._slots,
            may=self.leading,
            by_eviction=self._options.by_eviction,
        )
        self._follow(tasks, client, self._resources.values())
        self._following.set()
        tasks.create_task(_kept("further kinds", partial(self._late, tasks, client)))
        tasks.create_task(_kept("checks", self._check))
        for reflector in list(self._reflectors.values()):
            await reflector.synced.wait()
        self._synced.set()
        self._store.nudge()

    def _lease_changed(self, tasks: asyncio.TaskGroup) -> None:
        """React to having gained or lost the lease.

        End the current term and any catching up; where we hold the lease, start to catch up with the server in a task
        of its own. Wake those who wait for news either way.
        """
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        self._terms = self._terms + 1
        self._term = 0
        if self._lease is not None and self._lease.held():
            self._catching_up = tasks.create_task(self._catch_up(time.monotonic()))
        self._store.nudge()

    async def _catch_up(self, began: float) -> None:
        """See to it that pods and nodes have been listed since then; `leading` from there on."""
        await self._following.wait()
        for kind in _NEEDED:
            reflector = self._reflectors[kind]
            attempt = 0
            await reflector.synced.wait()
            while reflector.begun < began:
                try:
                    await reflector.check()
                except (ApiError, UnreachableError) as error:
                    log.warning("%s cannot be looked at before leading: %s", reflector.plural, error)
                    await asyncio.sleep(pause(attempt))
                    attempt += 1
        self._term = self._terms
        self._store.nudge()

    async def _end(self) -> None:
        """When told to stop: what waits is written, and the lease given back."""
        await self._stop.wait()
        await self._flushed(_LAST_WORDS)
        if self._lease is not None:
            await self._lease.release()
        raise _StoppedError

    async def _flushed(self, timeout: float) -> bool:
        """Give what waits to be written a last chance."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout
        while not (done := self._publisher.idle() and self._recorder.idle()) and clock() < until:
            await asyncio.sleep(0.005)
        return done

    async def _discover(self, client: Client) -> dict[tuple[str, str], Resource]:
        """Resources that the server serves; waits until it serves pods and nodes."""
        attempt = 0
        while True:
            try:
                resources = await discover(client, codec.KINDS)
                if all(kind in resources for kind in _NEEDED):
                    return resources
                log.warning("the API server serves no pods or nodes yet")
            except (ApiError, UnreachableError) as error:
                log.warning("the API server cannot be asked: %s", error)
            await asyncio.sleep(pause(attempt, shortest=0.5, longest=30.0))
            attempt += 1

    def _follow(self, tasks: asyncio.TaskGroup, client: Client, resources: Iterable[Resource]) -> None:
        for resource in resources:
            reflector = Reflector(client, resource, self._store, self._options.trusted)
            self._reflectors[resource.group, resource.kind] = reflector
            tasks.create_task(_kept(resource.plural, reflector.run))

    async def _late(self, tasks: asyncio.TaskGroup, client: Client) -> None:
        """Follow kinds whose definitions are installed, or change, while we run.

        A definition that gains a status of its own, or loses it, changes where statuses are written.
        """
        while True:
            await asyncio.sleep(_LATE)
            try:
                resources = await discover(client, codec.KINDS)
            except (ApiError, UnreachableError) as error:
                log.warning("which kinds are served cannot be asked: %s", error)
                continue
            changed = {kind: served for kind, served in resources.items() if self._resources.get(kind) != served}
            self._resources.update(changed)
            for kind, resource in changed.items():
                if kind in self._reflectors:
                    log.info("%s are served otherwise now", resource.plural)
                    self._reflectors[kind].moved(resource)
                else:
                    log.info("%s are served now", resource.plural)
                    self._follow(tasks, client, [resource])

    async def _check(self) -> None:
        """Compare what the watches told with fresh lists, kind after kind."""
        while True:
            await asyncio.sleep(self._options.check_every * random.uniform(0.9, 1.1))
            for reflector in list(self._reflectors.values()):
                try:
                    await reflector.check()
                except (ApiError, UnreachableError) as error:
                    log.warning("%s cannot be compared with what the watch told: %s", reflector.plural, error)


def _told_slow(namespace: SlowNamespace) -> str:
    whose = f"namespace {namespace.name}" if namespace.name else "objects without a namespace"
    return f"{namespace.writes} writes of {whose} have had no answer for {namespace.seconds:.0f} seconds"


async def _kept(what: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
    """Work that ends for none of its own mistakes: what it raises is told with its trace, and it begins again."""
    while True:
        try:
            return await work()
        except Exception:
            log.exception("%s: broke off, and goes on", what)
            await asyncio.sleep(_BROKEN)


async def _end_tasks() -> None:
    """End what is left; who waits for an answer in another thread learns that none will come."""
    current = {asyncio.current_task()}
    while tasks := asyncio.all_tasks() - current:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
