"""`tierwise sweep`: a grid of replays on all cores or on a cluster, with what may be concluded from it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tierwise.api.errors import InputError
from tierwise.api.plurals import count
from tierwise.cli.options import Format, option, verb
from tierwise.cli.progress import show_progress
from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.tables import Cell, TableColumn, table
from tierwise_lab.replay.sweep.engines import Workers, engine, run
from tierwise_lab.replay.sweep.grid import Grid, read_grid
from tierwise_lab.replay.sweep.picture import drawing
from tierwise_lab.replay.sweep.report import by_setting_text, comparison_rows, html_text, write_csv
from tierwise_lab.replay.sweep.results import CellResult, ResultFile, digest
from tierwise_lab.replay.sweep.statistics import FEW_SEEDS, NO_DIFFERENCE, Difference, compared, pairs

__all__ = ["sweep"]

_STOPPED = 130
_FAILED = 5
"""So many cells that failed are told one by one."""


@verb(
    """
  tierwise sweep -f sweep.yaml
  tierwise sweep -f sweep.yaml -j 8 --results cells.jsonl --html report.html --csv cells.csv
  tierwise sweep -f sweep.yaml --engine dask://scheduler:8786
""",
    decides=True,
)
def sweep(
    *,
    filename: Path | None = option("-f --filename FILE", "The grid: axes, what all cells share, and the baseline."),
    jobs: int = option("-j --jobs", "Processes of this machine.  [default: one for each core]", default=0, least=0),
    engine_name: str | None = option(
        "--engine URL", "Instead, a cluster: dask://HOST:PORT, ray://HOST:PORT, or ray://local."
    ),
    results: Path | None = option(
        "--results FILE", "Keep every cell here as it ends; a sweep that was stopped goes on from it."
    ),
    html: Path | None = option("--html FILE", "Write a report with heat maps and fronts, one file."),
    png: Path | None = option("--png FILE", "Write its heat maps and fronts as a picture (needs matplotlib)."),
    csv: Path | None = option("--csv FILE", "Write all figures of all cells."),
    output: Format,
) -> None:
    """Replay a grid of settings, each cell as `tierwise simulate` would, and compare profiles with a baseline.

    Cells run side by side; the same grid gives the same digest on every engine. Ctrl-C stops; with --results the same
    command goes on. The exit status is 1 where a cell failed.
    """
    if filename is None:
        raise InputError("a sweep needs a grid: tierwise sweep -f GRID (docs/guides/sweeps.md has one to begin with)")
    grid = _read(filename)
    for path in filter(None, (results, html, png, csv)):
        if not path.parent.is_dir():  # told now, not when everything has run
            raise InputError("its folder does not exist", file=str(path))
    ctx = click.get_current_context()
    draw = drawing() if png is not None else None  # what is missing is told before anything runs
    with TemporaryDirectory() as folder, closing(ResultFile(results or Path(folder, "cells"), grid)) as file:
        try:
            _run(grid, file, engine(engine_name, jobs or os.cpu_count() or 1))
        except KeyboardInterrupt:
            then = f"the same command goes on from {results}" if results else "with --results it could go on"
            click.echo(f"tierwise: stopped after {count(len(file.done), 'cell')} of {len(grid):,}; {then}", err=True)
            ctx.exit(_STOPPED)
        if csv is not None:
            with csv.open("w", encoding="utf-8", newline="") as lines:
                write_csv(lines, grid, file)
    found = file.found
    differences = []
    for pair in pairs(grid, found):
        differences.extend(compared(pair))
    words = ["tierwise", "sweep", "-f", str(filename)]
    if html is not None:
        html.write_text(html_text(grid, found, shlex.join(words)), encoding="utf-8")
    if draw is not None and png is not None:
        draw(grid, found, png)
    output.show(lambda: _wire(grid, found, differences), lambda page: _lines(page, grid, found, differences))
    if any(result.error for result in found.values()):
        ctx.exit(1)


def _read(file: Path) -> Grid:
    """The grid of a file; InputError where it cannot be read."""
    try:
        return read_grid(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(file)) from None


def _run(grid: Grid, file: ResultFile, workers: Workers) -> None:
    """Run the cells that are left, and keep each as it ends."""
    cells_left = (cell for cell in grid if cell.number not in file.done)
    with show_progress("cells", len(grid)) as progress:
        for cell, result in run(workers, cells_left):
            file.add(cell, result)
            progress(len(file.found))


def _wire(grid: Grid, results: Mapping[int, CellResult], differences: Sequence[Difference]) -> dict[str, object]:
    import msgspec

    return {
        "grid": grid.digest,
        "cells": len(grid),
        "failed": sorted(number for number, result in results.items() if result.error),
        "digest": digest(dict(results)),
        "baseline": grid.baseline,
        "differences": msgspec.to_builtins(list(differences)),
    }


def _lines(page: Page, grid: Grid, results: Mapping[int, CellResult], differences: Sequence[Difference]) -> list[Text]:
    """Lines that compare each profile with the baseline, and list failures."""
    head = f"{count(len(results), 'cell')} over {', '.join(grid.axes)}; digest {digest(dict(results))}"
    text_lines = list(wrapped(Text(head), page.width))
    for profile in dict.fromkeys(difference.profile for difference in differences):
        own_differences = [difference for difference in differences if difference.profile == profile]
        title = f"{profile} beside {grid.baseline}: {count(own_differences[0].pairs, 'pair')}, 95 % intervals"
        title += (
            f"; {FEW_SEEDS}, so no verdict"
            if any(difference.verdict == FEW_SEEDS for difference in own_differences)
            else ""
        )
        columns = (TableColumn("", least=16), TableColumn(grid.baseline, right=True), TableColumn(profile))
        rows: list[Sequence[Cell]] = [
            (*row, "-" if verdict in (NO_DIFFERENCE, FEW_SEEDS) else verdict)
            for *row, verdict in comparison_rows(own_differences)
        ]
        text_lines += [Text(), *wrapped(Text(title, style="bold"), page.width), Text()]
        text_lines += table(page, (*columns, TableColumn("shown")), rows)
        for setting_text in by_setting_text(grid, results, own_differences):
            text_lines += [Text(), *wrapped(Text(setting_text), page.width)]
    failed = {number: result.error for number, result in results.items() if result.error}
    if failed:
        return text_lines + _failures(page, grid, failed)
    return text_lines


def _failures(page: Page, grid: Grid, failed: Mapping[int, str]) -> list[Text]:
    """The lines about the failed cells: how many there are, the first ones with their errors, and how many more. failed
    maps the number of a cell to its error and must not be empty.
    """
    text_lines = [Text(), Text(f"{count(len(failed), 'cell')} failed:", style="bold")]
    shown_cells = [cell for cell in grid if cell.number in failed][:_FAILED]
    for cell in shown_cells:
        error = f"cell {cell.number} ({', '.join(cell.names.values())}): {failed[cell.number]}"
        text_lines += wrapped(Text(error), page.width, first="  ", rest="    ")
    if len(failed) > len(shown_cells):
        text_lines.append(Text(f"  and {len(failed) - len(shown_cells):,} more"))
    return text_lines
