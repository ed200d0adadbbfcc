"""`tierwise defrag`: which pods to move so that a gang fits inside one domain, and moving them."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierwise.api.defrag_record import DefragRecord
    from tierwise.config.profile import Profile
    from tierwise.explain.defrag import DefragPlan
    from tierwise.kube.cluster import KubeCluster
    from tierwise.port import Objects
    from tierwise.runtime.defrag import DefragExecutor

__all__ = ["defrag"]

_STEP = 600.0


@click.command(
    epilog="""\b
Examples:
  tierwise defrag -f state.json --for nvidia.com/gpu=8x16@rack
  tierwise defrag -f state.json --for 8x4@1 -o json
  tierwise defrag --for nvidia.com/gpu=8x16@rack --execute
  tierwise defrag --resume
  kubectl tierwise defrag --for nvidia.com/gpu=8,cpu=64x32@spine
""",
)
@options.source
@options.config
@options.now
@click.option(
    "--for",
    "room",
    metavar="SHAPExPODS@TIER",
    help="The room to open: what a pod asks for, how many pods, and the tier of the domain (number, name or cluster).",
)
@click.option(
    "--execute",
    is_flag=True,
    help="Carry the plan out, move by move, with a check after each; with -f, on a cluster in memory.",
)
@click.option("--resume", is_flag=True, help="Go on with an execution that has broken off, by its record.")
@click.option(
    "--step-time",
    callback=options.seconds_of,
    metavar="TIME",
    help="How long a move may take until its job gets its old places back.  [default: 10m]",
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="Where the scheduler reads the record of an execution.  [default: tierwise if it exists, else kube-system]",
)
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="With --execute: move pods of this scheduler alone. May be repeated.  [default: as configured, else tierwise]",
)
@options.output
def defrag(
    filenames: tuple[str, ...],
    config_file: str | None,
    now: float | None,
    room: str | None,
    execute: bool,
    resume: bool,
    step_time: float | None,
    namespace: str | None,
    names: tuple[str, ...],
    output_format: str,
) -> None:
    """Plan which running pods to move so that a gang fits inside one domain, and move them if asked to.

    The plan moves as few pods as possible, and every moved pod has a place, found by the scheduler itself, before its
    job is touched. Disruption budgets and minimum run times are kept. Without --execute nothing is changed. Ctrl-C and
    SIGTERM end an execution after the move in hand; the exit status is 1 where the room was not opened.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of
    from tierwise.cli.progress import show_progress

    if (room is None) == (not resume):
        raise click.UsageError("either --for or --resume is needed")
    profile = profile_of(config_file)
    if (execute or resume) and not filenames:
        served = frozenset(names or profile.schedulers or ("tierwise",))
        _execute(profile, room, served, step_time or _STEP, namespace, output_format)
        return
    if room is None:
        raise click.UsageError("--resume is about a live cluster, not about manifests")
    objects = load(filenames)
    if filenames:
        introduce(objects)
    time = moment(objects, now)
    if execute:
        _rehearse(objects, profile, room, time, step_time or _STEP, output_format)
        return
    from tierwise.sim.defragmentation.plan import defrag as plan_of
    from tierwise.sim.what_if.runs import prepared

    with show_progress("planning"):
        plan = plan_of(prepared(objects, profile, time), room)
    _show(plan, None, output_format)


def _show(plan: DefragPlan | None, record: DefragRecord | None, output_format: str) -> None:
    """The plan, and for programs what came of it."""
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.defrag import execution_wire, plan_wire
    from tierwise.explain.text.defrag import defrag_lines

    if output_format == "json":
        wire = plan_wire(plan) if plan is not None else {}
        print_json(wire | ({"execution": execution_wire(record)} if record is not None else {}))
    elif plan is not None:
        print_page(lambda page: defrag_lines(page, plan))


class _Told:
    """Lines about an execution, as it goes."""

    def __init__(self, output_format: str) -> None:
        self._quiet = output_format == "json"
        self._last: DefragRecord | None = None
        self._refused: tuple[str, ...] = ()

    def __call__(self, record: DefragRecord, time: float, refused: tuple[str, ...] = ()) -> None:
        from tierwise.api.meta import format_time
        from tierwise.explain.defrag import progress

        lines = progress(self._last, record)
        if refused != self._refused:
            lines += [f"refused: {text}" for text in refused]
        self._last, self._refused = record, refused
        for line in lines:
            click.echo(f"{format_time(time)}  {line}", err=self._quiet)


