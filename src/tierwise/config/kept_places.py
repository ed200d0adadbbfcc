"""Arguments of the action allocate about places that are kept for the successors of pods."""

from __future__ import annotations

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["KeptPlaceRules", "kept_place_rules"]

_LONGEST = 3600.0


class KeptPlaceRules(msgspec.Struct, frozen=True):
    """Whether places are kept for successors, and for how long."""

    namespace: str = ""  # in which the record is kept; "": no place is
    time: float = 60.0  # seconds after a pod is gone in which its place is its successor's


def kept_place_rules(profile: Profile) -> KeptPlaceRules:
    """The rules of a profile; InputError where they cannot be read."""
    given = profile.action_arguments.get("allocate", {})
    namespace = given.get("keptPlaces", "")
    if not isinstance(namespace, str) or "/" in namespace:
        field = "configurations.allocate.keptPlaces"
        raise InputError(f'"{as_written(namespace)}" is not the name of a namespace', field=field)
    time = given.get("keptPlacesFor", "1m")
    found = seconds(time) if isinstance(time, str) else None
    if found is None or not 0 < found <= _LONGEST:
        text = f'"{as_written(time)}" is not a duration such as 2m, up to 1h'
        raise InputError(text, field="configurations.allocate.keptPlacesFor")
    return KeptPlaceRules(namespace, found)
