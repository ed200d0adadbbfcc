"""`tierwise serve`: the pages in a browser, for manifests or for a live cluster."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli.connection import connect, place
from tierwise.cli.inputs import Inputs
from tierwise.cli.live_state import LiveCluster, live_objects
from tierwise.cli.options import option, verb
from tierwise.cli.pages import PLACE, hosts, opening, play, until_interrupted
from tierwise.cli.progress import show_progress

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.explain.text.schedule import Run
    from tierwise.port import Objects
    from tierwise.web.recording import Recording
    from tierwise.web.views import Basis, RunSource, RunView

__all__ = ["manifest_source", "recorded", "serve"]


@verb(
    """
  tierwise serve -f examples/01-llm-training
  tierwise serve -f cluster.yaml -f jobs/ --config volcano-scheduler.conf --listen 127.0.0.1:9000
  tierwise serve --journal /var/lib/tierwise/journal
  kubectl tierwise serve --context prod --every 30
""",
    decides=True,
)
def serve(
    *,
    inputs: Inputs,
    listen: tuple[str, int] = place("Where the pages are.", PLACE),
    every: float = option(
        "--every SECONDS",
        "How old the data of a live cluster may get before it is read again.",
        default=15.0,
        least=1,
    ),
    journal: Path | None = option(
        "--journal DIR",
        "Play what `tierwise run`, `up` or `submit` with --journal has recorded there, and still records.",
    ),
    names: tuple[str, ...] = hosts,
) -> None:
    """Show in a browser what is full and where, what waits and why, what runs where, and the last cycles.

    Manifests are scheduled as by `schedule`, and read again when the files change. Without files the cluster of the
    kubeconfig is looked at while a page is open, with the right to list and no other; what a cycle would
    decide on it is worked out in memory. Nothing outside is touched. The pages are open to this machine alone; where
    --listen or --host says otherwise, to those with the token that is printed.
    """
    from tierwise.runtime.listener import listening
    from tierwise.web.app import pages

    opened = opening(listen, names)
    filenames = inputs.source.filenames
    config_file = inputs.config_file
    now = inputs.now
    if journal is not None:
        if filenames or config_file or now is not None or inputs.nodes is not None:
            raise click.UsageError("a journal has objects, configuration and times of its own: give --journal alone")
        play({"": recorded(journal)}, opened)
        return
    if filenames:
        source = manifest_source(filenames, config_file, now, inputs.nodes, questions=True)
    else:
        if inputs.nodes is not None:
            raise InputError("nodes are added to manifests (-f FILE), not to a cluster", field="--nodes")
        source = _cluster(inputs.source.cluster, config_file, now, every)
    with listening(pages(source, opened.access), *opened.listen, opened.tls):
        until_interrupted(f"{opened.page} is open; Ctrl-C ends it")


def recorded(folder: Path, title: str = "") -> Recording:
    """The moments of a journal, read once for their figures."""
    from tierwise.web.journal import JournalRecording

    with show_progress("reading the journal") as progress:
        return JournalRecording(folder, title, tell=progress)


def manifest_source(
    filenames: Sequence[str],
    config_file: str | None,
    now: float | None,
    nodes: int | None = None,
    *,
    questions: bool = False,
) -> RunSource:
    """The outcome of `schedule`; standard input is read once, and files whenever one of them has changed.

    `questions` says whether those of the kind "what if" are answered.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of, tell_no_nodes, with_nodes
    from tierwise.web.views import Basis, WatchedSource

    command = _again(filenames, config_file, nodes=str(nodes) if nodes is not None else None)
    stdin_bytes = sys.stdin.buffer.read() if "-" in filenames else b""

    def make() -> RunView:
        profile = profile_of(config_file)
        objects = with_nodes(load(filenames, stdin=io.BytesIO(stdin_bytes)), nodes)
        introduce(objects)
        tell_no_nodes(objects)
        with show_progress("scheduling"):
            run = _run(objects, profile, moment(objects, now))
        basis = Basis(objects, profile, moment(objects, now)) if questions else None
        return _shown(run, "manifests", ", ".join(filenames), command, basis)

    return WatchedSource(lambda: _written(filenames, config_file), make)


def _written(filenames: Sequence[str], config_file: str | None) -> object:
    """Value that changes when the files do: their names, sizes and times of writing."""
    from tierwise.manifests.files import sources

    try:
        file_names = [source.name for source in sources([name for name in filenames if name != "-"], None)]
        stats = [(name, Path(name).stat()) for name in (*file_names, *([config_file] if config_file else []))]
    except (InputError, OSError) as error:
        return str(error)
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]


def _cluster(cluster: LiveCluster, config_file: str | None, now: float | None, every: float) -> RunSource:
    """The cluster of the kubeconfig as it is, and what one cycle would decide."""
    import time

    from tierwise.cli.inputs import moment, profile_of
    from tierwise.web.views import Basis, WatchedSource

    server = connect(cluster.kubeconfig, cluster.context).server
    command = _again((), config_file, kubeconfig=cluster.kubeconfig, context=cluster.context)
    begun = time.monotonic()

    def make() -> RunView:
        profile = profile_of(config_file)
        objects = live_objects(cluster)
        basis = Basis(objects, profile, moment(objects, now))
        return _shown(_run(objects, profile, basis.now, look=True), "cluster", server, command, basis)

    return WatchedSource(lambda: int((time.monotonic() - begun) / every), make)


def _run(objects: Objects, profile: Profile, now: float, *, look: bool = False) -> Run:
    """Run of the objects. A look is one cycle whose decisions are not carried out."""
    from tierwise.explain.text.schedule import Run
    from tierwise.sim.cluster import rounds

    history = rounds.schedule(objects, profile, now=now, cycles=1 if look else None)
    after = history.reports[0][0] if look else history.after(now)
    return Run(history.reports, after, profile, history.evictions, history.complaints())


def _again(filenames: Sequence[str], config_file: str | None, **options: str | None) -> str:
    """The options with which another verb sees the same objects, as a shell reads them."""
    words = [word for name in filenames for word in ("-f", name)]
    words += ["--config", config_file] if config_file else []
    words += [word for name, value in options.items() if value for word in (f"--{name}", value)]
    return shlex.join(words)


def _shown(run: Run, mode: str, title: str, options: str, basis: Basis | None) -> RunView:
    from tierwise.explain.board import Board
    from tierwise.web.views import RunView

    return RunView(Board(run, carried_out=mode != "cluster"), mode=mode, title=title, options=options, basis=basis)
