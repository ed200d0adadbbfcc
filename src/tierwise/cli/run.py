"""`tierwise run` and `tierwise controllers`: the engine on a real cluster."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.cli import connection, options
from tierwise.cli.answers import AnswersOptions, answering
from tierwise.cli.connection import ClusterAccess
from tierwise.cli.inputs import need, profile_of
from tierwise.cli.options import Journal, option, verb

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.controllers.job import KeySource
    from tierwise.framework.report import CycleReport
    from tierwise.kube.auth import Access
    from tierwise.kube.cluster import ClusterOptions, KubeCluster
    from tierwise.model.snapshot import Snapshot
    from tierwise.port import Objects
    from tierwise.runtime.defrag import DefragSettings
    from tierwise.runtime.profile_run import Observer, SchedulerProfile
    from tierwise.runtime.telemetry import Telemetry
    from tierwise.web.live import LiveRuns

__all__ = ["controllers", "profiles_of", "run", "scheduler_profile", "told", "writing"]


# What `tierwise run` and `tierwise controllers` have in common: their options, and a service by them.


_VOLCANO = "volcano-system"
"""Where Volcano is installed, with the configuration of its controllers."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a service runs."""

    discovery_namespaces: tuple[str, ...] = option(
        "--discovery-namespace NAME",
        "Where ConfigMaps may describe the network, besides the namespace of the lease. May be repeated."
        f"  [default: {_VOLCANO}]",
    )
    discovery_files: Path | None = option(
        "--discovery-files DIR",
        "Topology sources that are files may be below this folder.  [default: they are refused]",
    )
    job_ssh: bool = option(
        "--job-ssh",
        "Make Secrets with keys for Volcano Jobs with the plugins ssh and mpi: needs the right to create Secrets."
        "  [default: such Jobs wait]",
    )
    cycle_limit: float = option(
        "--cycle-limit SECONDS",
        "End the process if a cycle takes longer than this; a standby or a restart takes over.",
        default=120.0,
        least=1.0,
    )
    period: float = option(
        "--period SECONDS", "Run a cycle after this time even if nothing has changed.", default=5.0, least=0.1
    )
    no_leader_election: bool = option("--no-leader-election", "Act without a lease, because no other replica runs.")
    lease_name: str | None = option("--lease-name NAME", "Name of the leader's lease.  [default: by the command]")
    lease_namespace: str | None = option(
        "--lease-namespace NAME",
        "Namespace of the lease and of the records.  [default: the namespace that this runs in, else kube-system]",
    )
    lease_duration: float = option(
        "--lease-duration SECONDS", "How long other replicas wait for a silent leader.", default=15.0, least=1.5
    )
    debug_port: int | None = option(
        "--debug-port PORT",
        "Serve the last cycle, profiles, allocations and threads below /debug there, on 127.0.0.1 alone: they name the "
        "jobs of all namespaces.",
        least=1,
        most=65535,
    )
    debug_token: Path | None = option(
        "--debug-token FILE", "With --debug-port: serve it on all addresses, to those who send the token in this file."
    )
    traces: str | None = option(
        "--traces URL",
        "Send a trace of each cycle to this collector by OTLP over HTTP.  [default: none is made]",
    )
    trace_gangs: float = option(
        "--trace-gangs SECONDS", "Give gangs that take longer than this a span of their own.", default=0.05, least=0.0
    )
    listen: tuple[str, int] | None = connection.listen
    log_level: str = connection.log_level


class DefragOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which room a defragmentation keeps open, and how much it may move for it."""

    rooms: tuple[str, ...] = option(
        "--defrag SHAPExPODS@TIER",
        "Keep room for a gang of this shape: move pods if it fits nowhere. May be repeated.  [default: never]",
    )
    defrag_every: float = option(
        "--defrag-every TIME", "How often to check whether there is room.", default="10m", read=options.seconds
    )
    defrag_moves: int = option("--defrag-moves N", "How many jobs may be moved in an hour.", default=4, least=0)
    defrag_hours: float = option(
        "--defrag-hours HOURS",
        "How many hours of work on GPUs (or cores, where there are none) moves may lose in an hour.",
        default=100.0,
        least=0,
    )

    def settings(self) -> DefragSettings | None:
        """Settings for defragmentation; None if it is off. Tiers are looked up once the cluster is known."""
        if not self.rooms:
            return None
        from tierwise.runtime.defrag import DefragSettings
        from tierwise.sim.defragmentation.plan import check_form

        for room in self.rooms:
            check_form(room, "--defrag")
        return DefragSettings(self.rooms, every=self.defrag_every, moves=self.defrag_moves, hours=self.defrag_hours)


@contextlib.contextmanager
def connected(
    access: Access, options: ServeOptions, *, component: str, by_eviction: bool = True
) -> Iterator[KubeCluster]:
    """A cluster that lists its objects while what decides about them is still imported.

    SIGTERM leaves it in order from the beginning: it may hold the lease already, which others would have to wait for.
    """
    from tierwise.kube.cluster import KubeCluster
    from tierwise.runtime.logs import set_up

    gc.disable()  # until the service knows what stays; nothing that is made before is garbage
    set_up(sys.stderr, options.log_level)
    before = signal.signal(signal.SIGTERM, _end) if threading.current_thread() is threading.main_thread() else None
    try:
        with KubeCluster(access, _options(component, options, by_eviction=by_eviction)) as cluster:
            yield cluster
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def serve(
    cluster: KubeCluster,
    options: ServeOptions,
    profiles: Sequence[SchedulerProfile],
    *,
    with_controllers: bool = True,
    pages: str = "",
    also: Sequence[Observer] = (),
    defrag: DefragSettings | None = None,
) -> None:
    """Schedule by these profiles, and run the controllers, until told to end.

    `pages` are headed by that name; `also` are told of each iteration besides; `defrag` keeps room open.
    """
    from tierwise.kube.auth import own_namespace
    from tierwise.runtime.listener import listening
    from tierwise.runtime.metrics import registry, tell_features
    from tierwise.runtime.probes import probes
    from tierwise.runtime.service import LoopRunner, LoopTiming
    from tierwise.runtime.telemetry import Telemetry

    metrics = registry()
    tell_features(metrics, [profile.profile for profile in profiles])
    telemetry = Telemetry(metrics, cluster)
    observers: list[Observer] = [telemetry, *also]
    runs: LiveRuns | None = None
    if pages:
        from tierwise.web.live import LiveRuns

        runs = LiveRuns(pages, slow=telemetry.slow_writes)
        observers.append(runs)
    servers = contextlib.ExitStack()
    if options.traces is not None:
        from tierwise.runtime.tracing import TraceWriter, sending

        tracer = servers.enter_context(sending(options.traces, "--traces"))
        observers.append(TraceWriter(tracer, ticks=time.monotonic, clock=time.time))
    service = LoopRunner(
        cluster,
        profiles,
        with_controllers=with_controllers,
        timing=LoopTiming(options.period),
        observers=observers,
        files=options.discovery_files,
        defrag=defrag,
        namespace=options.lease_namespace or own_namespace("kube-system"),
        cycle_limit=options.cycle_limit,
        slow=options.trace_gangs if options.traces is not None else None,
        keys=_keys(options),
    )
    with servers:
        if options.listen is not None:
            app = probes(
                metrics,
                live=service.live,
                ready=service.ready,
                refresh=telemetry.refresh,
                review=telemetry.review,
                notes=cluster.slow,
            )
            if runs is not None:
                from tierwise.web.app import add_pages

                add_pages(app, runs, record=True)
            servers.enter_context(listening(app, *options.listen))
        if options.debug_port is not None:
            servers.enter_context(_debugging(options, telemetry, cluster))
        service.run()


def _keys(options: ServeOptions) -> KeySource | None:
    if not options.job_ssh:
        return None
    from tierwise.runtime.job_keys import JobKeys

    return JobKeys()


def _debugging(options: ServeOptions, telemetry: Telemetry, cluster: KubeCluster) -> AbstractContextManager[None]:
    """Server of /debug: for this machine only, or for clients that have the token."""
    from tierwise.api.errors import InputError
    from tierwise.runtime.access import LOOPBACK, Access
    from tierwise.runtime.listener import listening
    from tierwise.runtime.probes import debug

    host = "127.0.0.1"
    access = Access(hosts=LOOPBACK)
    if options.debug_token is not None:
        try:
            token = options.debug_token.read_text().strip()
        except (OSError, UnicodeError) as error:
            raise InputError(f"--debug-token cannot be read: {error}", file=str(options.debug_token)) from None
        if not token:
            raise InputError("--debug-token: the file is empty", file=str(options.debug_token))
        host = "0.0.0.0"
        access = Access(token=token)
    return listening(debug(telemetry.last, access=access, loops=lambda: (cluster.loop,)), host, options.debug_port or 0)


def _options(component: str, options: ServeOptions, *, by_eviction: bool) -> ClusterOptions:
    from tierwise.kube.auth import own_namespace
    from tierwise.kube.cluster import ClusterOptions
    from tierwise.kube.lease import LeaseOptions, LeaseTimes

    namespace = own_namespace("kube-system")
    lease = None
    if not options.no_leader_election:
        duration = options.lease_duration
        identity = f"{socket.gethostname()}_{os.getpid()}"
        times = LeaseTimes(duration, deadline=duration * 2 / 3, retry=duration * 2 / 15)
        lease = LeaseOptions(options.lease_name or component, options.lease_namespace or namespace, identity, times)
    # Its own namespace counts in any case: the record of a defragmentation is there.
    trusted = frozenset((*(options.discovery_namespaces or (_VOLCANO,)), options.lease_namespace or namespace))
    return ClusterOptions(component, by_eviction=by_eviction, lease=lease, trusted=trusted)


@verb(
    """
  tierwise run --kubeconfig ~/.kube/config --no-leader-election
  tierwise run --in-cluster --scheduler-name tierwise --scheduler-name volcano
  tierwise run --config volcano-scheduler.conf --profile batch=batch.conf
