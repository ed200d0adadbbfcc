"""Sweeps: grids, engines that give the same, what is kept of them, and what may be concluded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.commands import run as command

from tierwise.api.errors import InputError
from tierwise.replay.spec import ReplaySpec
from tierwise.replay.spec import command as alone
from tierwise.replay.sweep.engines import Serial, WorkerLostError, engine, run
from tierwise.replay.sweep.grid import Grid, read_grid
from tierwise.replay.sweep.results import CellResult, ResultFile, answer, digest
from tierwise.replay.sweep.statistics import SHOWN, Pairs, compared, compared_by_setting, holm, p_of_t

SMALL = b"""
axes:
  topology: {two: "synthetic:spines=1,leaves=2,hosts=2"}
  profile: [default, tree]
  seed: [1, 2]
base: {trace: "synthetic:jobs=8,largest=16", load: 0.9}
baseline: tree
"""


@pytest.fixture
def grid() -> Grid:
    """Four cells."""
    return read_grid(SMALL, "grid.yaml")


def results_of(grid: Grid, workers: Any) -> dict[int, CellResult]:
    """What workers make of a grid."""
    return {cell.number: result for cell, result in run(workers, grid)}


# The grid


def test_a_cell_is_a_combination_of_values(grid: Grid) -> None:
    """With the names of its values, and a record that is a command of its own."""
    cells = list(grid)

    assert len(grid) == len(cells) == 4
    assert {"topology": "two", "profile": "tree", "seed": "1"} == cells[2].names
    assert alone(cells[2].spec) == (
        "tierwise simulate --topology synthetic:spines=1,leaves=2,hosts=2 --trace synthetic:jobs=8,largest=16 "
        "--profile tree --load 0.9"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes: {colour: [red]}", "axes.colour: no setting of a replay; known are topology, trace, profile"),
        ("axes: {load: [0.5]}\nbase: {tracks: x}", "base.tracks: no setting of a replay"),
        ("axes: {load: []}", "axes.load: a list of values is expected"),
        ("axes: {load: [1, 1]}", "axes.load: a value is given twice"),
        ("axes: {load: [-1]}\nbase: {topology: x, trace: y}", "axes: Expected `float` > 0.0 - at `$.load`"),
        ("axes: {profile: [tree]}\nbase: {topology: x, trace: y}\nbaseline: best", "baseline: best is none of the"),
        ("axes: {seed: [1]}\nbase: {topology: x, trace: y}\nrows: 2", "rows: is not a field of a grid"),
        ("topology: x", "axes: a grid has axes"),
        ("axes: {seed: [1]}\nbase: {topology: x, trace: y, profile: [tree, slurm]}", "profile: a cell has one profile"),
    ],
)  # fmt: skip
def test_a_wrong_grid_is_told_in_a_line(text: str, said: str, tmp_path: Path) -> None:
    """File and field, and exit status 2."""
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    told = command("sweep", "-f", file)

    assert 2 == told.exit_code
    assert f"{file}: {said}" in told.stderr
    assert 1 == told.stderr.count("\n")


def test_a_large_grid_is_made_as_it_is_needed() -> None:
    """The first of a million cells comes without the others."""
    many = ", ".join(map(str, range(1000)))
    text = f"axes: {{seed: [{many}], look-ahead: [{many.removeprefix('0, ')}]}}\nbase: {{topology: x, trace: y}}"
    grid = read_grid(text.encode(), "grid.yaml")

    assert 999_000 == len(grid)
    assert 1 == next(iter(grid)).spec.look_ahead


# Engines


def test_processes_and_a_cluster_give_the_same_digest(grid: Grid) -> None:
    """The results do not depend on who computes them, or in which order."""
    expected = digest(results_of(grid, Serial()))

    assert expected == digest(results_of(grid, engine(None, 2)))


def test_dask_gives_the_same_digest(grid: Grid) -> None:
    """Two workers of a cluster of their own."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")

        assert digest(results_of(grid, Serial())) == digest(results_of(grid, engine(f"dask://{address}", 1)))


