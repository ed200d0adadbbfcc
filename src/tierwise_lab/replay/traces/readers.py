"""Readers of public data: a fabric from a table of hosts and switches, jobs from published traces and from Slurm.

A bad line is one message with file, line and column.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np

from tierwise.api.duration import seconds as duration_of
from tierwise.api.errors import InputError
from tierwise.model.arrays import Bools
from tierwise_lab.replay.traces.fabric import Fabric, fabric
from tierwise_lab.replay.traces.trace import QUEUE, Trace, pods_of, sorted_trace

__all__ = ["FORMATS", "Table", "TraceFormat", "read_fabric", "read_table", "read_trace"]

Value = TypeVar("Value")

_GPUS, _LEAST, _PODS = "gpus", "min_gpus", "pods"
_SERVICE = "service"
"""A column of hosts; two that any trace may have; and what is written for the duration of jobs that run on."""


class Table:
    """The lines of a CSV file by the names of its columns."""

    def __init__(self, file: str, titles: Sequence[str], lines: list[list[str]]) -> None:
        self.file = file
        self.titles = tuple(titles)
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def column(self, title: str, convert: Callable[[str], Value]) -> list[Value]:
        """A column read value by value; InputError where one cannot be read."""
        place = self.titles.index(title)
        values = []
        for number, line in enumerate(self._lines, start=2):
            try:
                values.append(convert(line[place]))
            except (ValueError, IndexError):
                cell_text = line[place] if place < len(line) else "nothing"
                meant = f"; {_EXPECTED[convert]} is expected" if convert in _EXPECTED else ""
                where = f"{self.file}:{number}"
                raise InputError(f"cannot be read: {cell_text}{meant}", file=where, field=title) from None
        return values


def read_table(file: str) -> Table:
    """A CSV file with a line of titles; `sacct --parsable2` parts columns by bars."""
    try:
        with Path(file).open(newline="", encoding="utf-8") as stream:
            bars = (header := stream.readline()).count("|") > header.count(",")
            stream.seek(0)
            lines = [line for line in csv.reader(stream, delimiter="|" if bars else ",") if line]
    except UnicodeDecodeError:
        raise InputError("the text is not UTF-8", file=file) from None
    except (OSError, csv.Error) as error:
        raise InputError(getattr(error, "strerror", None) or str(error), file=file) from None
    if len(lines) < 2:
        raise InputError("a line of titles and at least one more are expected", file=file)
    return Table(file, lines[0], lines[1:])


def read_fabric(file: str, gpus_per_host: int) -> Fabric:
    """Hosts in the first column, the switches above them in the others, outermost first; `gpus` are those of a host."""
    table = read_table(file)
    switches = [title for title in table.titles[1:] if title != _GPUS]
    if not switches:
        raise InputError("a column of hosts and at least one of switches are expected", file=file)
    hosts = table.column(table.titles[0], _word)
    gpus = table.column(_GPUS, _whole) if _GPUS in table.titles else [gpus_per_host] * len(table)
    paths = zip(*(table.column(title, _word) for title in switches), strict=True)
    path_by_host: dict[str, tuple[str, ...]] = {}
    for number, (host, path) in enumerate(zip(hosts, paths, strict=True), start=2):
        if host in path_by_host:
            raise InputError(f"host {host} is given twice", file=f"{file}:{number}")
        path_by_host[host] = path
    return fabric(path_by_host, gpus)


class TraceFormat(msgspec.Struct, frozen=True):
    """Which columns of a table say when a job came, how long it worked, with how many GPUs, and in which queue."""

    name: str
    arrival: str
    gpus: str
    duration: str = ""  # seconds; where there is none, from `start` to `end`
    start: str = ""
    end: str = ""
    workers: str = ""  # that have so many GPUs each
    queue: tuple[str, ...] = ()  # the first of these that the table has
    priority: str = ""
    count: Callable[[str], float] = float  # GPUs in a value
    rank: Callable[[str], int] = int  # the priority in a value
    log: bool = True  # jobs without GPUs, or without an end, are normal in it, and left out

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that a table must have."""
        return tuple(filter(None, (self.arrival, self.duration or self.start, self.end, self.gpus, self.workers)))

    def missing(self, table: Table) -> list[str]:
        """Those that a table does not have."""
        return [title for title in self.columns if title not in table.titles]


