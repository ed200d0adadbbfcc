"""`tierwise run` and `tierwise controllers`: the engine on a real cluster."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.cli import options
from tierwise.cli.connection import access_options, connect, listen_option, log_option

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.framework.report import CycleReport
    from tierwise.kube.auth import Access
    from tierwise.kube.cluster import ClusterOptions, KubeCluster
    from tierwise.model.snapshot import Snapshot
    from tierwise.port import Objects
    from tierwise.runtime.defrag import DefragSettings
    from tierwise.runtime.loop import Observer, SchedulerProfile
    from tierwise.web.live import LiveRuns

__all__ = [
    "ServeOptions",
    "connected",
    "controllers",
    "duty_of",
    "profiles_of",
    "run",
    "serve",
    "service_options",
    "told",
    "writing",
]


# What `tierwise run` and `tierwise controllers` have in common: their options, and a service by them.


_VOLCANO = "volcano-system"
"""Where Volcano is installed, with the configuration of its controllers."""


class ServeOptions(msgspec.Struct, frozen=True):
    """How a service runs, as its options say."""

    period: float
    no_leader_election: bool
    lease_name: str | None
    lease_namespace: str | None
    lease_duration: float
    discovery_files: Path | None
    discovery_namespaces: tuple[str, ...]
    listen: tuple[str, int] | None
    debug_port: int | None
    log_level: str
    cycle_limit: float


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a service; the command is given their `manner`."""

    @functools.wraps(command)
    def gathered(**words: object) -> None:
        found = {name: words.pop(name) for name in ServeOptions.__struct_fields__}
        command(manner=msgspec.convert(found, ServeOptions, strict=False, builtin_types=(Path,)), **words)

    taken: Callable[..., None] = gathered
    for option in (
        log_option,
        listen_option,
        click.option(
            "--debug-port",
            type=click.IntRange(1, 65535),
            metavar="PORT",
            help="Serve /debug/cycle there, on 127.0.0.1 alone: it names the jobs of all namespaces.",
        ),
        click.option(
            "--lease-duration",
            type=click.FloatRange(min=1.5),
            default=15.0,
            show_default=True,
            metavar="SECONDS",
            help="How long others wait for a leader that is silent.",
        ),
        click.option(
            "--lease-namespace",
            metavar="NAME",
            help="Where the lease and records are.  [default: the namespace that this runs in, else kube-system]",
        ),
        click.option("--lease-name", metavar="NAME", help="Which lease the leader holds.  [default: by the command]"),
        click.option("--no-leader-election", is_flag=True, help="Act without holding a lease: there is no other."),
        click.option(
            "--period",
            type=click.FloatRange(min=0.1),
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="Look again after so long even where nothing has changed.",
        ),
        click.option(
            "--cycle-limit",
            type=click.FloatRange(min=1.0),
            default=120.0,
            show_default=True,
            metavar="SECONDS",
            help="End the process where a cycle still decides after so long: a standby or a restart goes on.",
        ),
        click.option(
            "--discovery-files",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Topology sources that are files may be below this folder.  [default: they are refused]",
        ),
        click.option(
            "--discovery-namespace",
            "discovery_namespaces",
            multiple=True,
            metavar="NAME",
            help="Where ConfigMaps may describe the network, besides the namespace of the lease. May be repeated."
            f"  [default: {_VOLCANO}]",
        ),
    ):
        taken = option(taken)
    return taken


@contextlib.contextmanager
def connected(
    access: Access, manner: ServeOptions, *, component: str, by_eviction: bool = True
) -> Iterator[KubeCluster]:
    """A cluster that lists its objects while what decides about them is still imported.

    SIGTERM leaves it in order from the beginning: it may hold the lease already, which others would have to wait for.
    """
    from tierwise.kube.cluster import KubeCluster
    from tierwise.runtime.logs import set_up

    gc.disable()  # until the service knows what stays; nothing that is made before is garbage
    set_up(sys.stderr, manner.log_level)
    before = signal.signal(signal.SIGTERM, _end) if threading.current_thread() is threading.main_thread() else None
    try:
        with KubeCluster(access, _options(component, manner, by_eviction=by_eviction)) as cluster:
            yield cluster
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def serve(
    cluster: KubeCluster,
    manner: ServeOptions,
    duties: Sequence[SchedulerProfile],
    *,
    with_controllers: bool = True,
    pages: str = "",
    also: Sequence[Observer] = (),
    defrag: DefragSettings | None = None,
) -> None:
    """Schedule for these duties, and run the controllers, until told to end.

    `pages` are headed by that name; `also` are told of each turn besides; `defrag` keeps room open.
    """
    from tierwise.kube.auth import own_namespace
    from tierwise.runtime.listener import listening
    from tierwise.runtime.metrics import registry
    from tierwise.runtime.probes import debug, probes
    from tierwise.runtime.service import LoopRunner, LoopTiming
    from tierwise.runtime.telemetry import Telemetry

    found = registry()
    told = Telemetry(found, cluster)
    observers: list[Observer] = [told, *also]
    turns: LiveRuns | None = None
    if pages:
        from tierwise.web.live import LiveRuns

        turns = LiveRuns(pages)
        observers.append(turns)
    service = LoopRunner(
        cluster,
        duties,
        with_controllers=with_controllers,
        pace=LoopTiming(manner.period),
        observers=observers,
        files=manner.discovery_files,
        defrag=defrag,
        namespace=manner.lease_namespace or own_namespace("kube-system"),
        cycle_limit=manner.cycle_limit,
    )
    with contextlib.ExitStack() as servers:
        if manner.listen is not None:
            app = probes(found, live=service.live, ready=service.ready, refresh=told.refresh)
            if turns is not None:
                from tierwise.web.app import add_pages

                add_pages(app, turns, record=True)
            servers.enter_context(listening(app, *manner.listen))
        if manner.debug_port is not None:
            servers.enter_context(listening(debug(told.last), "127.0.0.1", manner.debug_port))
        service.run()


