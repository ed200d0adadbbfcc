"""Usage that fades: what queues and the namespaces in them have held, as one cycle hands it on to the next.

What was held an hour ago counts less than what is held now: half of it after each half-life. Nothing is made smaller
for that. What is held later counts for more instead, and all are compared at one moment, where the difference falls
out:

    grown(t)  = half-life / ln 2 x 2^(t / half-life)         in fractions of a second, a whole number
    charge    = rate x (grown(end) - grown(begin))
    used      = sum of charges                               what it counts for at t: used / 2^(t / half-life)

So everything is whole numbers, a stretch of time costs the same however often it is looked at, and a cycle touches
those alone that hold something. From time to time all are halved together (`rebased`), so that numbers stay short.

`time` is the clock of the record. It goes on with the clock of the cycles, never back, and no further than a half-life
at once: a clock that jumps takes at most one half-life from what is remembered, and makes nobody pay for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import Final

import msgspec
from msgspec.structs import replace

__all__ = ["NO_USAGE", "Prepaid", "Standing", "UsageMemory", "UsageOwner", "UsageState", "fraction_of_growth", "grown"]

UsageOwner = tuple[str, str]
"""A queue, and a namespace of its jobs; "" for what is left of namespaces that are not kept apart any more."""

_FINE: Final = 1 << 20
"""Parts of a second in which charges are counted."""

_FAR: Final = 32.0
"""Half-lives after which all numbers are halved as often."""


def grown(time: float, half_life: float) -> int:
    """How much one unit counts for that was held from the beginning of time until now, in parts of a second."""
    return int(_FINE * half_life / log(2.0) * 2.0 ** (time / half_life))


def fraction_of_growth(used: int, time: float, half_life: float) -> int:
    """How much usage counts for at a time: as much as so many units that were held for a second just now."""
    return used // _weight(time, half_life)


def _weight(time: float, half_life: float) -> int:
    """How much a second of one unit counts for that is held at a time."""
    return max(1, int(_FINE * 2.0 ** (time / half_life)))


class Prepaid(msgspec.Struct, frozen=True, array_like=True):
    """A charge that a job paid when it started, and does not pay again until a time of the record."""

    job: str  # its key
    owner: UsageOwner
    rate: int
    until: float


class Standing(msgspec.Struct, frozen=True):
    """How a queue stands beside its siblings: its part of their usage, its share by weight, and both compared."""

    used: float
    share: float
    ratio: float  # 1 is its share; usage that nobody had counts for all


class UsageState(msgspec.Struct, frozen=True):
    """Usage as it is remembered after a cycle."""

    at: float = 0.0  # of the cycle, in seconds since the epoch; 0 before the first
    time: float = 0.0  # the same on the clock of the record, in seconds since its beginning
    half_life: float = 0.0  # by which it has grown
    unit: str = ""  # what rates are counted in: usage in another unit is not comparable
    used: Mapping[UsageOwner, int] = {}
    rates: Mapping[UsageOwner, int] = {}  # what is held from that cycle on, kept idle room included
    prepaid: tuple[Prepaid, ...] = ()
    writes: int = 0  # how often the record was written, by whoever did it
    since: float = 0.0  # since when usage is remembered, in seconds since the epoch
    resets: Mapping[str, float] = {}  # by queue: when its usage was last forgotten
    standings: Mapping[str, Standing] = {}  # by queue, as the cycle has found them; they are not written down

    def now(self, at: float) -> UsageState:
        """A copy at a later moment: all that was held since then is charged."""
        passed = min(max(at - self.at, 0.0), self.half_life) if self.at else 0.0
        if not passed:
            return replace(self, at=at)
        later = self.time + passed
        used = dict(self.used)
        length = grown(later, self.half_life) - grown(self.time, self.half_life)
        for owner, rate in self.rates.items():
            used[owner] = used.get(owner, 0) + rate * length
        for paid in self.prepaid:
            end = min(paid.until, later)
            if end > self.time:
                back = paid.rate * (grown(end, self.half_life) - grown(self.time, self.half_life))
                used[paid.owner] = max(used.get(paid.owner, 0) - back, 0)
        unspent = tuple([paid for paid in self.prepaid if paid.until > later])
        return replace(self, at=at, time=later, used=used, prepaid=unspent).rebased()

    def rebased(self) -> UsageState:
        """A copy with short numbers: where the clock of the record has gone far, it begins anew."""
        halvings = int(self.time / self.half_life)
        if halvings < _FAR:
            return self
        return self.shifted(halvings)

    def shifted(self, halvings: int) -> UsageState:
        """A copy with the clock of the record put back by so many half-lives."""
        back = halvings * self.half_life
        used = {owner: number >> halvings for owner, number in self.used.items()}
        return replace(
            self,
            time=self.time - back,
            used={owner: number for owner, number in used.items() if number},
            prepaid=tuple([replace(paid, until=paid.until - back) for paid in self.prepaid]),
        )

    def with_half_life(self, half_life: float) -> UsageState:
        """A copy that fades by another half-life; usage counts for as much as before."""
        if half_life == self.half_life or not self.half_life:
            return replace(self, half_life=half_life)
        used = {
            owner: fraction_of_growth(number, self.time, self.half_life) * _FINE for owner, number in self.used.items()
        }
        prepaid = tuple([replace(paid, until=paid.until - self.time) for paid in self.prepaid])
        return replace(self, half_life=half_life, time=0.0, used=used, prepaid=prepaid)

    def started(self, job: str, owner: UsageOwner, rate: int, seconds: float) -> UsageState:
        """A copy after a job has started: it has paid for its first seconds."""
        if not rate or not seconds:
            return self
        until = self.time + seconds
        used = {**self.used, owner: self.used.get(owner, 0) + self.price(rate, until)}
        return replace(self, used=used, prepaid=(*self.prepaid, Prepaid(job, owner, rate, until)))

    def price(self, rate: int, until: float) -> int:
        """The price of a rate from now until a time of the record."""
        return rate * (grown(until, self.half_life) - grown(self.time, self.half_life))

    def forgotten(self, queues: Iterable[str]) -> UsageState:
        """A copy without the usage of these queues."""
        gone = frozenset(queues)
        used = {owner: number for owner, number in self.used.items() if owner[0] not in gone}
        return replace(self, used=used, prepaid=tuple([paid for paid in self.prepaid if paid.owner[0] not in gone]))

    def counted(self) -> dict[UsageOwner, int]:
        """The usage of all, as it counts now: in units that were held for a second."""
        if not self.used:
            return {}
        weight = _weight(self.time, self.half_life)
        return {owner: number // weight for owner, number in self.used.items()}


NO_USAGE = UsageState()
"""Before the first cycle, and where a profile remembers nothing."""


class UsageMemory(msgspec.Struct, frozen=True):
    """The record of a profile that remembers usage."""

    namespace: str  # in which the record is kept; "": it is kept nowhere
    recorded: UsageState | None = None
    resets: Mapping[str, float] = {}  # by queue: when it was asked that its usage be forgotten
