"""The journal of a running scheduler: what each cycle saw and decided, bounded in size, so that it can be repeated.

A journal is a folder of segments, `journal-NUMBER.jsonl.gz`, each named after its first cycle. A segment begins with
the profiles and with all objects; then each cycle has a line with its time, the objects that changed since the line
before, and its decisions. So any segment can be read by itself, and the oldest are deleted when the folder becomes too
large.

`JournalWriter` observes the loop; what it cannot write stops the journal, never the loop. `Journal` reads: a
`JournalCursor` goes from cycle to cycle at the price of what changed between them, and `repeat` gives a cycle the same
objects and time, and compares what it decides byte by byte. Of objects a journal holds what scheduling reads
(`journal_fields`), and it belongs to its writer alone: files are 0600, folders 0700.

Whatever is in a folder, reading ends: any beginning of a segment is read as far as its last whole line, and all
else that no writer has written is refused with the segment's name.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import re
import zlib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tierwise import __version__
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import PluginChoice, Profile
from tierwise.config.scheduler_profile import read_own, written
from tierwise.explain.message import message
from tierwise.framework.report import CycleReport
from tierwise.framework.solver import solver_version
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import NO_TURNS, Turns
from tierwise.plugins import PLUGINS
from tierwise.port import Effect, Key, Objects
from tierwise.runtime.journal_fields import recorded
from tierwise.runtime.private_file import private_file
from tierwise.runtime.profile_run import LoopPass, SchedulerProfile
from tierwise.runtime.refused_gangs import paused_reason
from tierwise.scheduler import check_profile, cycle
from tierwise.scheduler.effects import effects
from tierwise.scheduler.guard import Crash
from tierwise.snapshot.builder import Reader
from tierwise.snapshot.usage import UNREADABLE_USAGE, spelled_usage, usage_of

__all__ = [
    "CycleSummary",
    "Journal",
    "JournalCursor",
    "JournalStep",
    "JournalWriter",
    "RecordedCycle",
    "Repetition",
    "repeat",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

_FORMAT: Final = 2
_BEFORE: Final = 1
"""Profiles had other names of fields then."""
_NAME: Final = re.compile(r"journal-(\d{8,})\.jsonl\.gz")
_CHUNK: Final = 1000
"""Objects on one line at the beginning of a segment."""
_PARTS: Final = 4
"""Segments that a full journal has, about: the oldest part goes when the folder is too large."""
_LEVEL: Final = 3
"""Compression: the loop waits for it."""

_RATIO: Final = 60
_SPARED: Final = 64 << 20
"""How many times its own size, and how many bytes besides, a segment may unpack to. Journals come to about 25 times."""

_LINE: Final = 256 << 20
"""The longest line: a cycle before which everything has changed, on the largest cluster."""

_HEAD: Final = 10
"""Bytes with which every compressed file begins."""

_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What reading bytes that are no JSON, or not of the type that is expected, raises."""


# What is written.


class _WrittenProfile(msgspec.Struct, frozen=True):
    schedulers: tuple[str, ...]
    profile: msgspec.Raw


class _Header(msgspec.Struct, frozen=True):
    version: str
    format: int
    first: int
    profiles: tuple[_WrittenProfile, ...] = msgspec.field(name="duties")
    solver: str = ""  # "" where a version wrote it that did not say


class _Put(msgspec.Struct, frozen=True, array_like=True):
    group: str
    kind: str
    path: str  # namespace/name, or the name
    raw: msgspec.Raw


_Path = tuple[str, str, str]
"""Group, kind and path of an object."""


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Time = Annotated[float, msgspec.Meta(ge=-62_135_596_800.0, le=253_402_300_799.0)]
"""Seconds since the epoch that can be written as a date."""


class _Cycle(msgspec.Struct, frozen=True, omit_defaults=True):
    cycle: _Count
    now: _Time
    profile: _Count = msgspec.field(name="duty", default=0)
    puts: tuple[_Put, ...] = ()
    deletes: tuple[_Path, ...] = ()
    decided: msgspec.Raw = msgspec.Raw(b"{}")
    paused: dict[str, str] = {}  # jobs that were left alone because their binds were refused, and in which words
    usage: str = ""  # what everybody had used before it, as it is written down; "" where nobody remembers it


def decided(snapshot: Snapshot, report: CycleReport) -> bytes:
    """Everything that a cycle decided, as bytes: equal decisions are equal bytes."""
    fields = {
        "effects": [_effect(effect) for effect in effects(snapshot, report)],
        "waiting": {
            key: [rejection.verdict.value, rejection.reason.code, message(rejection)]
            for key, rejection in report.rejections.items()
        },
        "phases": {key: phase.value for key, phase in report.phases.items()},
        "delays": report.delays,
    }
    return msgspec.json.encode(fields)


