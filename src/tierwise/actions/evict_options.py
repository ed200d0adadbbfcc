"""What a profile may set for the actions that make room for gangs, and what their names stand for."""

from __future__ import annotations

import msgspec

from tierwise.actions.weighing import Manner
from tierwise.framework.arguments import flag, number
from tierwise.framework.extension import Arguments

__all__ = ["Options"]

_MANNERS = {"jobpreempt": Manner.JOB, "quotapreempt": Manner.QUOTA, "podpreempt": Manner.POD}
_WITHIN = "quotapreempt"


class Options(msgspec.Struct, frozen=True):
    """What a profile may set for the action."""

    action: str
    max_domains: int | None = None
    allow_whole: bool = True
    remainder: bool = False
    manner: Manner | None = None  # how tasks are weighed that fall one by one; None where gangs are weighed
    across: bool = False  # less important tasks of every queue may go

    @classmethod
    def of(cls, action: str, arguments: Arguments) -> Options:
        most = int(number(arguments, "maxDomains", 0))
        return cls(
            action=action,
            max_domains=most or None,
            allow_whole=flag(arguments, "allowWholeBundle", default=True),
            remainder=flag(arguments, "evictRemainder", default=False),
            manner=_MANNERS.get(action),
            across=action in _MANNERS and action != _WITHIN,
        )

    @property
    def singly(self) -> bool:
        """Whether tasks fall one by one, whatever becomes of their gang."""
        return self.manner is not None