def _of_tres(text: str) -> float:
    """GPUs among resources as Slurm writes them (`cpu=8,gres/gpu=4`), or as its database does (`1=8,1002=4`)."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(",") if pair)
    return float(pairs.get("gres/gpu") or pairs.get("1002") or 0)


def _percent(text: str) -> float:
    return float(text or 0) / 100


FORMATS: Sequence[TraceFormat] = (
    TraceFormat(
        "Philly", "timestamp", "num_gpus", "duration", queue=("queue", "cluster"), priority="priority", log=False
    ),
    TraceFormat("Helios, Acme", "submit_time", "gpu_num", "duration", queue=("vc", "type")),
    TraceFormat(
        "Alibaba spot",
        "submit_time",
        "gpu_request",
        "duration",
        workers="worker_num",
        queue=("organization",),
        priority="job_type",
        rank=lambda text: int(text == "HP"),
    ),
    TraceFormat(
        "Alibaba PAI", "start_time", "plan_gpu", start="start_time", end="end_time", workers="inst_num", count=_percent
    ),
    TraceFormat(
        "MIT Supercloud",
        "time_submit",
        "tres_alloc",
        start="time_start",
        end="time_end",
        queue=("partition",),
        count=_of_tres,
    ),
    TraceFormat(
        "sacct", "Submit", "AllocTRES", "ElapsedRaw", queue=("Partition",), priority="Priority", count=_of_tres
    ),
)
"""Tables of jobs that are known by their columns; the first whose columns a table has."""


def read_trace(file: str) -> Trace:
    """Jobs of a published trace or of `sacct`, known by its columns (`FORMATS`)."""
    table = read_table(file)
    form = _format_of(table, file)
    gpus = np.array(table.column(form.gpus, _gpus(form)))
    if form.workers:
        gpus = gpus * np.array(table.column(form.workers, _amount))
    arrival = np.array(table.column(form.arrival, _moment))
    if form.duration:
        duration = np.array(table.column(form.duration, _amount if form.log else _seconds))
    else:
        duration = np.array(table.column(form.end, _end)) - np.array(table.column(form.start, _end))
    pods = table.column(_PODS, lambda text: pods_of(text) if text else ()) if _PODS in table.titles else []
    gpus = np.array([sum(pod_gpus) or number for pod_gpus, number in zip(pods, gpus, strict=True)]) if pods else gpus
    minimums = table.column(_LEAST, lambda text: int(_amount(text))) if _LEAST in table.titles else []
    usable = (gpus > 0) & (duration > 0)  # a duration that is not known is not greater
    if not usable.any():
        raise InputError("no job has GPUs and an end", file=file)
    queue = next((title for title in form.queue if title in table.titles), None)
    queues = table.column(queue, _word) if queue else [QUEUE] * len(table)
    priority = table.column(form.priority, form.rank) if form.priority in table.titles else [0] * len(table)
    return sorted_trace(
        Path(file).stem,
        arrival[usable],
        duration[usable],
        np.ceil(gpus[usable]).astype(np.int64),
        np.array(priority, dtype=np.int64)[usable],
        _kept(queues, usable),
        _kept(minimums, usable),
        _kept(pods, usable),
    )


def _format_of(table: Table, file: str) -> TraceFormat:
    """The format most of whose columns a table has; InputError where it lacks one of them."""
    form = min(FORMATS, key=lambda form: len(form.missing(table)) / len(form.columns))
    missing = form.missing(table)
    if len(missing) == len(form.columns):
        formats = "; ".join(f"{form.name}: {', '.join(form.columns)}" for form in FORMATS)
        raise InputError(f"the columns are those of no known trace ({formats})", file=file)
    if missing:
        needed = ", ".join(form.columns)
        raise InputError(f"columns {needed} are expected ({form.name}); {missing[0]} is missing", file=file)
    return form


def _kept(column: Sequence[Value], usable: Bools) -> list[Value]:
    """Selected values of a column; empty if the table does not have it."""
    if column:
        return [value for value, is_usable in zip(column, usable.tolist(), strict=True) if is_usable]
    return []


def _gpus(form: TraceFormat) -> Callable[[str], float]:
    """A number of GPUs, which may be none in a log."""
    if form.log:
        return lambda text: form.count(text or "0")
    return _whole


def _amount(text: str) -> float:
    """A number that is not negative; nothing is 0."""
    value = float(text or 0)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _end(text: str) -> float:
    """A moment; not a number where there was none yet."""
    if text in ("", "0", "Unknown", "None"):
        return float("nan")
    return _moment(text)


def _word(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _seconds(text: str) -> float:
    if text == _SERVICE:
        return float("inf")
    value = duration_of(text) if text[-1:].isalpha() else float(text)
    if value is None or not 0 < value < float("inf"):
        raise ValueError
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _moment(text: str) -> float:
    """Seconds since the epoch, or a time; without a zone it is UTC."""
    if text.replace(".", "", 1).isdigit():
        return float(text)
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


_EXPECTED: Final[Mapping[Callable[[str], object], str]] = {
    _moment: "a time, in seconds (1700000000) or as 2024-05-01T12:00:00Z,",
    _end: "a time, in seconds (1700000000) or as 2024-05-01T12:00:00Z,",
    _seconds: f"a duration, in seconds or as 1h30m, or the word {_SERVICE}",
    _amount: "a number that is not negative",
    _whole: "a whole number above 0",
    _word: "a name",
}
"""What the readers of columns take, for people whose file has something else."""
