"""What a profile says of spares: how many places a gang that runs may have kept free for it.

Read by the cycle from the arguments of the plugin `repair`, whether or not a profile has that; only the author
of the profile may set it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["SpareRules", "spare_rules"]

_PLUGIN: Final = "repair"
_NAME: Final = "maxSpares"
_SHARE: Final = re.compile(r"([0-9]{1,3})%")


class SpareRules(msgspec.Struct, frozen=True):
    """As many as a number says, or a share of the pods that run, but one at least."""

    percent: int = 10
    number: int | None = None  # where it is given there is no share; 0: spares are off

    def most(self, pods: int) -> int:
        """How many spare pods a gang may have, beside its running ones: the number that is configured, else so many
        percent of the running pods, rounded down, at least 1.
        """
        return max(1, pods * self.percent // 100) if self.number is None else self.number


def spare_rules(profile: Profile) -> SpareRules:
    """The rules of a profile; InputError where they cannot be read."""
    if not profile.feature("Spares"):
        return SpareRules(number=0)
    arguments_given = (choice.arguments for choice in profile.plugins() if choice.name == _PLUGIN)
    values = [arguments[_NAME] for arguments in arguments_given if _NAME in arguments]
    if not values:
        return SpareRules()
    value = values[0]
    if value is False or value == "off":  # YAML reads a bare off as false
        return SpareRules(number=0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return SpareRules(number=value)
    share = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if share is None or int(share[1]) > 100:
        wrong = f'"{as_written(value)}" is neither a number such as 2, nor a share such as 10%, nor off'
        text = f"plugin {_PLUGIN}: {_NAME}: {wrong}"
        raise InputError(text, field="tiers.plugins")
    return SpareRules(percent=int(share[1]))