""",
    decides=True,
)
def run(
    *,
    access: ClusterAccess,
    names: tuple[str, ...] = option(
        "--scheduler-name NAME",
        "Schedule pods that ask for this scheduler. May be repeated.  [default: as configured, else tierwise]",
    ),
    config_file: str | None = options.config,
    profiles: tuple[str, ...] = option(
        "--profile NAME=FILE",
        "Schedule pods that ask for scheduler NAME by a configuration of their own. May be repeated.",
    ),
    no_controllers: bool = option("--no-controllers", "Only schedule: `tierwise controllers` runs elsewhere."),
    evict_by: str = option(
        "--evict-by",
        "Evict through the Eviction API, which honours disruption budgets, or delete.",
        choices=("eviction", "delete"),
        default="eviction",
    ),
    journal: Journal,
    defrag: DefragOptions,
    eta_every: float | None = option(
        "--eta-every TIME",
        "How often to write expected starts on waiting podGroups.  [default: never]",
        read=options.seconds,
    ),
    with_pages: bool = option(
        "--pages", "With --listen: serve the pages of `tierwise serve` there, for everyone who can reach the port."
    ),
    answers: AnswersOptions,
    service: ServeOptions,
) -> None:
    """Schedule the pods of a cluster, and run the controllers, until told to end.

    Pods of other schedulers are left alone, and count as used where they run. Several of these may run at once: one
    holds the lease and acts, the others wait with filled caches. SIGTERM ends after the binds under way.
    """
    if with_pages and service.listen is None:
        raise click.UsageError("--pages needs --listen: that is where they are served")
    room = defrag.settings()
    reached = access.connect()
    with connected(reached, service, component="tierwise", by_eviction=evict_by == "eviction") as cluster:
        served = profiles_of(names, config_file, profiles)
        if room is not None:
            need("DefragmentationExecution", "--defrag", *(profile.profile for profile in served))
        pages = reached.server if with_pages else ""
        with (
            writing(journal, served) as writers,
            foretelling(cluster, eta_every) as also,
            answering(answers, cluster, reached, served),
        ):
            observers = (*writers, *also)
            controllers = not no_controllers
            serve(cluster, service, served, with_controllers=controllers, pages=pages, also=observers, defrag=room)


@contextlib.contextmanager
def foretelling(cluster: KubeCluster, every: float | None) -> Iterator[Sequence[Observer]]:
    """The writer of expected starts, where they are asked for, with a thread of its own."""
    if every is None:
        yield ()
        return
    from concurrent.futures import ThreadPoolExecutor

    from tierwise.runtime.forecasts import ForecastWriter

    executor = ThreadPoolExecutor(1, "forecasts")
    try:
        yield (ForecastWriter(cluster, executor, ticks=time.monotonic, every=every),)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def writing(options: Journal, profiles: Sequence[SchedulerProfile]) -> Iterator[Sequence[Observer]]:
    """The writer of a journal, where one is asked for; it ends in order."""
    if options.journal is None:
        yield ()
        return
    need("Journal", "--journal", *(profile.profile for profile in profiles))
    from tierwise.runtime.journal import JournalWriter

    writer = JournalWriter(options.journal, options.journal_size << 20, tuple(profiles))
    try:
        yield (writer,)
    finally:
        writer.close()


def told(observers: Sequence[Observer], profile: Profile) -> Callable[[Snapshot, CycleReport, Objects], None]:
    """Lets a simulation tell observers of its cycles, as the loop on a cluster does."""
    if not observers:
        return lambda *_: None
    from tierwise.runtime.profile_run import LoopPass

    def tell(snapshot: Snapshot, report: CycleReport, objects: Objects) -> None:
        for observer in observers:
            observer.saw(LoopPass(snapshot, report, (), profile, objects=objects))

    return tell


def scheduler_profile(profile: Profile) -> SchedulerProfile:
    """Profile that a simulation schedules by, for every scheduler name that tierwise knows."""
    from tierwise.runtime.profile_run import SchedulerProfile
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    return SchedulerProfile(SCHEDULER_NAMES.union(profile.schedulers), profile)


@verb("""
  tierwise controllers --in-cluster
  tierwise controllers --kubeconfig ~/.kube/config --no-leader-election
""")
def controllers(*, access: ClusterAccess, service: ServeOptions) -> None:
    """Run the controllers on a cluster without the scheduler, until told to end.

    They make podGroups and pods of Volcano jobs, hyperNodes from node labels, and keep status. `tierwise run` does the
    same unless it is told not to.
    """
    with connected(access.connect(), service, component="tierwise-controllers") as cluster:
        serve(cluster, service, [])


def profiles_of(names: tuple[str, ...], config_file: str | None, profiles: tuple[str, ...]) -> list[SchedulerProfile]:
    """Scheduler names and their profiles, as the options say."""
    from tierwise.runtime.profile_run import SchedulerProfile

    files: dict[str, str] = {}
    for profile_text in profiles:
        name, equals, file = profile_text.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"--profile takes NAME=FILE, not {profile_text}")
        files[name] = file
    profile = profile_of(config_file)
    # A KubeSchedulerConfiguration names its schedulers itself.
    usual = () if files and config_file is None else profile.schedulers or ("tierwise",)
    names_without_file = frozenset(names or usual).difference(files)
    shared = [SchedulerProfile(names_without_file, profile)] if names_without_file else []
    return shared + [SchedulerProfile(frozenset({name}), profile_of(file)) for name, file in files.items()]
