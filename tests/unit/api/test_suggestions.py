"""Which known word people are asked about after a misspelt one."""

from __future__ import annotations

import pytest

from tierwise.api.errors import suggestion

JOBS = ("default/train", "ml/train", "ml/train-b", "team-b/notebook-0")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("ml/trian", JOBS, "ml/train"),
        ("default/trian", JOBS, "default/train"),
        ("default/train-b", JOBS, "ml/train-b"),
        ("team-b/notebook", JOBS, "team-b/notebook-0"),
        ("team-b/nobody", JOBS, ""),
        ("nobody", ("notebook-0",), ""),
        ("team-b/x", JOBS, ""),
        ("team-b/", JOBS, ""),
        ("WIEGHT", ("weight", "name"), "weight"),
        ("cup", ("cpu", "memory"), "cpu"),
        (
            "tierwise.io/topology-lader",
            ("tierwise.io/hold", "tierwise.io/topology-ladder"),
            "tierwise.io/topology-ladder",
        ),
        ("tierwise.io/xyz", ("tierwise.io/hold",), ""),
    ],
)
def test_names_are_compared_and_not_what_is_before_them(word: str, known: tuple[str, ...], meant: str) -> None:
    """A shared namespace or prefix makes no name near; of equal names the one in the nearest namespace is meant."""
    assert (f" (did you mean {meant}?)" if meant else "") == suggestion(word, known)
