"""Readers of public data: a fabric from a table of hosts and switches, jobs from Microsoft's Philly trace.

A bad line is one message with file, line and column.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np

from tierwise.api.errors import InputError
from tierwise.replay.traces.fabric import Fabric, fabric
from tierwise.replay.traces.trace import QUEUE, Trace, sorted_trace

__all__ = ["Table", "read_fabric", "read_table", "read_trace"]

Value = TypeVar("Value")
_PHILLY = ("timestamp", "duration", "num_gpus")


class Table:
    """The lines of a CSV file by the names of its columns."""

    def __init__(self, file: str, titles: Sequence[str], lines: list[list[str]]) -> None:
        self.file = file
        self.titles = tuple(titles)
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def column(self, title: str, read: Callable[[str], Value]) -> list[Value]:
        """A column read value by value; InputError where one cannot be read."""
        place = self.titles.index(title)
        found = []
        for number, line in enumerate(self._lines, start=2):
            try:
                found.append(read(line[place]))
            except (ValueError, IndexError):
                said = line[place] if place < len(line) else "nothing"
                raise InputError(f"cannot be read: {said}", file=f"{self.file}:{number}", field=title) from None
        return found


def read_table(file: str) -> Table:
    """A CSV file with a line of titles."""
    try:
        with Path(file).open(newline="", encoding="utf-8") as stream:
            lines = [line for line in csv.reader(stream) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(getattr(error, "strerror", None) or str(error), file=file) from None
    if len(lines) < 2:
        raise InputError("a line of titles and at least one more are expected", file=file)
    return Table(file, lines[0], lines[1:])


def read_fabric(file: str, gpus_per_host: int) -> Fabric:
    """Hosts in the first column, the switches above them in the others, outermost first."""
    table = read_table(file)
    if len(table.titles) < 2:
        raise InputError("a column of hosts and at least one of switches are expected", file=file)
    hosts = table.column(table.titles[0], _word)
    paths = zip(*(table.column(title, _word) for title in table.titles[1:]), strict=True)
    found: dict[str, tuple[str, ...]] = {}
    for number, (host, path) in enumerate(zip(hosts, paths, strict=True), start=2):
        if host in found:
            raise InputError(f"host {host} stands twice", file=f"{file}:{number}")
        found[host] = path
    return fabric(found, gpus_per_host)


def read_trace(file: str) -> Trace:
    """Jobs with a timestamp, a duration in seconds and a number of GPUs; further columns may say more of them.

    `priority` is a number; `queue`, or Philly's `cluster`, the queue.
    """
    table = read_table(file)
    missing = [title for title in _PHILLY if title not in table.titles]
    if missing:
        raise InputError(f"columns {', '.join(_PHILLY)} are expected; {missing[0]} is missing", file=file)
    priority = table.column("priority", int) if "priority" in table.titles else [0] * len(table)
    queue = next((title for title in ("queue", "cluster") if title in table.titles), None)
    return sorted_trace(
        Path(file).stem,
        np.array(table.column("timestamp", _moment)),
        np.array(table.column("duration", _positive)),
        np.array(table.column("num_gpus", _whole), dtype=np.int64),
        np.array(priority, dtype=np.int64),
        table.column(queue, _word) if queue else [QUEUE] * len(table),
    )


def _word(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _moment(text: str) -> float:
    """Seconds since the epoch; a time without a zone is UTC."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
