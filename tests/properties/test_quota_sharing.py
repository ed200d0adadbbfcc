"""Sharing among quotas: the fast rounds equal plain ones, and nobody is wronged."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tierwise.plugins.elastic_quota.tree import Claim, lend_out, scaled

CLAIMS = st.lists(
    st.builds(Claim, st.integers(0, 60), st.integers(0, 30), st.integers(0, 9), st.booleans()), max_size=6
)


@given(st.integers(0, 150), CLAIMS)
def test_lending_equals_the_plain_rule(total: int, claims: list[Claim]) -> None:
    """Unit by unit, with fractions instead of remainders."""
    assert plain(total, claims) == lend_out(total, claims)


@given(st.integers(0, 150), CLAIMS)
def test_nobody_is_wronged(total: int, claims: list[Claim]) -> None:
    """Everyone has what it asks for up to min, nobody more than that and its request, and nothing is lent twice."""
    runtimes = lend_out(total, claims)
    for claim, runtime in zip(claims, runtimes, strict=True):
        assert min(claim.request, claim.minimum) <= runtime <= max(claim.request, 0 if claim.lends else claim.minimum)
    assert sum(runtimes) <= max(total, sum(claim.first for claim in claims))


@given(st.integers(0, 150), CLAIMS)
def test_nothing_is_left_while_somebody_with_weight_is_short(total: int, claims: list[Claim]) -> None:
    """What is idle is lent to the last unit."""
    runtimes = lend_out(total, claims)
    short = [c for c, r in zip(claims, runtimes, strict=True) if c.weight and r < c.request and c.request > c.minimum]
    assert not short or sum(runtimes) >= total


@given(st.integers(-20, 150), st.lists(st.integers(0, 60), max_size=6))
def test_scaled_minimums_fit(total: int, minimums: list[int]) -> None:
    """They never come to more than there is, and keep their order."""
    found = scaled(total, minimums)
    assert sum(found) <= max(total, 0) or found == minimums
    assert sorted(range(len(minimums)), key=lambda i: minimums[i]) == sorted(
        range(len(minimums)), key=lambda i: (found[i], minimums[i])
    )


def plain(total: int, claims: list[Claim]) -> list[int]:
    """The rule as it is told, one unit after the other."""
    have = []
    for claim in claims:
        if claim.request > claim.minimum:
            have.append(claim.minimum)
        else:
            have.append(claim.request if claim.lends else claim.minimum)
    left = total - sum(have)
    hungry = {i for i, c in enumerate(claims) if c.request > c.minimum and c.weight > 0}
    while left > 0 and hungry:
        weight = sum(claims[i].weight for i in hungry)
        exact = {i: Fraction(left * claims[i].weight, weight) for i in hungry}
        given_out = {i: int(share) for i, share in exact.items()}
        for i in sorted(hungry, key=lambda i: (int(exact[i]) - exact[i], i)):
            if sum(given_out.values()) < left:
                given_out[i] += 1
        left = 0
        for i, units in given_out.items():
            have[i] += units
            if have[i] >= claims[i].request:
                left += have[i] - claims[i].request
                have[i] = claims[i].request
                hungry = hungry - {i}
    return have