def _options(component: str, manner: ServeOptions, *, by_eviction: bool) -> ClusterOptions:
    from tierwise.kube.auth import own_namespace
    from tierwise.kube.cluster import ClusterOptions
    from tierwise.kube.lease import LeaseOptions, LeaseTimes

    own = own_namespace("kube-system")
    lease = None
    if not manner.no_leader_election:
        duration = manner.lease_duration
        identity = f"{socket.gethostname()}_{os.getpid()}"
        times = LeaseTimes(duration, deadline=duration * 2 / 3, retry=duration * 2 / 15)
        lease = LeaseOptions(manner.lease_name or component, manner.lease_namespace or own, identity, times)
    # Its own namespace counts in any case: the record of a defragmentation is there.
    trusted = frozenset((*(manner.discovery_namespaces or (_VOLCANO,)), manner.lease_namespace or own))
    return ClusterOptions(component, by_eviction=by_eviction, lease=lease, trusted=trusted)


@click.command(
    epilog="""\b
Examples:
  tierwise run --kubeconfig ~/.kube/config --no-leader-election
  tierwise run --in-cluster --scheduler-name tierwise --scheduler-name volcano
  tierwise run --config volcano-scheduler.conf --profile batch=batch.conf
"""
)
@access_options
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Schedule pods that ask for this scheduler. May be repeated.  [default: as configured, else tierwise]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(),
    metavar="FILE",
    help="Scheduler configuration: Volcano's format, or a KubeSchedulerConfiguration.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME=FILE",
    help="Schedule pods that ask for scheduler NAME by a configuration of their own. May be repeated.",
)
@click.option("--no-controllers", is_flag=True, help="Only schedule: `tierwise controllers` runs elsewhere.")
@click.option(
    "--evict-by",
    type=click.Choice(["eviction", "delete"]),
    default="eviction",
    show_default=True,
    help="Evict through the Eviction API, which honours disruption budgets, or delete.",
)
@options.journal
@click.option(
    "--defrag",
    "rooms",
    multiple=True,
    metavar="SHAPExPODS@TIER",
    help="Keep room open for such a gang: move pods where none fits. May be repeated.  [default: never]",
)
@click.option(
    "--defrag-every",
    callback=options.seconds_of,
    default="10m",
    show_default=True,
    metavar="TIME",
    help="How often to look whether there is room.",
)
@click.option(
    "--defrag-moves",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    metavar="N",
    help="How many jobs may be moved in an hour.",
)
@click.option(
    "--defrag-hours",
    type=click.FloatRange(min=0),
    default=100.0,
    show_default=True,
    metavar="HOURS",
    help="How many hours of work on GPUs (or cores, where there are none) moves may lose in an hour.",
)
@click.option(
    "--eta-every",
    callback=options.seconds_of,
    default=None,
    metavar="TIME",
    help="How often to write expected starts on waiting podGroups.  [default: never]",
)
@click.option(
    "--pages",
    "with_pages",
    is_flag=True,
    help="With --listen: serve the pages of `tierwise serve` there, for everyone who can reach the port.",
)
@service_options
def run(
    manner: ServeOptions,
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    names: tuple[str, ...],
    config_file: str | None,
    profiles: tuple[str, ...],
    no_controllers: bool,
    evict_by: str,
    with_pages: bool,
    journal: Path | None,
    journal_size: int,
    rooms: tuple[str, ...],
    defrag_every: float,
    defrag_moves: int,
    defrag_hours: float,
    eta_every: float | None,
) -> None:
    """Schedule the pods of a cluster, and run the controllers, until told to end.

    Pods of other schedulers are left alone, and count as used where they run. Several of these may run at once: one
    holds the lease and acts, the others wait with filled caches. SIGTERM ends after the binds under way.
    """
    if with_pages and manner.listen is None:
        raise click.UsageError("--pages needs --listen: that is where they are served")
    defrag = _kept_open(rooms, defrag_every, defrag_moves, defrag_hours)
    access = connect(kubeconfig, context, in_cluster=in_cluster)
    with connected(access, manner, component="tierwise", by_eviction=evict_by == "eviction") as cluster:
        duties = profiles_of(names, config_file, profiles)
        pages = access.server if with_pages else ""
        with writing(journal, journal_size, duties) as writers, foretelling(cluster, eta_every) as also:
            writers = (*writers, *also)
            controllers = not no_controllers
            serve(cluster, manner, duties, with_controllers=controllers, pages=pages, also=writers, defrag=defrag)


