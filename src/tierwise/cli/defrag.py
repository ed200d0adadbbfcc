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
from tierwise.cli.inputs import Given, Inputs, need, profile_of
from tierwise.cli.live_state import LiveCluster
from tierwise.cli.options import Format, option, verb
from tierwise.cli.progress import show_progress

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
_EXECUTION = "DefragmentationExecution"


@verb(
    """
  tierwise defrag -f state.json --for nvidia.com/gpu=8x16@rack
  tierwise defrag -f state.json --for 8x4@1 -o json
  tierwise defrag --for nvidia.com/gpu=8x16@rack --execute
  tierwise defrag --resume
  kubectl tierwise defrag --for nvidia.com/gpu=8,cpu=64x32@spine
""",
    decides=True,
)
def defrag(
    *,
    inputs: Inputs,
    room: str | None = option(
        "--for SHAPExPODS@TIER",
        "The room to open: what a pod asks for, how many pods, and the tier of the domain (number, name or cluster).",
    ),
    execute: bool = option(
        "--execute", "Carry the plan out, move by move, with a check after each; with -f, on a cluster in memory."
    ),
    resume: bool = option("--resume", "Continue an interrupted execution from its record."),
    step_time: float | None = option(
        "--step-time TIME",
        "How long a move may take until its job gets its old places back.  [default: 10m]",
        read=options.seconds,
    ),
    namespace: str | None = option(
        "--namespace NAME",
        "Where the scheduler reads the record of an execution.  [default: tierwise if it exists, else kube-system]",
    ),
    names: tuple[str, ...] = option(
        "--scheduler-name NAME",
        "With --execute: move pods of this scheduler alone. May be repeated.  [default: as configured, else tierwise]",
    ),
    output: Format,
) -> None:
    """Plan which running pods to move so that a gang fits inside one domain, and move them if asked to.

    The plan moves as few pods as possible, and every moved pod has a place, found by the scheduler itself, before its
    job is touched. Disruption budgets and minimum run times are kept. Without --execute nothing is changed. Ctrl-C and
    SIGTERM end an execution after the move in hand; the exit status is 1 where the room was not opened.
    """
    if (room is None) == (not resume):
        raise click.UsageError("either --for or --resume is needed")
    if (execute or resume) and not inputs.source.filenames:
        profile = profile_of(inputs.config_file)
        need(_EXECUTION, "--execute", profile)
        served = frozenset(names or profile.schedulers or ("tierwise",))
        _execute(inputs.source.cluster, profile, room, served, step_time or _STEP, namespace, output)
        return
    if room is None:
        raise click.UsageError("--resume is about a live cluster, not about manifests")
    inputs_read = inputs.read()
    if execute:
        need(_EXECUTION, "--execute", inputs_read.profile)
        _rehearse(inputs_read, room, step_time or _STEP, output)
        return
    from tierwise.sim.defragmentation.plan import defrag as plan_of
    from tierwise.sim.what_if.runs import prepared

    with show_progress("planning"):
        plan = plan_of(prepared(*inputs_read[:3]), room)
    _show(plan, None, output)


def _show(plan: DefragPlan | None, record: DefragRecord | None, output: Format) -> None:
    """The plan, and for programs what came of it."""
    from tierwise.explain.defrag import execution_wire, plan_wire
    from tierwise.explain.text.defrag import defrag_lines

    wire = plan_wire(plan) if plan is not None else {}
    executed = {"execution": execution_wire(record)} if record is not None else {}
    output.show(lambda: wire | executed, lambda page: defrag_lines(page, plan) if plan is not None else [])


class _Told:
    """Lines about an execution, as it goes."""

    def __init__(self, output: Format) -> None:
        self._quiet = output.for_programs
        self._last: DefragRecord | None = None
        self._refused: tuple[str, ...] = ()

    def __call__(self, record: DefragRecord, time: float, refused: tuple[str, ...] = ()) -> None:
        from tierwise.api.core import format_time
        from tierwise.explain.defrag import progress

        lines = progress(self._last, record)
        if refused != self._refused:
            lines += [f"refused: {text}" for text in refused]
        self._last = record
        self._refused = refused
        for line in lines:
            click.echo(f"{format_time(time)}  {line}", err=self._quiet)


