"""For how long a gang holds out for a close place, step by step, as its annotation declares: `rack=10m,leaf=1h,any`.

For ten minutes from its creation the gang starts in one rack or not at all, for the next hour in one leaf, and then
wherever its constraint lets it. Tiers are named, or numbered.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tierwise.api.duration import seconds

__all__ = ["FORM", "LADDER", "LadderStep", "parse_ladder"]

LADDER: Final = "tierwise.io/topology-ladder"
"""On a pod group, the job that it is made for, or its pods: the steps."""

FORM: Final = "steps such as rack=10m,leaf=1h,any"
_ANY: Final = "any"
_STEPS: Final = 16


class LadderStep(msgspec.Struct, frozen=True):
    """A tier, by name or number, and for how many seconds nothing wider will do."""

    tier: str
    seconds: float


def parse_ladder(text: str) -> tuple[LadderStep, ...] | None:
    """The steps that a text declares, without an `any` at the end, which changes nothing; None where it declares none.

    Every other step needs a time, so that no gang waits for ever. `any` alone is a step without one: it does not wait.
    """
    parts = [part.strip() for part in text.split(",")]
    if parts == [_ANY]:
        return (LadderStep(_ANY, 0.0),)
    if len(parts) > 1 and parts[-1] == _ANY:
        parts.pop()
    steps: list[LadderStep] = []
    for part in parts:
        tier, _, time = part.rpartition("=")
        duration = seconds(time.strip())
        if not tier.strip() or tier.strip() == _ANY or duration is None or duration <= 0:
            return None
        steps.append(LadderStep(tier.strip(), duration))
    return tuple(steps) if len(steps) <= _STEPS else None