def _kept_open(rooms: tuple[str, ...], every: float, moves: int, hours: float) -> DefragSettings | None:
    """What a defragmentation keeps open; None where it is off. Tiers are looked up when the cluster is known."""
    if not rooms:
        return None
    from tierwise.runtime.defrag import DefragSettings
    from tierwise.sim.defragmentation.plan import check_form

    for room in rooms:
        check_form(room, "--defrag")
    return DefragSettings(rooms, every=every, moves=moves, hours=hours)


@contextlib.contextmanager
def foretelling(cluster: KubeCluster, every: float | None) -> Iterator[Sequence[Observer]]:
    """The writer of expected starts, where they are asked for, with a thread of its own."""
    if every is None:
        yield ()
        return
    import time
    from concurrent.futures import ThreadPoolExecutor

    from tierwise.runtime.forecasts import ForecastWriter

    executor = ThreadPoolExecutor(1, "forecasts")
    try:
        yield (ForecastWriter(cluster, executor, ticks=time.monotonic, every=every),)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def writing(folder: Path | None, mebibytes: int, duties: Sequence[SchedulerProfile]) -> Iterator[Sequence[Observer]]:
    """The writer of a journal, where one is asked for; it ends in order."""
    if folder is None:
        yield ()
        return
    from tierwise.runtime.journal import JournalWriter

    writer = JournalWriter(folder, mebibytes << 20, tuple(duties))
    try:
        yield (writer,)
    finally:
        writer.close()


def told(observers: Sequence[Observer], profile: Profile) -> Callable[[Snapshot, CycleReport, Objects], None]:
    """Lets a simulation tell observers of its cycles, as the loop on a cluster does."""
    if not observers:
        return lambda *_: None
    from tierwise.runtime.loop import LoopPass

    def tell(snapshot: Snapshot, report: CycleReport, objects: Objects) -> None:
        for observer in observers:
            observer.saw(LoopPass(snapshot, report, (), profile, objects=objects))

    return tell


def duty_of(profile: Profile) -> SchedulerProfile:
    """Whom a simulation schedules for: every name that tierwise knows."""
    from tierwise.runtime.loop import SchedulerProfile
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    return SchedulerProfile(SCHEDULER_NAMES.union(profile.schedulers), profile)


@click.command(
    epilog="""\b
Examples:
  tierwise controllers --in-cluster
  tierwise controllers --kubeconfig ~/.kube/config --no-leader-election
"""
)
@access_options
@service_options
def controllers(manner: ServeOptions, kubeconfig: str | None, in_cluster: bool, context: str | None) -> None:
    """Run the controllers on a cluster without the scheduler, until told to end.

    They make podGroups and pods of Volcano jobs, hyperNodes from node labels, and keep status. `tierwise run` does the
    same unless it is told not to.
    """
    access = connect(kubeconfig, context, in_cluster=in_cluster)
    with connected(access, manner, component="tierwise-controllers") as cluster:
        serve(cluster, manner, [])


def profiles_of(names: tuple[str, ...], config_file: str | None, profiles: tuple[str, ...]) -> list[SchedulerProfile]:
    """Scheduler names and their profiles, as the options say."""
    from tierwise.cli.inputs import profile_of
    from tierwise.runtime.loop import SchedulerProfile

    own: dict[str, str] = {}
    for given in profiles:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"--profile takes NAME=FILE, not {given}")
        own[name] = file
    profile = profile_of(config_file)
    # A KubeSchedulerConfiguration names its schedulers itself.
    usual = () if own and config_file is None else profile.schedulers or ("tierwise",)
    rest = frozenset(names or usual).difference(own)
    duties = [SchedulerProfile(rest, profile)] if rest else []
    return duties + [SchedulerProfile(frozenset({name}), profile_of(file)) for name, file in own.items()]