def _ended(plan: DefragPlan | None, record: DefragRecord, output: Format) -> None:
    from tierwise.api.defrag_record import MovePhase

    if output.for_programs:
        _show(plan, record, output)
    if record.phase is not MovePhase.DONE:
        raise SystemExit(1)


def _rehearse(inputs_read: Given, room: str, step_seconds: float, output: Format) -> None:
    """The execution on a cluster in memory that begins as the manifests say."""
    from tierwise.runtime.defrag_rehearsal import Rehearsal

    rehearsal = Rehearsal(*inputs_read[:3])
    with show_progress("planning"):
        record, plan = rehearsal.begin(room, step_seconds=step_seconds)
    if not output.for_programs:
        _show(plan, None, output)
    show_record = _Told(output)
    show_record(record, rehearsal.now)
    while not record.over:
        record = rehearsal.step() or record
        show_record(record, rehearsal.now, rehearsal.executor.refused)
    _ended(plan, record, output)


def _execute(
    reached: LiveCluster,
    profile: Profile,
    room: str | None,
    served: frozenset[str],
    step_seconds: float,
    namespace: str | None,
    output: Format,
) -> None:
    """The execution on the cluster of the kubeconfig."""
    import time

    from tierwise.cli.connection import connect

    access = connect(reached.kubeconfig, reached.context)
    from tierwise.kube.cluster import ClusterOptions, KubeCluster
    from tierwise.runtime.defrag import DefragExecutor

    show_record = _Told(output)
    plan = None
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
            if not output.for_programs:
                _show(plan, None, output)
        show_record(record, time.time())
        record = _carry_out(
            executor,
            cluster,
            record,
            stopping,
            lambda record_now: show_record(record_now, time.time(), executor.refused),
        )
    _ended(plan, record, output)


def _carry_out(
    executor: DefragExecutor,
    cluster: KubeCluster,
    record: DefragRecord,
    stopping: threading.Event,
    show_record: Callable[[DefragRecord], None],
) -> DefragRecord:
    """Step after step until the execution is over, or has another executor."""
    from tierwise.api.defrag_record import MovePhase
    from tierwise.kube.errors import ApiError, UnreachableError
    from tierwise.port import Version

    seen = Version(-1)
    extended = 0
    while not record.over:
        try:
            next_record = executor.step(stopping=stopping.is_set())
        except (ApiError, UnreachableError) as error:
            click.echo(f"tierwise: {error}; trying again", err=True)
            next_record = record
        if next_record is None:
            raise InputError("another executor has taken it over")
        if next_record.phase is MovePhase.RETURNING is record.phase and next_record.deadline != record.deadline:
            extended += 1
        record = next_record
        show_record(record)
        if extended:
            click.echo("tierwise: the places of its pods stay reserved for an hour; --resume continues", err=True)
            return record
        if not record.over:
            cluster.wait(Version(2**62), 0.5)
            seen = cluster.wait(seen, 2.0)
    return record


def _sync(cluster: KubeCluster, stopping: threading.Event) -> None:

    with show_progress("reading the cluster"):
        while not cluster.synced(timeout=0.5):
            if stopping.is_set():
                raise SystemExit(1)


def _namespace(objects: Objects) -> str:
    if "tierwise" in objects.of_kind("", "Namespace"):
        return "tierwise"
    return "kube-system"


@contextlib.contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; the second one ends the process, which is safe: all is in the record."""
    stop_request = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if stop_request.is_set():
            os._exit(128 + number)
        stop_request.set()
        click.echo("tierwise: ending after the move in hand; once more to end now", err=True)

    if threading.current_thread() is not threading.main_thread():
        yield stop_request
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop_request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
