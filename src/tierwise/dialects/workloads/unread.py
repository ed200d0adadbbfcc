"""Fields of a workload that its own controller reads and that are not read here: its pods are made, name them and wait.

They would start as something else than was asked for, or without what the controller gives them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.codec import Raw
from tierwise.api.unsupported import UNREAD_FIELDS
from tierwise.dialects.workloads.templates import with_marks

__all__ = ["Unread", "marked"]

_NAMED = 8
"""So many of them are named."""


class Unread:
    """The fields, each with the reason why pods cannot do without it."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        given = list(pairs)
        self.fields = ",".join(field for field, _ in given[:_NAMED])
        self.why = ": ".join(given[0]) if given else ""


def marked(template: Raw, unread: Unread) -> Raw:
    """A pod template whose pods wait where there are such fields."""
    if unread.fields:
        return with_marks(template, annotations={UNREAD_FIELDS: unread.fields})
    return template