def _effect(effect: Effect) -> Raw:
    fields = {name: getattr(effect, name) for name in effect.__struct_fields__}
    arguments = {}
    for name, value in fields.items():
        if value:
            arguments[name] = str(value) if isinstance(value, Key) else value
    return {"effect": type(effect).__name__, **arguments}


def _put(objects: Objects, key: Key) -> _Put | None:
    """Recorded form of an object's current state; None if it is gone, or nothing of it is recorded."""
    raw = recorded(objects, key)
    if raw is None:
        return None
    return _Put(key.group, key.kind, key.path, msgspec.Raw(raw))


class JournalWriter:
    """Writes every cycle of a loop; an observer of it."""

    def __init__(self, folder: Path, size: int, profiles: tuple[SchedulerProfile, ...]) -> None:
        """The folder is made where it is missing; InputError where it cannot be used. `size` is in bytes."""
        self._folder = folder
        self._size = size
        self._profiles = profiles
        self._header = tuple(
            _WrittenProfile(
                tuple(sorted(profile.schedulers)), msgspec.Raw(msgspec.json.encode(written(profile.profile)))
            )
            for profile in profiles
        )
        try:
            for part in (*reversed(folder.parents), folder):
                part.mkdir(mode=0o700, exist_ok=True)
            segments = _segments(folder)
            self._number = _last_number(segments[-1]) + 1 if segments else 1
        except OSError as error:
            raise InputError(error.strerror or str(error), file=str(folder)) from None
        self._path: Path | None = None  # of the segment that is being written
        self._file: IO[bytes] | None = None
        self._out: gzip.GzipFile | None = None
        self._base = 0  # bytes of the objects at the beginning of the segment
        self._seen = Objects()
        self._stopped = False

    def crashed(self, crash: Crash) -> None:
        """Nothing: the objects of the next cycle show that the object is skipped."""

    def saw(self, iteration: LoopPass) -> None:
        """Write a cycle; what goes wrong ends the journal with a line in the log."""
        if self._stopped or iteration.objects is None:
            return
        try:
            self._write(iteration, iteration.objects)
        except OSError as error:
            self._stop(f"it cannot be written: {error.strerror or error}")

    def close(self) -> None:
        """End the segment in order; one that a full disk has cut short is read as far as it goes."""
        out = self._out
        file = self._file
        self._out = self._file = self._path = None
        for stream in (out, file):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _write(self, iteration: LoopPass, objects: Objects) -> None:
        if self._out is None or self._full():
            self._begin(objects)
            self._seen = objects
        if self._stopped:
            return
        puts, deletes = _changes(objects, self._seen)
        self._seen = objects
        profile = next(
            i for i, written_profile in enumerate(self._profiles) if written_profile.profile is iteration.profile
        )
        decision = msgspec.Raw(
            decided(iteration.snapshot, iteration.decided if iteration.decided is not None else iteration.report)
        )
        paused = {job: reason.text for job, reason in iteration.snapshot.paused.items()}
        usage = iteration.snapshot.turns.usage
        spelled = spelled_usage(usage) if usage.at else ""
        self._line(_Cycle(self._number, iteration.snapshot.now, profile, puts, deletes, decision, paused, spelled))
        assert self._out is not None
        self._out.flush(zlib.Z_SYNC_FLUSH)  # so that a journal whose writer was killed ends with a whole line
        self._trim(0)
        self._number += 1

    def _full(self) -> bool:
        """Whether a segment is long enough: a part of the journal, and no shorter than its own beginning."""
        assert self._file is not None
        return self._file.tell() >= min(max(self._size // _PARTS, 2 * self._base), self._size * 3 // 4)

    def _begin(self, objects: Objects) -> None:
        self.close()
        self._trim(self._base)
        self._path = self._folder / f"journal-{self._number:08}.jsonl.gz"
        self._file = private_file(self._path)  # one that is there holds no cycle that could be read
        self._out = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._file, mtime=0)
        self._line(_Header(__version__, _FORMAT, self._number, self._header, solver_version()))
        puts = (_put(objects, key) for key in objects)
        every = [put for put in puts if put is not None]
        for start in range(0, len(every), _CHUNK):
            self._line(tuple(every[start : start + _CHUNK]))
        self._line(())
        self._out.flush(zlib.Z_SYNC_FLUSH)
        self._base = self._file.tell()
        if self._base > self._size // 2:
            self._path.unlink(missing_ok=True)
            self._stop(
                f"the objects alone take {self._base} bytes, more than half of the {self._size} that it may have"
            )

    def _trim(self, coming: int) -> None:
        """Delete the oldest segments until the rest, and so many bytes to come, fit; what is being written stays."""
        sizes = {path: path.stat().st_size for path in _segments(self._folder)}
        for path in list(sizes):
            if sum(sizes.values()) + coming <= self._size or path == self._path:
                return
            path.unlink(missing_ok=True)
            del sizes[path]

    def _line(self, content: object) -> None:
        assert self._out is not None
        self._out.write(msgspec.json.encode(content) + b"\n")

    def _stop(self, why: str) -> None:
        log.error("the journal in %s ends: %s", self._folder, why)
        self._stopped = True
        self.close()


_kind_of = attrgetter("group", "kind")


def _changes(objects: Objects, since: Objects) -> tuple[tuple[_Put, ...], tuple[_Path, ...]]:
    """Objects that were put or deleted between two cycles, compared by identity."""
    puts: list[_Put] = []
    deletes: list[_Path] = []
    keys = [key for keys_of_kind in objects.changed_objects(since).values() for key in keys_of_kind]
    for key in sorted(keys, key=_kind_of):
        put = _put(objects, key)
        if put is not None:
            puts.append(put)
        elif _put(since, key) is not None:
            deletes.append((key.group, key.kind, key.path))
    return tuple(puts), tuple(deletes)


def _segments(folder: Path) -> list[Path]:
    """The segments of a journal, the oldest first."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def _last_number(segment: Path) -> int:
    """The number of the last cycle of a segment that can be read; of the one before its first where none can."""
    number = int(_NAME.fullmatch(segment.name)[1]) - 1  # type: ignore[index]
    with contextlib.suppress(InputError):
        for line in _lines(segment):
            if line.startswith(b'{"cycle"'):
                number = max(number, _decoded(line, _Number, segment).cycle)
    return number


class _Number(msgspec.Struct, frozen=True):
    cycle: _Count


# What is read.


class CycleSummary(msgspec.Struct, frozen=True):
    """A cycle without its objects: its number and time, and what was decided."""

    number: int
    now: float
    profile: int  # its place among those of the journal
    effects: tuple[Raw, ...]
    waiting: dict[str, tuple[str, str, str]]  # by job: verdict, code, message


class JournalStep(msgspec.Struct, frozen=True):
    """A cycle with the objects that changed before it."""

    cycle: CycleSummary
    puts: dict[Key, Raw]
    deletes: tuple[Key, ...]
    whole: bool  # whether `puts` are all objects that there are: the first cycle of a segment


class RecordedCycle(msgspec.Struct, frozen=True):
    """All that a cycle saw, and what it decided, as bytes."""

    number: int
    now: float
    objects: Objects
    scheduler: SchedulerProfile
    decided: bytes
    version: str  # of tierwise, which wrote it
    solver: str  # the one it had, and its version; "" where it did not say
    paused: dict[str, str] = {}
    usage: str = ""

    @property
    def turns(self) -> Turns:
        """State that the cycle before it had left."""
        if not self.usage:
            return NO_TURNS
        try:
            return Turns(usage=usage_of(self.usage))
        except UNREADABLE_USAGE:
            raise InputError(f"is no journal: the usage before cycle {self.number} cannot be read") from None


class Repetition(msgspec.Struct, frozen=True):
    """A cycle run again."""

    snapshot: Snapshot
    report: CycleReport
    decided: bytes
    same: bool


def repeat(recorded: RecordedCycle) -> Repetition:
    """Run a recorded cycle again: the same objects, the same time, the same profile."""
    reader = Reader(recorded.scheduler.profile, schedulers=recorded.scheduler.schedulers)
    snapshot = reader.read(recorded.objects, recorded.now, recorded.turns)
    paused = {job: paused_reason(text) for job, text in recorded.paused.items()}
    snapshot = replace(snapshot, paused=paused) if paused else snapshot
    report = cycle(snapshot, recorded.scheduler.profile)
    decided_again = decided(snapshot, report)
    return Repetition(snapshot, report, decided_again, decided_again == recorded.decided)


class Journal:
    """A folder that a scheduler has written to, and may still be writing to."""

    def __init__(self, folder: Path) -> None:
        """InputError where it is no journal."""
        try:
            self._segments = _segments(folder)
        except OSError as error:
            raise InputError(error.strerror or str(error), file=str(folder)) from None
        self._folder = folder
        if not self._segments:
            raise InputError("holds no journal: no file in it is called journal-NUMBER.jsonl.gz", file=str(folder))

    def cycles(self) -> Iterator[CycleSummary]:
        """Every cycle, the oldest first."""
        for segment in self._segments:
            for line in _lines(segment):
                if line.startswith(b'{"cycle"'):
                    yield _summary(_decoded(line, _Cycle, segment), segment)

    def steps(self) -> Iterator[JournalStep]:
        """Every cycle with what changed before it, the oldest first."""
        for segment in self._segments:
            begun: dict[Key, Raw] = {}
            complete = True
            for line in _lines(segment):
                if line.startswith(b"["):
                    begun |= {_key(put): _manifest(put, segment) for put in _decoded(line, tuple[_Put, ...], segment)}
                elif line.startswith(b'{"cycle"'):
                    cycle_line = _decoded(line, _Cycle, segment)
                    puts = {**begun, **{_key(put): _manifest(put, segment) for put in cycle_line.puts}}
                    gone = tuple(Key.at(*path) for path in cycle_line.deletes)
                    yield JournalStep(_summary(cycle_line, segment), puts, gone, complete)
                    begun = {}
                    complete = False

    def cycle(self, number: int) -> RecordedCycle:
        """One cycle with all that it saw; InputError where the journal does not have it."""
        return JournalCursor(self).cycle(number)

    def segment_of(self, number: int) -> Path:
        """The segment that a cycle is in, if it is in any; InputError where all are later."""
        firsts = [int(_NAME.fullmatch(path.name)[1]) for path in self._segments]  # type: ignore[index]
        earlier = [path for path, first_number in zip(self._segments, firsts, strict=True) if first_number <= number]
        if not earlier:
            raise self.missing(number)
        return earlier[-1]

    def missing(self, number: int) -> InputError:
        """Error for a cycle that is not recorded, with the oldest one that is."""
        oldest = int(_NAME.fullmatch(self._segments[0].name)[1])  # type: ignore[index]
        return InputError(f"there is no cycle {number}; the oldest is {oldest}", file=str(self._folder))

    def size(self) -> tuple[tuple[str, int], ...]:
        """The segments that there are now, with their bytes: what tells one state of the folder from another."""
        return tuple((path.name, path.stat().st_size) for path in _segments(self._folder))

    def at(self, time: float) -> int:
        """The number of the last cycle that was not after a time; InputError where all were."""
        numbers = [cycle.number for cycle in self.cycles() if cycle.now <= time]
        if not numbers:
            raise InputError("there is no cycle at that time or before", file=str(self._folder))
        return numbers[-1]


class JournalCursor:
    """Reads one cycle after the other. A later cycle of the same segment costs what changed since the last one that was
    read; an earlier one, or one of another segment, is read from the beginning of its segment.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._segment: Path | None = None
        self._lines: Iterator[bytes] = iter(())
        self._header: _Header | None = None
        self._profiles: dict[bytes, SchedulerProfile] = {}
        self._objects = Objects()
        self._last: RecordedCycle | None = None

    def cycle(self, number: int) -> RecordedCycle:
        """One cycle with all that it saw; InputError where the journal does not have it."""
        if self._last is not None and self._last.number == number:
            return self._last
        segment = self._journal.segment_of(number)
        recorded = None
        if segment == self._segment and self._last is not None and self._last.number < number:
            recorded = self._read(segment, number)
        if recorded is None:  # also where a segment has grown since its end was read
            self._open(segment)
            recorded = self._read(segment, number)
        self._last = recorded
        if recorded is None:
            raise self._journal.missing(number)
        return recorded

    def _open(self, segment: Path) -> None:
        self._segment, self._last, self._objects = segment, None, Objects()
        self._lines = _lines(segment)
        self._header = None
        first_line = next(self._lines, None)
        if first_line is None:
            return  # cut short before its first line was whole
        header = _decoded(first_line, _Header, segment)
        if header.format not in (_BEFORE, _FORMAT):
            text = f"is of format {header.format}, and this version reads {_BEFORE} and {_FORMAT}"
            raise InputError(text, file=str(segment))
        self._header = header

    def _read(self, segment: Path, number: int) -> RecordedCycle | None:
        """Go on to a cycle of the segment that is open; None where it ends before."""
        if self._header is None:
            return None
        changes: dict[_Path, _Put | None] = {}  # what has changed on the way, None where it is gone
        for line in self._lines:
            if line.startswith(b"["):
                changes |= {(put.group, put.kind, put.path): put for put in _decoded(line, tuple[_Put, ...], segment)}
                continue
            cycle = _decoded(line, _Cycle, segment)
            changes |= {(put.group, put.kind, put.path): put for put in cycle.puts}
            changes |= dict.fromkeys(cycle.deletes)
            if cycle.cycle == number:
                self._objects = self._followed(changes, segment)
                if cycle.profile >= len(self._header.profiles):
                    raise InputError(f"is no journal: cycle {number} names no profile of its own", file=str(segment))
                return RecordedCycle(
                    number=number,
                    now=cycle.now,
                    objects=self._objects,
                    scheduler=self._scheduler(self._header.profiles[cycle.profile], segment),
                    decided=bytes(cycle.decided),
                    version=self._header.version,
                    solver=self._header.solver,
                    paused=cycle.paused,
                    usage=cycle.usage,
                )
        return None

    def _followed(self, changes: dict[_Path, _Put | None], segment: Path) -> Objects:
        """The objects after what has changed on the way."""
        try:
            return self._objects.changed(
                {_key(put): _manifest(put, segment) for put in changes.values() if put is not None},
                [Key.at(*path) for path, put in changes.items() if put is None],
            )
        except InputError as error:
            raise error if error.file else error.inside(file=str(segment)) from None

    def _scheduler(self, written: _WrittenProfile, segment: Path) -> SchedulerProfile:
        """Equal profiles are one object, so that a reader of snapshots keeps what it knows."""
        content = msgspec.json.encode(written)
        if content not in self._profiles:
            raw = _decoded(bytes(written.profile), Raw, segment)
            profile = check_profile(_profile(raw, segment), str(segment))
            self._profiles[content] = SchedulerProfile(frozenset(written.schedulers), profile)
        return self._profiles[content]


def _profile(raw: Raw, segment: Path) -> Profile:
    """A profile as it was written; without a kind it is of the format before."""
    if "kind" in raw:
        try:
            return read_own(raw, PLUGINS.offers)
        except InputError as error:
            raise error.inside(file=str(segment)) from None
    tiers = [
        [_renamed(choice, PluginChoice) for choice in tier]
        for tier in _decoded(msgspec.json.encode(raw.get("tiers")), list[list[Raw]], segment)
    ]
    return _decoded(msgspec.json.encode({**_renamed(raw, Profile), "tiers": tiers}), Profile, segment)


def _renamed(raw: Raw, kind: type[msgspec.Struct]) -> Raw:
    """Fields under their names of today."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return {names.get(name, name): value for name, value in raw.items()}


def _key(put: _Put) -> Key:
    return Key.at(put.group, put.kind, put.path)


def _manifest(put: _Put, segment: Path) -> Raw:
    raw = _decoded(bytes(put.raw), Raw, segment)
    if "apiVersion" in raw:
        return raw
    if (put.group, put.kind) not in codec.KINDS:
        raise InputError(
            f"is no journal: no writer writes the kind {put.kind[:60]!r} without its version", file=str(segment)
        )
    version = codec.version_of(put.group, put.kind)
    return {"apiVersion": f"{put.group}/{version}" if put.group else version, "kind": put.kind, **raw}


def _summary(cycle: _Cycle, segment: Path) -> CycleSummary:
    decided_fields = _decoded(bytes(cycle.decided), _Decided, segment)
    if any("effect" not in effect for effect in decided_fields.effects):
        raise InputError(f"is no journal: an effect of cycle {cycle.cycle} does not say what it is", file=str(segment))
    return CycleSummary(cycle.cycle, cycle.now, cycle.profile, decided_fields.effects, decided_fields.waiting)


class _Decided(msgspec.Struct, frozen=True):
    effects: tuple[Raw, ...] = ()
    waiting: dict[str, tuple[str, str, str]] = {}


def _lines(segment: Path) -> Iterator[bytes]:
    """The whole lines of a segment; one that is still being written, or whose writer was killed, ends early."""
    try:
        with segment.open("rb") as packed:
            size = os.fstat(packed.fileno()).st_size
            if size < _HEAD:
                return
            bytes_left = _SPARED + _RATIO * size
            with gzip.open(packed, "rb") as file:
                while line := file.readline(min(bytes_left, _LINE) + 1):
                    bytes_left -= len(line)
                    if bytes_left < 0 or len(line) > _LINE:
                        text = f"unpacks to more than {_RATIO} times its size, or to a line without end"
                        raise InputError(f"is no journal: it {text}", file=str(segment))
                    if line.endswith(b"\n"):
                        yield line
    except EOFError:
        return
    except (OSError, zlib.error) as error:
        raise InputError(f"cannot be read: {error}", file=str(segment)) from None


def _decoded(line: bytes, kind: type[T], segment: Path) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except _UNREADABLE as error:
        raise InputError(f"is no journal: {error}", file=str(segment)) from None
