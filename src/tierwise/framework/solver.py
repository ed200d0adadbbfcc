"""The library that solves integer programs: HiGHS. What cannot be decided without it is not decided otherwise.

It is loaded by the first program, and by verbs that schedule when they start, so that none of them finds out on the
way that it is missing.
"""

from __future__ import annotations

from typing import Any

from tierwise.api.errors import InputError

__all__ = ["load_solver", "solver_version"]

_MISSING = (
    "HiGHS, which decides where gangs with rules between pods may stand, cannot be loaded: {why} "
    "(the package highspy has wheels for CPython 3.11 to 3.14 on Linux, macOS and Windows, for x86-64 and arm64)"
)


def load_solver() -> Any:
    """The library; InputError where it cannot be loaded."""
    try:
        import highspy  # a fortieth of a second, and modules that know no manifest
    except ImportError as error:  # no wheel for this platform, or one that its libraries do not suit
        raise InputError(_MISSING.format(why=error)) from None
    return highspy


def solver_version() -> str:
    """The name and the version; InputError where it cannot be loaded."""
    library = load_solver().Highs()
    return f"HiGHS {library.version()}"
