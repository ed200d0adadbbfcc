"""How much of a costly check runs: a part in `make test`, more in `make properties`, all of it in `make test-deep`."""

from __future__ import annotations

import os
from random import Random

from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["DEEP", "QUICK", "ROTATION", "examples", "seeds", "size"]

ROTATION = "2026-11"
"""Which worlds `make test` and `make properties` draw: the same ones on every machine, until this is changed on purpose
(with each version, so that no suite looks at one set of worlds for ever)."""

_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
DEEP, QUICK = _PROFILE == "deep", _PROFILE == "default"
_PART = 6  # of how many examples `make test` looks at one
_LEAST = 3  # but at so many, where there are
_MORE = 30  # about what the deep profile has for each example of the thorough one


def size(usual: int, deep: int, *, quick: int | None = None) -> int:
    """A number of cycles, instances or nodes: the first in every run, the second in a deep one; `quick` in `make test`,
    where every run would be too long for it.
    """
    if DEEP:
        return deep
    return quick if QUICK and quick is not None else usual


def examples(thorough: int, *, least: int = _LEAST) -> settings:
    """A property that looks at so many examples in `make properties`, at fewer in `make test` (but at `least`), at many
    more in a deep run.
    """
    quick = max(thorough // _PART, min(thorough, least))
    return settings(max_examples={"default": quick, "deep": _MORE * thorough}.get(_PROFILE, thorough))


def seeds() -> st.SearchStrategy[Random]:
    """Sources of chance that do not shrink, for worlds that are shown whole."""
    return st.integers(0, 2**32 - 1).map(lambda seed: Random(f"{ROTATION} {seed}"))
