"""Shares of queues: exact, within bounds, and as simple rounds would have them; counting as one by one would."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.draw import gang
from tests.support.queue_worlds import hall_of, queue

from tierwise.framework.victim_counts import sums_before, who_goes
from tierwise.model.arrays import Bools, Ints, ordinals
from tierwise.plugins.queues.capacity import Capacity
from tierwise.plugins.queues.drf import drf
from tierwise.plugins.queues.proportion import Proportion, water_fill

CLAIMS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12), st.integers(0, 40)), min_size=1, max_size=7)
"""Weight, floor and cap of each queue."""


def rounds(total: int, weights: list[int], caps: list[int]) -> list[Fraction]:
    """Volcano's way without guarantees: deal out what remains by weight, cap, and again, until nobody grows."""
    shares = [Fraction(0)] * len(weights)
    remaining, unmet = Fraction(total), set(range(len(weights)))
    while unmet and remaining:
        weight = sum(weights[i] for i in unmet)
        dealt = {i: min(caps[i] - shares[i], remaining * weights[i] / weight) for i in unmet}
        for i, more in dealt.items():
            shares[i] += more
        remaining -= sum(dealt.values())
        met = {i for i in unmet if shares[i] == caps[i]}
        if not met:
            break
        unmet -= met
    return shares


@given(st.integers(0, 120), CLAIMS)
def test_water_filling_equals_rounds(total: int, claims: list[tuple[int, int, int]]) -> None:
    """Without guarantees every share is that of the rounds, rounded up or down; together they leave nothing over."""
    weights, caps = [w for w, _, _ in claims], [c for _, _, c in claims]
    exact = rounds(total, weights, caps)
    shares = water_fill(total, weights, [0] * len(claims), caps)

    assert all(abs(share - one) < 1 for share, one in zip(shares, exact, strict=True))
    assert min(total, sum(caps)) == sum(shares)


@given(st.integers(0, 120), CLAIMS)
def test_water_filling_keeps_its_bounds(total: int, claims: list[tuple[int, int, int]]) -> None:
    """Nobody below its floor or above its cap, and no more than there is, unless the floors alone are more."""
    weights, floors, caps = ([claim[i] for claim in claims] for i in range(3))
    shares = water_fill(total, weights, floors, caps)
    tops = [max(floor, cap) for floor, cap in zip(floors, caps, strict=True)]

    assert all(floor <= share <= top for floor, share, top in zip(floors, shares, tops, strict=True))
    assert max(sum(floors), min(total, sum(tops))) == sum(shares)


@given(st.integers(0, 120), CLAIMS)
def test_water_stands_level(total: int, claims: list[tuple[int, int, int]]) -> None:
    """Whoever could have more has, by weight, no less than anybody above its floor has: give or take one unit."""
    weights, floors, caps = ([claim[i] for claim in claims] for i in range(3))
    shares = water_fill(total, weights, floors, caps)
    wanting = [Fraction(s + 1, w) for s, w, c in zip(shares, weights, caps, strict=True) if s < c]
    lifted = [Fraction(s - 1, w) for s, w, f in zip(shares, weights, floors, strict=True) if s > f]

    assert not wanting or not lifted or min(wanting) >= max(lifted)


@st.composite
def losses(draw: st.DrawFn) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Holdings and limits of three accounts in two resources, and victims with requests and up to two accounts.

    With them the number of each victim's bundle.
    """
    held, least = (st.lists(st.integers(0, most), min_size=3, max_size=3) for most in (15, 5))
    holdings = np.array(draw(st.lists(held, min_size=2, max_size=2)))
    limits = np.array(draw(st.lists(least, min_size=2, max_size=2)))
    count = draw(st.integers(0, 12))
    numbers = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    requests = np.array([draw(numbers), draw(numbers)], dtype=np.int64).reshape(2, count)
    columns = st.lists(st.integers(-1, 2), min_size=count, max_size=count)
    accounts = np.array([draw(columns), draw(columns)], dtype=np.int64).reshape(2, count)
    accounts[1, (accounts[0] == accounts[1]) | (accounts[0] < 0)] = -1
    bundles = 3 + 2 * np.cumsum(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), dtype=np.int64)
    return holdings.astype(np.int64), limits.astype(np.int64), requests, accounts, bundles


@given(losses(), st.booleans())
def test_counting_equals_asking_one_by_one(drawn: tuple[Ints, Ints, Ints, Ints, Ints], whole: bool) -> None:
    """Cumulative sums give the answers that a loop over the victims gives, by themselves or bundle by bundle."""
    holdings, limits, requests, accounts, bundles = drawn
    bundles = bundles if whole else np.arange(len(bundles))

    def may_lose(level: int, held: Ints, columns: Ints, victims: Ints) -> Bools:
        common = requests[:, victims] > 0
        after = held - requests[:, victims]
        above = (common & (held > limits[:, columns])).any(axis=0)
        return np.asarray(above & (after >= level).all(axis=0))

    held = holdings.copy()
    expected = np.zeros(requests.shape[1], dtype=bool)
    for bundle in np.unique(bundles).tolist():
        left, goes = held.copy(), True
        for i in np.flatnonzero(bundles == bundle).tolist():
            own = [(level, int(a)) for level, a in enumerate(accounts[:, i]) if a >= 0]
            one = np.array([i])
            goes &= all(may_lose(level, left[:, [a]], np.array([a]), one)[0] for level, a in own)
            for _, a in own:
                left[:, a] -= requests[:, i]
        if goes:
            expected[bundles == bundle] = True
            held = left

    assert expected.tolist() == who_goes(holdings, requests, accounts, may_lose, bundles if whole else None).tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12))
def test_grouped_sums_equal_loops(entries: list[tuple[int, int]]) -> None:
    """Counts and sums of what stands before, group by group."""
    groups = np.array([g for g, _ in entries], dtype=np.int64)
    amounts = np.array([[a for _, a in entries]], dtype=np.int64).reshape(1, len(entries))

    assert [sum(g == o for o, _ in entries[:i]) for i, (g, _) in enumerate(entries)] == ordinals(groups).tolist()
    assert [sum(a for o, a in entries[:i] if o == g) for i, (g, _) in enumerate(entries)] == sums_before(
        amounts, groups
    )[0].tolist()


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.booleans()), max_size=6)


@given(STEPS)
def test_shares_are_restored_by_rewinding(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever is given, taken or evicted inside a statement, every key and every quota is as before it."""
    hall = hall_of(
        "n0..3",
        queue("a", deserved="cpu=1"),
        queue("b", deserved="cpu=3"),
        gang("x", tasks=4, minimum=1, queue="a", on="n0 n1"),
        gang("y", tasks=4, minimum=1, queue="b", on="n2 n3"),
    )
    plugins = (Proportion({}, hall.view), Capacity({}, hall.view))
    fair = drf({}, hall.view)
    queues, jobs = (hall.queue("a"), hall.queue("b")), (hall.job("x"), hall.job("y"))

    def answers() -> list[object]:
        orders = [plugin.queue_key(q) for plugin in plugins for q in queues]
        quotas = [plugin.quota_exceeded(job, hall.vector("cpu=1")) for plugin in plugins for job in jobs]
        return [*orders, *quotas, *(fair.job_key(job) for job in jobs)]

    before = answers()
    with hall.ledger.statement():
        for name, amount, evicts in steps:
            if evicts:
                hall.evict({"a": "x-0", "b": "y-0"}[name])
            hall.ledger.charge(jobs["ab".index(name)], hall.vector(f"cpu={amount}"))

    assert before == answers()
