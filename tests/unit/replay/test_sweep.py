"""Sweeps: grids, engines that give the same, what is kept of them, and what may be concluded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.support.commands import run as command

from tierwise.api.errors import InputError
from tierwise_lab.replay.report.table import COMPARED, FIGURE
from tierwise_lab.replay.spec import ReplaySpec
from tierwise_lab.replay.spec import command as alone
from tierwise_lab.replay.sweep.engines import Serial, WorkerLostError, Workers, answering, engine, run
from tierwise_lab.replay.sweep.grid import Cell, Grid, read_grid
from tierwise_lab.replay.sweep.picture import drawing
from tierwise_lab.replay.sweep.report import by_setting_text, unbeaten
from tierwise_lab.replay.sweep.results import CellResult, ResultFile, answer, digest
from tierwise_lab.replay.sweep.statistics import Pairs, compared, compared_by_setting, holm, p_of_t, pairs

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


@pytest.fixture(params=["processes", "dask", "ray"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    """Two processes of this machine, or a cluster of two workers of its own."""
    if request.param == "processes":
        yield engine(None, 2)
    elif request.param == "ray":
        pytest.importorskip("ray", reason="Ray is not installed")
        yield engine("ray://local", 1)
    else:
        distributed = pytest.importorskip("distributed", reason="Dask is not installed")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            yield engine(f"dask://{cluster.scheduler_address.removeprefix('tcp://')}", 1)


def test_every_engine_gives_the_same_digest(grid: Grid, workers: Workers) -> None:
    """The results do not depend on who computes them, or in which order."""
    assert digest(results_of(grid, Serial())) == digest(results_of(grid, workers))


class Gone(Serial):
    """A cluster that is there for a while."""

    def result(self, handle: Any) -> CellResult:
        with answering("tcp://there"):
            if handle[0].seed == 2:
                raise RuntimeError("connection lost, " + 40 * "and more ")
            return super().result(handle)


def test_a_cluster_that_goes_away_costs_no_result(tmp_path: Path, grid: Grid) -> None:
    """It is told in a line that is not long, and the sweep goes on where it ended."""
    ended = run(Gone(), grid)
    with closing(ResultFile(tmp_path / "cells.jsonl", grid)) as file:
        file.add(*next(ended))
        with pytest.raises(InputError, match=r"--engine: tcp://there gave up: connection lost, and more .{0,150}…$"):
            next(ended)
        assert {0} == file.done


def reader_of(file: Path) -> int:
    """The other process that has a file open."""
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if int(opened.parts[2]) != os.getpid() and str(opened.readlink()) == str(file):
                return int(opened.parts[2])
    raise LookupError(file)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells who has a file open")
def test_a_worker_that_is_killed_costs_its_cell_again(workers: Workers, tmp_path: Path) -> None:
    """It is killed while it reads its trace, which is then there as a file; every cell has its result once."""
    trace, ready = tmp_path.resolve() / "jobs.csv", tmp_path / "ready.csv"
    ready.write_text("timestamp,duration,num_gpus\n0,60,16\n10,60,8\n")
    os.mkfifo(trace)
    calm = [f"synthetic:jobs={number}" for number in range(3, 8)]
    text = f"axes: {{trace: {json.dumps([str(trace), *calm])}}}\nbase: {{topology: 'synthetic:spines=1'}}"
    grid = read_grid(text.encode(), "grid.yaml")

    def kill() -> None:
        held = os.open(trace, os.O_WRONLY)  # returns when the worker has opened it to read
        worker = reader_of(trace)
        ready.replace(trace)
        os.kill(worker, signal.SIGKILL)
        os.close(held)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = [(cell.number, result) for cell, result in run(workers, grid)]
    killer.join(60)

    assert not killer.is_alive()
    assert list(range(6)) == sorted(number for number, _ in found)
    assert digest(results_of(grid, Serial())) == digest(dict(found))


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


class Talkative(Serial):
    """Cells with far more to tell than is compared."""

    def result(self, handle: Any) -> CellResult:
        return CellResult({f"figure-{number}": float(number) for number in range(1000)}, digest="x")


def test_results_are_not_held(tmp_path: Path) -> None:
    """A sweep of many cells holds what it compares of each, and reads the rest from its file."""
    text = f"axes: {{seed: {list(range(100))}}}\nbase: {{topology: x, trace: y}}"
    grid = read_grid(text.encode(), "grid.yaml")
    file = ResultFile(tmp_path / "cells.jsonl", grid)
    tracemalloc.start()
    for cell, result in run(Talkative(), grid):
        file.add(cell, result)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = file.whole(99)
    file.close()

    assert held < 1_000_000  # all of them would be more than ten times as much
    assert whole is not None
    assert 1000 == len(whole.figures)


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
    ResultFile(kept, grid).close()
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
    assert "2 cells failed:\n  cell 2 (two, nowhere.yaml, 1): --profile: nowhere.yaml is neither a file" in told.stdout
    with closing(ResultFile(kept, read_grid(file.read_bytes(), ""))) as again:
        assert 4 == len(again.done)


def test_the_report_has_every_profile_and_a_command_for_the_worst_cells(tmp_path: Path) -> None:
    """HTML and CSV, with all cells."""
    file, html, table = tmp_path / "grid.yaml", tmp_path / "report.html", tmp_path / "cells.csv"
    file.write_bytes(SMALL.replace(b"seed:", b"period: [10, 60]\n  look-ahead: [1, 64]\n  seed:"))
    told = command("sweep", "-f", file, "-j", 1, "--html", html, "--csv", table)

    assert 0 == told.exit_code
    assert "default beside tree" in html.read_text()
    assert "fewer than 6 seeds" in html.read_text()
    assert 17 == len(table.read_text().splitlines())
    assert "GPU occupancy and goodput" in html.read_text()


@pytest.mark.parametrize("option", ["--results", "--html", "--png", "--csv"])
def test_a_folder_that_is_not_there_is_told_before_anything_runs(option: str, tmp_path: Path) -> None:
    """Not when everything has run."""
    (tmp_path / "grid.yaml").write_bytes(SMALL)
    told = command("sweep", "-f", tmp_path / "grid.yaml", option, tmp_path / "none" / "file")

    assert (2, "") == (told.exit_code, told.stdout)
    assert f"tierwise: {tmp_path / 'none' / 'file'}: its folder does not exist\n" == told.stderr


def test_a_picture_has_the_maps_and_fronts(tmp_path: Path) -> None:
    """Two maps for each profile and three fronts, three in a line, drawn by a library that a sweep can do without."""
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    file, png = tmp_path / "grid.yaml", tmp_path / "sweep.png"
    file.write_bytes(SMALL.replace(b"seed:", b"period: [10, 60]\n  look-ahead: [1, 64]\n  seed:"))
    told = command("sweep", "-f", file, "-j", 1, "--png", png)

    assert 0 == told.exit_code
    lines = np.array_split(image.imread(png)[..., :3].min(axis=2), 3)
    drawn = [bool((part < 0.5).any()) for line in lines for part in np.array_split(line, 3, axis=1)]
    assert [True] * 7 + [False] * 2 == drawn


def test_what_is_missing_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line with the extra that has it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(InputError, match="--png: matplotlib is missing: install tierwise with the extra `plots`"):
        drawing()


def test_profiles_are_unbeaten_by_what_is_better_of_each_figure() -> None:
    """Less waiting, and more occupancy; one that is equal in one and worse in the other is beaten."""
    figures = (FIGURE["times.wait_seconds.mean"], FIGURE["gpus.occupancy"])
    points = {"fast": (1.0, 0.8), "full": (2.0, 0.9), "slow": (2.0, 0.8), "twin": (1.0, 0.8)}

    assert ["fast", "full", "twin"] == unbeaten(points, figures)


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
    base = there + noise * rng.standard_normal((seeds, len(COMPARED)))
    return Pairs("mine", base + here - there, base, (("a",),) * seeds, seeds)


def test_a_clear_difference_has_a_verdict() -> None:
    """By its direction and what the figure is about."""
    found = {one.figure: one for one in compared(side(0.5, 1.0))}

    assert "waits less" == found["times.wait_seconds.mean"].verdict
    assert "closer" == found["spread.excess"].verdict
    assert "worse" == found["gpus.occupancy"].verdict
    assert abs((found["times.wait_seconds.mean"].value or 0) - 0.5) < 0.01


def test_nothing_at_all_is_less() -> None:
    """A profile without any leaf too many is closer than one that has some."""
    found = {one.figure: (one.value, one.verdict) for one in compared(side(0.0, 1.0, noise=0.0))}

    assert (0.0, "closer") == found["spread.excess"]


@pytest.mark.parametrize(
    ("one", "verdict"), [(side(1.0, 1.0), "no difference shown"), (side(0.5, 1.0, seeds=5), "fewer than 6 seeds")]
)
def test_no_verdict_without_a_difference_or_with_few_seeds(one: Pairs, verdict: str) -> None:
    """Nothing is claimed that is not shown."""
    assert {verdict} == {difference.verdict for difference in compared(one)}


def test_settings_are_judged_by_paired_differences(grid: Grid) -> None:
    """The interval of the mean difference holds it, and excludes zero where there is a verdict."""
    found = compared_by_setting(grid, side(0.5, 1.0))
    waits = next(one for one in found if one.figure == "times.wait_seconds.mean")

    assert ({"topology": "a"}, 6, "waits less") == (waits.setting, waits.pairs, waits.verdict)
    assert (waits.low or 0) <= -0.5 <= (waits.high or 0) < 0


def test_settings_count_alike_and_beside_the_best_rule_of_each() -> None:
    """Of two settings, one rule waits least in the first and another in the second; the mean is of their ratios."""
    axes = {"load": [0.5, 0.9], "profile": ["mine", "tree", "kueue"], "seed": [1, 2, 3, 4, 5, 6]}
    text = f"{{axes: {axes}, base: {{topology: 'synthetic:', trace: 'synthetic:'}}, baseline: tree}}"
    grid = read_grid(text.encode(), "grid.yaml")
    waits = {("0.5", "mine"): 2.0, ("0.5", "tree"): 1.0, ("0.5", "kueue"): 4.0}
    waits |= {("0.9", "mine"): 10.0, ("0.9", "tree"): 20.0, ("0.9", "kueue"): 10.0}

    def made(cell: Cell) -> CellResult:
        wait = waits[cell.names["load"], cell.names["profile"]] + 0.001 * int(cell.names["seed"])
        return CellResult({figure.key: wait if "wait" in figure.key else 0.5 for figure in COMPARED})

    results = {cell.number: made(cell) for cell in grid}
    mine = next(one for one in pairs(grid, results) if one.profile == "mine")
    means, told = by_setting_text(grid, results, compared(mine))

    assert "wait, mean ×1.25;" in means
    assert told.endswith(
        "best of tree, kueue: GPU occupancy: better in 0, worse in 0; "
        "wait, mean: waits less in 0, waits longer in 1 of 2."
    )


def test_the_record_has_the_options_of_simulate() -> None:
    """A record without them is a replay as it comes."""
    spec = ReplaySpec(topology="synthetic:", trace="synthetic:")

    assert (("default",), 8, 1) == (spec.profile, spec.gpus_per_host, spec.seed)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_sweep_that_is_stopped_leaves_no_worker(how: signal.Signals, tmp_path: Path) -> None:
    """However it is stopped, and in the middle of cells that take minutes."""
    long = {"topology": "synthetic:spines=8", "trace": "synthetic:jobs=200000", "load": 0.95}
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"axes": {"seed": [1, 2, 3, 4]}, "base": long}))
    words = [sys.executable, "-m", "tierwise", "sweep", "-f", str(grid), "-j", "2"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    workers: list[int] = []
    until = time.monotonic() + 60
    while len(workers) < 2 and process.poll() is None and time.monotonic() < until:
        workers = [pid for pid in _children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        time.sleep(0.1)
    assert 2 == len(workers)

    process.send_signal(how)
    process.wait(60)

    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until + 60:
        time.sleep(0.1)
    assert [] == [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if int(entry.name) and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
