"""How one resource is shared among quotas side by side."""

from __future__ import annotations

import pytest

from tierwise.plugins.elastic_quota.tree import Claim, lend_out, scaled


def claim(request: int, minimum: int, weight: int, *, lends: bool = True) -> Claim:
    """A claim in one line."""
    return Claim(request, minimum, weight, lends)


def test_minimums_first_then_by_weight_then_what_is_left_again() -> None:
    """Koordinator's table: the second asks for less than its share, and the rest goes to those still short."""
    claims = [claim(5, 10, 40), claim(20, 15, 60), claim(40, 20, 50), claim(70, 15, 80)]

    assert [5, 20, 35, 40] == lend_out(100, claims)


def test_cpu_is_shared_in_thousandths() -> None:
    """The same in finer units: the rounds end elsewhere."""
    claims = [claim(5000, 10000, 40), claim(20000, 15000, 60), claim(40000, 20000, 50), claim(70000, 15000, 80)]

    assert [5000, 20000, 35385, 39615] == lend_out(100_000, claims)


def test_units_that_rounding_leaves_go_by_fraction_then_by_name() -> None:
    """Three units for four equal claims: the first three have them."""
    assert [1, 1, 1, 0] == lend_out(3, [claim(9, 0, 1)] * 4)
    assert [1, 2] == lend_out(3, [claim(9, 0, 2), claim(9, 0, 3)])


@pytest.mark.parametrize(("lends", "runtime"), [(True, 2), (False, 8)])
def test_idle_minimum_is_lent_only_where_the_quota_lends(lends: bool, runtime: int) -> None:
    """A quota that does not lend keeps its min, whatever it asks for."""
    assert [runtime, 10 - runtime] == lend_out(10, [claim(2, 8, 1, lends=lends), claim(99, 0, 1)])


def test_without_weight_a_quota_borrows_nothing() -> None:
    """It has its min, and what is left goes to the others."""
    assert [4, 6] == lend_out(10, [claim(9, 4, 0), claim(9, 0, 1)])


def test_products_beyond_64_bits_are_exact() -> None:
    """Bytes times bytes: not one is lost."""
    half = 2**50 + 1
    runtimes = lend_out(2 * half, [claim(2**52, 0, 2**50 + 7), claim(2**52, 0, 2**50 + 7)])

    assert [half, half] == runtimes


def test_minimums_shrink_in_proportion() -> None:
    """Together they are not more than there is; where they fit they stay."""
    assert [30, 20] == scaled(50, [60, 40])
    assert [60, 40] == scaled(100, [60, 40])
    assert [0, 0] == scaled(-5, [60, 40])
