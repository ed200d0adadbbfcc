"""`tierwise simulate`: a trace on a virtual clock, under several profiles side by side."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from tierwise.api.errors import InputError
from tierwise.cli.inputs import profile_of
from tierwise.cli.options import Format, option, verb
from tierwise.cli.pages import Played, play
from tierwise_lab.replay.engine.checkpoint import load, save
from tierwise_lab.replay.engine.run import Comparison, Replay
from tierwise_lab.replay.shared_gpu.filling import Fillings
from tierwise_lab.replay.shared_gpu.openb import WHOLE, is_openb, order, read_nodes, read_pods
from tierwise_lab.replay.shared_gpu.policies import POLICIES, sharing
from tierwise_lab.replay.spec import ReplaySpec, command, comparison, existing
from tierwise_lab.replay.traces.readers import Table, read_table
from tierwise_lab.replay.traces.synthetic import PREFIX

if TYPE_CHECKING:
    from tierwise.web.recording import Recording

__all__ = ["simulate"]


# How far a run is: what is done and how fast, on standard error, only on a terminal.


_EVERY = 0.2


@contextmanager
def watching(run: Replay[Any]) -> Iterator[Callable[[], None]]:
    """Yields a function that is called at every step; it draws a few times a second, or never."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {name: progress.add_task(name, total=run.total, told="") for name in run.names}
        yield _Drawer(run, progress.update, bars)


class _Drawer:
    """Tells a bar where its contender is, and how fast it has gone since it was told last."""

    def __init__(self, run: Replay[Any], update: Callable[..., None], bars: Mapping[str, object]) -> None:
        self._run = run
        self._update = update
        self._bars = bars
        self._drawn = time.monotonic()
        self._done = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        at = self._run.progress()
        speed = max(0, at.done - self._done) / (now - self._drawn)
        self._drawn = now
        self._done = at.done
        self._update(self._bars[at.name], completed=at.done, told=f"{at.told}, {speed:,.0f}/s")


# What `tierwise simulate` is to replay: files and options become contenders on a trace, or policies on shared GPUs.


def shared_nodes(topology: str) -> Table | None:
    """The table of nodes where GPUs are shared; None for a fabric of hosts and switches."""
    if topology.startswith(PREFIX):
        return None
    table = read_table(topology)
    return table if is_openb(table) else None


def fillings(spec: ReplaySpec, nodes: Table) -> Fillings:
    """Policies on nodes whose GPUs are shared."""
    names, empty = read_nodes(nodes)
    pods = read_pods(read_table(spec.trace))
    gpus = int(empty.left.sum()) // WHOLE
    arriving = order(pods, spec.load or 1.0, gpus, spec.seed)
    policies = {
        name if name in POLICIES else Path(name).stem: POLICIES.get(name)
        or sharing(profile_of(existing(name, POLICIES)))
        for name in spec.profile
    }
    return Fillings(names, empty, pods, arriving[: spec.jobs], policies)


# Driving a run of `tierwise simulate`: progress on the screen, checkpoints now and then, and Ctrl-C as a wish.


_KEPT_EVERY = 60.0
"""Seconds between checkpoints."""


def drive(run: Replay[Any], file: str | None) -> bool:
    """Run to the end, keeping checkpoints in a file; whether it got there."""
    point = load(file, run.digest) if file else None
    if point is not None:
        run.resume(point)
    stop = _Stop()
    before = signal.signal(signal.SIGINT, stop)
    saved_at = time.monotonic()
    try:
        with watching(run) as look:
            for _ in run.run():
                look()
                if stop.asked:
                    break
                if file and time.monotonic() - saved_at > _KEPT_EVERY:
                    save(file, run.checkpoint())
                    saved_at = time.monotonic()
    finally:
        signal.signal(signal.SIGINT, before)
    if file:
        save(file, run.checkpoint())
    return not stop.asked


class _Stop:
    """Ctrl-C is a wish: the run ends after the moment at hand, when its state is whole."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True


@verb(
    """
  tierwise simulate --topology synthetic:spines=4 --trace synthetic:jobs=2000 --profile default --profile best-fit
  tierwise simulate --topology lingjun_topology.csv --trace philly_jobs.csv --load 0.9 \\
      --profile default --profile propose --profile best-fit --profile random --html report.html
  tierwise simulate --topology synthetic:spines=2 --trace synthetic:jobs=500 --profile default --serve
  tierwise simulate --topology fabric.csv --trace jobs.csv --checkpoint run.json -o json
