"""What a property has seen of what it is about, so that one which saw nothing fails instead of passing.

    @sees(evictions=3)
    @given(cases())
    def test_budgets_hold(case: Case) -> None: ...

Whoever runs a cycle for a property (`once`, `settle`) says what came of it; a property may say more (`saw`). The least
numbers hold for the examples of every profile, the few of `make test` included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

__all__ = ["saw", "sees"]

F = TypeVar("F", bound=Callable[..., Any])

_SEEN: Final = Counter[str]()


def saw(**numbers: int) -> None:
    """So much was seen, beside what was seen before."""
    _SEEN.update(numbers)


def sees(**least: int) -> Callable[[F], F]:
    """A test that fails where all its examples together show less than this."""

    def guarded(test: F) -> F:
        @wraps(test)
        def run(*args: Any, **named: Any) -> None:
            _SEEN.clear()
            test(*args, **named)
            short = {name: f"{_SEEN[name]} of {number}" for name, number in least.items() if _SEEN[name] < number}
            assert {} == short, f"{test.__name__} saw too little of what it is about: {short}"

        return run  # type: ignore[return-value]

    return guarded
