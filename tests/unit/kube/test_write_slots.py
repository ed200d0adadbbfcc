"""Slots for writes: never too many, never most of them for one namespace, and none held by who has no answer."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tierwise.kube.write_slots import MOST_UNANSWERED, PROMPT, WriteSlots

SLOTS = 32
NAMES = ("a", "b", "c", "d")


class _World:
    """Writes that hold slots until the test answers them, at times that it chooses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slots = WriteSlots(ticks=lambda: self.now)
        self.sent: dict[asyncio.Task[None], tuple[str, asyncio.Event]] = {}
        self.tasks: list[tuple[str, asyncio.Task[None]]] = []

    async def ask(self, namespace: str) -> None:
        """Ask for a slot; the write goes on until it is answered."""
        task = asyncio.create_task(self._write(namespace))
        self.tasks.append((namespace, task))
        await self.rest()

    async def _write(self, namespace: str) -> None:
        async with self.slots.of(namespace):
            task, answered = asyncio.current_task(), asyncio.Event()
            assert task is not None
            self.sent[task] = namespace, answered
            try:
                await answered.wait()
            finally:
                del self.sent[task]

    async def rest(self) -> None:
        """Let everything happen that waits for nothing."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def answer(self, namespace: str) -> None:
        """Answer the oldest write of a namespace."""
        for name, answered in list(self.sent.values()):
            if name == namespace:
                answered.set()
                break
        await self.rest()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and the slots look at it."""
        self.now += seconds
        self.slots.look()
        await self.rest()

    async def end(self) -> None:
        """Give up all writes."""
        for _, task in self.tasks:
            task.cancel()
        await asyncio.gather(*(task for _, task in self.tasks), return_exceptions=True)

    def under_way(self) -> Counter[str]:
        return Counter(name for name, _ in self.sent.values())


def test_one_namespace_has_half_of_what_is_free() -> None:
    """The first has half of all, the second half of the rest, and every one of them has one."""

    async def run() -> list[int]:
        world = _World()
        for name in NAMES:
            for _ in range(SLOTS):
                await world.ask(name)
        found = [world.under_way()[name] for name in NAMES]
        await world.end()
        return found

    assert [16, 8, 4, 2] == asyncio.run(run())


def test_slots_are_dealt_in_turn() -> None:
    """With all slots taken, a namespace with one write waits for one of the others, and not for all of theirs."""

    async def run() -> int:
        world = _World()
        for number in range(SLOTS):
            await world.ask(f"{number}")
        for _ in range(100):
            await world.ask("many")
        await world.ask("one")
        await world.answer("0")
        await world.answer("1")
        found = world.under_way()["one"]
        await world.end()
        return found

    assert 1 == asyncio.run(run())


def test_writes_that_are_given_up_hold_nothing() -> None:
    """Whether they were sent or waited for a slot: others get all slots afterwards."""

    async def run() -> int:
        world = _World()
        for _ in range(2 * SLOTS):
            await world.ask("a")
        await world.end()
        for name in map(str, range(SLOTS)):
            await world.ask(name)
        found = len(world.sent)
        await world.end()
        return found

    assert SLOTS == asyncio.run(run())


def test_a_namespace_is_slow_until_it_is_answered_again() -> None:
    """It is so from its first write without an answer to its first prompt one with nothing unanswered."""

    async def run() -> list[bool]:
        world, found = _World(), []
        await world.ask("a")
        found.append("a" in world.slots.slow)
        await world.pass_time(PROMPT)
        found.append("a" in world.slots.slow)
        await world.answer("a")
        found.append("a" in world.slots.slow)  # it took its time
        await world.ask("a")
        await world.answer("a")
        found.append("a" in world.slots.slow)
        await world.end()
        return found

    assert [False, True, True, False] == asyncio.run(run())


def test_unanswered_writes_are_bounded() -> None:
    """Many namespaces that hang have no more connections than so many beyond what each begins with."""

    async def run() -> int:
        world = _World()
        for number in range(100):
            for _ in range(20):
                await world.ask(f"{number}")
        for _ in range(200):
            await world.pass_time(PROMPT)
        found = len(world.sent)
        await world.end()
        return found

    assert asyncio.run(run()) <= MOST_UNANSWERED + 100 + SLOTS


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(NAMES)),
        st.tuples(st.just("answer"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.sampled_from([0.3, PROMPT])),
    ),
    max_size=150,
)


@given(_STEPS)
def test_nobody_keeps_a_namespace_waiting_for_longer_than_a_moment(steps: list[tuple[str, str | float]]) -> None:
    """Whatever others ask for and whoever of them is answered: a stranger's write is sent within two such moments."""

    async def run() -> None:
        world = _World()
        for step, value in steps:
            match step:
                case "ask":
                    await world.ask(str(value))
                case "answer":
                    await world.answer(str(value))
                case _:
                    await world.pass_time(float(value))
            assert all(number <= SLOTS // 2 for number in world.under_way().values())
        await world.ask("stranger")
        for _ in range(2):
            await world.pass_time(PROMPT)
        assert 1 == world.under_way()["stranger"]
        await world.end()
        assert not world.sent

    asyncio.run(run())
