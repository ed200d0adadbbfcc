"""What is told of those who wait comes behind the binds of a burst, and not between them."""

from __future__ import annotations

import asyncio

import pytest

from tierwise.kube import behind_binds
from tierwise.kube.behind_binds import BehindBinds, BindsUnderWay


def test_pods_are_being_bound_until_no_bind_has_been_under_way_for_a_while() -> None:
    """The answer to the last one is not the end of a burst: the next one may be decided already."""
    now = 0.0
    binds = BindsUnderWay(lambda: now)
    seen = [binds.lately()]
    with binds:
        seen.append(binds.lately())
        with binds:
            now = 0.9
            seen.append(binds.lately())
        now = 9.0
        seen.append(binds.lately())  # one that has had no answer for so long keeps nothing back
    for after in (0.0, 0.49, 0.51):
        now = 9.0 + after
        seen.append(binds.lately())

    assert [False, True, True, False, True, True, False] == seen
    assert 0 == binds.number


class _Binds(BindsUnderWay):
    """A burst that never ends; at each look a bind may have had its answer."""

    def __init__(self, by: int = 0) -> None:
        super().__init__(lambda: 0.0)
        self.looks, self._by = 0, by

    def lately(self) -> bool:
        self.looks += 1
        self.ended += self._by
        return True


class _Writer(BehindBinds[str, str]):
    """Notes what is written after how many looks; what is named in `hangs` has no answer."""

    def __init__(self, binds: _Binds, hangs: str = "", workers: int = 1) -> None:
        self.now = 0.0
        super().__init__(binds, workers=workers, pause=0.0, ticks=lambda: self.now)
        self._seen = binds
        self._hangs = hangs
        self.written: list[tuple[str, int]] = []
        self.begun: list[str] = []

    def add(self, *names: str) -> None:
        for name in names:
            self._put(name.partition("/")[0], name, name)
        self._wake()

    async def _write(self, key: str, value: str) -> None:
        self.begun.append(key)
        if self._hangs and key.startswith(self._hangs):
            await asyncio.Event().wait()
        self.written.append((key, self._seen.looks))


def _written(writer: _Writer, number: int) -> list[tuple[str, int]]:
    """Let so many things be written."""

    async def run() -> None:
        task = asyncio.create_task(writer.run())
        async with asyncio.timeout(60):
            while len(writer.written) < number:
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return writer.written[:number]


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two looks, nor for an answer."""
    monkeypatch.setattr(behind_binds, "_STEP", 0.0)
    monkeypatch.setattr(behind_binds, "_PROMPT", 0.01)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize(("age", "looks"), [(0.0, 8), (4.9, 8), (5.0, 4), (10.0, 2), (15.0, 1), (1e9, 0)])
def test_the_longer_it_waits_the_less_it_gives_way(monkeypatch: pytest.MonkeyPatch, age: float, looks: int) -> None:
    """Half as many looks with every five seconds, however long the burst goes on."""
    monkeypatch.setattr(behind_binds, "_PATIENCE", 8)
    writer = _Writer(_Binds())
    writer.add("here/a")
    writer.now = age

    assert [("here/a", looks)] == _written(writer, 1)


@pytest.mark.usefixtures("_hasty")
def test_what_has_waited_has_a_share_of_the_rate_of_binds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing is written for each bind that ends, and nothing for it before it has waited."""
    monkeypatch.setattr(behind_binds, "_PATIENCE", 2000)
    names = [f"here/{number}" for number in range(20)]
    young, old = _Writer(_Binds(by=1)), _Writer(_Binds(by=1))
    for writer in (young, old):
        writer.add(*names)
    old.now = 6.0

    assert [2000] == [looks for _, looks in _written(young, 1)]
    assert [*range(1, 21)] == [looks for _, looks in _written(old, 20)]


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("workers", [1, 4])
def test_a_namespace_that_hangs_keeps_no_other_waiting(workers: int) -> None:
    """More things than there are workers have no answer; what others have to be told is written meanwhile."""
    writer = _Writer(_Binds(), hangs="slow/", workers=workers)
    writer.now = 1e9
    writer.add(*(f"slow/{number}" for number in range(20)), *(f"calm/{number}" for number in range(20)))

    assert [f"calm/{number}" for number in range(20)] == sorted(
        (name for name, _ in _written(writer, 20)), key=lambda name: int(name.partition("/")[2])
    )
    assert len([name for name in writer.begun if name.startswith("slow/")]) <= workers


@pytest.mark.usefixtures("_hasty")
def test_how_long_the_oldest_has_waited_is_known() -> None:
    """For a metric: what is said anew has waited since it was said first."""

    async def seen() -> tuple[int, float]:
        writer = _Writer(_Binds())
        writer.add("here/a")
        writer.now = 3.0
        writer.add("there/b", "here/a")
        writer._look()
        writer.now = 7.0
        found = writer.waiting()
        return found.number, found.seconds

    assert (2, 7.0) == asyncio.run(seen())
