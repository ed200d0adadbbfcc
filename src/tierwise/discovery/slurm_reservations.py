"""Slurm's reservations, as `scontrol show reservation` prints them, read as windows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.duration import spelled
from tierwise.api.errors import InputError
from tierwise.discovery.hostlist import HostlistError, expand

__all__ = ["windows_of"]

_DAYS: Final = {"DAILY": 1, "WEEKLY": 7}
_NOT_READ: Final = ("WEEKDAY", "WEEKEND", "HOURLY")
_TAKES_NO_NODES: Final = ("Users", "Accounts", "Groups", "Licenses")


def windows_of(text: str, *, file: str, zone: str = "UTC") -> Iterator[tuple[Raw, list[str]]]:
    """A Window for each reservation, on the clock of a zone, with what of it is left out; InputError for other text."""
    for part in re.split(r"\n(?=ReservationName=)", text.strip()):
        found = dict(re.findall(r"(\w+)=(\S*)", part))
        if "ReservationName" not in found:
            if part.startswith("No reservations"):
                return
            raise InputError("this is not what `scontrol show reservation` prints", file=file)
        yield _window(found, file, zone)


def _window(found: Mapping[str, str], file: str, zone: str) -> tuple[Raw, list[str]]:
    name = found["ReservationName"]
    try:
        begin, end = (datetime.fromisoformat(found.get(field, "")) for field in ("StartTime", "EndTime"))
        nodes = expand(found.get("Nodes", "").replace("(null)", ""))
    except (ValueError, HostlistError) as error:
        raise InputError(f"{error}", file=file, obj=f"reservation {name}") from None
    if not nodes or nodes == [""]:
        raise InputError("it names no nodes", file=file, obj=f"reservation {name}", field="Nodes")
    flags = found.get("Flags", "").split(",")
    days = next((number for flag, number in _DAYS.items() if flag in flags), 0)
    left = [f"{flag} is not read: it comes once" for flag in _NOT_READ if flag in flags]
    for field in _TAKES_NO_NODES:
        value = found.get(field, "(null)")
        if value not in ("", "(null)"):
            left.append(f"{field}={value} is not read: spec.queues says whose jobs may run in it")
    spec: dict[str, object] = {
        "nodes": nodes,
        "start": begin.isoformat(timespec="minutes"),
        "duration": spelled((end - begin).total_seconds()),
        **({"everyDays": days} if days else {}),
        "timeZone": zone,
        "reason": f"Slurm's reservation {name}",
    }
    label = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.") or "reservation"
    return {
        "apiVersion": "tierwise.io/v1alpha1",
        "kind": "Window",
        "metadata": {"name": label},
        "spec": spec,
    }, left
