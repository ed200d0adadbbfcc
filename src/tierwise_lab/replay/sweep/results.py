"""What is kept of a sweep: a file of JSON lines, one for each cell as it ends, below a line that names the grid.

A sweep that was stopped goes on where it ended: cells whose line is there are not run again, those that failed are. The
results of another grid are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from os import SEEK_END
from pathlib import Path
from typing import Any

import msgspec

from tierwise.api.errors import InputError
from tierwise_lab.replay.report.table import COMPARED, FIGURE
from tierwise_lab.replay.spec import ReplayResult, ReplaySpec, replay
from tierwise_lab.replay.sweep.grid import Cell, Grid

__all__ = ["CellResult", "ResultFile", "answer", "digest"]


class CellResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of a cell by their keys, and one word for all of its result; or why it failed."""

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
    format: int = 2


def answer(spec: ReplaySpec) -> CellResult:
    """Replay a cell: what workers call. What it raises is its answer, so that the rest goes on."""
    try:
        result = replay(spec)
    except InputError as error:
        return CellResult(error=str(error))
    except Exception as error:  # noqa: BLE001 - one cell must not stop the others
        return CellResult(error=f"{type(error).__name__}: {error}")
    return CellResult(_figures(result), hashlib.sha256(msgspec.json.encode(result, order="sorted")).hexdigest())


def _figures(result: ReplayResult) -> dict[str, float | None]:
    """Of the one profile of a cell."""
    outcome: dict[str, Any] = result.outcomes[0]
    return {key: figure.read(outcome) for key, figure in FIGURE.items()}


class ResultFile:
    """The lines of a sweep, read and appended to. Of each cell no more is held than what profiles are compared by."""

    def __init__(self, path: Path, grid: Grid) -> None:
        """InputError where the file holds something else."""
        self.path, self._head = path, msgspec.json.encode(_Head(grid.digest, len(grid))) + b"\n"
        self.found: dict[int, CellResult] = {}  # by cell; the last line of a cell counts
        self.done: set[int] = set()  # those that have not failed
        self._places: dict[int, int] = {}  # where the last line of a cell begins
        end = 0
        for line, place, length in self._lines():
            self._note(line.cell, line.result, place)
            end = place + length
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(end or len(self._head))  # a line that was cut off when the sweep was stopped goes
        if not end:
            self._file.write(self._head)
            self._file.flush()

    def _lines(self) -> Iterator[tuple[_Line, int, int]]:
        """Whole lines, where each begins, and their lengths."""
        if not self.path.exists() or not self.path.stat().st_size:
            return
        with self.path.open("rb") as file:
            if file.readline() != self._head:
                raise InputError("holds the results of another grid, or something else", file=str(self.path))
            place = len(self._head)
            for number, text in enumerate(file, start=2):
                if not text.endswith(b"\n"):
                    return
                try:
                    yield msgspec.json.decode(text, type=_Line), place, len(text)
                except msgspec.MsgspecError as error:
                    raise InputError(str(error), file=f"{self.path}:{number}") from None
                place += len(text)

    def _note(self, number: int, result: CellResult, place: int) -> None:
        compared = {figure.key: result.figures.get(figure.key) for figure in COMPARED}
        self.found[number] = CellResult({} if result.error else compared, result.digest, result.error)
        self._places[number] = place
        (self.done.discard if result.error else self.done.add)(number)

    def add(self, cell: Cell, result: CellResult) -> None:
        """Write the line of a cell."""
        place = self._file.seek(0, SEEK_END)
        line = _Line(cell.number, cell.names, result, cell.spec if result.error else None)
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        self._note(cell.number, result, place)

    def whole(self, number: int) -> CellResult | None:
        """All that is kept of a cell; None where it has not run."""
        if number not in self._places:
            return None
        self._file.seek(self._places[number])
        return msgspec.json.decode(self._file.readline(), type=_Line).result

    def close(self) -> None:
        self._file.close()


def digest(results: dict[int, CellResult]) -> str:
    """One word for all results, whoever ran them in whatever order."""
    digests = [[number, result.digest or result.error] for number, result in sorted(results.items())]
    return hashlib.sha256(msgspec.json.encode(digests)).hexdigest()
