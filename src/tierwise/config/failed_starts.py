"""Arguments of the action allocate about nodes on which pods have failed to start."""

from __future__ import annotations

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["FailedStartRules", "failed_start_rules"]


class FailedStartRules(msgspec.Struct, frozen=True):
    """Whether failed starts are remembered, and for how long they count."""

    namespace: str = ""  # in which the record is kept; "": nothing is remembered
    half_life: float = 3600.0  # seconds in which a failed start comes to count half
    owners: int = 2  # namespaces that a node must have failed to be suspected by everybody
    condition: bool = False  # whether suspected nodes have a condition that says so


def failed_start_rules(profile: Profile) -> FailedStartRules:
    """The rules of a profile; InputError where they cannot be read."""
    given = profile.action_arguments.get("allocate", {})
    namespace = given.get("failedStarts", "")
    if not isinstance(namespace, str) or "/" in namespace:
        raise InputError(f'"{as_written(namespace)}" is not the name of a namespace', field=_field("failedStarts"))
    half_life = given.get("failedStartsHalfLife", "1h")
    found = seconds(half_life) if isinstance(half_life, str) else None
    if found is None or found <= 0:
        text = f'"{as_written(half_life)}" is not a duration such as 2h'
        raise InputError(text, field=_field("failedStartsHalfLife"))
    owners = given.get("suspectedBy", 2)
    if isinstance(owners, bool) or not isinstance(owners, int) or owners < 2:
        raise InputError(f'"{as_written(owners)}" is not a whole number from 2 on', field=_field("suspectedBy"))
    condition = given.get("suspectedCondition", False)
    if not isinstance(condition, bool):
        raise InputError(f'"{as_written(condition)}" is neither true nor false', field=_field("suspectedCondition"))
    return FailedStartRules(namespace, found, owners, condition)


def _field(name: str) -> str:
    return f"configurations.allocate.{name}"
