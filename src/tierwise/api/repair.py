"""What jobs say of the loss of nodes: what is restarted then, which spares are kept for them, who may borrow spares.

Read by the dialects from annotations; `actions.eviction.repair` acts on it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["SPARES", "OnNodeLoss", "RepairTerms", "parse_on_node_loss", "parse_repair"]

ON_NODE_LOSS: Final = "tierwise.io/on-node-loss"
"""On a job: what is restarted when it loses nodes."""
SPARES: Final = "tierwise.io/spares"
"""On a job: how many places for its pods are kept free where it runs, `2`, or in each domain of a tier, `1@rack`."""
BORROWS_SPARES: Final = "tierwise.io/borrows-spares"
"""On a job: whether it may run on spares of others, and is evicted at once when those need them."""

_SPARES: Final = r"([0-9]{1,4})(?:@([A-Za-z0-9][-_.A-Za-z0-9]{0,62}))?"
_FLAGS: Final = {"true": True, "false": False}


class OnNodeLoss(enum.Enum):
    """Part of a gang that is restarted when the gang loses nodes."""

    REPLACE = "replace"  # the pods that were there
    RESTART_SUBGROUP = "restart-subgroup"  # the sub-groups that they belong to
    RESTART_ALL = "restart-all"  # every pod of the gang


class RepairTerms(msgspec.Struct, frozen=True):
    """Wishes of one job about repairs after lost nodes."""

    on_node_loss: OnNodeLoss | None = None
    spares: int = 0
    spares_tier: str = ""  # a tier, by name or number, each domain of which has so many; "": the domain it runs in
    borrows: bool = False

    def wish(self, usual: OnNodeLoss | None) -> OnNodeLoss | None:
        """Repair that the job wants where the default is `usual`; None for no repair. A job with spares wants them
        used.
        """
        return self.on_node_loss or usual or (OnNodeLoss.REPLACE if self.spares else None)


def parse_on_node_loss(text: str) -> OnNodeLoss | str:
    """One of the three; a sentence where it is none of them."""
    try:
        return OnNodeLoss(text)
    except ValueError:
        return f'"{text}" is not one of {", ".join(choice.value for choice in OnNodeLoss)}'


def parse_repair(marks: Mapping[str, str]) -> RepairTerms | str | None:
    """The terms among annotations; None where there are none, and a sentence where one cannot be read."""
    if ON_NODE_LOSS not in marks and SPARES not in marks and BORROWS_SPARES not in marks:
        return None
    wish: OnNodeLoss | None = None
    if ON_NODE_LOSS in marks:
        policy = parse_on_node_loss(marks[ON_NODE_LOSS])
        if isinstance(policy, str):
            return f"annotation {ON_NODE_LOSS}: {policy}"
        wish = policy
    spares = re.fullmatch(_SPARES, marks.get(SPARES, "0"))
    if spares is None:
        return f'annotation {SPARES}: "{marks[SPARES]}" is not a number of spares such as 2 or 1@rack'
    borrows = _FLAGS.get(marks.get(BORROWS_SPARES, "false"))
    if borrows is None:
        return f'annotation {BORROWS_SPARES}: "{marks[BORROWS_SPARES]}" is neither true nor false'
    return RepairTerms(wish, int(spares[1]), spares[2] or "", borrows)