""",
    decides=True,
)
def simulate(
    *,
    spec: ReplaySpec,
    calibrate_eta: int | None = option(
        "--calibrate-eta N",
        "Instead, ask about N jobs while they wait, and count the starts inside the stated ranges.",
        least=1,
    ),
    checkpoint: str | None = option("--checkpoint FILE", "Keep the state here; an interrupted run goes on from it."),
    html: Path | None = option("--html FILE", "Write a report with plots, one file."),
    played: Played,
    output: Format,
) -> None:
    """Replay a trace of jobs on a virtual clock, with the same cycle that schedules a cluster.

    The same inputs and seed print the same bytes. Ctrl-C stops at the next moment; with --checkpoint the same command
    goes on from there.

    Where --topology lists nodes with parts of GPUs to share (openb's columns), pods arrive and stay until they ask for
    the --load of all GPUs (1), and what is allocated then is shown; profiles are fragmentation, stranding, best-fit,
    or a configuration file.
    """
    if calibrate_eta is not None:
        _calibrate(spec, calibrate_eta, output)
        return
    nodes = shared_nodes(spec.topology)
    if played.served and (checkpoint or nodes is not None):
        raise click.UsageError("--serve plays a whole run of gangs: it goes neither with --checkpoint nor shared GPUs")
    opened = played.opening()
    if checkpoint and spec.through == "controllers":
        raise InputError("a replay through the controllers cannot be interrupted and go on", field="--checkpoint")
    run = fillings(spec, nodes) if nodes is not None else comparison(spec, profile_of, record=played.served)
    ctx = click.get_current_context()
    if not drive(run, checkpoint):
        then = f"the same command goes on from {checkpoint}" if checkpoint else "with --checkpoint it could go on"
        click.echo(f"tierwise: stopped; {then}", err=True)
        ctx.exit(130)
    _show(run.results(), html, output, shared=nodes is not None, command=command(spec))
    if opened is not None and isinstance(run, Comparison):
        sys.stdout.flush()
        play(_recordings(run), opened)


def _recordings(run: Comparison) -> dict[str, Recording]:
    """Recording of each profile's run, to be played."""
    from tierwise_lab.replay.recording import ReplayRecording

    return {
        contender.name: ReplayRecording(run.fabric, run.trace, contender, run.rules, log)
        for contender, log in zip(run.contenders, run.logs, strict=True)
    }


def _calibrate(spec: ReplaySpec, asks: int, output: Format) -> None:
    """Forecasts of starts against what happened, for every profile."""
    from tierwise.cli.progress import show_progress
    from tierwise_lab.replay.engine.calibration import Asked, calibrate, calibration_wire
    from tierwise_lab.replay.report.table import calibration_lines

    if spec.through == "controllers" or shared_nodes(spec.topology) is not None:
        raise InputError("starts are forecast in replays of jobs through the cycle alone", field="--calibrate-eta")
    run = comparison(spec, profile_of)
    calibrations = []
    for contender in run.contenders:
        with show_progress(f"asking about jobs under {contender.name}", asks) as progress:
            forecasts: list[Asked] = []
            for forecasts in calibrate(run.fabric, run.trace, contender, run.rules, asks=asks):
                progress(len(forecasts))
        calibrations.append(calibration_wire(contender.name, forecasts))
    output.show(
        lambda: {"seed": spec.seed, "calibration": calibrations}, lambda page: calibration_lines(page, calibrations)
    )


def _show(results: dict[str, object], html: Path | None, output: Format, *, shared: bool, command: str) -> None:
    """Write the report where it is wanted, and print the numbers."""
    from tierwise_lab.replay.report.html import report
    from tierwise_lab.replay.report.table import lines
    from tierwise_lab.replay.shared_gpu.report import filling_lines, filling_report

    if html is not None:
        html.write_text((filling_report if shared else report)(results, command), encoding="utf-8")
    output.show(lambda: results, lambda page: (filling_lines if shared else lines)(page, results, command))