class Losing(Serial):
    """A worker that goes away as often as it is told, with the first cell of each kind."""

    def __init__(self, losses: int) -> None:
        self.losses = losses

    def result(self, handle: Any) -> CellResult:
        if handle[0].seed == 2 and self.losses:
            self.losses -= 1
            raise WorkerLostError
        return answer(handle[0])


def test_a_lost_worker_costs_its_cells_again(grid: Grid) -> None:
    """And nothing else: the results are those of a calm run."""
    assert digest(results_of(grid, Serial())) == digest(results_of(grid, Losing(2)))


def test_a_cell_that_always_loses_its_worker_has_failed(grid: Grid) -> None:
    """The others have their results."""
    found = results_of(grid, Losing(99))

    assert {1: "its worker was lost 3 times", 3: "its worker was lost 3 times"} == {
        number: result.error for number, result in found.items() if result.error
    }


class Breaking(Serial):
    """A pool that breaks with all that it has while one cell is in it."""

    width = 2

    def ended(self, handles: list[Any]) -> list[Any]:
        self.broken = any(handle[0].seed == 2 and handle[0].profile == ("default",) for handle in handles)
        return list(handles)

    def result(self, handle: Any) -> CellResult:
        if self.broken:
            raise WorkerLostError
        return answer(handle[0])


def test_a_cell_that_breaks_its_pool_takes_no_other_with_it(grid: Grid) -> None:
    """Its neighbours are run again without it, and have their results."""
    found = results_of(grid, Breaking())

    assert [1] == [number for number, result in sorted(found.items()) if result.error]
    assert 4 == len(found)


@pytest.mark.parametrize(
    ("name", "said"),
    [("spark://here", "is not dask://HOST:PORT or ray://HOST:PORT"), ("dask://", "is not dask://HOST:PORT")],
)
def test_an_unknown_engine_is_bad_input(name: str, said: str) -> None:
    """With those that there are."""
    with pytest.raises(InputError, match=said):
        engine(name, 1)


def test_nodes_with_shared_gpus_are_no_fabric(tmp_path: Path) -> None:
    """Their amounts are not taken for switches."""
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,8000,4096,2,A\n")
    found = answer(ReplaySpec(topology=str(tmp_path / "nodes.csv"), trace="synthetic:jobs=3"))

    assert "nodes whose GPUs are shared are for `tierwise simulate` alone" in found.error


# What is kept


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    """Cells that are kept are not run again, a line that was cut off is; the answer is that of a whole run."""
    file, kept = tmp_path / "grid.yaml", tmp_path / "cells.jsonl"
    file.write_bytes(SMALL)
    words = ("sweep", "-f", file, "-j", 1, "-o", "json", "--results", kept)
    whole = json.loads(command(*words).stdout)
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:3]) + lines[3][:20])

    assert whole == json.loads(command(*words).stdout)
    assert lines[:3] == kept.read_bytes().splitlines(keepends=True)[:3]
    kept.write_bytes(lines[0] + lines[1][:20])
    assert whole == json.loads(command(*words).stdout)
    assert 5 == len(kept.read_bytes().splitlines())


def test_results_of_another_grid_are_refused(tmp_path: Path, grid: Grid) -> None:
    """In one line, and nothing is written to the file."""
    kept = tmp_path / "cells.jsonl"
    with ResultFile(kept, grid).opened():
        pass
    other = read_grid(SMALL.replace(b"0.9", b"0.8"), "grid.yaml")

    with pytest.raises(InputError, match="holds the results of another grid"):
        ResultFile(kept, other)


def test_a_cell_that_fails_is_kept_with_its_record(tmp_path: Path) -> None:
    """The rest goes on, the status is 1, and the cell runs again next time."""
    file, kept = tmp_path / "grid.yaml", tmp_path / "cells.jsonl"
    file.write_bytes(SMALL.replace(b"[default, tree]", b"[default, nowhere.yaml, tree]"))
    told = command("sweep", "-f", file, "-j", 1, "--results", kept)
    failed = [line for line in map(json.loads, kept.read_text().splitlines()[1:]) if "error" in line["result"]]

    assert 1 == told.exit_code
    assert [["nowhere.yaml"], ["nowhere.yaml"]] == [line["spec"]["profile"] for line in failed]
    assert "2 cells failed:" in told.stdout
    assert 4 == len(ResultFile(kept, read_grid(file.read_bytes(), "")).done)


