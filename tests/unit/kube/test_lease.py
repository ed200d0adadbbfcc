"""A lease by a clock that the test moves: who holds it stops in time, and nobody takes it early."""

from __future__ import annotations

import asyncio
import json
import selectors
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.kube.errors import ApiError
from tierwise.kube.lease import Lease, LeaseOptions, LeaseTimes

TIMES = LeaseTimes(duration=15.0, deadline=10.0, retry=2.0)


class _Server:
    """One Lease object; a request is carried out some time after it is sent, and answered some time after that."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    async def send(self, method: str, path: str, body: Any = None, **_: object) -> bytes:
        await _moment()
        answer = self.carry_out(method, body)
        await _moment()
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def carry_out(self, method: str, body: Any) -> bytes | ApiError:
        if method == "GET":
            return json.dumps(self.lease).encode() if self.lease else ApiError(404, "NotFound", "")
        if method == "POST" and self.lease:
            return ApiError(409, "AlreadyExists", "")
        if method == "PUT" and self.lease and body["metadata"]["resourceVersion"] != str(self.version):
            return ApiError(409, "Conflict", "")
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return b"{}"

    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


@types.coroutine
def _moment() -> Generator[None, None, None]:
    """Where the test decides when it goes on."""
    yield


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Candidate:
    """One process, whose requests go on when the test says so."""

    def __init__(self, server: _Server, clock: Callable[[], float], name: str) -> None:
        self.name = name
        self.lease = Lease(server, LeaseOptions("tierwise", "kube-system", name, TIMES), clock)  # type: ignore[arg-type]
        self._under_way: Coroutine[Any, Any, None] | None = None

    def step(self) -> None:
        """Begin to renew, or let the request that is under way come one step further."""
        if self._under_way is None:
            self._under_way = self.lease.renew()
        try:
            self._under_way.send(None)
        except (StopIteration, ApiError):
            self._under_way = None

    def renew(self) -> None:
        """The whole of it, in no time."""
        self.step()
        while self._under_way is not None:
            self.step()

    def give_up(self) -> None:
        """No answer came in time."""
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None


@pytest.fixture
def clock() -> _Clock:
    """Seconds that pass when the test says so."""
    return _Clock()


@pytest.fixture
def server() -> _Server:
    """A server without a lease."""
    return _Server()


def test_holder_stops_at_the_deadline(server: _Server, clock: _Clock) -> None:
    """Who could not renew for the deadline holds the lease no more, long before it may be taken."""
    first, second = _Candidate(server, clock, "a"), _Candidate(server, clock, "b")
    first.renew()
    second.renew()
    clock.now = 9.9
    assert first.lease.held()

    clock.now = 10.0
    second.renew()
    assert (False, False, "a") == (first.lease.held(), second.lease.held(), server.holder())
    clock.now = 15.0
    second.renew()
    assert (True, "b") == (second.lease.held(), server.holder())


def test_slow_renewal_counts_from_its_begin(server: _Server, clock: _Clock) -> None:
    """An answer that comes late does not stretch the hold: others count from when the server wrote it."""
    first = _Candidate(server, clock, "a")
    first.renew()
    clock.now = 2.0
    for _ in range(4):  # a GET, and all of the PUT but its answer
        first.step()
    clock.now = 8.0
    first.renew()
    assert first.lease.held()

    clock.now = 12.0
    assert not first.lease.held()


def test_late_answer_does_not_make_a_lease_older_than_it_is(server: _Server, clock: _Clock) -> None:
    """A look that was long under way may show a renewal that is younger than the look."""
    first, second = _Candidate(server, clock, "a"), _Candidate(server, clock, "b")
    first.renew()
    second.step()
    clock.now = 9.0
    first.renew()
    second.renew()
    clock.now = 16.0
    second.renew()

    assert (True, False, "a") == (first.lease.held(), second.lease.held(), server.holder())


def test_first_hold_counts_from_its_begin(server: _Server, clock: _Clock) -> None:
    """So does the hold of who makes the lease: a slow creation does not stretch it."""
    first = _Candidate(server, clock, "a")
    for _ in range(4):  # a GET, and all of the POST but its answer
        first.step()
    clock.now = 6.0
    first.renew()
    assert first.lease.held()

    clock.now = 10.0
    assert not first.lease.held()


def test_holder_with_longer_times_is_waited_for(server: _Server, clock: _Clock) -> None:
    """A lease says for how long its holder may be silent; our own times do not count for others."""
    spec = {"holderIdentity": "slow", "leaseDurationSeconds": 60, "renewTime": "1", "leaseTransitions": 1}
    server.lease = {"metadata": {"name": "tierwise", "resourceVersion": "0"}, "spec": spec}
    second = _Candidate(server, clock, "b")
    second.renew()
    clock.now = 59.9
    second.renew()
    assert (False, "slow") == (second.lease.held(), server.holder())

    clock.now = 60.0
    second.renew()
    assert (True, "b") == (second.lease.held(), server.holder())


@pytest.mark.parametrize("renews", [2, 5, 9])
@pytest.mark.parametrize("looks", [1, 2, 7])
def test_who_watches_a_leader_renew_never_takes_over(server: _Server, clock: _Clock, renews: int, looks: int) -> None:
    """However long a standby has waited, a leader that renews in time stays the leader, and acts without a break."""
    first, second = _Candidate(server, clock, "a"), _Candidate(server, clock, "b")
    for second_of_many in range(10 * int(TIMES.duration)):
        clock.now = float(second_of_many)
        if second_of_many % renews == 0:
            first.renew()
        if second_of_many % looks == 0:
            second.renew()

        assert (True, False, "a") == (first.lease.held(), second.lease.held(), server.holder())


@pytest.mark.parametrize(
    "word",
    [{"holderIdentity": "c"}, {"renewTime": "2"}, {"leaseTransitions": 2}],
    ids=["holder", "time", "transitions"],
)
def test_every_change_of_a_lease_is_a_sign_of_life(server: _Server, clock: _Clock, word: dict[str, Any]) -> None:
    """A lease is silent from its last change on, whatever has changed; it is taken when its term is over."""
    spec: dict[str, Any] = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "1", "leaseTransitions": 1}
    server.lease = {"metadata": {"name": "tierwise", "resourceVersion": "0"}, "spec": spec}
    second, holders = _Candidate(server, clock, "b"), []
    for now in (0.0, 10.0, 20.0, 24.9, 25.0):
        if now == 10.0:
            server.lease = {**server.lease, "spec": {**spec, **word}}
        clock.now = now
        second.renew()
        holders.append(server.holder())

    alive = word.get("holderIdentity", "a")
    assert ["a", alive, alive, alive, "b"] == holders


def test_what_others_hold_is_not_given_back(server: _Server, clock: _Clock) -> None:
    """Who ends after another has taken over leaves the lease alone, and holds nothing itself."""
    first = _Candidate(server, clock, "a")
    first.renew()
    assert server.lease is not None
    server.lease["spec"]["holderIdentity"] = "b"
    asyncio.run(first.lease.release())

    assert (False, "b") == (first.lease.held(), server.holder())


def test_who_gave_the_lease_back_holds_it_no_more(server: _Server, clock: _Clock) -> None:
    """A renewal that was under way at the end does not make us act again."""
    first = _Candidate(server, clock, "a")
    first.renew()
    asyncio.run(first.lease.release())
    assert "" == server.holder()

    first.renew()
    assert not first.lease.held()


def test_giving_back_is_no_loss() -> None:
    """A renewal that the end overtakes fails, and nobody counts that as a lost lease."""
    with asyncio.Runner(loop_factory=_HurriedLoop) as runner:
        assert 0 == runner.run(_losses_at_the_end())


class _HurriedLoop(asyncio.SelectorEventLoop):
    """A loop whose seconds are hundredths of a second: `release` waits for some of them."""

    def __init__(self) -> None:
        super().__init__(_HurriedSelector())

    def time(self) -> float:
        return 100.0 * super().time()


class _HurriedSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / 100.0)


async def _losses_at_the_end() -> int:
    at_once, ended, changed = _AtOnce(), asyncio.Event(), asyncio.Event()
    times = LeaseTimes(duration=15.0, deadline=10.0, retry=0.001)
    lease = Lease(at_once, LeaseOptions("tierwise", "kube-system", "a", times), lambda: 0.0)  # type: ignore[arg-type]
    running = asyncio.get_running_loop().create_task(lease.run(changed.set))
    await changed.wait()
    at_once.until = ended  # the next renewal is under way until then
    await at_once.asked.wait()
    at_once.until = None
    await lease.release()
    ended.set()
    await running
    return lease.losses


class _AtOnce:
    """A server that answers in no time, or when the test says so."""

    def __init__(self) -> None:
        self._server = _Server()
        self.until: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def send(self, method: str, path: str, body: Any = None, **_: object) -> bytes:
        if method == "PUT" and self.until is not None:
            self.asked.set()
            await self.until.wait()
        answer = self._server.carry_out(method, body)
        if isinstance(answer, ApiError):
            raise answer
        return answer


WORDS = ("step a", "step b", "renew a", "renew b", "give up a", "give up b")
STEPS = st.lists(st.one_of(st.sampled_from(WORDS), st.integers(1, 9)), min_size=10, max_size=60)


@given(STEPS)
def test_never_two_and_never_without_a_pause(steps: list[str | int]) -> None:
    """Whatever is slow or lost: a lease is taken no earlier than its last holder has stopped for a while."""
    server, clock = _Server(), _Clock()
    candidates = {name: _Candidate(server, clock, name) for name in ("a", "b")}
    stopped = dict.fromkeys(candidates, float("-inf"))  # the last moment at which each held it
    for step in steps:
        before = server.holder()
        if isinstance(step, int):
            for _ in range(step):
                stopped |= {name: clock.now for name, one in candidates.items() if one.lease.held()}
                clock.now += 1.0
        else:
            what, _, name = step.rpartition(" ")
            {"step": _Candidate.step, "renew": _Candidate.renew, "give up": _Candidate.give_up}[what](candidates[name])
        holder = server.holder()
        if before and holder != before:
            assert clock.now - stopped[before] > TIMES.duration - TIMES.deadline
            assert not candidates[before].lease.held()
        assert 2 > sum(one.lease.held() for one in candidates.values())