def _ended(plan: DefragPlan | None, record: DefragRecord, output_format: str) -> None:
    from tierwise.api.defrag_record import MovePhase

    if output_format == "json":
        _show(plan, record, output_format)
    if record.phase is not MovePhase.DONE:
        raise SystemExit(1)


def _rehearse(
    objects: Objects, profile: Profile, room: str, now: float, step_seconds: float, output_format: str
) -> None:
    """The execution on a cluster in memory that begins as the manifests say."""
    from tierwise.cli.progress import show_progress
    from tierwise.runtime.defrag_rehearsal import Rehearsal

    rehearsal = Rehearsal(objects, profile, now)
    with show_progress("planning"):
        record, plan = rehearsal.begin(room, step_seconds=step_seconds)
    if output_format != "json":
        _show(plan, None, output_format)
    told = _Told(output_format)
    told(record, rehearsal.now)
    while not record.over:
        record = rehearsal.step() or record
        told(record, rehearsal.now, rehearsal.executor.refused)
    _ended(plan, record, output_format)


def _execute(
    profile: Profile,
    room: str | None,
    served: frozenset[str],
    step_seconds: float,
    namespace: str | None,
    output_format: str,
) -> None:
    """The execution on the cluster of the kubeconfig."""
    import time

    from tierwise.cli.connection import connect

    kubeconfig, context = options.cluster_options()
    access = connect(kubeconfig, context, in_cluster=False)
    from tierwise.kube.cluster import ClusterOptions, KubeCluster
    from tierwise.runtime.defrag import DefragExecutor

    told, plan = _Told(output_format), None
    trusted = frozenset({namespace} if namespace else {"tierwise", "kube-system"})
    with _stopped() as stopping, KubeCluster(access, ClusterOptions("tierwise-defrag", trusted=trusted)) as cluster:
        _sync(cluster, stopping)
        executor = DefragExecutor(
            cluster,
            profile,
            namespace=namespace or _namespace(cluster.read()),
            by=f"{platform.node()}_{os.getpid()}",
            clock=time.time,
            schedulers=served,
            refresh=cluster.refresh,
        )
        if room is None:
            record = executor.take_over()
        else:
            record, plan = executor.begin(room, step_seconds=step_seconds)
            if output_format != "json":
                _show(plan, None, output_format)
        told(record, time.time())
        record = _carry_out(
            executor, cluster, record, stopping, lambda found: told(found, time.time(), executor.refused)
        )
    _ended(plan, record, output_format)


def _carry_out(
    executor: DefragExecutor,
    cluster: KubeCluster,
    record: DefragRecord,
    stopping: threading.Event,
    told: Callable[[DefragRecord], None],
) -> DefragRecord:
    """Step after step until the execution is over, or has another executor."""
    from tierwise.api.defrag_record import MovePhase
    from tierwise.kube.errors import ApiError, UnreachableError
    from tierwise.port import Version

    seen, extended = Version(-1), 0
    while not record.over:
        try:
            found = executor.step(stopping=stopping.is_set())
        except (ApiError, UnreachableError) as error:
            click.echo(f"tierwise: {error}; trying again", err=True)
            found = record
        if found is None:
            raise InputError("another executor has taken it over")
        if found.phase is MovePhase.RETURNING is record.phase and found.deadline != record.deadline:
            extended += 1
        record = found
        told(record)
        if extended:
            click.echo("tierwise: its places stay held for an hour; --resume goes on", err=True)
            return record
        if not record.over:
            cluster.wait(Version(2**62), 0.5)
            seen = cluster.wait(seen, 2.0)
    return record


def _sync(cluster: KubeCluster, stopping: threading.Event) -> None:
    from tierwise.cli.progress import show_progress

    with show_progress("reading the cluster"):
        while not cluster.synced(timeout=0.5):
            if stopping.is_set():
                raise SystemExit(1)


def _namespace(objects: Objects) -> str:
    return "tierwise" if ("tierwise" in objects.of_kind("", "Namespace")) else "kube-system"


@contextlib.contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; the second one ends the process, which is safe: all is in the record."""
    asked = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()
        click.echo("tierwise: ending after the move in hand; once more to end now", err=True)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
