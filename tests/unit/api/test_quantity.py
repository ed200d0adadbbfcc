"""Quantities: every form that Kubernetes knows, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.quantity import LARGEST, Quantity, amount, canonical, milli, ratio, show, whole

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("+5", 5),
        ("-5", -5),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1.25", Fraction(5, 4)),
        ("100m", Fraction(1, 10)),
        ("1n", Fraction(1, 10**9)),
        ("3u", Fraction(3, 10**6)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("2Ei", 2**61),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e3", 1000),
        ("12e-2", Fraction(3, 25)),
        ("1.5E+2", 150),
        ("-1.5e1", -15),
        (4, 4),
        (0.1, Fraction(1, 10)),
        (1e22, 10**22),
        (-2, -2),
    ],
)
def test_every_form_has_its_exact_value(quantity: Quantity, expected: Fraction | int) -> None:
    """Suffixes, exponents, signs and bare numbers are read without rounding."""
    assert expected == Fraction(*ratio(quantity))


@pytest.mark.parametrize(
    "quantity",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1mi",
        "1KI",
        "1e",
        "1e+",
        "1.2.3",
        "e3",
        ".",
        "-",
        "1,5",
        "0x10",
        "1_000",
        "12parsecs",
        "1Gim",
    ],
)
def test_what_is_no_quantity_says_so(quantity: str) -> None:
    """The error repeats what was written."""
    with pytest.raises(ValueError, match="is not a quantity"):
        ratio(quantity)


@pytest.mark.parametrize("quantity", [True, float("nan"), float("inf"), "٣"])
def test_numbers_that_are_none_are_refused(quantity: Quantity) -> None:
    """Booleans, infinities and digits of other scripts are no quantities."""
    with pytest.raises(ValueError, match="is not a quantity"):
        ratio(quantity)


@pytest.mark.parametrize(
    "quantity", ["1e65", "1e999999999999", "9" * 500, "9" * 5000 + "Ei", f"1e{'9' * 5000}", 10**400]
)
def test_more_than_can_be_counted_saturates_without_being_computed(quantity: Quantity) -> None:
    """The API server takes such quantities, and counts them as the largest; a milliard digits are never written out."""
    assert (LARGEST, LARGEST) == (whole(quantity), milli(quantity))


@pytest.mark.parametrize("quantity", ["1e-999999999999", f"0.{'0' * 5000}1", f"1e-{'9' * 5000}", "1n"])
def test_the_smallest_amounts_count_as_one(quantity: str) -> None:
    """Fractions are rounded away from zero, however small they are."""
    assert (1, 1, -1) == (whole(quantity), milli(quantity), whole(f"-{quantity}"))


def test_digits_beyond_the_ones_that_are_looked_at_still_round_up() -> None:
    """Of five thousand digits the last one decides whether an amount is a whole one."""
    assert (5, 6) == (whole(f"5.{'0' * 5000}"), whole(f"5.{'0' * 5000}1"))


@pytest.mark.parametrize(
    ("quantity", "units", "thousandths"),
    [("1", 1, 1000), ("1500m", 2, 1500), ("1n", 1, 1), ("-1500m", -2, -1500), ("0", 0, 0), ("1.0001", 2, 1001)],
)
def test_fractions_of_a_unit_count_as_a_whole_one(quantity: str, units: int, thousandths: int) -> None:
    """Rounding goes away from zero, as Kubernetes' own does."""
    assert (units, thousandths) == (whole(quantity), milli(quantity))


def test_amounts_beyond_64_bits_saturate_in_the_unit_asked_for() -> None:
    """The largest amount stands for all that are larger; in thousandths it is reached earlier."""
    assert [LARGEST] * 4 == [whole(str(LARGEST)), whole(str(LARGEST + 1)), milli(str(LARGEST)), whole("16Ei")]
    assert -LARGEST == whole("-16Ei")


@pytest.mark.parametrize(
    ("resource", "quantity", "count", "shown"),
    [
        ("cpu", "1.5", 1500, "1500m"),
        ("cpu", "2000m", 2000, "2"),
        ("requests.cpu", "1", 1000, "1"),
        ("memory", "64Gi", 64 * 2**30, "64Gi"),
        ("memory", "1.5Gi", 3 * 2**29, "1536Mi"),
        ("memory", "1000", 1000, "1000"),
        ("hugepages-2Mi", "4Mi", 4 * 2**20, "4Mi"),
        ("ephemeral-storage", "0", 0, "0"),
        ("nvidia.com/gpu", "8", 8, "8"),
        ("pods", "1k", 1000, "1000"),
    ],
)
def test_a_resource_is_counted_in_its_own_unit(resource: str, quantity: str, count: int, shown: str) -> None:
    """CPU in thousandths, all else in whole units, and back to the canonical form."""
    assert (count, shown) == (amount(resource, quantity), show(resource, count))


@given(st.integers(-(10**12), 10**12), st.integers(0, 9), st.sampled_from([*DECIMAL, *BINARY]))
def test_values_agree_with_fractions(digits: int, places: int, suffix: str) -> None:
    """Any decimal with any suffix equals the fraction that it stands for."""
    unit = Fraction(10) ** DECIMAL[suffix] if suffix in DECIMAL else Fraction(1024) ** BINARY[suffix]
    text = f"{abs(digits):0{places + 1}}"
    written = f"{'-' if digits < 0 else ''}{text[: len(text) - places]}.{text[len(text) - places :]}{suffix}"

    assert Fraction(digits, 10**places) * unit == Fraction(*ratio(written))


@given(st.text("0123456789", min_size=1, max_size=24), st.sampled_from(["", ".0", "e0"]))
def test_whole_numbers_agree_with_fractions(digits: str, more: str) -> None:
    """However many digits they have, and however they are written."""
    assert min(int(digits), LARGEST) == whole(digits) == whole(digits + more)
    assert min(int(digits) * 1000, LARGEST) == milli(digits) == milli(digits + more)


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-1Gi"]), st.integers(-LARGEST, LARGEST))
def test_shown_amounts_read_back(resource: str, count: int) -> None:
    """`show` loses nothing."""
    assert count == amount(resource, show(resource, count))


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but ValueError comes out of a text, and what is read is a fraction."""
    try:
        _, denominator = ratio(text)
    except ValueError:
        return
    assert denominator > 0


@pytest.mark.parametrize(
    ("quantity", "kept"),
    [
        (1, "1"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1.5E3", "1500"),
        ("1e-3", "1e-3"),
        ("-2000", "-2k"),
        ("-1.5Gi", "-1536Mi"),
        ("0.1n", "1n"),
        ("00", "0"),
        ("0Mi", "0"),
        ("1025", "1025"),
        ("2500Ki", "2500Ki"),
    ],
)
def test_a_quantity_is_kept_in_its_canonical_form(quantity: Quantity, kept: str) -> None:
    """As Kubernetes' API server answers what was sent."""
    assert kept == canonical(quantity)


@given(
    st.integers(0, 10**15),
    st.integers(0, 9),
    st.sampled_from([*DECIMAL, *BINARY, "e3", "E-2"]),
    st.sampled_from(["", "-"]),
)
def test_the_canonical_form_has_the_same_value_and_stays(before: int, tenths: int, suffix: str, sign: str) -> None:
    """But for what is smaller than it can say, which is rounded away from zero."""
    written = f"{sign}{before}.{tenths}{suffix}"
    kept = canonical(written)
    exact, shown = Fraction(*ratio(written)), Fraction(*ratio(kept))

    assert 0 <= abs(shown) - abs(exact) < (1 if suffix in BINARY else Fraction(1, 10**9))
    assert kept == canonical(kept)
