"""How far searches go: every bound that is counted in steps, from one number that a profile may set.

A profile says how many steps searches may take as an argument of its action allocate. At the default each bound is the
number given here; at half of it, half. What ends recursion, or chooses how something is shown, is no search and
keeps its own number where it is used.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import fields

from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["CYCLE_STEPS", "NAMES", "STEPS", "SearchBudget", "cycle_steps", "search_steps", "wrong_steps"]

NAME: Final = "searchSteps"

STEPS: Final = 100_000
"""The default."""

CYCLE_NAME: Final = "cycleSteps"

CYCLE_STEPS: Final = 100_000
"""Steps that all searches of one cycle take together, by default: some two seconds on 500 nodes."""

NAMES: Final = (NAME, CYCLE_NAME)
"""The arguments of allocate that say how far searches go."""

_MOST: Final = 100 * STEPS
"""Beyond this one gang could keep a cycle for hours."""


def search_steps(profile: Profile) -> int:
    """How many steps the largest search may take; InputError where that cannot be read."""
    return _steps(profile, NAME, STEPS)


def cycle_steps(profile: Profile) -> int:
    """How many steps all searches of a cycle may take together. Raises InputError for what is no number of steps."""
    return _steps(profile, CYCLE_NAME, CYCLE_STEPS)


def _steps(profile: Profile, name: str, usual: int) -> int:
    value = profile.action_arguments.get("allocate", {}).get(name, usual)
    wrong = wrong_steps(value)
    if wrong or not isinstance(value, int):
        raise InputError(wrong, field=f"configurations.allocate.{name}")
    return value


def wrong_steps(value: object) -> str:
    """Why a value is no number of steps; "" where it is one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        return f'"{as_written(value)}" is not a whole number from 1 to {_MOST}'
    return ""


class SearchBudget(msgspec.Struct, frozen=True):
    """The bound of each search."""

    steps: int = STEPS  # of a search for sub-groups, in all domains; a trial counts as 25
    trials: int = 400  # sub-groups that are tried on the ledger in one domain
    ways: int = 64  # selections of tasks for a sub-group that has more than it needs
    tight_steps: int = 5_000  # of these, for the tighter domains of groups of groups first
    orders: int = 4  # kinds of tasks that are placed first where the order decides
    choices: int = 2**16  # ways to choose the tasks of a task group
    places: int = 32  # places that rules between pods tie a task group or a job to
    gathered_places: int = 64  # domains of a tier for gathered tasks where counting alone does not tell
    mixed_places: int = 16  # the same by integer programs, before one about all of them
    tree_steps: int = 4096  # choices where limits of several trees hold
    questions: int = 1024  # to quotas about the tasks of a job's minimum, and steps to its selections of sub-groups
    selections: int = 32  # of tasks for a job's minimum, where quotas or fabrics do not take the first
    singles: int = 32  # tasks beyond the minimums of sub-groups that are tried one by one
    together: int = 96  # searches in a cycle for gangs that are placed together
    victim_ways: int = 2**18  # work of counting several shapes beside victims before a trial is quicker
    moments: int = 64  # at which a reservation is tried beside others
    program: int = 400_000  # entries of an integer program, of which an eighth may be variables
    nodes: int = 1_000  # of the tree of one
    shape_orders: int = 24  # in which its tasks are then placed
    devices: int = 50_000  # devices that are tried for one pod on one node
    devices_together: int = 5_000  # the same for pods of several shapes together

    @classmethod
    @lru_cache(16)
    def of(cls, steps: int) -> SearchBudget:
        """All bounds at so many steps; each search takes one at least."""
        usual = {field.name: int(field.default) for field in fields(cls)}
        return cls(**{name: max(1, number * steps // STEPS) for name, number in usual.items()})