def test_the_report_has_every_profile_and_a_command_for_the_worst_cells(tmp_path: Path) -> None:
    """HTML and CSV, with all cells."""
    file, html, table = tmp_path / "grid.yaml", tmp_path / "report.html", tmp_path / "cells.csv"
    file.write_bytes(SMALL.replace(b"seed:", b"period: [10, 60]\n  look-ahead: [1, 64]\n  seed:"))
    told = command("sweep", "-f", file, "-j", 1, "--html", html, "--csv", table)

    assert 0 == told.exit_code
    assert "default beside tree" in html.read_text()
    assert "fewer than 6 seeds" in html.read_text()
    assert 17 == len(table.read_text().splitlines())


# What may be concluded


def test_students_distribution_is_that_of_the_tables() -> None:
    """Values of printed tables for two-sided 5 %."""
    for freedom, value in ((1, 12.706), (5, 2.571), (10, 2.228), (30, 2.042)):
        assert abs(p_of_t(value, freedom) - 0.05) < 1e-4


def test_holms_steps() -> None:
    """The smallest chance is compared with a share of the level, the next with a larger one."""
    assert [True, False, True, False] == holm([0.01, 0.04, 0.005, 0.03])
    assert [True, True] == holm([0.02, 0.05])
    assert [False, False] == holm([0.03, 0.05])


def side(here: float, there: float, noise: float = 0.01, seeds: int = 6) -> Pairs:
    """Pairs in which every figure is so far apart."""
    rng = np.random.default_rng(3)
    base = there + noise * rng.standard_normal((seeds, len(SHOWN)))
    return Pairs("mine", base + here - there, base, (("a",),) * seeds, seeds)


def test_a_clear_difference_has_a_verdict() -> None:
    """By its direction and what the figure is about."""
    found = {one.figure: one for one in compared(side(0.5, 1.0))}

    assert "waits less" == found["wait, mean"].verdict
    assert "closer" == found["leaves beyond the fewest, all gangs"].verdict
    assert "worse" == found["GPU occupancy"].verdict
    assert abs((found["wait, mean"].value or 0) - 0.5) < 0.01


def test_nothing_at_all_is_less() -> None:
    """A profile without any leaf too many is closer than one that has some."""
    found = {one.figure: (one.value, one.verdict) for one in compared(side(0.0, 1.0, noise=0.0))}

    assert (0.0, "closer") == found["leaves beyond the fewest, all gangs"]


@pytest.mark.parametrize(
    ("one", "verdict"), [(side(1.0, 1.0), "no difference shown"), (side(0.5, 1.0, seeds=5), "fewer than 6 seeds")]
)
def test_no_verdict_without_a_difference_or_with_few_seeds(one: Pairs, verdict: str) -> None:
    """Nothing is claimed that is not shown."""
    assert {verdict} == {difference.verdict for difference in compared(one)}


def test_settings_are_judged_by_paired_differences(grid: Grid) -> None:
    """The interval of the mean difference holds it, and excludes zero where there is a verdict."""
    found = compared_by_setting(grid, side(0.5, 1.0))
    waits = next(one for one in found if one.figure == "wait, mean")

    assert ({"topology": "a"}, 6, "waits less") == (waits.setting, waits.pairs, waits.verdict)
    assert (waits.low or 0) <= -0.5 <= (waits.high or 0) < 0


def test_the_record_has_the_options_of_simulate() -> None:
    """A record without them is a replay as it comes."""
    spec = ReplaySpec(topology="synthetic:", trace="synthetic:")

    assert (("default",), 8, 1) == (spec.profile, spec.gpus_per_host, spec.seed)
