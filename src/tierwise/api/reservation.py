"""The annotation in which a gang's reservation is kept, so that it survives a restart: where, and from when.

Written with the status of a pod group and read back by the dialects. One that cannot be read counts as none: it is
tierwise's own, and made again.
"""

from __future__ import annotations

import json
from math import inf
from typing import Final

import msgspec

from tierwise.api.core import format_time, parse_time

__all__ = ["RESERVATION", "ReservationRecord", "parse_reservation", "spell_reservation"]

RESERVATION: Final = "tierwise.io/reservation"


class ReservationRecord(msgspec.Struct, frozen=True):
    """Where a gang has a reservation, by the name of the domain, and from when; infinite where that is not known."""

    domain: str
    start: float = inf


def spell_reservation(record: ReservationRecord) -> str:
    """A record as it is annotated."""
    start_field = {"from": format_time(record.start)} if record.start < inf else {}
    return json.dumps({"domain": record.domain, **start_field})


def parse_reservation(text: str) -> ReservationRecord | None:
    """The record of an annotation; None where there is none that can be read."""
    try:
        fields = json.loads(text) if text else None
        if not isinstance(fields, dict) or not isinstance(fields.get("domain"), str):
            return None
        return ReservationRecord(fields["domain"], parse_time(str(fields["from"])) if "from" in fields else inf)
    except ValueError:
        return None
