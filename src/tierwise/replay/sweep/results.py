"""What is kept of a sweep: a file of JSON lines, one for each cell as it ends, below a line that names the grid.

A sweep that was stopped goes on where it ended: cells whose line is there are not run again, those that failed are. The
results of another grid are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from tierwise.api.errors import InputError
from tierwise.replay.report.table import shown_figures
from tierwise.replay.spec import ReplayResult, ReplaySpec, replay
from tierwise.replay.sweep.grid import Cell, Grid

__all__ = ["CellResult", "ResultFile", "answer", "digest"]


class CellResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of a cell by their titles, and one word for all of its result; or why it failed."""

    figures: dict[str, float | None] = {}
    digest: str = ""
    error: str = ""


class _Line(msgspec.Struct, frozen=True):
    cell: int
    names: dict[str, str]
    result: CellResult
    spec: ReplaySpec | None = None  # of one that failed


class _Head(msgspec.Struct, frozen=True):
    grid: str
    cells: int


def answer(spec: ReplaySpec) -> CellResult:
    """Replay a cell: what workers call. What it raises is its answer, so that the rest goes on."""
    try:
        found = replay(spec)
    except Exception as error:  # noqa: BLE001 - one cell must not stop the others
        return CellResult(error=f"{type(error).__name__}: {error}")
    return CellResult(_figures(found), hashlib.sha256(msgspec.json.encode(found, order="sorted")).hexdigest())


def _figures(found: ReplayResult) -> dict[str, float | None]:
    """Of the one profile of a cell."""
    outcome: dict[str, Any] = found.outcomes[0]
    return {figure.title: figure.read(outcome) for figure in shown_figures([outcome])}


class ResultFile:
    """The lines of a sweep, read and appended to."""

    def __init__(self, path: Path, grid: Grid) -> None:
        """InputError where the file holds something else."""
        self.path, self._head = path, _Head(grid.digest, len(grid))
        self.done: set[int] = set()
        whole = 0
        for line, length in self._lines():
            whole += length
            self.done -= {line.cell}
            self.done |= set() if line.result.error else {line.cell}
        if path.exists() and path.stat().st_size:
            with path.open("r+b") as file:  # a line that was cut off when the sweep was stopped goes
                file.truncate(whole + len(self._first()))

    def _first(self) -> bytes:
        return msgspec.json.encode(self._head) + b"\n"

    def _lines(self) -> Iterator[tuple[_Line, int]]:
        """Whole lines and their lengths."""
        if not self.path.exists() or not self.path.stat().st_size:
            return
        with self.path.open("rb") as file:
            if file.readline() != self._first():
                raise InputError("holds the results of another grid, or something else", file=str(self.path))
            for number, text in enumerate(file, start=2):
                if not text.endswith(b"\n"):
                    return
                try:
                    yield msgspec.json.decode(text, type=_Line), len(text)
                except msgspec.MsgspecError as error:
                    raise InputError(str(error), file=f"{self.path}:{number}") from None

    def opened(self) -> IO[bytes]:
        """The file, to append to."""
        file = self.path.open("ab")
        if not file.tell():
            file.write(self._first())
        return file

    def results(self) -> dict[int, CellResult]:
        """By cell; the last line of a cell counts."""
        return {line.cell: line.result for line, _ in self._lines()}

    @staticmethod
    def write(file: IO[bytes], cell: Cell, result: CellResult) -> None:
        """Add a line."""
        file.write(msgspec.json.encode(_Line(cell.number, cell.names, result, cell.spec if result.error else None)))
        file.write(b"\n")
        file.flush()


def digest(results: dict[int, CellResult]) -> str:
    """One word for all results, whoever ran them in whatever order."""
    told = [[number, result.digest or result.error] for number, result in sorted(results.items())]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()
